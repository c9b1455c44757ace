//! Drill-down of paths: to actors and to events.

use std::sync::Arc;

use facts::ReadView;
use hashbrown::{HashMap, HashSet};

use super::items::{ItemReader, PathItems};
use super::walk::{Edge, PathBounds, walk};
use super::{Interval, PathsQuery};
use crate::actors::{Actor, InsightActors};
use crate::counted_events::{CountedEvents, RowColumns, RowTest};
use crate::hogql::HogqlCompiler;
use crate::limits::{MemoryReservation, QueryLimits};
use crate::query::date_range::Period;
use crate::scan::ActorSource;
use crate::scan::actor_events::ActorEvent;
use crate::scan::context::ScanContext;
use crate::{Error, Result};

/// A node of a result, such as `2_/pricing`.
struct PathNode {
    step: usize,
    item: u32,
}

impl PathNode {
    fn read(text: Option<&String>, items: &PathItems) -> Result<Option<Self>> {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
        let parts = text.split_once('_').and_then(|(step, item)| Some((step.parse().ok()?, item)));
        match parts {
            Some((step, item)) => Ok(Some(Self { step, item: items.intern(item) })),
            None => Err(Error::Invalid(format!("'{text}' is not a node of a path."))),
        }
    }

    fn is(&self, step: usize, item: u32) -> bool {
        self.step == step && self.item == item
    }
}

/// The edges that a data point counts: `pathStartKey` and `pathEndKey` are the ends of an edge,
/// `pathDropoffKey` is the last node of a path.
struct EdgeFilter {
    start: Option<PathNode>,
    end: Option<PathNode>,
    last: Option<PathNode>,
}

impl EdgeFilter {
    fn fits(&self, edge: &Edge, next: Option<&Edge>) -> bool {
        let goes_on = next.is_some_and(|next| next.step == edge.step + 1);
        self.start.as_ref().is_none_or(|node| node.is(edge.step, edge.from))
            && self.end.as_ref().is_none_or(|node| node.is(edge.step + 1, edge.to))
            && self.last.as_ref().is_none_or(|node| !goes_on && node.is(edge.step + 1, edge.to))
    }
}

/// Timestamp, actor and item.
type PathEvent = (i64, u32, u32);

impl PathsQuery {
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightActors> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let items = self.items(&context)?;
        let period = context.scope.dates.period(&self.base.date_range, Interval::Day)?;
        let actors = ActorSource::of(self.base.aggregation_group_type_index);
        let new = || (HashMap::<u32, u64>::new(), limits.reserve());
        let add = |(counts, memory): &mut (HashMap<u32, u64>, MemoryReservation<'_>),
                   edge: &CountedEdge| {
            *counts.entry(edge.actor).or_default() += 1;
            memory.resize(counts.allocation_size())
        };
        let counts = self.fold_edges(&context, &period, &items, &actors, new, add)?;
        let counts = counts.into_iter().flat_map(|(counts, _)| counts);
        InsightActors::new(&actors, counts.map(Actor::of).collect::<Vec<_>>())
    }

    /// The events at both ends of the counted edges.
    pub(crate) fn events(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<CountedEvents> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let items = self.items(&context)?;
        let period = context.scope.dates.period(&self.base.date_range, Interval::Day)?;
        let actors = ActorSource::of(self.base.aggregation_group_type_index);
        let new = || (HashSet::<PathEvent>::new(), limits.reserve());
        let add = |(events, memory): &mut (HashSet<PathEvent>, MemoryReservation<'_>),
                   counted: &CountedEdge| {
            let CountedEdge { actor, edge, times } = counted;
            events.insert((times[0], *actor, edge.from));
            events.insert((times[1], *actor, edge.to));
            memory.resize(events.allocation_size())
        };
        let mut states = self.fold_edges(&context, &period, &items, &actors, new, add)?;
        let events: HashSet<PathEvent> = states.drain(..).flat_map(|(events, _)| events).collect();
        let mut memory = limits.reserve();
        memory.resize(events.allocation_size())?;
        let columns = RowColumns {
            actors: Some(Arc::new(actors)),
            keys: items.keys(),
            ..RowColumns::default()
        };
        let test = RowTest::new(view, columns, move |rows| {
            let items = ItemReader::default().read(&items, rows)?;
            let counted = |(row, item): (usize, &Option<u32>)| {
                item.is_some_and(|item| events.contains(&(rows.times[row], rows.actor(row), item)))
            };
            Ok(items.iter().enumerate().map(counted).collect())
        });
        let range = (period.from, period.to);
        Ok(CountedEvents::of(&self.selection(&context), range, Some(test.charged(memory))))
    }

    /// Folds the edges that the data point counts.
    fn fold_edges<S: Send>(
        &self,
        context: &ScanContext<'_>,
        period: &Period,
        items: &PathItems,
        actors: &ActorSource,
        new: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, &CountedEdge) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        if self.spec.funnel_paths_filter.is_some() {
            return Err(Error::invalid("Paths of funnels are not supported."));
        }
        let filter = &self.spec.paths_filter;
        let edges = EdgeFilter {
            start: PathNode::read(filter.path_start_key.as_ref(), items)?,
            end: PathNode::read(filter.path_end_key.as_ref(), items)?,
            last: PathNode::read(filter.path_dropoff_key.as_ref(), items)?,
        };
        let each = |state: &mut S, events: &[ActorEvent], order: &[u32], bounds: &PathBounds| {
            let mut walked = Vec::new();
            walk(events, order, bounds, |edge, times| walked.push((edge, times)));
            for (at, (edge, times)) in walked.iter().enumerate() {
                if edges.fits(edge, walked.get(at + 1).map(|(edge, _)| edge)) {
                    let (actor, edge, times) = (events[0].actor, *edge, *times);
                    add(state, &CountedEdge { actor, edge, times })?;
                }
            }
            Ok(())
        };
        self.fold_actors(context, period, items, actors, new, each)
    }
}

/// A traversal of an edge, with the timestamps of its ends.
struct CountedEdge {
    actor: u32,
    edge: Edge,
    times: [i64; 2],
}
