//! The plan of a merge: the partition of each row, and the sort order by event and time.

use std::collections::{BTreeMap, HashMap};

use crate::Result;
use crate::columns::{Field, IntColumn};
use crate::manifest::Partition;
use crate::manifest::partition::MICROS_PER_DAY;
use crate::manifest::{EVENTS_MAX, EventSpan};
use crate::read::row_set::RowSet;
use crate::segment::footer::Run;

/// A row group with more runs lists none in its footer; readers then derive them from the rows.
const RUNS_MAX: usize = 4_096;

/// Bound of the months that one merge writes. Each is a segment, written concurrently with the others
/// with its own file descriptor and buffers, and read by later merges.
pub(crate) const MONTHS_MAX: usize = 12;
/// Partitions that are not months.
const OTHERS: usize = 3;
/// Bound of the segments that one merge writes.
pub(crate) const OUTPUTS_MAX: usize = MONTHS_MAX + OTHERS;
/// If there are more than [`MONTHS_MAX`], a month gets its own segment only with at least this many
/// rows, or with one row in [`MONTH_SHARE`].
const MONTH_ROWS_MIN: usize = 8 << 10;
const MONTH_SHARE: usize = 16;

/// One segment to write.
pub(super) struct Output {
    pub partition: Partition,
    /// Rows in the order of the segment, numbered across all row sets.
    pub order: Vec<u32>,
    pub runs: Vec<Vec<Run>>,
    pub events: Vec<EventSpan>,
    pub from: i64,
    pub to: i64,
}

/// Event rank, timestamp and row number in one integer, so that sorting compares integers.
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

/// Plans the outputs. Partitions are computed anew for `now`: a `late` row may belong to a month by
/// then.
pub(super) fn plan(row_sets: &[RowSet], row_group_rows: usize, now: i64) -> Result<Vec<Output>> {
    let mut ranks = EventRanks::default();
    let mut codes = Vec::with_capacity(row_sets.len());
    for row_set in row_sets {
        let events = row_set.column_or_absent(&Field::Event, 0..row_set.rows())?;
        let event_numbers: Vec<u32> =
            events.dictionary.iter().map(|event| ranks.number(event.text())).collect();
        codes.push((events.codes, event_numbers));
    }
    let (by_number, names) = ranks.sorted();
    let mut partitions: BTreeMap<Partition, Vec<SortKey>> = BTreeMap::new();
    let mut first = 0;
    for (row_set, (codes, event_numbers)) in row_sets.iter().zip(codes) {
        let times = row_set.ints(IntColumn::Timestamp, 0..row_set.rows())?;
        let any_dead = row_set.any_dead();
        let mut cached: Option<(Partition, i64)> = None;
        let mut keys = Vec::new();
        for (row, (code, time)) in codes.iter().zip(times.iter()).enumerate() {
            if any_dead && row_set.is_dead(row) {
                continue;
            }
            let day = time.div_euclid(MICROS_PER_DAY);
            let partition = match cached {
                Some((partition, cached_day)) if cached_day == day => partition,
                _ => Partition::of(*time, now),
            };
            if cached.is_some_and(|(last, _)| last != partition) {
                let (last, _) = cached.expect("it was just matched");
                partitions.entry(last).or_default().append(&mut keys);
            }
            cached = Some((partition, day));
            let event = by_number[event_numbers[*code as usize] as usize];
            keys.push(SortKey::new(event, *time, first + row as u32));
        }
        if let Some((partition, _)) = cached {
            partitions.entry(partition).or_default().append(&mut keys);
        }
        first += row_set.rows() as u32;
    }
    combine_small_months(&mut partitions);
    let output = |(partition, mut keys): (Partition, Vec<SortKey>)| {
        // Segments are sorted already; the stable sort merges their runs in linear time.
        keys.sort();
        make_output(partition, &keys, &names, row_group_rows)
    };
    Ok(partitions.into_iter().map(output).collect())
}

/// Moves months with few rows into the mixed partition if there are too many months. This does not
/// affect results: readers prune by the time range of each segment, not by partition.
fn combine_small_months(partitions: &mut BTreeMap<Partition, Vec<SortKey>>) {
    let mut sizes: Vec<(usize, Partition)> = partitions
        .iter()
        .filter(|(partition, _)| partition.is_month())
        .map(|(partition, keys)| (keys.len(), *partition))
        .collect();
    if sizes.len() <= MONTHS_MAX {
        return;
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let rows: usize = sizes.iter().map(|(rows, _)| rows).sum();
    let few = |rows_of: usize| rows_of < MONTH_ROWS_MIN && rows_of * MONTH_SHARE < rows;
    let mut mixed = Vec::new();
    for (_, partition) in sizes
        .iter()
        .enumerate()
        .filter(|(at, (rows_of, _))| *at >= MONTHS_MAX || few(*rows_of))
        .map(|(_, of)| of)
    {
        mixed.append(&mut partitions.remove(partition).unwrap_or_default());
    }
    if !mixed.is_empty() {
        partitions.insert(Partition::MIXED, mixed);
    }
}

fn make_output(
    partition: Partition,
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
        partition,
        order: keys.iter().map(|key| key.row()).collect(),
        runs: keys.chunks(row_group_rows).map(runs_of).collect(),
        events,
        from,
        to,
    }
}

/// Assigns a number to each event name, across row sets, and ranks them by name.
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

    /// The rank of every number, and the names in order.
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
