//! The `sessions` table, computed from events with a `$session_id` (contract, 5.4).
//!
//! A session is computed from all its events, whatever the query filters. The sessions of stored
//! events are cached with the segments that they are computed from ([`StoredSessions`]): a statement
//! adds the parts of sessions that it is the first to read, the rows of new segments, and for itself
//! the rows in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryBuilder, Float64Array, Int64Array,
    StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow::datatypes::UInt32Type;
use facts::{ReadView, channel_type, url_host, url_path};
use model::ProjectId;
use warehouse::{ColumnKey, Dictionary, Filter, Interner, Projection, SegmentSet, Snapshot, Value};

use super::dictionary_strings::text;
use super::fields::column_index;
use super::persons::string_lists;
use super::session_parts::{EntryCodes, NONE, Part, Strings, Values, string};
use crate::error::{Error, Result, UNEXPECTED};
use crate::lower::Lowering;

const MICROS: i64 = 1_000_000;
/// Sessions shorter than this, without a second pageview or an autocapture, are bounces
/// (contract, 5.4).
const BOUNCE_SECONDS: u64 = 10;
/// The sessions of smaller dictionaries are looked up again for each query. Tests have small ones.
const CACHED_ENTRIES_MIN: usize = if cfg!(debug_assertions) { 16 } else { 4_096 };

/// Sessions of the rows of some segments, as far as they were read. Rows are numbered from 0 on.
#[derive(Default)]
pub(super) struct StoredSessions {
    segments: SegmentSet,
    ids: Interner,
    parts: Mutex<BTreeMap<Part, Arc<Values>>>,
    rows: Mutex<Vec<DictionaryRows>>,
    /// How many bytes the cache counts for it.
    cached_bytes: AtomicUsize,
}

/// The sessions' rows of a dictionary's entries; [`NONE`] for an entry without a session.
struct DictionaryRows {
    /// Its address identifies the dictionary, and is not used again while this exists.
    dictionary: Weak<Dictionary>,
    rows: Arc<[u32]>,
}

/// The sessions of a query.
pub(crate) struct Sessions {
    stored: Arc<StoredSessions>,
    /// Ids of sessions that only rows in memory have; their rows follow the stored ones.
    new_ids: Interner,
    parts: BTreeMap<Part, Arc<Values>>,
}

/// Numbers sessions: those of `stored` first, then new ones.
struct Numbering<'a> {
    stored: Option<&'a StoredSessions>,
    new: Interner,
}

impl Numbering<'_> {
    fn row(&mut self, id: &str) -> u32 {
        let known = self.stored.and_then(|stored| stored.ids.find(Value::Text(id)));
        known.unwrap_or_else(|| self.first_new() + self.new.intern(Value::Text(id)))
    }

    fn first_new(&self) -> u32 {
        self.stored.map_or(0, |stored| stored.ids.dictionary.len() as u32)
    }

    fn sessions(&self) -> usize {
        self.first_new() as usize + self.new.dictionary.len()
    }
}

fn interner_bytes(interner: &Interner) -> usize {
    interner.dictionary.memory_bytes() + interner.table_bytes()
}

impl Lowering {
    pub(super) fn sessions(&self) -> Result<Arc<Sessions>> {
        let sessions = self.loaded_sessions();
        sessions.ok_or_else(|| Error::engine(UNEXPECTED, "sessions were not loaded"))
    }

    pub(super) async fn load_sessions(&mut self) -> Result<()> {
        if self.loaded_sessions().is_some() {
            return Ok(());
        }
        let columns = self.session_columns.iter();
        let wanted: BTreeSet<Part> =
            columns.filter_map(|column| Part::of_column(column)).flatten().collect();
        let stored = self.stored_sessions(&wanted).await?;
        let mut parts = stored.parts(&wanted);
        let in_memory = self.view.events.in_memory();
        let mut numbering = Numbering { stored: Some(&stored), new: Interner::default() };
        self.scan_sessions(&in_memory, &mut parts, &mut numbering).await?;
        let new_ids = numbering.new;
        self.set_sessions(Arc::new(Sessions { stored, new_ids, parts }));
        Ok(())
    }

