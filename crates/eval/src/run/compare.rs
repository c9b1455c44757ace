//! Comparisons and `IN`, which never return null.

use std::cmp::Ordering;
use std::sync::Arc;

use ahash::AHashSet;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::BooleanBuffer;
use hogql::Span;
use hogql::plan::Comparison;
use hogql::types::Kind;

use crate::Context;
use crate::error::{Error, Result};
use crate::run::node::{Node, Predicate, cast_node};
use crate::values::patterns::{self, Syntax};
use crate::vector::column::Args;
use crate::vector::keys::{Key, Keys};
use crate::vector::types::entry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Op {
    pub fn of(comparison: Comparison) -> Option<Self> {
        Some(match comparison {
            Comparison::Equal => Self::Equal,
            Comparison::NotEqual => Self::NotEqual,
            Comparison::Less => Self::Less,
            Comparison::LessOrEqual => Self::LessOrEqual,
            Comparison::Greater => Self::Greater,
            Comparison::GreaterOrEqual => Self::GreaterOrEqual,
            _ => return None,
        })
    }
}

pub(crate) fn is_null(negated: bool) -> Predicate {
    Arc::new(move |args: &Args| Ok(args.map_bools(|row| args.is_null(0, row) != negated)))
}

/// Casts both sides to a common type. Integers keep their kinds, which tell how to read their bits.
pub(crate) fn align(
    left: Node,
    right: Node,
    context: &Arc<Context>,
    span: Span,
) -> Result<(Node, Node, [Kind; 2])> {
    let kinds = [left.ty.kind.clone(), right.ty.kind.clone()];
    if kinds.iter().all(Kind::is_integer) {
        return Ok((left, right, kinds));
    }
    let Some(common) = left.ty.common(&right.ty) else {
        return Err(Error::invalid("These values cannot be compared", span));
    };
    let left = cast_node(left, &common.kind, context)?;
    let right = cast_node(right, &common.kind, context)?;
    Ok((left, right, [common.kind.clone(), common.kind]))
}

pub(crate) fn predicate(op: Op, kinds: &[Kind; 2]) -> Predicate {
    let kinds = kinds.clone();
    Arc::new(move |args: &Args| {
        let holds = compare_values(op, &kinds, args);
        let valid =
            |no: usize| BooleanBuffer::collect_bool(args.rows, |row| !args.is_null(no, row));
        let has_nulls = |no: usize| args.columns[no].array.null_count() > 0;
        if !has_nulls(0) && !has_nulls(1) {
            return Ok(BooleanArray::new(holds, None));
        }
        let (left, right) = (valid(0), valid(1));
        let both = &holds & &(&left & &right);
        let values = match op {
            Op::Equal => &both | &!&(&left | &right),
            Op::NotEqual => &both | &(&left ^ &right),
            _ => both,
        };
        Ok(BooleanArray::new(values, None))
    })
}

