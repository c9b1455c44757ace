//! GeoIP: looks up the location of an IP address.
//!
//! Reads MaxMind DB files with either of two record schemas: MaxMind's nested one, and the flat one
//! of the free country files (`{"country_code":"US"}`). A country file is embedded if
//! `tools/fetch-assets` downloaded it before the build. Without a file every lookup finds nothing.

mod countries;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;
use std::{fs, io};

use maxminddb::Reader;
use quick_cache::sync::Cache;
use serde::Deserialize;
use serde_json::Value;

include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// Limit of the file size; a city database has some 70 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Cached addresses: active visitors send more events soon.
const CACHED_ADDRESSES_MAX: usize = 16_384;
/// Cached locations: many addresses share one.
const CACHED_LOCATIONS_MAX: usize = 4_096;

/// Cheap to clone; the pipeline and flag evaluation share it.
#[derive(Clone, Default)]
pub struct GeoIp(Arc<Shared>);

/// An open database with caches of recent lookups.
struct Database {
    reader: Reader<Cow<'static, [u8]>>,
    /// Record offsets by address.
    offsets: Cache<IpAddr, Option<usize>>,
    /// Decoded locations by record offset.
    locations: Cache<usize, Option<Arc<Location>>>,
}

impl Database {
    fn new(bytes: Cow<'static, [u8]>) -> Result<Self, maxminddb::MaxMindDbError> {
        let reader = Reader::from_source(bytes)?;
        let (offsets, locations) =
            (Cache::new(CACHED_ADDRESSES_MAX), Cache::new(CACHED_LOCATIONS_MAX));
        Ok(Self { reader, offsets, locations })
    }

    fn lookup(&self, ip: IpAddr) -> Option<Arc<Location>> {
        let offset = match self.offsets.get(&ip) {
            Some(cached) => cached,
            None => {
                let offset = self.reader.lookup(ip).ok().and_then(|result| result.offset());
                self.offsets.insert(ip, offset);
                offset
            }
        }?;
        if let Some(cached) = self.locations.get(&offset) {
            return cached;
        }
        let record: Option<Record> = self.reader.lookup(ip).ok()?.decode().ok()?;
        let location = record.and_then(Record::into_location).map(Arc::new);
        self.locations.insert(offset, location.clone());
        location
    }
}

#[derive(Default)]
struct Shared {
    database: RwLock<Option<Database>>,
    file: Option<File>,
}

struct File {
    path: PathBuf,
    read: RwLock<Version>,
}

/// Modification time and size.
type Version = (SystemTime, u64);

#[derive(Debug, thiserror::Error)]
#[error("the GeoIP database {path} cannot be read")]
pub struct Error {
    path: String,
    #[source]
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Format(#[from] maxminddb::MaxMindDbError),
    #[error("it has more than {FILE_BYTES_MAX} bytes")]
    TooLarge,
}

/// The event properties of a location. Most locations lack the third subdivision.
pub const PROPERTY_NAMES: [&str; 17] = [
    "$geoip_city_name",
    "$geoip_city_confidence",
    "$geoip_country_name",
    "$geoip_country_code",
    "$geoip_continent_name",
    "$geoip_continent_code",
    "$geoip_postal_code",
    "$geoip_latitude",
    "$geoip_longitude",
    "$geoip_accuracy_radius",
    "$geoip_time_zone",
    "$geoip_subdivision_1_code",
    "$geoip_subdivision_1_name",
    "$geoip_subdivision_2_code",
    "$geoip_subdivision_2_name",
    "$geoip_subdivision_3_code",
    "$geoip_subdivision_3_name",
];

/// The location of an IP address, as event properties.
#[derive(Debug)]
pub struct Location {
    /// In the order of [`PROPERTY_NAMES`].
    properties: Vec<Property>,
    known: u32,
    plain: bool,
    bytes: usize,
    fingerprint: u64,
}

#[derive(Debug)]
struct Property {
    name: &'static str,
    value: Option<Value>,
    json: Option<String>,
}

impl Location {
    /// The known properties.
    pub fn properties(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.properties
            .iter()
            .filter_map(|property| Some((property.name, property.value.as_ref()?)))
    }

    /// The values in the order of [`PROPERTY_NAMES`] as JSON; `None` if unknown.
    pub fn json(&self) -> impl Iterator<Item = Option<&str>> {
        self.properties.iter().map(|property| property.json.as_deref())
    }

    /// The JSON of the property at an index of [`PROPERTY_NAMES`].
    pub fn json_at(&self, at: usize) -> Option<&str> {
        self.properties.get(at)?.json.as_deref()
    }

    /// Number of properties, known or not: 15, or 17 with the third subdivision.
    pub fn len(&self) -> usize {
        self.properties.len()
    }

    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// Bit set of the known properties, by index of [`PROPERTY_NAMES`].
    pub fn known(&self) -> u32 {
        self.known
    }

