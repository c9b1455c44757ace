//! Array functions without lambdas.

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use arrow_select::concat::concat;
use hogql::types::{Kind, Type};

use super::search::number_lists as numbers;
use super::{CallSite, CompiledCall, call, predicate};
use crate::error::{Error, Result};
use crate::limits::meter::{self, GrowingBuffer};
use crate::vector::column::{Args, Lists, check_elements};
use crate::vector::gather::{interleave, size_of_values, take};
use crate::vector::keys::{Key, Keys};
use crate::vector::types::{wide_list, wide_struct, wrap};

/// Bytes of an element in a hash set of keys, with the set's load factor.
const KEY_BYTES: usize = 2 * size_of::<Key>();

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    let element = site.element();
    Ok(Some(match site.name {
        "array" => {
            site.cast_all(&element.kind)?;
            call(move |args| array(args, &element, span))
        }
        "has" => {
            let kinds = common_element(site)?;
            predicate(move |args| {
                let (lists, search) = (args.lists(0), Search::new(&kinds, args));
                Ok(args.map_bools(|row| search.position(&lists, row).is_some()))
            })
        }
        "indexOf" => {
            let kinds = common_element(site)?;
            call(move |args| {
                let (lists, search) = (args.lists(0), Search::new(&kinds, args));
                Ok(args.map_ints(|row| {
                    let start = lists.at(row).start;
                    search.position(&lists, row).map_or(0, |at| (at - start) as i64 + 1)
                }))
            })
        }
        "countEqual" => {
            let kinds = common_element(site)?;
            call(move |args| {
                let (lists, search) = (args.lists(0), Search::new(&kinds, args));
                Ok(args.map_ints(|row| search.count(&lists, row)))
            })
        }
        "hasSubstr" => has_sequence(site)?,
        "arrayEnumerateDense" => enumerate(site, |numbers, key| {
            let next = numbers.len() as i64 + 1;
            *numbers.entry(key).or_insert(next)
        }),
        "arrayEnumerateUniq" => enumerate(site, |numbers, key| {
            let count = numbers.entry(key).or_default();
            *count += 1;
            *count
        }),
        "arrayResize" => resize(site)?,
        "arrayWithConstant" => with_constant(site),
        "arrayRotateLeft" => rotate(site, 1),
        "arrayRotateRight" => rotate(site, -1),
        "hasAny" | "hasAll" => has_any_or_all(site)?,
        "arrayReverse" | "reverse" => {
            pick(site, |range, out| out.extend(range.rev().map(|at| at as u32)))
        }
        "arrayPopBack" => pick(site, |range, out| {
            out.extend(range.start as u32..range.end.saturating_sub(1).max(range.start) as u32);
        }),
        "arrayPopFront" => pick(site, |range, out| {
            out.extend((range.start + 1).min(range.end) as u32..range.end as u32);
        }),
        "arrayDistinct" => pick_by_keys(site, |keys, range, out| {
            let _charge = meter::charge_large(range.len() * KEY_BYTES)?;
            let mut distinct = AHashSet::new();
            // Skips nulls, as in ClickHouse.
            let fresh = |at: &usize| match keys.at(*at) {
                Key::Null => false,
                key => distinct.insert(key),
            };
            out.extend(range.filter(fresh).map(|at| at as u32));
            Ok(())
        }),
        "arrayCompact" => pick_by_keys(site, |keys, range, out| {
            let start = range.start;
            let differs = |at: &usize| *at == start || keys.at(*at) != keys.at(at - 1);
            out.extend(range.filter(differs).map(|at| at as u32));
            Ok(())
        }),
        "arrayUniq" => uniq(site),
        "arrayConcat" => {
            site.cast_all(&site.ty.kind)?;
            call(move |args| {
                let lists: Vec<Lists> = (0..args.columns.len()).map(|no| args.lists(no)).collect();
                let bytes = lists.iter().map(|list| size_of_values(list.values)).sum();
                let _charge = meter::charge_large(bytes)?;
                let (values, bases) = joined(&lists)?;
                args.pick_lists(&element, &values, span, |row, out| {
                    for (list, base) in lists.iter().zip(&bases) {
                        out.extend(list.at(row).map(|at| (base + at) as u32));
                    }
                    Ok(())
                })
            })
        }
        "arrayPushBack" | "arrayPushFront" => {
            let back = site.name == "arrayPushBack";
            site.cast(0, &site.ty.kind)?;
            site.cast(1, &element.kind)?;
            call(move |args| {
                let lists = args.lists(0);
                let _charge = meter::charge_large(size_of_values(lists.values))?;
                let values = concat(&[lists.values, &args.columns[1].array])?;
                let base = lists.values.len();
                args.pick_lists(&element, &values, span, |row, out| {
                    let new = (base + args.row_of(1, row)) as u32;
                    let old = lists.at(row).map(|at| at as u32);
                    if back {
                        out.extend(old.chain([new]));
                    } else {
                        out.extend([new].into_iter().chain(old));
                    }
                    Ok(())
                })
            })
        }
        "arraySlice" => slice(site),
        "arrayEnumerate" => call(move |args| {
            let lists = args.lists(0);
            numbers(args, &element, span, |row, out| {
                out.extend(1..=lists.at(row).len() as i64);
                Ok(())
            })
        }),
        "range" => range(site)?,
        "arrayZip" => zip(site),
        "arrayFlatten" => {
            let depth = depth(site.kind(0));
            call(move |args| flatten(args, &element, depth))
        }
        "arrayDifference" => differences(site),
        "arrayIntersect" => intersect(site)?,
        "arrayExcept" => except(site)?,
        _ => return Ok(None),
    }))
}

