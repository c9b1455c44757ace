//! CSV responses, chosen by `?format=csv` or `Accept: text/csv`.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::{AppState, Error, RequestUrl, Result};

/// All rows have all columns, so each distinct property widens every row.
const COLUMNS_MAX: usize = 5_000;
/// Values nested deeper than this become one cell of JSON.
const DEPTH_MAX: usize = 32;

/// The response's format: `format`, or else `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Csv,
}

/// A response in either format.
pub enum JsonOrCsv<T> {
    Json(T),
    Csv(String),
    /// One page of a table, and the link to the next.
    CsvPage(String, Link),
}

pub const CONTENT_TYPE: &str = "text/csv; charset=utf-8";

/// The link to a CSV's next page, in a header: `Link: <…>; rel="next"` (RFC 8288).
pub struct Link(pub Option<String>);

impl Link {
    pub fn put(&self, headers: &mut HeaderMap) {
        let link = self.0.as_ref().map(|next| format!("<{next}>; rel=\"next\""));
        if let Some(link) = link.and_then(|link| HeaderValue::try_from(link).ok()) {
            headers.insert(header::LINK, link);
        }
    }
}

/// One row: cells by column name.
pub type Cells = BTreeMap<String, String>;

impl FromRequestParts<AppState> for Format {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        match RequestUrl::of(parts).value("format") {
            Some("csv") => return Ok(Self::Csv),
            Some("json") => return Ok(Self::Json),
            Some(other) => return Err(Error::invalid_choice("format", other)),
            None => {}
        }
        let accepted = parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let first = accepted.unwrap_or_default().split([',', ';']).next().unwrap_or_default();
        Ok(if first.trim() == "text/csv" { Self::Csv } else { Self::Json })
    }
}

impl DescribeRequest for Format {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.query_parameter("format", json!({ "type": "string", "enum": ["csv", "json"] }));
    }
}

impl<T: Serialize> IntoResponse for JsonOrCsv<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Json(body) => axum::Json(body).into_response(),
            Self::Csv(table) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], table).into_response(),
            Self::CsvPage(table, link) => {
                let mut response = JsonOrCsv::<()>::Csv(table).into_response();
                link.put(response.headers_mut());
                response
            }
        }
    }
}

impl<T: JsonSchema> DescribeResponse for JsonOrCsv<T> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<T>(200, schemas);
        operation.response_of(200, "text/csv");
    }
}

/// Flattens a value into columns named by path: members by name, items by index, joined with dots.
/// Empty objects and arrays have no column.
pub fn spread(name: &str, value: &Value, cells: &mut Cells) {
    spread_at(name, value, cells, 0);
}

/// The same for raw JSON. Numbers keep their literal, and so does what does not parse.
pub fn spread_raw(name: &str, json: &RawValue, cells: &mut Cells) {
    match serde_json::from_str::<Value>(json.get()) {
        Ok(value) if !value.is_number() => spread(name, &value, cells),
        _ => drop(cells.insert(name.to_owned(), json.get().to_owned())),
    }
}

fn spread_at(name: &str, value: &Value, cells: &mut Cells, depth: usize) {
    let text = match value {
        Value::Object(members) if depth < DEPTH_MAX => {
            for (member, value) in members {
                spread_at(&format!("{name}.{member}"), value, cells, depth + 1);
            }
            return;
        }
        Value::Array(items) if depth < DEPTH_MAX => {
            for (at, value) in items.iter().enumerate() {
                spread_at(&format!("{name}.{at}"), value, cells, depth + 1);
            }
            return;
        }
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cells.insert(name.to_owned(), text);
}

/// Serializes rows, of which the first is the header.
pub fn lines(rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    rows.iter().for_each(|row| line(&mut out, row.iter().map(String::as_str)));
    out
}

/// Serializes rows under a header of all their columns, sorted; missing cells are empty.
pub fn table(rows: &[Cells]) -> Result<String> {
    let columns: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    check_columns(columns.len())?;
    let mut out = String::new();
    line(&mut out, columns.iter().copied());
    for row in rows {
        line(&mut out, columns.iter().map(|column| row.get(*column).map_or("", String::as_str)));
    }
    Ok(out)
}

pub fn check_columns(columns: usize) -> Result<()> {
    if columns > COLUMNS_MAX {
        let detail =
            format!("The CSV would have more than {COLUMNS_MAX} columns. Use format=json.");
        return Err(Error::invalid("format", "invalid_input", detail));
    }
    Ok(())
}

/// Appends one line as RFC 4180 says.
pub fn line<'a>(out: &mut String, cells: impl Iterator<Item = &'a str>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(cell);
        }
    }
    out.push_str("\r\n");
}

/// A JSON value as one cell: strings without quotes, null as an empty cell.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The cells of a JSON array.
pub(crate) fn cells_of(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).map_or_else(Vec::new, |all| all.iter().map(cell).collect())
}

/// The header and the rows of a query result.
pub(crate) fn rows(columns: &Value, results: &Value) -> Vec<Vec<String>> {
    let rows = results.as_array().into_iter().flatten();
    std::iter::once(cells_of(Some(columns))).chain(rows.map(|row| cells_of(Some(row)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_flattens_nested_values_into_sorted_columns() {
        let row = |json: Value| {
            let mut cells = Cells::new();
            for (name, value) in json.as_object().unwrap() {
                spread(name, value, &mut cells);
            }
            cells
        };
        let rows = [
            row(json!({ "b": { "x": [1, "two, three"] }, "a": null, "empty": [], "none": {} })),
            row(json!({ "a": "say \"hi\"\nnow", "c": true })),
        ];
        let expected =
            "a,b.x.0,b.x.1,c\r\n,1,\"two, three\",\r\n\"say \"\"hi\"\"\nnow\",,,true\r\n";
        assert_eq!(table(&rows).unwrap(), expected);
        assert_eq!(table(&[]).unwrap(), "\r\n");
    }

    #[test]
    fn csv_keeps_number_literals_and_rejects_too_many_columns() {
        let mut cells = Cells::new();
        for (name, json) in [("big", "12345678901234567890123"), ("endless", "[1e999]")] {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            spread_raw(name, &raw, &mut cells);
        }
        assert_eq!(cells["big"], "12345678901234567890123");
        assert_eq!(cells["endless"], "[1e999]");
        let wide: Cells = (0..=COLUMNS_MAX).map(|at| (at.to_string(), String::new())).collect();
        assert!(table(&[wide]).is_err());
    }
}
