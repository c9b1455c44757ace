//! `FROM`: tables, subqueries, joins.

use std::sync::LazyLock;

use super::Resolver;
use super::scope::{Columns, Named, Scope, ScopeSource, check_alias};
use super::suggest::suggest;
use crate::ast::{self, JoinKind, Strictness};
use crate::error::{Checked, Fault, Reason, Span};
use crate::functions::Arg;
use crate::limits::SOURCES_MAX;
use crate::plan::{Comparison, Expr, ExprKind, JoinedSource, Output, Source};
use crate::tables::Table;
use crate::types::Kind;

impl<'a> Resolver<'a> {
    pub(super) fn from(&mut self, from: &'a ast::From) -> Checked<Vec<JoinedSource>> {
        let first = self.source(&from.first)?;
        let strictness = Strictness::All;
        let mut joined = vec![JoinedSource { source: first, kind: None, strictness, on: None }];
        for join in &from.joins {
            if joined.len() >= SOURCES_MAX {
                return Err(Fault::too_large("joined tables", SOURCES_MAX, join.source.span));
            }
            let source = self.source(&join.source)?;
            let on = match &join.on {
                Some(ast::On::Condition(condition)) => {
                    let condition = self.expr(condition)?;
                    Some(self.coerce(condition, Arg::Condition)?)
                }
                Some(ast::On::Using(names)) => Some(self.using(names)?),
                None => None,
            };
            if let Some(ast::On::Using(names)) = &join.on {
                let using = names.iter().map(|name| (name.text.as_str(), join.kind));
                self.scope().using.extend(using);
            }
            let last = joined.len();
            let sources = &mut self.scope().sources;
            // Every row of a semi join has a match.
            let is_outer = join.strictness != Strictness::Semi;
            if is_outer && matches!(join.kind, JoinKind::Left | JoinKind::Full) {
                sources[last].nullable = true;
            }
            if is_outer && matches!(join.kind, JoinKind::Right | JoinKind::Full) {
                sources[..last].iter_mut().for_each(|source| source.nullable = true);
            }
            let (kind, strictness) = (Some(join.kind), join.strictness);
            joined.push(JoinedSource { source, kind, strictness, on });
        }
        Ok(joined)
    }

    /// `USING`: equates a column of the last source with the column of that name in an earlier one.
    fn using(&mut self, names: &'a [ast::Name]) -> Checked<Expr> {
        let mut equal = Vec::new();
        for name in names {
            let last = self.scope().sources.len() - 1;
            let (mut left, mut right) = (None, None);
            for source in 0..=last {
                let column = self.column_of(source, name)?;
                if source == last {
                    right = column;
                } else {
                    left = left.or(column);
                }
            }
            let (Some(left), Some(right)) = (left, right) else {
                let message = format!("Both sides of USING need a column '{}'", name.text);
                return Err(Fault::invalid(message, name.span));
            };
            let sides = self.align(left, right, name.span)?;
            let kind = ExprKind::Compare(Comparison::Equal, Box::new(sides));
            equal.push(Expr { kind, ty: Kind::UInt(8).into(), span: name.span });
        }
        Ok(super::select::all_of(equal))
    }

    fn column_of(&mut self, source: usize, name: &'a ast::Name) -> Checked<Option<Expr>> {
        let scope = self.scope();
        let nullable = scope.sources[source].nullable;
        let column = match &scope.sources[source].columns {
            Columns::Table(table) => table
                .column(&name.text)
                .map(|(name, ty)| (ExprKind::Column { source, via: Vec::new(), name }, ty)),
            Columns::Outputs(outputs) => {
                let column = outputs.iter().position(|output| output.name == name.text);
                column
                    .map(|column| (ExprKind::Output { source, column }, outputs[column].ty.clone()))
            }
        };
        Ok(column.map(|(kind, ty)| Expr { kind, ty: ty.or_null(nullable), span: name.span }))
    }

    fn source(&mut self, source: &'a ast::Source) -> Checked<Source> {
        let (resolved, mut columns, own_name) = match &source.kind {
            ast::SourceKind::Query(query) => {
                let relation = self.deeper(source.span, |resolver| resolver.query(query))?;
                let columns = Columns::Outputs(relation.columns.clone());
                (Source::Query(Box::new(relation)), columns, None)
            }
            ast::SourceKind::Table(name) => {
                let (source, columns) = self.table(name)?;
                (source, columns, Some(name.text.clone()))
            }
            ast::SourceKind::Call(name, args) => {
                let (source, columns) = self.table_function(name, args)?;
                (source, columns, Some(name.text.clone()))
            }
        };
        if let Some(alias) = &source.alias {
            check_alias(alias)?;
        }
        match (&mut columns, &source.columns[..]) {
            (Columns::Outputs(outputs), names) => rename(outputs, names)?,
            (Columns::Table(_), []) => {}
            (Columns::Table(_), [first, ..]) => {
                let message = "Only the columns of a subquery can be renamed here";
                return Err(Fault::invalid(message, first.span));
            }
        }
        let name = source.alias.as_ref().map(|alias| alias.text.clone()).or(own_name);
        if let Some(name) = &name
            && self.scope().sources.iter().any(|other| other.name.as_ref() == Some(name))
        {
            let message = format!("Two tables are named '{name}': give one an alias");
            return Err(Fault::invalid(message, source.span));
        }
        self.scope().sources.push(ScopeSource { name, columns, nullable: false });
        Ok(resolved)
    }

