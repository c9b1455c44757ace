//! Lists of events by time, page by page.
//!
//! Row groups are sorted by event and then time, so every run of an event is a stream in the order
//! of time. The streams are read from their near ends, page by page, always the one that may have
//! the nearest time, until enough events are nearer than all that is left.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use model::Timestamp;
use uuid::Uuid;

use crate::columns::Column;
use crate::columns::EventRow;
use crate::columns::{Field, IntColumn};
use crate::read::filter::{Filter, RowRange, sorted_ranges};
use crate::read::row_set::RowSet;
use crate::read::snapshot::Snapshot;
use crate::segment::chunk::PAGE_ROWS;
use crate::{Error, Result};

/// Limit and offset together; a longer list is cut here.
const LIST_EVENTS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// The place of an event in a list. Its text is opaque to clients.
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
    /// Events to pass over; costs as much as reading them.
    pub offset: usize,
    /// Only events behind this place.
    pub resume: Option<Cursor>,
}

#[derive(Clone, Debug)]
pub struct Listing {
    pub events: Vec<EventRow>,
    /// The place of the last event, when there are more behind it.
    pub next: Option<Cursor>,
}

/// The events of a list, found but not read: a few bytes for each.
#[derive(Debug)]
pub struct EventSelection {
    row_sets: Vec<RowSet>,
    /// RowSet and row.
    rows: Vec<(usize, usize)>,
    next: Option<Cursor>,
}

impl EventSelection {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The place of the last event, when there are more behind it.
    pub fn next(&self) -> Option<&Cursor> {
        self.next.as_ref()
    }

    /// Some of the events, in their order; those past the end are none.
    pub fn read(&self, events: Range<usize>) -> Result<Vec<EventRow>> {
        let end = events.end.min(self.rows.len());
        fetch(&self.row_sets, &self.rows[events.start.min(end)..end])
    }
}

impl Cursor {
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

    /// Times as numbers of which the smaller one comes first.
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
    place: Cursor,
    row_set: usize,
    row: usize,
}

/// The best so far.
struct TopEvents {
    order: Order,
    wanted: usize,
    candidates: Vec<Candidate>,
    /// Nothing behind this time can be among the wanted.
    last: Option<i64>,
}

impl TopEvents {
    fn may_take(&self, time: i64) -> bool {
        self.last.is_none_or(|last| self.order.rank(time) <= self.order.rank(last))
    }

    fn add(&mut self, candidate: Candidate) {
        self.candidates.push(candidate);
        if self.candidates.len() >= 2 * self.wanted + 64 {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let order = self.order;
        self.candidates.sort_unstable_by(|a, b| order.compare(&a.place, &b.place));
        self.candidates.truncate(self.wanted);
        if self.candidates.len() == self.wanted {
            self.last = self.candidates.last().map(|last| last.place.timestamp);
        }
    }
}

impl Snapshot {
    /// A page of the wanted events.
    pub fn list(&self, filter: &Filter, window: &Window) -> Result<Listing> {
        let found = self.select(filter, window)?;
        Ok(Listing { events: found.read(0..found.len())?, next: found.next })
    }

