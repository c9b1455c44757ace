//! The function table: signatures for resolving, evaluating and documenting.

mod absent;
mod aggregates;
mod arrays;
mod bitmaps;
mod bits;
mod combinators;
mod conversions;
mod dates;
mod definitions;
mod maps;
mod math;
mod network;
mod operators;
pub(crate) mod scalars;
mod search;
mod strings;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::{Kind, Type, bits as width, integer};

pub use absent::{ABSENT, Absent};
pub(crate) use aggregates::FUNNEL_MODES;
pub(crate) use combinators::Combined;
pub use combinators::{Combinators, EmptyValue, Extreme, Nesting};
pub(crate) use definitions::{REDUCERS, definition, reducer};
pub(crate) use operators::{Operator, operator};

/// The signature of a function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub kind: FunctionKind,
    /// Minimum and maximum number of parameters in `f(parameters)(arguments)`.
    pub parameters: (usize, usize),
    pub lambda: Lambda,
    /// Arguments, without the lambda.
    pub args: &'static [Arg],
    /// How many trailing arguments are optional.
    pub optional: usize,
    /// Whether the last argument is variadic.
    pub repeats: bool,
    pub returns: Returns,
    pub nulls: Nulls,
    /// What it stands for, one expression for each number of arguments from the fewest on, which it
    /// calls `_1`, `_2` and so on. Empty if the function is evaluated itself.
    pub bodies: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    Scalar,
    /// Also takes `OVER`, and the `If` combinator: a name suffix and a condition as last argument.
    Aggregate,
    /// Only with `OVER`.
    Window,
}

/// Whether the first argument is a lambda, which applies to the arrays that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lambda {
    None,
    Optional,
    Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    Any,
    String,
    Int,
    Number,
    Condition,
    /// A date or a date-time.
    Time,
    Interval,
    Array,
    Map,
    Tuple,
    /// A constant unit of time, such as `'day'`.
    Unit,
    /// A constant time zone name.
    Zone,
    /// A constant string.
    ConstString,
    /// A constant integer.
    ConstInt,
    /// A member's name or an element's index.
    Key,
}

/// How the result type follows from the argument types. For functions with a lambda, the type of the
/// lambda's result (or of the elements, without one) precedes the arguments.
#[derive(Clone, Copy, Debug)]
pub enum Returns {
    Kind(Fixed),
    /// The type of the argument at this index.
    Arg(usize),
    /// The element type of the argument at this index.
    Element(usize),
    /// An array of the type of the argument at this index.
    ArrayOf(usize),
    /// The common type of the arguments from this index on.
    Common(usize),
    By(fn(&[Type]) -> Option<Type>),
}

/// Result kinds that can be named in a const.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    Bool,
    Int8,
    Int16,
    Int32,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Int64,
    Float,
    String,
    Strings,
    StringLists,
    Numbers,
    Floats,
    Uuid,
    Date,
    DateTime,
}

impl Fixed {
    pub fn ty(self) -> Type {
        self.kind().into()
    }

    fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::Int8 => Kind::Int(8),
            Self::Int16 => Kind::Int(16),
            Self::Int32 => Kind::Int(32),
            Self::UInt8 => Kind::UInt(8),
            Self::UInt16 => Kind::UInt(16),
            Self::UInt32 => Kind::UInt(32),
            Self::UInt64 => Kind::UInt(64),
            Self::Int64 => Kind::Int(64),
            Self::Float => Kind::Float,
            Self::String => Kind::String,
            Self::Strings => Kind::Array(Box::new(Kind::String.into())),
            Self::StringLists => Kind::Array(Box::new(Type::array(Kind::String.into()))),
            Self::Numbers => Kind::Array(Box::new(Kind::UInt(64).into())),
            Self::Floats => Kind::Array(Box::new(Kind::Float.into())),
            Self::Uuid => Kind::Uuid,
            Self::Date => Kind::Date,
            Self::DateTime => Kind::DATE_TIME,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Null if an argument is; a result that is an array is then empty.
    Strict,
    /// As strict, and null for a string that it cannot parse.
    OrNull,
    /// The function handles nulls itself; its result type tells whether it may be null.
    Custom,
    /// An aggregate that skips nulls and is never null: over no rows it is 0, as `count`.
    SkipToZero,
    /// Skips nulls. Over no rows it is null if an argument is nullable, otherwise the default of its
    /// type, as in ClickHouse with `aggregate_functions_null_for_empty = 0`.
    Skip,
}

const fn function(name: &'static str, args: &'static [Arg], returns: Returns) -> Function {
    Function {
        name,
        aliases: &[],
        kind: FunctionKind::Scalar,
        parameters: (0, 0),
        lambda: Lambda::None,
        args,
        optional: 0,
        repeats: false,
        returns,
        nulls: Nulls::Strict,
        bodies: &[],
    }
}

impl Function {
    const fn also(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    const fn optional(self, optional: usize) -> Self {
        Self { optional, ..self }
    }

    const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }

    const fn nulls(self, nulls: Nulls) -> Self {
        Self { nulls, ..self }
    }

    const fn lambda(self, lambda: Lambda) -> Self {
        Self { lambda, ..self }
    }

