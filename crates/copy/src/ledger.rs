//! The ledger: which object of the source became which object here.
//!
//! A file of JSON lines beside the command, appended and synced after every request, so that a copy
//! that was interrupted goes on where it stopped and a later one creates nothing twice. The ids mean
//! nothing to either server, so neither stores them. The first line names both projects.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::kind::{Key, Kind};
use crate::{Error, Result};

const VERSION: u32 = 1;
/// A ledger of hundreds of thousands of objects.
const LEDGER_BYTES_MAX: u64 = 256 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub version: u32,
    pub from: String,
    pub project: String,
    pub to: String,
    pub to_project: String,
}

impl Header {
    pub fn new(from: &str, project: &str, to: &str, to_project: &str) -> Self {
        let owned = str::to_owned;
        Self {
            version: VERSION,
            from: owned(from),
            project: owned(project),
            to: owned(to),
            to_project: owned(to_project),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    entry: Entry,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The object here; none after a request to create it was sent and until its answer came.
    pub target: Option<String>,
    /// Of the request that was last accepted.
    pub fingerprint: String,
}

/// Locked while it is open.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    entries: HashMap<Key, Entry>,
    /// The objects here that entries name.
    targets: HashMap<Key, Key>,
}

impl Ledger {
    pub fn open(path: &Path, header: &Header) -> Result<Self> {
        let at = |source| Error::Ledger { path: path.to_owned(), source };
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(at)?;
        file.try_lock().map_err(|_| Error::LedgerInUse { path: path.to_owned() })?;
        let bytes = file.metadata().map_err(at)?.len();
        if bytes > LEDGER_BYTES_MAX {
            return Err(Error::NoLedger { path: path.to_owned(), line: 0 });
        }
        let mut ledger = Self {
            path: path.to_owned(),
            file: file.try_clone().map_err(at)?,
            entries: HashMap::new(),
            targets: HashMap::new(),
        };
        file.seek(SeekFrom::Start(0)).map_err(at)?;
        let complete = ledger.read(file.take(LEDGER_BYTES_MAX), header)?;
        // A line that a crash cut short.
        ledger.file.set_len(complete).map_err(at)?;
        if complete == 0 {
            ledger.append(header)?;
        }
        Ok(ledger)
    }

    /// Returns the length of the complete lines.
    fn read(&mut self, file: impl std::io::Read, header: &Header) -> Result<u64> {
        let (mut reader, mut complete) = (BufReader::new(file), 0);
        for number in 1.. {
            let mut line = Vec::new();
            let read = reader.read_until(b'\n', &mut line);
            let bytes = read.map_err(|source| Error::Ledger { path: self.path.clone(), source })?;
            if line.pop() != Some(b'\n') {
                break;
            }
            let unreadable = |_| Error::NoLedger { path: self.path.clone(), line: number };
            if number == 1 {
                let found: Header = serde_json::from_slice(&line).map_err(unreadable)?;
                if found != *header {
                    return Err(Error::OtherLedger {
                        path: self.path.clone(),
                        found: Box::new(found),
                    });
                }
            } else {
                let Line { key, entry } = serde_json::from_slice(&line).map_err(unreadable)?;
                self.remember(key, entry);
            }
            complete += bytes as u64;
        }
        Ok(complete)
    }

    fn remember(&mut self, key: Key, entry: Entry) {
        if let Some(target) = &entry.target {
            self.targets.insert(Key::new(key.kind, target), key.clone());
        }
        self.entries.insert(key, entry);
    }

    fn append(&mut self, line: &impl Serialize) -> Result<()> {
        let at = |source| Error::Ledger { path: self.path.clone(), source };
        let mut encoded = serde_json::to_vec(line).map_err(|why| at(why.into()))?;
        encoded.push(b'\n');
        self.file.write_all(&encoded).map_err(at)?;
        self.file.sync_data().map_err(at)
    }

