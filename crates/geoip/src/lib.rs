//! An address becomes the place it is used from.
//!
//! It reads MaxMind's file format with two schemas of record: MaxMind's own nested one, and the
//! flat one of the free country files (`{"country_code":"US"}`). One of those is built in, if
//! `tools/fetch-assets` brought it. Without a file it finds nothing.

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

/// A database of cities has some 70 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Addresses whose place is remembered: those who are here send more events in a moment.
const REMEMBERED_MAX: usize = 16_384;
/// Places that are remembered: many addresses share one.
const PLACES_MAX: usize = 4_096;

/// Cheap to clone; shared by capture's pipeline and flag evaluation.
#[derive(Clone, Default)]
pub struct GeoIp(Arc<Shared>);

/// A file's bytes, or those built in, and what was found in them lately.
struct Database {
    reader: Reader<Cow<'static, [u8]>>,
    /// Where the records of addresses stand.
    found: Cache<IpAddr, Option<usize>>,
    /// What records say.
    places: Cache<usize, Option<Arc<Place>>>,
}

impl Database {
    fn new(bytes: Cow<'static, [u8]>) -> Result<Self, maxminddb::MaxMindDbError> {
        let reader = Reader::from_source(bytes)?;
        let (found, places) = (Cache::new(REMEMBERED_MAX), Cache::new(PLACES_MAX));
        Ok(Self { reader, found, places })
    }

    fn look_up(&self, ip: IpAddr) -> Option<Arc<Place>> {
        let at = match self.found.get(&ip) {
            Some(known) => known,
            None => {
                let at = self.reader.lookup(ip).ok().and_then(|found| found.offset());
                self.found.insert(ip, at);
                at
            }
        }?;
        if let Some(known) = self.places.get(&at) {
            return known;
        }
        let record: Option<Record> = self.reader.lookup(ip).ok()?.decode().ok()?;
        let place = record.and_then(Record::place).map(Arc::new);
        self.places.insert(at, place.clone());
        place
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

/// When it was written and how long it is.
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

/// What may be known of a place, by the names of the event properties it becomes. The third
/// subdivision is no part of most places.
pub const NAMES: [&str; 17] = [
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

/// Where an address is used.
#[derive(Debug)]
pub struct Place {
    /// In the order of [`NAMES`].
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

impl Place {
    /// What is known.
    pub fn properties(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.properties.iter().filter_map(|own| Some((own.name, own.value.as_ref()?)))
    }

    /// The values of [`NAMES`] as JSON, none for what is not known, as far as they are a part of it.
    pub fn json(&self) -> impl Iterator<Item = Option<&str>> {
        self.properties.iter().map(|own| own.json.as_deref())
    }

    /// The value of one of these.
    pub fn json_at(&self, at: usize) -> Option<&str> {
        self.properties.get(at)?.json.as_deref()
    }

    /// How many standard names it has.
    pub fn len(&self) -> usize {
        self.properties.len()
    }

    pub fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// Which of the standard names have a value, a bit for each in their order.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// Whether nothing is escaped in any value.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// What they take in an object, with their names.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Equal for two places that say the same.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

impl GeoIp {
    /// Finds nothing, ever.
    pub fn off() -> Self {
        Self::default()
    }

    pub fn open(path: &Path) -> Result<Self, Error> {
        let (database, version) = read(path).map_err(|cause| error(path, cause))?;
        let file = File { path: path.to_owned(), read: RwLock::new(version) };
        Ok(Self(Arc::new(Shared { database: RwLock::new(Some(database)), file: Some(file) })))
    }

    /// The database of countries in this program; off when it was built without.
    pub fn built_in() -> Result<Self, Error> {
        let database = BUILT_IN
            .map(|bytes| Database::new(Cow::Borrowed(bytes)))
            .transpose()
            .map_err(|cause| error(Path::new("(built in)"), cause.into()))?;
        Ok(Self(Arc::new(Shared { database: RwLock::new(database), file: None })))
    }

    pub fn is_on(&self) -> bool {
        self.0.database.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether it looks into the database of DB-IP that came with this program.
    pub fn is_built_in(&self) -> bool {
        self.is_on() && self.0.file.is_none()
    }

    /// Reads the file again if it was replaced, and tells whether it was. One that cannot be read
    /// leaves what was read before.
    pub fn refresh(&self) -> Result<bool, Error> {
        let Some(file) = &self.0.file else { return Ok(false) };
        let known = *file.read.read().unwrap_or_else(PoisonError::into_inner);
        let failed = |cause| error(&file.path, cause);
        if version(&file.path).map_err(failed)? == known {
            return Ok(false);
        }
        let (database, found) = read(&file.path).map_err(failed)?;
        // It goes away when nobody waits for it any more.
        let _before =
            self.0.database.write().unwrap_or_else(PoisonError::into_inner).replace(database);
        *file.read.write().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(true)
    }

    /// None for addresses that mean no place: private, local, documentation.
    pub fn look_up(&self, ip: IpAddr) -> Option<Arc<Place>> {
        let ip = ip.to_canonical();
        if !is_public(ip) {
            return None;
        }
        let database = self.0.database.read().unwrap_or_else(PoisonError::into_inner);
        database.as_ref()?.look_up(ip)
    }
}

fn error(path: &Path, cause: Cause) -> Error {
    Error { path: path.display().to_string(), cause }
}

fn version(path: &Path) -> Result<Version, Cause> {
    let found = fs::metadata(path)?;
    Ok((found.modified()?, found.len()))
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
        let properties: Vec<Property> = NAMES.into_iter().zip(values).map(property).collect();
        let mut hasher = DefaultHasher::new();
        properties.iter().for_each(|own| (own.name, &own.json).hash(&mut hasher));
        let known = properties.iter().map(|own| u32::from(own.json.is_some()));
        let known = known.rev().fold(0, |bits, bit| bits << 1 | bit);
        let said = properties.iter().filter_map(|own| Some((own.name, own.json.as_ref()?)));
        let plain = said.clone().all(|(_, json)| !json.contains('\\'));
        let bytes = said.map(|(name, json)| name.len() + json.len() + 4).sum();
        Some(Place { properties, known, plain, bytes, fingerprint: hasher.finish() })
    }
}
