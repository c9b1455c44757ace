//! Pages of ordered events, whose columns are read once the rows are known (`scan::late`).

use std::sync::Arc;

use datafusion_physical_expr::LexOrdering;
use datafusion_physical_plan::sorts::sort::SortExec;
use hogql::plan::{Expr, ExprKind, Select, Source};
use hogql::tables::Table;
use warehouse::Order;

use super::leaves::{Field, Layout, Leaf, leaves};
use super::{Demand, Lowering, Stage, input, limit, project, single_partition};
use crate::error::Result;

/// Longer pages are read as the scan goes.
const PAGE_ROWS_MAX: u64 = 1 << 16;

impl Lowering {
    /// The rows of a select that orders events and cuts them; none for another select. `conditions` are
    /// all conditions of its filter.
    pub(super) async fn ordered_events(
        &mut self,
        select: &Select,
        conditions: &[&Expr],
        demand: &Demand,
    ) -> Result<Option<Stage>> {
        let Some(rows) = page_rows(select, demand) else { return Ok(None) };
        let visible = select.columns.iter().enumerate().filter(|(no, _)| demand.needs(*no));
        let fields = fields_of(visible.map(|(_, column)| column));
        let keys = fields_of(select.order.iter().map(|order| &order.expr));
        // A list evaluates a condition on all rows of a page at once: too many to build their JSON.
        let is_wide = |field: &Field| field.name == "properties" && field.path.is_empty();
        let conditions_are_wide = fields_of(conditions.iter().copied()).iter().any(is_wide);
        let by_time = time_order(select).filter(|_| !conditions_are_wide);
        if by_time.is_none() && fields.iter().all(|field| keys.contains(field)) {
            return Ok(None);
        }
        let read: Vec<Field> = fields.iter().chain(&keys).cloned().collect();
        self.load_sessions_for(&read, conditions, false).await?;
        let plan = match by_time {
            Some(order) => self.first_events(&fields, 0, conditions, order, rows as usize)?,
            None => {
                let (plan, events) = self.events_with_ids(&keys, 0, conditions)?;
                let ids = input(&plan, keys.len());
                let stage = Stage { plan, layout: layout_of(&keys), outer: false };
                let (mut exprs, mut order) = (Vec::new(), Vec::new());
                for key in &select.order {
                    order.push(self.order(key, &stage, &mut exprs)?);
                }
                exprs.push(ids);
                let mut plan = project(stage.plan, exprs)?;
                if let Some(ordering) = LexOrdering::new(order) {
                    let sort = SortExec::new(ordering, single_partition(plan));
                    plan = Arc::new(sort.with_fetch(Some(rows as usize)));
                }
                self.events_by_id(plan, events, &fields)?
            }
        };
        let plan = limit(plan, select.offset, select.limit);
        Ok(Some(Stage { plan, layout: layout_of(&fields), outer: false }))
    }
}

/// How many rows are found, the skipped ones included.
fn page_rows(select: &Select, demand: &Demand) -> Option<u64> {
    let [source] = &select.sources[..] else { return None };
    let only_orders = matches!(source.source, Source::Table(Table::Events, _))
        && select.unnests.is_empty()
        && select.grouping.is_none()
        && select.late_unnests.is_empty()
        && select.windows.is_empty()
        && select.qualify.is_none()
        && !select.distinct
        && select.limit_by.is_none()
        && !select.with_ties
        && !select.order.is_empty();
    let limit = select.limit.into_iter().chain(demand.rows).min().filter(|_| only_orders)?;
    Some(limit.saturating_add(select.offset)).filter(|rows| *rows <= PAGE_ROWS_MAX)
}

/// The order, if it is by the events' time alone.
fn time_order(select: &Select) -> Option<Order> {
    let [order] = &select.order[..] else { return None };
    match &order.expr.kind {
        ExprKind::Column { via, name: "timestamp", .. } if via.is_empty() => {
            Some(if order.descending { Order::NewestFirst } else { Order::OldestFirst })
        }
        _ => None,
    }
}

fn fields_of<'a>(exprs: impl Iterator<Item = &'a Expr>) -> Vec<Field> {
    let mut fields = Vec::new();
    for expr in exprs {
        leaves(expr, &mut |leaf| {
            if let Leaf::Field { field, .. } = leaf
                && !fields.contains(&field)
            {
                fields.push(field);
            }
        });
    }
    fields
}

fn layout_of(fields: &[Field]) -> Layout {
    let mut layout = Layout::default();
    for (column, field) in fields.iter().enumerate() {
        layout.set(Leaf::Field { source: 0, field: field.clone() }, column);
    }
    layout
}