fn array(args: &Args, element: &Type, span: hogql::Span) -> Result<ArrayRef> {
    let width = args.columns.len();
    let total = check_elements(args.rows.saturating_mul(width), span)?;
    if width == 0 {
        let values = arrow_array::new_empty_array(&crate::vector::types::wide_type(&element.kind));
        return wide_list(element, vec![0; args.rows + 1], values);
    }
    let columns: Vec<ArrayRef> =
        args.columns.iter().map(|column| Arc::clone(&column.array)).collect();
    let _charge = meter::charge_large(total as usize * size_of::<(usize, usize)>())?;
    let mut positions = Vec::with_capacity(total as usize);
    for row in 0..args.rows {
        positions.extend((0..width).map(|no| (no, args.row_of(no, row))));
    }
    let offsets = (0..=args.rows).map(|row| (row * width) as i32).collect();
    wide_list(element, offsets, interleave(&columns, &positions)?)
}

/// Casts an array and a value to a common type; integers are compared without a cast.
fn common_element(site: &mut CallSite) -> Result<[Kind; 2]> {
    let element = site.args[0].ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
    let Some(common) = element.common(&site.args[1].ty) else {
        return Err(site.invalid("The value is of another type than the elements"));
    };
    let kinds = [element.kind, site.kind(1).clone()];
    if kinds.iter().all(Kind::is_integer) {
        return Ok(kinds);
    }
    site.cast(0, &Type::array(common.clone()).kind)?;
    site.cast(1, &common.kind)?;
    Ok([common.kind.clone(), common.kind])
}

/// Searches the second argument among the elements of the first.
struct Search<'a> {
    elements: Keys<'a>,
    wanted: Keys<'a>,
    mask: bool,
}

impl<'a> Search<'a> {
    fn new(kinds: &[Kind; 2], args: &Args<'a>) -> Self {
        Self {
            elements: Keys::new(&kinds[0], args.lists(0).values),
            wanted: Keys::new(&kinds[1], &args.columns[1].array),
            mask: args.columns[1].constant,
        }
    }

    fn position(&self, lists: &Lists, row: usize) -> Option<usize> {
        let wanted = self.wanted.at(if self.mask { 0 } else { row });
        lists.at(row).find(|at| self.elements.at(*at) == wanted)
    }

    fn count(&self, lists: &Lists, row: usize) -> i64 {
        let wanted = self.wanted.at(if self.mask { 0 } else { row });
        lists.at(row).filter(|at| self.elements.at(*at) == wanted).count() as i64
    }
}

