//! The tables, how they are created, and how they change.
//!
//! All of them replace rows: of rows with one key, the one with the latest journal position counts.
//! Reads say `FINAL`. The key of an event contains its name and day, so that parts of different days
//! never overlap; a partition is a month, so that merged months cost reads nothing.

mod tables;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{StringArray, UInt32Array};

use crate::client::{Client, Parameter, Parameters, Statement};
use crate::error::{Error, Result};
use crate::settings::Topology;

use tables::TABLES;
pub(crate) use tables::{EVENTS_TABLE, within_months};

/// Changes of the schema, in order. Only ever added to: the first one creates the tables as they were
/// then, a later one alters them.
const CHANGES: &[fn(&Topology) -> Vec<String>] = &[create_tables];

const PROPERTY_PREFIX: &str = "p.";
/// Columns of properties. A hundred unfilled ones cost an insert 5 µs an event, three hundred 20 µs.
pub const PROMOTED_MAX: usize = 128;
/// Of a property with a column.
const NAME_BYTES_MAX: usize = 100;
/// What SDKs send with almost every event: these have columns from the start.
const COMMON_PROPERTIES: &[&str] = &[
    "$browser",
    "$browser_version",
    "$current_url",
    "$device_id",
    "$device_type",
    "$feature_flag",
    "$feature_flag_response",
    "$geoip_city_name",
    "$geoip_country_code",
    "$geoip_country_name",
    "$host",
    "$ip",
    "$lib",
    "$lib_version",
    "$os",
    "$os_version",
    "$pathname",
    "$prev_pageview_pathname",
    "$raw_user_agent",
    "$referrer",
    "$referring_domain",
    "$screen_height",
    "$screen_name",
    "$screen_width",
    "$session_id",
    "$window_id",
    "utm_campaign",
    "utm_content",
    "utm_medium",
    "utm_source",
    "utm_term",
];

/// The schema of a database, as it is there. Clones share what they know.
#[derive(Clone, Debug)]
pub struct Schema {
    client: Client,
    promoted: Arc<Mutex<Arc<BTreeSet<String>>>>,
}

impl Schema {
    /// Creates the database and the tables, or brings those of an earlier version up to date. Safe to
    /// run on several nodes at once, and again after it was interrupted.
    pub fn open(client: Client) -> Result<Self> {
        let schema = Self::unprepared(client);
        schema.prepare()?;
        Ok(schema)
    }

    /// The tables as they are, for a command that changes nothing; none if a server has never opened
    /// them.
    pub fn join(client: Client) -> Result<Option<Self>> {
        let version = match stored_version(&client) {
            // UNKNOWN_DATABASE
            Err(Error::Refused { code: 81, .. }) => 0,
            version => version?,
        };
        let known = CHANGES.len() as u32;
        match version {
            0 => Ok(None),
            found if found > known => Err(Error::SchemaVersion { found, known }),
            _ => {
                let promoted = Arc::new(Mutex::new(Arc::new(read_promoted(&client)?)));
                Ok(Some(Self { client, promoted }))
            }
        }
    }

    /// The tables of a ClickHouse that may be away. Until [`Schema::prepare`] has succeeded, every
    /// statement fails.
    pub fn unprepared(client: Client) -> Self {
        Self { client: client.locked(), promoted: Arc::default() }
    }

    /// Does for an unprepared schema what [`Schema::open`] does.
    pub fn prepare(&self) -> Result<()> {
        let client = self.client.without_lock();
        let version = match stored_version(&client) {
            // UNKNOWN_DATABASE
            Err(Error::Refused { code: 81, .. }) => {
                let (name, on_cluster) = (&client.settings().database, client.on_cluster());
                let create = format!("CREATE DATABASE IF NOT EXISTS `{name}`{on_cluster}");
                client.execute_without_database(&create.into())?;
                0
            }
            version => version?,
        };
        let known = CHANGES.len() as u32;
        if version > known {
            return Err(Error::SchemaVersion { found: version, known });
        }
        for (change, number) in CHANGES.iter().zip(1..).skip(version as usize) {
            for statement in change(&client.settings().topology) {
                client.execute(&statement.into())?;
            }
            let text = format!("INSERT INTO schema_versions (version) VALUES ({number})");
            client.execute(&text.into())?;
            tracing::info!(version = number, "changed the schema of ClickHouse");
        }
        let promoted = read_promoted(&client)?;
        *self.promoted.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(promoted);
        self.client.unlock();
        Ok(())
    }

    /// The same tables for another user, such as one that may only read.
    pub fn as_user(&self, client: Client) -> Self {
        Self { client, promoted: self.promoted.clone() }
    }

    /// What [`Schema::open`] runs on an empty database.
    pub fn statements(topology: &Topology) -> Vec<String> {
        CHANGES.iter().flat_map(|change| change(topology)).collect()
    }

