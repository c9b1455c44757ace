//! Persons with their properties, dictionary-coded: persons of a project mostly share the same property
//! names (a *shape*) and many values.
//!
//! An entry is the person's facts, then a record. A record starts with its kind as a varint (LEB128): [`RAW`], [`NAMED`], [`COMPRESSED`], or
//! [`SHAPED`] plus the id of a shape.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use model::json::Members;
use warehouse::{ABSENT, Interner, Value, with_json_value};
use zstd::bulk::{Compressor, Decompressor};

use super::chunked_bytes::CHUNK_LEN;
use super::layered_bytes::{LayeredBytes, Section};
use super::mapped_file::{Cursor, FileWriter, write_text};

/// Coded values per name, so that a code takes at most two bytes. Further values are stored inline.
const VALUES_MAX: usize = (1 << 14) - 2;
const VALUE_BYTES_MAX: usize = 256;
/// Shapes and names in the code book. Records with others are stored as [`NAMED`] or [`RAW`].
const SHAPES_MAX: usize = 1 << 14;
const NAMES_MAX: usize = 1 << 16;
/// Approximate memory limit of the code book.
const CODE_BOOK_BYTES_MAX: usize = 16 << 20;
/// Overhead of a code book entry.
const ENTRY_BYTES: usize = 24;
/// Longer records are compressed with zstd.
const UNCOMPRESSED_BYTES_MAX: usize = 512;
const COMPRESSION_LEVEL: i32 = 1;

/// Record tag: the JSON object follows as it is.
const RAW: u32 = 0;
/// Record tag: the number of members, then name id and value of each. A value is its code plus one, or
/// 0 with the length and the JSON.
const NAMED: u32 = 1;
/// Record tag: the uncompressed length, then the record as a zstd frame.
const COMPRESSED: u32 = 2;
/// Record tags from here on are this plus the id of a shape; one value for each of its names follows.
const SHAPED: u32 = 3;

/// Encoded size of a person's facts.
pub(crate) const FACTS_BYTES: usize = 25;

/// Facts and properties by `person_no`.
#[derive(Clone, Debug, Default)]
pub(crate) struct PropertyStore {
    /// Shared by all clones: codes are never reassigned.
    code_book: Arc<RwLock<CodeBook>>,
    entries: LayeredBytes,
}

impl PropertyStore {
    /// `json` is an object; reads return it byte for byte.
    pub fn set(&mut self, at: usize, facts: [u8; FACTS_BYTES], json: &str) {
        let record = self.code_book.write().unwrap_or_else(PoisonError::into_inner).record(json);
        self.entries.set(at, &[&facts[..], &record].concat());
    }

    /// The facts of a person, if there is one.
    pub fn facts(&self, at: usize) -> Option<&[u8; FACTS_BYTES]> {
        self.entries.get(at).first_chunk()
    }

    fn record(&self, at: usize) -> &[u8] {
        self.entries.get(at).get(FACTS_BYTES..).unwrap_or_default()
    }

    /// Persons that differ from the checkpoint.
    pub fn changes(&self) -> usize {
        self.entries.changes()
    }

    /// Indexes that may differ from the checkpoint, except those past its end.
    pub fn changed(&self) -> impl Iterator<Item = u32> {
        self.entries.changed()
    }

    /// The property of one person as JSON.
    pub fn with_property<T>(
        &self,
        at: usize,
        name: &str,
        then: impl FnOnce(&str) -> T,
    ) -> Option<T> {
        let (code_book, mut reader) = (self.code_book(), RecordReader::default());
        let name_id = code_book.names.get(name).copied();
        let stored = code_book.value(reader.of(self.record(at))?, name, name_id)?;
        Some(then(stored.json()))
    }

    /// Writes the first `len` persons; the code book must be written after them.
    pub fn write(&self, len: usize, out: &mut FileWriter) -> io::Result<Section> {
        self.entries.write(len, out)
    }

    /// Writes the code book: names with their values, then shapes.
    pub fn write_code_book(&self, out: &mut FileWriter) -> io::Result<()> {
        let code_book = self.code_book();
        let count = |count: usize| (count as u32).to_le_bytes();
        let mut names: Vec<(&Arc<str>, &u32)> = code_book.names.iter().collect();
        names.sort_by_key(|(_, id)| **id);
        out.write_all(&count(names.len()))?;
        for ((name, _), entry) in names.into_iter().zip(&code_book.name_entries) {
            write_text(out, name)?;
            out.write_all(&count(entry.values.dictionary.len()))?;
            for value in entry.values.dictionary.iter() {
                match value {
                    Value::Json(json) => write_text(out, json)?,
                    _ => write_text(out, "null")?,
                }
            }
        }
        out.write_all(&count(code_book.shapes.len()))?;
        for shape in &code_book.shapes {
            out.write_all(&count(shape.len()))?;
            shape.iter().try_for_each(|name| out.write_all(&name.to_le_bytes()))?;
        }
        Ok(())
    }

