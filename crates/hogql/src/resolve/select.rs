//! Resolves one `SELECT`.

use super::Resolver;
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
        plan.order = self.order(&select.order, &select.columns)?;
        plan.limit_by = self.limit_by(select)?;
        plan.limit = self.optional_constant_u64(select.limit.as_ref(), "LIMIT")?;
        plan.offset = self.optional_constant_u64(select.offset.as_ref(), "OFFSET")?.unwrap_or(0);

        let names: Vec<String> = outputs.iter().map(|(name, _)| name.clone()).collect();
        plan.columns = outputs.into_iter().map(|(_, expr)| expr).collect();
        Extract::apply(&mut plan, keys, having)?;
        let outputs = names.into_iter().zip(&plan.columns);
        let columns = outputs.map(|(name, expr)| Output { name, ty: expr.ty.clone() }).collect();
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
        Ok(())
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
        let keys = select.group.iter().map(|key| match by_position(key, &select.columns)? {
            Some(column) => self.column_expr(column),
            None => self.expr(key),
        });
        keys.collect()
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
        outputs: &mut Vec<(String, Expr)>,
    ) -> Checked<()> {
        if let Ast::Star(table) = &column.expr.kind {
            if self.scope().sources.is_empty() {
                return Err(Fault::invalid("'*' needs a table", column.expr.span));
            }
            for (name, expr) in self.star(table.as_ref())? {
                self.deeper(column.expr.span, |_| Ok(()))?;
                outputs.push((name, Expr { span: column.expr.span, ..expr }));
            }
            return Ok(());
        }
        let expr = self.column_expr(column)?;
        let name = match (&column.alias, &column.expr.kind, &expr.kind) {
            (Some(alias), ..) => alias.text.clone(),
            // The output name of `e.event` is `event`.
            (None, Ast::Field(chain), ExprKind::Column { via, .. }) if via.is_empty() => {
                chain.last().map_or_else(String::new, |name| name.text.clone())
            }
            (None, Ast::Field(chain), ExprKind::Output { .. }) => {
                chain.last().map_or_else(String::new, |name| name.text.clone())
            }
            _ => column.expr.to_string(),
        };
        outputs.push((name, expr));
        Ok(())
    }

    /// Nulls come last in either direction, unless `NULLS FIRST` is given.
    pub(super) fn order(
        &mut self,
        order: &'a [ast::Order],
        columns: &'a [ast::Column],
    ) -> Checked<Vec<Order>> {
        let resolved = order.iter().map(|item| {
            let expr = match by_position(&item.expr, columns)? {
                Some(column) => self.column_expr(column)?,
                None => self.expr(&item.expr)?,
            };
            let nulls_first = item.nulls_first.unwrap_or(false);
            Ok(Order { expr, descending: item.descending, nulls_first })
        });
        resolved.collect()
    }

    fn limit_by(&mut self, select: &'a ast::Select) -> Checked<Option<LimitBy>> {
        let Some(limit_by) = &select.limit_by else { return Ok(None) };
        let limit = self.constant_u64(&limit_by.limit, "LIMIT BY")?;
        let offset = self.optional_constant_u64(limit_by.offset.as_ref(), "OFFSET")?.unwrap_or(0);
        let by = limit_by.by.iter().map(|by| match by_position(by, &select.columns)? {
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

    /// A constant number, such as a limit.
    pub(super) fn constant_u64(&mut self, expr: &'a ast::Expr, of: &str) -> Checked<u64> {
        match expr.kind {
            Ast::Literal(Literal::Int(number)) => Ok(number),
            _ => Err(Fault::invalid(
                format!("{of} takes a whole number, not an expression"),
                expr.span,
            )),
        }
    }
}

/// Positional reference: `GROUP BY 1` is the first column.
fn by_position<'a>(
    expr: &ast::Expr,
    columns: &'a [ast::Column],
) -> Checked<Option<&'a ast::Column>> {
    let Ast::Literal(Literal::Int(position)) = expr.kind else { return Ok(None) };
    // In a window, a number is a literal and no positional reference.
    if columns.is_empty() {
        return Ok(None);
    }
    let index = usize::try_from(position).ok().and_then(|position| position.checked_sub(1));
    match index.and_then(|index| columns.get(index)) {
        Some(column) if !matches!(column.expr.kind, Ast::Star(_)) => Ok(Some(column)),
        _ => Err(Fault::invalid(format!("There is no column {position}"), expr.span)),
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
