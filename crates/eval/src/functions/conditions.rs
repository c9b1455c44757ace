//! Conditional functions and functions on nulls.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use hogql::types::Kind;

use super::{CallSite, CompiledCall, call, predicate};
use crate::error::Result;
use crate::run::compare::{self, comparer};
use crate::vector::column::{Args, Column};
use crate::vector::gather::interleave;
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