    /// Finds a page of the wanted events, to be read in parts.
    pub fn select(&self, filter: &Filter, window: &Window) -> Result<EventSelection> {
        let row_sets = self.row_sets(filter)?;
        // One more tells whether there is another page.
        let wanted = window.offset.saturating_add(window.limit).min(LIST_EVENTS_MAX) + 1;
        let order = window.order;
        let mut best = TopEvents { order, wanted, candidates: Vec::new(), last: None };
        let mut streams: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
        let mut sorted_ranges = sorted_ranges(&row_sets, filter)?;
        for (at, range) in sorted_ranges.iter().enumerate() {
            streams.push(Reverse((order.rank(order.near_end(range)), at)));
        }
        while let Some(Reverse((_, at))) = streams.pop() {
            let range = &mut sorted_ranges[at];
            if !best.may_take(order.near_end(range)) {
                break;
            }
            let row_set = &row_sets[range.row_set];
            let rows = next_rows(range, order);
            let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
            let part = RangeSlice { row_set, range, rows: rows.clone(), times: &times };
            if let Some(part) = part.in_reach(filter, window, &best) {
                part.collect(filter, window, &mut best)?;
            }
            best.settle();
            shorten(range, &rows, &times, order);
            if !range.rows.is_empty() {
                streams.push(Reverse((order.rank(order.near_end(range)), at)));
            }
        }
        best.settle();
        let more = best.candidates.len() == wanted;
        let mut chosen = best.candidates;
        chosen.truncate(wanted - 1);
        chosen.drain(..window.offset.min(chosen.len()));
        let next = chosen.last().filter(|_| more).map(|last| last.place.clone());
        let rows = chosen.into_iter().map(|chosen| (chosen.row_set, chosen.row)).collect();
        Ok(EventSelection { row_sets, rows, next })
    }
}

/// The page of a sorted range that is nearest; all of an unsorted one.
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

/// Some rows of a range.
struct RangeSlice<'a> {
    row_set: &'a RowSet,
    range: &'a RowRange,
    rows: Range<usize>,
    times: &'a [i64],
}

impl<'a> RangeSlice<'a> {
    /// The rows between the first and the last that can still matter: no others are worth
    /// decoding further columns.
    fn in_reach(
        self,
        filter: &Filter,
        window: &Window,
        best: &TopEvents,
    ) -> Option<RangeSlice<'a>> {
        let rank = |time: i64| best.order.rank(time);
        let resumed = |time: i64| {
            window.resume.as_ref().is_none_or(|resume| rank(time) >= rank(resume.timestamp))
        };
        let matters =
            |time: &i64| resumed(*time) && best.may_take(*time) && filter.wants_time(*time);
        let first = self.times.iter().position(matters)?;
        let last = self.times.iter().rposition(matters)?;
        let rows = self.rows.start + first..self.rows.start + last + 1;
        Some(RangeSlice { rows, times: &self.times[first..=last], ..self })
    }

    fn collect(&self, filter: &Filter, window: &Window, best: &mut TopEvents) -> Result<()> {
        let event = self.range.event.as_deref();
        let keep = filter.keep(self.row_set, self.rows.clone(), self.times, event)?;
        if !keep.contains(&true) {
            return Ok(());
        }
        let places = CursorColumns::of(self)?;
        // Nearest first, so that most of the rest is read_error by its time alone.
        let mut kept: Vec<usize> = (0..keep.len()).filter(|at| keep[*at]).collect();
        if window.order == Order::NewestFirst {
            kept.reverse();
        }
        for at in kept {
            if !best.may_take(self.times[at]) {
                continue;
            }
            let place = places.cursor(at, self.times[at]);
            let behind = |resume: &Cursor| best.order.compare(&place, resume) == Ordering::Greater;
            if window.resume.as_ref().is_none_or(behind) {
                let (row_set, row) = (self.range.row_set, self.rows.start + at);
                best.add(Candidate { place, row_set, row });
            }
        }
        Ok(())
    }
}

/// The columns that make a row's place in a list.
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
    fn of(part: &RangeSlice<'a>) -> Result<CursorColumns<'a>> {
        let rows = || part.rows.clone();
        Ok(CursorColumns {
            uuids: part.row_set.uuids(rows())?,
            distinct_nos: part.row_set.distinct_nos(rows())?,
            names: match &part.range.event {
                Some(event) => Names::One(event.clone()),
                None => Names::Many(part.row_set.texts(&Field::Event, rows())?),
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
    let mut by_slab: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (row_set, _)) in chosen.iter().enumerate() {
        by_slab.entry(*row_set).or_default().push(at);
    }
    let mut found: Vec<Option<EventRow>> = vec![None; chosen.len()];
    for (row_set, places) in by_slab {
        let rows: Vec<usize> = places.iter().map(|at| chosen[*at].1).collect();
        for (at, row) in places.into_iter().zip(row_sets[row_set].event_rows(&rows)?) {
            found[at] = Some(row);
        }
    }
    Ok(found.into_iter().flatten().collect())
}
