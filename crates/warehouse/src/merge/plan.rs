//! Which rows go where: by partition, then by event and time.

use std::collections::{BTreeMap, HashMap};

use crate::Result;
use crate::columns::{Field, IntColumn};
use crate::manifest::Partition;
use crate::manifest::{EVENTS_MAX, EventSpan};
use crate::read::row_set::RowSet;
use crate::segment::footer::Run;

/// More events than this in a row group are not listed in its footer; readers then look for
/// themselves.
const RUNS_MAX: usize = 4_096;

/// Months that rows of one merge are parted into. Each is a segment that is written beside the
/// others, with a descriptor and buffers of its own, and that later merges read.
pub(crate) const MONTHS_MAX: usize = 12;
/// Partitions that are no month.
const OTHERS: usize = 3;
/// So many segments a merge makes at most.
pub(crate) const OUTPUTS_MAX: usize = MONTHS_MAX + OTHERS;
/// Of more months, one has a segment of its own with so many rows, or with one row in
/// [`MONTH_SHARE`].
const MONTH_ROWS_MIN: usize = 8 << 10;
const MONTH_SHARE: usize = 16;

/// One segment to be written.
pub(super) struct Output {
    pub month: Partition,
    /// Rows in the order of the segment, counted over all row_sets.
    pub order: Vec<u32>,
    pub runs: Vec<Vec<Run>>,
    pub events: Vec<EventSpan>,
    pub from: i64,
    pub to: i64,
}

/// A row's event, time and number in one integer, so that sorting is comparing integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SortKey(u128);

impl SortKey {
    fn new(event: u32, time: i64, row: u32) -> SortKey {
        let time = (time as u64) ^ (1 << 63);
        SortKey(u128::from(event) << 96 | u128::from(time) << 32 | u128::from(row))
    }

    fn event(self) -> u32 {
        (self.0 >> 96) as u32
    }

    fn time(self) -> i64 {
        ((self.0 >> 32) as u64 ^ (1 << 63)) as i64
    }

    fn row(self) -> u32 {
        self.0 as u32
    }
}

/// Partitions are as they look at `now`: what was far ahead may have become a month since.
pub(super) fn plan(row_sets: &[RowSet], row_group_rows: usize, now: i64) -> Result<Vec<Output>> {
    let mut ranks = EventRanks::default();
    let mut codes = Vec::with_capacity(row_sets.len());
    for row_set in row_sets {
        let events = row_set.texts(&Field::Event, 0..row_set.rows())?;
        let numbers: Vec<u32> =
            events.dictionary.iter().map(|event| ranks.number(event.text())).collect();
        codes.push((events.codes, numbers));
    }
    let (by_number, names) = ranks.sorted();
    let mut months: BTreeMap<Partition, Vec<SortKey>> = BTreeMap::new();
    let mut first = 0;
    for (row_set, (codes, numbers)) in row_sets.iter().zip(codes) {
        let times = row_set.ints(IntColumn::Timestamp, 0..row_set.rows())?;
        let any_dead = row_set.any_dead();
        let mut near: Option<(Partition, i64)> = None;
        let mut keys = Vec::new();
        for (row, (code, time)) in codes.iter().zip(times.iter()).enumerate() {
            if any_dead && row_set.is_dead(row) {
                continue;
            }
            let day = time.div_euclid(86_400_000_000);
            let month = match near {
                Some((month, known)) if known == day => month,
                _ => Partition::of(*time, now),
            };
            if near.is_some_and(|(last, _)| last != month) {
                let (last, _) = near.expect("just seen");
                months.entry(last).or_default().append(&mut keys);
            }
            near = Some((month, day));
            let event = by_number[numbers[*code as usize] as usize];
            keys.push(SortKey::new(event, *time, first + row as u32));
        }
        if let Some((month, _)) = near {
            months.entry(month).or_default().append(&mut keys);
        }
        first += row_set.rows() as u32;
    }
    combine_small_months(&mut months);
    let output = |(month, mut keys): (Partition, Vec<SortKey>)| {
        // Segments are sorted already; a stable sort only merges their runs.
        keys.sort();
        make_output(month, &keys, &names, row_group_rows)
    };
    Ok(months.into_iter().map(output).collect())
}

/// Brings months together that would be too many segments. Which rows go where is no matter of
/// truth: readers go by the times that the manifest notes of every segment.
fn combine_small_months(months: &mut BTreeMap<Partition, Vec<SortKey>>) {
    let mut sizes: Vec<(usize, Partition)> = months
        .iter()
        .filter(|(month, _)| month.is_month())
        .map(|(month, keys)| (keys.len(), *month))
        .collect();
    if sizes.len() <= MONTHS_MAX {
        return;
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let rows: usize = sizes.iter().map(|(rows, _)| rows).sum();
    let few = |rows_of: usize| rows_of < MONTH_ROWS_MIN && rows_of * MONTH_SHARE < rows;
    let mut mixed = Vec::new();
    for (_, month) in sizes
        .iter()
        .enumerate()
        .filter(|(at, (own, _))| *at >= MONTHS_MAX || few(*own))
        .map(|(_, of)| of)
    {
        mixed.append(&mut months.remove(month).unwrap_or_default());
    }
    if !mixed.is_empty() {
        months.insert(Partition::MIXED, mixed);
    }
}

fn make_output(
    month: Partition,
    keys: &[SortKey],
    names: &[Box<str>],
    row_group_rows: usize,
) -> Output {
    let run = |keys: &[SortKey]| Run {
        event: names[keys[0].event() as usize].clone(),
        rows: keys.len() as u32,
        from: keys[0].time(),
        to: keys[keys.len() - 1].time(),
    };
    let runs_of = |keys: &[SortKey]| -> Vec<Run> {
        let runs: Vec<Run> = keys.chunk_by(|a, b| a.event() == b.event()).map(run).collect();
        if runs.len() > RUNS_MAX { Vec::new() } else { runs }
    };
    let spans = keys.chunk_by(|a, b| a.event() == b.event()).map(run);
    let mut events: Vec<EventSpan> = Vec::new();
    let (mut from, mut to) = (i64::MAX, i64::MIN);
    for span in spans {
        from = from.min(span.from);
        to = to.max(span.to);
        if events.len() <= EVENTS_MAX {
            let rows = u64::from(span.rows);
            events.push(EventSpan { event: span.event.into(), rows, from: span.from, to: span.to });
        }
    }
    if events.len() > EVENTS_MAX {
        events.clear();
    }
    Output {
        month,
        order: keys.iter().map(|key| key.row()).collect(),
        runs: keys.chunks(row_group_rows).map(runs_of).collect(),
        events,
        from,
        to,
    }
}

/// Numbers event names, so that equal ones of different row_sets meet.
#[derive(Default)]
struct EventRanks(HashMap<Box<str>, u32>);

impl EventRanks {
    fn number(&mut self, event: &str) -> u32 {
        if let Some(number) = self.0.get(event) {
            return *number;
        }
        let number = self.0.len() as u32;
        self.0.insert(event.into(), number);
        number
    }

    /// The place of every number in the order of names, and the names in order.
    fn sorted(self) -> (Vec<u32>, Vec<Box<str>>) {
        let mut names: Vec<(Box<str>, u32)> = self.0.into_iter().collect();
        names.sort_unstable();
        let mut ranks = vec![0; names.len()];
        for (rank, (_, number)) in names.iter().enumerate() {
            ranks[*number as usize] = rank as u32;
        }
        (ranks, names.into_iter().map(|(name, _)| name).collect())
    }
}
