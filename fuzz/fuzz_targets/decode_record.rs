//! Any bytes as a record: no panic, and what decodes survives another round.

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
