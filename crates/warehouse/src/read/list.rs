//! Lists of events by time, with pagination.
//!
//! Row groups are sorted by event, then by time, so every run is a sorted stream. A k-way merge reads
//! pages from the streams, always from the one whose next timestamp may come first, until the events
//! found come before everything unread.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use model::Timestamp;
use uuid::Uuid;

use crate::columns::{Column, EventRow, Field, IntColumn};
use crate::read::filter::{Filter, RowRange, sorted_ranges};
use crate::read::row_set::RowSet;
use crate::read::scan::{Batch, Projection};
use crate::read::snapshot::Snapshot;
use crate::segment::chunk::PAGE_ROWS;
use crate::{Error, Result};

/// Candidates beyond twice the bound of [`TopEvents`] before it sorts and truncates.
const TOP_SLACK: usize = 64;

/// Bound of limit plus offset; a longer list is truncated.
const LIST_EVENTS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// The position of an event in a list, for keyset pagination. Its string form is opaque to clients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    timestamp: i64,
    uuid: Uuid,
    // Another name or distinct id is another event, even with the same uuid.
    event: Arc<str>,
    distinct_no: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Window {
    pub order: Order,
    pub limit: usize,
    /// Events to skip; costs as much as finding them.
    pub offset: usize,
    /// Return only events after this one.
    pub resume: Option<Cursor>,
}

#[derive(Clone, Debug)]
pub struct Listing {
    pub events: Vec<EventRow>,
    /// The cursor of the last event, if there are more after it.
    pub next: Option<Cursor>,
}

/// The rows of a list that are found but not read yet: a few bytes per event.
#[derive(Debug)]
pub struct EventSelection {
    row_sets: Vec<RowSet>,
    /// Index of the row set, and row in it.
    rows: Vec<(usize, usize)>,
    next: Option<Cursor>,
}

/// Columns of some events of a selection.
#[derive(Debug)]
pub struct SelectedBatch {
    /// The indexes of its rows in the selection.
    pub events: Vec<usize>,
    pub batch: Batch,
}

impl EventSelection {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The cursor of the last event, if there are more after it.
    pub fn next(&self) -> Option<&Cursor> {
        self.next.as_ref()
    }

    /// Columns of a range of the events, clipped to the end of the list. One batch for each place where
    /// events are stored.
    pub fn read_columns(
        &self,
        events: Range<usize>,
        columns: &Projection,
    ) -> Result<Vec<SelectedBatch>> {
        let end = events.end.min(self.rows.len());
        let mut by_row_set: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in events.start.min(end)..end {
            by_row_set.entry(self.rows[at].0).or_default().push(at);
        }
        let batch = |(row_set, events): (usize, Vec<usize>)| {
            let rows: Vec<usize> = events.iter().map(|at| self.rows[*at].1).collect();
            let batch = Batch::read_rows(&self.row_sets[row_set], &rows, columns)?;
            Ok(SelectedBatch { events, batch })
        };
        by_row_set.into_iter().map(batch).collect()
    }

    /// Reads a range of the events, clipped to the end of the list.
    pub fn read(&self, events: Range<usize>) -> Result<Vec<EventRow>> {
        let end = events.end.min(self.rows.len());
        fetch(&self.row_sets, &self.rows[events.start.min(end)..end])
    }
}

impl Cursor {
    pub fn new(timestamp: Timestamp, uuid: Uuid, event: &str, distinct_no: u32) -> Cursor {
        Cursor { timestamp: timestamp.as_micros(), uuid, event: event.into(), distinct_no }
    }

    pub fn of(row: &EventRow) -> Cursor {
        Cursor {
            timestamp: row.timestamp.as_micros(),
            uuid: row.uuid,
            event: row.event.clone(),
            distinct_no: row.distinct_no,
        }
    }

    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_micros(self.timestamp)
    }

    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    pub fn event(&self) -> &str {
        &self.event
    }

    pub fn distinct_no(&self) -> u32 {
        self.distinct_no
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uuid, number) = (self.uuid.simple(), self.distinct_no);
        write!(f, "{}.{uuid}.{number}.", self.timestamp)?;
        self.event.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cursor> {
        let parse = || {
            let mut parts = text.splitn(4, '.');
            let timestamp = parts.next()?.parse().ok()?;
            let uuid = parts.next()?.parse().ok()?;
            let distinct_no = parts.next()?.parse().ok()?;
            let hex = parts.next()?.as_bytes();
            if hex.len() % 2 != 0 {
                return None;
            }
            let digit = |byte: u8| (byte as char).to_digit(16);
            let byte = |two: &[u8]| Some((digit(two[0])? * 16 + digit(two[1])?) as u8);
            let event: Vec<u8> = hex.chunks(2).map(byte).collect::<Option<_>>()?;
            let event = String::from_utf8(event).ok()?.into();
            Some(Cursor { timestamp, uuid, event, distinct_no })
        };
        parse().ok_or(Error::Cursor)
    }
}

