//! Name resolution within a select.

use std::collections::HashMap;

use super::Resolver;
use super::expr::literal_expr;
use super::suggest::suggest;
use crate::ast::{self, Literal};
use crate::error::{Checked, Fault, Reason, Span};
use crate::plan::{Expr, ExprKind, Output, Step};
use crate::tables::{LazyJoin, PROJECT_COLUMN, Table};
use crate::types::{Kind, Type};

#[derive(Clone, Copy)]
pub(super) enum Named<'a> {
    Cte(usize),
    Scalar(&'a ast::Expr),
}

/// The names visible in one select.
#[derive(Default)]
pub(super) struct Scope<'a> {
    pub sources: Vec<ScopeSource>,
    pub aliases: HashMap<&'a str, &'a ast::Expr>,
    /// Aliases whose expressions are being resolved: within them, the name refers to a column.
    pub open: Vec<&'a str>,
    pub params: Vec<(&'a str, usize, Type)>,
    /// Names of `ARRAY JOIN`: index of the array and type of its elements.
    pub elements: Vec<(String, usize, Type)>,
    pub windows: &'a [(ast::Name, ast::Window)],
    /// Columns merged by `USING`.
    pub using: Vec<(&'a str, ast::JoinKind)>,
    /// While `{filters}` or an action's condition is resolved: the only source that is visible.
    pub only: Option<usize>,
    pub clause: Clause,
}

/// The clause being resolved, which determines what may occur in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Clause {
    /// Joins and array joins, which produce the rows.
    #[default]
    Source,
    /// `WHERE` and `GROUP BY`: rows before grouping.
    Row,
    /// Arguments of an aggregate.
    Aggregate,
    /// Partition and order of a window.
    Window,
    /// Columns, `HAVING`, `ORDER BY`: everything is allowed.
    Output,
}

pub(super) struct ScopeSource {
    /// The alias, or the name of the table.
    pub name: Option<String>,
    pub columns: Columns,
    /// On the nullable side of an outer join.
    pub nullable: bool,
}

pub(super) enum Columns {
    Table(Table),
    Outputs(Vec<Output>),
}

impl ScopeSource {
    fn names(&self) -> Vec<&str> {
        match &self.columns {
            Columns::Table(table) => {
                let links = ["person", "session", "pdi", "group_0"];
                let links = links.into_iter().filter(|name| table.link(name).is_some());
                table.columns().iter().map(|(name, _)| *name).chain(links).collect()
            }
            Columns::Outputs(outputs) => {
                outputs.iter().map(|output| output.name.as_str()).collect()
            }
        }
    }
}