    fn table(&mut self, name: &'a ast::Name) -> Checked<(Source, Columns)> {
        let named = self.named.iter().rev().find(|(other, _)| *other == name.text);
        if let Some((_, Named::Cte(cte))) = named {
            let cte = *cte;
            let columns = self.ctes[cte].columns.clone();
            self.charge(columns.len(), name.span)?;
            return Ok((Source::Cte(cte), Columns::Outputs(columns)));
        }
        if let Some(table) = Table::named(&name.text) {
            return Ok((Source::Table(table, self.project.id), Columns::Table(table)));
        }
        let ctes = self.named.iter().filter(|(_, named)| matches!(named, Named::Cte(_)));
        let known = Table::ALL.iter().map(|table| table.name());
        let suggestion = suggest(&name.text, known.chain(ctes.map(|(name, _)| *name)));
        let reason = Reason::Unknown { what: "table", name: name.text.clone(), suggestion };
        Err(Fault::new(reason, name.span))
    }

    /// `numbers` is the only table function; there are none that read files or the network.
    fn table_function(
        &mut self,
        name: &'a ast::Name,
        args: &'a [ast::Expr],
    ) -> Checked<(Source, Columns)> {
        if !name.text.eq_ignore_ascii_case("numbers") {
            let suggestion = suggest(&name.text, ["numbers"]);
            let reason =
                Reason::Unknown { what: "table function", name: name.text.clone(), suggestion };
            return Err(Fault::new(reason, name.span));
        }
        let numbers = args.iter().map(|arg| self.constant_or_none(arg));
        let numbers = numbers.collect::<Checked<Vec<Option<u64>>>>()?;
        let (start, count) = match numbers[..] {
            [Some(count)] => (0, count),
            [Some(start), Some(count)] => (start, count),
            [_] => return self.computed_numbers(&COMPUTED_COUNT, args, name.span),
            [_, _] => return self.computed_numbers(&COMPUTED_RANGE, args, name.span),
            _ => {
                return Err(Fault::invalid(
                    "numbers() takes how many, or from where and how many",
                    name.span,
                ));
            }
        };
        if start.checked_add(count).is_none() {
            return Err(Fault::invalid("numbers() ends past the largest number", name.span));
        }
        let (name, ty) = ("number".to_owned(), Kind::UInt(64).into());
        let number = Output { name, ty, is_property: false };
        Ok((Source::Numbers { start, count }, Columns::Outputs(vec![number])))
    }
}

/// `numbers()` of values that are only known when the statement runs.
static COMPUTED_COUNT: LazyLock<ast::Query> =
    LazyLock::new(|| numbers_query("SELECT arrayJoin(range(toUInt64(_1))) AS number"));
static COMPUTED_RANGE: LazyLock<ast::Query> = LazyLock::new(|| {
    numbers_query("SELECT arrayJoin(range(toUInt64(_1), toUInt64(_1) + toUInt64(_2))) AS number")
});

fn numbers_query(text: &str) -> ast::Query {
    crate::parse(text).expect("a test resolves it")
}

impl<'a> Resolver<'a> {
    fn computed_numbers(
        &mut self,
        query: &'static LazyLock<ast::Query>,
        args: &'a [ast::Expr],
        span: Span,
    ) -> Checked<(Source, Columns)> {
        // The arguments see no tables.
        self.scopes.push(Scope::default());
        let resolved = args.iter().map(|arg| {
            self.measured(|resolver| {
                let arg = resolver.expr(arg)?;
                resolver.coerce(arg, Arg::Number)
            })
        });
        let resolved = resolved.collect::<Checked<Vec<_>>>();
        self.scopes.pop();
        self.arguments.push(resolved?);
        let relation = self.deeper(span, |resolver| resolver.query(query));
        self.arguments.pop();
        let relation = relation.map_err(|fault| fault.at(span))?;
        let columns = Columns::Outputs(relation.columns.clone());
        Ok((Source::Query(Box::new(relation)), columns))
    }
}

/// Gives columns new names: all of them, or none if there are no names.
pub(super) fn rename(columns: &mut [Output], names: &[ast::Name]) -> Checked<()> {
    let Some(first) = names.first() else { return Ok(()) };
    if names.len() != columns.len() {
        let message = format!("{} names for {} columns", names.len(), columns.len());
        return Err(Fault::invalid(message, first.span));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        check_alias(name)?;
        column.name.clone_from(&name.text);
    }
    Ok(())
}
