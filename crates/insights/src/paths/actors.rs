//! Who walked an edge of a path.

use facts::ReadView;
use hashbrown::HashMap;

use super::items::Items;
use super::walk::{Cut, Edge, walk};
use super::{Interval, PathsQuery};
use crate::actors::{Actor, InsightActors};
use crate::context::QueryContext;
use crate::hogql::HogqlCompiler;
use crate::journeys::Hit;
use crate::limits::{MemoryReservation, QueryLimits};
use crate::scan::Actors;
use crate::{Error, Result};

/// A node of an answer, such as `2_/pricing`.
struct Spot {
    step: usize,
    item: u32,
}

impl Spot {
    fn read(text: Option<&String>, items: &Items) -> Result<Option<Self>> {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
        let parts = text.split_once('_').and_then(|(step, item)| Some((step.parse().ok()?, item)));
        match parts {
            Some((step, item)) => Ok(Some(Self { step, item: items.number(item) })),
            None => Err(Error::Invalid(format!("'{text}' is no node of a path."))),
        }
    }

    fn is(&self, step: usize, item: u32) -> bool {
        self.step == step && self.item == item
    }
}

impl PathsQuery {
    /// `pathStartKey` and `pathEndKey` are the ends of an edge; at `pathDropoffKey` a path ends.
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightActors> {
        if self.own.funnel_paths_filter.is_some() {
            return Err(Error::invalid("Paths of funnels are not supported."));
        }
        let filter = &self.own.paths_filter;
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let items = self.items(&context)?;
        let start = Spot::read(filter.path_start_key.as_ref(), &items)?;
        let end = Spot::read(filter.path_end_key.as_ref(), &items)?;
        let last = Spot::read(filter.path_dropoff_key.as_ref(), &items)?;
        let fits = |edge: &Edge, next: Option<&Edge>| {
            let goes_on = next.is_some_and(|next| next.step == edge.step + 1);
            start.as_ref().is_none_or(|spot| spot.is(edge.step, edge.from))
                && end.as_ref().is_none_or(|spot| spot.is(edge.step + 1, edge.to))
                && last.as_ref().is_none_or(|spot| !goes_on && spot.is(edge.step + 1, edge.to))
        };
        let period = context.dates.period(&self.base.date_range, Interval::Day)?;
        let actors = Actors::of(self.base.aggregation_group_type_index);
        let new = || (HashMap::<u32, u64>::new(), limits.reserve());
        let each = |(found, reservation): &mut (HashMap<u32, u64>, MemoryReservation<'_>),
                    hits: &[Hit],
                    order: &[u32],
                    cut: &Cut| {
            let mut edges = Vec::new();
            walk(hits, order, cut, |edge, _| edges.push(edge));
            let own = (0..edges.len()).filter(|at| fits(&edges[*at], edges.get(at + 1))).count();
            if own > 0 {
                found.insert(hits[0].actor, own as u64);
            }
            reservation.resize(found.allocation_size())
        };
        let found = self.walks(&context, &period, &items, &actors, new, each)?;
        let found = found.into_iter().flat_map(|(found, _)| found);
        InsightActors::new(&actors, found.map(Actor::of).collect::<Vec<_>>())
    }
}
