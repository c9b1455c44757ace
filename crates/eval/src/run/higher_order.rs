//! Higher-order functions, which apply a lambda to the elements of arrays.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, UInt32Array,
};
use hogql::Span;
use hogql::types::{Kind, Type};

use crate::error::{Error, Result};
use crate::limits::cancellation::{Cancellation, ROWS_PER_CHECK};
use crate::limits::memory::MemoryCharge;
use crate::limits::meter;
use crate::run::compare::comparer;
use crate::run::fold::fold;
use crate::run::node::Node;
use crate::run::scope::Scope;
use crate::vector::column::{Column, check_elements, is_true};
use crate::vector::gather::take;
use crate::vector::types::{entry, wide_list, wide_struct, without_nulls};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HigherOrder {
    Map,
    Filter,
    Exists,
    All,
    First,
    Last,
    Count,
    Sum,
    Average,
    Min,
    Max,
    Sort,
    ReverseSort,
    RunningSum,
    /// As `RunningSum`, never below zero.
    RunningSumAboveZero,
    FirstIndex,
    LastIndex,
    Fill,
    ReverseFill,
    Split,
    ReverseSplit,
    Product,
    MapFilter,
    MapApply,
    Fold,
}

/// The elements of all rows of a batch, flattened.
pub(super) struct Elements {
    /// List offsets, by row.
    offsets: Vec<i32>,
    /// The row of each element.
    rows: UInt32Array,
    /// The flattened elements of each array argument.
    pub values: Vec<ArrayRef>,
    _charge: Option<MemoryCharge>,
}

