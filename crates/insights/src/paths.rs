//! Paths: what people do one after the other.

mod actors;
mod items;
mod walk;

use std::collections::BTreeSet;

use facts::ReadView;
use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use warehouse::{Key, Predicate, Value};

use crate::context::{EventSelection, QueryContext, json_number};
use crate::hogql::HogqlCompiler;
use crate::journeys::{Hit, Hits};
use crate::limits::{MemoryReservation, QueryLimits};
use crate::range::Period;
use crate::result::InsightResult;
use crate::scan::{Actors, Rows, Scan};
use crate::spec::{self, Base, Node, Overrides};
use crate::{Error, Interval, Result, expression};
use items::{Items, Reader};
use walk::{Cut, Edge, walk};

const STEPS: usize = 5;
const STEPS_MAX: usize = 20;
const EDGES: usize = 50;
const EDGES_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct PathsQuery {
    pub base: Base,
    own: Own,
    /// The project's own rules, once they are known.
    cleaning: Option<Vec<Cleaning>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Own {
    paths_filter: PathsFilter,
    funnel_paths_filter: Option<Json>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct PathsFilter {
    include_event_types: Vec<EventType>,
    #[serde(rename = "pathsHogQLExpression")]
    paths_hogql_expression: Option<String>,
    start_point: Option<String>,
    end_point: Option<String>,
    step_limit: Option<usize>,
    edge_limit: Option<usize>,
    min_edge_weight: Option<u64>,
    max_edge_weight: Option<u64>,
    exclude_events: Vec<String>,
    path_groupings: Vec<String>,
    local_path_cleaning_filters: Vec<Cleaning>,
    path_replacements: bool,
    show_full_urls: bool,
    /// Nodes of the answer whose people are asked for; of no effect on numbers.
    path_start_key: Option<String>,
    path_end_key: Option<String>,
    path_dropoff_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum EventType {
    #[serde(rename = "$pageview")]
    Pageview,
    #[serde(rename = "$screen")]
    Screen,
    #[serde(rename = "custom_event")]
    Custom,
    #[serde(rename = "hogql")]
    Hogql,
}

/// What fits the pattern is called by the alias.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Cleaning {
    alias: Option<String>,
    regex: Option<String>,
    #[serde(rename = "order")]
    _order: Option<i64>,
}

/// How often an edge was walked, and for how many milliseconds in all.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    count: u64,
    millis: f64,
}

impl PathsQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, own) = spec::read::<Own>(json)?;
        Ok(Self { base, own, cleaning: None })
    }

    /// A rule that cannot be read cleans nothing.
    pub(crate) fn set_cleaning(&mut self, rules: &Json) {
        let read = |rule: &Json| serde_json::from_value(rule.clone()).ok();
        self.cleaning = Some(rules.as_array().into_iter().flatten().filter_map(read).collect());
    }

    pub(crate) fn apply(&mut self, dashboard: &Overrides) {
        self.base.apply(dashboard);
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        Vec::new()
    }

    pub(crate) fn uses_hogql(&self) -> bool {
        self.own.paths_filter.include_event_types.contains(&EventType::Hogql)
    }

    fn bounded(given: Option<usize>, default: usize, max: usize, name: &str) -> Result<usize> {
        match given.unwrap_or(default) {
            0 => Err(Error::Invalid(format!("{name} is at least 1."))),
            count if count > max => Err(Error::Invalid(format!("{name} is at most {max}."))),
            count => Ok(count),
        }
    }

    /// Events that are items of paths.
    fn selection(&self, context: &QueryContext<'_>) -> EventSelection {
        let types = &self.own.paths_filter.include_event_types;
        let everything = context.everything();
        if types.is_empty() || types.contains(&EventType::Hogql) {
            return everything;
        }
        let pageview = types.contains(&EventType::Pageview).then(|| "$pageview".to_owned());
        let screen = types.contains(&EventType::Screen).then(|| "$screen".to_owned());
        let named: BTreeSet<String> = pageview.into_iter().chain(screen).collect();
        if !types.contains(&EventType::Custom) {
            return everything.named(Some(named));
        }
        everything.and(Some(Predicate::test(Key::Event, move |value| match value {
            Some(Value::Text(event)) => !event.starts_with('$') || named.contains(event),
            _ => false,
        })))
    }

    fn items(&self, context: &QueryContext<'_>) -> Result<Items> {
        let filter = &self.own.paths_filter;
        let expression = match filter.include_event_types.contains(&EventType::Hogql) {
            false => None,
            true => {
                let text = filter.paths_hogql_expression.as_deref().unwrap_or("event");
                Some(expression::read(context, text)?)
            }
        };
        let project = match (filter.path_replacements, &self.cleaning) {
            (false, _) => &[],
            (true, Some(rules)) => rules.as_slice(),
            (true, None) => {
                let detail = "The project's rules for cleaning paths are not known here.";
                return Err(Error::invalid(detail));
            }
        };
        let cleaning: Vec<(&str, &str)> = project
            .iter()
            .chain(&filter.local_path_cleaning_filters)
            .filter_map(|rule| Some((rule.regex.as_deref()?, rule.alias.as_deref()?)))
            .collect();
        let (full, excluded) = (filter.show_full_urls, &filter.exclude_events);
        Items::new(expression, full, &cleaning, &filter.path_groupings, excluded)
    }

    /// Shows the path of every actor, edge by edge, to one of the threads' states.
    fn walks<S: Send>(
        &self,
        context: &QueryContext<'_>,
        period: &Period,
        items: &Items,
        actors: &Actors,
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &[Hit], &[u32], &Cut) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let filter = &self.own.paths_filter;
        let steps = Self::bounded(filter.step_limit, STEPS, STEPS_MAX, "stepLimit")?;
        let mut hits = Hits::new(context.limits);
        let scan = context.scan(self.selection(context).filter(period.from, period.to));
        let scan = Scan { actors: Some(actors), keys: items.keys(), ..scan };
        hits.collect(&scan, |reader: &mut Reader, rows: &Rows<'_>| reader.read(items, rows))?;
        let given = |text: &Option<String>| {
            text.as_deref().filter(|text| !text.is_empty()).map(|text| items.number(text))
        };
        let cut = Cut {
            start: given(&filter.start_point),
            end: given(&filter.end_point),
            steps,
            gap: items.number("..."),
        };
        // Equal moments are told apart by the items' texts, not by the order they were met in.
        let order = items.order();
        hits.fold(new, |state, hits| each(state, hits, &order, &cut))
    }

    pub(crate) fn run(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightResult> {
        let filter = &self.own.paths_filter;
        if self.own.funnel_paths_filter.is_some() {
            return Err(Error::invalid("Paths of funnels are not supported."));
        }
        let edges_max = Self::bounded(filter.edge_limit, EDGES, EDGES_MAX, "edgeLimit")?;
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let items = self.items(&context)?;
        let period = context.dates.period(&self.base.date_range, Interval::Day)?;
        let actors = Actors::of(self.base.aggregation_group_type_index);
        let new = || (HashMap::<Edge, Weight>::new(), limits.reserve());
        let each = |(edges, reservation): &mut (_, MemoryReservation<'_>),
                    hits: &[Hit],
                    order: &[u32],
                    cut: &Cut| {
            walk(hits, order, cut, |edge, micros| {
                let weight: &mut Weight = HashMap::entry(edges, edge).or_default();
                weight.count += 1;
                weight.millis += micros as f64 / 1e3;
            });
            reservation.resize(edges.allocation_size())
        };
        let found = self.walks(&context, &period, &items, &actors, new, each)?;
        let mut edges: HashMap<Edge, Weight> = HashMap::new();
        for (edge, weight) in found.into_iter().flat_map(|(edges, _)| edges) {
            let own = edges.entry(edge).or_default();
            own.count += weight.count;
            own.millis += weight.millis;
        }
        let results = self.shape(edges, &items, edges_max);
        let calendar = &context.dates.calendar;
        InsightResult::new(results, calendar, period.from, period.to, Interval::Day)
    }

    fn shape(&self, edges: HashMap<Edge, Weight>, items: &Items, edges_max: usize) -> Json {
        let filter = &self.own.paths_filter;
        let fits = |weight: &Weight| {
            filter.min_edge_weight.is_none_or(|min| weight.count >= min)
                && filter.max_edge_weight.is_none_or(|max| weight.count <= max)
        };
        let mut edges: Vec<(Edge, Weight)> =
            edges.into_iter().filter(|(_, weight)| fits(weight)).collect();
        let names = |edge: &Edge| {
            let name = |step: usize, item: u32| format!("{step}_{}", items.text(item));
            (name(edge.step, edge.from), name(edge.step + 1, edge.to))
        };
        edges.sort_by_cached_key(|(edge, weight)| (std::cmp::Reverse(weight.count), names(edge)));
        edges.truncate(edges_max);
        let reachable = walk::reachable(&edges.iter().map(|(edge, _)| *edge).collect::<Vec<_>>());
        let item = |(edge, weight): &(Edge, Weight)| {
            let (source, target) = names(edge);
            json!({
                "source": source,
                "target": target,
                "value": weight.count,
                "average_conversion_time": json_number(weight.millis / weight.count as f64),
            })
        };
        let kept = edges.iter().zip(reachable).filter(|(_, reachable)| *reachable);
        Json::Array(kept.map(|(edge, _)| item(edge)).collect())
    }
}
