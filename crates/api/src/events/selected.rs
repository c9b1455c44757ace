//! Listing events by HogQL expressions: the parameters `select` and `where`.

use model::filter_expr::FilterExpr;
use query::{QueryRequest, QueryResponse, Refresh, Zone, read_filters};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Events, ListQuery};
use crate::http::csv::{self, Format, JsonOrCsv, Link};
use crate::http::path::given;
use crate::{App, Error, Reader, RequestUrl, Result};

/// Expressions of one request.
const EXPRESSIONS_MAX: usize = 100;

#[derive(Serialize, JsonSchema)]
pub(super) struct Selected {
    #[schemars(with = "Vec<String>")]
    columns: Value,
    #[schemars(with = "Vec<query::schema::ColumnType>")]
    types: Value,
    /// A list of values for each row.
    #[schemars(with = "Vec<Vec<Value>>")]
    results: Value,
    #[serde(rename = "hasMore")]
    has_more: bool,
    next: Option<String>,
}

impl ListQuery {
    /// Parses a parameter's JSON array of expressions; none if it is missing or empty.
    fn expressions(&self, name: &'static str) -> Result<Option<Vec<String>>> {
        let text = if name == "select" { &self.select } else { &self.conditions };
        let Some(text) = given(text.as_ref()) else { return Ok(None) };
        let refused = || {
            let detail = "Must be a JSON array of expressions.";
            Error::invalid(name, "invalid_input", detail)
        };
        let read: Vec<String> = serde_json::from_str(text).map_err(|_| refused())?;
        if read.len() > EXPRESSIONS_MAX {
            let detail = format!("Ensure this field has no more than {EXPRESSIONS_MAX} elements.");
            return Err(Error::invalid(name, "max_length", detail));
        }
        Ok(Some(read).filter(|read| !read.is_empty()))
    }

    /// The conditions of `where` as filters, for a list without `select`.
    pub(super) fn conditions(&self, now: model::Timestamp, zone: &Zone) -> Result<FilterExpr> {
        let filters = self.expressions("where")?.unwrap_or_default();
        let filter = |text: String| json!({ "type": "hogql", "key": text });
        let filters: Value = filters.into_iter().map(filter).collect();
        Ok(read_filters(&filters, now, zone).map_err(query::Error::from)?)
    }

    /// The `EventsQuery` that the request describes; none without `select`.
    fn events_query(&self) -> Result<Option<Value>> {
        let Some(select) = self.expressions("select")? else { return Ok(None) };
        let action = given(self.action_id.as_ref()).map(|text| {
            text.parse::<i64>().map_err(|_| {
                let detail = "A valid integer is required.";
                Error::invalid("action_id", "invalid_input", detail)
            })
        });
        let json = |name: &str, text: &Option<String>| -> Result<Value> {
            let Some(text) = given(text.as_ref()) else { return Ok(Value::Null) };
            serde_json::from_str(text)
                .map_err(|_| Error::invalid(name, "invalid_input", "Expected JSON."))
        };
        let mut query = Map::from_iter([
            ("kind".to_owned(), json!("EventsQuery")),
            ("select".to_owned(), json!(select)),
            ("where".to_owned(), json!(self.expressions("where")?)),
            ("properties".to_owned(), json("properties", &self.properties)?),
            ("after".to_owned(), json!(given(self.after.as_ref()).unwrap_or("all"))),
            ("before".to_owned(), json!(given(self.before.as_ref()))),
            ("event".to_owned(), json!(given(self.event.as_ref()))),
            ("actionId".to_owned(), json!(action.transpose()?)),
            ("personId".to_owned(), json!(given(self.person_id.as_ref()))),
            ("orderBy".to_owned(), json("orderBy", &self.order_by)?),
        ]);
        if let Some(id) = given(self.distinct_id.as_ref()) {
            let has_distinct_id =
                json!([{ "key": "distinct_id", "type": "event_metadata", "value": id }]);
            query.insert("fixedProperties".into(), has_distinct_id);
        }
        // `EventsQuery` bounds both.
        query.insert("limit".into(), json!(number(&self.limit)));
        query.insert("offset".into(), json!(number(&self.offset)));
        Ok(Some(Value::Object(query)))
    }

    /// The link to the next page.
    fn next(&self, url: &RequestUrl, rows: usize) -> String {
        let offset = number(&self.offset).unwrap_or(0).saturating_add(rows as u64);
        url.link(&[("offset", Some(&offset.to_string()))])
    }
}

fn number(text: &Option<String>) -> Option<u64> {
    text.as_deref()?.parse().ok()
}

/// None if the request has no `select`.
pub(super) async fn list(
    caller: &Reader<Events>,
    url: &RequestUrl,
    query: &ListQuery,
    format: Format,
    app: &App,
) -> Result<Option<JsonOrCsv<Selected>>> {
    let Some(events_query) = query.events_query()? else { return Ok(None) };
    // A list is never served from the cache.
    let request = QueryRequest::new(events_query, Refresh::ForceBlocking, caller.visibilities());
    let QueryResponse::Ready { result, .. } = app.queries.run(&caller.project, request).await?
    else {
        return Ok(None);
    };
    let list = |value: &Option<Value>| value.clone().unwrap_or_else(|| json!([]));
    let has_more = result.has_more == Some(true);
    let next = has_more.then(|| query.next(url, result.results.as_array().map_or(0, Vec::len)));
    if format == Format::Csv {
        let rows = csv::rows(&list(&result.columns), &result.results);
        return Ok(Some(JsonOrCsv::CsvPage(csv::lines(&rows), Link(next))));
    }
    Ok(Some(JsonOrCsv::Json(Selected {
        columns: list(&result.columns),
        types: list(&result.types),
        results: result.results.clone(),
        has_more,
        next,
    })))
}
