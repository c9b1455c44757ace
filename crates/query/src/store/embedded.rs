//! The embedded engine: compiles conditions to predicates over columns, and runs statements with
//! `sql` and insights with `insights`, within the limits of the query.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use facts::{
    ActionMatcher, CohortFacts, Cohorts, ConditionCompiler, Filters, GroupFacts, Groups,
    PersonIndex, QueryContext, ReadView,
};
use hogql::plan::Plan;
use insights::{
    Actor, CountedEvents, HogqlCompiler, Insight, InsightActors, InsightResult, QueryLimits,
};
use model::property::BehavioralFilter;
use model::{ActionId, CohortId};
use warehouse::{Filter, Predicate, Snapshot, Value, ValueCount, Warehouse, Window};

use super::{EventConditions, EventList, MatchingPersons, ValueSearch, View};
use crate::drill_down::DrillDown;
use crate::permits::spawn_query;
use crate::runner::RunResources;
use crate::{Error, Result};

/// Worker threads of one statement.
const THREADS: usize = 2;

/// A view without cohorts, actions and HogQL expressions.
pub(crate) fn assemble(
    context: QueryContext,
    events: Snapshot,
    persons: Arc<PersonIndex>,
    groups: Arc<Groups>,
) -> ReadView {
    ReadView {
        context: Arc::new(context),
        events,
        persons,
        groups,
        cohorts: Arc::default(),
        actions: Arc::default(),
        sessions: Arc::default(),
        event_filter: None,
        expressions: Arc::new(NoExpressions),
    }
}

pub(super) fn events_view(warehouse: &Warehouse, context: QueryContext) -> View {
    let people = Arc::new(PersonIndex::new(context.project));
    let events = warehouse.snapshot(context.project);
    View::Embedded(Arc::new(assemble(context, events, people, Arc::default())))
}

pub(super) fn list(
    view: &ReadView,
    conditions: EventConditions,
    window: &Window,
) -> Result<EventList> {
    let filter = compile(view, conditions)?;
    Ok(EventList::Embedded(Arc::new(view.events.select(&filter, window)?)))
}

pub(super) fn values(view: &ReadView, search: ValueSearch) -> Result<Vec<ValueCount>> {
    let ValueSearch { key, conditions, containing, limit } = search;
    let filter = compile(view, conditions)?;
    let test = |value: Value<'_>| match (&containing, value) {
        (_, Value::Null | Value::Text("")) => false,
        (Some(part), value) => value.to_json().to_lowercase().contains(part.as_str()),
        (None, _) => true,
    };
    Ok(view.events.values(&key, &filter, &test, limit)?)
}

fn compile(view: &ReadView, conditions: EventConditions) -> Result<Filter> {
    let EventConditions { events, distinct_nos, after, before, filters, action } = conditions;
    let zone = &view.context.zone;
    let filters = Filters::compile(&filters, zone)?.predicate(view)?;
    let action = match action {
        Some(action) => Some(ActionMatcher::compile(&action, zone)?.predicate(view)?),
        None => None,
    };
    let predicate = match (filters, action) {
        (Some(filters), Some(action)) => Some(Predicate::All(vec![filters, action])),
        (filters, action) => filters.or(action),
    };
    Ok(Filter { events, distinct_nos, after, before, predicate, ..Filter::default() })
}

pub(super) async fn statement(
    view: &Arc<ReadView>,
    plan: &Plan,
    run: &RunResources<'_>,
) -> Result<sql::ResultSet> {
    let limits = sql::Limits {
        timeout: run.time_max,
        memory_bytes: run.memory_bytes,
        threads: THREADS,
        paths: sql::Paths::ALL,
        explain: run.explains,
    };
    let (memory, permit) = (run.memory.clone(), run.permit.clone());
    tokio::select! {
        rows = sql::run_within(plan, view, &limits, memory, permit) => Ok(rows?),
        () = run.cancel.wait() => Err(Error::Cancelled),
    }
}

pub(super) async fn insight(
    view: &Arc<ReadView>,
    insight: &Insight,
    hogql: HogqlCompiler,
    run: &RunResources<'_>,
) -> Result<(InsightResult, insights::Result<String>)> {
    let insight = insight.clone();
    let compute = move |view: &ReadView, limits: &QueryLimits| {
        let result = insight.run_with(view, limits, Some(&hogql))?;
        Ok((result, insight.hogql_text(&view.context)))
    };
    on_thread(view, run, compute).await
}

pub(super) async fn actors(
    view: &Arc<ReadView>,
    point: &DrillDown,
    hogql: HogqlCompiler,
    run: &RunResources<'_>,
) -> Result<InsightActors> {
    let point = point.clone();
    let find = move |view: &ReadView, limits: &QueryLimits| point.actors(view, limits, &hogql);
    on_thread(view, run, find).await
}