    /// The sessions of all stored events, with at least these parts.
    async fn stored_sessions(&self, wanted: &BTreeSet<Part>) -> Result<Arc<StoredSessions>> {
        let events = &self.view.events;
        let segments = events.segment_set();
        let known = events.cached_derived::<StoredSessions>();
        let known =
            known.filter(|known| self.paths.sessions && known.segments.is_within(&segments));
        let before = self.retained_bytes();
        let stored = match known {
            Some(known) if known.segments == segments => known,
            known => Arc::new(self.grown_sessions(known.as_deref(), segments, wanted).await?),
        };
        let has = stored.parts(wanted);
        let mut missing: BTreeMap<Part, Arc<Values>> = wanted
            .iter()
            .filter(|part| !has.contains_key(part))
            .map(|part| (*part, Arc::new(part.empty())))
            .collect();
        if !missing.is_empty() {
            let stored_events = events.segments_besides(&SegmentSet::default());
            let mut numbering = Numbering { stored: Some(&stored), new: Interner::default() };
            self.scan_sessions(&stored_events, &mut missing, &mut numbering).await?;
            stored.lock_parts().append(&mut missing);
        }
        let bytes = stored.memory_bytes();
        let is_cached = self.paths.sessions
            && (stored.cached_bytes.swap(bytes, Ordering::Relaxed) == bytes
                || events.cache_derived(&stored, bytes));
        if is_cached {
            // The cache counts it instead.
            self.release(self.retained_bytes().saturating_sub(before));
        }
        Ok(stored)
    }

    /// The sessions of these segments: known ones with the rows of the segments that they lack, or all
    /// anew.
    async fn grown_sessions(
        &self,
        known: Option<&StoredSessions>,
        segments: SegmentSet,
        wanted: &BTreeSet<Part>,
    ) -> Result<StoredSessions> {
        let mut parts = match known {
            Some(known) => known.lock_parts().clone(),
            None => wanted.iter().map(|part| (*part, Arc::new(part.empty()))).collect(),
        };
        let none = SegmentSet::default();
        let read = known.map_or(&none, |known| &known.segments);
        let mut numbering = Numbering { stored: known, new: Interner::default() };
        let new = self.view.events.segments_besides(read);
        let mut rows = self.scan_sessions(&new, &mut parts, &mut numbering).await?;
        let ids = match known {
            None => numbering.new,
            Some(known) => {
                rows.extend(known.take_rows());
                self.retain(interner_bytes(&known.ids))?;
                let mut ids = known.ids.clone();
                for id in numbering.new.dictionary.iter() {
                    ids.intern(id);
                }
                ids
            }
        };
        let (parts, rows) = (Mutex::new(parts), Mutex::new(rows));
        Ok(StoredSessions { segments, ids, parts, rows, cached_bytes: AtomicUsize::new(0) })
    }

    /// Adds events to parts of sessions, and returns the sessions' rows of their dictionaries.
    async fn scan_sessions(
        &self,
        events: &Snapshot,
        parts: &mut BTreeMap<Part, Arc<Values>>,
        numbering: &mut Numbering<'_>,
    ) -> Result<Vec<DictionaryRows>> {
        let mut columns = Projection {
            keys: vec![ColumnKey::Property("$session_id".to_owned())],
            timestamps: parts.keys().any(|part| part.reads_time()),
            distinct_nos: parts.contains_key(&Part::DistinctNo),
            created_at: parts.contains_key(&Part::InsertedAt),
            ..Projection::default()
        };
        let mut read = Vec::with_capacity(parts.len());
        for part in parts.keys() {
            let column = part.key().map(|key| column_index(key, &mut columns));
            read.push((column, EntryCodes::default()));
        }
        let (mut ids, mut known) = (EntryCodes::default(), Vec::new());
        let filter = Filter::default();
        let mut charged = 0;
        for range in events.scan_ranges(&filter)? {
            tokio::task::yield_now().await;
            self.cancellation.check()?;
            let batch = range.read(&filter, &columns)?;
            if batch.rows == 0 {
                continue;
            }
            if let Some(before) = ids.fill(&batch.columns[0], &mut |id| numbering.row(id)) {
                record(&mut known, before);
            }
            let codes = batch.columns[0].codes.iter();
            let rows: Vec<u32> = codes.map(|code| ids.get(*code)).collect();
            let sessions = numbering.sessions();
            for ((column, entries), values) in read.iter_mut().zip(parts.values_mut()) {
                let column = column.map(|column| &batch.columns[column]);
                // Clones what others share.
                Arc::make_mut(values).add(&rows, sessions, &batch, column, entries);
            }
            let values = parts.values().map(|values| values.memory_bytes()).sum::<usize>();
            let bytes = values + interner_bytes(&numbering.new);
            self.retain(bytes.saturating_sub(charged))?;
            charged = charged.max(bytes);
        }
        if let Some(last) = ids.take() {
            record(&mut known, last);
        }
        known.retain(DictionaryRows::is_worthwhile);
        Ok(known)
    }
}