/// Whether the second array occurs in the first, in one piece.
fn has_sequence(site: &mut CallSite) -> Result<CompiledCall> {
    let Some(common) = site.args[0].ty.common(&site.args[1].ty) else {
        return Err(site.invalid("The arrays are of different types"));
    };
    site.cast_all(&common.kind)?;
    let kind = common.element().map_or(Kind::Null, |element| element.kind.clone());
    Ok(predicate(move |args| {
        let (lists, wanted) = (args.lists(0), args.lists(1));
        let (keys, wanted_keys) = (Keys::new(&kind, lists.values), Keys::new(&kind, wanted.values));
        args.try_bools(|row| {
            let (list, part) = (lists.at(row), wanted.at(row));
            if part.len() > list.len() {
                return Ok(false);
            }
            for start in list.start..=list.end - part.len() {
                meter::work(1 + part.len())?;
                let mut pairs = part.clone().zip(start..);
                if pairs.all(|(wanted, at)| wanted_keys.at(wanted) == keys.at(at)) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }))
}

/// A number for each element, from the numbers that its row's elements had before it.
fn enumerate(
    site: &CallSite,
    number: impl for<'k> Fn(&mut AHashMap<Key<'k>, i64>, Key<'k>) -> i64 + Send + Sync + 'static,
) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    let kind = site.args[0].ty.element().map_or(Kind::Null, |element| element.kind.clone());
    call(move |args| {
        let lists = args.lists(0);
        let keys = Keys::new(&kind, lists.values);
        numbers(args, &element, span, |row, out| {
            let _charge = meter::charge_large(lists.at(row).len() * KEY_BYTES)?;
            let mut seen = AHashMap::new();
            out.extend(lists.at(row).map(|at| number(&mut seen, keys.at(at))));
            Ok(())
        })
    })
}

/// `arrayResize`: cuts an array, or extends it with a value; a negative size counts from its end.
fn resize(site: &mut CallSite) -> Result<CompiledCall> {
    let (element, span) = (site.element(), site.span);
    site.cast(0, &site.ty.kind)?;
    if site.args.len() > 2 {
        site.cast(2, &element.kind)?;
    }
    Ok(call(move |args| {
        let (lists, sizes) = (args.lists(0), args.ints(1));
        let extender = match args.columns.get(2) {
            Some(column) => Arc::clone(&column.array),
            None => crate::vector::types::null_or_default(&element, 1)?,
        };
        let _charge = meter::charge_large(size_of_values(lists.values))?;
        let values = concat(&[lists.values, &extender])?;
        let base = lists.values.len();
        args.pick_lists(&element, &values, span, |row, out| {
            let list = lists.at(row);
            let size = if args.is_null(1, row) { 0 } else { sizes.at(row) };
            let wanted = usize::try_from(size.unsigned_abs()).unwrap_or(usize::MAX);
            check_elements(out.len().saturating_add(wanted), span)?;
            let more = base + if args.columns.len() > 2 { args.row_of(2, row) } else { 0 };
            let fill = std::iter::repeat_n(more as u32, wanted.saturating_sub(list.len()));
            let kept = wanted.min(list.len());
            if size < 0 {
                out.extend(fill.chain((list.end - kept..list.end).map(|at| at as u32)));
            } else {
                out.extend((list.start..list.start + kept).map(|at| at as u32).chain(fill));
            }
            Ok(())
        })
    }))
}

fn with_constant(site: &CallSite) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    call(move |args| {
        let counts = args.ints(0);
        args.pick_lists(&element, &args.columns[1].array, span, |row, out| {
            let count = if args.is_null(0, row) { 0 } else { counts.at(row) };
            let Ok(count) = usize::try_from(count) else {
                return Err(Error::invalid("The length of an array is not negative", span));
            };
            check_elements(out.len().saturating_add(count), span)?;
            out.extend(std::iter::repeat_n(args.row_of(1, row) as u32, count));
            Ok(())
        })
    })
    .fallible()
}

fn rotate(site: &CallSite, direction: i64) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    call(move |args| {
        let (lists, counts) = (args.lists(0), args.ints(1));
        args.pick_lists(&element, lists.values, span, |row, out| {
            let range = lists.at(row);
            if range.is_empty() {
                return Ok(());
            }
            let turn = (i128::from(counts.at(row)) * i128::from(direction))
                .rem_euclid(range.len() as i128) as usize;
            let middle = range.start + turn;
            out.extend((middle..range.end).chain(range.start..middle).map(|at| at as u32));
            Ok(())
        })
    })
}

