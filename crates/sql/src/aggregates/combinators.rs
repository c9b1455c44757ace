//! Aggregates with combinators: over the elements of arrays or the values of maps, over the rows with
//! the smallest or greatest key, and with another value for no rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use datafusion_common::ScalarValue;
use eval::data_type;
use hashbrown::HashMap;
use hogql::functions::{Combinators, EmptyValue, Extreme, Nesting, Nulls};
use hogql::plan;
use hogql::types::Type;

use super::collect::{element, list};
use super::custom::{AggregateState, CustomAggregate};
use super::group_function::{Engine, GroupFunction, encoded};
use super::{LoweredAggregate, Strategy, default_of, filter_arrays};
use crate::error::{Error, Result, UNEXPECTED};

/// Positions of the longest array, or keys of all maps, of one group: each is an aggregate of its own.
const AGGREGATES_MAX: usize = 65_536;

/// Lowers a call that has combinators. `types` are the arguments' and `result` is the result's.
pub(super) fn lowered(
    call: &plan::Aggregate,
    types: &[Type],
    result: &Type,
) -> Result<LoweredAggregate> {
    let Combinators { nesting, extreme, empty } = call.combinators;
    let unexpected = || Error::engine(UNEXPECTED, "combinators without their arguments");
    let inner_types = call.combinators.inner(types).ok_or_else(unexpected)?;
    let own = call.function.0.result(&inner_types).ok_or_else(unexpected)?;
    let plain = plan::Aggregate { combinators: Combinators::default(), ..call.clone() };
    let inner_data: Vec<DataType> = inner_types.iter().map(data_type).collect();
    let inner = LoweredAggregate::new(&plain, &inner_data, &own)?;
    let value = match empty {
        None => None,
        // A list is never null.
        Some(EmptyValue::Null) if !result.nullable => {
            Some(default_of(&data_type(result), result.nullable)?)
        }
        Some(EmptyValue::Null) => Some(ScalarValue::try_from(data_type(result))?),
        Some(EmptyValue::Default) => Some(default_of(&data_type(result), result.nullable)?),
    };
    let is_counted = call.function.0.nulls == Nulls::SkipToZero;
    // Quantiles of no rows are a list of NaN.
    let is_list = matches!(inner.ty, DataType::List(_));
    if let (None, None, false, Some(value)) = (nesting, extreme, is_counted || is_list, &value) {
        // Null for no rows already; only the value in its place differs.
        return Ok(LoweredAggregate { empty: value.clone(), ..inner });
    }
    let function: Arc<dyn GroupFunction> = match &inner.strategy {
        Strategy::Group(function) => function.clone(),
        Strategy::Engine => Arc::new(Engine { expr: inner.standalone()?, ty: inner.ty.clone() }),
    };
    let finished = Finished { function, empty: inner.empty.clone() };
    let mut args = inner.args.clone();
    let mut function: Arc<dyn GroupFunction> = Arc::new(finished);
    if let Some(nesting) = nesting {
        let lists = |ty: &DataType| DataType::List(Arc::new(Field::new("item", ty.clone(), true)));
        args = match nesting {
            // Entries keep their type: the values are cast when they are taken out.
            Nesting::Map => types.iter().take(1).map(data_type).collect(),
            Nesting::Array | Nesting::ForEach => args.iter().map(lists).collect(),
        };
        let ty = data_type(result);
        function = Arc::new(Nested { function, nesting, inner: inner.args, ty });
    }
    if let Some(extreme) = extreme {
        args.push(types.last().map(data_type).ok_or_else(unexpected)?);
        function = Arc::new(AtExtreme { function, extreme });
    }
    if let Some(value) = &value {
        function = Arc::new(OrElse {
            function,
            value: value.clone(),
            nested: nesting == Some(Nesting::Array),
        });
    }
    let empty = function.evaluate(&super::empty_arrays(&args))?;
    let ty = data_type(result);
    let state = AggregateState::Rows(function.clone());
    let udaf = CustomAggregate::udaf(call.function.0.name, state, ty.clone());
    Ok(LoweredAggregate { udaf, args, strategy: Strategy::Group(function), empty, ty })
}

/// An aggregate that has ClickHouse's value for no rows.
#[derive(Debug)]
struct Finished {
    function: Arc<dyn GroupFunction>,
    empty: ScalarValue,
}

impl GroupFunction for Finished {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let value = self.function.evaluate_filtered(args, None)?;
        Ok(if value.is_null() { self.empty.clone() } else { value })
    }
}

#[derive(Debug)]
struct OrElse {
    function: Arc<dyn GroupFunction>,
    value: ScalarValue,
    /// Without elements there are no rows either.
    nested: bool,
}

impl GroupFunction for OrElse {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let no_elements = |arg: &ArrayRef| {
            arg.as_list_opt::<i32>().is_some_and(|list| {
                let offsets = list.value_offsets();
                let (from, to) = (offsets[0] as usize, offsets[list.len()] as usize);
                let elements = list.values().slice(from, to - from);
                elements.logical_null_count() == elements.len()
            })
        };
        if args.iter().any(|arg| arg.is_empty() || (self.nested && no_elements(arg))) {
            return Ok(self.value.clone());
        }
        Ok(self.function.evaluate(args)?.cast_to(&self.value.data_type())?)
    }
}