/// Records the rows of a dictionary's entries. Ranges of one dictionary can have another between them.
fn record(known: &mut Vec<DictionaryRows>, (dictionary, mut rows): (Arc<Dictionary>, Vec<u32>)) {
    if let Some(at) = known.iter().position(|known| known.is_of(&dictionary)) {
        let before = known.swap_remove(at);
        for (row, before) in rows.iter_mut().zip(&*before.rows) {
            *row = (*row).min(*before);
        }
    }
    known.push(DictionaryRows::new(&dictionary, rows));
}

impl DictionaryRows {
    fn new(dictionary: &Arc<Dictionary>, rows: Vec<u32>) -> Self {
        Self { dictionary: Arc::downgrade(dictionary), rows: rows.into() }
    }

    /// Whether it is large, and the cache has not evicted its dictionary.
    fn is_worthwhile(&self) -> bool {
        self.rows.len() >= CACHED_ENTRIES_MIN && self.dictionary.strong_count() > 0
    }

    fn is_of(&self, dictionary: &Arc<Dictionary>) -> bool {
        std::ptr::eq(self.dictionary.as_ptr(), Arc::as_ptr(dictionary))
    }
}

impl StoredSessions {
    fn lock_parts(&self) -> std::sync::MutexGuard<'_, BTreeMap<Part, Arc<Values>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of the wanted parts that it has.
    fn parts(&self, wanted: &BTreeSet<Part>) -> BTreeMap<Part, Arc<Values>> {
        let parts = self.lock_parts();
        wanted.iter().filter_map(|part| Some((*part, parts.get(part)?.clone()))).collect()
    }

    fn take_rows(&self) -> Vec<DictionaryRows> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let clone = |known: &DictionaryRows| DictionaryRows {
            dictionary: known.dictionary.clone(),
            rows: known.rows.clone(),
        };
        // An entry without a row may have one among more segments.
        let is_complete = |known: &&DictionaryRows| !known.rows.contains(&NONE);
        rows.iter().filter(|known| known.is_worthwhile()).filter(is_complete).map(clone).collect()
    }

    /// The stored sessions' rows of a dictionary's entries.
    fn rows_of(&self, dictionary: &Arc<Dictionary>) -> Arc<[u32]> {
        let lock = || self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().iter().find(|known| known.is_of(dictionary)) {
            return known.rows.clone();
        }
        let row = |value: Value<'_>| {
            let id = text(value, &[]);
            id.and_then(|id| self.ids.find(Value::Text(&id))).unwrap_or(NONE)
        };
        let new = DictionaryRows::new(dictionary, dictionary.iter().map(row).collect());
        let rows = new.rows.clone();
        if rows.len() >= CACHED_ENTRIES_MIN {
            let mut known = lock();
            known.retain(DictionaryRows::is_worthwhile);
            known.push(new);
        }
        rows
    }

    fn memory_bytes(&self) -> usize {
        let parts = self.lock_parts().values().map(|values| values.memory_bytes()).sum::<usize>();
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = rows.iter().map(|known| size_of_val(&*known.rows)).sum::<usize>();
        interner_bytes(&self.ids) + parts + rows
    }
}

