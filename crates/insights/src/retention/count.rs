//! Groups actors by the interval in which they start, and counts how many return later.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use warehouse::{DenseIdSet, Predicate};

use super::amounts::{Aggregation, Amounts};
use crate::actors::Actor;
use crate::counted_events::{CountedEvents, RowColumns, RowTest};
use crate::query::calendar::Buckets;
use crate::query::spec::Node;
use crate::scan::activity::ActivityBitmap;
use crate::scan::actor_events::ActorEvents;
use crate::scan::breakdown::{Breakdown, BreakdownSegment, NO_VALUE, ValueSet};
use crate::scan::context::{EventSelection, ScanContext};
use crate::scan::first_events::FirstEvents;
use crate::scan::{ActorSource, Rows, Scan};
use crate::{Error, Result};

/// Which target events start an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartRule {
    Any,
    /// The first one that passes the filters.
    FirstMatching,
    /// The first one of its name, if it passes the filters.
    FirstEver,
}

/// What the columns of a table count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    /// The interval in which the actor starts: columns are calendar intervals.
    Calendar,
    /// The actor's first start in the range: columns are windows of so many microseconds.
    Rolling(i64),
}

/// When an actor counts as returned in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnRule {
    Within,
    OnOrAfter,
}

pub(crate) struct Counter<'a> {
    pub context: &'a ScanContext<'a>,
    pub rows: &'a Buckets,
    /// For each column the intervals or windows after the start, `0..=0` for the start itself.
    pub columns: &'a [RangeInclusive<usize>],
    pub windows: Windows,
    pub actors: &'a Arc<ActorSource>,
    pub target: &'a Node,
    pub returning: &'a Node,
    pub starts: StartRule,
    pub returns: ReturnRule,
    /// Returning events that an interval or window needs.
    pub occurrences: u64,
    pub aggregation: Option<Aggregation<'a>>,
    /// The cohort of a breakdown by cohorts.
    pub slice: Option<Predicate>,
}

/// A cell of a table: actors that start in `row` with one of the values, and return in the column
/// `later`.
pub(crate) struct TableCell {
    pub row: usize,
    pub later: usize,
    pub breakdown: Option<Breakdown>,
    pub values: ValueSet,
}

/// The actors of a cell, and the sum or average of their amounts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub count: u64,
    pub amount: f64,
}

/// Each amount of an actor takes two searches.
const ACTORS_PER_CHECK: u32 = 64;

/// For each row its columns: the actors that returned in each interval.
type Table = Vec<Vec<Cell>>;

/// Breakdown value, row and actor: an actor starts in a row. Sorts by value.
type Start = (u32, u32, u32);

/// When the actors returned, and with what amounts.
struct Returned<'a> {
    activity: ActivityBitmap,
    amounts: Option<Amounts<'a>>,
}

impl<'a> Counter<'a> {
    pub(super) fn selection(&self, node: &Node) -> Result<EventSelection> {
        let selection = self.context.selection(node)?;
        let selection = selection.ok_or_else(|| Error::invalid("The action does not exist."))?;
        Ok(selection.and(self.slice.clone()))
    }

