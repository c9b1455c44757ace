//! Resolves members, elements and properties of values, and `{filters}`.

use model::definition::PropertyType;
use model::{ActionId, Timestamp};

use super::Resolver;
use super::expr::{bool_type, literal_expr, logic};
use super::scope::{Columns, ScopeSource};
use super::suggest::suggest;
use crate::ast::{self, ExprKind as Ast, Literal, LogicOp, UnaryOp};
use crate::error::{Checked, Fault, Reason, Span};
use crate::functions::Arg;
use crate::placeholders::{DateBound, date_bound};
use crate::plan::{Comparison, Expr, ExprKind, Step, Value};
use crate::tables::Table;
use crate::types::{Kind, Type};
use crate::visit::operands;

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
                Ast::Unary(UnaryOp::Negate, _) => self.indexed_from_end(base, index, span),
                _ => self.indexed_by_expression(base, index, span),
            };
        }
        let index = self.expr(index)?;
        self.apply("arrayElement", vec![base, index], span)
    }

    /// `[length(x)]` of a property that holds an array, or a property whose name is computed.
    fn indexed_by_expression(
        &mut self,
        base: Expr,
        index: &'a ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let index = self.expr(index)?;
        if index.ty.kind.is_string() {
            let value = self.apply("JSONExtractString", vec![base, index], span)?;
            let missing = literal_expr(&Literal::String(String::new()), span);
            return self.apply("nullIf", vec![value, missing], span);
        }
        let array = self.coerce(base, Arg::Array)?;
        self.apply("arrayElement", vec![array, index], span)
    }

    /// `[-1]` of a property that holds an array: its last element, as a string without its quotes.
    fn indexed_from_end(&mut self, base: Expr, index: &'a ast::Expr, span: Span) -> Checked<Expr> {
        let text = |text: &str| literal_expr(&Literal::String(text.to_owned()), span);
        let elements = self.apply("JSONExtractArrayRaw", vec![base], span)?;
        let index = self.expr(index)?;
        let mut element = self.apply("arrayElement", vec![elements, index], span)?;
        for missing in ["", "null"] {
            element = self.apply("nullIf", vec![element, text(missing)], span)?;
        }
        self.apply("replaceRegexpAll", vec![element, text("^\"|\"$"), text("")], span)
    }

    /// A property has the type of its definition; a nested member is a string.
    pub(super) fn property(&mut self, base: Expr, step: Step, span: Span) -> Expr {
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
            all.push(self.on_source(0, condition, span)?);
        }
        Ok(match all.len() {
            0 => literal_expr(&Literal::Bool(true), span),
            _ => logic(LogicOp::And, all, span),
        })
    }
}

impl<'a> Resolver<'a> {
    /// Resolves a condition on the rows of one source, which has no position in the text.
    fn on_source(&mut self, source: usize, condition: &'a ast::Expr, span: Span) -> Checked<Expr> {
        let scope = self.scope();
        let outside = scope.only.replace(source);
        let params = std::mem::take(&mut scope.params);
        let condition = self.condition_of(condition).map_err(|fault| fault.at(span))?;
        let scope = self.scope();
        scope.only = outside;
        scope.params = params;
        Ok(condition)
    }

    /// `matchesAction('name')` or `matchesAction(5)`: the action's condition on the first table of
    /// events.
    pub(super) fn matches_action(&mut self, action: &'a ast::Expr, span: Span) -> Checked<Expr> {
        let known = &self.project.actions;
        let (name, named, suggestion) = match &action.kind {
            Ast::Literal(Literal::Int(id)) => {
                let id_known = i64::try_from(*id).ok().and_then(|id| known.get(&ActionId(id)));
                (id.to_string(), id_known, None)
            }
            Ast::Literal(Literal::String(name)) => {
                let named = known.values().find(|other| other.name == *name);
                let names = known.values().map(|other| other.name.as_str());
                (name.clone(), named, suggest(name, names))
            }
            _ => return Err(Fault::invalid("An action is named by its id or name", action.span)),
        };
        let Some(named) = named else {
            return Err(Fault::new(
                Reason::Unknown { what: "action", name, suggestion },
                action.span,
            ));
        };
        let is_events =
            |source: &ScopeSource| matches!(source.columns, Columns::Table(Table::Events));
        let Some(events) = self.scope().sources.iter().position(is_events) else {
            return Err(Fault::invalid("matchesAction() needs the table events", span));
        };
        let condition = self.on_source(events, &named.condition, span)?;
        Ok(Expr { span, ..condition })
    }

    /// `{filters.dateRange.from}`: a date-time.
    pub(super) fn date_bound(&self, bound: DateBound, span: Span) -> Checked<Expr> {
        let Some(at) = self.bound_of_filters(bound) else {
            let message = "The date range has no such bound: compare a field with it directly, and the \
                           comparison will be true";
            return Err(Fault::invalid(message, span));
        };
        let kind = ExprKind::Value(Value::Timestamp(at.as_micros()));
        Ok(Expr { kind, ty: Kind::TIMESTAMP.into(), span })
    }

    fn bound_of_filters(&self, bound: DateBound) -> Option<Timestamp> {
        let filters = self.filters?;
        match bound {
            DateBound::From => filters.from,
            DateBound::To => filters.to,
        }
    }

    /// Whether an expression compares with a bound that the date range lacks: then it holds.
    pub(super) fn lacks_date_bound(&self, expr: &ast::Expr) -> bool {
        let compares = match &expr.kind {
            Ast::Binary(op, ..) => op.compares(),
            Ast::Between { .. } => true,
            _ => false,
        };
        compares && operands(expr).into_iter().any(|operand| self.is_lacking(operand))
    }

    fn is_lacking(&self, expr: &ast::Expr) -> bool {
        match &expr.kind {
            Ast::Placeholder(chain) => {
                date_bound(chain).is_some_and(|bound| self.bound_of_filters(bound).is_none())
            }
            // A comparison within has been decided on its own.
            Ast::Binary(op, ..) if op.compares() => false,
            _ => operands(expr).into_iter().any(|operand| self.is_lacking(operand)),
        }
    }
}

/// Whether a value is a properties object or a member of one, which may itself be an object.
fn has_properties(expr: &Expr) -> bool {
    matches!(expr.ty.kind, Kind::Json(_)) || matches!(expr.kind, ExprKind::Property { .. })
}
