//! Conditional functions and functions on nulls.

use std::cmp::Ordering;
use std::sync::Arc;

use ahash::AHashMap;
use arrow_array::{Array, ArrayRef};
use hogql::types::{Kind, Type};

use super::{CallSite, CompiledCall, call, predicate};
use crate::error::{Error, Result};
use crate::limits::meter;
use crate::run::compare::{self, comparer};
use crate::vector::column::{Args, Column};
use crate::vector::gather::interleave;
use crate::vector::keys::{Key, Keys};
use crate::vector::types::without_nulls;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    Ok(Some(match site.name {
        "coalesce" | "ifNull" => {
            site.cast_all(&site.ty.kind)?;
            call(coalesce)
        }
        "nullIf" => null_if(site)?,
        "isNull" => {
            let run = compare::is_null(false);
            predicate(move |args| run(args))
        }
        "isNotNull" => {
            let run = compare::is_null(true);
            predicate(move |args| run(args))
        }
        "assumeNotNull" => call(|args| without_nulls(&args.columns[0].array)),
        "toNullable" => call(|args| Ok(Arc::clone(&args.columns[0].array))),
        "greatest" => extreme(site, Ordering::Greater)?,
        "least" => extreme(site, Ordering::Less)?,
        "isNaN" => {
            site.cast(0, &Kind::Float)?;
            predicate(|args| {
                let values = args.floats(0);
                Ok(args.map_bools(|row| values.at(row).is_nan()))
            })
        }
        "isFinite" => {
            site.cast(0, &Kind::Float)?;
            predicate(|args| {
                let values = args.floats(0);
                Ok(args.map_bools(|row| values.at(row).is_finite()))
            })
        }
        "isInfinite" => {
            site.cast(0, &Kind::Float)?;
            predicate(|args| {
                let values = args.floats(0);
                Ok(args.map_bools(|row| values.at(row).is_infinite()))
            })
        }
        "xor" => {
            site.cast_all(&Kind::Bool)?;
            predicate(|args| {
                let sides: Vec<_> = (0..args.columns.len()).map(|no| args.ints(no)).collect();
                Ok(args.map_bools(|row| {
                    sides.iter().filter(|side| side.at(row) != 0).count() % 2 == 1
                }))
            })
        }
        "transform" => transform(site)?,
        "ifNotFinite" => {
            if site.ty.kind != Kind::Float {
                // Only floats can be infinite or NaN.
                site.cast(0, &site.ty.kind)?;
                site.args.truncate(1);
                return Ok(Some(call(|args| Ok(Arc::clone(&args.columns[0].array)))));
            }
            site.cast_all(&Kind::Float)?;
            call(|args| {
                let (values, others) = (args.floats(0), args.floats(1));
                Ok(args.map_floats(|row| {
                    let value = values.at(row);
                    if value.is_finite() { value } else { others.at(row) }
                }))
            })
        }
        _ => return Ok(None),
    }))
}

/// Takes each row from the argument whose index `no` returns.
pub(super) fn choose(args: &Args, no: impl Fn(usize) -> usize) -> Result<ArrayRef> {
    let arrays: Vec<ArrayRef> =
        args.columns.iter().map(|column| Arc::clone(&column.array)).collect();
    let positions: Vec<(usize, usize)> = (0..args.rows)
        .map(|row| {
            let no = no(row);
            (no, args.row_of(no, row))
        })
        .collect();
    interleave(&arrays, &positions)
}

fn coalesce(args: &Args) -> Result<ArrayRef> {
    let last = args.columns.len() - 1;
    choose(args, |row| (0..last).find(|no| !args.is_null(*no, row)).unwrap_or(last))
}

