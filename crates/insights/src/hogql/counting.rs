//! Ways of counting that are written as an expression, such as `sum(properties.price) / 100`.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, UInt64Array};
use arrow_schema::DataType;
use eval::{Program, data_type};
use facts::{IdSet, ReadView};
use hogql::plan::{Aggregate, Expr, ExprKind, Value};
use hogql::types::{Kind, Type};
use warehouse::Key;

use super::{HogqlCompiler, Scalar, Seen, context, of_eval, unsupported};
use crate::Result;
use crate::aggregate::AggregateFn;
use crate::scan::Texts;
use crate::tally::{Cell, Stat};

/// An expression over aggregates, and what these are.
pub(crate) struct Counting {
    calls: Vec<Call>,
    program: Program,
    /// The types of the aggregates, as the expression takes them.
    types: Vec<Option<Type>>,
}

struct Call {
    what: What,
    arg: Option<Scalar>,
    filter: Option<Scalar>,
}

enum What {
    Count,
    Number(AggregateFn),
    /// Different values; texts have numbers.
    Different(Box<Texts>),
}

/// What the calls have counted so far.
#[derive(Debug, Default)]
pub(crate) struct Counted(Vec<Part>);

#[derive(Debug)]
enum Part {
    Count(u64),
    Stat(Stat),
    Numbers(Vec<f64>),
    Different(IdSet),
}

impl Cell for Counted {
    fn absorb(&mut self, other: Self) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (own, other) in self.0.iter_mut().zip(other.0) {
            match (own, other) {
                (Part::Count(own), Part::Count(other)) => *own += other,
                (Part::Stat(own), Part::Stat(other)) => own.absorb(other),
                (Part::Numbers(own), Part::Numbers(other)) => own.absorb(other),
                (Part::Different(own), Part::Different(other)) => own.union(&other),
                _ => unreachable!("parts of one call are of one kind"),
            }
        }
    }

    fn bytes(&self) -> usize {
        let part = |part: &Part| match part {
            Part::Numbers(numbers) => numbers.capacity() * 8,
            Part::Different(set) => set.bytes(),
            Part::Count(_) | Part::Stat(_) => 0,
        };
        self.0.capacity() * size_of::<Part>() + self.0.iter().map(part).sum::<usize>()
    }
}

/// One value of every call for every row of some events.
pub(crate) struct Read(Vec<Column>);

struct Column {
    keep: Option<Vec<bool>>,
    items: Items,
}

enum Items {
    Rows,
    /// Not a number where there is none.
    Numbers(Vec<f64>),
    Codes(Vec<Option<u32>>),
}

impl HogqlCompiler {
    pub(crate) fn counting(&self, view: &ReadView, text: &str) -> Result<Counting> {
        let select = self.select(text, |expr| expr)?;
        let aggregates = match &select.grouping {
            Some(grouping) if grouping.keys.is_empty() => &grouping.aggregates,
            _ => return Err(unsupported("Something other than aggregates")),
        };
        let [column] = select.columns.as_slice() else { return Err(unsupported("A list")) };
        let context = context(view, &self.cancellation);
        let call = |aggregate: &Aggregate| {
            let scalar = |expr: &Expr| Scalar::new(expr, view, &context);
            let (what, arg) = what(aggregate)?;
            let filter = aggregate.filter.as_ref().map(scalar).transpose()?;
            Ok(Call { what, arg: arg.as_ref().map(scalar).transpose()?, filter })
        };
        let calls = aggregates.iter().map(call).collect::<Result<Vec<Call>>>()?;
        let mut types: Vec<Option<Type>> = vec![None; calls.len()];
        let program = Program::compile(column, &context, &mut |leaf| match leaf.kind {
            ExprKind::Aggregate(at) => {
                *types.get_mut(at)? = Some(leaf.ty.clone());
                Some(at)
            }
            _ => None,
        });
        Ok(Counting { calls, program: program.map_err(of_eval)?, types })
    }
}

