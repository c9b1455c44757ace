//! Lowers expressions of the plan to DataFusion's physical expressions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Literal;
use eval::{MemoryTracker, Program, data_type};
use hogql::Span;
use hogql::plan::{Expr, ExprKind, Relation, Set};
use hogql::types::Type;

use super::leaves::leaf_of;
use super::{Lowering, Stage, SubqueryResult, input};
use crate::closure_expr::ClosureExpr;
use crate::error::{Error, Result, UNEXPECTED};
use crate::memory::{memory_limit_error, track_array, track_derived_array};
use crate::scan::dictionary_string_type;

/// Larger constants are computed for each batch, where their memory is tracked.
const LITERAL_BYTES_MAX: usize = 1024;

type Physical = Arc<dyn PhysicalExpr>;

impl Lowering {
    /// Lowers an expression to a physical expression of its Arrow type: a column, a literal or a
    /// compiled program.
    pub(super) fn value(&self, expr: &Expr, stage: &Stage) -> Result<Physical> {
        let ty = data_type(&expr.ty);
        if let Some(column) = self.plain_column(expr, stage, &ty) {
            return Ok(column);
        }
        match &expr.kind {
            ExprKind::Query(relation) => return self.scalar(relation),
            ExprKind::In { set: Set::Query(_) | Set::Cohort(_), .. } => {
                return self.membership(expr, stage);
            }
            _ => {}
        }
        let (program, inputs) = self.program(expr, stage)?;
        if program.is_constant() {
            let constant = program.run(&[], 1).map_err(from_eval)?;
            // DataFusion repeats a literal for every row, whatever its size.
            if constant.to_data().get_slice_memory_size()? <= LITERAL_BYTES_MAX {
                return Ok(Arc::new(Literal::new(ScalarValue::try_from_array(&constant, 0)?)));
            }
        }
        let memory = self.cancellation.memory().clone();
        Ok(ClosureExpr::expr("expr", inputs, ty, move |arrays, rows| {
            track_derived_array(arrays, program.run(arrays, rows).map_err(from_eval)?, &memory)
        }))
    }

    /// A boolean that is never null: true where the condition holds.
    pub(crate) fn condition(&self, expr: &Expr, stage: &Stage) -> Result<Physical> {
        let (program, inputs) = self.program(expr, stage)?;
        let cancellation = self.cancellation.clone();
        Ok(ClosureExpr::expr("condition", inputs, DataType::Boolean, move |arrays, rows| {
            // A join may evaluate it on many batches before it emits one.
            cancellation.check()?;
            let truth = program.filter(arrays, rows).map_err(from_eval)?;
            Ok(Arc::new(truth))
        }))
    }

    /// The column that an expression names, if no computation is needed.
    fn plain_column(&self, expr: &Expr, stage: &Stage, ty: &DataType) -> Option<Physical> {
        let column = stage.layout.get(&leaf_of(expr)?)?;
        let actual = stage.plan.schema().field(column).data_type().clone();
        // After an outer join an array may be null, which its type does not allow.
        if stage.outer && ty.is_nested() {
            return None;
        }
        let plain = input(&stage.plan, column);
        match &actual {
            actual if actual == ty => Some(plain),
            DataType::Dictionary(_, values) if **values == *ty => {
                Some(ClosureExpr::decode_dictionary(plain, ty.clone(), self.cancellation.memory()))
            }
            _ => None,
        }
    }

    /// The dictionary-encoded string column that an expression names.
    pub(super) fn encoded_column(&self, expr: &Expr, stage: &Stage) -> Option<Physical> {
        let column = stage.layout.get(&leaf_of(expr)?)?;
        let coded = *stage.plan.schema().field(column).data_type() == dictionary_string_type();
        (coded && data_type(&expr.ty) == DataType::Utf8).then(|| input(&stage.plan, column))
    }

    fn program(&self, expr: &Expr, stage: &Stage) -> Result<(Program, Vec<Physical>)> {
        let mut inputs: Vec<Physical> = Vec::new();
        let mut columns: Vec<(usize, usize)> = Vec::new();
        let mut failed = None;
        let mut leaf = |part: &Expr| -> Option<usize> {
            let input = match &part.kind {
                ExprKind::Query(relation) => self.scalar(relation),
                ExprKind::In { set: Set::Query(_) | Set::Cohort(_), .. } => {
                    self.membership(part, stage)
                }
                _ => {
                    let column = stage.layout.get(&leaf_of(part)?)?;
                    if let Some((_, input)) = columns.iter().find(|(known, _)| *known == column) {
                        return Some(*input);
                    }
                    columns.push((column, inputs.len()));
                    Ok(input(&stage.plan, column))
                }
            };
            match input {
                Ok(input) => inputs.push(input),
                Err(error) => {
                    failed.get_or_insert(error);
                    inputs.push(Arc::new(Literal::new(ScalarValue::Null)));
                }
            }
            Some(inputs.len() - 1)
        };
        let program = Program::compile(expr, &self.context, &mut leaf);
        match failed {
            Some(error) => Err(error),
            None => Ok((program.map_err(from_eval)?, inputs)),
        }
    }

    /// The value of a constant expression.
    pub(crate) fn constant(&self, expr: &Expr) -> Option<ScalarValue> {
        let program = Program::compile(expr, &self.context, &mut |_| None).ok()?;
        if !program.is_constant() {
            return None;
        }
        ScalarValue::try_from_array(&program.run(&[], 1).ok()?, 0).ok()
    }

