//! Combinators: suffixes of an aggregate's name that change what it aggregates, or its value for no
//! rows.

use std::fmt;

use super::{Function, FunctionKind, function_named, not_null};
use crate::types::{Kind, Type};

/// Besides `If`, which is a filter, and `Distinct`, which is the call's `DISTINCT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Combinators {
    pub nesting: Option<Nesting>,
    /// `ArgMin`, `ArgMax`: only the rows whose last argument is the smallest or greatest.
    pub extreme: Option<Extreme>,
    pub empty: Option<EmptyValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// All elements of all arrays.
    Array,
    /// The elements at each position of the arrays.
    ForEach,
    /// The values of each key of the maps.
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    Min,
    Max,
}

/// The value for no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyValue {
    Null,
    Default,
}

/// An aggregate and what its name says about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combined {
    pub function: &'static Function,
    pub combinators: Combinators,
    pub conditional: bool,
    pub distinct: bool,
}

impl Combined {
    fn plain(function: &'static Function) -> Self {
        let combinators = Combinators::default();
        Self { function, combinators, conditional: false, distinct: false }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut named = Self::read(name)?;
        let Combinators { nesting, empty, .. } = &mut named.combinators;
        // PostHog's `avgArray` is null for no elements.
        if matches!(named.function.name, "avg" | "median") && *nesting == Some(Nesting::Array) {
            empty.get_or_insert(EmptyValue::Null);
        }
        Some(named)
    }

    /// Reads the suffixes of a name, from the last one on. Each may occur once, in the order in which
    /// ClickHouse's own documentation combines them.
    fn read(name: &str) -> Option<Self> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        if let Some(function) = function_named(name) {
            return Some(Self::plain(function));
        }
        let (rest, suffix) = SUFFIXES.iter().find_map(|(text, suffix)| {
            let at = name.len().checked_sub(text.len()).filter(|at| name.is_char_boundary(*at))?;
            let (rest, last) = name.split_at(at);
            last.eq_ignore_ascii_case(text).then_some((rest, *suffix))
        })?;
        let inner = Self::read(rest)?;
        (inner.function.kind == FunctionKind::Aggregate).then_some(())?;
        match suffix {
            Suffix::State => inner.state(),
            Suffix::Merge => inner.merge(),
            _ => inner.with(suffix),
        }
    }

    /// The state of an aggregate of one argument is the array of what it aggregates: the same rows give
    /// the same result, whoever merges them. That of `count` is the number.
    fn state(self) -> Option<Self> {
        let is_plain = self.combinators == Combinators::default() && !self.distinct;
        let state = match self.function.name {
            "count" => "count",
            "uniq" | "uniqExact" => "groupUniqArray",
            // Two arrays are one pair.
            "sumMap" => "groupArray",
            _ if self.function.arity() == (1, Some(1)) && self.function.parameters == (0, 0) => {
                "groupArray"
            }
            _ => return None,
        };
        let function = function_named(state)?;
        (is_plain && !self.conditional).then_some(Self { function, ..self })
    }

    fn merge(self) -> Option<Self> {
        if self.function.name == "count" {
            let function = function_named("sum")?;
            return self.state().map(|state| Self { function, ..state });
        }
        self.state()?;
        self.with(Suffix::Nesting(Nesting::Array))
    }

    fn with(self, suffix: Suffix) -> Option<Self> {
        let Combinators { nesting, extreme, empty } = self.combinators;
        match suffix {
            Suffix::If if !self.conditional => Some(Self { conditional: true, ..self }),
            Suffix::Empty(value) if empty.is_none() => {
                let combinators = Combinators { empty: Some(value), ..self.combinators };
                Some(Self { combinators, ..self })
            }
            // What changes the arguments stands before what changes the rows and the result.
            _ if self.conditional || empty.is_some() => None,
            Suffix::Extreme(which) if extreme.is_none() => {
                let combinators = Combinators { extreme: Some(which), ..self.combinators };
                Some(Self { combinators, ..self })
            }
            Suffix::Nesting(how) if nesting.is_none() && extreme.is_none() => {
                let combinators = Combinators { nesting: Some(how), extreme, empty };
                Some(Self { combinators, ..self })
            }
            Suffix::Distinct if nesting.is_none() && extreme.is_none() && !self.distinct => {
                Some(Self { distinct: true, ..self })
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Suffix {
    If,
    Distinct,
    Nesting(Nesting),
    Extreme(Extreme),
    Empty(EmptyValue),
    State,
    Merge,
}

/// Bytes of a name with its suffixes, more than any that is valid has: each suffix is a level of recursion.
const NAME_BYTES_MAX: usize = 128;

const SUFFIXES: &[(&str, Suffix)] = &[
    ("If", Suffix::If),
    ("Distinct", Suffix::Distinct),
    ("Array", Suffix::Nesting(Nesting::Array)),
    ("ForEach", Suffix::Nesting(Nesting::ForEach)),
    ("Map", Suffix::Nesting(Nesting::Map)),
    ("ArgMin", Suffix::Extreme(Extreme::Min)),
    ("ArgMax", Suffix::Extreme(Extreme::Max)),
    ("OrNull", Suffix::Empty(EmptyValue::Null)),
    ("OrDefault", Suffix::Empty(EmptyValue::Default)),
    ("State", Suffix::State),
    ("Merge", Suffix::Merge),
];

/// The suffixes, as in a name.
impl fmt::Display for Combinators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nesting) = self.nesting {
            write!(f, "{nesting:?}")?;
        }
        if let Some(extreme) = self.extreme {
            write!(f, "Arg{extreme:?}")?;
        }
        match self.empty {
            Some(empty) => write!(f, "Or{empty:?}"),
            None => Ok(()),
        }
    }
}

impl Combinators {
    /// What the aggregate itself takes: elements instead of arrays, and no key. None if these are no
    /// arguments for the combinators.
    pub fn inner(&self, args: &[Type]) -> Option<Vec<Type>> {
        let args = match self.extreme {
            Some(_) => args.split_last().map(|(_, own)| own).filter(|own| !own.is_empty())?,
            None => args,
        };
        match self.nesting {
            None => Some(args.to_vec()),
            Some(Nesting::Array | Nesting::ForEach) if !args.is_empty() => {
                args.iter().map(|arg| arg.element().cloned()).collect()
            }
            Some(Nesting::Map) => match args {
                [Type { kind: Kind::Map(pair), .. }] => Some(vec![pair.1.clone()]),
                _ => None,
            },
            Some(_) => None,
        }
    }

    /// The type of a call with arguments of these types. None if they do not match.
    pub fn result(&self, function: &Function, args: &[Type]) -> Option<Type> {
        let own = function.result(&self.inner(args)?)?;
        let nested = match (self.nesting, args.first()) {
            (Some(Nesting::ForEach), _) => Type::array(own),
            (Some(Nesting::Map), Some(Type { kind: Kind::Map(pair), .. })) => {
                Kind::Map(Box::new((pair.0.clone(), own))).into()
            }
            _ => own,
        };
        Some(match self.empty {
            None => nested,
            Some(EmptyValue::Null) => nested.or_null(true),
            Some(EmptyValue::Default) => not_null(nested),
        })
    }
}
