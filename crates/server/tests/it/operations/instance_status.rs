//! The status of the instance, for its staff and for everybody.

use serde_json::json;

use crate::harness::{Store, on_both_stores};

on_both_stores! {
    staff_see_the_instance_and_members_only_whether_events_are_late,
}

const STATUS: &str = "/api/instance_status/";
const INGESTION: &str = "/api/projects/1/ingestion_status/";

fn staff_see_the_instance_and_members_only_whether_events_are_late(store: Store) {
    let server = store.start_with(&[("HEDGEROW_JOURNAL_DISK_BYTES_MAX", "5 GiB")]);
    server.ingest(&[json!({ "event": "e", "distinct_id": "u" })]);
    let shown = server.get(STATUS).expect(200).json();
    for (pointer, expected) in [
        ("/journal/disk_bytes_max", json!(5_u64 << 30)),
        ("/journal/refusal", json!(null)),
        ("/lag/records", json!(0)),
        ("/events/events", json!(1)),
        ("/capture/accepted", json!(1)),
        ("/dead_letters/waiting", json!(0)),
        ("/disk/growth_bytes_per_day", json!(null)),
    ] {
        assert_eq!(shown.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert!(shown["disk"]["free_bytes"].as_u64().unwrap() > 0);
    assert!(shown["memory"]["resident_bytes"].as_u64().unwrap() > 0);
    let setting = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["key"] == key).unwrap()
    };
    let bound = setting("journal_disk_bytes_max");
    assert_eq!(
        (&bound["value"], &bound["origin"]),
        (&json!("5 GiB"), &json!("HEDGEROW_JOURNAL_DISK_BYTES_MAX"))
    );
    assert_eq!(setting("personal_api_key")["value"], "(hidden)");

    let told = server.get(INGESTION).expect(200).json();
    assert_eq!((&told["status"], &told["detail"]), (&json!("ok"), &json!(null)));
    assert!(told["problems"].is_array());
    server.instance().write("UPDATE users SET is_staff = FALSE");
    server.get(STATUS).expect(403);
    let told = server.get(INGESTION).expect(200).json();
    assert_eq!((&told["status"], &told["problems"]), (&json!("ok"), &json!(null)));
}
