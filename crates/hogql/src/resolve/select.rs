//! Resolves one `SELECT`.

use super::Resolver;
use super::constants::ALIASES_MAX;
use super::extract::Extract;
use super::scope::{Clause, Scope, check_alias};
use crate::ast::{self, ExprKind as Ast, Literal};
use crate::error::{Checked, Fault};
use crate::functions::Arg;
use crate::limits::{COLUMNS_MAX, GROUP_KEYS_MAX};
use crate::plan::{
    Body, Expr, ExprKind, Grouping, LimitBy, Order, Output, Relation, Select, Unnest,
};
use crate::types::Kind;
use crate::visit::operands;

impl<'a> Resolver<'a> {
    pub(super) fn select(&mut self, select: &'a ast::Select) -> Checked<Relation> {
        self.scopes.push(Scope { windows: &select.windows, ..Scope::default() });
        let relation = self.parts(select)?;
        self.scopes.pop();
        Ok(relation)
    }

    fn parts(&mut self, select: &'a ast::Select) -> Checked<Relation> {
        let mut plan = Select { distinct: select.distinct, ..Select::default() };
        if let Some(from) = &select.from {
            plan.sources = self.from(from)?;
        }
        if let Some(array_join) = &select.array_join {
            plan.unnests.push(self.array_join(array_join)?);
        }
        self.scope().clause = Clause::Row;
        self.aliases(select)?;
        let filters = [&select.prewhere, &select.filter].into_iter().flatten();
        let filters: Vec<Expr> =
            filters.map(|filter| self.condition(filter)).collect::<Checked<_>>()?;
        plan.filter = (!filters.is_empty()).then(|| all_of(filters));
        let keys = self.keys(select)?;

        self.scope().clause = Clause::Output;
        let mut outputs = Vec::new();
        for column in &select.columns {
            self.column(column, &mut outputs)?;
            if outputs.len() > COLUMNS_MAX {
                return Err(Fault::too_large("columns", COLUMNS_MAX, column.expr.span));
            }
        }
        let having = select.having.as_ref().map(|having| self.condition(having)).transpose()?;
        plan.qualify =
            select.qualify.as_ref().map(|qualify| self.condition(qualify)).transpose()?;
        plan.order = self.order_of_outputs(&select.order, &outputs)?;
        plan.limit_by = self.limit_by(select)?;
        plan.limit = self.optional_constant_u64(select.limit.as_ref(), "LIMIT")?;
        plan.offset = self.optional_constant_u64(select.offset.as_ref(), "OFFSET")?.unwrap_or(0);

        plan.with_ties = select.with_ties;
        if select.with_ties && plan.order.is_empty() {
            return Err(Fault::invalid("WITH TIES needs ORDER BY", select.span));
        }
        let properties: Vec<bool> =
            outputs.iter().map(|output| self.is_property(&output.expr)).collect();
        let names: Vec<String> = outputs.iter().map(|output| output.name.clone()).collect();
        plan.columns = outputs.into_iter().map(|output| output.expr).collect();
        Extract::apply(&mut plan, (keys, &select.group_sets), having)?;
        let outputs = names.into_iter().zip(properties).zip(&plan.columns);
        let columns = outputs.map(|((name, is_property), expr)| Output {
            name,
            ty: expr.ty.clone(),
            is_property,
        });
        let columns = columns.collect();
        Ok(Relation { columns, body: Body::Select(Box::new(plan)) })
    }

    fn condition(&mut self, expr: &'a ast::Expr) -> Checked<Expr> {
        let resolved = self.expr(expr)?;
        self.coerce(resolved, Arg::Condition)
    }

    fn aliases(&mut self, select: &'a ast::Select) -> Checked<()> {
        for column in &select.columns {
            let Some(alias) = &column.alias else { continue };
            check_alias(alias)?;
            if self.scope().aliases.insert(&alias.text, &column.expr).is_some() {
                let message = format!("Two columns have the alias '{}'", alias.text);
                return Err(Fault::invalid(message, alias.span));
            }
        }
        let columns = select.columns.iter().map(|column| &column.expr);
        let filters = [&select.prewhere, &select.filter, &select.having, &select.qualify];
        let order = select.order.iter().map(|order| &order.expr);
        let by = select.limit_by.iter().flat_map(|limit_by| &limit_by.by);
        columns
            .chain(filters.into_iter().flatten())
            .chain(&select.group)
            .chain(order)
            .chain(by)
            .try_for_each(|expr| self.inner_aliases(expr))
    }