impl HigherOrder {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "arrayMap" => Self::Map,
            "arrayFilter" => Self::Filter,
            "arrayExists" => Self::Exists,
            "arrayAll" => Self::All,
            "arrayFirst" => Self::First,
            "arrayLast" => Self::Last,
            "arrayCount" => Self::Count,
            "arraySum" => Self::Sum,
            "arrayAvg" => Self::Average,
            "arrayMin" => Self::Min,
            "arrayMax" => Self::Max,
            "arraySort" => Self::Sort,
            "arrayReverseSort" => Self::ReverseSort,
            "arrayCumSum" => Self::RunningSum,
            "arrayCumSumNonNegative" => Self::RunningSumAboveZero,
            "arrayFirstIndex" => Self::FirstIndex,
            "arrayLastIndex" => Self::LastIndex,
            "arrayFill" => Self::Fill,
            "arrayReverseFill" => Self::ReverseFill,
            "arraySplit" => Self::Split,
            "arrayReverseSplit" => Self::ReverseSplit,
            "arrayProduct" => Self::Product,
            "mapFilter" => Self::MapFilter,
            "mapApply" => Self::MapApply,
            "arrayFold" => Self::Fold,
            _ => return None,
        })
    }

    /// Fallible with several arrays, which may differ in length.
    pub fn fallible(self, arrays: usize) -> bool {
        arrays > 1
    }

    pub fn apply(
        self,
        scope: &Scope,
        lambda: Option<(&[usize], &Node)>,
        arrays: &[Node],
        ty: &Type,
        span: Span,
    ) -> Result<Column> {
        if let (Self::Fold, Some(lambda)) = (self, lambda) {
            return fold(scope, lambda, arrays, span);
        }
        let columns = scope.eval_all(arrays)?;
        let mut elements = Elements::of(&columns, scope.rows, span)?;
        if matches!(self, Self::MapFilter | Self::MapApply) {
            // The lambda takes the key and the value of an entry.
            let entries = elements.values[0].as_struct();
            elements.values = vec![Arc::clone(entries.column(0)), Arc::clone(entries.column(1))];
        }
        let first = &elements.values[0];
        let first_kind = arrays[0].ty.element().map_or(Kind::Null, |element| element.kind.clone());
        let inner = lambda.map(|(params, body)| {
            let values = elements.values.iter().map(|values| Column::full(Arc::clone(values)));
            (scope.lambda(&elements.rows, params.iter().copied().zip(values).collect()), body)
        });
        let count = elements.rows.len();
        let holds = || match &inner {
            Some((scope, body)) => scope.eval_bools(body),
            None => Ok(is_true(first)),
        };
        let results = || match &inner {
            Some((scope, body)) => scope.eval(body)?.expand(count),
            None => Ok(Arc::clone(first)),
        };
        let result_kind = lambda.map_or(&first_kind, |(_, body)| &body.ty.kind);
        let array: ArrayRef = match self {
            Self::Map => {
                let element = ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
                wide_list(&element, elements.offsets.clone(), results()?)?
            }
            Self::Filter => elements.filtered(&holds()?, ty)?,
            Self::Exists => {
                elements.per_row(&holds()?, |holds, range| i64::from(range.into_iter().any(holds)))
            }
            Self::All => {
                elements.per_row(&holds()?, |holds, range| i64::from(range.into_iter().all(holds)))
            }
            Self::Count => elements.per_row(&holds()?, |holds, range| {
                range.into_iter().filter(|at| holds(*at)).count() as i64
            }),
            Self::First | Self::Last => {
                let bools = holds()?;
                let indices = elements.ranges().map(|mut range| {
                    let holds = |at: &usize| bools.is_valid(*at) && bools.value(*at);
                    let index =
                        if self == Self::First { range.find(holds) } else { range.rfind(holds) };
                    index.map(|at| at as u32)
                });
                pick(first, indices.collect(), ty)?
            }
            Self::Min | Self::Max => {
                let results = results()?;
                let wanted = if self == Self::Min { Ordering::Less } else { Ordering::Greater };
                let order = comparer(result_kind, &results, &results);
                let indices = elements.ranges().map(|range| {
                    let valid = range.filter(|at| results.is_valid(*at));
                    let best =
                        valid.reduce(|best, at| if order(at, best) == wanted { at } else { best });
                    best.map(|at| at as u32)
                });
                let indices: UInt32Array = indices.collect();
                pick(&results, indices, ty)?
            }
            Self::Sum => elements.sums(&results()?, &ty.kind)?,
            Self::Average => {
                let results = results()?;
                let averages = elements.ranges().map(|range| {
                    let count = range.len().max(1) as f64;
                    range.map(|at| float_at(result_kind, &results, at)).sum::<f64>() / count
                });
                Arc::new(averages.collect::<Float64Array>())
            }
            Self::Sort | Self::ReverseSort => {
                let results = results()?;
                let reverse = self == Self::ReverseSort;
                elements.sorted(&results, result_kind, reverse, ty, &scope.cancellation)?
            }
            Self::RunningSum => elements.running(&results()?, ty, false)?,
            Self::RunningSumAboveZero => elements.running(&results()?, ty, true)?,
            Self::FirstIndex | Self::LastIndex => {
                elements.per_row(&holds()?, |holds, mut range| {
                    let start = range.start;
                    let found = match self {
                        Self::FirstIndex => range.find(|at| holds(*at)),
                        _ => range.rfind(|at| holds(*at)),
                    };
                    found.map_or(0, |at| (at - start) as i64 + 1)
                })
            }
            Self::Fill | Self::ReverseFill => elements.filled(&holds()?, self == Self::Fill, ty)?,
            Self::Split | Self::ReverseSplit => {
                elements.split(&holds()?, self == Self::Split, ty)?
            }
            Self::Product => {
                let results = results()?;
                let products = elements.ranges().map(|range| {
                    let valid = range.filter(|at| results.is_valid(*at));
                    valid.map(|at| float_at(result_kind, &results, at)).product::<f64>()
                });
                Arc::new(products.collect::<Float64Array>())
            }
            Self::Fold => return Err(Error::invalid("arrayFold takes a lambda", span)),
            Self::MapFilter => {
                let bools = holds()?;
                let entries = columns[0].expand(scope.rows)?;
                let list = entries.as_list::<i32>();
                let start = list.value_offsets()[0] as usize;
                let entries = list.values().slice(start, elements.rows.len());
                elements.filtered_map(&entries, &bools, ty)?
            }
            Self::MapApply => {
                let pairs = results()?;
                let Kind::Map(pair) = &ty.kind else {
                    return Err(Error::invalid("mapApply gives a map", span));
                };
                let items = [pair.0.clone(), pair.1.clone()];
                let columns = pairs.as_struct().columns().to_vec();
                let entries = wide_struct(&items, columns, pairs.len())?;
                wide_list(&entry(pair), elements.offsets.clone(), entries)?
            }
        };
        Ok(Column::full(array))
    }
}

/// The values at these indices; null or the type's default at a null index.
fn pick(values: &ArrayRef, at: UInt32Array, ty: &Type) -> Result<ArrayRef> {
    let values = take(values, &at)?;
    if ty.nullable { Ok(values) } else { without_nulls(&values) }
}

fn float_at(kind: &Kind, array: &ArrayRef, at: usize) -> f64 {
    if array.is_null(at) {
        return 0.0;
    }
    match kind {
        Kind::Float => array.as_primitive::<Float64Type>().value(at),
        Kind::Decimal(scale) => {
            array.as_primitive::<Decimal128Type>().value(at) as f64 / 10f64.powi(i32::from(*scale))
        }
        Kind::UInt(64) => array.as_primitive::<Int64Type>().value(at) as u64 as f64,
        _ => array.as_primitive::<Int64Type>().value(at) as f64,
    }
}

