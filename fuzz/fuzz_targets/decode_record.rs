//! Decodes arbitrary bytes as a journal record: never panics, and a decoded record round-trips.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::event::AcceptedEvent;

fuzz_target!(|record: &[u8]| {
    if let Ok(event) = AcceptedEvent::decode(record) {
        let mut again = Vec::new();
        event.encode(&mut again);
        assert_eq!(AcceptedEvent::decode(&again), Ok(event));
    }
});