    fn scalar(&self, relation: &Relation) -> Result<Physical> {
        match self.subquery_results.get(&address(relation)) {
            Some(SubqueryResult::Scalar(value)) => Ok(Arc::new(Literal::new(value.clone()))),
            _ => Err(Error::engine(UNEXPECTED, "a subquery was not run")),
        }
    }

    /// `IN` a subquery or a cohort.
    fn membership(&self, expr: &Expr, stage: &Stage) -> Result<Physical> {
        let ExprKind::In { expr: what, set, negated } = &expr.kind else {
            return Err(Error::engine(UNEXPECTED, "no IN"));
        };
        let (negated, to) = (*negated, data_type(&expr.ty));
        let result = match set {
            Set::Query(relation) => self.subquery_results.get(&address(relation)),
            Set::Cohort(cohort) => return self.in_cohort(what, *cohort, negated, to, stage),
            Set::List(_) | Set::Array(_) => None,
        };
        let Some(SubqueryResult::Set(members)) = result else {
            return Err(Error::engine(UNEXPECTED, "a subquery was not run"));
        };
        let what = self.cast(self.value(what, stage)?, &what.ty, &members.ty, expr.span)?;
        let members = members.clone();
        let ty = to.clone();
        Ok(ClosureExpr::expr("in", vec![what], ty, move |arrays, _| {
            let columns = members.columns(&arrays[0]);
            let has = members.counts.contains(&columns)?;
            // Null equals nothing; nor does a tuple with a null in it.
            let nulls: Vec<NullBuffer> = arrays[..1]
                .iter()
                .chain(&columns)
                .filter_map(|array| array.logical_nulls())
                .collect();
            let valid = |row: usize| nulls.iter().all(|nulls| nulls.is_valid(row));
            let has = has.into_iter().enumerate();
            let truth: BooleanArray =
                has.map(|(row, has)| Some((has && valid(row)) != negated)).collect();
            Ok(arrow::compute::cast(&truth, &to)?)
        }))
    }

    fn in_cohort(
        &self,
        what: &Expr,
        cohort: model::CohortId,
        negated: bool,
        to: DataType,
        stage: &Stage,
    ) -> Result<Physical> {
        let what = self.value(what, stage)?;
        let members = self.cohort(cohort);
        Ok(ClosureExpr::expr("in cohort", vec![what], to.clone(), move |arrays, _| {
            let ids = arrays[0].as_fixed_size_binary();
            let has =
                (0..ids.len()).map(|row| ids.is_valid(row) && members.contains(ids.value(row)));
            let truth: BooleanArray = has.map(|has| Some(has != negated)).collect();
            Ok(arrow::compute::cast(&truth, &to)?)
        }))
    }

    /// An implicit cast, where operands of two types meet.
    pub(super) fn cast(
        &self,
        value: Physical,
        from: &Type,
        to: &Type,
        span: Span,
    ) -> Result<Physical> {
        if data_type(from) == data_type(to) {
            return Ok(value);
        }
        let inner = ExprKind::Output { source: 0, column: 0 };
        let inner = Expr { kind: inner, ty: from.clone(), span };
        let kind = ExprKind::Cast { expr: Box::new(inner), or_null: false };
        let cast = Expr { kind, ty: to.clone(), span };
        let program = Program::compile(&cast, &self.context, &mut |part| match part.kind {
            ExprKind::Output { .. } => Some(0),
            _ => None,
        });
        let program = program.map_err(from_eval)?;
        let memory = self.cancellation.memory().clone();
        Ok(ClosureExpr::expr("cast", vec![value], data_type(to), move |arrays, rows| {
            track_derived_array(arrays, program.run(arrays, rows).map_err(from_eval)?, &memory)
        }))
    }
}

/// Encodes nested values, which DataFusion cannot sort, as sortable bytes.
pub(super) fn sortable(value: Physical, ty: &DataType, memory: &MemoryTracker) -> Result<Physical> {
    if !ty.is_nested() {
        return Ok(value);
    }
    let converter = RowConverter::new(vec![SortField::new(ty.clone())])?;
    let memory = memory.clone();
    Ok(ClosureExpr::expr("bytes", vec![value], DataType::Binary, move |arrays, _| {
        let mut reserved = memory.charge();
        // The encoded rows, and their copy as bytes.
        if !reserved.set(3 * arrays[0].get_array_memory_size()) {
            return Err(memory_limit_error());
        }
        let rows = converter.convert_columns(arrays)?;
        let bytes: BinaryArray = rows.iter().map(|row| Some(row.data().to_vec())).collect();
        drop(reserved);
        track_array(Arc::new(bytes) as ArrayRef, &memory)
    }))
}

/// The key of a subquery. The plan does not move while it runs, so the address identifies it.
pub(super) fn address(relation: &Relation) -> usize {
    std::ptr::from_ref(relation) as usize
}

pub(crate) fn from_eval(error: eval::Error) -> Error {
    match error {
        eval::Error::Invalid { message, span } => Error::Invalid { message, span: Some(span) },
        eval::Error::TooLarge { .. } => Error::engine("too_large_value", error.to_string()),
        eval::Error::InputType { .. } => Error::engine(UNEXPECTED, error.to_string()),
        eval::Error::Cancelled => Error::Timeout,
        eval::Error::MemoryLimit => Error::MemoryLimit,
        eval::Error::Arrow(error) => error.into(),
    }
}
