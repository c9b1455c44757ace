//! Snapshots: a consistent view of a project's events.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::Result;
use crate::columns::{ABSENT, EventRow, IntColumn, Tag, Value};
use crate::memtable::LiveBlock;
use crate::read::filter::{ColumnKey, Filter, sorted_ranges, unordered_ranges};
use crate::read::row_set::RowSet;
use crate::read::stats::{ScanCounters, ScanStats};
use crate::segment::LiveSegment;
use crate::segment::cache::CacheReservation;

/// A consistent view. It does not change while flushes, compactions and deletes go on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    project: ProjectId,
    position: u64,
    segments: Arc<Vec<LiveSegment>>,
    blocks: Vec<LiveBlock>,
    pub(crate) counters: Arc<ScanCounters>,
}

/// The segments of a snapshot, each with its number of dead rows, which only grows. Equal sets have
/// the same rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSet(BTreeMap<u64, u64>);

impl SegmentSet {
    /// Whether `other` has all these segments with the same rows.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|(id, dead)| other.0.get(id) == Some(dead))
    }
}

/// A value and the number of events that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueCount {
    /// The value as JSON.
    pub json: String,
    pub events: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    pub events: u64,
    /// Size of all live segments; the memtable is not included.
    pub disk_bytes: u64,
    pub files: u64,
    /// Events that are not durable yet.
    pub events_in_memory: u64,
}

/// Bound of distinct values counted at once. Beyond it the rarest so far are dropped.
const VALUES_MAX: usize = 200_000;

impl Snapshot {
    pub(crate) fn new(
        project: ProjectId,
        position: u64,
        segments: Arc<Vec<LiveSegment>>,
        blocks: Vec<LiveBlock>,
    ) -> Snapshot {
        Snapshot { project, position, segments, blocks, counters: Arc::default() }
    }

    /// The snapshot of a project without events.
    pub fn empty(project: ProjectId) -> Self {
        Self::new(project, 0, Arc::default(), Vec::new())
    }

    pub fn project(&self) -> ProjectId {
        self.project
    }

    /// The first journal position that is not in the snapshot.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// What scans of this snapshot and its clones have read so far.
    pub fn scan_stats(&self) -> ScanStats {
        self.counters.stats()
    }

    pub fn segment_set(&self) -> SegmentSet {
        let dead = |live: &LiveSegment| (live.segment.entry.id, live.dead.len());
        SegmentSet(self.segments.iter().map(dead).collect())
    }

    /// Of this snapshot only the segments that are not in `known`, without rows in memory.
    pub fn segments_besides(&self, known: &SegmentSet) -> Self {
        let is_new = |live: &&LiveSegment| !known.0.contains_key(&live.segment.entry.id);
        let segments = self.segments.iter().filter(is_new).cloned().collect();
        Self { segments: Arc::new(segments), blocks: Vec::new(), ..self.clone() }
    }

    /// Of this snapshot only the rows in memory.
    pub fn in_memory(&self) -> Self {
        Self { segments: Arc::default(), ..self.clone() }
    }