/// What a call counts, and of which values.
fn what(aggregate: &Aggregate) -> Result<(What, Option<Expr>)> {
    let name = aggregate.function.0.name;
    let arg = match aggregate.args.as_slice() {
        [] => None,
        [arg] => Some(arg.clone()),
        _ => return Err(unsupported(name)),
    };
    let number = |aggregate: AggregateFn| match &arg {
        Some(arg) if arg.ty.kind.is_number() && !matches!(arg.ty.kind, Kind::Decimal(_)) => {
            Ok((What::Number(aggregate), Some(arg.clone())))
        }
        _ => Err(unsupported(&format!("{name} of what is no number"))),
    };
    match (name, aggregate.distinct) {
        ("count", false) => Ok((What::Count, arg)),
        ("count" | "uniq" | "uniqExact", _) => {
            let arg = arg.ok_or_else(|| unsupported(name))?;
            let ty = Type { kind: Kind::String, nullable: arg.ty.nullable };
            let span = arg.span;
            let cast = ExprKind::Cast { expr: Box::new(arg), or_null: false };
            Ok((What::Different(Box::default()), Some(Expr { kind: cast, ty, span })))
        }
        ("sum", false) => number(AggregateFn::Sum),
        ("avg", false) => number(AggregateFn::Avg),
        ("min", _) => number(AggregateFn::Min),
        ("max", _) => number(AggregateFn::Max),
        ("median", false) => number(AggregateFn::Quantile(0.5)),
        ("quantile", false) => {
            let part = match aggregate.parameters.as_slice() {
                [Value::Float(part)] => *part,
                [Value::UInt(part)] => *part as f64,
                _ => return Err(unsupported(name)),
            };
            number(AggregateFn::Quantile(part))
        }
        _ => Err(unsupported(name)),
    }
}

impl Counting {
    /// Columns of all calls, one behind the other.
    pub fn keys(&self) -> Vec<Key> {
        let scalars = self.calls.iter().flat_map(|call| call.arg.iter().chain(&call.filter));
        scalars.flat_map(|scalar| scalar.keys().iter().cloned()).collect()
    }

    pub fn read(&self, seen: Seen<'_>) -> Result<Read> {
        let mut columns = seen.columns;
        let mut own = |scalar: &Scalar| {
            let (first, rest) = columns.split_at(scalar.keys().len());
            columns = rest;
            Seen { columns: first, ..seen }
        };
        let mut read = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let arg = call.arg.as_ref().map(|scalar| (scalar, own(scalar)));
            let filter = call.filter.as_ref().map(|scalar| (scalar, own(scalar)));
            let mut keep = filter.map(|(scalar, seen)| truths(scalar, seen)).transpose()?;
            let items = match (&call.what, arg) {
                (What::Count, None) => Items::Rows,
                (What::Count, Some((scalar, seen))) => {
                    let array = scalar.run(seen)?;
                    let there = |row: usize| !array.is_null(row);
                    let before = keep.take();
                    let kept = |row: usize| before.as_ref().is_none_or(|keep| keep[row]);
                    keep = Some((0..array.len()).map(|row| there(row) && kept(row)).collect());
                    Items::Rows
                }
                (What::Number(_), Some((scalar, seen))) => {
                    Items::Numbers(numbers(&scalar.run(seen)?)?)
                }
                (What::Different(texts), Some((scalar, seen))) => {
                    let mut codes = Vec::with_capacity(seen.times.len());
                    scalar
                        .each_text(seen, |text| codes.push(text.map(|text| texts.number(text))))?;
                    Items::Codes(codes)
                }
                (_, None) => return Err(unsupported("A call without arguments")),
            };
            read.push(Column { keep, items });
        }
        Ok(Read(read))
    }

    pub fn add(&self, cell: &mut Counted, read: &Read, row: usize) {
        if cell.0.is_empty() {
            let part = |call: &Call| match call.what {
                What::Count => Part::Count(0),
                What::Number(AggregateFn::Quantile(_)) => Part::Numbers(Vec::new()),
                What::Number(_) => Part::Stat(Stat::default()),
                What::Different(_) => Part::Different(IdSet::default()),
            };
            cell.0 = self.calls.iter().map(part).collect();
        }
        for (part, column) in cell.0.iter_mut().zip(&read.0) {
            if column.keep.as_ref().is_some_and(|keep| !keep[row]) {
                continue;
            }
            match (part, &column.items) {
                (Part::Count(count), _) => *count += 1,
                (Part::Stat(stat), Items::Numbers(all)) if !all[row].is_nan() => stat.add(all[row]),
                (Part::Numbers(own), Items::Numbers(all)) if !all[row].is_nan() => {
                    own.push(all[row]);
                }
                (Part::Different(set), Items::Codes(codes)) => {
                    codes[row].into_iter().for_each(|code| set.insert(code));
                }
                _ => {}
            }
        }
    }

    /// A number for each cell; what has none is 0.
    pub fn finish(&self, cells: &[&Counted]) -> Result<Vec<f64>> {
        let input = |at: usize| {
            let ty = self.types[at].clone().unwrap_or_else(|| Kind::Float.into());
            let number = |cell: &&Counted| self.number(at, cell);
            array(cells.iter().map(number), &data_type(&ty))
        };
        let inputs: Vec<ArrayRef> = (0..self.calls.len()).map(input).collect::<Result<_>>()?;
        let found = self.program.run(&inputs, cells.len()).map_err(of_eval)?;
        let found = numbers(&found)?;
        Ok(found.into_iter().map(|number| if number.is_finite() { number } else { 0.0 }).collect())
    }

    fn number(&self, at: usize, cell: &Counted) -> Option<f64> {
        let What::Number(aggregate) = &self.calls[at].what else {
            return Some(match cell.0.get(at) {
                Some(Part::Count(count)) => *count as f64,
                Some(Part::Different(set)) => set.count() as f64,
                _ => 0.0,
            });
        };
        let empty = (*aggregate == AggregateFn::Sum).then_some(0.0);
        match cell.0.get(at) {
            Some(Part::Stat(stat)) if stat.count > 0 => Some(aggregate.of_stat(stat)),
            Some(Part::Numbers(all)) if !all.is_empty() => Some(aggregate.of(all.clone())),
            _ => empty,
        }
    }
}

