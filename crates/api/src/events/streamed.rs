//! Responses that list events: buffered if short, streamed in chunks if long.
//!
//! A failure before the first byte becomes an error response. A later one aborts the connection
//! before the closing bytes, so that no client takes a truncated list for a complete one.

use std::collections::BTreeSet;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use query::{Event, EventBatches};
use schemars::SchemaGenerator;

use super::{EventListing, EventsResponse, selected::Selected};
use crate::http::csv::{self, Cells, Format, JsonOrCsv, Link};
use crate::http::openapi::{DescribeResponse, Operation};
use crate::{Error, Result};

/// A response up to this size is buffered and has a `Content-Length`.
const BUFFERED_BYTES_MAX: usize = 1 << 20;

pub(super) enum ListResponse {
    Events(Response),
    Selected(JsonOrCsv<Selected>),
}

impl IntoResponse for ListResponse {
    fn into_response(self) -> Response {
        match self {
            Self::Events(response) => response,
            Self::Selected(shown) => shown.into_response(),
        }
    }
}

impl DescribeResponse for ListResponse {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        <JsonOrCsv<EventsResponse> as DescribeResponse>::describe_response(operation, schemas);
    }
}

/// Serializes events one by one.
enum Writer {
    Json { first: bool },
    Csv { columns: BTreeSet<String> },
}

impl Writer {
    fn event(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Json { first } => {
                if !std::mem::take(first) {
                    out.push(b',');
                }
                serde_json::to_writer(out, event).map_err(|_| serialize_error())
            }
            Self::Csv { columns } => {
                let cells = cells(event);
                let row = columns.iter().map(|name| cells.get(name).map_or("", String::as_str));
                let mut line = String::new();
                csv::line(&mut line, row);
                out.extend_from_slice(line.as_bytes());
                Ok(())
            }
        }
    }

    const fn end(&self) -> &'static [u8] {
        match self {
            Self::Json { .. } => b"]}",
            Self::Csv { .. } => b"",
        }
    }
}

fn serialize_error() -> Error {
    query::Error::Internal("an event cannot be written".into()).into()
}

/// A list that is being sent.
struct StreamedList {
    batches: EventBatches,
    writer: Writer,
}

impl StreamedList {
    /// The bytes of the next batch, or the closing bytes, and the rest of the list.
    async fn step(mut self) -> Result<(Vec<u8>, Option<Self>)> {
        let Some(events) = self.batches.batch().await? else {
            return Ok((self.writer.end().to_vec(), None));
        };
        let mut out = Vec::new();
        events.iter().try_for_each(|event| self.writer.event(event, &mut out))?;
        Ok((out, Some(self)))
    }
}

/// `next` is the link to the next page.
pub(super) async fn respond(
    batches: EventBatches,
    format: Format,
    next: Option<String>,
) -> Result<Response> {
    let (batches, writer, mut out) = match format {
        Format::Json => {
            // The envelope up to the position of the events.
            let none = EventListing::<[Event; 0]> { next: next.clone(), results: [] };
            let envelope = serde_json::to_string(&none).map_err(|_| serialize_error())?;
            let head = envelope.strip_suffix("]}").ok_or_else(serialize_error)?;
            (batches, Writer::Json { first: true }, head.as_bytes().to_vec())
        }
        Format::Csv => {
            let (batches, columns) = columns(batches).await?;
            let mut head = String::new();
            csv::line(&mut head, columns.iter().map(String::as_str));
            (batches, Writer::Csv { columns }, head.into_bytes())
        }
    };
    let mut left = Some(StreamedList { batches, writer });
    // The batch that exceeds the buffer; it is sent without being copied there.
    let mut long = None;
    while let Some(list) = left.take_if(|_| long.is_none()) {
        let (more, rest) = list.step().await?;
        if rest.is_some() && out.len() + more.len() >= BUFFERED_BYTES_MAX {
            long = Some(more);
        } else {
            out.extend(more);
        }
        left = rest;
    }
    let body = match left {
        None => Body::from(out),
        Some(list) => {
            let first = std::iter::once(out).chain(long).collect();
            Body::from_stream(chunks(first, list, StreamedList::step))
        }
    };
    let mut response = body.into_response();
    let kind = match format {
        Format::Json => "application/json",
        Format::Csv => csv::CONTENT_TYPE,
    };
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    if format == Format::Csv {
        Link(next).put(response.headers_mut());
    }
    Ok(response)
}