    /// What [`Snapshot::cache_derived`] cached last for the project, from whatever segments.
    pub fn cached_derived<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let cache = &self.segments.first()?.segment.cache;
        cache.derived(self.project.0)?.downcast().ok()
    }

    /// Caches what a reader derived from the segments in the column cache, where it counts as so
    /// many bytes and is evicted as columns are. The reader keeps the [`SegmentSet`] in it, and
    /// caches it again when it grows. Returns whether it is cached now.
    pub fn cache_derived<T: Send + Sync + 'static>(&self, value: &Arc<T>, bytes: usize) -> bool {
        let Some(live) = self.segments.first() else { return false };
        let (cache, value) = (&live.segment.cache, value.clone() as Arc<dyn Any + Send + Sync>);
        cache.put_derived(self.project.0, value.clone(), bytes);
        cache.derived(self.project.0).is_some_and(|cached| Arc::ptr_eq(&cached, &value))
    }

    /// A reservation of cache capacity, for a query that needs much memory of its own.
    pub fn cache_reservation(&self) -> CacheReservation {
        CacheReservation::new(self.segments.first().map(|live| live.segment.cache.clone()))
    }

    /// The row sets that may have matching rows.
    pub(crate) fn row_sets(&self, filter: &Filter) -> Result<Vec<RowSet>> {
        let mut row_sets: Vec<RowSet> = self.blocks.iter().cloned().map(RowSet::Block).collect();
        for live in self.segments.iter().filter(|live| filter.may_hold(&live.segment.entry)) {
            row_sets.extend(live.row_sets()?);
        }
        Ok(row_sets)
    }

    /// The event with this uuid; if several have it, the one appended last.
    pub fn get(&self, uuid: Uuid) -> Result<Option<EventRow>> {
        let mut rows_found: Vec<EventRow> = Vec::new();
        let bytes = uuid.into_bytes();
        for live in &self.blocks {
            let rows = live.block.fixed.uuids.iter().enumerate();
            let matching =
                rows.filter(|(row, uuid)| **uuid == bytes && !live.dead.contains(*row as u32));
            rows_found.extend(matching.map(|(row, _)| live.block.row(row)));
        }
        for live in self.segments.iter().filter(|live| live.segment.entry.uuids.may_hold(&uuid)) {
            for row_set in live.row_sets()? {
                let RowSet::RowGroup { group, .. } = &row_set else { continue };
                if !live.segment.filter(*group)?.check(bytes.as_slice()) {
                    continue;
                }
                for page in live.segment.uuid_pages(*group, 0..row_set.rows(), &[bytes])? {
                    let uuids = live.segment.uuids(*group, page.clone())?;
                    let rows = uuids.iter().enumerate().filter(|(_, uuid)| **uuid == bytes);
                    let rows = rows.map(|(at, _)| page.start + at);
                    let rows: Vec<usize> = rows.filter(|row| !row_set.is_dead(*row)).collect();
                    rows_found.extend(row_set.event_rows(&rows)?);
                }
            }
        }
        Ok(rows_found.into_iter().max_by_key(|row| row.position))
    }

    pub fn count(&self, filter: &Filter) -> Result<u64> {
        let row_sets = self.row_sets(filter)?;
        let mut count = 0;
        // A run lists its number of rows, which suffices if no other column is filtered.
        let event_and_time_only = filter.is_event_and_time_only();
        let ranges = if event_and_time_only {
            sorted_ranges(&row_sets, filter)?
        } else {
            unordered_ranges(&row_sets, filter)?
        };
        for range in ranges {
            let row_set = &row_sets[range.row_set];
            let all_in_range = filter.matches_time(range.from) && filter.matches_time(range.to);
            if event_and_time_only && all_in_range && range.event.is_some() {
                let dead = || range.rows.clone().filter(|row| row_set.is_dead(*row)).count();
                count += range.rows.len() - if row_set.any_dead() { dead() } else { 0 };
                continue;
            }
            let times = row_set.ints(IntColumn::Timestamp, range.rows.clone())?;
            let mask = filter.mask(row_set, range.rows.clone(), &times, range.events_match)?;
            count += mask.into_iter().filter(|mask| *mask).count();
        }
        Ok(count as u64)
    }

    /// The most frequent values of `key` among the matching events, restricted to those that pass
    /// `test`. Events without a value are not counted.
    pub fn values(
        &self,
        key: &ColumnKey,
        filter: &Filter,
        test: &dyn Fn(Value<'_>) -> bool,
        limit: usize,
    ) -> Result<Vec<ValueCount>> {
        let row_sets = self.row_sets(filter)?;
        let mut counts: HashMap<(u8, Box<str>), u64> = HashMap::new();
        for range in unordered_ranges(&row_sets, filter)? {
            let row_set = &row_sets[range.row_set];
            let rows = range.rows.clone();
            let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
            let mask = filter.mask(row_set, rows.clone(), &times, range.events_match)?;
            if !mask.contains(&true) {
                continue;
            }
            let column = key.column(row_set, rows)?;
            let mut by_code = vec![0u64; column.dictionary.len()];
            for (code, _) in column.codes.iter().zip(mask).filter(|(_, mask)| *mask) {
                if *code != ABSENT {
                    by_code[*code as usize] += 1;
                }
            }
            for (value, events) in column.dictionary.iter().zip(by_code) {
                if events > 0 && test(value) {
                    *counts.entry((value.tag() as u8, value.text().into())).or_default() += events;
                }
            }
            drop_rarest(&mut counts);
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts
            .sort_unstable_by(|(a, a_events), (b, b_events)| b_events.cmp(a_events).then(a.cmp(b)));
        counts.truncate(limit);
        let to_count = |((tag, text), events): ((u8, Box<str>), u64)| {
            let tag = [Tag::Null, Tag::False, Tag::True, Tag::Number, Tag::Text, Tag::Json]
                .into_iter()
                .find(|candidate| *candidate as u8 == tag);
            let value = Value::new(tag.unwrap_or(Tag::Null), &text);
            ValueCount { json: value.to_json(), events }
        };
        Ok(counts.into_iter().map(to_count).collect())
    }

    pub fn totals(&self) -> Totals {
        let on_disk: u64 =
            self.segments.iter().map(|live| live.segment.entry.rows - live.dead.len()).sum();
        let in_memory: u64 =
            self.blocks.iter().map(|live| live.block.rows() as u64 - live.dead.len()).sum();
        Totals {
            events: on_disk + in_memory,
            disk_bytes: self.segments.iter().map(|live| live.segment.entry.bytes).sum(),
            files: self.segments.len() as u64,
            events_in_memory: in_memory,
        }
    }

    /// The minimum and maximum timestamp. Dead rows may widen the range.
    pub fn time_range(&self) -> Option<(Timestamp, Timestamp)> {
        let segments = self.segments.iter().map(|live| &live.segment.entry);
        let segments = segments.map(|entry| (entry.from, entry.to));
        let times = self.blocks.iter().map(|live| &live.block.fixed.timestamps);
        let blocks = times.filter_map(|times| Some((*times.iter().min()?, *times.iter().max()?)));
        let (from, to) = segments.chain(blocks).reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))?;
        Some((Timestamp::from_micros(from), Timestamp::from_micros(to)))
    }
}

fn drop_rarest(counts: &mut HashMap<(u8, Box<str>), u64>) {
    if counts.len() > VALUES_MAX {
        let mut events: Vec<u64> = counts.values().copied().collect();
        let (_, median, _) = events.select_nth_unstable(VALUES_MAX / 2);
        let median = *median;
        counts.retain(|_, events| *events > median);
    }
}
