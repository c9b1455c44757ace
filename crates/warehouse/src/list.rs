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

use crate::dictionary::Column;
use crate::fields::{Field, Number};
use crate::filter::{Filter, Stretch, stretches};
use crate::row::EventRow;
use crate::segment::chunk::PAGE_ROWS;
use crate::slab::Slab;
use crate::snapshot::Snapshot;
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
    slabs: Vec<Slab>,
    /// Slab and row.
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
        fetch(&self.slabs, &self.rows[events.start.min(end)..end])
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

    fn near_end(self, stretch: &Stretch) -> i64 {
        match self {
            Order::NewestFirst => stretch.to,
            Order::OldestFirst => stretch.from,
        }
    }
}

struct Candidate {
    place: Cursor,
    slab: usize,
    row: usize,
}

/// The best so far.
struct Best {
    order: Order,
    wanted: usize,
    candidates: Vec<Candidate>,
    /// Nothing behind this time can be among the wanted.
    last: Option<i64>,
}

impl Best {
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
        let slabs = self.slabs(filter)?;
        // One more tells whether there is another page.
        let wanted = window.offset.saturating_add(window.limit).min(LIST_EVENTS_MAX) + 1;
        let order = window.order;
        let mut best = Best { order, wanted, candidates: Vec::new(), last: None };
        let mut streams: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
        let mut stretches = stretches(&slabs, filter)?;
        for (at, stretch) in stretches.iter().enumerate() {
            streams.push(Reverse((order.rank(order.near_end(stretch)), at)));
        }
        while let Some(Reverse((_, at))) = streams.pop() {
            let stretch = &mut stretches[at];
            if !best.may_take(order.near_end(stretch)) {
                break;
            }
            let slab = &slabs[stretch.slab];
            let rows = next_rows(stretch, order);
            let times = slab.numbers(Number::Timestamp, rows.clone())?;
            let part = Part { slab, stretch, rows: rows.clone(), times: &times };
            if let Some(part) = part.in_reach(filter, window, &best) {
                part.collect(filter, window, &mut best)?;
            }
            best.settle();
            shorten(stretch, &rows, &times, order);
            if !stretch.rows.is_empty() {
                streams.push(Reverse((order.rank(order.near_end(stretch)), at)));
            }
        }
        best.settle();
        let more = best.candidates.len() == wanted;
        let mut chosen = best.candidates;
        chosen.truncate(wanted - 1);
        chosen.drain(..window.offset.min(chosen.len()));
        let next = chosen.last().filter(|_| more).map(|last| last.place.clone());
        let rows = chosen.into_iter().map(|chosen| (chosen.slab, chosen.row)).collect();
        Ok(EventSelection { slabs, rows, next })
    }
}

/// The page of a sorted stretch that is nearest; all of an unsorted one.
fn next_rows(stretch: &Stretch, order: Order) -> Range<usize> {
    let Range { start, end } = stretch.rows;
    match (stretch.event.is_some(), order) {
        (false, _) => start..end,
        (true, Order::NewestFirst) => start.max((end - 1) / PAGE_ROWS * PAGE_ROWS)..end,
        (true, Order::OldestFirst) => start..end.min((start / PAGE_ROWS + 1) * PAGE_ROWS),
    }
}

fn shorten(stretch: &mut Stretch, done: &Range<usize>, times: &[i64], order: Order) {
    if stretch.event.is_none() {
        stretch.rows = done.end..done.end;
        return;
    }
    match order {
        Order::NewestFirst => {
            stretch.rows.end = done.start;
            stretch.to = times.first().copied().unwrap_or(stretch.to);
        }
        Order::OldestFirst => {
            stretch.rows.start = done.end;
            stretch.from = times.last().copied().unwrap_or(stretch.from);
        }
    }
}

/// Some rows of a stretch.
struct Part<'a> {
    slab: &'a Slab,
    stretch: &'a Stretch,
    rows: Range<usize>,
    times: &'a [i64],
}

impl<'a> Part<'a> {
    /// The rows between the first and the last that can still matter: no others are worth
    /// decoding further columns.
    fn in_reach(self, filter: &Filter, window: &Window, best: &Best) -> Option<Part<'a>> {
        let rank = |time: i64| best.order.rank(time);
        let resumed = |time: i64| {
            window.resume.as_ref().is_none_or(|resume| rank(time) >= rank(resume.timestamp))
        };
        let matters =
            |time: &i64| resumed(*time) && best.may_take(*time) && filter.wants_time(*time);
        let first = self.times.iter().position(matters)?;
        let last = self.times.iter().rposition(matters)?;
        let rows = self.rows.start + first..self.rows.start + last + 1;
        Some(Part { rows, times: &self.times[first..=last], ..self })
    }

    fn collect(&self, filter: &Filter, window: &Window, best: &mut Best) -> Result<()> {
        let event = self.stretch.event.as_deref();
        let keep = filter.keep(self.slab, self.rows.clone(), self.times, event)?;
        if !keep.contains(&true) {
            return Ok(());
        }
        let places = Places::of(self)?;
        // Nearest first, so that most of the rest is refused by its time alone.
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
                let (slab, row) = (self.stretch.slab, self.rows.start + at);
                best.add(Candidate { place, slab, row });
            }
        }
        Ok(())
    }
}

/// The columns that make a row's place in a list.
struct Places<'a> {
    uuids: Cow<'a, [[u8; 16]]>,
    distinct_nos: Cow<'a, [u32]>,
    names: Names,
}

enum Names {
    One(Arc<str>),
    Many(Column),
}

impl<'a> Places<'a> {
    fn of(part: &Part<'a>) -> Result<Places<'a>> {
        let rows = || part.rows.clone();
        Ok(Places {
            uuids: part.slab.uuids(rows())?,
            distinct_nos: part.slab.distinct_nos(rows())?,
            names: match &part.stretch.event {
                Some(event) => Names::One(event.clone()),
                None => Names::Many(part.slab.texts(&Field::Event, rows())?),
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

fn fetch(slabs: &[Slab], chosen: &[(usize, usize)]) -> Result<Vec<EventRow>> {
    let mut by_slab: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, (slab, _)) in chosen.iter().enumerate() {
        by_slab.entry(*slab).or_default().push(at);
    }
    let mut found: Vec<Option<EventRow>> = vec![None; chosen.len()];
    for (slab, places) in by_slab {
        let rows: Vec<usize> = places.iter().map(|at| chosen[*at].1).collect();
        for (at, row) in places.into_iter().zip(slabs[slab].event_rows(&rows)?) {
            found[at] = Some(row);
        }
    }
    Ok(found.into_iter().flatten().collect())
}
