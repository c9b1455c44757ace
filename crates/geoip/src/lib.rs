//! An address becomes the place it is used from.
//!
//! It reads MaxMind's file format with two schemas of record: MaxMind's own nested one, and the
//! flat one of the free country files (`{"country_code":"US"}`). Without a file it finds nothing.

mod countries;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use maxminddb::Reader;
use serde::Deserialize;
use serde_json::Value;

/// Cheap to clone; shared by capture's pipeline and flag evaluation.
#[derive(Clone, Default)]
pub struct GeoIp(Option<Arc<Reader<Vec<u8>>>>);

#[derive(Debug, thiserror::Error)]
#[error("the GeoIP database {path} cannot be read")]
pub struct Error {
    path: String,
    #[source]
    cause: maxminddb::MaxMindDbError,
}

/// Where an address is used. Names follow the event properties they become.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place(Vec<(&'static str, Option<Value>)>);

impl Place {
    /// What is known.
    pub fn properties(&self) -> impl Iterator<Item = (&'static str, Value)> {
        self.0.iter().filter_map(|(name, value)| Some((*name, value.clone()?)))
    }

    /// Every standard name, with none for what is not known.
    pub fn all_properties(&self) -> impl Iterator<Item = (&'static str, Option<Value>)> {
        self.0.iter().cloned()
    }
}

impl GeoIp {
    /// Finds nothing, ever.
    pub const fn off() -> Self {
        Self(None)
    }

    pub fn open(path: &Path) -> Result<Self, Error> {
        Reader::open_readfile(path)
            .map(|reader| Self(Some(Arc::new(reader))))
            .map_err(|cause| Error { path: path.display().to_string(), cause })
    }

    /// A database that was built into the program.
    pub fn embedded(bytes: &[u8]) -> Result<Self, Error> {
        Reader::from_source(bytes.to_vec())
            .map(|reader| Self(Some(Arc::new(reader))))
            .map_err(|cause| Error { path: "(built in)".into(), cause })
    }

    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// None for addresses that mean no place: private, local, documentation.
    pub fn look_up(&self, ip: IpAddr) -> Option<Place> {
        let reader = self.0.as_ref()?;
        let ip = ip.to_canonical();
        if !is_public(ip) {
            return None;
        }
        let record: Record = reader.lookup(ip).ok()?.decode().ok()??;
        record.place()
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    let carrier_grade_nat = first == 100 && (64..128).contains(&second);
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_unspecified()
        || ip.is_broadcast()
        || carrier_grade_nat)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let documentation = ip.segments()[..2] == [0x2001, 0xdb8];
    !(ip.is_loopback()
        || ip.is_unspecified()
        || ip.is_unique_local()
        || ip.is_unicast_link_local()
        || documentation)
}

/// Either schema: fields of the other one stay empty.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Record {
    country_code: Option<String>,
    city: Option<Named>,
    continent: Option<Named>,
    country: Option<Named>,
    location: Option<Location>,
    postal: Option<Postal>,
    subdivisions: Vec<Named>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    code: Option<String>,
    iso_code: Option<String>,
    confidence: Option<u16>,
    names: Names,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Names {
    en: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Location {
    latitude: Option<f64>,
    longitude: Option<f64>,
    accuracy_radius: Option<u16>,
    time_zone: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Postal {
    code: Option<String>,
}

impl Record {
    fn place(self) -> Option<Place> {
        let city = self.city.unwrap_or_default();
        let country = self.country.unwrap_or_default();
        let continent = self.continent.unwrap_or_default();
        let location = self.location.unwrap_or_default();
        let code = country.iso_code.or(self.country_code)?;
        let known = countries::find(&code);
        let text = |text: Option<String>| text.map(Value::from);
        let region = |index: usize| self.subdivisions.get(index);
        let region_code = |index| text(region(index).and_then(|named| named.iso_code.clone()));
        let region_name = |index| text(region(index).and_then(|named| named.names.en.clone()));
        let mut properties = vec![
            ("$geoip_city_name", text(city.names.en)),
            ("$geoip_city_confidence", city.confidence.map(Value::from)),
            (
                "$geoip_country_name",
                text(country.names.en).or_else(|| known.map(|known| known.name.into())),
            ),
            ("$geoip_country_code", Some(code.into())),
            (
                "$geoip_continent_name",
                text(continent.names.en)
                    .or_else(|| known.map(|known| known.continent_name().into())),
            ),
            (
                "$geoip_continent_code",
                text(continent.code).or_else(|| known.map(|known| known.continent.into())),
            ),
            ("$geoip_postal_code", text(self.postal.and_then(|postal| postal.code))),
            ("$geoip_latitude", location.latitude.map(Value::from)),
            ("$geoip_longitude", location.longitude.map(Value::from)),
            ("$geoip_accuracy_radius", location.accuracy_radius.map(Value::from)),
            ("$geoip_time_zone", text(location.time_zone)),
            ("$geoip_subdivision_1_code", region_code(0)),
            ("$geoip_subdivision_1_name", region_name(0)),
            ("$geoip_subdivision_2_code", region_code(1)),
            ("$geoip_subdivision_2_name", region_name(1)),
        ];
        if self.subdivisions.len() > 2 {
            properties.push(("$geoip_subdivision_3_code", region_code(2)));
            properties.push(("$geoip_subdivision_3_name", region_name(2)));
        }
        Some(Place(properties))
    }
}