    /// Persons of a mapped file, and the code book that was written with them.
    pub fn read(entries: LayeredBytes, code_book: &mut Cursor<'_>) -> Option<Self> {
        let code_book = CodeBook::read(code_book)?;
        Some(Self { code_book: Arc::new(RwLock::new(code_book)), entries })
    }

    /// Memory, including the shared code book.
    pub fn bytes(&self) -> usize {
        self.entries.bytes() + self.code_book().bytes
    }

    pub fn remove(&mut self, at: usize) {
        self.entries.set(at, &[]);
    }

    /// Calls `each` with the JSON of each person; none for a person without a record.
    pub fn texts(&self, persons: &[u32], mut each: impl FnMut(Option<&str>)) {
        let (code_book, mut reader, mut text) =
            (self.code_book(), RecordReader::default(), String::new());
        for person in persons {
            text.clear();
            let record = self.record(*person as usize);
            let written = reader.of(record).and_then(|record| code_book.write(record, &mut text));
            each(written.map(|()| text.as_str()));
        }
    }

    /// Calls `each` with the JSON of these properties of each person; none for one that is absent.
    pub fn values(&self, persons: &[u32], names: &[&str], mut each: impl FnMut(&[Option<&str>])) {
        let (code_book, mut reader) = (self.code_book(), RecordReader::default());
        let named: Vec<(&str, Option<u32>)> =
            names.iter().map(|name| (*name, code_book.names.get(*name).copied())).collect();
        for person in persons {
            let record = reader.of(self.record(*person as usize));
            let value = |(name, id): &(&str, Option<u32>)| {
                record.and_then(|record| code_book.value(record, name, *id))
            };
            let stored: Vec<Option<Stored<'_>>> = named.iter().map(value).collect();
            let json = stored.iter().map(|stored| stored.as_ref().map(Stored::json));
            each(&json.collect::<Vec<Option<&str>>>());
        }
    }

    /// A property of the first `count` persons: the code that `intern` gives each value.
    pub fn column(
        &self,
        name: &str,
        count: usize,
        mut intern: impl FnMut(Value<'_>) -> u32,
    ) -> Vec<u32> {
        let mut codes = Vec::with_capacity(count);
        // Interned codes by code book code.
        let mut known: Vec<Option<u32>> = Vec::new();
        let mut reader = RecordReader::default();
        for first in (0..count).step_by(CHUNK_LEN) {
            // Release the lock after each chunk, so that writers do not wait for the whole column.
            let code_book = self.code_book();
            let name_id = code_book.names.get(name).copied();
            for at in first..count.min(first + CHUNK_LEN) {
                let record = reader.of(self.record(at));
                let stored = record.and_then(|record| code_book.value(record, name, name_id));
                let mut intern = |json: &str| with_json_value(json, &mut intern);
                codes.push(match stored {
                    None => ABSENT,
                    Some(Stored::Inline(json)) => intern(json).unwrap_or(ABSENT),
                    Some(Stored::Coded(code, json)) => {
                        if known.len() <= code as usize {
                            known.resize(code as usize + 1, None);
                        }
                        let known = &mut known[code as usize];
                        *known.get_or_insert_with(|| intern(json).unwrap_or(ABSENT))
                    }
                });
            }
        }
        codes
    }

    fn code_book(&self) -> RwLockReadGuard<'_, CodeBook> {
        self.code_book.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Assigns ids to names and shapes, and codes to values.
#[derive(Default)]
struct CodeBook {
    names: HashMap<Arc<str>, u32>,
    name_entries: Vec<NameEntry>,
    shape_ids: HashMap<Arc<[u32]>, u32>,
    shapes: Vec<Arc<[u32]>>,
    bytes: usize,
    compressor: Option<Compressor<'static>>,
}

impl std::fmt::Debug for CodeBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CodeBook({} names, {} shape_ids)", self.name_entries.len(), self.shapes.len())
    }
}

struct NameEntry {
    /// The quoted name and the colon, as it precedes a value in JSON.
    start: Box<str>,
    /// JSON values.
    values: Interner,
}

