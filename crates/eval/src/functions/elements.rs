//! Constructors and element access of arrays, tuples and maps.

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, UInt32Array};
use hogql::types::{Kind, Type};

use super::{CallSite, CompiledCall, call};
use crate::error::{Error, Result};
use crate::limits::meter;
use crate::vector::column::check_elements;
use crate::vector::gather::{interleave, take};
use crate::vector::keys::{Key, Keys};
use crate::vector::types::{entry, null_or_default, wide_list, wide_struct, without_nulls};

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    Ok(Some(match site.name {
        "arrayElement" => match site.kind(0).clone() {
            Kind::Map(pair) => by_key(site, &pair)?,
            _ => by_number(site),
        },
        "tuple" => {
            let Kind::Tuple(items) = site.ty.kind.clone() else {
                return Err(site.invalid("tuple gives a tuple"));
            };
            call(move |args| {
                let columns = args.columns.iter().map(|column| column.expand(args.rows));
                wide_struct(&items, columns.collect::<Result<_>>()?, args.rows)
            })
        }
        "tupleElement" => {
            let index = site.int(1).unwrap_or(1).max(1) as usize - 1;
            site.args.truncate(1);
            call(move |args| Ok(Arc::clone(args.columns[0].array.as_struct().column(index))))
        }
        "map" => map(site)?,
        "mapFromArrays" => map_from_arrays(site),
        "mapUpdate" => map_update(site)?,
        "mapKeys" => entries(site, 0),
        "mapValues" => entries(site, 1),
        _ => return Ok(None),
    }))
}

/// The element at an index; null or the type's default if out of range.
fn picked(values: &ArrayRef, at: UInt32Array, ty: &Type) -> Result<ArrayRef> {
    let values = take(values, &at)?;
    if ty.nullable { Ok(values) } else { without_nulls(&values) }
}

fn by_number(site: &CallSite) -> CompiledCall {
    let ty = site.ty.clone();
    call(move |args| {
        let (lists, numbers) = (args.lists(0), args.ints(1));
        let indices = (0..args.rows).map(|row| {
            if args.is_null(1, row) {
                return None;
            }
            let range = lists.at(row);
            let number = numbers.at(row);
            let at = match number {
                1.. => usize::try_from(number - 1).ok()?,
                0 => return None,
                _ => range.len().checked_sub(usize::try_from(number.unsigned_abs()).ok()?)?,
            };
            (at < range.len()).then(|| (range.start + at) as u32)
        });
        picked(lists.values, indices.collect(), &ty)
    })
}

fn by_key(site: &mut CallSite, pair: &(Type, Type)) -> Result<CompiledCall> {
    let ty = site.ty.clone();
    let Some(common) = pair.0.common(&site.args[1].ty) else {
        return Err(site.invalid("The key is of another type than the map's"));
    };
    let map = Kind::Map(Box::new((common.clone(), pair.1.clone())));
    site.cast(0, &map)?;
    site.cast(1, &common.kind)?;
    Ok(call(move |args| {
        let maps = args.lists(0);
        let entries = maps.values.as_struct();
        let keys = Keys::new(&common.kind, entries.column(0));
        let wanted = Keys::new(&common.kind, &args.columns[1].array);
        let indices = (0..args.rows).map(|row| {
            let wanted = wanted.at(args.row_of(1, row));
            maps.at(row).find(|at| keys.at(*at) == wanted).map(|at| at as u32)
        });
        picked(entries.column(1), indices.collect(), &ty)
    }))
}

