//! Values of a property, for autocompletion of filters.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use query::{ValuesKey, ValuesRequest, Zone};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Events;
use crate::http::csv::{self, Cells, Format, JsonOrCsv};
use crate::http::openapi::{DescribeResponse, Operation};
use crate::http::path::given;
use crate::{App, Error, Query, Reader, RequestUrl, Result};

/// Values of `event_name`, and parameters `properties_*`, in one request.
const NAMES_MAX: usize = 100;

#[derive(Deserialize, JsonSchema)]
pub(super) struct ValuesQuery {
    /// A property, or `custom_event` for the names of custom events.
    key: Option<String>,
    /// Only values that contain this string.
    value: Option<String>,
    /// May be repeated. Required with a personal API key.
    #[allow(dead_code, reason = "read with its repetitions; here it is documented")]
    event_name: Option<String>,
    /// Whether the key is a column: `event` or `distinct_id`.
    is_column: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ValueListing {
    results: Vec<Named>,
    /// Always false: values are computed on request.
    refreshing: bool,
}

#[derive(Serialize, JsonSchema)]
struct Named {
    name: String,
}

/// Cacheable for 10 s: values change slowly, and autocompletion requests them often.
pub(super) struct BrieflyCached(JsonOrCsv<ValueListing>);

impl IntoResponse for BrieflyCached {
    fn into_response(self) -> Response {
        ([(header::CACHE_CONTROL, "max-age=10")], self.0).into_response()
    }
}

impl DescribeResponse for BrieflyCached {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        JsonOrCsv::<ValueListing>::describe_response(operation, schemas);
    }
}

pub(super) async fn list(
    caller: Reader<Events>,
    url: RequestUrl,
    query: Query<ValuesQuery>,
    format: Format,
    app: App,
) -> Result<BrieflyCached> {
    let Some(key) = given(query.key.as_ref()) else {
        return Err(Error::bad_request("You must provide a key"));
    };
    let events: Vec<&str> = url.values("event_name").filter(|name| !name.is_empty()).collect();
    if events.is_empty() && caller.by_key {
        return Err(Error::bad_request("You must provide an event_name with a personal API key"));
    }
    let equal: Vec<(String, Value)> = url.prefixed("properties_").map(equal).collect();
    if events.len() > NAMES_MAX || equal.len() > NAMES_MAX {
        return Err(Error::bad_request(format!("No more than {NAMES_MAX} names may be given.")));
    }
    let is_column = matches!(given(query.is_column.as_ref()), Some("true" | "True" | "1"));
    let request = ValuesRequest {
        key: key_of(key, is_column)?,
        containing: given(query.value.as_ref()).map(str::to_owned),
        events: events.into_iter().map(str::to_owned).collect(),
        equal,
    };
    let zone = Zone::named(&caller.project.timezone);
    let names = app.events.values(caller.project.id, request, &zone).await?;
    Ok(BrieflyCached(match format {
        Format::Json => {
            let results = names.into_iter().map(|name| Named { name }).collect();
            JsonOrCsv::Json(ValueListing { results, refreshing: false })
        }
        Format::Csv => {
            let row = |name: String| Cells::from([("name".to_owned(), name)]);
            JsonOrCsv::Csv(csv::table(&names.into_iter().map(row).collect::<Vec<_>>())?)
        }
    }))
}

fn key_of(key: &str, is_column: bool) -> Result<ValuesKey> {
    match (key, is_column) {
        ("custom_event", false) => Ok(ValuesKey::CustomEvents),
        (name, false) => Ok(ValuesKey::Property(name.to_owned())),
        ("event", true) => Ok(ValuesKey::Event),
        ("distinct_id", true) => Ok(ValuesKey::DistinctId),
        (_, true) => {
            let detail = "Columns with values are \"event\" and \"distinct_id\".";
            Err(Error::invalid("key", "invalid_choice", detail))
        }
    }
}

/// A property and the value it must equal: JSON, or else a string.
fn equal((name, text): (&str, &str)) -> (String, Value) {
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    (name.to_owned(), value)
}