/// A stored value as JSON.
enum Stored<'a> {
    Coded(u32, &'a str),
    Inline(&'a str),
}

impl<'a> Stored<'a> {
    const fn json(&self) -> &'a str {
        match self {
            Self::Coded(_, json) | Self::Inline(json) => json,
        }
    }
}

impl CodeBook {
    /// Reads what [`PropertyStore::write_code_book`] wrote. Ids and codes are assigned in the same order.
    fn read(from: &mut Cursor<'_>) -> Option<Self> {
        let mut code_book = Self::default();
        for name in 0..from.u32()? {
            if code_book.name(from.text()?)? != name {
                return None;
            }
            for code in 0..from.u32()? {
                if code_book.code(name, from.text()?)? != code {
                    return None;
                }
            }
        }
        for shape in 0..from.u32()? {
            let length = from.u32()? as usize;
            let (names, _) = from.bytes(length.checked_mul(4)?)?.as_chunks();
            let names: Vec<u32> = names.iter().map(|name| u32::from_le_bytes(*name)).collect();
            if code_book.shape(&names)? != shape {
                return None;
            }
        }
        Some(code_book)
    }

    fn record(&mut self, json: &str) -> Vec<u8> {
        let plain = || [&[RAW as u8], json.as_bytes()].concat();
        let record = self.coded(json).unwrap_or_else(plain);
        if record.len() <= UNCOMPRESSED_BYTES_MAX {
            return record;
        }
        if self.compressor.is_none() {
            self.compressor = Compressor::new(COMPRESSION_LEVEL).ok();
        }
        let frame = self.compressor.as_mut().and_then(|it| it.compress(&record).ok());
        let Some((frame, length)) = frame.zip(u32::try_from(record.len()).ok()) else {
            return record;
        };
        let mut compressed = Vec::with_capacity(frame.len() + 6);
        put(&mut compressed, COMPRESSED);
        put(&mut compressed, length);
        compressed.extend_from_slice(&frame);
        if compressed.len() < record.len() { compressed } else { record }
    }

    /// None if decoding would not return the same bytes, for example because of whitespace.
    fn coded(&mut self, json: &str) -> Option<Vec<u8>> {
        let mut members = Members::new(json).ok()?;
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for member in &mut members {
            let (name, value) = member.ok()?;
            let name = self.name(&name)?;
            names.push(name);
            values.push((self.code(name, value), value));
        }
        let mut record = Vec::with_capacity(values.len() * 2 + 64);
        let shape = self.shape(&names);
        match shape {
            Some(shape) => put(&mut record, SHAPED + shape),
            None => {
                put(&mut record, NAMED);
                put(&mut record, u32::try_from(names.len()).ok()?);
            }
        }
        for (name, (code, value)) in names.iter().zip(values) {
            if shape.is_none() {
                put(&mut record, *name);
            }
            match code {
                Some(code) => put(&mut record, code + 1),
                None => {
                    put(&mut record, 0);
                    put(&mut record, u32::try_from(value.len()).ok()?);
                    record.extend_from_slice(value.as_bytes());
                }
            }
        }
        let mut decoded = String::with_capacity(json.len());
        self.write(&record, &mut decoded)?;
        (decoded == json).then_some(record)
    }

    /// Reserves memory for an entry; false if the code book is full.
    fn reserve(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes + ENTRY_BYTES <= CODE_BOOK_BYTES_MAX;
        if fits {
            self.bytes += bytes + ENTRY_BYTES;
        }
        fits
    }

    fn name(&mut self, name: &str) -> Option<u32> {
        if let Some(known) = self.names.get(name) {
            return Some(*known);
        }
        if self.name_entries.len() == NAMES_MAX
            || !self.reserve(2 * name.len() + size_of::<NameEntry>())
        {
            return None;
        }
        let start = format!("{}:", serde_json::to_string(name).ok()?).into();
        let number = self.name_entries.len() as u32;
        self.name_entries.push(NameEntry { start, values: Interner::default() });
        self.names.insert(name.into(), number);
        Some(number)
    }

    fn code(&mut self, name: u32, json: &str) -> Option<u32> {
        if json.len() > VALUE_BYTES_MAX {
            return None;
        }
        let values = &self.name_entries[name as usize].values;
        if let Some(known) = values.find(Value::Json(json)) {
            return Some(known);
        }
        if values.dictionary.len() == VALUES_MAX || !self.reserve(json.len()) {
            return None;
        }
        Some(self.name_entries[name as usize].values.intern(Value::Json(json)))
    }