/// The rows whose last argument is the smallest or the greatest.
#[derive(Debug)]
struct AtExtreme {
    function: Arc<dyn GroupFunction>,
    extreme: Extreme,
}

impl GroupFunction for AtExtreme {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let Some((key, args)) = args.split_last() else {
            return Err(Error::engine(UNEXPECTED, "an extreme without a key"));
        };
        let rows = encoded(std::slice::from_ref(key))?;
        let wanted = match self.extreme {
            Extreme::Min => rows.iter().min(),
            Extreme::Max => rows.iter().max(),
        };
        let chosen: BooleanArray = rows.iter().map(|row| Some(Some(row) == wanted)).collect();
        self.function.evaluate(&filter_arrays(args, Some(&chosen))?)
    }
}

#[derive(Debug)]
struct Nested {
    function: Arc<dyn GroupFunction>,
    nesting: Nesting,
    /// What the aggregate takes.
    inner: Vec<DataType>,
    ty: DataType,
}

impl GroupFunction for Nested {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let lists = args.iter().map(flat).collect::<Result<Vec<_>>>()?;
        if lists.iter().any(|list| list.offsets != lists[0].offsets) {
            let message = "The arrays of an aggregate have different lengths";
            return Err(Error::engine("sizes_of_arrays_dont_match", message));
        }
        match self.nesting {
            Nesting::Array => {
                let elements: Vec<ArrayRef> = lists.into_iter().map(|list| list.elements).collect();
                self.function.evaluate(&elements)
            }
            Nesting::ForEach => self.for_each(&lists),
            Nesting::Map => self.by_key(&lists[0].elements),
        }
    }
}

/// The elements of all rows, and where each row's begin.
struct Flat {
    elements: ArrayRef,
    offsets: Vec<usize>,
}

fn flat(arg: &ArrayRef) -> Result<Flat> {
    let Some(list) = arg.as_list_opt::<i32>() else {
        return Err(Error::engine(UNEXPECTED, "a combinator over no arrays"));
    };
    let first = list.value_offsets()[0];
    let offsets = list.value_offsets().iter().map(|offset| (offset - first) as usize);
    let offsets: Vec<usize> = offsets.collect();
    let elements = list.values().slice(first as usize, offsets[list.len()]);
    Ok(Flat { elements, offsets })
}

fn too_many() -> Error {
    let message = format!("An aggregate over more than {AGGREGATES_MAX} positions or keys");
    Error::Invalid { message, span: None }
}

impl Nested {
    fn for_each(&self, lists: &[Flat]) -> Result<ScalarValue> {
        let ranges = || lists[0].offsets.windows(2).map(|pair| pair[0]..pair[1]);
        let longest = ranges().map(|range| range.len()).max().unwrap_or(0);
        if longest > AGGREGATES_MAX {
            return Err(too_many());
        }
        let mut positions: Vec<Vec<u32>> = vec![Vec::new(); longest];
        for range in ranges() {
            for (position, at) in range.enumerate() {
                positions[position].push(at as u32);
            }
        }
        let elements: Vec<&ArrayRef> = lists.iter().map(|list| &list.elements).collect();
        let values = self.aggregates(&elements, positions)?;
        list(&self.ty, scalars(values, element(&self.ty)?.data_type())?)
    }

    fn by_key(&self, entries: &ArrayRef) -> Result<ScalarValue> {
        let entry = element(&self.ty)?;
        let DataType::Struct(fields) = entry.data_type() else {
            return Err(Error::engine(UNEXPECTED, "a map without entries"));
        };
        let entries = entries.as_struct();
        let (keys, values) = (entries.column(0), entries.column(1));
        let values = arrow::compute::cast(values, &self.inner[0])?;
        let rows = encoded(std::slice::from_ref(keys))?;
        let mut known: HashMap<&[u8], usize> = HashMap::new();
        let mut members: Vec<Vec<u32>> = Vec::new();
        for (no, row) in rows.iter().enumerate() {
            let at = *known.entry(row.data()).or_insert(members.len());
            if at == members.len() {
                if at >= AGGREGATES_MAX {
                    return Err(too_many());
                }
                members.push(Vec::new());
            }
            members[at].push(no as u32);
        }
        members.sort_by(|a, b| rows.row(a[0] as usize).cmp(&rows.row(b[0] as usize)));
        let first = UInt32Array::from_iter_values(members.iter().map(|rows| rows[0]));
        let results = self.aggregates(&[&values], members)?;
        let results = scalars(results, fields[1].data_type())?;
        let columns = vec![take(keys, &first, None)?, results];
        list(&self.ty, Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
    }

    fn aggregates(&self, columns: &[&ArrayRef], rows: Vec<Vec<u32>>) -> Result<Vec<ScalarValue>> {
        let aggregate = |rows: Vec<u32>| {
            let rows = UInt32Array::from(rows);
            let args = columns.iter().map(|column| take(*column, &rows, None));
            self.function.evaluate(&args.collect::<Result<Vec<_>, _>>()?)
        };
        rows.into_iter().map(aggregate).collect()
    }
}

fn scalars(values: Vec<ScalarValue>, ty: &DataType) -> Result<ArrayRef> {
    if values.is_empty() {
        return Ok(arrow::array::new_empty_array(ty));
    }
    let array = ScalarValue::iter_to_array(values)?;
    Ok(if array.data_type() == ty { array } else { arrow::compute::cast(&array, ty)? })
}
