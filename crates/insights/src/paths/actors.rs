//! Drill-down of paths.

use facts::ReadView;
use hashbrown::HashMap;

use super::items::PathItems;
use super::walk::{Edge, PathBounds, walk};
use super::{Interval, PathsQuery};
use crate::actors::{Actor, InsightActors};
use crate::hogql::HogqlCompiler;
use crate::limits::{MemoryReservation, QueryLimits};
use crate::scan::ActorSource;
use crate::scan::actor_events::ActorEvent;
use crate::scan::context::QueryContext;
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

impl PathsQuery {
    /// `pathStartKey` and `pathEndKey` are the ends of an edge; `pathDropoffKey` is the last node of a
    /// path.
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightActors> {
        if self.spec.funnel_paths_filter.is_some() {
            return Err(Error::invalid("Paths of funnels are not supported."));
        }
        let filter = &self.spec.paths_filter;
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let items = self.items(&context)?;
        let start = PathNode::read(filter.path_start_key.as_ref(), &items)?;
        let end = PathNode::read(filter.path_end_key.as_ref(), &items)?;
        let last = PathNode::read(filter.path_dropoff_key.as_ref(), &items)?;
        let fits = |edge: &Edge, next: Option<&Edge>| {
            let goes_on = next.is_some_and(|next| next.step == edge.step + 1);
            start.as_ref().is_none_or(|node| node.is(edge.step, edge.from))
                && end.as_ref().is_none_or(|node| node.is(edge.step + 1, edge.to))
                && last.as_ref().is_none_or(|node| !goes_on && node.is(edge.step + 1, edge.to))
        };
        let period = context.dates.period(&self.base.date_range, Interval::Day)?;
        let actors = ActorSource::of(self.base.aggregation_group_type_index);
        let new = || (HashMap::<u32, u64>::new(), limits.reserve());
        let each = |(counts, reservation): &mut (HashMap<u32, u64>, MemoryReservation<'_>),
                    events: &[ActorEvent],
                    order: &[u32],
                    bounds: &PathBounds| {
            let mut edges = Vec::new();
            walk(events, order, bounds, |edge, _| edges.push(edge));
            let matching =
                (0..edges.len()).filter(|at| fits(&edges[*at], edges.get(at + 1))).count();
            if matching > 0 {
                counts.insert(events[0].actor, matching as u64);
            }
            reservation.resize(counts.allocation_size())
        };
        let counts = self.fold_actors(&context, &period, &items, &actors, new, each)?;
        let counts = counts.into_iter().flat_map(|(counts, _)| counts);
        InsightActors::new(&actors, counts.map(Actor::of).collect::<Vec<_>>())
    }
}
