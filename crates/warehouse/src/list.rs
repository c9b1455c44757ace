//! Lists of events by time, page by page.
//!
//! Row groups are sorted by event and then time, so every run of an event is a stream in the order
//! of time. The streams are read from their near ends, page by page, always the one that may have
//! the nearest time, until enough events are nearer than all that is left.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use model::Timestamp;
use uuid::Uuid;

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
            collect(slab, stretch, &rows, &times, filter, window, &mut best)?;
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
        Ok(Listing { events: fetch(&slabs, &chosen)?, next })
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

fn collect(
    slab: &Slab,
    stretch: &Stretch,
    rows: &Range<usize>,
    times: &[i64],
    filter: &Filter,
    window: &Window,
    best: &mut Best,
) -> Result<()> {
    let in_reach = |time: &i64| {
        let resumed = window
            .resume
            .as_ref()
            .is_none_or(|resume| best.order.rank(*time) >= best.order.rank(resume.timestamp));
        resumed && best.may_take(*time) && filter.wants_time(*time)
    };
    // Only the part of the page that can still matter is worth decoding further columns.
    let Some(first) = times.iter().position(in_reach) else { return Ok(()) };
    let last = times.iter().rposition(in_reach).unwrap_or(first);
    let times = &times[first..=last];
    let rows = rows.start + first..rows.start + last + 1;
    let keep = filter.keep(slab, rows.clone(), times, stretch.event.as_deref())?;
    if !keep.contains(&true) {
        return Ok(());
    }
    let uuids = slab.uuids(rows.clone())?;
    let numbers = slab.distinct_nos(rows.clone())?;
    let events = match &stretch.event {
        Some(_) => None,
        None => Some(slab.texts(&Field::Event, rows.clone())?),
    };
    let kept = keep.iter().enumerate().filter(|(_, keep)| **keep);
    // Nearest first, so that most of the rest is refused by its time alone.
    let places: Vec<usize> = match window.order {
        Order::NewestFirst => kept.map(|(at, _)| at).rev().collect(),
        Order::OldestFirst => kept.map(|(at, _)| at).collect(),
    };
    for at in places {
        if !best.may_take(times[at]) {
            continue;
        }
        let event = match (&stretch.event, &events) {
            (Some(event), _) => event.clone(),
            (None, Some(events)) => events.dictionary.get(events.codes[at]).text().into(),
            (None, None) => continue,
        };
        let place = Cursor {
            timestamp: times[at],
            uuid: Uuid::from_bytes(uuids[at]),
            event,
            distinct_no: numbers[at],
        };
        let behind = |resume: &Cursor| best.order.compare(&place, resume) == Ordering::Greater;
        if window.resume.as_ref().is_none_or(behind) {
            best.add(Candidate { place, slab: stretch.slab, row: rows.start + at });
        }
    }
    Ok(())
}

fn fetch(slabs: &[Slab], chosen: &[Candidate]) -> Result<Vec<EventRow>> {
    let mut by_slab: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, candidate) in chosen.iter().enumerate() {
        by_slab.entry(candidate.slab).or_default().push(at);
    }
    let mut found: Vec<Option<EventRow>> = vec![None; chosen.len()];
    for (slab, places) in by_slab {
        let rows: Vec<usize> = places.iter().map(|at| chosen[*at].row).collect();
        for (at, row) in places.into_iter().zip(slabs[slab].event_rows(&rows)?) {
            found[at] = Some(row);
        }
    }
    Ok(found.into_iter().flatten().collect())
}
