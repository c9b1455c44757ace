//! The engine's side of an aggregate of ours.

use std::fmt::{self, Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue, not_impl_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use super::buffer::Buffer;
use super::pick::{Pick, Picked};
use super::uniq::Kinds;
use super::whole::Whole;

/// What an aggregate keeps of the rows it meets.
#[derive(Clone, Debug)]
pub(crate) enum Keeps {
    Rows(Arc<dyn Whole>),
    /// Which there are.
    Kinds,
    One(Pick),
}

pub(crate) struct Own {
    name: &'static str,
    keeps: Keeps,
    ty: DataType,
    signature: Signature,
}

impl Own {
    pub(crate) fn function(name: &'static str, keeps: Keeps, ty: DataType) -> Arc<AggregateUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Self { name, keeps, ty, signature }))
    }

    fn groups(&self, args: &AccumulatorArgs<'_>) -> Result<Box<dyn Groups>> {
        let types = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(match &self.keeps {
            Keeps::Rows(whole) => Box::new(Buffer::new(whole.clone(), self.ty.clone())),
            Keeps::Kinds => Box::new(Kinds::new(types)?),
            Keeps::One(pick) => Box::new(Picked::new(*pick, types)?),
        })
    }
}

pub(crate) trait Groups: GroupsAccumulator + Sync {}

impl<T: GroupsAccumulator + Sync> Groups for T {}

impl Debug for Own {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// No two are taken for the same: their parameters are not compared.
impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Own {}

impl Hash for Own {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl AggregateUDFImpl for Own {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let mut groups = self.groups(&args)?;
        let nothing = args.expr_fields.iter();
        let nothing: Vec<ArrayRef> =
            nothing.map(|field| arrow::array::new_empty_array(field.data_type())).collect();
        groups.update_batch(&nothing, &[], None, 1)?;
        Ok(Box::new(Lone { groups, zeros: Vec::new() }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let groups = self.groups(&args)?;
        Ok(Box::new(Several(groups)))
    }
}

/// All rows as one group.
struct Lone {
    groups: Box<dyn Groups>,
    zeros: Vec<usize>,
}

impl Debug for Lone {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Lone")
    }
}

impl Accumulator for Lone {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |array| array.len());
        self.zeros.resize(rows, 0);
        self.groups.update_batch(values, &self.zeros, None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.groups.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        self.groups.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("this aggregate is not computed in parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("this aggregate is not computed in parts")
    }
}

struct Several(Box<dyn Groups>);

impl GroupsAccumulator for Several {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// Rows of ours never travel in parts, so none of this is called.
macro_rules! never_in_parts {
    () => {
        fn state(
            &mut self,
            _: datafusion_expr::EmitTo,
        ) -> datafusion_common::Result<Vec<arrow::array::ArrayRef>> {
            datafusion_common::not_impl_err!("this aggregate is not computed in parts")
        }

        fn merge_batch(
            &mut self,
            _: &[arrow::array::ArrayRef],
            _: &[usize],
            _: usize,
        ) -> datafusion_common::Result<()> {
            datafusion_common::not_impl_err!("this aggregate is not computed in parts")
        }

        fn convert_to_state(
            &self,
            _: &[arrow::array::ArrayRef],
            _: Option<&arrow::array::BooleanArray>,
        ) -> datafusion_common::Result<Vec<arrow::array::ArrayRef>> {
            datafusion_common::not_impl_err!("this aggregate is not computed in parts")
        }
    };
}
pub(crate) use never_in_parts;