impl Elements {
    pub fn of(columns: &[Column], rows: usize, span: Span) -> Result<Self> {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0i32);
        let lengths = |column: &Column| -> Vec<usize> {
            let all = column.array.as_list::<i32>().value_offsets();
            let all = all.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
            if column.constant { all.cycle().take(rows).collect() } else { all.collect() }
        };
        let first = lengths(&columns[0]);
        let mut total = 0usize;
        for length in &first {
            total = total.saturating_add(*length);
            offsets.push(check_elements(total, span)?);
        }
        for column in &columns[1..] {
            if lengths(column) != first {
                return Err(Error::invalid("The arrays have different lengths", span));
            }
        }
        meter::work(total)?;
        let _charge = meter::charge_large(total * size_of::<u32>() * 2)?;
        let of_row = first.iter().enumerate();
        let of_row = of_row.flat_map(|(row, length)| std::iter::repeat_n(row as u32, *length));
        let values = columns.iter().map(|column| {
            let list = column.array.as_list::<i32>();
            let all = list.value_offsets();
            let (start, end) = (all[0] as usize, all[all.len() - 1] as usize);
            let values = list.values().slice(start, end - start);
            if !column.constant {
                return Ok(values);
            }
            let again: UInt32Array =
                (0..rows).flat_map(|_| 0..(end - start) as u32).map(Some).collect();
            take(&values, &again)
        });
        Ok(Self {
            rows: UInt32Array::from_iter_values(of_row),
            values: values.collect::<Result<_>>()?,
            offsets,
            _charge,
        })
    }

    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.offsets.windows(2).map(|pair| pair[0] as usize..pair[1] as usize)
    }

    fn per_row(
        &self,
        bools: &BooleanArray,
        count: impl Fn(&dyn Fn(usize) -> bool, std::ops::Range<usize>) -> i64,
    ) -> ArrayRef {
        let holds = |at: usize| bools.is_valid(at) && bools.value(at);
        let counts = self.ranges().map(|range| count(&holds, range));
        Arc::new(Int64Array::from_iter_values(counts))
    }

    /// Lists of elements of the first array whose indices `choose` pushes.
    fn picked(
        &self,
        ty: &Type,
        mut choose: impl FnMut(std::ops::Range<usize>, &mut Vec<u32>) -> Result<()>,
    ) -> Result<ArrayRef> {
        let (mut offsets, mut indices) = (vec![0i32], Vec::new());
        let mut charge = meter::GrowingBuffer::default();
        for range in self.ranges() {
            choose(range, &mut indices)?;
            offsets.push(indices.len() as i32);
            charge.grow_to(indices.len() * size_of::<u32>())?;
        }
        let element = ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
        let values = take(&self.values[0], &UInt32Array::from(indices))?;
        wide_list(&element, offsets, values)
    }

    fn filtered(&self, bools: &BooleanArray, ty: &Type) -> Result<ArrayRef> {
        let holds = |at: &usize| bools.is_valid(*at) && bools.value(*at);
        self.picked(ty, |range, out| {
            out.extend(range.filter(holds).map(|at| at as u32));
            Ok(())
        })
    }

    fn filtered_map(
        &self,
        entries: &ArrayRef,
        bools: &BooleanArray,
        ty: &Type,
    ) -> Result<ArrayRef> {
        let Kind::Map(pair) = &ty.kind else { return Ok(Arc::clone(entries)) };
        let holds = |at: &usize| bools.is_valid(*at) && bools.value(*at);
        let (mut offsets, mut indices) = (vec![0i32], Vec::new());
        for range in self.ranges() {
            indices.extend(range.filter(holds).map(|at| at as u32));
            offsets.push(indices.len() as i32);
        }
        wide_list(&entry(pair), offsets, take(entries, &UInt32Array::from(indices))?)
    }

    /// Each element that does not hold is replaced by the nearest one before it (or after it) that
    /// does; the first (or last) one stays.
    fn filled(&self, bools: &BooleanArray, forward: bool, ty: &Type) -> Result<ArrayRef> {
        let holds = |at: usize| bools.is_valid(at) && bools.value(at);
        self.picked(ty, |range, out| {
            let start = out.len();
            let mut last = None;
            let mut next = |at: usize| {
                let kept = if holds(at) { at } else { last.unwrap_or(at) };
                last = Some(kept);
                kept as u32
            };
            if forward {
                out.extend(range.map(&mut next));
            } else {
                out.extend(range.rev().map(&mut next));
                out[start..].reverse();
            }
            Ok(())
        })
    }

    /// Splits before (or after) each element that holds.
    fn split(&self, bools: &BooleanArray, before: bool, ty: &Type) -> Result<ArrayRef> {
        let holds = |at: usize| bools.is_valid(at) && bools.value(at);
        let (mut outer, mut inner) = (vec![0i32], vec![0i32]);
        for range in self.ranges() {
            for at in range.clone() {
                let ends = if before { at + 1 < range.end && holds(at + 1) } else { holds(at) };
                if ends || at + 1 == range.end {
                    inner.push(at as i32 + 1);
                }
            }
            outer.push(inner.len() as i32 - 1);
        }
        let list = ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
        let element = list.element().cloned().unwrap_or_else(|| Kind::Null.into());
        let parts = wide_list(&element, inner, Arc::clone(&self.values[0]))?;
        wide_list(&list, outer, parts)
    }

    /// NaN and then nulls come last in both directions.
    fn sorted(
        &self,
        keys: &ArrayRef,
        kind: &Kind,
        reverse: bool,
        ty: &Type,
        cancellation: &Cancellation,
    ) -> Result<ArrayRef> {
        let order = comparer(kind, keys, keys);
        let floats = (*kind == Kind::Float).then(|| keys.as_primitive::<Float64Type>());
        let last = |at: usize| {
            let nan = floats.is_some_and(|floats| floats.is_valid(at) && floats.value(at).is_nan());
            u8::from(nan) + 2 * u8::from(keys.is_null(at))
        };
        self.picked(ty, |range, out| {
            let compare = |a: &usize, b: &usize| {
                last(*a).cmp(&last(*b)).then_with(|| {
                    let order = order(*a, *b);
                    if reverse { order.reverse() } else { order }
                })
            };
            let _charge = meter::charge_large(2 * range.len() * size_of::<usize>())?;
            let mut numbers: Vec<usize> = range.collect();
            for some in numbers.chunks_mut(ROWS_PER_CHECK) {
                cancellation.check()?;
                some.sort_by(compare);
            }
            if numbers.len() > ROWS_PER_CHECK {
                // The stable sort merges the sorted runs.
                numbers.sort_by(compare);
            }
            out.extend(numbers.into_iter().map(|at| at as u32));
            Ok(())
        })
    }

    fn sums(&self, values: &ArrayRef, kind: &Kind) -> Result<ArrayRef> {
        Ok(match kind {
            Kind::Float => {
                let values = values.as_primitive::<Float64Type>();
                let sums = self.ranges().map(|range| {
                    range.filter(|at| values.is_valid(*at)).map(|at| values.value(at)).sum::<f64>()
                });
                Arc::new(sums.collect::<Float64Array>())
            }
            Kind::Decimal(scale) => {
                let values = values.as_primitive::<Decimal128Type>();
                let sums = self.ranges().map(|range| {
                    let valid = range.filter(|at| values.is_valid(*at));
                    valid.fold(0i128, |sum, at| sum.saturating_add(values.value(at)))
                });
                let sums = Decimal128Array::from_iter_values(sums);
                Arc::new(sums.with_precision_and_scale(38, *scale as i8)?)
            }
            _ => {
                let values = values.as_primitive::<Int64Type>();
                let sums = self.ranges().map(|range| {
                    let valid = range.filter(|at| values.is_valid(*at));
                    valid.fold(0i64, |sum, at| sum.wrapping_add(values.value(at)))
                });
                Arc::new(Int64Array::from_iter_values(sums))
            }
        })
    }

    fn running(&self, values: &ArrayRef, ty: &Type, above_zero: bool) -> Result<ArrayRef> {
        let element = ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
        let sums: ArrayRef = match &element.kind {
            Kind::Float => {
                let values = values.as_primitive::<Float64Type>();
                let sums = self.ranges().flat_map(|range| {
                    range.scan(0.0, |sum, at| {
                        *sum += if values.is_valid(at) { values.value(at) } else { 0.0 };
                        if above_zero {
                            *sum = sum.max(0.0);
                        }
                        Some(*sum)
                    })
                });
                Arc::new(sums.collect::<Float64Array>())
            }
            Kind::Decimal(scale) => {
                let values = values.as_primitive::<Decimal128Type>();
                let sums = self.ranges().flat_map(|range| {
                    range.scan(0i128, |sum, at| {
                        *sum = sum.saturating_add(values.value(at));
                        if above_zero {
                            *sum = (*sum).max(0);
                        }
                        Some(*sum)
                    })
                });
                let sums = Decimal128Array::from_iter_values(sums);
                Arc::new(sums.with_precision_and_scale(38, *scale as i8)?)
            }
            _ => {
                let values = values.as_primitive::<Int64Type>();
                let sums = self.ranges().flat_map(|range| {
                    range.scan(0i64, |sum, at| {
                        let next = if values.is_valid(at) { values.value(at) } else { 0 };
                        *sum = sum.wrapping_add(next);
                        if above_zero {
                            *sum = (*sum).max(0);
                        }
                        Some(*sum)
                    })
                });
                Arc::new(Int64Array::from_iter_values(sums))
            }
        };
        wide_list(&element, self.offsets.clone(), sums)
    }
}
