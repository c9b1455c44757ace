//! Decodes arbitrary bytes with arbitrary headers: never panics, and accepts a body if and only if
//! serde_json does.

#![no_main]

use std::collections::HashMap;

use decode::{
    DefaultEventName, Element, Parts, Strictness, V1Encoding, decode_text, decode_v1_text,
    parse_events, parse_v1,
};
use libfuzzer_sys::fuzz_target;
use model::event::RawProperties;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

const BYTES_MAX: usize = 64 * 1024;
const QUERIES: [&str; 4] = ["", "compression=lz64", "compression=gzip-js&_=1767323046000", "data="];
const TYPES: [Option<&str>; 3] =
    [None, Some("text/plain"), Some("application/x-www-form-urlencoded")];
const ENCODINGS: [Option<&str>; 5] =
    [None, Some("gzip"), Some("deflate"), Some("br"), Some("zstd")];

fuzz_target!(|data: &[u8]| {
    let Some(([hints, v1], body)) = data.split_first_chunk() else { return };
    let hints = usize::from(*hints);
    let in_query;
    let mut parts = Parts {
        query: QUERIES[hints % QUERIES.len()],
        content_type: TYPES[hints / 4 % TYPES.len()],
        content_encoding: ENCODINGS[hints / 12 % ENCODINGS.len()],
        body,
    };
    if parts.query == "data=" {
        in_query = format!("data={}", String::from_utf8_lossy(body));
        parts.query = &in_query;
    }
    for strictness in [Strictness::Strict, Strictness::Lenient] {
        let Ok(text) = decode_text(&parts, strictness, BYTES_MAX) else { continue };
        let Ok(payload) = parse_events(&text, DefaultEventName::None) else { continue };
        let elements: Result<Vec<_>, _> = payload.elements().collect();
        let valid = serde_json::from_str::<IgnoredAny>(text.as_str()).is_ok();
        assert_eq!(elements.is_ok(), valid);
        for element in elements.into_iter().flatten() {
            let Element::Event(event) = element else { continue };
            if let RawProperties::Object(json) = event.properties {
                let members: HashMap<String, &RawValue> =
                    serde_json::from_str(json).expect("properties are an object");
                for value in members.values().filter(|value| value.get().starts_with('"')) {
                    let text: String = serde_json::from_str(value.get()).expect("a string");
                    assert!(!text.contains('\0'));
                }
            }
        }
    }
    let encoding = V1Encoding::of(ENCODINGS[usize::from(*v1) % ENCODINGS.len()]);
    if let Some(encoding) = encoding
        && let Ok(text) = decode_v1_text(body, encoding, BYTES_MAX)
        && let Ok(batch) = parse_v1(&text)
    {
        batch.events().for_each(drop);
    }
});
