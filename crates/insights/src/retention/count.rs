//! Cohorts by when they began, and how many of each were there later.

use std::collections::BTreeSet;

use warehouse::Predicate;

use crate::actors::Actor;
use crate::breakdown::{Breakdown, NO_VALUE};
use crate::calendar::Buckets;
use crate::context::{EventSelection, QueryContext};
use crate::firsts::Firsts;
use crate::journeys::Hits;
use crate::masks::Masks;
use crate::scan::{Actors, Rows, Scan};
use crate::spec::Node;
use crate::trends::Share;
use crate::{Error, Result};

/// Which events begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starts {
    Any,
    /// The first that passes the filters.
    FirstMatching,
    /// The first at all, if it passes the filters.
    FirstEver,
}

/// When somebody counts as returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    Within,
    OnOrAfter,
}

pub(crate) struct Counter<'a> {
    pub context: &'a QueryContext<'a>,
    pub rows: &'a Buckets,
    pub intervals: usize,
    pub actors: &'a Actors,
    pub target: &'a Node,
    pub returning: &'a Node,
    pub starts: Starts,
    pub returns: Returns,
    /// Returns that an interval must have.
    pub occurrences: u64,
    /// What every event must pass too.
    pub slice: Option<Predicate>,
}

/// For each row, how many were there in each interval.
type Table = Vec<Vec<u64>>;

/// An actor began in a row; first by breakdown value.
type Start = (u32, u32, u32);

impl<'a> Counter<'a> {
    fn selection(&self, node: &Node) -> Result<EventSelection> {
        let selection = self.context.selection(node)?;
        let selection = selection.ok_or_else(|| Error::invalid("The action does not exist."))?;
        Ok(selection.and(self.slice.clone()))
    }