impl Order {
    fn compare<T: Ord>(self, a: &T, b: &T) -> Ordering {
        match self {
            Order::NewestFirst => b.cmp(a),
            Order::OldestFirst => a.cmp(b),
        }
    }

    /// Maps a timestamp so that the smaller one comes first.
    fn rank(self, time: i64) -> i64 {
        match self {
            Order::NewestFirst => !time,
            Order::OldestFirst => time,
        }
    }

    fn near_end(self, range: &RowRange) -> i64 {
        match self {
            Order::NewestFirst => range.to,
            Order::OldestFirst => range.from,
        }
    }
}

struct Candidate {
    cursor: Cursor,
    row_set: usize,
    row: usize,
}

/// The first events found so far: a top-n selection.
struct TopEvents {
    order: Order,
    count_max: usize,
    candidates: Vec<Candidate>,
    /// The timestamp of the n-th event: later ones in list order cannot be among the first n.
    last: Option<i64>,
}

impl TopEvents {
    fn may_include(&self, time: i64) -> bool {
        self.last.is_none_or(|last| self.order.rank(time) <= self.order.rank(last))
    }

    fn add(&mut self, candidate: Candidate) {
        self.candidates.push(candidate);
        if self.candidates.len() >= 2 * self.count_max + TOP_SLACK {
            self.truncate_to_max();
        }
    }

    fn truncate_to_max(&mut self) {
        let order = self.order;
        self.candidates.sort_unstable_by(|a, b| order.compare(&a.cursor, &b.cursor));
        self.candidates.truncate(self.count_max);
        if self.candidates.len() == self.count_max {
            self.last = self.candidates.last().map(|last| last.cursor.timestamp);
        }
    }
}

impl Snapshot {
    /// A page of the matching events.
    pub fn list(&self, filter: &Filter, window: &Window) -> Result<Listing> {
        let selection = self.select(filter, window)?;
        Ok(Listing { events: selection.read(0..selection.len())?, next: selection.next })
    }

    /// Finds a page of the matching events; the caller reads it in ranges.
    pub fn select(&self, filter: &Filter, window: &Window) -> Result<EventSelection> {
        let row_sets = self.row_sets(filter)?;
        // One more event tells whether there is another page.
        let count_max = window.offset.saturating_add(window.limit).min(LIST_EVENTS_MAX) + 1;
        let order = window.order;
        let mut top = TopEvents { order, count_max, candidates: Vec::new(), last: None };
        let mut streams: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
        let mut sorted_ranges = sorted_ranges(&row_sets, filter)?;
        for (at, range) in sorted_ranges.iter().enumerate() {
            streams.push(Reverse((order.rank(order.near_end(range)), at)));
        }
        while let Some(Reverse((_, at))) = streams.pop() {
            let range = &mut sorted_ranges[at];
            if !top.may_include(order.near_end(range)) {
                break;
            }
            let row_set = &row_sets[range.row_set];
            let rows = next_rows(range, order);
            let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
            let part = RangeSlice { row_set, range, rows: rows.clone(), times: &times };
            self.counters.add_scanned(rows.len(), 0);
            if let Some(part) = part.in_reach(filter, window, &top) {
                part.collect(filter, window, &mut top)?;
            }
            top.truncate_to_max();
            shorten(range, &rows, &times, order);
            if !range.rows.is_empty() {
                streams.push(Reverse((order.rank(order.near_end(range)), at)));
            }
        }
        top.truncate_to_max();
        let more = top.candidates.len() == count_max;
        let mut chosen = top.candidates;
        chosen.truncate(count_max - 1);
        chosen.drain(..window.offset.min(chosen.len()));
        let next = chosen.last().filter(|_| more).map(|last| last.cursor.clone());
        let rows: Vec<_> = chosen.into_iter().map(|chosen| (chosen.row_set, chosen.row)).collect();
        self.counters.add_matched(rows.len());
        self.counters.add_segments(row_sets.iter().filter_map(RowSet::segment_id));
        Ok(EventSelection { row_sets, rows, next })
    }
}

/// The next page of a sorted range in list order, or all of an unsorted one.
fn next_rows(range: &RowRange, order: Order) -> Range<usize> {
    let Range { start, end } = range.rows;
    match (range.event.is_some(), order) {
        (false, _) => start..end,
        (true, Order::NewestFirst) => start.max((end - 1) / PAGE_ROWS * PAGE_ROWS)..end,
        (true, Order::OldestFirst) => start..end.min((start / PAGE_ROWS + 1) * PAGE_ROWS),
    }
}

