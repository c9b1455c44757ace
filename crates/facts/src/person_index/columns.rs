//! Property columns of a checkpoint: one file for each property that queries asked for.
//!
//! ```text
//! parts of the dictionary, codes by person_no (u32), footer, length of the footer (u32)
//! ```
//! The dictionary is written in parts while the column is built, so that its strings are never in
//! memory as a whole.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;
use uuid::Uuid;
use warehouse::{Dictionary, Interner, MappedEntries, Value};

use super::mapped_file::{self, Cursor, FileWriter, write_text};
use super::{PersonIndex, lock};

/// Distinct values of a column that get one code each. Columns of mostly unique strings have more, and
/// repeat some.
pub(super) const INTERNED_MAX: usize = 1 << 16;
/// Strings of a part of the dictionary.
const PART_BYTES: usize = 32 << 20;
/// Columns that a checkpoint keeps.
const COLUMNS_MAX: usize = 64;
const EXTENSION: &str = "column";
/// Namespace of the file names.
const NAMESPACE: Uuid = Uuid::from_u128(0x5b0f_2f5e_9d0c_4a6b_8a41_1c5f_6d1e_77aa);

/// The column files of a checkpoint.
#[derive(Debug)]
pub(super) struct ColumnFiles {
    dir: PathBuf,
    /// Name of the checkpoint's files, without extension.
    checkpoint: String,
    /// Properties that queries asked for.
    names: Mutex<BTreeSet<String>>,
    /// Mapped columns, so that each is verified once.
    opened: Mutex<HashMap<String, MappedColumn>>,
}

#[derive(Clone, Debug)]
struct MappedColumn {
    /// By `person_no` (u32, little-endian).
    codes: Bytes,
    dictionary: MappedEntries,
}

impl ColumnFiles {
    pub fn open(dir: &Path, checkpoint: &str) -> io::Result<Self> {
        let files = Self {
            dir: dir.to_owned(),
            checkpoint: checkpoint.to_owned(),
            names: Mutex::default(),
            opened: Mutex::default(),
        };
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let file = path.file_name().and_then(|name| name.to_str());
            if file.and_then(checkpoint_of) != Some(checkpoint) || names.len() == COLUMNS_MAX {
                continue;
            }
            // Only for its name: whoever reads the column verifies it.
            let column = mapped_file::open_unverified(&path)?;
            names.extend(Footer::read(&column).map(|footer| footer.name));
        }
        *lock(&files.names) = names;
        Ok(files)
    }

    fn path(&self, name: &str) -> PathBuf {
        let hash = Uuid::new_v5(&NAMESPACE, name.as_bytes()).simple();
        self.dir.join(format!("{}-{hash}.{EXTENSION}", self.checkpoint))
    }

    /// The properties that queries asked for.
    pub fn names(&self) -> BTreeSet<String> {
        lock(&self.names).clone()
    }

    /// The column as of the checkpoint, written now if it is the first query that asks for it. Persons
    /// that changed since may have any value. `None` if there is no room for a file.
    pub fn column(&self, name: &str, persons: &PersonIndex) -> Option<(Vec<u32>, Dictionary)> {
        let opened = lock(&self.opened).get(name).cloned();
        let column = match opened {
            Some(column) => column,
            None => {
                let column = self.open_or_write(name, persons)?;
                lock(&self.opened).insert(name.to_owned(), column.clone());
                column
            }
        };
        let (codes, _) = column.codes.as_chunks();
        let codes = codes.iter().map(|code| u32::from_le_bytes(*code)).collect();
        Some((codes, Dictionary::mapped(column.dictionary)))
    }

    fn open_or_write(&self, name: &str, persons: &PersonIndex) -> Option<MappedColumn> {
        let path = self.path(name);
        if let Some(column) = read(&path, name) {
            return Some(column);
        }
        {
            let mut names = lock(&self.names);
            if names.len() >= COLUMNS_MAX && !names.contains(name) {
                return None;
            }
            names.insert(name.to_owned());
        }
        if let Err(error) = self.write(name, persons) {
            tracing::warn!(path = %path.display(), %error, "cannot write a column of persons");
            return None;
        }
        read(&path, name)
    }

    pub fn write(&self, name: &str, persons: &PersonIndex) -> io::Result<()> {
        let mut out = FileWriter::create(self.path(name))?;
        let mut dictionary = DictionaryWriter::new(&mut out);
        let codes =
            persons.persons.column(name, persons.persons_len, |value| dictionary.code(value));
        let parts = dictionary.finish()?;
        let codes_start = out.position();
        for block in codes.chunks(1 << 16) {
            out.write_all(&block.iter().flat_map(|code| code.to_le_bytes()).collect::<Vec<u8>>())?;
        }
        let footer_start = out.position();
        for number in [codes_start, codes.len() as u64, parts.len() as u64] {
            out.write_all(&number.to_le_bytes())?;
        }
        for (entries, start, end) in parts {
            for number in [entries, start, end] {
                out.write_all(&number.to_le_bytes())?;
            }
        }
        write_text(&mut out, name)?;
        let length = u32::try_from(out.position() - footer_start).map_err(io::Error::other)?;
        out.write_all(&length.to_le_bytes())?;
        out.finish()
    }
}

