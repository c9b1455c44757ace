//! GeoIP lookups in databases of both schemas, which the tests build.

#![expect(clippy::unwrap_used, reason = "also in what tests share")]

mod writer;

use std::net::IpAddr;
use std::sync::Arc;
use std::{fs, path::Path};

use geoip::GeoIp;
use serde_json::{Value, json};
use writer::database;

/// A record of a city database; the server's tests use the same file.
fn city() -> Value {
    json!({
        "city": { "names": { "en": "Linköping", "de": "Linköping" } },
        "continent": { "code": "EU", "names": { "en": "Europe" } },
        "country": { "iso_code": "SE", "names": { "en": "Sweden" } },
        "location": { "latitude": 58.4167, "longitude": 15.6167, "accuracy_radius": 76,
            "time_zone": "Europe/Stockholm" },
        "postal": { "code": "58227" },
        "subdivisions": [{ "iso_code": "E", "names": { "en": "Östergötland County" } }],
    })
}

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/geoip/cities.mmdb");

fn found(geoip: &GeoIp, ip: &str) -> Option<Value> {
    let location = geoip.lookup(ip.parse::<IpAddr>().unwrap())?;
    Some(location.properties().map(|(name, value)| (name.to_owned(), value.clone())).collect())
}

#[test]
fn city_database_yields_all_properties() {
    let built = database(&[("89.160.20.0", 24, city())]);
    assert_eq!(fs::read(FIXTURE).unwrap(), built, "the fixture is built by this test");
    let geoip = GeoIp::open(Path::new(FIXTURE)).unwrap();
    let expected = json!({
        "$geoip_city_name": "Linköping",
        "$geoip_country_name": "Sweden",
        "$geoip_country_code": "SE",
        "$geoip_continent_name": "Europe",
        "$geoip_continent_code": "EU",
        "$geoip_postal_code": "58227",
        "$geoip_latitude": 58.4167,
        "$geoip_longitude": 15.6167,
        "$geoip_accuracy_radius": 76,
        "$geoip_time_zone": "Europe/Stockholm",
        "$geoip_subdivision_1_code": "E",
        "$geoip_subdivision_1_name": "Östergötland County",
    });
    assert_eq!(found(&geoip, "89.160.20.129"), Some(expected.clone()));
    assert_eq!(found(&geoip, "::ffff:89.160.20.129"), Some(expected));
    assert_eq!(found(&geoip, "89.160.21.1"), None);
}

#[test]
fn flat_country_database_is_completed_with_names_and_continents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("countries.mmdb");
    let networks = [
        ("8.8.8.0", 24, json!({ "country_code": "US" })),
        ("10.0.0.0", 8, json!({ "country_code": "US" })),
    ];
    fs::write(&path, database(&networks)).unwrap();
    let geoip = GeoIp::open(&path).unwrap();
    let expected = json!({
        "$geoip_country_name": "United States",
        "$geoip_country_code": "US",
        "$geoip_continent_name": "North America",
        "$geoip_continent_code": "NA",
    });
    assert_eq!(found(&geoip, "8.8.8.8"), Some(expected));
    assert_eq!(found(&geoip, "10.0.0.1"), None, "private");
}

#[test]
fn addresses_of_one_record_share_a_cached_location() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("countries.mmdb");
    let of = |code: &str| json!({ "country_code": code });
    let networks = [("8.8.8.0", 24, of("US")), ("9.9.9.0", 24, of("CH"))];
    fs::write(&path, database(&networks)).unwrap();
    let geoip = GeoIp::open(&path).unwrap();
    let location = |ip: &str| geoip.lookup(ip.parse().unwrap()).unwrap();
    assert!(Arc::ptr_eq(&location("8.8.8.8"), &location("8.8.8.9")));
    assert_eq!(found(&geoip, "9.9.9.9").unwrap()["$geoip_country_code"], "CH");
}

#[test]
fn replaced_file_is_reloaded_and_a_corrupted_one_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("places.mmdb");
    let country = |code: &str| database(&[("8.8.8.0", 24, json!({ "country_code": code }))]);
    let code = |geoip: &GeoIp| found(geoip, "8.8.8.8").unwrap()["$geoip_country_code"].clone();
    fs::write(&path, country("US")).unwrap();
    let geoip = GeoIp::open(&path).unwrap();
    assert!(!geoip.reload_if_changed().unwrap());
    fs::write(&path, "not a database").unwrap();
    geoip.reload_if_changed().unwrap_err();
    assert_eq!(code(&geoip), "US");
    let next = folder.path().join("next");
    fs::write(&next, [country("SE"), vec![0]].concat()).unwrap();
    fs::rename(&next, &path).unwrap();
    assert!(geoip.reload_if_changed().unwrap());
    assert_eq!(code(&geoip), "SE");
    let missing = GeoIp::open(&folder.path().join("none")).err().unwrap();
    assert!(missing.to_string().contains("none"), "{missing}");
}

#[test]
fn disabled_geoip_finds_nothing() {
    assert!(!GeoIp::disabled().is_enabled());
    assert_eq!(found(&GeoIp::disabled(), "8.8.8.8"), None);
}