fn shorten(range: &mut RowRange, done: &Range<usize>, times: &[i64], order: Order) {
    if range.event.is_none() {
        range.rows = done.end..done.end;
        return;
    }
    match order {
        Order::NewestFirst => {
            range.rows.end = done.start;
            range.to = times.first().copied().unwrap_or(range.to);
        }
        Order::OldestFirst => {
            range.rows.start = done.end;
            range.from = times.last().copied().unwrap_or(range.from);
        }
    }
}

/// Some rows of a range, with their timestamps.
struct RangeSlice<'a> {
    row_set: &'a RowSet,
    range: &'a RowRange,
    rows: Range<usize>,
    times: &'a [i64],
}

impl<'a> RangeSlice<'a> {
    /// Narrows to the rows between the first and the last candidate by time, so that other columns
    /// are not decoded for more.
    fn in_reach(self, filter: &Filter, window: &Window, top: &TopEvents) -> Option<RangeSlice<'a>> {
        let rank = |time: i64| top.order.rank(time);
        let resumed = |time: i64| {
            window.resume.as_ref().is_none_or(|resume| rank(time) >= rank(resume.timestamp))
        };
        let matters =
            |time: &i64| resumed(*time) && top.may_include(*time) && filter.matches_time(*time);
        let first = self.times.iter().position(matters)?;
        let last = self.times.iter().rposition(matters)?;
        let rows = self.rows.start + first..self.rows.start + last + 1;
        Some(RangeSlice { rows, times: &self.times[first..=last], ..self })
    }

    fn collect(&self, filter: &Filter, window: &Window, top: &mut TopEvents) -> Result<()> {
        let events_match = self.range.events_match;
        let mask = filter.mask(self.row_set, self.rows.clone(), self.times, events_match)?;
        if !mask.contains(&true) {
            return Ok(());
        }
        let columns = CursorColumns::read(self)?;
        // In list order, so that most of the rest is rejected by its timestamp alone.
        let mut candidates: Vec<usize> = (0..mask.len()).filter(|at| mask[*at]).collect();
        if window.order == Order::NewestFirst {
            candidates.reverse();
        }
        for at in candidates {
            if !top.may_include(self.times[at]) {
                continue;
            }
            let cursor = columns.cursor(at, self.times[at]);
            let is_after =
                |resume: &Cursor| top.order.compare(&cursor, resume) == Ordering::Greater;
            if window.resume.as_ref().is_none_or(is_after) {
                let (row_set, row) = (self.range.row_set, self.rows.start + at);
                top.add(Candidate { cursor, row_set, row });
            }
        }
        Ok(())
    }
}

/// The columns that make up a row's cursor.
struct CursorColumns<'a> {
    uuids: Cow<'a, [[u8; 16]]>,
    distinct_nos: Cow<'a, [u32]>,
    names: Names,
}

enum Names {
    One(Arc<str>),
    Many(Column),
}

impl<'a> CursorColumns<'a> {
    fn read(part: &RangeSlice<'a>) -> Result<CursorColumns<'a>> {
        let rows = || part.rows.clone();
        Ok(CursorColumns {
            uuids: part.row_set.uuids(rows())?,
            distinct_nos: part.row_set.distinct_nos(rows())?,
            names: match &part.range.event {
                Some(event) => Names::One(event.clone()),
                None => Names::Many(part.row_set.column_or_absent(&Field::Event, rows())?),
            },
        })
    }

    fn cursor(&self, at: usize, timestamp: i64) -> Cursor {
        let event = match &self.names {
            Names::One(event) => event.clone(),
            Names::Many(events) => events.dictionary.get(events.codes[at]).text().into(),
        };
        let uuid = Uuid::from_bytes(self.uuids[at]);
        Cursor { timestamp, uuid, event, distinct_no: self.distinct_nos[at] }
    }
}

fn fetch(row_sets: &[RowSet], chosen: &[(usize, usize)]) -> Result<Vec<EventRow>> {
    let mut by_row_set: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (row_set, _)) in chosen.iter().enumerate() {
        by_row_set.entry(*row_set).or_default().push(at);
    }
    let mut events: Vec<Option<EventRow>> = vec![None; chosen.len()];
    for (row_set, indexes) in by_row_set {
        let rows: Vec<usize> = indexes.iter().map(|at| chosen[*at].1).collect();
        for (at, row) in indexes.into_iter().zip(row_sets[row_set].event_rows(&rows)?) {
            events[at] = Some(row);
        }
    }
    Ok(events.into_iter().flatten().collect())
}
