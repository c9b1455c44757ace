//! `HogQLMetadata`: checks a statement, an expression or a template without running it.

use std::collections::BTreeMap;

use hogql::ast::{Body, Column, From, Query, Select, Source, SourceKind};
use hogql::{PlaceholderValues, Project, Span};
use model::filter_expr::FilteredRows as Rows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{Language, placeholder_values, table_of};
use crate::Result;
use crate::conditions::check;
use crate::hogql_query::{HogqlFilters, Variable};

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HogQLMetadataFields")]
pub(crate) struct MetadataQuery {
    #[serde(rename = "kind")]
    _kind: String,
    language: Language,
    query: String,
    #[serde(default)]
    #[schemars(with = "Option<crate::schema::SourceQuery>")]
    pub(super) source_query: Option<Map<String, Json>>,
    /// Values of placeholders.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, model::json_shapes::FilterValue>>")]
    globals: Option<Map<String, Json>>,
    #[serde(default)]
    filters: Option<HogqlFilters>,
    #[serde(default)]
    variables: Option<BTreeMap<String, Variable>>,
    #[serde(default, rename = "debug")]
    _debug: Option<bool>,
}

/// The answer: what is wrong, and which tables the text reads.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HogQLMetadataAnswer")]
pub struct Metadata {
    pub query: String,
    pub is_valid: bool,
    pub errors: Vec<Notice>,
    pub warnings: Vec<Notice>,
    pub notices: Vec<Notice>,
    #[serde(rename = "table_names")]
    pub table_names: Vec<String>,
}

/// A remark about the characters from `start` up to `end`, counted from 0.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "HogQLNotice")]
pub struct Notice {
    pub start: Option<usize>,
    pub end: Option<usize>,
    pub message: String,
    /// What to put in place of the characters.
    pub fix: Option<String>,
}

impl MetadataQuery {
    /// Whether the text may name a variable.
    pub fn mentions_variables(&self) -> bool {
        self.query.contains("variables")
    }

    pub fn answer(
        &self,
        project: &Project,
        variable_defaults: &BTreeMap<String, Json>,
    ) -> Result<Metadata> {
        if let Some(filters) = &self.filters {
            check(&filters.properties, Rows::Events)?;
        }
        let values =
            placeholder_values(self.globals.as_ref(), self.variables.as_ref(), variable_defaults);
        let table = table_of(self.source_query.as_ref())?;
        let checked = match self.language {
            Language::Statement => check_statement(&self.query, &values, project),
            Language::Expression => check_expression(&self.query, &values, table, project),
            Language::Template => check_template(&self.query),
        };
        let (table_names, errors) = match checked {
            Ok(tables) => (tables, Vec::new()),
            Err(notice) => (Vec::new(), vec![notice]),
        };
        Ok(Metadata {
            query: self.query.clone(),
            is_valid: errors.is_empty(),
            errors,
            warnings: Vec::new(),
            notices: Vec::new(),
            table_names,
        })
    }
}

fn check_statement(
    text: &str,
    values: &PlaceholderValues,
    project: &Project,
) -> Result<Vec<String>, Notice> {
    let notice = |error| notice(text, 0, &error);
    let parsed = hogql::parse(text).map_err(notice)?;
    let tables = hogql::table_names(&parsed).into_iter().collect();
    let filled = hogql::fill(parsed, text, values).map_err(notice)?;
    hogql::resolve(&filled, text, project, None).map_err(notice)?;
    Ok(tables)
}

fn check_expression(
    text: &str,
    values: &PlaceholderValues,
    table: &str,
    project: &Project,
) -> Result<Vec<String>, Notice> {
    let notice = |error| notice(text, 0, &error);
    let parsed = hogql::parse_expr(text).map_err(notice)?;
    let filled = hogql::fill_expr(parsed, text, values).map_err(notice)?;
    let name = hogql::build::name(table);
    let first = Source {
        kind: SourceKind::Table(name),
        alias: None,
        columns: Vec::new(),
        span: Span::default(),
    };
    let select = Select {
        columns: vec![Column { expr: filled, alias: None }],
        from: Some(From { first, joins: Vec::new() }),
        ..Select::default()
    };
    let statement = Query { with: Vec::new(), body: Body::Select(Box::new(select)) };
    let tables = hogql::table_names(&statement).into_iter().collect();
    hogql::resolve(&statement, text, project, None).map_err(notice)?;
    Ok(tables)
}

/// Only the syntax: what a template's names mean is known where it is used.
fn check_template(text: &str) -> Result<Vec<String>, Notice> {
    let mut rest = 0;
    while let Some(found) = next_expression(text, rest) {
        let (start, end) = found.map_err(|at| {
            let message = "The brace is not closed".to_owned();
            let at = chars(text, at);
            Notice { start: Some(at), end: Some(at + 1), message, fix: None }
        })?;
        hogql::parse_expr(&text[start..end]).map_err(|error| notice(text, start, &error))?;
        rest = end + 1;
    }
    Ok(Vec::new())
}

/// The next expression in braces from byte `from` on, without its braces. The error is the position of
/// a brace that nothing closes. A backslash before a brace makes it text.
fn next_expression(text: &str, from: usize) -> Option<Result<(usize, usize), usize>> {
    let bytes = text.as_bytes();
    let mut at = from;
    while *bytes.get(at)? != b'{' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    let open = at;
    let (mut depth, mut quote) = (0, None);
    while let Some(byte) = bytes.get(at) {
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(mark), byte) if mark == byte => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None, b'{') => depth += 1,
            (None, b'}') => depth -= 1,
            (None, _) => {}
        }
        if depth == 0 {
            return Some(Ok((open + 1, at)));
        }
        at += 1;
    }
    Some(Err(open))
}

/// The notice of an error in the part of `text` that starts at byte `offset`.
fn notice(text: &str, offset: usize, error: &hogql::Error) -> Notice {
    let Some(span) = error.span else {
        return Notice { start: None, end: None, message: error.reason.to_string(), fix: None };
    };
    let (start, end) = (offset + span.start as usize, offset + span.end.max(span.start) as usize);
    let named = text.get(start..end).map(|part| part.trim_matches(['`', '"']));
    let fix = error.reason.suggestion().filter(|_| error.reason.name() == named);
    Notice {
        start: Some(chars(text, start)),
        end: Some(chars(text, end)),
        message: error.reason.to_string(),
        fix: fix.map(str::to_owned),
    }
}

/// How many characters precede a byte.
fn chars(text: &str, byte: usize) -> usize {
    text[..text.floor_char_boundary(byte)].chars().count()
}