impl<'a> Resolver<'a> {
    pub(super) fn scope(&mut self) -> &mut Scope<'a> {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    pub(super) fn field(&mut self, chain: &'a [ast::Name], expr: &'a ast::Expr) -> Checked<Expr> {
        let Some((first, rest)) = chain.split_first() else {
            return Err(Fault::invalid("An empty name", expr.span));
        };
        if let Some((source, column, deeper)) = self.qualified(first, rest) {
            return match self.in_source(source, column, deeper, expr)? {
                Some(resolved) => Ok(resolved),
                None => Err(self.unknown_field(column, Some(source))),
            };
        }
        if let Some(base) = self.local(first)? {
            // In a definition, an argument keeps its place in the statement.
            let span = if expr.span == Span::default() { base.span } else { expr.span };
            return self.members(Expr { span, ..base }, rest);
        }
        let scope = self.scope();
        let sources = match scope.only {
            Some(only) => only..scope.sources.len().min(only + 1),
            None => 0..scope.sources.len(),
        };
        let mut resolved = None;
        for source in sources {
            if let Some(other) = self.in_source(source, first, rest, expr)? {
                resolved = Some(match resolved {
                    Some(before) => self.merged(first, before, other)?,
                    None => other,
                });
            }
        }
        resolved.ok_or_else(|| self.unknown_field(first, None))
    }

    /// Resolves `table.column`, unless the first name is a lambda parameter.
    fn qualified(
        &mut self,
        first: &'a ast::Name,
        rest: &'a [ast::Name],
    ) -> Option<(usize, &'a ast::Name, &'a [ast::Name])> {
        let (column, deeper) = rest.split_first()?;
        let scope = self.scope();
        if scope.params.iter().any(|(param, ..)| *param == first.text) {
            return None;
        }
        let named = |source: &ScopeSource| source.name.as_ref() == Some(&first.text);
        let source = scope.sources.iter().position(named)?;
        scope.only.is_none_or(|only| only == source).then_some((source, column, deeper))
    }

    /// A name in two sources is ambiguous, unless `USING` merged them.
    fn merged(&mut self, name: &ast::Name, before: Expr, other: Expr) -> Checked<Expr> {
        let using = &self.scope().using;
        let kind =
            using.iter().rev().find(|(column, _)| *column == name.text).map(|(_, kind)| *kind);
        match kind {
            Some(ast::JoinKind::Right) => Ok(other),
            Some(ast::JoinKind::Full) => self.apply("ifNull", vec![before, other], name.span),
            Some(_) => Ok(before),
            None => {
                let message = format!("'{}' is in more than one table", name.text);
                Err(Fault::invalid(message, name.span))
            }
        }
    }

    /// Resolves a lambda parameter, an element of an array join, an alias, or a scalar of `WITH`.
    fn local(&mut self, first: &'a ast::Name) -> Checked<Option<Expr>> {
        let name = first.text.as_str();
        let span = first.span;
        if let Some(argument) = self.argument(name)? {
            return Ok(Some(argument));
        }
        let scope = self.scope();
        if let Some((_, id, ty)) = scope.params.iter().rev().find(|(param, ..)| *param == name) {
            let param = Expr { kind: ExprKind::Param(*id), ty: ty.clone(), span };
            return Ok(Some(param));
        }
        if scope.only.is_some() {
            return Ok(None);
        }
        if let Some((_, array, ty)) = scope.elements.iter().find(|(element, ..)| element == name) {
            let element = Expr { kind: ExprKind::Element(0, *array), ty: ty.clone(), span };
            return Ok(Some(element));
        }
        if scope.open.contains(&name) {
            return Ok(None);
        }
        let alias = scope.aliases.get(name).copied();
        let scalar = || match self.named.iter().rev().find(|(other, _)| *other == name)?.1 {
            Named::Scalar(expr) => Some(expr),
            Named::Cte(_) => None,
        };
        let Some(meant) = alias.or_else(scalar) else { return Ok(None) };
        let scope = self.scope();
        scope.open.push(name);
        let params = std::mem::take(&mut scope.params);
        let resolved = self.expr(meant)?;
        let scope = self.scope();
        scope.params = params;
        scope.open.pop();
        Ok(Some(resolved))
    }

    fn in_source(
        &mut self,
        source: usize,
        first: &'a ast::Name,
        rest: &'a [ast::Name],
        expr: &'a ast::Expr,
    ) -> Checked<Option<Expr>> {
        let span = expr.span;
        let in_scope = &self.scope().sources[source];
        let nullable = in_scope.nullable;
        let table = match &in_scope.columns {
            Columns::Table(table) => *table,
            Columns::Outputs(outputs) => {
                let same = |output: &&Output| output.name == first.text;
                let Some(column) = outputs.iter().position(|output| same(&output)) else {
                    return Ok(None);
                };
                let ty = outputs[column].ty.clone().or_null(nullable);
                let expr = Expr { kind: ExprKind::Output { source, column }, ty, span };
                return self.members(expr, rest).map(Some);
            }
        };
        self.in_table(table, source, nullable, first, rest, expr)
    }

    /// Follows lazy joins to a column.
    fn in_table(
        &mut self,
        table: Table,
        source: usize,
        mut nullable: bool,
        first: &'a ast::Name,
        rest: &'a [ast::Name],
        expr: &'a ast::Expr,
    ) -> Checked<Option<Expr>> {
        let (mut table, mut name, mut rest) = (table, first, rest);
        let mut via = Vec::new();
        while let Some(link) = self.link(table, &name.text) {
            via.push(link);
            table = link.table();
            let Some((next, behind)) = rest.split_first() else {
                let message = format!("'{}' is a table: name one of its fields", name.text);
                return Err(Fault::invalid(message, name.span));
            };
            (name, rest) = (next, behind);
        }
        if rest.is_empty()
            && let Some(value) = table.constant(&name.text)
        {
            return Ok(Some(literal_expr(&Literal::Int(value), expr.span)));
        }
        let derived = table.derived().find(|field| field.name == name.text);
        let stored = derived.map_or(name.text.as_str(), |field| field.column);
        let Some((column, mut ty)) = table.column(stored) else {
            if via.is_empty() {
                return Ok(None);
            }
            let known = table.columns().iter().map(|(name, _)| *name);
            return Err(unknown(name, suggest(&name.text, known)));
        };
        if let (Kind::Json(_), Some(link)) = (&ty.kind, via.last()) {
            ty.kind = Kind::Json(link.owner());
        }
        nullable |= via.iter().any(|link| link.is_nullable(column));
        let kind = ExprKind::Column { source, via, name: column };
        let mut value = Expr { kind, ty: ty.or_null(nullable), span: expr.span };
        if let Some(derived) = derived {
            if let Some(property) = derived.property {
                value = self.property(value, Step::Key(property.to_owned()), expr.span);
            }
            value = self.apply(derived.function, vec![value], expr.span)?;
        }
        self.members(value, rest).map(Some)
    }

    /// Group type names are arbitrary: a column of the same name takes precedence.
    fn link(&self, table: Table, name: &str) -> Option<LazyJoin> {
        table.link(name).or_else(|| {
            let is_free = table == Table::Events && table.column(name).is_none();
            let by_name = self.project.groups.get(name).filter(|_| is_free);
            by_name.map(|index| LazyJoin::Group(*index))
        })
    }

    fn unknown_field(&mut self, name: &ast::Name, source: Option<usize>) -> Fault {
        let scope = self.scope();
        let mut known = Vec::new();
        match source {
            Some(source) => known.extend(scope.sources[source].names()),
            None => {
                known.extend(scope.sources.iter().flat_map(ScopeSource::names));
                known.extend(scope.aliases.keys().copied());
                known.extend(scope.params.iter().map(|(param, ..)| *param));
            }
        }
        unknown(name, suggest(&name.text, known))
    }

    /// Expands `* EXCLUDE (a) REPLACE (x AS b)` and `COLUMNS('pattern')`.
    pub(super) fn column_set(
        &mut self,
        set: &'a ast::ColumnSet,
        span: Span,
    ) -> Checked<Vec<(String, Expr)>> {
        let mut columns = self.star(set.table.as_ref(), span)?;
        if let Some(pattern) = &set.pattern {
            let Ok(pattern) = model::filter_expr::compile_pattern(pattern) else {
                return Err(Fault::invalid("COLUMNS needs a valid regular expression", span));
            };
            columns.retain(|(name, _)| pattern.is_match(name));
        }
        let unknown = |name: &ast::Name, columns: &[(String, Expr)]| {
            unknown(name, suggest(&name.text, columns.iter().map(|(name, _)| name.as_str())))
        };
        for name in &set.exclude {
            let before = columns.len();
            columns.retain(|(other, _)| *other != name.text);
            if columns.len() == before {
                return Err(unknown(name, &columns));
            }
        }
        for (expr, name) in &set.replace {
            let Some(at) = columns.iter().position(|(other, _)| *other == name.text) else {
                return Err(unknown(name, &columns));
            };
            columns[at].1 = self.expr(expr)?;
        }
        if columns.is_empty() {
            return Err(Fault::invalid("This selects no column", span));
        }
        Ok(columns)
    }

    /// What tells the rows of this select apart: the keys of its tables, all columns of its subqueries,
    /// the elements of its array joins and the parameters of enclosing lambdas.
    pub(super) fn row_identity(&mut self, span: Span) -> Vec<Expr> {
        let scope = self.scope();
        let mut identity = Vec::new();
        for (source, visible) in scope.sources.iter().enumerate() {
            match &visible.columns {
                Columns::Table(table) => {
                    let columns = table.key().iter().filter_map(|name| table.column(name));
                    identity.extend(columns.map(|(name, ty)| {
                        let kind = ExprKind::Column { source, via: Vec::new(), name };
                        Expr { kind, ty: ty.or_null(visible.nullable), span }
                    }));
                }
                Columns::Outputs(outputs) => {
                    identity.extend(outputs.iter().enumerate().map(|(column, output)| {
                        let ty = output.ty.clone().or_null(visible.nullable);
                        Expr { kind: ExprKind::Output { source, column }, ty, span }
                    }));
                }
            }
        }
        identity.extend(scope.elements.iter().map(|(_, array, ty)| Expr {
            kind: ExprKind::Element(0, *array),
            ty: ty.clone(),
            span,
        }));
        identity.extend(scope.params.iter().map(|(_, id, ty)| Expr {
            kind: ExprKind::Param(*id),
            ty: ty.clone(),
            span,
        }));
        identity
    }

    /// Expands `*` to names and fields.
    pub(super) fn star(
        &mut self,
        table: Option<&'a ast::Name>,
        span: Span,
    ) -> Checked<Vec<(String, Expr)>> {
        let scope = self.scope();
        if scope.sources.is_empty() {
            return Err(Fault::invalid("'*' needs a table", span));
        }
        let chosen: Vec<usize> = match table {
            None => (0..scope.sources.len()).collect(),
            Some(name) => {
                let same = |source: &ScopeSource| source.name.as_ref() == Some(&name.text);
                let Some(source) = scope.sources.iter().position(same) else {
                    let known = scope.sources.iter().filter_map(|source| source.name.as_deref());
                    let suggestion = suggest(&name.text, known);
                    let reason =
                        Reason::Unknown { what: "table", name: name.text.clone(), suggestion };
                    return Err(Fault::new(reason, name.span));
                };
                vec![source]
            }
        };
        let mut columns = Vec::new();
        for source in chosen {
            let visible = &scope.sources[source];
            let column = |name: &'static str, via: Vec<LazyJoin>, ty: Type| {
                let missing = via.iter().any(|link| link.is_nullable(name));
                let ty = ty.or_null(visible.nullable || missing);
                let kind = ExprKind::Column { source, via, name };
                Expr { kind, ty, span: Default::default() }
            };
            match &visible.columns {
                Columns::Table(table) => {
                    for (name, _) in table.columns() {
                        if let Some((name, ty)) = table.column(name) {
                            columns.push((name.to_owned(), column(name, Vec::new(), ty)));
                        }
                    }
                    for (name, [link, field]) in table.star_fields() {
                        if let Some(link) = table.link(link)
                            && let Some((field, ty)) = link.table().column(field)
                        {
                            columns.push(((*name).to_owned(), column(field, vec![link], ty)));
                        }
                    }
                }
                Columns::Outputs(outputs) => {
                    for (no, output) in outputs.iter().enumerate() {
                        let kind = ExprKind::Output { source, column: no };
                        let ty = output.ty.clone().or_null(visible.nullable);
                        columns.push((
                            output.name.clone(),
                            Expr { kind, ty, span: Default::default() },
                        ));
                    }
                }
            }
        }
        Ok(columns)
    }
}

fn unknown(name: &ast::Name, suggestion: Option<String>) -> Fault {
    let reason = Reason::Unknown { what: "field", name: name.text.clone(), suggestion };
    Fault::new(reason, name.span)
}

/// Rejects an alias named like the project column, which could suggest access to other projects.
pub(super) fn check_alias(alias: &ast::Name) -> Checked<()> {
    if alias.text.eq_ignore_ascii_case(PROJECT_COLUMN) && !alias.is_generated() {
        let message = format!("'{PROJECT_COLUMN}' cannot be an alias");
        return Err(Fault::invalid(message, alias.span));
    }
    Ok(())
}