    /// Collects the aliases within an expression, except those within a lambda, which may depend on
    /// its parameters.
    fn inner_aliases(&mut self, expr: &'a ast::Expr) -> Checked<()> {
        match &expr.kind {
            Ast::Lambda(..) => return Ok(()),
            Ast::Alias(inner, name) => {
                check_alias(name)?;
                let other = self.scope().aliases.insert(&name.text, inner);
                // `(x AS a) AS a` names one value twice.
                if other.is_some_and(|other| !is_aliased(other, inner, &name.text)) {
                    let message = format!("Two expressions have the alias '{}'", name.text);
                    return Err(Fault::invalid(message, name.span));
                }
            }
            _ => {}
        }
        operands(expr).into_iter().try_for_each(|operand| self.inner_aliases(operand))
    }

    fn array_join(&mut self, array_join: &'a ast::ArrayJoin) -> Checked<Unnest> {
        let mut arrays = Vec::new();
        let mut elements = Vec::new();
        for (no, column) in array_join.arrays.iter().enumerate() {
            let array = self.expr(&column.expr)?;
            let array = self.coerce(array, Arg::Array)?;
            let name = match (&column.alias, &column.expr.kind) {
                (Some(alias), _) => {
                    check_alias(alias)?;
                    Some(alias.text.clone())
                }
                // Without an alias, the array's name refers to the element.
                (None, Ast::Field(chain)) => chain.last().map(|name| name.text.clone()),
                (None, _) => None,
            };
            if let (Some(name), Some(element)) = (name, array.ty.element()) {
                elements.push((name, no, element.clone()));
            }
            arrays.push(array);
        }
        self.scope().elements = elements;
        Ok(Unnest { arrays, keep_empty: array_join.keep_empty })
    }

    fn keys(&mut self, select: &'a ast::Select) -> Checked<Vec<Expr>> {
        if select.group.len() > GROUP_KEYS_MAX {
            return Err(Fault::too_large("keys of GROUP BY", GROUP_KEYS_MAX, select.span));
        }
        if select.group_all {
            return self.all_keys(select);
        }
        let keys = select.group.iter().map(|key| match column_by_position(key, &select.columns)? {
            Some(column) => self.column_expr(column),
            None => self.expr(key),
        });
        keys.collect()
    }

    /// `GROUP BY ALL`: the columns without aggregates and windows.
    fn all_keys(&mut self, select: &'a ast::Select) -> Checked<Vec<Expr>> {
        let mut keys = Vec::new();
        for column in &select.columns {
            if matches!(column.expr.kind, Ast::Star(_) | Ast::Columns(_)) {
                let message = "GROUP BY ALL needs columns that are named";
                return Err(Fault::invalid(message, column.expr.span));
            }
            if self.computes_on_groups(&column.expr, ALIASES_MAX)? {
                continue;
            }
            keys.push(self.column_expr(column)?);
            if keys.len() > GROUP_KEYS_MAX {
                return Err(Fault::too_large("keys of GROUP BY", GROUP_KEYS_MAX, select.span));
            }
        }
        Ok(keys)
    }

