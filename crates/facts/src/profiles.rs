//! Properties of persons, who are much alike: a person is the list of its names, which others
//! share, and for each name a code of its value, if others may have that, too.
//!
//! A record begins with what follows; numbers in it are seven bits a byte, the lowest first.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use model::json::Members;
use warehouse::{ABSENT, Interner, Value, with_json_value};
use zstd::bulk::{Compressor, Decompressor};

use crate::slab::{PIECE, Slab};

/// Values of a name that have codes, so that those take two bytes: more of them are one person's.
const VALUES_MAX: usize = (1 << 14) - 2;
const VALUE_BYTES_MAX: usize = 256;
/// Lists of names that are shared, and names; whoever has others spells them out.
const LISTS_MAX: usize = 1 << 14;
const NAMES_MAX: usize = 1 << 16;
/// What has codes takes no more, about.
const BOOK_BYTES_MAX: usize = 16 << 20;
/// Beside an entry's text.
const ENTRY_BYTES: usize = 24;
/// Longer records are packed.
const PLAIN_BYTES_MAX: usize = 512;
const LEVEL: i32 = 1;

/// The text as it is,
const TEXT: u32 = 0;
/// how many members there are and for each its name and its value,
const SPELLED: u32 = 1;
/// the length of a record and the record, packed,
const PACKED: u32 = 2;
/// or, for a list of names, as many values. A value is its code, or 0 with its length and JSON.
const LISTED: u32 = 3;

/// Everybody's, by the number of a person.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profiles {
    /// Shared by all copies: what has a code keeps it.
    book: Arc<RwLock<Book>>,
    records: Slab,
}

impl Profiles {
    /// `json` is an object, and comes back word for word.
    pub fn set(&mut self, at: usize, json: &str) {
        let record = self.book.write().unwrap_or_else(PoisonError::into_inner).record(json);
        self.records.set(at, &record);
    }

    /// With what all copies share.
    pub fn bytes(&self) -> usize {
        self.records.bytes() + self.book().bytes
    }

    pub fn remove(&mut self, at: usize) {
        self.records.set(at, &[]);
    }

    /// Calls `each` with the JSON of some of them, none for whoever has none.
    pub fn texts(&self, persons: &[u32], mut each: impl FnMut(Option<&str>)) {
        let (book, mut unpacked, mut text) = (self.book(), Unpacked::default(), String::new());
        for person in persons {
            text.clear();
            let record = self.records.get(*person as usize);
            let written = unpacked.of(record).and_then(|record| book.write(record, &mut text));
            each(written.map(|()| text.as_str()));
        }
    }