    fn shape(&mut self, names: &[u32]) -> Option<u32> {
        if let Some(known) = self.shape_ids.get(names) {
            return Some(*known);
        }
        if self.shapes.len() == SHAPES_MAX || !self.reserve(size_of_val(names)) {
            return None;
        }
        let (shape, number) = (Arc::<[u32]>::from(names), self.shapes.len() as u32);
        self.shapes.push(shape.clone());
        self.shape_ids.insert(shape, number);
        Some(number)
    }

    fn stored<'a>(&'a self, name: u32, record: &mut &'a [u8]) -> Option<Stored<'a>> {
        let Some(code) = get(record)?.checked_sub(1) else {
            let length = get(record)? as usize;
            let (json, rest) = record.split_at_checked(length)?;
            *record = rest;
            return Some(Stored::Inline(std::str::from_utf8(json).ok()?));
        };
        let dictionary = &self.name_entries.get(name as usize)?.values.dictionary;
        match ((code as usize) < dictionary.len()).then(|| dictionary.get(code))? {
            Value::Json(json) => Some(Stored::Coded(code, json)),
            _ => None,
        }
    }

    /// Decodes an uncompressed record to JSON; none if it does not belong to this code book.
    fn write<'a>(&'a self, mut record: &'a [u8], out: &mut String) -> Option<()> {
        let kind = get(&mut record)?;
        if kind == RAW {
            out.push_str(std::str::from_utf8(record).ok()?);
            return Some(());
        }
        let shape = match kind.checked_sub(SHAPED) {
            Some(shape) => Some(self.shapes.get(shape as usize)?),
            None => None,
        };
        let count = match shape {
            Some(shape) => shape.len(),
            None => get(&mut record)? as usize,
        };
        out.push('{');
        for at in 0..count {
            let name = match shape {
                Some(shape) => shape[at],
                None => get(&mut record)?,
            };
            if at > 0 {
                out.push(',');
            }
            out.push_str(&self.name_entries.get(name as usize)?.start);
            out.push_str(self.stored(name, &mut record)?.json());
        }
        out.push('}');
        Some(())
    }

    /// The last member with a name in an uncompressed record. `name_id` is the name's id, if it has
    /// one.
    fn value<'a>(
        &'a self,
        mut record: &'a [u8],
        name: &str,
        name_id: Option<u32>,
    ) -> Option<Stored<'a>> {
        match get(&mut record)? {
            RAW => {
                let mut members = Members::new(std::str::from_utf8(record).ok()?).ok()?;
                let mut last = None;
                for member in &mut members {
                    let (own, json) = member.ok()?;
                    if own == name {
                        last = Some(Stored::Inline(json));
                    }
                }
                last.filter(|_| members.is_finished())
            }
            NAMED => {
                let (name_id, mut last) = (name_id?, None);
                for _ in 0..get(&mut record)? {
                    let own = get(&mut record)?;
                    let stored = self.stored(own, &mut record)?;
                    if own == name_id {
                        last = Some(stored);
                    }
                }
                last
            }
            kind => {
                let shape = self.shapes.get(kind.checked_sub(SHAPED)? as usize)?;
                let at = shape.iter().rposition(|own| Some(*own) == name_id)?;
                for _ in 0..at {
                    if get(&mut record)? == 0 {
                        let length = get(&mut record)? as usize;
                        record = record.get(length..)?;
                    }
                }
                self.stored(shape[at], &mut record)
            }
        }
    }
}

/// Decompresses records into a reused buffer.
#[derive(Default)]
struct RecordReader {
    decompressor: Option<Decompressor<'static>>,
    buffer: Vec<u8>,
}

impl RecordReader {
    fn of<'t>(&'t mut self, record: &'t [u8]) -> Option<&'t [u8]> {
        let mut rest = record;
        if get(&mut rest)? != COMPRESSED {
            return Some(record);
        }
        let length = get(&mut rest)? as usize;
        if self.decompressor.is_none() {
            self.decompressor = Some(Decompressor::new().ok()?);
        }
        self.buffer.clear();
        self.buffer.reserve(length);
        self.decompressor.as_mut()?.decompress_to_buffer(rest, &mut self.buffer).ok()?;
        Some(&self.buffer)
    }
}

fn put(record: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        record.push(number as u8 | 0x80);
        number >>= 7;
    }
    record.push(number as u8);
}

fn get(record: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let (byte, rest) = record.split_first()?;
        *record = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests;