fn has_any_or_all(site: &mut CallSite) -> Result<CompiledCall> {
    let all = site.name == "hasAll";
    let Some(common) = site.args[0].ty.common(&site.args[1].ty) else {
        return Err(site.invalid("The arrays are of different types"));
    };
    site.cast_all(&common.kind)?;
    let kind = common.element().map_or(Kind::Null, |element| element.kind.clone());
    Ok(predicate(move |args| {
        let (lists, wanted) = (args.lists(0), args.lists(1));
        let (keys, wanted_keys) = (Keys::new(&kind, lists.values), Keys::new(&kind, wanted.values));
        args.try_bools(|row| {
            let _charge = meter::charge_large(lists.at(row).len() * KEY_BYTES)?;
            let elements: AHashSet<Key> = lists.at(row).map(|at| keys.at(at)).collect();
            let mut wanted = wanted.at(row).map(|at| wanted_keys.at(at));
            Ok(if all {
                wanted.all(|key| elements.contains(&key))
            } else {
                wanted.any(|key| elements.contains(&key))
            })
        })
    }))
}

/// Returns a selection of the first argument's elements.
fn pick(
    site: &CallSite,
    choose: impl Fn(std::ops::Range<usize>, &mut Vec<u32>) + Send + Sync + 'static,
) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    call(move |args| {
        let lists = args.lists(0);
        args.pick_lists(&element, lists.values, span, |row, out| {
            choose(lists.at(row), out);
            Ok(())
        })
    })
}

fn pick_by_keys(
    site: &CallSite,
    choose: impl Fn(&Keys, std::ops::Range<usize>, &mut Vec<u32>) -> Result<()> + Send + Sync + 'static,
) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    call(move |args| {
        let lists = args.lists(0);
        let keys = Keys::new(&element.kind, lists.values);
        args.pick_lists(&element, lists.values, span, |row, out| choose(&keys, lists.at(row), out))
    })
}

fn uniq(site: &CallSite) -> CompiledCall {
    let span = site.span;
    let kinds: Vec<Kind> = site
        .args
        .iter()
        .map(|arg| arg.ty.element().map_or(Kind::Null, |element| element.kind.clone()))
        .collect();
    let several = kinds.len() > 1;
    call(move |args| {
        let lists: Vec<Lists> = (0..kinds.len()).map(|no| args.lists(no)).collect();
        let keys: Vec<Keys> =
            lists.iter().zip(&kinds).map(|(list, kind)| Keys::new(kind, list.values)).collect();
        args.try_ints(|row| {
            let length = lists[0].at(row).len();
            if lists.iter().any(|list| list.at(row).len() != length) {
                return Err(Error::invalid("The arrays have different lengths", span));
            }
            let key_bytes = KEY_BYTES * (keys.len() + 1);
            let _charge = meter::charge_large(length * key_bytes)?;
            let mut distinct = AHashSet::new();
            for at in 0..length {
                let position = |no: usize| keys[no].at(lists[no].at(row).start + at);
                distinct.insert((0..keys.len()).map(position).collect::<Vec<Key>>());
            }
            Ok(Some(distinct.len() as i64))
        })
    })
    .fallible_if(several)
}

/// Concatenates the elements of several arguments; also returns the base index of each.
fn joined(lists: &[Lists]) -> Result<(ArrayRef, Vec<usize>)> {
    let values: Vec<&dyn Array> = lists.iter().map(|list| &**list.values).collect();
    let bases = lists.iter().scan(0, |base, list| {
        let start = *base;
        *base += list.values.len();
        Some(start)
    });
    Ok((concat(&values)?, bases.collect()))
}

/// `arraySlice`: the offset counts from 1, or from the end if negative; a negative length ends that
/// many elements before the end.
fn slice(site: &CallSite) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    call(move |args| {
        let (lists, starts) = (args.lists(0), args.ints(1));
        let lengths = (args.columns.len() > 2).then(|| args.ints(2));
        args.pick_lists(&element, lists.values, span, |row, out| {
            let range = lists.at(row);
            let (count, start) = (range.len() as i64, starts.at(row));
            let from = match start {
                1.. => start - 1,
                0 => return Ok(()),
                _ => count.saturating_add(start),
            };
            let to = match lengths.map(|lengths| lengths.at(row)) {
                None => count,
                Some(length @ 0..) => from.saturating_add(length),
                Some(length) => count.saturating_add(length),
            };
            let (from, to) = (from.clamp(0, count), to.clamp(0, count));
            let start = range.start as i64;
            out.extend((start + from) as u32..(start + to.max(from)) as u32);
            Ok(())
        })
    })
}