impl Sessions {
    pub(super) fn rows(&self) -> usize {
        self.stored.ids.dictionary.len() + self.new_ids.dictionary.len()
    }

    /// The rows of a dictionary's entries; [`NONE`] for an entry without a session.
    pub(super) fn rows_of(&self, dictionary: &Arc<Dictionary>) -> Arc<[u32]> {
        let stored = self.stored.rows_of(dictionary);
        if self.new_ids.dictionary.is_empty() {
            return stored;
        }
        let first = self.stored.ids.dictionary.len() as u32;
        let mut rows = stored.to_vec();
        for (code, row) in rows.iter_mut().enumerate().filter(|(_, row)| **row == NONE) {
            let id = text(dictionary.get(code as u32), &[]);
            let new = id.and_then(|id| self.new_ids.find(Value::Text(&id)));
            *row = new.map_or(NONE, |new| first + new);
        }
        rows.into()
    }

    fn strings(&self, part: Part) -> Option<&Strings> {
        match &**self.parts.get(&part)? {
            Values::Strings(strings) => Some(strings),
            _ => None,
        }
    }

    /// A column of strings, each a function of the part's.
    fn text_column(&self, part: Part, of: fn(&str) -> &str) -> Option<ArrayRef> {
        let Strings { codes, strings, .. } = self.strings(part)?;
        let entries = 0..strings.dictionary.len() as u32;
        let entries = entries.map(|code| string(strings, code).map(of).unwrap_or_default());
        let codes = codes.iter().map(|code| (*code != NONE).then_some(*code));
        encoded(codes.collect(), StringArray::from_iter_values(entries))
    }

    fn span(&self) -> Option<impl Iterator<Item = (i64, i64)>> {
        let Values::Span { first, last } = &**self.parts.get(&Part::Span)? else { return None };
        Some(first.iter().copied().zip(last.iter().copied()))
    }

    /// Durations: the difference of the two timestamps' whole seconds.
    fn seconds(&self) -> Option<impl Iterator<Item = u64>> {
        let whole = |micros: i64| micros.div_euclid(MICROS);
        Some(self.span()?.map(move |(first, last)| (whole(last) - whole(first)).max(0) as u64))
    }

    fn counts(&self) -> Option<&[[u32; 3]]> {
        match &**self.parts.get(&Part::Counts)? {
            Values::Counts(counts) => Some(counts),
            _ => None,
        }
    }

    /// A column; strings are dictionary-encoded.
    pub(super) fn column(&self, name: &str, view: &ReadView) -> Result<Option<ArrayRef>> {
        match (name, self.parts.get(&Part::DistinctNo).map(|part| &**part)) {
            ("person_id", Some(Values::DistinctNos { nos, .. })) => {
                let mut uuids = FixedSizeBinaryBuilder::with_capacity(nos.len(), 16);
                for no in nos {
                    let person = view.persons.actor(*no);
                    uuids.append_value(view.persons.uuid(person).as_bytes())?;
                }
                Ok(Some(Arc::new(uuids.finish())))
            }
            _ => Ok(self.own_column(name, view.context.project)),
        }
    }