    /// The codes of a property's values, of the first `count` persons.
    pub fn column(&self, name: &str, count: usize, interner: &mut Interner) -> Vec<u32> {
        let mut codes = Vec::with_capacity(count);
        // What codes of the book come to.
        let mut known: Vec<Option<u32>> = Vec::new();
        let mut unpacked = Unpacked::default();
        for first in (0..count).step_by(PIECE) {
            // Whoever adds to it waits for a piece and not for all.
            let book = self.book();
            let wanted = book.names.get(name).copied();
            for at in first..count.min(first + PIECE) {
                let record = unpacked.of(self.records.get(at));
                let stored = record.and_then(|record| book.value(record, name, wanted));
                let mut intern = |json: &str| with_json_value(json, |value| interner.intern(value));
                codes.push(match stored {
                    None => ABSENT,
                    Some(Stored::Own(json)) => intern(json).unwrap_or(ABSENT),
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

    fn book(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names and values that have codes.
#[derive(Default)]
struct Book {
    names: HashMap<Arc<str>, u32>,
    named: Vec<Named>,
    lists: HashMap<Arc<[u32]>, u32>,
    listed: Vec<Arc<[u32]>>,
    bytes: usize,
    compressor: Option<Compressor<'static>>,
}

impl std::fmt::Debug for Book {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Book({} names, {} lists)", self.named.len(), self.listed.len())
    }
}

struct Named {
    /// As it stands before a value: in quotes, with the colon.
    start: Box<str>,
    /// JSON texts.
    values: Interner,
}

/// A value as JSON.
enum Stored<'a> {
    Coded(u32, &'a str),
    Own(&'a str),
}

impl<'a> Stored<'a> {
    const fn json(&self) -> &'a str {
        match self {
            Self::Coded(_, json) | Self::Own(json) => json,
        }
    }
}

impl Book {
    fn record(&mut self, json: &str) -> Vec<u8> {
        let plain = || [&[TEXT as u8], json.as_bytes()].concat();
        let record = self.coded(json).unwrap_or_else(plain);
        if record.len() <= PLAIN_BYTES_MAX {
            return record;
        }
        if self.compressor.is_none() {
            self.compressor = Compressor::new(LEVEL).ok();
        }
        let packed = self.compressor.as_mut().and_then(|it| it.compress(&record).ok());
        let Some((packed, length)) = packed.zip(u32::try_from(record.len()).ok()) else {
            return record;
        };
        let mut smaller = Vec::with_capacity(packed.len() + 6);
        put(&mut smaller, PACKED);
        put(&mut smaller, length);
        smaller.extend_from_slice(&packed);
        if smaller.len() < record.len() { smaller } else { record }
    }

    /// None for a text that would not come back as it is, such as one with blanks.
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
        let list = self.list(&names);
        match list {
            Some(list) => put(&mut record, LISTED + list),
            None => {
                put(&mut record, SPELLED);
                put(&mut record, u32::try_from(names.len()).ok()?);
            }
        }
        for (name, (code, value)) in names.iter().zip(values) {
            if list.is_none() {
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
        let mut back = String::with_capacity(json.len());
        self.write(&record, &mut back)?;
        (back == json).then_some(record)
    }

    /// Whether there is room for so many bytes more, which are then taken.
    fn take_room(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes + ENTRY_BYTES <= BOOK_BYTES_MAX;
        if fits {
            self.bytes += bytes + ENTRY_BYTES;
        }
        fits
    }

    fn name(&mut self, name: &str) -> Option<u32> {
        if let Some(known) = self.names.get(name) {
            return Some(*known);
        }
        if self.named.len() == NAMES_MAX || !self.take_room(2 * name.len() + size_of::<Named>()) {
            return None;
        }
        let start = format!("{}:", serde_json::to_string(name).ok()?).into();
        let number = self.named.len() as u32;
        self.named.push(Named { start, values: Interner::default() });
        self.names.insert(name.into(), number);
        Some(number)
    }

    fn code(&mut self, name: u32, json: &str) -> Option<u32> {
        if json.len() > VALUE_BYTES_MAX {
            return None;
        }
        let values = &self.named[name as usize].values;
        if let Some(known) = values.find(Value::Json(json)) {
            return Some(known);
        }
        if values.dictionary.len() == VALUES_MAX || !self.take_room(json.len()) {
            return None;
        }
        Some(self.named[name as usize].values.intern(Value::Json(json)))
    }

    fn list(&mut self, names: &[u32]) -> Option<u32> {
        if let Some(known) = self.lists.get(names) {
            return Some(*known);
        }
        if self.listed.len() == LISTS_MAX || !self.take_room(size_of_val(names)) {
            return None;
        }
        let (list, number) = (Arc::<[u32]>::from(names), self.listed.len() as u32);
        self.listed.push(list.clone());
        self.lists.insert(list, number);
        Some(number)
    }

    fn stored<'a>(&'a self, name: u32, record: &mut &'a [u8]) -> Option<Stored<'a>> {
        let Some(code) = get(record)?.checked_sub(1) else {
            let length = get(record)? as usize;
            let (json, rest) = record.split_at_checked(length)?;
            *record = rest;
            return Some(Stored::Own(std::str::from_utf8(json).ok()?));
        };
        let dictionary = &self.named.get(name as usize)?.values.dictionary;
        match ((code as usize) < dictionary.len()).then(|| dictionary.get(code))? {
            Value::Json(json) => Some(Stored::Coded(code, json)),
            _ => None,
        }
    }

    /// The text of a record that is not packed; none if it is of another book.
    fn write<'a>(&'a self, mut record: &'a [u8], out: &mut String) -> Option<()> {
        let kind = get(&mut record)?;
        if kind == TEXT {
            out.push_str(std::str::from_utf8(record).ok()?);
            return Some(());
        }
        let list = match kind.checked_sub(LISTED) {
            Some(list) => Some(self.listed.get(list as usize)?),
            None => None,
        };
        let count = match list {
            Some(list) => list.len(),
            None => get(&mut record)? as usize,
        };
        out.push('{');
        for at in 0..count {
            let name = match list {
                Some(list) => list[at],
                None => get(&mut record)?,
            };
            if at > 0 {
                out.push(',');
            }
            out.push_str(&self.named.get(name as usize)?.start);
            out.push_str(self.stored(name, &mut record)?.json());
        }
        out.push('}');
        Some(())
    }

    /// A member of a record that is not packed, the last one of its name. `wanted` is the name's
    /// number, if it has one.
    fn value<'a>(
        &'a self,
        mut record: &'a [u8],
        name: &str,
        wanted: Option<u32>,
    ) -> Option<Stored<'a>> {
        match get(&mut record)? {
            TEXT => {
                let mut members = Members::new(std::str::from_utf8(record).ok()?).ok()?;
                let mut found = None;
                for member in &mut members {
                    let (own, json) = member.ok()?;
                    if own == name {
                        found = Some(Stored::Own(json));
                    }
                }
                found.filter(|_| members.is_over())
            }
            SPELLED => {
                let (wanted, mut found) = (wanted?, None);
                for _ in 0..get(&mut record)? {
                    let own = get(&mut record)?;
                    let stored = self.stored(own, &mut record)?;
                    if own == wanted {
                        found = Some(stored);
                    }
                }
                found
            }
            kind => {
                let list = self.listed.get(kind.checked_sub(LISTED)? as usize)?;
                let at = list.iter().rposition(|own| Some(*own) == wanted)?;
                for _ in 0..at {
                    if get(&mut record)? == 0 {
                        let length = get(&mut record)? as usize;
                        record = record.get(length..)?;
                    }
                }
                self.stored(list[at], &mut record)
            }
        }
    }
}

/// Records one after the other, those that are packed by way of a buffer.
#[derive(Default)]
struct Unpacked {
    decompressor: Option<Decompressor<'static>>,
    buffer: Vec<u8>,
}

impl Unpacked {
    fn of<'t>(&'t mut self, record: &'t [u8]) -> Option<&'t [u8]> {
        let mut rest = record;
        if get(&mut rest)? != PACKED {
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
