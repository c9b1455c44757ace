//! GeoIP properties of events and persons.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    geoip_properties_come_from_the_client_address,
    anonymize_ips_keeps_geoip_properties,
}

const CITIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/geoip/cities.mmdb");
const SWEDEN: &str = "89.160.20.129";

fn event(id: &str, properties: Value) -> Value {
    json!({ "event": "e", "distinct_id": id, "properties": properties })
}

/// The properties of the single event of a distinct id.
fn stored(server: &Server, id: &str) -> Value {
    let events = server.get(&format!("/api/projects/1/events/?distinct_id={id}")).expect(200);
    events.json()["results"][0]["properties"].clone()
}

fn person(server: &Server, id: &str) -> Value {
    let found = server.get(&format!("/api/projects/1/persons/?distinct_id={id}")).expect(200);
    found.json()["results"][0]["properties"].clone()
}

// contract: ingestion 129-132
fn geoip_properties_come_from_the_client_address(store: Store) {
    let server = store.start_with(&[("HEDGEROW_GEOIP_DB", CITIES)]);
    server.ingest(&[
        event("swede", json!({ "$ip": SWEDEN })),
        event("disabled", json!({ "$ip": SWEDEN, "$geoip_disable": true })),
        event("private", json!({ "$ip": "10.0.0.1" })),
    ]);
    for properties in [stored(&server, "swede"), person(&server, "swede")] {
        assert_eq!(properties["$geoip_country_code"], "SE", "{properties}");
        assert_eq!(properties["$geoip_country_name"], "Sweden");
        assert_eq!(properties["$geoip_continent_code"], "EU");
    }
    assert_eq!(person(&server, "swede")["$initial_geoip_country_code"], "SE");
    for id in ["disabled", "private"] {
        for properties in [stored(&server, id), person(&server, id)] {
            let names = properties.as_object().unwrap().keys();
            let places = names.filter(|name| name.contains("geoip_") && *name != "$geoip_disable");
            assert_eq!(places.count(), 0, "{id}: {properties}");
        }
    }
    assert_eq!(stored(&server, "disabled")["$geoip_disable"], true);
    assert_eq!(stored(&server, "private")["$ip"], "10.0.0.1");
}

// contract: ingestion 133
fn anonymize_ips_keeps_geoip_properties(store: Store) {
    let server = store.start_with(&[("HEDGEROW_GEOIP_DB", CITIES)]);
    server.patch("/api/projects/1/", json!({ "anonymize_ips": true })).expect(200);
    server.ingest(&[event("swede", json!({ "$ip": SWEDEN }))]);
    let properties = stored(&server, "swede");
    assert!(properties.get("$ip").is_none(), "{properties}");
    assert_eq!(properties["$geoip_country_code"], "SE");
}
