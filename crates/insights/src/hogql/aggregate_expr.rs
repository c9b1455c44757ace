//! Math written in HogQL: expressions over aggregates, such as `sum(properties.price) / 100`.

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
use warehouse::ColumnKey;

use super::{HogqlCompiler, Scalar, context, eval_error, unsupported};
use crate::Result;
use crate::aggregates::function::AggregateFn;
use crate::aggregates::table::{Cell, Summary};
use crate::columns::EventColumns;
use crate::columns::interner::StringInterner;

/// A compiled expression over aggregate calls.
pub(crate) struct AggregateExpr {
    calls: Vec<AggregateCall>,
    program: Program,
    /// Types of the aggregates as inputs of `program`; none for those that it does not use.
    types: Vec<Option<Type>>,
}

struct AggregateCall {
    kind: CallKind,
    arg: Option<Scalar>,
    filter: Option<Scalar>,
}

enum CallKind {
    Count,
    Number(AggregateFn),
    /// Distinct values, converted to strings and interned.
    Distinct(Box<StringInterner>),
}

/// Partial aggregate of every call.
#[derive(Debug, Default)]
pub(crate) struct AggregateState(Vec<CallState>);

#[derive(Debug)]
enum CallState {
    Count(u64),
    Summary(Summary),
    Numbers(Vec<f64>),
    Distinct(IdSet),
}

impl Cell for AggregateState {
    fn merge(&mut self, other: Self) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (state, other) in self.0.iter_mut().zip(other.0) {
            match (state, other) {
                (CallState::Count(count), CallState::Count(other)) => *count += other,
                (CallState::Summary(own), CallState::Summary(other)) => own.merge(other),
                (CallState::Numbers(own), CallState::Numbers(other)) => own.merge(other),
                (CallState::Distinct(own), CallState::Distinct(other)) => own.union(&other),
                _ => unreachable!("states of one call are of one kind"),
            }
        }
    }

    fn bytes(&self) -> usize {
        let part = |part: &CallState| match part {
            CallState::Numbers(numbers) => numbers.capacity() * 8,
            CallState::Distinct(set) => set.bytes(),
            CallState::Count(_) | CallState::Summary(_) => 0,
        };
        self.0.capacity() * size_of::<CallState>() + self.0.iter().map(part).sum::<usize>()
    }
}

/// Arguments of every call for a batch of events.
pub(crate) struct CallInputs(Vec<CallInput>);

struct CallInput {
    keep: Option<Vec<bool>>,
    items: InputValues,
}

enum InputValues {
    Rows,
    /// NaN for null.
    Numbers(Vec<f64>),
    Codes(Vec<Option<u32>>),
}

impl HogqlCompiler {
    pub(crate) fn aggregate_expr(&self, view: &ReadView, text: &str) -> Result<AggregateExpr> {
        let select = self.select(text, |expr| expr)?;
        let aggregates = match &select.grouping {
            Some(grouping) if grouping.keys.is_empty() => &grouping.aggregates,
            _ => return Err(unsupported("Something other than aggregates")),
        };
        let [column] = select.columns.as_slice() else { return Err(unsupported("A list")) };
        let context = context(view, &self.cancellation);
        let call = |aggregate: &Aggregate| {
            let scalar = |expr: &Expr| Scalar::new(expr, view, &context);
            let (kind, arg) = call_kind(aggregate)?;
            let filter = aggregate.filter.as_ref().map(scalar).transpose()?;
            Ok(AggregateCall { kind, arg: arg.as_ref().map(scalar).transpose()?, filter })
        };
        let calls = aggregates.iter().map(call).collect::<Result<Vec<AggregateCall>>>()?;
        let mut types: Vec<Option<Type>> = vec![None; calls.len()];
        let program = Program::compile(column, &context, &mut |leaf| match leaf.kind {
            ExprKind::Aggregate(at) => {
                *types.get_mut(at)? = Some(leaf.ty.clone());
                Some(at)
            }
            _ => None,
        });
        Ok(AggregateExpr { calls, program: program.map_err(eval_error)?, types })
    }
}

