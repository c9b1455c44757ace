//! The pulse: a server-sent event stream that says which events were ingested and whether flags may
//! have changed, so that clients know when to compute again.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use query::{Pulse, PulseSubscription};
use schemars::SchemaGenerator;
use tokio::time::{Instant, timeout_at};

use super::Events;
use super::live::{KEEP_ALIVE, STREAM_SECONDS_MAX};
use crate::http::openapi::{DescribeResponse, Operation};
use crate::{App, Reader, Result};

pub(super) struct Stream(PulseSubscription);

pub(super) async fn follow(caller: Reader<Events>, app: App) -> Result<Stream> {
    Ok(Stream(app.events.subscribe_pulse(caller.project.id)?))
}

impl IntoResponse for Stream {
    fn into_response(self) -> Response {
        let end = Instant::now() + Duration::from_secs(STREAM_SECONDS_MAX);
        // Send a comment at once, so that the client knows that it is subscribed.
        let subscribed = stream::once(async { Ok(sse::Event::default().comment("watching")) });
        let pulses = stream::unfold(self.0, move |mut subscription| async move {
            let pulse = timeout_at(end, subscription.next()).await.ok()??;
            Some((line(&pulse), subscription))
        });
        Sse::new(subscribed.chain(pulses))
            .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
            .into_response()
    }
}

impl DescribeResponse for Stream {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.event_stream::<Pulse>(schemas);
    }
}

fn line(pulse: &Pulse) -> std::result::Result<sse::Event, Infallible> {
    let json = serde_json::to_string(pulse).expect("a pulse has only text and numbers");
    Ok(sse::Event::default().data(json))
}