fn truths(scalar: &Scalar, seen: Seen<'_>) -> Result<Vec<bool>> {
    let inputs = scalar.inputs.arrays(seen)?;
    let kept = scalar.program.filter(&inputs, seen.times.len()).map_err(of_eval)?;
    Ok((0..kept.len()).map(|row| kept.value(row)).collect())
}

/// Not a number where there is none.
fn numbers(array: &ArrayRef) -> Result<Vec<f64>> {
    macro_rules! each {
        ($kind:ty) => {{
            let own = array.as_primitive::<$kind>();
            let number = |row: usize| own.value(row) as f64;
            (0..own.len())
                .map(|row| if own.is_null(row) { f64::NAN } else { number(row) })
                .collect()
        }};
    }
    Ok(match array.data_type() {
        DataType::Float64 => each!(Float64Type),
        DataType::Int8 => each!(Int8Type),
        DataType::Int16 => each!(Int16Type),
        DataType::Int32 => each!(Int32Type),
        DataType::Int64 => each!(Int64Type),
        DataType::UInt8 => each!(UInt8Type),
        DataType::UInt16 => each!(UInt16Type),
        DataType::UInt32 => each!(UInt32Type),
        DataType::UInt64 => each!(UInt64Type),
        DataType::Boolean => {
            let own = array.as_boolean();
            let number = |row: usize| f64::from(u8::from(own.value(row)));
            (0..own.len())
                .map(|row| if own.is_null(row) { f64::NAN } else { number(row) })
                .collect()
        }
        DataType::Null => vec![f64::NAN; array.len()],
        _ => return Err(unsupported("What is no number")),
    })
}

/// Aggregates give numbers of 64 bits, or those of their arguments.
fn array(numbers: impl Iterator<Item = Option<f64>>, ty: &DataType) -> Result<ArrayRef> {
    Ok(match ty {
        DataType::Float64 => Arc::new(numbers.collect::<Float64Array>()),
        DataType::UInt64 => {
            Arc::new(numbers.map(|number| Some(number? as u64)).collect::<UInt64Array>())
        }
        DataType::Int64 => {
            Arc::new(numbers.map(|number| Some(number? as i64)).collect::<Int64Array>())
        }
        _ => return Err(unsupported("A number of this type")),
    })
}

/// The first of several threads' errors, where a fold has no way to give one back.
#[derive(Debug, Default)]
pub(crate) struct FirstError(Mutex<Option<crate::Error>>);

impl FirstError {
    pub fn keep<T: Default>(&self, found: Result<T>) -> T {
        found.unwrap_or_else(|error| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            T::default()
        })
    }

    pub fn check(self) -> Result<()> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}