/// Yields `first`, then the chunks of `step` until it ends or fails.
fn chunks<S, F>(
    first: Vec<Vec<u8>>,
    left: S,
    step: impl Fn(S) -> F + Clone,
) -> impl Stream<Item = std::result::Result<Bytes, Aborted>>
where
    F: Future<Output = Result<(Vec<u8>, Option<S>)>>,
{
    let rest = stream::unfold(Some(left), move |left| {
        let step = step.clone();
        async move {
            match step(left?).await {
                Ok((chunk, left)) => Some((Ok(Bytes::from(chunk)), left)),
                Err(error) => {
                    let status = error.into_response().status().as_u16();
                    tracing::warn!(http.status = status, "aborted a streamed list of events");
                    Some((Err(Aborted), None))
                }
            }
        }
    });
    stream::iter(first).map(|chunk| Ok(Bytes::from(chunk))).chain(rest)
}

/// Aborts the connection before the response is complete.
#[derive(Debug, thiserror::Error)]
#[error("the list could not be read to its end")]
struct Aborted;

/// The union of all events' columns, which takes an extra pass.
async fn columns(mut batches: EventBatches) -> Result<(EventBatches, BTreeSet<String>)> {
    let mut columns = BTreeSet::new();
    while let Some(events) = batches.batch().await? {
        for event in &events {
            for name in cells(event).into_keys() {
                if !columns.contains(&name) {
                    columns.insert(name);
                }
            }
            csv::check_columns(columns.len())?;
        }
    }
    batches.rewind();
    Ok((batches, columns))
}

pub(super) fn cells(event: &Event) -> Cells {
    let mut cells = Cells::from([
        ("id".into(), event.id.to_string()),
        ("distinct_id".into(), event.distinct_id.clone()),
        ("event".into(), event.event.clone()),
        ("timestamp".into(), event.timestamp.clone()),
        ("elements_chain".into(), event.elements_chain.clone()),
    ]);
    for (name, value) in &event.properties {
        csv::spread_raw(&format!("properties.{name}"), value, &mut cells);
    }
    let mut nested = |name: &str, value: serde_json::Result<serde_json::Value>| {
        if let Ok(value) = value {
            csv::spread(name, &value, &mut cells);
        }
    };
    nested("person", serde_json::to_value(&event.person));
    nested("elements", serde_json::to_value(&event.elements));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects a stream of three steps, of which one may fail.
    async fn sent(fails_at: Option<u8>) -> (Vec<u8>, bool) {
        let step = |number: u8| async move {
            match number {
                _ if fails_at == Some(number) => Err(Error::unavailable("gone")),
                3 => Ok((b"]}".to_vec(), None)),
                number => Ok((format!(",{number}").into_bytes(), Some(number + 1))),
            }
        };
        let stream = chunks(vec![b"{\"results\":".to_vec(), b"[0".to_vec()], 1, step);
        let (mut body, mut whole) = (Vec::new(), true);
        for item in stream.collect::<Vec<_>>().await {
            assert!(whole, "nothing follows a failure");
            match item {
                Ok(bytes) => body.extend(bytes),
                Err(Aborted) => whole = false,
            }
        }
        (body, whole)
    }

    #[tokio::test]
    async fn streamed_list_that_fails_is_aborted_and_never_valid_json() {
        let (body, whole) = sent(None).await;
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((read, whole), (serde_json::json!({ "results": [0, 1, 2] }), true));
        for at in 1..=3 {
            let (body, whole) = sent(Some(at)).await;
            assert!(!whole, "the connection is aborted");
            assert!(serde_json::from_slice::<serde_json::Value>(&body).is_err());
        }
    }
}