fn range(site: &mut CallSite) -> Result<CompiledCall> {
    let (element, span) = (site.element(), site.span);
    site.cast_all(&element.kind)?;
    Ok(call(move |args| {
        let arg = |no: usize| (args.columns.len() > no).then(|| args.ints(no));
        let (first, second, third) = (arg(0), arg(1), arg(2));
        numbers(args, &element, span, |row, out| {
            let at =
                |arg: Option<crate::vector::column::Slice<i64>>| arg.map(|values| values.at(row));
            let (first, second) = (at(first).unwrap_or(0), at(second));
            let (from, to) = second.map_or((0, first), |second| (first, second));
            let step = at(third).unwrap_or(1);
            if step == 0 {
                return Err(Error::invalid("The step of range must not be zero", span));
            }
            let count = if step > 0 {
                (i128::from(to) - i128::from(from) + i128::from(step) - 1) / i128::from(step)
            } else {
                (i128::from(from) - i128::from(to) - i128::from(step) - 1) / -i128::from(step)
            };
            let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
            check_elements(out.len().saturating_add(count), span)?;
            meter::check_headroom(count * size_of::<i64>())?;
            let values = (0..count as i64).map(|no| from.wrapping_add(no.wrapping_mul(step)));
            out.extend(values.map(|value| wrap(&element.kind, value)));
            Ok(())
        })
    })
    .fallible())
}

fn zip(site: &CallSite) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    let several = site.args.len() > 1;
    call(move |args| {
        let Kind::Tuple(items) = &element.kind else {
            return Err(Error::invalid("arrayZip gives tuples", span));
        };
        let lists: Vec<Lists> = (0..args.columns.len()).map(|no| args.lists(no)).collect();
        let mut indices = vec![Vec::new(); lists.len()];
        let (mut offsets, mut charge) = (vec![0], GrowingBuffer::default());
        for row in 0..args.rows {
            if args.is_valid(row) {
                let length = lists[0].at(row).len();
                for (list, indices) in lists.iter().zip(&mut indices) {
                    if list.at(row).len() != length {
                        return Err(Error::invalid("The arrays have different lengths", span));
                    }
                    indices.extend(list.at(row).map(|at| at as u32));
                }
            }
            offsets.push(check_elements(indices[0].len(), span)?);
            charge.grow_to(indices[0].len() * lists.len() * size_of::<u32>())?;
        }
        let count = indices[0].len();
        let columns = lists.iter().zip(indices).map(|(list, indices)| {
            let indices = arrow_array::UInt32Array::from(indices);
            take(list.values, &indices)
        });
        let tuples = wide_struct(items, columns.collect::<Result<_>>()?, count)?;
        wide_list(&element, offsets, tuples)
    })
    .fallible_if(several)
}

fn depth(kind: &Kind) -> usize {
    match kind {
        Kind::Array(element) => 1 + depth(&element.kind),
        _ => 0,
    }
}

fn flatten(args: &Args, element: &Type, depth: usize) -> Result<ArrayRef> {
    let array = args.columns[0].expand(args.rows)?;
    let list = array.as_list::<i32>();
    let mut offsets = list.value_offsets().to_vec();
    let mut values = Arc::clone(list.values());
    for _ in 1..depth {
        let inner = values.as_list::<i32>().clone();
        let next = inner.value_offsets();
        offsets.iter_mut().for_each(|offset| *offset = next[*offset as usize]);
        values = Arc::clone(inner.values());
    }
    wide_list(element, offsets, values)
}