/// The kind of a call, and its argument.
fn call_kind(aggregate: &Aggregate) -> Result<(CallKind, Option<Expr>)> {
    let name = aggregate.function.0.name;
    let arg = match aggregate.args.as_slice() {
        [] => None,
        [arg] => Some(arg.clone()),
        _ => return Err(unsupported(name)),
    };
    let number = |aggregate: AggregateFn| match &arg {
        Some(arg) if arg.ty.kind.is_number() && !matches!(arg.ty.kind, Kind::Decimal(_)) => {
            Ok((CallKind::Number(aggregate), Some(arg.clone())))
        }
        _ => Err(unsupported(&format!("{name} of a value that is not a number"))),
    };
    match (name, aggregate.distinct) {
        ("count", false) => Ok((CallKind::Count, arg)),
        ("count" | "uniq" | "uniqExact", _) => {
            let arg = arg.ok_or_else(|| unsupported(name))?;
            let ty = Type { kind: Kind::String, nullable: arg.ty.nullable };
            let span = arg.span;
            let cast = ExprKind::Cast { expr: Box::new(arg), or_null: false };
            Ok((CallKind::Distinct(Box::default()), Some(Expr { kind: cast, ty, span })))
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

impl AggregateExpr {
    /// Columns of all calls, concatenated.
    pub fn keys(&self) -> Vec<ColumnKey> {
        let scalars = self.calls.iter().flat_map(|call| call.arg.iter().chain(&call.filter));
        scalars.flat_map(|scalar| scalar.keys().iter().cloned()).collect()
    }

    pub fn read(&self, events: EventColumns<'_>) -> Result<CallInputs> {
        let mut columns = events.columns;
        let mut columns_of = |scalar: &Scalar| {
            let (first, rest) = columns.split_at(scalar.keys().len());
            columns = rest;
            EventColumns { columns: first, ..events }
        };
        let mut read = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let arg = call.arg.as_ref().map(|scalar| (scalar, columns_of(scalar)));
            let filter = call.filter.as_ref().map(|scalar| (scalar, columns_of(scalar)));
            let mut keep = filter.map(|(scalar, events)| truths(scalar, events)).transpose()?;
            let items = match (&call.kind, arg) {
                (CallKind::Count, None) => InputValues::Rows,
                (CallKind::Count, Some((scalar, events))) => {
                    let array = scalar.run(events)?;
                    let present = |row: usize| !array.is_null(row);
                    let before = keep.take();
                    let kept = |row: usize| before.as_ref().is_none_or(|keep| keep[row]);
                    keep = Some((0..array.len()).map(|row| present(row) && kept(row)).collect());
                    InputValues::Rows
                }
                (CallKind::Number(_), Some((scalar, events))) => {
                    InputValues::Numbers(numbers(&scalar.run(events)?)?)
                }
                (CallKind::Distinct(texts), Some((scalar, events))) => {
                    let mut codes = Vec::with_capacity(events.times.len());
                    scalar.each_text(events, |text| {
                        codes.push(text.map(|text| texts.intern(text)))
                    })?;
                    InputValues::Codes(codes)
                }
                (_, None) => return Err(unsupported("A call without arguments")),
            };
            read.push(CallInput { keep, items });
        }
        Ok(CallInputs(read))
    }

    pub fn add(&self, cell: &mut AggregateState, read: &CallInputs, row: usize) {
        if cell.0.is_empty() {
            let part = |call: &AggregateCall| match call.kind {
                CallKind::Count => CallState::Count(0),
                CallKind::Number(AggregateFn::Quantile(_)) => CallState::Numbers(Vec::new()),
                CallKind::Number(_) => CallState::Summary(Summary::default()),
                CallKind::Distinct(_) => CallState::Distinct(IdSet::default()),
            };
            cell.0 = self.calls.iter().map(part).collect();
        }
        for (part, column) in cell.0.iter_mut().zip(&read.0) {
            if column.keep.as_ref().is_some_and(|keep| !keep[row]) {
                continue;
            }
            match (part, &column.items) {
                (CallState::Count(count), _) => *count += 1,
                (CallState::Summary(summary), InputValues::Numbers(all)) if !all[row].is_nan() => {
                    summary.add(all[row])
                }
                (CallState::Numbers(own), InputValues::Numbers(all)) if !all[row].is_nan() => {
                    own.push(all[row]);
                }
                (CallState::Distinct(set), InputValues::Codes(codes)) => {
                    codes[row].into_iter().for_each(|code| set.insert(code));
                }
                _ => {}
            }
        }
    }

    /// Evaluates the expression for each cell. Null, NaN and infinity become 0.
    pub fn finish(&self, cells: &[&AggregateState]) -> Result<Vec<f64>> {
        let input = |at: usize| {
            let ty = self.types[at].clone().unwrap_or_else(|| Kind::Float.into());
            let number = |cell: &&AggregateState| self.number(at, cell);
            array(cells.iter().map(number), &data_type(&ty))
        };
        let inputs: Vec<ArrayRef> = (0..self.calls.len()).map(input).collect::<Result<_>>()?;
        let results = self.program.run(&inputs, cells.len()).map_err(eval_error)?;
        let results = numbers(&results)?;
        Ok(results
            .into_iter()
            .map(|number| if number.is_finite() { number } else { 0.0 })
            .collect())
    }

    fn number(&self, at: usize, cell: &AggregateState) -> Option<f64> {
        let CallKind::Number(aggregate) = &self.calls[at].kind else {
            return Some(match cell.0.get(at) {
                Some(CallState::Count(count)) => *count as f64,
                Some(CallState::Distinct(set)) => set.count() as f64,
                _ => 0.0,
            });
        };
        let empty = (*aggregate == AggregateFn::Sum).then_some(0.0);
        match cell.0.get(at) {
            Some(CallState::Summary(summary)) if summary.count > 0 => {
                Some(aggregate.of_summary(summary))
            }
            Some(CallState::Numbers(all)) if !all.is_empty() => {
                Some(aggregate.of_values(all.clone()))
            }
            _ => empty,
        }
    }
}

fn truths(scalar: &Scalar, events: EventColumns<'_>) -> Result<Vec<bool>> {
    let inputs = scalar.inputs.arrays(events)?;
    let kept = scalar.program.filter(&inputs, events.times.len()).map_err(eval_error)?;
    Ok((0..kept.len()).map(|row| kept.value(row)).collect())
}

/// An array as floats, NaN for null.
fn numbers(array: &ArrayRef) -> Result<Vec<f64>> {
    macro_rules! each {
        ($kind:ty) => {{
            let typed = array.as_primitive::<$kind>();
            let number = |row: usize| typed.value(row) as f64;
            (0..typed.len())
                .map(|row| if typed.is_null(row) { f64::NAN } else { number(row) })
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
            let typed = array.as_boolean();
            let number = |row: usize| f64::from(u8::from(typed.value(row)));
            (0..typed.len())
                .map(|row| if typed.is_null(row) { f64::NAN } else { number(row) })
                .collect()
        }
        DataType::Null => vec![f64::NAN; array.len()],
        _ => return Err(unsupported("A value that is not a number")),
    })
}

/// Builds an input array of the type that the expression expects from an aggregate.
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

/// Keeps the first error of a callback that cannot return one.
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