fn null_if(site: &mut CallSite) -> Result<CompiledCall> {
    let (left, right) = (site.args[0].clone(), site.args[1].clone());
    if right.ty.kind == Kind::Null || left.ty.kind == Kind::Null {
        site.args.truncate(1);
        return Ok(call(|args| Ok(Arc::clone(&args.columns[0].array))));
    }
    let (left, right, kinds) = compare::align(left, right, site.context, site.span)?;
    site.args.truncate(1);
    site.args.extend([left, right]);
    let equal = compare::predicate(compare::Op::Equal, &kinds);
    Ok(call(move |args| {
        let sides = Args { columns: &args.columns[1..], rows: args.rows, nulls: None };
        let equal = equal(&sides)?;
        let array = args.columns[0].expand(args.rows)?;
        Ok(arrow_select::nullif::nullif(&array, &equal)?)
    }))
}

/// `transform`: the element of the third argument at the position of the first in the second.
fn transform(site: &mut CallSite) -> Result<CompiledCall> {
    let element = |no: usize| site.args[no].ty.element().cloned();
    let (Some(from), Some(to)) = (element(1), element(2)) else {
        return Err(site.invalid("transform takes two arrays"));
    };
    let Some(key) = site.args[0].ty.common(&from) else {
        return Err(site.invalid("transform looks up a value of another type"));
    };
    let (ty, span) = (site.ty.clone(), site.span);
    if site.args.len() < 4 {
        let value = site.args[0].clone();
        site.args.push(value);
    }
    site.cast(0, &key.kind)?;
    site.cast(1, &Type::array(Type { kind: key.kind.clone(), ..from }).kind)?;
    site.cast(2, &Type::array(Type { kind: ty.kind.clone(), ..to }).kind)?;
    site.cast(3, &ty.kind)?;
    Ok(call(move |args| {
        let (from, to) = (args.lists(1), args.lists(2));
        let wanted = Keys::new(&key.kind, &args.columns[0].array);
        let known = Keys::new(&key.kind, from.values);
        let constant = args.columns[1].constant;
        // A constant list is searched by hash, once for all rows.
        let mut found: AHashMap<Key, usize> = AHashMap::new();
        if constant {
            let _charge = meter::charge_large(from.at(0).len() * 2 * size_of::<Key>())?;
            for (no, at) in from.at(0).enumerate() {
                found.entry(known.at(at)).or_insert(no);
            }
        }
        let arrays = [Arc::clone(to.values), Arc::clone(&args.columns[3].array)];
        let mut positions = Vec::with_capacity(args.rows);
        for row in 0..args.rows {
            let (from, to) = (from.at(row), to.at(row));
            if from.len() != to.len() {
                return Err(Error::invalid("The arrays have different lengths", span));
            }
            let wanted = wanted.at(args.row_of(0, row));
            let no = if constant {
                found.get(&wanted).copied()
            } else {
                meter::work(from.len())?;
                from.clone().position(|at| known.at(at) == wanted)
            };
            positions.push(match no {
                Some(no) => (0, to.start + no),
                None => (1, args.row_of(3, row)),
            });
        }
        interleave(&arrays, &positions)
    })
    .fallible())
}

fn extreme(site: &mut CallSite, wanted: Ordering) -> Result<CompiledCall> {
    let kind = site.ty.kind.clone();
    site.cast_all(&kind)?;
    Ok(call(move |args| {
        let (first, rest) = (args.columns[0].clone(), &args.columns[1..]);
        let best = rest.iter().try_fold(first, |best, next| -> Result<Column> {
            let pair = [best, next.clone()];
            let pair = Args { columns: &pair, rows: args.rows, nulls: None };
            let order = comparer(&kind, &pair.columns[1].array, &pair.columns[0].array);
            let better = |row: usize| order(pair.row_of(1, row), pair.row_of(0, row)) == wanted;
            Ok(Column::full(choose(&pair, |row| usize::from(better(row)))?))
        })?;
        with_nulls(&best.expand(args.rows)?, args.nulls.clone())
    }))
}

/// Adds nulls to an array.
pub(super) fn with_nulls(
    array: &ArrayRef,
    nulls: Option<arrow_buffer::NullBuffer>,
) -> Result<ArrayRef> {
    let nulls = arrow_buffer::NullBuffer::union(array.nulls(), nulls.as_ref());
    let data = array.to_data().into_builder().nulls(nulls).build()?;
    Ok(arrow_array::make_array(data))
}
