//! Resolves members, elements and properties of values, and `{filters}`.

use model::definition::PropertyType;

use super::Resolver;
use super::expr::{bool_type, literal_expr, logic};
use super::scope::Columns;
use crate::ast::{self, ExprKind as Ast, Literal, LogicOp};
use crate::error::{Checked, Fault, Span};
use crate::plan::{Comparison, Expr, ExprKind, Step, Value};
use crate::types::{Kind, Type};

impl<'a> Resolver<'a> {
    pub(super) fn members(&mut self, base: Expr, names: &'a [ast::Name]) -> Checked<Expr> {
        let span = base.span;
        names.iter().try_fold(base, |base, name| self.member(base, name, span))
    }

    pub(super) fn member(&mut self, base: Expr, name: &'a ast::Name, span: Span) -> Checked<Expr> {
        if has_properties(&base) {
            return Ok(self.property(base, Step::Key(name.text.clone()), span));
        }
        let message = format!("{} has no member '{}'", base.ty, name.text);
        Err(Fault::invalid(message, name.span))
    }

    /// `.1`
    pub(super) fn element(&mut self, base: Expr, index: u64, span: Span) -> Checked<Expr> {
        if index == 0 {
            return Err(Fault::invalid("Elements are counted from 1", span));
        }
        if has_properties(&base) {
            return Ok(self.property(base, Step::Index(index), span));
        }
        if let Kind::Tuple(items) = &base.ty.kind {
            let position = usize::try_from(index - 1).ok();
            let Some(ty) = position.and_then(|position| items.get(position)).cloned() else {
                let message = format!("The tuple has {} elements", items.len());
                return Err(Fault::invalid(message, span));
            };
            let number = literal_expr(&Literal::Int(index), span);
            let call = self.apply("tupleElement", vec![base, number], span)?;
            return Ok(Expr { ty, ..call });
        }
        Err(Fault::invalid(format!("{} has no element {index}", base.ty), span))
    }

    /// `[i]`
    pub(super) fn index(
        &mut self,
        base: &'a ast::Expr,
        index: &'a ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let base = self.expr(base)?;
        if let Ast::Literal(Literal::Int(0)) = index.kind
            && !matches!(base.ty.kind, Kind::Map(_))
        {
            return Err(Fault::invalid("Elements are counted from 1", index.span));
        }
        if has_properties(&base) {
            return match &index.kind {
                Ast::Literal(Literal::String(key)) => {
                    Ok(self.property(base, Step::Key(key.clone()), span))
                }
                Ast::Literal(Literal::Int(index)) => {
                    Ok(self.property(base, Step::Index(*index), span))
                }
                _ => {
                    Err(Fault::invalid("The name of a property is a text or a number", index.span))
                }
            };
        }
        let index = self.expr(index)?;
        self.apply("arrayElement", vec![base, index], span)
    }

    /// A property has the type of its definition; a nested member is a string.
    fn property(&mut self, base: Expr, step: Step, span: Span) -> Expr {
        let (of, path) = match base.kind {
            ExprKind::Property { of, mut path } => {
                path.push(step);
                (of, path)
            }
            _ => (Box::new(base), vec![step]),
        };
        let defined = match (&of.ty.kind, &path[..]) {
            (Kind::Json(Some(owner)), [Step::Key(name)]) => {
                self.project.properties.get(&(*owner, name.clone())).copied()
            }
            _ => None,
        };
        let kind = match defined {
            Some(PropertyType::Numeric | PropertyType::Duration) => Kind::Float,
            Some(PropertyType::Boolean) => Kind::Bool,
            Some(PropertyType::DateTime) => Kind::TIMESTAMP,
            Some(PropertyType::String) | None => Kind::String,
        };
        let ty = Type::from(kind).or_null(true);
        Expr { kind: ExprKind::Property { of, path }, ty, span }
    }

    /// `{filters}`: the date range and the condition, on the first table of the select.
    pub(super) fn filters(&mut self, span: Span) -> Checked<Expr> {
        let Some(filters) = self.filters else {
            return Ok(literal_expr(&Literal::Bool(true), span));
        };
        let table = match self.scope().sources.first().map(|source| &source.columns) {
            Some(Columns::Table(table)) => *table,
            _ => return Err(Fault::invalid("{filters} needs a table that has a time", span)),
        };
        let Some(column) = table.time_column() else {
            let message =
                format!("{{filters}} cannot filter '{}', which has no time", table.name());
            return Err(Fault::invalid(message, span));
        };
        let mut all = Vec::new();
        let bounds =
            [(filters.from, Comparison::GreaterOrEqual), (filters.to, Comparison::LessOrEqual)];
        for (bound, comparison) in bounds {
            let Some(bound) = bound else { continue };
            let ty = Type::from(Kind::TIMESTAMP);
            let kind = ExprKind::Column { source: 0, via: Vec::new(), name: column };
            let time = Expr { kind, ty: ty.clone(), span };
            let bound = ExprKind::Value(Value::Timestamp(bound.as_micros()));
            let sides = [time, Expr { kind: bound, ty, span }];
            let kind = ExprKind::Compare(comparison, Box::new(sides));
            all.push(Expr { kind, ty: bool_type(false), span });
        }
        if let Some(condition) = &filters.condition {
            let scope = self.scope();
            let outside = std::mem::replace(&mut scope.only_first, true);
            let params = std::mem::take(&mut scope.params);
            // The condition has no position in the text.
            let condition = self.condition_of(condition).map_err(|fault| fault.at(span))?;
            let scope = self.scope();
            scope.only_first = outside;
            scope.params = params;
            all.push(condition);
        }
        Ok(match all.len() {
            0 => literal_expr(&Literal::Bool(true), span),
            _ => logic(LogicOp::And, all, span),
        })
    }
}

/// Whether a value is a properties object or a member of one, which may itself be an object.
fn has_properties(expr: &Expr) -> bool {
    matches!(expr.ty.kind, Kind::Json(_)) || matches!(expr.kind, ExprKind::Property { .. })
}