/// Compares the values and ignores nulls.
fn compare_values(op: Op, kinds: &[Kind; 2], args: &Args) -> BooleanBuffer {
    fn each<T: PartialOrd>(op: Op, rows: usize, at: impl Fn(usize) -> (T, T)) -> BooleanBuffer {
        match op {
            Op::Equal => BooleanBuffer::collect_bool(rows, |row| {
                let (a, b) = at(row);
                a == b
            }),
            Op::NotEqual => BooleanBuffer::collect_bool(rows, |row| {
                let (a, b) = at(row);
                a != b
            }),
            Op::Less => BooleanBuffer::collect_bool(rows, |row| {
                let (a, b) = at(row);
                a < b
            }),
            Op::LessOrEqual => BooleanBuffer::collect_bool(rows, |row| {
                let (a, b) = at(row);
                a <= b
            }),
            Op::Greater => BooleanBuffer::collect_bool(rows, |row| {
                let (a, b) = at(row);
                a > b
            }),
            Op::GreaterOrEqual => BooleanBuffer::collect_bool(rows, |row| {
                let (a, b) = at(row);
                a >= b
            }),
        }
    }
    let rows = args.rows;
    match kinds {
        [Kind::UInt(64), Kind::UInt(64)] => {
            let (a, b) = (args.ints(0), args.ints(1));
            each(op, rows, |row| (a.at(row) as u64, b.at(row) as u64))
        }
        [Kind::UInt(64), other] if other.is_integer() => {
            let (a, b) = (args.ints(0), args.ints(1));
            each(op, rows, |row| (i128::from(a.at(row) as u64), i128::from(b.at(row))))
        }
        [other, Kind::UInt(64)] if other.is_integer() => {
            let (a, b) = (args.ints(0), args.ints(1));
            each(op, rows, |row| (i128::from(a.at(row)), i128::from(b.at(row) as u64)))
        }
        [Kind::Float, _] => {
            let (a, b) = (args.floats(0), args.floats(1));
            each(op, rows, |row| (a.at(row), b.at(row)))
        }
        [Kind::Decimal(_), _] => {
            let (a, b) = (args.decimals(0), args.decimals(1));
            each(op, rows, |row| (a.at(row), b.at(row)))
        }
        [Kind::String | Kind::Json(_), _] => {
            let (a, b) = (args.strings(0), args.strings(1));
            each(op, rows, |row| (a.at(row), b.at(row)))
        }
        [Kind::Uuid, _] => {
            let (a, b) = (args.uuids(0), args.uuids(1));
            each(op, rows, |row| (a.at(row), b.at(row)))
        }
        [kind @ (Kind::Array(_) | Kind::Tuple(_) | Kind::Map(_)), _] => {
            let order = comparer(kind, &args.columns[0].array, &args.columns[1].array);
            each(op, rows, |row| (order(args.row_of(0, row), args.row_of(1, row)), Ordering::Equal))
        }
        _ => {
            let (a, b) = (args.ints(0), args.ints(1));
            each(op, rows, |row| (a.at(row), b.at(row)))
        }
    }
}

pub(crate) type Comparer<'a> = Box<dyn Fn(usize, usize) -> Ordering + 'a>;

/// A total order of the values of one type: nulls last, NaN before them.
pub(crate) fn comparer<'a>(kind: &Kind, a: &'a ArrayRef, b: &'a ArrayRef) -> Comparer<'a> {
    let order: Comparer<'a> = match kind {
        Kind::UInt(64) => {
            let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
            Box::new(|i, j| (a.value(i) as u64).cmp(&(b.value(j) as u64)))
        }
        Kind::Float => {
            let (a, b) = (a.as_primitive::<Float64Type>(), b.as_primitive::<Float64Type>());
            Box::new(|i, j| order_floats(a.value(i), b.value(j)))
        }
        Kind::Decimal(_) => {
            let (a, b) = (a.as_primitive::<Decimal128Type>(), b.as_primitive::<Decimal128Type>());
            Box::new(|i, j| a.value(i).cmp(&b.value(j)))
        }
        Kind::String | Kind::Json(_) => {
            let (a, b) = (a.as_string::<i32>(), b.as_string::<i32>());
            Box::new(|i, j| a.value(i).cmp(b.value(j)))
        }
        Kind::Uuid => {
            let (a, b) = (a.as_fixed_size_binary(), b.as_fixed_size_binary());
            Box::new(|i, j| a.value(i).cmp(b.value(j)))
        }
        Kind::Array(element) => lists(&element.kind, a, b),
        Kind::Map(pair) => lists(&entry(pair).kind, a, b),
        Kind::Tuple(items) => {
            let (a, b) = (a.as_struct(), b.as_struct());
            let parts: Vec<Comparer<'a>> = items
                .iter()
                .zip(a.columns().iter().zip(b.columns()))
                .map(|(ty, (a, b))| comparer(&ty.kind, a, b))
                .collect();
            Box::new(move |i, j| {
                let orders = parts.iter().map(|part| part(i, j));
                orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            })
        }
        _ => {
            let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
            Box::new(|i, j| a.value(i).cmp(&b.value(j)))
        }
    };
    if a.null_count() == 0 && b.null_count() == 0 {
        return order;
    }
    Box::new(move |i, j| match (a.is_null(i), b.is_null(j)) {
        (false, false) => order(i, j),
        (left, right) => left.cmp(&right),
    })
}

fn lists<'a>(element: &Kind, a: &'a ArrayRef, b: &'a ArrayRef) -> Comparer<'a> {
    let (a, b) = (a.as_list::<i32>(), b.as_list::<i32>());
    let order = comparer(element, a.values(), b.values());
    Box::new(move |i, j| {
        let ranges = (a.value_offsets(), b.value_offsets());
        let (mut left, left_end) = (ranges.0[i] as usize, ranges.0[i + 1] as usize);
        let (mut right, right_end) = (ranges.1[j] as usize, ranges.1[j + 1] as usize);
        while left < left_end && right < right_end {
            match order(left, right) {
                Ordering::Equal => (left, right) = (left + 1, right + 1),
                other => return other,
            }
        }
        (left_end - left).cmp(&(right_end - right))
    })
}