/// The difference to the preceding element; 0 for the first.
fn differences(site: &CallSite) -> CompiledCall {
    let element = site.element();
    let from = site.args[0].ty.element().map_or(Kind::Null, |element| element.kind.clone());
    call(move |args| {
        let array = args.columns[0].expand(args.rows)?;
        let list = array.as_list::<i32>();
        let (offsets, values) = (list.value_offsets(), list.values());
        let starts: AHashSet<usize> = offsets.iter().map(|offset| *offset as usize).collect();
        let positions = 0..values.len();
        let result: ArrayRef = match &from {
            Kind::Float | Kind::Decimal(_) => {
                let at = |position: usize| match &from {
                    Kind::Decimal(scale) => {
                        let unit = 10f64.powi(i32::from(*scale));
                        values.as_primitive::<Decimal128Type>().value(position) as f64 / unit
                    }
                    _ => values.as_primitive::<Float64Type>().value(position),
                };
                let difference = |position: usize| {
                    if starts.contains(&position) { 0.0 } else { at(position) - at(position - 1) }
                };
                Arc::new(positions.map(difference).collect::<Float64Array>())
            }
            _ => {
                let ints = values.as_primitive::<Int64Type>();
                let difference = |position: usize| {
                    if starts.contains(&position) {
                        return 0;
                    }
                    let (now, before) = (ints.value(position), ints.value(position - 1));
                    wrap(&element.kind, now.wrapping_sub(before))
                };
                Arc::new(Int64Array::from_iter_values(positions.map(difference)))
            }
        };
        wide_list(&element, offsets.to_vec(), result)
    })
}

/// `arrayIntersect`: the elements of all arrays, in the order of the first.
fn intersect(site: &mut CallSite) -> Result<CompiledCall> {
    let (element, span) = (site.element(), site.span);
    site.cast_all(&site.ty.kind)?;
    Ok(call(move |args| {
        let lists: Vec<Lists> = (0..args.columns.len()).map(|no| args.lists(no)).collect();
        let keys: Vec<Keys> =
            lists.iter().map(|list| Keys::new(&element.kind, list.values)).collect();
        args.pick_lists(&element, lists[0].values, span, |row, out| {
            let length = lists.iter().map(|list| list.at(row).len()).sum::<usize>();
            let _charge = meter::charge_large(length * KEY_BYTES)?;
            // For each value, how many leading arrays contain it.
            let mut counts: AHashMap<Key, usize> = AHashMap::new();
            for (no, (list, keys)) in lists.iter().zip(&keys).enumerate().skip(1) {
                for at in list.at(row) {
                    let count = counts.entry(keys.at(at)).or_default();
                    *count += usize::from(*count == no - 1);
                }
            }
            let mut emitted = AHashSet::new();
            for at in lists[0].at(row) {
                let key = keys[0].at(at);
                let everywhere = counts.get(&key).copied().unwrap_or(0) == lists.len() - 1;
                if everywhere && emitted.insert(key) {
                    out.push(at as u32);
                }
            }
            Ok(())
        })
    }))
}

/// The elements of the first array that the second does not have.
fn except(site: &mut CallSite) -> Result<CompiledCall> {
    let (element, span) = (site.element(), site.span);
    let Some(common) = site.args[0].ty.common(&site.args[1].ty) else {
        return Err(site.invalid("The arrays are of different types"));
    };
    let element_of = |ty: &Type| ty.element().map_or(Kind::Null, |element| element.kind.clone());
    let mut kinds = [0, 1].map(|no: usize| element_of(&site.args[no].ty));
    if !kinds.iter().all(Kind::is_integer) {
        let kind = element_of(&common);
        if kinds[0] != kind {
            return Err(site.invalid("The arrays are of different types"));
        }
        site.cast(1, &common.kind)?;
        kinds = [kind.clone(), kind];
    }
    Ok(call(move |args| {
        let (lists, others) = (args.lists(0), args.lists(1));
        let (keys, other_keys) =
            (Keys::new(&kinds[0], lists.values), Keys::new(&kinds[1], others.values));
        args.pick_lists(&element, lists.values, span, |row, out| {
            let _charge = meter::charge_large(others.at(row).len() * KEY_BYTES)?;
            let without: AHashSet<Key> = others.at(row).map(|at| other_keys.at(at)).collect();
            let kept = lists.at(row).filter(|at| !without.contains(&keys.at(*at)));
            out.extend(kept.map(|at| at as u32));
            Ok(())
        })
    }))
}