    /// A column that does not depend on who somebody is now.
    fn own_column(&self, name: &str, project: ProjectId) -> Option<ArrayRef> {
        let whole: fn(&str) -> &str = |text| text;
        let counts = |no: usize| -> Option<ArrayRef> {
            let counts = self.counts()?.iter().map(|counts| u64::from(counts[no]));
            Some(Arc::new(UInt64Array::from_iter_values(counts)))
        };
        Some(match name {
            "session_id" => {
                let ids = [&self.stored.ids, &self.new_ids].into_iter();
                let ids = ids.flat_map(|ids| ids.dictionary.iter()).map(|id| match id {
                    Value::Text(id) => id,
                    _ => "",
                });
                Arc::new(StringArray::from_iter_values(ids.collect::<Vec<&str>>()))
            }
            "distinct_id" => {
                let Strings { codes, strings, .. } = self.strings(Part::DistinctId)?;
                let ids = codes.iter().map(|code| string(strings, *code).unwrap_or_default());
                Arc::new(StringArray::from_iter_values(ids))
            }
            "$start_timestamp" => {
                let times = self.span()?.map(|(first, _)| first);
                Arc::new(TimestampMicrosecondArray::from_iter_values(times))
            }
            "$end_timestamp" => {
                let times = self.span()?.map(|(_, last)| last);
                Arc::new(TimestampMicrosecondArray::from_iter_values(times))
            }
            "max_inserted_at" => match &**self.parts.get(&Part::InsertedAt)? {
                Values::InsertedAt(times) => {
                    Arc::new(TimestampMicrosecondArray::from_iter_values(times.iter().copied()))
                }
                _ => return None,
            },
            "$num_uniq_urls" | "$urls" => {
                let Values::Urls { lists, strings } = &**self.parts.get(&Part::Urls)? else {
                    return None;
                };
                if name == "$num_uniq_urls" {
                    let counts = lists.iter().map(|urls| urls.len() as u64);
                    return Some(Arc::new(UInt64Array::from_iter_values(counts)));
                }
                let urls = |list: &Vec<u32>| -> Vec<&str> {
                    list.iter().filter_map(|url| string(strings, *url)).collect()
                };
                let lists: Vec<Vec<&str>> = lists.iter().map(urls).collect();
                string_lists(lists.iter().map(Vec::as_slice))
            }
            "$entry_current_url" => self.text_column(Part::FIRST_URL, whole)?,
            "$entry_pathname" => self.text_column(Part::FIRST_URL, url_path)?,
            "$entry_hostname" => self.text_column(Part::FIRST_URL, url_host)?,
            "$end_current_url" | "$exit_current_url" => self.text_column(Part::LAST_URL, whole)?,
            "$end_pathname" | "$exit_pathname" => self.text_column(Part::LAST_URL, url_path)?,
            "$last_external_click_url" => self.text_column(Part::LAST_CLICK, whole)?,
            "$pageview_count" => counts(0)?,
            "$autocapture_count" => counts(1)?,
            "$screen_count" => counts(2)?,
            "$session_duration" => Arc::new(UInt64Array::from_iter_values(self.seconds()?)),
            "$is_bounce" => {
                let each = self.seconds()?.zip(self.counts()?);
                let is_bounce = each.map(|(seconds, [pageviews, autocaptures, _])| {
                    *pageviews <= 1 && *autocaptures == 0 && seconds < BOUNCE_SECONDS
                });
                Arc::new(is_bounce.map(Some).collect::<BooleanArray>())
            }
            "$channel_type" => {
                let mut channels = Interner::default();
                let codes = (0..self.rows()).map(|row| {
                    let origin = |name: &str| {
                        let strings = self.strings(Part::origin(name)?)?;
                        strings.get(strings.codes[row]).map(str::to_owned)
                    };
                    Some(channels.intern(Value::Text(channel_type(origin))))
                });
                let codes: UInt32Array = codes.collect();
                let entries = 0..channels.dictionary.len() as u32;
                let entries = entries.map(|code| string(&channels, code).unwrap_or_default());
                encoded(codes, StringArray::from_iter_values(entries))?
            }
            "$vitals_lcp" => {
                let strings = self.strings(Part::FIRST_LCP)?;
                let numbers = strings.codes.iter().map(|code| strings.get(*code)?.parse().ok());
                Arc::new(numbers.collect::<Float64Array>())
            }
            "team_id" => Arc::new(Int64Array::from(vec![project.0; self.rows()])),
            other => self.text_column(Part::entry(other)?, whole)?,
        })
    }
}

fn encoded(codes: UInt32Array, strings: StringArray) -> Option<ArrayRef> {
    let column = DictionaryArray::<UInt32Type>::try_new(codes, Arc::new(strings)).ok()?;
    Some(Arc::new(column))
}