    /// Whether an expression has an aggregate or a window, also through at most this many aliases.
    fn computes_on_groups(&mut self, expr: &'a ast::Expr, aliases: usize) -> Checked<bool> {
        self.charge(1, expr.span)?;
        match &expr.kind {
            Ast::Call(call) if call.over.is_some() || super::call::is_aggregate(&call.name) => {
                return Ok(true);
            }
            Ast::Field(chain) if chain.len() == 1 && aliases > 0 => {
                let meant = self.scope().aliases.get(chain[0].text.as_str()).copied();
                return meant
                    .map_or(Ok(false), |meant| self.computes_on_groups(meant, aliases - 1));
            }
            _ => {}
        }
        for operand in operands(expr) {
            if self.computes_on_groups(operand, aliases)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Resolves a column's expression. Its alias is not visible within it.
    fn column_expr(&mut self, column: &'a ast::Column) -> Checked<Expr> {
        if let Some(alias) = &column.alias {
            self.scope().open.push(&alias.text);
        }
        let resolved = self.expr(&column.expr)?;
        if column.alias.is_some() {
            self.scope().open.pop();
        }
        Ok(resolved)
    }

    fn column(
        &mut self,
        column: &'a ast::Column,
        outputs: &mut Vec<SelectedColumn<'a>>,
    ) -> Checked<()> {
        let span = column.expr.span;
        let all = match &column.expr.kind {
            Ast::Star(table) => Some(self.star(table.as_ref(), span)?),
            Ast::Columns(set) => Some(self.column_set(set, span)?),
            _ => None,
        };
        if let Some(all) = all {
            for (name, expr) in all {
                self.deeper(span, |_| Ok(()))?;
                outputs.push(SelectedColumn { name, expr: Expr { span, ..expr }, column: None });
            }
            return Ok(());
        }
        let expr = self.column_expr(column)?;
        let name = match (&column.alias, &column.expr.kind, &expr.kind) {
            (Some(alias), ..) | (None, Ast::Alias(_, alias), _) => alias.text.clone(),
            // The output name of `e.event` is `event`.
            (None, Ast::Field(chain), ExprKind::Column { via, .. }) if via.is_empty() => {
                chain.last().map_or_else(String::new, |name| name.text.clone())
            }
            (None, Ast::Field(chain), ExprKind::Output { .. }) => {
                chain.last().map_or_else(String::new, |name| name.text.clone())
            }
            _ => column.expr.to_string(),
        };
        outputs.push(SelectedColumn { name, expr, column: Some(column) });
        Ok(())
    }

    /// Resolves `ORDER BY`. A position counts the columns that `*` expands to.
    fn order_of_outputs(
        &mut self,
        order: &'a [ast::Order],
        outputs: &[SelectedColumn<'a>],
    ) -> Checked<Vec<Order>> {
        let resolved = order.iter().map(|item| {
            let expr = match by_position(&item.expr, outputs)? {
                Some(SelectedColumn { column: Some(column), .. }) => self.column_expr(column)?,
                Some(SelectedColumn { expr, .. }) => {
                    self.charge(1, item.expr.span)?;
                    expr.clone()
                }
                None => self.expr(&item.expr)?,
            };
            Ok(ordered(item, expr))
        });
        resolved.collect()
    }

    /// Resolves the order of a window.
    pub(super) fn order(&mut self, order: &'a [ast::Order]) -> Checked<Vec<Order>> {
        order.iter().map(|item| Ok(ordered(item, self.expr(&item.expr)?))).collect()
    }

    fn limit_by(&mut self, select: &'a ast::Select) -> Checked<Option<LimitBy>> {
        let Some(limit_by) = &select.limit_by else { return Ok(None) };
        let limit = self.constant_u64(&limit_by.limit, "LIMIT BY")?;
        let offset = self.optional_constant_u64(limit_by.offset.as_ref(), "OFFSET")?.unwrap_or(0);
        let by = limit_by.by.iter().map(|by| match column_by_position(by, &select.columns)? {
            Some(column) => self.column_expr(column),
            None => self.expr(by),
        });
        Ok(Some(LimitBy { limit, offset, by: by.collect::<Checked<_>>()? }))
    }

    fn optional_constant_u64(
        &mut self,
        expr: Option<&'a ast::Expr>,
        of: &str,
    ) -> Checked<Option<u64>> {
        expr.map(|expr| self.constant_u64(expr, of)).transpose()
    }
}

/// Whether an expression is another one, within aliases of this name.
fn is_aliased(expr: &ast::Expr, inner: &ast::Expr, name: &str) -> bool {
    expr == inner
        || matches!(&expr.kind, Ast::Alias(own, alias)
            if alias.text == name && is_aliased(own, inner, name))
}

/// A column of the result, and of the statement unless it is part of `*`.
struct SelectedColumn<'a> {
    name: String,
    expr: Expr,
    column: Option<&'a ast::Column>,
}

/// Nulls come last in either direction, unless `NULLS FIRST` is given.
fn ordered(item: &ast::Order, expr: Expr) -> Order {
    let nulls_first = item.nulls_first.unwrap_or(false);
    Order { expr, descending: item.descending, nulls_first }
}

/// Positional reference: `GROUP BY 1` is the first column.
fn by_position<'c, T>(expr: &ast::Expr, columns: &'c [T]) -> Checked<Option<&'c T>> {
    let Ast::Literal(Literal::Int(position)) = expr.kind else { return Ok(None) };
    let index = usize::try_from(position).ok().and_then(|position| position.checked_sub(1));
    match index.and_then(|index| columns.get(index)) {
        Some(column) => Ok(Some(column)),
        None => Err(Fault::invalid(format!("There is no column {position}"), expr.span)),
    }
}

/// As [`by_position`], where `*` is not expanded yet.
fn column_by_position<'a>(
    expr: &ast::Expr,
    columns: &'a [ast::Column],
) -> Checked<Option<&'a ast::Column>> {
    match by_position(expr, columns)? {
        Some(column) if matches!(column.expr.kind, Ast::Star(_) | Ast::Columns(_)) => {
            Err(Fault::invalid("A position cannot count the columns of '*' here", expr.span))
        }
        found => Ok(found),
    }
}

pub(super) fn all_of(mut conditions: Vec<Expr>) -> Expr {
    if conditions.len() == 1
        && let Some(only) = conditions.pop()
    {
        return only;
    }
    let nullable = conditions.iter().any(|condition| condition.ty.nullable);
    let span = conditions.first().map_or_else(Default::default, |condition| condition.span);
    let ty = crate::types::Type::from(Kind::UInt(8)).or_null(nullable);
    Expr { kind: ExprKind::And(conditions), ty, span }
}

/// The grouping of an aggregating select.
pub(super) fn grouping(keys: Vec<Expr>) -> Grouping {
    Grouping { keys, aggregates: Vec::new(), having: None }
}
