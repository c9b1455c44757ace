//! Paths: the edges between consecutive events of each actor.

mod actors;
mod items;
mod lower;
mod walk;

use std::collections::BTreeSet;

use facts::ReadView;
use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use warehouse::{ColumnKey, Predicate, Value};

use crate::hogql::HogqlCompiler;
use crate::limits::{MemoryReservation, QueryLimits};
use crate::query::date_range::Period;
use crate::query::spec::{self, Base, Node, Overrides};
use crate::result::InsightResult;
use crate::scan::actor_events::{ActorEvent, ActorEvents};
use crate::scan::context::{EventSelection, ScanContext, json_number};
use crate::scan::expression;
use crate::scan::{ActorSource, Rows, Scan};
use crate::{Error, Interval, Result};
use items::{ItemReader, PathItems};
use walk::{Edge, PathBounds, walk};

const STEPS: usize = 5;
const STEPS_MAX: usize = 20;
const EDGES: usize = 50;
const EDGES_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct PathsQuery {
    pub base: Base,
    spec: PathsSpec,
    /// The project's path cleaning rules; none until the caller sets them.
    cleaning: Option<Vec<Cleaning>>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PathsSpec {
    paths_filter: PathsFilter,
    #[schemars(skip)]
    funnel_paths_filter: Option<Json>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = |schema: &mut schemars::Schema| crate::schema::with_display_options(schema, "pathsFilter"))]
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
    /// Nodes whose actors a drill-down lists; no effect on the result.
    path_start_key: Option<String>,
    path_end_key: Option<String>,
    path_dropoff_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "PathsEventType")]
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

/// A path cleaning rule: matches of the regex are replaced by the alias.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "PathCleaningFilter")]
struct Cleaning {
    alias: Option<String>,
    regex: Option<String>,
    #[serde(rename = "order")]
    _order: Option<i64>,
}

/// Number of traversals of an edge, and their total duration in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    count: u64,
    millis: f64,
}

impl PathsQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, spec) = spec::read::<PathsSpec>(json)?;
        Ok(Self { base, spec, cleaning: None })
    }

    /// Sets the project's rules; a rule that cannot be parsed is ignored.
    pub(crate) fn set_cleaning(&mut self, rules: &Json) {
        let read = |rule: &Json| serde_json::from_value(rule.clone()).ok();
        self.cleaning = Some(rules.as_array().into_iter().flatten().filter_map(read).collect());
    }

    pub(crate) fn apply(&mut self, overrides: &Overrides) {
        self.base.apply(overrides);
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        Vec::new()
    }

    pub(crate) fn uses_hogql(&self) -> bool {
        self.spec.paths_filter.include_event_types.contains(&EventType::Hogql)
    }

    fn bounded(given: Option<usize>, default: usize, max: usize, name: &str) -> Result<usize> {
        match given.unwrap_or(default) {
            0 => Err(Error::Invalid(format!("{name} is at least 1."))),
            count if count > max => Err(Error::Invalid(format!("{name} is at most {max}."))),
            count => Ok(count),
        }
    }

    /// Events that can be items of a path.
    fn selection(&self, context: &ScanContext<'_>) -> EventSelection {
        let types = &self.spec.paths_filter.include_event_types;
        let everything = context.all_events();
        if types.is_empty() || types.contains(&EventType::Hogql) {
            return everything;
        }
        let pageview = types.contains(&EventType::Pageview).then(|| "$pageview".to_owned());
        let screen = types.contains(&EventType::Screen).then(|| "$screen".to_owned());
        let named: BTreeSet<String> = pageview.into_iter().chain(screen).collect();
        if !types.contains(&EventType::Custom) {
            return everything.with_names(Some(named));
        }
        everything.and(Some(Predicate::test(ColumnKey::Event, move |value| match value {
            Some(Value::Text(event)) => !event.starts_with('$') || named.contains(event),
            _ => false,
        })))
    }

    fn items(&self, context: &ScanContext<'_>) -> Result<PathItems> {
        let filter = &self.spec.paths_filter;
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
        PathItems::new(expression, full, &cleaning, &filter.path_groupings, excluded)
    }

    /// Folds the events of every actor. `each` gets the events, the sort ranks of items and the bounds
    /// of paths.
    fn fold_actors<S: Send>(
        &self,
        context: &ScanContext<'_>,
        period: &Period,
        items: &PathItems,
        actors: &ActorSource,
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &[ActorEvent], &[u32], &PathBounds) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let filter = &self.spec.paths_filter;
        let steps = Self::bounded(filter.step_limit, STEPS, STEPS_MAX, "stepLimit")?;
        let mut events = ActorEvents::new(context.limits);
        let scan = context.scan(self.selection(context).filter(period.from, period.to));
        let scan = Scan { actors: Some(actors), keys: items.keys(), ..scan };
        events
            .collect(&scan, |reader: &mut ItemReader, rows: &Rows<'_>| reader.read(items, rows))?;
        let given = |text: &Option<String>| {
            text.as_deref().filter(|text| !text.is_empty()).map(|text| items.intern(text))
        };
        let bounds = PathBounds {
            start: given(&filter.start_point),
            end: given(&filter.end_point),
            steps,
            gap: items.intern("..."),
        };
        // Events with equal timestamps sort by item string, so that the result does not depend on the
        // order in which ids were assigned.
        let order = items.order();
        events.fold(new, |state, events| each(state, events, &order, &bounds))
    }

    pub(crate) fn run(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightResult> {
        let filter = &self.spec.paths_filter;
        if self.spec.funnel_paths_filter.is_some() {
            return Err(Error::invalid("Paths of funnels are not supported."));
        }
        let edges_max = Self::bounded(filter.edge_limit, EDGES, EDGES_MAX, "edgeLimit")?;
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let items = self.items(&context)?;
        let period = context.scope.dates.period(&self.base.date_range, Interval::Day)?;
        let actors = ActorSource::of(self.base.aggregation_group_type_index);
        let new = || (HashMap::<Edge, Weight>::new(), limits.reserve());
        let each = |(edges, reservation): &mut (_, MemoryReservation<'_>),
                    events: &[ActorEvent],
                    order: &[u32],
                    bounds: &PathBounds| {
            walk(events, order, bounds, |edge, [from, to]| {
                let weight: &mut Weight = HashMap::entry(edges, edge).or_default();
                weight.count += 1;
                weight.millis += (to - from) as f64 / 1e3;
            });
            reservation.resize(edges.allocation_size())
        };
        let states = self.fold_actors(&context, &period, &items, &actors, new, each)?;
        let mut edges: HashMap<Edge, Weight> = HashMap::new();
        for (edge, weight) in states.into_iter().flat_map(|(edges, _)| edges) {
            let total = edges.entry(edge).or_default();
            total.count += weight.count;
            total.millis += weight.millis;
        }
        let results = self.shape(edges, &items, edges_max);
        let calendar = &context.scope.dates.calendar;
        InsightResult::new(results, calendar, period.from, period.to, Interval::Day)
    }

    fn shape(&self, edges: HashMap<Edge, Weight>, items: &PathItems, edges_max: usize) -> Json {
        let filter = &self.spec.paths_filter;
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