    fn scan<'b>(
        &'b self,
        selection: &EventSelection,
        from: i64,
        breakdown: Option<&'b Breakdown>,
    ) -> Scan<'b> {
        let filter = selection.filter(from, self.rows.end - 1);
        Scan { actors: Some(self.actors), breakdown, ..self.context.scan(filter) }
    }

    fn first_row(&self) -> i64 {
        self.rows.starts.first().copied().unwrap_or(self.rows.end)
    }

    fn empty(&self) -> Table {
        vec![vec![0; self.intervals]; self.rows.len()]
    }

    fn returned(&self) -> Result<Masks> {
        let selection = self.selection(self.returning)?;
        let scan = self.scan(&selection, self.first_row(), None);
        if self.occurrences > 1 {
            return Masks::counted(&scan, self.rows, |count| count >= self.occurrences);
        }
        Masks::of(&scan, self.rows)
    }

    /// Whether one who began in a row counts so many intervals later.
    fn is_there(&self, returned: &Masks, actor: u32, row: usize, at: usize) -> bool {
        at == 0
            || match self.returns {
                Returns::Within => returned.has(actor, row + at),
                Returns::OnOrAfter => returned.last(actor).is_some_and(|last| last >= row + at),
            }
    }

    /// Adds one who began in a row.
    fn add(&self, table: &mut Table, returned: &Masks, actor: u32, row: usize) {
        for (at, count) in table[row].iter_mut().enumerate() {
            *count += u64::from(self.is_there(returned, actor, row, at));
        }
    }

    /// Who began in a row with one of the values that are `wanted`, and came back after `later`
    /// intervals.
    pub fn actors(
        &self,
        row: usize,
        later: usize,
        breakdown: Option<&Breakdown>,
        wanted: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<Actor>> {
        let returned = self.returned()?;
        let mut began: BTreeSet<u32> = BTreeSet::new();
        match (self.starts, breakdown) {
            (Starts::Any, None) => {
                let selection = self.selection(self.target)?;
                let masks = Masks::of(&self.scan(&selection, self.first_row(), None), self.rows)?;
                masks.for_each(|actor, rows| {
                    if rows.contains(&row) {
                        began.insert(actor);
                    }
                });
            }
            (_, breakdown) => {
                let starts = match breakdown {
                    Some(breakdown) => self.all_starts(breakdown)?,
                    None => self.first_starts(None)?,
                };
                let own =
                    starts.iter().filter(|(value, at, _)| *at as usize == row && wanted(*value));
                began.extend(own.map(|(.., actor)| *actor));
            }
        }
        let actor = |number: u32| {
            let there = |at: &usize| self.is_there(&returned, number, row, *at);
            let appearances: Vec<usize> = (0..self.intervals).filter(there).collect();
            Actor { actor_no: number, appearances, ..Actor::default() }
        };
        let began = began.into_iter().map(actor);
        Ok(began.filter(|actor| actor.appearances.contains(&later)).collect())
    }

    pub fn whole(&self) -> Result<Table> {
        let mut table = self.empty();
        let returned = self.returned()?;
        let mut reservation = self.context.limits.reserve();
        reservation.resize(returned.bytes())?;
        if self.starts == Starts::Any {
            let mut own = None;
            let began = match self.target == self.returning && self.occurrences <= 1 {
                // Mostly people come back for what they came for.
                true => &returned,
                false => {
                    let selection = self.selection(self.target)?;
                    let scan = self.scan(&selection, self.first_row(), None);
                    own.insert(Masks::of(&scan, self.rows)?)
                }
            };
            began.for_each(|actor, rows| {
                rows.iter().for_each(|row| self.add(&mut table, &returned, actor, *row));
            });
            return Ok(table);
        }
        for (_, row, actor) in self.first_starts(None)? {
            self.add(&mut table, &returned, actor, row as usize);
        }
        Ok(table)
    }

    /// Everybody begins once.
    fn first_starts(&self, breakdown: Option<&Breakdown>) -> Result<Vec<Start>> {
        let selection = self.selection(self.target)?;
        let firsts = Firsts::of(&self.scan(&selection, i64::MIN, breakdown))?;
        let ever = match (self.starts, self.context.named(self.target)?) {
            (Starts::FirstEver, Some(named)) => {
                Some(Firsts::of(&self.scan(&named, i64::MIN, None))?)
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

    fn all_starts(&self, breakdown: &Breakdown) -> Result<Vec<Start>> {
        if self.starts != Starts::Any {
            return self.first_starts(Some(breakdown));
        }
        let selection = self.selection(self.target)?;
        let mut hits = Hits::new(self.context.limits);
        let scan = self.scan(&selection, self.first_row(), Some(breakdown));
        hits.collect(&scan, |(), rows: &Rows<'_>| {
            Ok(rows.values.iter().copied().map(Some).collect())
        })?;
        let found = hits.fold(Vec::new, |starts: &mut Vec<Start>, hits| {
            let first = starts.len();
            let own = hits
                .iter()
                .filter_map(|hit| Some((hit.tag, self.rows.of(hit.time)? as u32, hit.actor)));
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
        Ok(found.into_iter().flatten().collect())
    }

    /// The largest first; what is beyond the limit together.
    pub fn values(&self, breakdown: &Breakdown) -> Result<(Vec<(Share, Table)>, bool)> {
        let mut starts = self.all_starts(breakdown)?;
        let mut reservation = self.context.limits.reserve();
        reservation.resize(starts.len() * size_of::<Start>())?;
        starts.sort_unstable();
        let size = |own: &[Start]| (own[0].0, own.len() as f64);
        let mut ranked: Vec<(u32, f64)> = starts.chunk_by(|a, b| a.0 == b.0).map(size).collect();
        let limit = breakdown.limit.min(ranked.len());
        breakdown.sort(&mut ranked, limit);
        let more = ranked.len() > limit;
        let returned = self.returned()?;
        let own = |value: u32| {
            let from = starts.partition_point(|start| start.0 < value);
            let to = starts.partition_point(|start| start.0 <= value);
            &starts[from..to]
        };
        let mut shares = Vec::new();
        for (value, _) in &ranked[..limit] {
            let mut table = self.empty();
            for (_, row, actor) in own(*value) {
                self.add(&mut table, &returned, *actor, *row as usize);
            }
            let texts = breakdown.texts(*value);
            let share = match *value {
                NO_VALUE => Share::Null(texts, false),
                _ => Share::Values(texts, false),
            };
            shares.push((share, table));
        }
        if more && !breakdown.hide_other {
            // Somebody with several of these values counts once.
            let rest = ranked[limit..].iter().flat_map(|(value, _)| own(*value));
            let mut rest: Vec<(u32, u32)> = rest.map(|(_, row, actor)| (*row, *actor)).collect();
            rest.sort_unstable();
            rest.dedup();
            let mut table = self.empty();
            for (row, actor) in rest {
                self.add(&mut table, &returned, actor, row as usize);
            }
            shares.push((Share::Other(1, false), table));
        }
        shares.sort_by_key(|(share, _)| share.rank());
        Ok((shares, more))
    }
}