/// The checkpoint that a column file belongs to.
pub(super) fn checkpoint_of(file: &str) -> Option<&str> {
    let (checkpoint, hash) = file.strip_suffix(EXTENSION)?.strip_suffix('.')?.rsplit_once('-')?;
    Uuid::try_parse(hash).is_ok().then_some(checkpoint)
}

/// Writes a dictionary part by part.
struct DictionaryWriter<'a> {
    out: &'a mut FileWriter,
    part: Interner,
    /// Code of the part's first entry.
    first: u32,
    /// Entries, start and end of each part in the file.
    parts: Vec<(u64, u64, u64)>,
    failure: Option<io::Error>,
}

impl<'a> DictionaryWriter<'a> {
    fn new(out: &'a mut FileWriter) -> Self {
        Self { out, part: Interner::default(), first: 0, parts: Vec::new(), failure: None }
    }

    fn code(&mut self, value: Value<'_>) -> u32 {
        // Only the first part interns: if it fills up, the values are mostly unique.
        let known = if self.parts.is_empty() { self.part.find(value) } else { None };
        if let Some(code) = known {
            return code;
        }
        if self.part.dictionary.text_bytes() >= PART_BYTES {
            self.end_part();
        }
        let interns = self.parts.is_empty() && self.part.dictionary.len() < INTERNED_MAX;
        self.first
            + match interns {
                true => self.part.intern(value),
                false => self.part.dictionary.push(value),
            }
    }

    fn end_part(&mut self) {
        let part = std::mem::take(&mut self.part).dictionary;
        let start = self.out.position();
        if let Err(error) = part.write_entries(self.out) {
            self.failure.get_or_insert(error);
        }
        self.parts.push((part.len() as u64, start, self.out.position()));
        self.first += part.len() as u32;
    }

    fn finish(mut self) -> io::Result<Vec<(u64, u64, u64)>> {
        self.end_part();
        self.failure.map_or(Ok(self.parts), Err)
    }
}

struct Footer {
    name: String,
    codes: (usize, usize),
    parts: Vec<(usize, usize, usize)>,
}

impl Footer {
    fn read(file: &Bytes) -> Option<Self> {
        let (rest, length) = file.split_last_chunk()?;
        let start = rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
        let mut cursor = Cursor(&rest[start..]);
        let mut number = || usize::try_from(cursor.u64()?).ok();
        let (codes, count) = ((number()?, number()?), number()?);
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push((number()?, number()?, number()?));
        }
        let name = cursor.text()?.to_owned();
        Some(Self { name, codes, parts })
    }
}

fn read(path: &Path, name: &str) -> Option<MappedColumn> {
    let file = mapped_file::open(path).ok()?;
    let footer = Footer::read(&file).filter(|footer| footer.name == name)?;
    let slice = |start: usize, end: usize| {
        (start <= end && end <= file.len()).then(|| file.slice(start..end))
    };
    let (start, count) = footer.codes;
    let codes = slice(start, start.checked_add(count.checked_mul(4)?)?)?;
    let mut dictionary = MappedEntries::default();
    for (count, start, end) in footer.parts {
        if !dictionary.push(count, &slice(start, end)?) {
            return None;
        }
    }
    Some(MappedColumn { codes, dictionary })
}