/// `map`: the arguments alternate between keys and values.
fn map(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    let Kind::Map(pair) = site.ty.kind.clone() else {
        return Err(site.invalid("map gives a map"));
    };
    for no in 0..site.args.len() {
        let kind = if no % 2 == 0 { &pair.0.kind } else { &pair.1.kind };
        site.cast(no, kind)?;
    }
    let entry = entry(&pair);
    Ok(call(move |args| {
        let width = args.columns.len() / 2;
        check_elements(args.rows.saturating_mul(width), span)?;
        let Kind::Tuple(items) = &entry.kind else { return null_or_default(&entry, args.rows) };
        let column = |odd: usize, ty: &Type| -> Result<ArrayRef> {
            if width == 0 {
                return null_or_default(ty, 0);
            }
            let arrays: Vec<ArrayRef> =
                (0..width).map(|no| Arc::clone(&args.columns[no * 2 + odd].array)).collect();
            let mut positions = Vec::with_capacity(args.rows * width);
            for row in 0..args.rows {
                positions.extend((0..width).map(|no| (no, args.row_of(no * 2 + odd, row))));
            }
            interleave(&arrays, &positions)
        };
        let columns = vec![column(0, &items[0])?, column(1, &items[1])?];
        let entries = wide_struct(items, columns, args.rows * width)?;
        let offsets = (0..=args.rows).map(|row| (row * width) as i32).collect();
        wide_list(&entry, offsets, entries)
    }))
}

fn entries(site: &CallSite, part: usize) -> CompiledCall {
    let element = site.element();
    call(move |args| {
        let list = args.columns[0].array.as_list::<i32>();
        let values = Arc::clone(list.values().as_struct().column(part));
        wide_list(&element, list.value_offsets().to_vec(), values)
    })
}

/// `mapFromArrays`: a map of keys and values at the same positions.
fn map_from_arrays(site: &CallSite) -> CompiledCall {
    let span = site.span;
    let pair = match &site.ty.kind {
        Kind::Map(pair) => (**pair).clone(),
        _ => (Kind::Null.into(), Kind::Null.into()),
    };
    let entry = entry(&pair);
    call(move |args| {
        let lists = [args.lists(0), args.lists(1)];
        let mut indices = [Vec::new(), Vec::new()];
        let mut offsets = vec![0];
        for row in 0..args.rows {
            if lists[0].at(row).len() != lists[1].at(row).len() {
                return Err(Error::invalid("mapFromArrays needs as many values as keys", span));
            }
            for (list, indices) in lists.iter().zip(&mut indices) {
                indices.extend(list.at(row).map(|at| at as u32));
            }
            offsets.push(check_elements(indices[0].len(), span)?);
        }
        let count = indices[0].len();
        let [keys, values] = indices.map(UInt32Array::from);
        let columns = vec![take(lists[0].values, &keys)?, take(lists[1].values, &values)?];
        let items = [pair.0.clone(), pair.1.clone()];
        wide_list(&entry, offsets, wide_struct(&items, columns, count)?)
    })
    .fallible()
}

/// `mapUpdate`: the entries of the first map, with the values of the second where it has their key,
/// then the other entries of the second.
fn map_update(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    let Kind::Map(pair) = site.ty.kind.clone() else {
        return Err(site.invalid("mapUpdate takes maps"));
    };
    site.cast_all(&site.ty.kind)?;
    let entry = entry(&pair);
    Ok(call(move |args| {
        let maps = [args.lists(0), args.lists(1)];
        let arrays = [Arc::clone(maps[0].values), Arc::clone(maps[1].values)];
        let keys =
            arrays.each_ref().map(|array| Keys::new(&pair.0.kind, array.as_struct().column(0)));
        let (mut positions, mut offsets) = (Vec::new(), vec![0]);
        for row in 0..args.rows {
            let (old, new) = (maps[0].at(row), maps[1].at(row));
            meter::work(old.len() + new.len())?;
            let _charge = meter::charge_large((old.len() + new.len()) * 2 * size_of::<Key>())?;
            let updates: AHashMap<Key, usize> =
                new.clone().map(|at| (keys[1].at(at), at)).collect();
            let known: AHashSet<Key> = old.clone().map(|at| keys[0].at(at)).collect();
            positions.extend(old.map(|at| match updates.get(&keys[0].at(at)) {
                Some(update) => (1, *update),
                None => (0, at),
            }));
            positions.extend(new.filter(|at| !known.contains(&keys[1].at(*at))).map(|at| (1, at)));
            offsets.push(check_elements(positions.len(), span)?);
        }
        wide_list(&entry, offsets, interleave(&arrays, &positions)?)
    }))
}