    const fn parameters(self, min: usize, max: usize) -> Self {
        Self { parameters: (min, max), ..self }
    }

    const fn kind(self, kind: FunctionKind) -> Self {
        Self { kind, ..self }
    }

    const fn means(self, bodies: &'static [&'static str]) -> Self {
        Self { bodies, ..self }
    }

    /// Minimum and maximum number of arguments, without a lambda; no maximum if variadic.
    pub fn arity(&self) -> (usize, Option<usize>) {
        let max = (!self.repeats).then_some(self.args.len());
        (self.args.len() - self.optional, max)
    }

    /// The requirement on the argument at this index.
    pub fn arg(&self, no: usize) -> Option<Arg> {
        self.args.get(no).or_else(|| self.args.last().filter(|_| self.repeats)).copied()
    }

    /// The type of a call. None if the argument types do not match.
    pub fn result(&self, args: &[Type]) -> Option<Type> {
        let any_null = args.iter().any(|arg| arg.nullable);
        let plain = |index: usize| args.get(index).cloned();
        let result = match self.returns {
            Returns::Kind(kind) => kind.kind().into(),
            Returns::Arg(index) => plain(index)?,
            Returns::Element(index) => args.get(index)?.element()?.clone(),
            Returns::ArrayOf(index) => Type::array(plain(index)?),
            Returns::Common(from) => common(args.get(from..)?)?,
            Returns::By(rule) => rule(args)?,
        };
        Some(match self.nulls {
            Nulls::Custom => result,
            Nulls::Strict => result.or_null(any_null),
            Nulls::OrNull => {
                let unread = args.first().is_some_and(|arg| arg.kind.is_string());
                result.or_null(any_null || unread)
            }
            Nulls::SkipToZero => not_null(result),
            Nulls::Skip => not_null(result).or_null(any_null),
        })
    }
}

/// The common type of all of these.
pub(crate) fn common(types: &[Type]) -> Option<Type> {
    let (first, rest) = types.split_first()?;
    rest.iter().try_fold(first.clone(), |common, ty| common.common(ty))
}

fn not_null(ty: Type) -> Type {
    Type { nullable: false, ..ty }
}

/// Result of `sum` and similar aggregates: the widest type of the same family, against overflow.
fn widest(types: &[Type]) -> Option<Type> {
    let kind = match &types.first()?.kind {
        Kind::Float => Kind::Float,
        Kind::Decimal(scale) => Kind::Decimal(*scale),
        Kind::Null => Kind::Int(64),
        kind if kind.is_integer() => integer(width(kind).0, 64),
        _ => return None,
    };
    Some(kind.into())
}

/// Looks up the exact name, then the case-insensitive name unless it is ambiguous.
pub fn function_named(name: &str) -> Option<&'static Function> {
    let index = &*INDEX;
    let function =
        index.exact.get(name).or_else(|| index.folded.get(&name.to_ascii_lowercase())?.as_ref());
    function.copied()
}

/// All functions, in the order of the table.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    let families = [
        aggregates::AGGREGATES,
        aggregates::WINDOWS,
        operators::OPERATORS,
        scalars::CONDITIONS,
        conversions::CONVERSIONS,
        scalars::ARITHMETIC,
        math::MATH,
        bits::BITS,
        bitmaps::BITMAPS,
        strings::STRINGS,
        search::SEARCH,
        dates::DATES,
        strings::JSON,
        arrays::ARRAYS,
        maps::MAPS,
        network::URLS,
        network::ADDRESSES,
        network::TRAFFIC,
        network::POSTHOG,
    ];
    families.into_iter().flatten()
}

struct Index {
    exact: HashMap<&'static str, &'static Function>,
    /// By lower-case name; None if several functions share it.
    folded: HashMap<String, Option<&'static Function>>,
}

/// A constant: built once from the tables above, which `const` code cannot hash.
static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index { exact: HashMap::new(), folded: HashMap::new() };
    for function in functions() {
        for name in std::iter::once(function.name).chain(function.aliases.iter().copied()) {
            index.exact.insert(name, function);
            index
                .folded
                .entry(name.to_ascii_lowercase())
                .and_modify(|entry| {
                    *entry = entry.filter(|other| std::ptr::eq(*other, function));
                })
                .or_insert(Some(function));
        }
    }
    index
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_names_are_unique_and_signatures_consistent() {
        let mut names = Vec::new();
        for function in functions() {
            names.push(function.name);
            names.extend(function.aliases);
            assert!(function.optional <= function.args.len(), "{}", function.name);
            assert!(!function.repeats || !function.args.is_empty(), "{}", function.name);
            let bodies = if function.bodies.is_empty() { 0 } else { function.optional + 1 };
            assert_eq!(function.bodies.len(), bodies, "{}", function.name);
            assert!(function.parameters.0 <= function.parameters.1, "{}", function.name);
            let skips = matches!(function.nulls, Nulls::SkipToZero | Nulls::Skip);
            assert_eq!(skips, function.kind == FunctionKind::Aggregate, "{}", function.name);
            assert!(function_named(function.name).is_some_and(|f| std::ptr::eq(f, function)));
        }
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