    /// Whether no value has JSON escapes.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Serialized size of the known properties as members of a JSON object.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Hash of all properties.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

impl GeoIp {
    /// Finds nothing.
    pub fn disabled() -> Self {
        Self::default()
    }

    pub fn open(path: &Path) -> Result<Self, Error> {
        let (database, version) = read(path).map_err(|cause| error(path, cause))?;
        let file = File { path: path.to_owned(), read: RwLock::new(version) };
        Ok(Self(Arc::new(Shared { database: RwLock::new(Some(database)), file: Some(file) })))
    }

    /// Uses the embedded country database; disabled if the binary was built without it.
    pub fn built_in() -> Result<Self, Error> {
        let database = BUILT_IN
            .map(|bytes| Database::new(Cow::Borrowed(bytes)))
            .transpose()
            .map_err(|cause| error(Path::new("(built in)"), cause.into()))?;
        Ok(Self(Arc::new(Shared { database: RwLock::new(database), file: None })))
    }

    pub fn is_enabled(&self) -> bool {
        self.0.database.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether it uses the embedded database, which is DB-IP's and requires attribution.
    pub fn is_built_in(&self) -> bool {
        self.is_enabled() && self.0.file.is_none()
    }

    /// Reloads the file if its modification time or size changed; returns whether it did. If that
    /// fails, the previous database stays in use.
    pub fn reload_if_changed(&self) -> Result<bool, Error> {
        let Some(file) = &self.0.file else { return Ok(false) };
        let known = *file.read.read().unwrap_or_else(PoisonError::into_inner);
        let failed = |cause| error(&file.path, cause);
        if version(&file.path).map_err(failed)? == known {
            return Ok(false);
        }
        let (database, version) = read(&file.path).map_err(failed)?;
        // Dropped at the end of the function, after the lock is released.
        let _previous =
            self.0.database.write().unwrap_or_else(PoisonError::into_inner).replace(database);
        *file.read.write().unwrap_or_else(PoisonError::into_inner) = version;
        Ok(true)
    }

    /// `None` for addresses that are not public: private, local, documentation.
    pub fn lookup(&self, ip: IpAddr) -> Option<Arc<Location>> {
        let ip = ip.to_canonical();
        if !is_public(ip) {
            return None;
        }
        let database = self.0.database.read().unwrap_or_else(PoisonError::into_inner);
        database.as_ref()?.lookup(ip)
    }
}

fn error(path: &Path, cause: Cause) -> Error {
    Error { path: path.display().to_string(), cause }
}

fn version(path: &Path) -> Result<Version, Cause> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.modified()?, metadata.len()))
}

fn read(path: &Path) -> Result<(Database, Version), Cause> {
    let version = version(path)?;
    if version.1 > FILE_BYTES_MAX {
        return Err(Cause::TooLarge);
    }
    Ok((Database::new(Cow::Owned(fs::read(path)?))?, version))
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

/// A record of either schema; the fields of the other one stay empty.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Record {
    country_code: Option<String>,
    city: Option<Named>,
    continent: Option<Named>,
    country: Option<Named>,
    location: Option<RecordLocation>,
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
struct RecordLocation {
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
    fn into_location(self) -> Option<Location> {
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
        let mut values = vec![
            text(city.names.en),
            city.confidence.map(Value::from),
            text(country.names.en).or_else(|| known.map(|known| known.name.into())),
            Some(code.into()),
            text(continent.names.en).or_else(|| known.map(|known| known.continent_name().into())),
            text(continent.code).or_else(|| known.map(|known| known.continent.into())),
            text(self.postal.and_then(|postal| postal.code)),
            location.latitude.map(Value::from),
            location.longitude.map(Value::from),
            location.accuracy_radius.map(Value::from),
            text(location.time_zone),
            region_code(0),
            region_name(0),
            region_code(1),
            region_name(1),
        ];
        if self.subdivisions.len() > 2 {
            values.extend([region_code(2), region_name(2)]);
        }
        let property = |(name, value): (&'static str, Option<Value>)| {
            let json = value.as_ref().map(Value::to_string);
            Property { name, value, json }
        };
        let properties: Vec<Property> =
            PROPERTY_NAMES.into_iter().zip(values).map(property).collect();
        let mut hasher = DefaultHasher::new();
        properties.iter().for_each(|property| (property.name, &property.json).hash(&mut hasher));
        let known = properties.iter().map(|property| u32::from(property.json.is_some()));
        let known = known.rev().fold(0, |bits, bit| bits << 1 | bit);
        let present =
            properties.iter().filter_map(|property| Some((property.name, property.json.as_ref()?)));
        let plain = present.clone().all(|(_, json)| !json.contains('\\'));
        let bytes = present.map(|(name, json)| name.len() + json.len() + 4).sum();
        Some(Location { properties, known, plain, bytes, fingerprint: hasher.finish() })
    }
}