pub(super) async fn counted_events(
    view: &Arc<ReadView>,
    point: &DrillDown,
    hogql: HogqlCompiler,
    run: &RunResources<'_>,
) -> Result<CountedEvents> {
    let point = point.clone();
    let find = move |view: &ReadView, limits: &QueryLimits| point.events(view, limits, &hogql);
    on_thread(view, run, find).await
}

pub(super) async fn matching_persons(
    view: &Arc<ReadView>,
    behaviours: Vec<BehavioralFilter>,
    run: &RunResources<'_>,
) -> Result<MatchingPersons> {
    let scan = move |view: &ReadView, limits: &QueryLimits| {
        let evaluate = |behaviour: BehavioralFilter| {
            let persons = insights::matching_persons(&behaviour, view, limits)?;
            Ok((behaviour, persons))
        };
        behaviours.into_iter().map(evaluate).collect::<insights::Result<MatchingPersons>>()
    };
    on_thread(view, run, scan).await
}

/// Runs an insight's scan on a thread that may block, within the limits.
async fn on_thread<T: Send + 'static>(
    view: &Arc<ReadView>,
    run: &RunResources<'_>,
    work: impl FnOnce(&ReadView, &QueryLimits) -> insights::Result<T> + Send + 'static,
) -> Result<T> {
    let deadline = Instant::now() + run.time_max;
    let cancelled = run.cancel.flag.clone();
    let limits = QueryLimits::new(Some(deadline), cancelled, run.memory_bytes)
        .with_memory(run.memory.clone())
        .with_admission(&run.admission);
    let view = view.clone();
    let computed = spawn_query(run.permit.clone(), move || work(&view, &limits)).await?;
    if run.cancel.flag.load(Ordering::SeqCst) {
        return Err(Error::Cancelled);
    }
    match computed {
        // A HogQL filter reports every failure as Invalid, a timeout and the memory limit too.
        Err(insights::Error::Invalid(_)) if Instant::now() >= deadline => Err(Error::Timeout),
        Err(insights::Error::Invalid(_)) if run.memory.was_refused() => Err(Error::MemoryLimit),
        computed => Ok(computed?),
    }
}

pub(super) fn retain_stored(view: &ReadView, drill_down: &mut InsightActors) {
    let group = drill_down.group;
    drill_down.actors.retain(|actor| match group {
        None => view.persons.person(actor.actor_no).is_some(),
        Some(index) => view.groups.get(index, &actor.key).is_some(),
    });
}

pub(super) fn actors_by_id(view: &ReadView, drill_down: InsightActors) -> HashMap<String, Actor> {
    let id = |actor: &Actor| match drill_down.group {
        None => view.persons.uuid(actor.actor_no).to_string(),
        Some(_) => actor.key.clone(),
    };
    drill_down.actors.into_iter().map(|actor| (id(&actor), actor)).collect()
}

/// The view in which the actors of a drill-down are a cohort, or the only groups.
pub(super) fn of_actors(
    view: &ReadView,
    cohort: CohortId,
    drill_down: &InsightActors,
) -> Arc<ReadView> {
    let mut restricted = view.clone();
    match drill_down.group {
        None => {
            let members = drill_down.actors.iter().map(|actor| actor.actor_no).collect();
            let facts = CohortFacts { members, ..CohortFacts::default() };
            let stored = view.cohorts.iter().map(|(id, facts)| (id, facts.clone()));
            restricted.cohorts = Arc::new(stored.chain([(cohort, facts)]).collect::<Cohorts>());
        }
        Some(index) => {
            let mut groups = Groups::default();
            for actor in &drill_down.actors {
                if let Some(group) = view.groups.get(index, &actor.key) {
                    let (created_at, properties) = (group.created_at(), group.properties());
                    groups.set(index, &actor.key, &GroupFacts { created_at, properties });
                }
            }
            restricted.groups = Arc::new(groups);
        }
    }
    Arc::new(restricted)
}

/// The view whose statements see only these events.
pub(super) fn of_events(
    view: &Arc<ReadView>,
    action: Option<ActionId>,
    counted: Option<CountedEvents>,
) -> Result<Arc<ReadView>> {
    let of_action = match action {
        None => None,
        Some(id) => Some(match view.actions.get(&id) {
            Some(action) => action.predicate(view)?,
            None => Predicate::Any(Vec::new()),
        }),
    };
    let of_point = counted.map(|counted| counted.predicate);
    let only: Vec<Predicate> = of_action.into_iter().chain(of_point).collect();
    if only.is_empty() {
        return Ok(view.clone());
    }
    let event_filter = Some(Predicate::All(only));
    Ok(Arc::new(ReadView { event_filter, ..ReadView::clone(view) }))
}

/// For views that evaluate no HogQL expressions.
#[derive(Debug)]
struct NoExpressions;

impl ConditionCompiler for NoExpressions {
    fn condition(&self, _: &ReadView, text: &str) -> facts::Result<Predicate> {
        Err(facts::Error::Invalid(format!("'{text}' cannot be used here.")))
    }
}