    /// The same tables, locked apart from these.
    pub(crate) fn locked(self) -> Self {
        Self { client: self.client.locked(), ..self }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The properties that have a column.
    pub fn promoted(&self) -> Arc<BTreeSet<String>> {
        self.promoted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads which properties have a column: another node may have added some.
    pub fn refresh(&self) -> Result<()> {
        let names = read_promoted(&self.client)?;
        *self.promoted.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
        Ok(())
    }

    /// Gives properties a column, as far as they may have one and there is room. What is stored
    /// already reads the same before and after ClickHouse has filled the column: until then its value
    /// is computed from `rest`.
    ///
    /// The default stays for good: a writer that does not know the column yet fills it through it.
    pub fn promote<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<usize> {
        let promoted = self.promoted();
        let room = PROMOTED_MAX.saturating_sub(promoted.len());
        let new = names.into_iter().filter(|name| may_have_column(name));
        let new: BTreeSet<&str> = new.filter(|name| !promoted.contains(*name)).take(room).collect();
        let new: Vec<&str> = new.into_iter().collect();
        let mut added = 0;
        match self.add_columns(&new) {
            Ok(()) => added = new.len(),
            // One that is refused keeps no other one from its column.
            Err(Error::Refused { .. }) => {
                for name in &new {
                    match self.add_columns(&[name]) {
                        Ok(()) => added += 1,
                        Err(error @ Error::Refused { .. }) => {
                            tracing::warn!(property = name, %error, "a property has no column");
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) => return Err(error),
        }
        self.refresh()?;
        Ok(added)
    }

    fn add_columns(&self, names: &[&str]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let tables = local_and_distributed(&self.client.settings().topology);
        let on_cluster = self.client.on_cluster();
        let all = |change: fn(&str) -> String| {
            names.iter().map(|name| change(name)).collect::<Vec<_>>().join(", ")
        };
        let add = |name: &str| format!("ADD COLUMN IF NOT EXISTS {}", property_column(name));
        let fill = |name: &str| format!("MATERIALIZE COLUMN {}", column_of(name));
        for table in &tables {
            let text = format!("ALTER TABLE {table}{on_cluster} {}", all(add));
            self.client.execute(&text.into())?;
        }
        let text = format!("ALTER TABLE {}{on_cluster} {}", tables[0], all(fill));
        self.client.execute(&text.into())?;
        tracing::info!(properties = ?names, "gave properties columns of their own in ClickHouse");
        Ok(())
    }
}

fn read_promoted(client: &Client) -> Result<BTreeSet<String>> {
    let mut parameters = Parameters::default();
    let prefix = parameters.add(Parameter::String(PROPERTY_PREFIX));
    let text = format!(
        "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'events' \
         AND startsWith(name, {prefix})"
    );
    let mut names = BTreeSet::new();
    for batch in client.select(&Statement::new(text, parameters))? {
        let batch = batch?;
        let column = column::<StringArray>(client, &batch, 0)?;
        let name = |name: &str| name.strip_prefix(PROPERTY_PREFIX).map(str::to_owned);
        names.extend(column.iter().flatten().filter_map(name));
    }
    Ok(names)
}

/// Zero if there is no schema.
fn stored_version(client: &Client) -> Result<u32> {
    let exists = "SELECT toUInt32(count()) FROM system.tables WHERE database = currentDatabase() \
                  AND name = 'schema_versions'";
    if number(client, &exists.into())? == 0 {
        return Ok(0);
    }
    number(client, &"SELECT max(version) FROM schema_versions".into())
}

fn number(client: &Client, statement: &Statement) -> Result<u32> {
    let mut number = 0;
    for batch in client.select(statement)? {
        let batch = batch?;
        number = column::<UInt32Array>(client, &batch, 0)?.iter().flatten().next().unwrap_or(0);
    }
    Ok(number)
}

/// A column of a result, of the type that the statement gives it.
pub(crate) fn column<'b, A: arrow::array::Array + 'static>(
    client: &Client,
    batch: &'b arrow::array::RecordBatch,
    at: usize,
) -> Result<&'b A> {
    let array = batch.columns().get(at).and_then(|array| array.as_any().downcast_ref());
    array.ok_or_else(|| Error::Protocol {
        server: client.settings().server.clone(),
        why: format!("column {at} of a result has another type: {:?}", batch.schema()),
    })
}

/// Whether a property may have a column: its name becomes part of statements.
pub(crate) fn may_have_column(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_$-./:".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// The column of a property that [`may_have_column`], quoted.
pub(crate) fn column_of(name: &str) -> String {
    format!("`{PROPERTY_PREFIX}{name}`")
}

fn property_column(name: &str) -> String {
    format!("{} String DEFAULT rest['{name}']", column_of(name))
}

/// The tables that hold events: first those with the rows.
fn local_and_distributed(topology: &Topology) -> Vec<&'static str> {
    match topology {
        Topology::Single | Topology::Replicated { .. } => vec!["events"],
        Topology::Sharded { .. } => vec!["events_local", "events"],
    }
}

/// The table whose rows a delete rewrites.
pub(crate) fn table_of_rows(topology: &Topology) -> &'static str {
    local_and_distributed(topology)[0]
}

fn create_tables(topology: &Topology) -> Vec<String> {
    TABLES.iter().flat_map(|table| table.create(topology)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_properties_may_have_columns_and_leave_room_for_others() {
        assert!(COMMON_PROPERTIES.iter().all(|name| may_have_column(name)));
        assert!(COMMON_PROPERTIES.is_sorted());
        assert!(COMMON_PROPERTIES.len() * 3 < PROMOTED_MAX);
    }

    #[test]
    fn a_name_that_could_end_a_quotation_has_no_column() {
        for name in
            ["", "a`b", "a'b", "a\\b", "a\"b", "a\0b", "ä", "a{b}", "a\nb", "a b", &"a".repeat(101)]
        {
            assert!(!may_have_column(name), "{name:?}");
        }
    }
}
