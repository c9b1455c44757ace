#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod codecs;
mod encoders;
mod malicious_bodies;
mod recordings;
mod shapes;

use decode::{
    DefaultEventName, Element, Error, JsonText, Parts, Strictness, decode_text, parse_events,
};
use model::event::RawEvent;

pub const BYTES_MAX: usize = 20 * 1_024 * 1_024;

pub fn text<'a>(parts: &Parts<'a>) -> Result<JsonText<'a>, Error> {
    decode_text(parts, Strictness::Strict, BYTES_MAX)
}

pub fn plain(body: &str) -> Parts<'_> {
    Parts { body: body.as_bytes(), ..Parts::default() }
}

/// All elements of a body, or the first error.
pub fn elements(text: &JsonText<'_>) -> Result<Vec<Element<'static>>, Error> {
    parse_events(text, DefaultEventName::None)?
        .elements()
        .map(|element| element.map(owned))
        .collect()
}

fn owned(element: Element<'_>) -> Element<'static> {
    match element {
        Element::NotAnObject => Element::NotAnObject,
        Element::Event(event) => Element::Event(RawEvent {
            token: event.token.map(|text| text.into_owned().into()),
            name: event.name.map(|text| text.into_owned().into()),
            distinct_id: event.distinct_id.map(|text| text.into_owned().into()),
            uuid: event.uuid,
            offset_ms: event.offset_ms,
            bytes: event.bytes,
            ..RawEvent::default()
        }),
    }
}
