//! Live events: a server-sent event stream of events as they are ingested.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use query::{LiveFilter, LiveSubscription, LiveUpdate};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::Events;
use crate::http::openapi::{DescribeResponse, Operation};
use crate::http::path::given;
use crate::{App, Query, Reader, Result};

/// A stream ends after this long. Browsers reconnect by themselves, which checks their
/// credentials again.
pub(super) const STREAM_SECONDS_MAX: u64 = 600;
/// Shorter than the idle timeouts of common proxies.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize, JsonSchema)]
pub(super) struct LiveQuery {
    event: Option<String>,
    distinct_id: Option<String>,
}

pub(super) struct Stream(LiveSubscription);

pub(super) async fn watch(
    caller: Reader<Events>,
    query: Query<LiveQuery>,
    app: App,
) -> Result<Stream> {
    let text = |text: &Option<String>| given(text.as_ref()).map(str::to_owned);
    let filter = LiveFilter {
        project: caller.project.id,
        event: text(&query.event),
        distinct_id: text(&query.distinct_id),
    };
    Ok(Stream(app.events.subscribe(filter)?))
}

impl IntoResponse for Stream {
    fn into_response(self) -> Response {
        let end = Instant::now() + Duration::from_secs(STREAM_SECONDS_MAX);
        // Send a comment at once, so that the client knows that it is subscribed.
        let subscribed = stream::once(async { Ok(sse::Event::default().comment("watching")) });
        let update = stream::unfold(self.0, move |mut watch| async move {
            let update = timeout_at(end, watch.next()).await.ok()??;
            Some((stream::iter(lines(update)), watch))
        });
        let all = stream::StreamExt::chain(subscribed, stream::StreamExt::flatten(update));
        Sse::new(all).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
    }
}

impl DescribeResponse for Stream {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.response_of(200, "text/event-stream");
    }
}

/// `event` carries an event as the list shows it; `missed` the number of events dropped because
/// the client reads too slowly.
fn lines(update: LiveUpdate) -> Vec<std::result::Result<sse::Event, Infallible>> {
    let line = |kind: &str, data: String| Ok(sse::Event::default().event(kind).data(data));
    match update {
        LiveUpdate::Missed(count) => vec![line("missed", format!("{{\"count\":{count}}}"))],
        LiveUpdate::Events(events) => {
            let json = events.iter().filter_map(|event| serde_json::to_string(event).ok());
            json.map(|json| line("event", json)).collect()
        }
    }
}
