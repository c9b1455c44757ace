//! Databases of both schemas, made here byte by byte.

#![expect(clippy::unwrap_used, reason = "also in what tests share")]

mod writer;

use std::net::IpAddr;
use std::sync::Arc;
use std::{fs, path::Path};

use geoip::GeoIp;
use serde_json::{Value, json};
use writer::database;

/// What a database of cities knows; the server's tests use the same file.
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
    let place = geoip.look_up(ip.parse::<IpAddr>().unwrap())?;
    Some(place.properties().map(|(name, value)| (name.to_owned(), value.clone())).collect())
}

#[test]
fn a_database_of_cities_tells_all_it_knows() {
    let made = database(&[("89.160.20.0", 24, city())]);
    assert_eq!(fs::read(FIXTURE).unwrap(), made, "the fixture is made by this test");
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
fn a_flat_database_of_countries_is_completed() {
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
fn addresses_of_one_record_share_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("countries.mmdb");
    let of = |code: &str| json!({ "country_code": code });
    let networks = [("8.8.8.0", 24, of("US")), ("9.9.9.0", 24, of("CH"))];
    fs::write(&path, database(&networks)).unwrap();
    let geoip = GeoIp::open(&path).unwrap();
    let place = |ip: &str| geoip.look_up(ip.parse().unwrap()).unwrap();
    assert!(Arc::ptr_eq(&place("8.8.8.8"), &place("8.8.8.9")));
    assert_eq!(found(&geoip, "9.9.9.9").unwrap()["$geoip_country_code"], "CH");
}

#[test]
fn a_replaced_file_is_read_and_a_broken_one_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("places.mmdb");
    let country = |code: &str| database(&[("8.8.8.0", 24, json!({ "country_code": code }))]);
    let code = |geoip: &GeoIp| found(geoip, "8.8.8.8").unwrap()["$geoip_country_code"].clone();
    fs::write(&path, country("US")).unwrap();
    let geoip = GeoIp::open(&path).unwrap();
    assert!(!geoip.refresh().unwrap());
    fs::write(&path, "not a database").unwrap();
    geoip.refresh().unwrap_err();
    assert_eq!(code(&geoip), "US");
    let next = folder.path().join("next");
    fs::write(&next, [country("SE"), vec![0]].concat()).unwrap();
    fs::rename(&next, &path).unwrap();
    assert!(geoip.refresh().unwrap());
    assert_eq!(code(&geoip), "SE");
    let missing = GeoIp::open(&folder.path().join("none")).err().unwrap();
    assert!(missing.to_string().contains("none"), "{missing}");
}

#[test]
fn without_a_database_nothing_is_found() {
    assert!(!GeoIp::off().is_on());
    assert_eq!(found(&GeoIp::off(), "8.8.8.8"), None);
}