    pub fn entry(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The object here.
    pub fn target(&self, key: &Key) -> Option<&str> {
        self.entries.get(key)?.target.as_deref()
    }

    /// Whether the object with this id here was copied from some object.
    pub fn is_taken(&self, kind: Kind, target: &str) -> bool {
        self.targets.contains_key(&Key::new(kind, target))
    }

    /// Notes down that a request to create the object is about to be sent.
    pub fn announce(&mut self, key: &Key, fingerprint: &str) -> Result<()> {
        self.record(key, None, fingerprint)
    }

    pub fn created(&mut self, key: &Key, target: &str, fingerprint: &str) -> Result<()> {
        self.record(key, Some(target.to_owned()), fingerprint)
    }

    fn record(&mut self, key: &Key, target: Option<String>, fingerprint: &str) -> Result<()> {
        let entry = Entry { target, fingerprint: fingerprint.to_owned() };
        if self.entries.get(key) == Some(&entry) {
            return Ok(());
        }
        let line = Line { key: key.clone(), entry };
        self.append(&line)?;
        self.remember(line.key, line.entry);
        Ok(())
    }
}

/// A hash of a request, whatever the order of its keys.
pub fn fingerprint(body: &Value) -> String {
    let mut hash = Sha256::new();
    update(&mut hash, body);
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn update(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            hash.update(b"{");
            for name in names {
                hash.update(Value::from(name.as_str()).to_string());
                update(hash, &fields[name.as_str()]);
            }
            hash.update(b"}");
        }
        Value::Array(items) => {
            hash.update(b"[");
            for item in items {
                update(hash, item);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        other => hash.update(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn header() -> Header {
        Header::new("https://from", "1", "http://to", "2")
    }

    fn key(id: &str) -> Key {
        Key::new(Kind::Cohort, id)
    }

    #[test]
    fn ledger_remembers_until_the_last_complete_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = Ledger::open(&path, &header()).unwrap();
        ledger.announce(&key("1"), "x").unwrap();
        ledger.created(&key("1"), "10", "x").unwrap();
        ledger.announce(&key("2"), "y").unwrap();
        let busy = Ledger::open(&path, &header()).unwrap_err();
        assert!(matches!(busy, Error::LedgerInUse { .. }), "{busy}");
        drop(ledger);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"kind\":\"cohort\",\"id\":\"3\",\"tar").unwrap();
        drop(file);
        let mut ledger = Ledger::open(&path, &header()).unwrap();
        assert_eq!(ledger.target(&key("1")), Some("10"));
        assert!(ledger.is_taken(Kind::Cohort, "10") && !ledger.is_taken(Kind::Action, "10"));
        assert_eq!(ledger.entry(&key("2")).unwrap().target, None);
        assert_eq!(ledger.entry(&key("3")), None);
        ledger.created(&key("3"), "30", "z").unwrap();
        drop(ledger);
        assert_eq!(Ledger::open(&path, &header()).unwrap().target(&key("3")), Some("30"));
    }

    #[test]
    fn ledger_of_other_projects_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        drop(Ledger::open(&path, &header()).unwrap());
        let other = Ledger::open(&path, &Header { project: "9".into(), ..header() }).unwrap_err();
        assert!(matches!(other, Error::OtherLedger { .. }), "{other}");
        std::fs::write(&path, "no ledger\n").unwrap();
        let unreadable = Ledger::open(&path, &header()).unwrap_err();
        assert!(matches!(unreadable, Error::NoLedger { line: 1, .. }), "{unreadable}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "no ledger\n");
    }

    #[test]
    fn fingerprint_ignores_the_order_of_keys_only() {
        let of = |text: &str| fingerprint(&serde_json::from_str(text).unwrap());
        assert_eq!(of(r#"{"a":1,"b":[1,2]}"#), of(r#"{"b":[1,2],"a":1}"#));
        assert_ne!(of(r#"{"a":1,"b":[1,2]}"#), of(r#"{"a":1,"b":[2,1]}"#));
        assert_ne!(fingerprint(&json!("1")), fingerprint(&json!(1)));
    }
}