    pub(super) fn scan<'b>(
        &'b self,
        selection: &EventSelection,
        from: i64,
        breakdown: Option<&'b Breakdown>,
    ) -> Scan<'b> {
        let filter = selection.filter(from, self.rows.end - 1);
        Scan { actors: Some(self.actors), breakdown, ..self.context.scan(filter) }
    }

    pub(super) fn first_row(&self) -> i64 {
        self.rows.starts.first().copied().unwrap_or(self.rows.end)
    }

    fn empty(&self) -> Table {
        vec![vec![Cell::default(); self.columns.len()]; self.rows.len()]
    }

    /// By actor the intervals of the range in which it returned, or the windows after its start.
    fn returned(&self) -> Result<ActivityBitmap> {
        let selection = self.selection(self.returning)?;
        let scan = self.scan(&selection, self.first_row(), None);
        if let Windows::Rolling(micros) = self.windows {
            let starts = self.first_targets(None)?;
            let mut reservation = self.context.limits.reserve();
            reservation.resize(starts.bytes())?;
            let windows = self.windows_len();
            return ActivityBitmap::scan_placed(&scan, windows, self.occurrences, |actor, time| {
                window_of(&starts, actor, time, micros).filter(|window| *window < windows)
            });
        }
        if self.occurrences > 1 {
            return ActivityBitmap::scan_with_count(&scan, self.rows, |count| {
                count >= self.occurrences
            });
        }
        ActivityBitmap::scan(&scan, self.rows)
    }

    /// The number of windows of an actor that are in columns.
    fn windows_len(&self) -> usize {
        self.columns.last().map_or(0, |last| *last.end()) + 1
    }

    /// Whether each actor starts once, with its first event.
    fn starts_once(&self) -> bool {
        self.starts != StartRule::Any || self.windows != Windows::Calendar
    }

    /// Of what [`Self::returned`] has the intervals or windows in a column, for a start in `row`.
    pub(super) fn span(&self, row: usize, at: usize) -> RangeInclusive<usize> {
        let base = if self.windows == Windows::Calendar { row } else { 0 };
        base + self.columns[at].start()..=base + self.columns[at].end()
    }

    /// Whether an actor that starts in `row` counts in the column `at`.
    fn is_retained(&self, returned: &ActivityBitmap, actor: u32, row: usize, at: usize) -> bool {
        let mut span = self.span(row, at);
        at == 0
            || match self.returns {
                ReturnRule::Within => span.any(|interval| returned.has(actor, interval)),
                ReturnRule::OnOrAfter => {
                    returned.last(actor).is_some_and(|last| last >= *span.start())
                }
            }
    }

    /// Counts an actor that starts in `row`.
    fn add(
        &self,
        table: &mut Table,
        returned: &Returned<'_>,
        actor: u32,
        row: usize,
    ) -> Result<()> {
        let Returned { activity, amounts } = returned;
        if amounts.is_some() && actor.is_multiple_of(ACTORS_PER_CHECK) {
            self.context.limits.check()?;
        }
        for (at, cell) in table[row].iter_mut().enumerate() {
            if self.is_retained(activity, actor, row, at) {
                cell.count += 1;
                if let Some(amounts) = amounts {
                    cell.amount += amounts.sum(self, activity, (actor, row, at));
                }
            }
        }
        Ok(())
    }

    fn with_amounts(&self) -> Result<Returned<'a>> {
        let activity = self.returned()?;
        let aggregation = self.aggregation.as_ref();
        let amounts = aggregation.map(|aggregation| Amounts::read(self, aggregation));
        Ok(Returned { activity, amounts: amounts.transpose()? })
    }

    /// Sums become averages where the query asks for them.
    fn finish(&self, mut table: Table) -> Table {
        if self.aggregation.is_some_and(|aggregation| aggregation.is_average) {
            for cell in table.iter_mut().flatten().filter(|cell| cell.count > 0) {
                cell.amount /= cell.count as f64;
            }
        }
        table
    }

    /// Drill-down: the actors that a cell counts.
    pub fn actors(&self, cell: &TableCell) -> Result<Vec<Actor>> {
        self.actors_of(cell, &self.returned()?)
    }

    /// Drill-down: the start events of the actors that a cell counts, and those by which they returned.
    pub fn events(&self, cell: TableCell) -> Result<CountedEvents> {
        let returned = self.returned()?;
        let actors = self.actors_of(&cell, &returned)?;
        let counted: Arc<DenseIdSet> =
            Arc::new(actors.into_iter().map(|actor| actor.actor_no).collect());
        let TableCell { row, later, breakdown, values } = cell;
        let ScanContext { view, limits, .. } = self.context;
        let columns = || RowColumns { actors: Some(self.actors.clone()), ..RowColumns::default() };

        let selection = self.selection(self.target)?;
        let range = (self.rows.starts[row], self.rows.end_of(row) - 1);
        let first_in_row = || {
            let scan = self.context.scan(selection.filter(range.0, range.1));
            FirstEvents::scan(&Scan { actors: Some(self.actors), ..scan }).map(Arc::new)
        };
        // Amounts are of all events of an actor in the row.
        let has_amounts = self.aggregation.is_some();
        // The first event within the row is the actor's first of all: the actor starts there.
        let is_first_alone = self.starts_once() && !has_amounts;
        let firsts = is_first_alone.then(first_in_row).transpose()?;
        let mut memory = limits.reserve();
        let first_bytes = firsts.as_ref().map_or(0, |firsts| firsts.bytes());
        memory.resize(counted.serialized_size() + first_bytes)?;
        let (started, own_firsts) = (counted.clone(), firsts.clone());
        let breakdown = breakdown.map(Arc::new);
        let test = RowTest::of_rows(
            view,
            RowColumns { breakdown, ..columns() },
            move |rows: &Rows<'_>, row| {
                let (actor, time) = (rows.actor(row), rows.times[row]);
                started.contains(actor)
                    && (has_amounts || values.contains(rows.value(row)))
                    && own_firsts.as_ref().is_none_or(|firsts| firsts.time(actor) == Some(time))
            },
        );
        let mut parts = vec![CountedEvents::of(&selection, range, Some(test.charged(memory)))];

        let returns_count = |own: &Aggregation<'_>| !own.starts_are_returns;
        if later > 0 {
            parts.extend(self.return_events(row, later, counted, returned, firsts)?);
        } else if self.aggregation.as_ref().is_some_and(returns_count) {
            let starts = first_in_row()?;
            let mut memory = limits.reserve();
            memory.resize(starts.bytes())?;
            let test = RowTest::of_rows(view, columns(), move |rows, row| {
                let actor = rows.actor(row);
                counted.contains(actor)
                    && starts.time(actor).is_some_and(|start| rows.times[row] > start)
            });
            let returning = self.selection(self.returning)?;
            parts.push(CountedEvents::of(&returning, range, Some(test.charged(memory))));
        }
        Ok(CountedEvents::any(parts))
    }

    /// The events by which the counted actors returned in the column `later`.
    fn return_events(
        &self,
        row: usize,
        later: usize,
        counted: Arc<DenseIdSet>,
        returned: ActivityBitmap,
        starts: Option<Arc<FirstEvents>>,
    ) -> Result<Option<CountedEvents>> {
        let ScanContext { view, limits, .. } = self.context;
        let (mut span, last_row) = (self.span(row, later), self.rows.len() - 1);
        if self.returns == ReturnRule::OnOrAfter {
            span = *span.start()..=last_row;
        }
        let (rows, micros) = match self.windows {
            Windows::Calendar => (*span.start()..=last_row.min(*span.end()), None),
            Windows::Rolling(micros) => (row..=last_row, Some(micros)),
        };
        if rows.is_empty() {
            return Ok(None);
        }
        let range = (self.rows.starts[*rows.start()], self.rows.end_of(*rows.end()) - 1);
        let mut memory = limits.reserve();
        memory.resize(returned.bytes())?;
        let buckets = self.rows.clone();
        let columns = RowColumns { actors: Some(self.actors.clone()), ..RowColumns::default() };
        let test = RowTest::of_rows(view, columns, move |rows, row| {
            let (actor, time) = (rows.actor(row), rows.times[row]);
            let interval = match (&starts, micros) {
                (Some(starts), Some(micros)) => window_of(starts, actor, time, micros),
                _ => buckets.of(time),
            };
            counted.contains(actor)
                && interval.is_some_and(|own| span.contains(&own) && returned.has(actor, own))
        });
        let selection = self.selection(self.returning)?;
        Ok(Some(CountedEvents::of(&selection, range, Some(test.charged(memory)))))
    }

    fn actors_of(&self, cell: &TableCell, returned: &ActivityBitmap) -> Result<Vec<Actor>> {
        let TableCell { row, later, values, .. } = cell;
        let row = *row;
        let mut started: BTreeSet<u32> = BTreeSet::new();
        match (self.starts_once(), &cell.breakdown) {
            (false, None) => {
                let selection = self.selection(self.target)?;
                let activity = ActivityBitmap::scan(
                    &self.scan(&selection, self.first_row(), None),
                    self.rows,
                )?;
                activity.for_each(|actor, rows| {
                    if rows.contains(&row) {
                        started.insert(actor);
                    }
                });
            }
            (_, breakdown) => {
                let starts = match breakdown {
                    Some(breakdown) => self.all_starts(breakdown)?,
                    None => self.first_starts(None)?,
                };
                let own = starts
                    .iter()
                    .filter(|(value, at, _)| *at as usize == row && values.contains(*value));
                started.extend(own.map(|(.., actor)| *actor));
            }
        }
        let actor = |actor_no: u32| {
            let retained = |at: &usize| self.is_retained(returned, actor_no, row, *at);
            let appearances: Vec<usize> = (0..self.columns.len()).filter(retained).collect();
            Actor { actor_no, appearances, ..Actor::default() }
        };
        let started = started.into_iter().map(actor);
        Ok(started.filter(|actor| actor.appearances.contains(later)).collect())
    }

    pub fn whole(&self) -> Result<Table> {
        let mut table = self.empty();
        let returned = self.with_amounts()?;
        let mut reservation = self.context.limits.reserve();
        reservation.resize(returned.activity.bytes())?;
        if !self.starts_once() {
            let mut own = None;
            let started = match self.target == self.returning && self.occurrences <= 1 {
                // Target and returning events are mostly the same: scan once.
                true => &returned.activity,
                false => {
                    let selection = self.selection(self.target)?;
                    let scan = self.scan(&selection, self.first_row(), None);
                    own.insert(ActivityBitmap::scan(&scan, self.rows)?)
                }
            };
            let mut added = Ok(());
            started.for_each(|actor, rows| {
                for row in rows {
                    if added.is_ok() {
                        added = self.add(&mut table, &returned, actor, *row);
                    }
                }
            });
            added?;
            return Ok(self.finish(table));
        }
        for (_, row, actor) in self.first_starts(None)? {
            self.add(&mut table, &returned, actor, row as usize)?;
        }
        Ok(self.finish(table))
    }

    /// The first target event of each actor: of the range, or where the actor's first of all counts of
    /// all time.
    fn first_targets(&self, breakdown: Option<&Breakdown>) -> Result<FirstEvents> {
        let selection = self.selection(self.target)?;
        let from = match self.starts {
            StartRule::Any => self.first_row(),
            StartRule::FirstMatching | StartRule::FirstEver => i64::MIN,
        };
        FirstEvents::scan(&self.scan(&selection, from, breakdown))
    }

    /// Each actor starts once, with its first event.
    fn first_starts(&self, breakdown: Option<&Breakdown>) -> Result<Vec<Start>> {
        let firsts = self.first_targets(breakdown)?;
        let ever = match (self.starts, self.context.unfiltered_selection(self.target)?) {
            (StartRule::FirstEver, Some(named)) => {
                Some(FirstEvents::scan(&self.scan(&named, i64::MIN, None))?)
            }
            _ => None,
        };
        let start = |(actor, time, value): (u32, i64, u32)| {
            let row = self.rows.of(time)?;
            let is_first = ever.as_ref().is_none_or(|ever| ever.time(actor) == Some(time));
            is_first.then_some((value, row as u32, actor))
        };
        Ok(firsts.iter().filter_map(start).collect())
    }

    /// Each distinct (breakdown value, interval, actor) in which an actor performed the start event.
    fn all_starts(&self, breakdown: &Breakdown) -> Result<Vec<Start>> {
        if self.starts_once() {
            return self.first_starts(Some(breakdown));
        }
        let selection = self.selection(self.target)?;
        let mut events = ActorEvents::new(self.context.limits);
        let scan = self.scan(&selection, self.first_row(), Some(breakdown));
        events.collect(&scan, |(), rows: &Rows<'_>| {
            Ok(rows.values.iter().copied().map(Some).collect())
        })?;
        let starts_by_thread = events.fold(Vec::new, |starts: &mut Vec<Start>, events| {
            let first = starts.len();
            let own = events.iter().filter_map(|event| {
                Some((event.tag, self.rows.of(event.time)? as u32, event.actor))
            });
            starts.extend(own);
            starts[first..].sort_unstable();
            let mut kept = first;
            for at in first..starts.len() {
                if at == first || starts[at] != starts[kept - 1] {
                    starts[kept] = starts[at];
                    kept += 1;
                }
            }
            starts.truncate(kept);
            Ok(())
        })?;
        Ok(starts_by_thread.into_iter().flatten().collect())
    }

    /// Tables by breakdown value, the largest first, and whether values beyond the limit exist; those
    /// are merged.
    pub fn values(&self, breakdown: &Breakdown) -> Result<(Vec<(BreakdownSegment, Table)>, bool)> {
        let mut starts = self.all_starts(breakdown)?;
        let mut reservation = self.context.limits.reserve();
        reservation.resize(starts.len() * size_of::<Start>())?;
        starts.sort_unstable();
        let size = |own: &[Start]| (own[0].0, own.len() as f64);
        let mut ranked: Vec<(u32, f64)> = starts.chunk_by(|a, b| a.0 == b.0).map(size).collect();
        let limit = breakdown.limit.min(ranked.len());
        breakdown.sort(&mut ranked, limit);
        let more = ranked.len() > limit;
        let returned = self.with_amounts()?;
        let own = |value: u32| {
            let from = starts.partition_point(|start| start.0 < value);
            let to = starts.partition_point(|start| start.0 <= value);
            &starts[from..to]
        };
        let mut segments = Vec::new();
        for (value, _) in &ranked[..limit] {
            let mut table = self.empty();
            for (_, row, actor) in own(*value) {
                self.add(&mut table, &returned, *actor, *row as usize)?;
            }
            let texts = breakdown.texts(*value);
            let segment = match *value {
                NO_VALUE => BreakdownSegment::Null(texts, false),
                _ => BreakdownSegment::Values(texts, false),
            };
            segments.push((segment, self.finish(table)));
        }
        if more && !breakdown.hide_other {
            // An actor with several of these values counts once.
            let rest = ranked[limit..].iter().flat_map(|(value, _)| own(*value));
            let mut rest: Vec<(u32, u32)> = rest.map(|(_, row, actor)| (*row, *actor)).collect();
            rest.sort_unstable();
            rest.dedup();
            let mut table = self.empty();
            for (row, actor) in rest {
                self.add(&mut table, &returned, actor, row as usize)?;
            }
            segments.push((BreakdownSegment::Other(1, false), self.finish(table)));
        }
        segments.sort_by_key(|(segment, _)| segment.rank());
        Ok((segments, more))
    }
}

/// The window, counted from the actor's start, in which an event lies; none if it lies before.
fn window_of(starts: &FirstEvents, actor: u32, time: i64, micros: i64) -> Option<usize> {
    let since = time - starts.time(actor)?;
    usize::try_from(since.div_euclid(micros)).ok()
}