pub(crate) fn order_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The predicate of `LIKE` or a regex, and whether it is fallible (a row's pattern may be invalid).
pub(crate) fn pattern(
    comparison: Comparison,
    pattern: Option<&ArrayRef>,
    span: Span,
) -> Result<(Predicate, bool)> {
    let (syntax, negated) = match comparison {
        Comparison::Like => (Syntax::Like, false),
        Comparison::NotLike => (Syntax::Like, true),
        Comparison::ILike => (Syntax::ILike, false),
        Comparison::NotILike => (Syntax::ILike, true),
        Comparison::Match => (Syntax::Regex, false),
        Comparison::NotMatch => (Syntax::Regex, true),
        Comparison::IMatch => (Syntax::CaseInsensitiveRegex, false),
        _ => (Syntax::CaseInsensitiveRegex, true),
    };
    let matcher = patterns::Matchers::new(syntax, pattern, span)?;
    let fallible = matcher.may_fail();
    let run: Predicate = Arc::new(move |args: &Args| {
        let (strings, patterns) = (args.strings(0), args.strings(1));
        let mut matcher = matcher.clone();
        args.try_bools(|row| {
            if args.is_null(0, row) || args.is_null(1, row) {
                return Ok(negated);
            }
            Ok(matcher.of(|| patterns.at(row))?.is_match(strings.at(row))? != negated)
        })
    });
    Ok((run, fallible))
}

/// `IN` a list: the constant items become a hash set once, the others are compared per row.
pub(crate) fn in_list(needle: Node, items: Vec<Node>, negated: bool) -> (Predicate, Vec<Node>) {
    let mut set = AHashSet::new();
    let mut others = vec![needle];
    for item in items {
        match item.as_constant() {
            Some(array) if array.is_valid(0) => {
                set.insert(Keys::new(&item.ty.kind, array).at(0).owned());
            }
            Some(_) => {}
            None => others.push(item),
        }
    }
    let kinds: Vec<Kind> = others.iter().map(|node| node.ty.kind.clone()).collect();
    let run: Predicate = Arc::new(move |args: &Args| {
        let keys: Vec<Keys> = args
            .columns
            .iter()
            .zip(&kinds)
            .map(|(column, kind)| Keys::new(kind, &column.array))
            .collect();
        Ok(args.map_bools(|row| {
            if args.is_null(0, row) {
                return negated;
            }
            let Some(key) = keys[0].member_key(args.row_of(0, row)) else { return negated };
            let equals =
                |no: usize| !args.is_null(no, row) && keys[no].at(args.row_of(no, row)) == key;
            (has(&set, &key) || (1..keys.len()).any(equals)) != negated
        }))
    });
    (run, others)
}

fn has(set: &AHashSet<Key<'static>>, key: &Key<'_>) -> bool {
    // `contains` needs the key's lifetime; the set is covariant in it.
    fn shorter<'s, 'k>(set: &'s AHashSet<Key<'static>>) -> &'s AHashSet<Key<'k>>
    where
        'k: 's,
    {
        set
    }
    shorter(set).contains(key)
}

/// `IN` an array column.
pub(crate) fn in_array(kind: Kind, element: Kind, negated: bool) -> Predicate {
    Arc::new(move |args: &Args| {
        let lists = args.lists(1);
        let (keys, elements) =
            (Keys::new(&kind, &args.columns[0].array), Keys::new(&element, lists.values));
        let set: Option<AHashSet<Key>> = args.columns[1].constant.then(|| {
            let range = lists.at(0).filter(|at| lists.values.is_valid(*at));
            range.map(|at| elements.at(at)).collect()
        });
        Ok(args.map_bools(|row| {
            if args.is_null(0, row) {
                return negated;
            }
            let Some(key) = keys.member_key(args.row_of(0, row)) else { return negated };
            let contained = match &set {
                Some(set) => set.contains(&key),
                None => lists.at(row).any(|at| lists.values.is_valid(at) && elements.at(at) == key),
            };
            contained != negated
        }))
    })
}
