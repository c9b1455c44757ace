//! Scalar subqueries and `IN` subqueries, which run before the rows that use them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use datafusion_common::ScalarValue;
use datafusion_physical_plan::execute_stream;
use eval::data_type;
use futures_util::StreamExt;
use hashbrown::HashSet;
use hogql::plan::{Body, Expr, ExprKind, Plan, Relation, Select, Set, Source};
use hogql::tables::{LazyJoin, Table};
use hogql::types::{Kind, Type};

use super::expressions::address;
use super::leaves::{exprs, walk};
use super::{Demand, Lowering, SetMembers, SubqueryResult, input, project, single_partition};
use crate::error::{Error, Result};
use crate::operators::limit_by::RowCounts;

/// Maximum size of a scalar subquery's value: DataFusion repeats a literal for every row of a batch.
const SCALAR_BYTES_MAX: usize = 64 * 1024;

impl Lowering {
    pub(super) async fn run_subqueries(&mut self, select: &Select) -> Result<()> {
        let mut subqueries: Vec<&Expr> = Vec::new();
        for expr in exprs(select) {
            walk(expr, &mut |part| {
                let is_query = matches!(
                    part.kind,
                    ExprKind::Query(_) | ExprKind::In { set: Set::Query(_), .. }
                );
                if is_query {
                    subqueries.push(part);
                }
            });
        }
        for expr in subqueries {
            let (relation, result) = match &expr.kind {
                ExprKind::Query(relation) => {
                    (relation, SubqueryResult::Scalar(self.scalar_result(relation, expr).await?))
                }
                ExprKind::In { expr: what, set: Set::Query(relation), .. } => (
                    relation,
                    SubqueryResult::Set(Arc::new(
                        self.set_members(relation, &what.ty, expr).await?,
                    )),
                ),
                _ => continue,
            };
            self.subquery_results.insert(address(relation), result);
        }
        Ok(())
    }

    async fn scalar_result(&mut self, relation: &Relation, expr: &Expr) -> Result<ScalarValue> {
        let stage = self.relation(relation, Demand::rows(2)).await?;
        let plan = single_partition(stage.plan);
        let mut stream = execute_stream(plan.clone(), self.task.clone())?;
        let mut value = None;
        while let Some(batch) = stream.next().await.transpose()? {
            if batch.num_rows() > usize::from(value.is_none()) {
                let message = "A scalar subquery must return at most one row";
                return Err(Error::invalid(message, expr.span));
            }
            if batch.num_rows() > 0 {
                value = Some(ScalarValue::try_from_array(batch.column(0), 0)?);
            }
        }
        self.explain("scalar subquery", &plan);
        match value {
            Some(value) if value.size() > SCALAR_BYTES_MAX => {
                let message = format!(
                    "The value of a scalar subquery may have {SCALAR_BYTES_MAX} bytes at most"
                );
                Err(Error::engine("too_large_value", message))
            }
            Some(value) => Ok(value),
            None => Ok(ScalarValue::try_from(&data_type(&expr.ty))?),
        }
    }

    async fn set_members(
        &mut self,
        relation: &Relation,
        left: &Type,
        expr: &Expr,
    ) -> Result<SetMembers> {
        let column_types: Vec<Type> =
            relation.columns.iter().map(|column| column.ty.clone()).collect();
        let element = match (&column_types[..], &left.kind) {
            ([ty], _) => ty.clone(),
            _ => Kind::Tuple(column_types.clone()).into(),
        };
        let Some(ty) = left.common(&element) else {
            let message = format!("{left} cannot be in rows of {element}");
            return Err(Error::invalid(message, expr.span));
        };
        let targets = match &ty.kind {
            Kind::Tuple(items) if column_types.len() > 1 => items.clone(),
            _ => vec![ty.clone()],
        };
        let stage = self.relation(relation, Demand::ALL).await?;
        let pairs = column_types.iter().zip(&targets).enumerate();
        let columns =
            pairs.map(|(no, (from, to))| self.cast(input(&stage.plan, no), from, to, expr.span));
        let columns = columns.collect::<Result<_>>()?;
        let plan = project(stage.plan, columns)?;
        let split = matches!(&ty.kind, Kind::Tuple(_));
        let types = match (&ty.kind, column_types.len()) {
            // A single column of tuples is split into its members, like the left side.
            (Kind::Tuple(items), _) => items.iter().map(data_type).collect(),
            _ => targets.iter().map(data_type).collect(),
        };
        let mut counts = RowCounts::new(types, self.task.memory_pool())?;
        let plan = single_partition(plan);
        let mut stream = execute_stream(plan.clone(), self.task.clone())?;
        while let Some(batch) = stream.next().await.transpose()? {
            let columns: Vec<ArrayRef> = match (split, batch.columns()) {
                (true, [only]) if column_types.len() == 1 => {
                    arrow::array::AsArray::as_struct(only).columns().to_vec()
                }
                (_, columns) => columns.to_vec(),
            };
            debug_assert!(columns.iter().all(|column| column.len() == batch.num_rows()));
            counts.add(&columns, |_| ())?;
        }
        self.explain("subquery of IN", &plan);
        Ok(SetMembers { ty, counts })
    }
}

/// What a plan reads, everywhere in it.
#[derive(Default)]
pub(super) struct PlanReads {
    /// How often each common table expression is read.
    pub cte_uses: Vec<usize>,
    /// The names of the columns of sessions.
    pub session_columns: HashSet<&'static str>,
}

impl PlanReads {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut reads = Self { cte_uses: vec![0; plan.ctes.len()], ..Self::default() };
        plan.ctes.iter().chain([&plan.root]).for_each(|relation| reads.relation(relation));
        reads
    }

    fn relation(&mut self, relation: &Relation) {
        match &relation.body {
            Body::Set { first, rest } => {
                self.relation(first);
                rest.iter().for_each(|(_, relation)| self.relation(relation));
            }
            Body::Select(select) => {
                for joined in &select.sources {
                    match &joined.source {
                        Source::Cte(no) => self.cte_uses[*no] += 1,
                        Source::Query(relation) => self.relation(relation),
                        Source::Table(..) | Source::Numbers { .. } => {}
                    }
                }
                for expr in exprs(select) {
                    walk(expr, &mut |part| self.expr(part, select));
                }
            }
        }
    }

    fn expr(&mut self, part: &Expr, select: &Select) {
        match &part.kind {
            ExprKind::Query(relation) | ExprKind::In { set: Set::Query(relation), .. } => {
                self.relation(relation);
            }
            ExprKind::Column { source, via, name } => {
                let source = select.sources.get(*source).map(|joined| &joined.source);
                let is_table = matches!(source, Some(Source::Table(Table::Sessions, _)));
                if is_table || via.contains(&LazyJoin::Session) {
                    self.session_columns.insert(name);
                }
            }
            ExprKind::Property { of, .. } => self.expr(of, select),
            _ => {}
        }
    }
}
