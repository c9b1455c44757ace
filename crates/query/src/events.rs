//! Event lists, single events, and property values.

mod list;
mod values;

use std::collections::HashMap;
use std::sync::Arc;

use catalog::{Catalog, ProjectRow};
use facts::{ActionExpr, Needs, needs_joins};
use model::filter_expr::FilterExpr;
use model::person::{Person, PersonNo};
use model::{Clock, ProjectId, Timestamp};
use uuid::Uuid;
pub use warehouse::{Cursor, Order};
use warehouse::{DenseIdSet, EventRow, NewRow, Sink};

use crate::Result;
use crate::event_json::Event;
use crate::live::{Live, LiveFilter, LiveSubscription};
use crate::people::People;
use crate::permits::ReadPermits;
use crate::person_scan::PersonScan;
use crate::pulse::{PulseSubscription, Pulses};
use crate::read_views::ReadViews;
use crate::referenced_names::ReferencedNames;
use crate::runner::{Limits, QueryRunner};
use crate::store::{EventConditions, Store, View};
pub use list::EventBatches;
use list::OpenLists;
pub use values::{ValuesKey, ValuesRequest};

/// Upstream's maximum offset; skipped events are read too.
pub const fn offset_max() -> usize {
    50_000
}

/// Reads events of all projects; cheap to clone.
#[derive(Clone)]
pub struct Events {
    catalog: Catalog,
    store: Store,
    sink: Arc<dyn Sink>,
    reads: ReadPermits,
    clock: Clock,
    live: Live,
    pulses: Pulses,
    read_views: ReadViews,
    lists: OpenLists,
}

/// Which events to list; the conditions are joined by AND.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub event: Option<String>,
    pub distinct_id: Option<String>,
    /// A person's uuid or dense id.
    pub person: Option<String>,
    /// Exclusive lower bound.
    pub after: Option<Timestamp>,
    /// Exclusive upper bound.
    pub before: Option<Timestamp>,
    pub properties: FilterExpr,
    pub action: Option<ActionExpr>,
}

/// Which page of the list.
#[derive(Clone, Debug)]
pub struct EventPage {
    pub order: Order,
    pub limit: usize,
    pub offset: usize,
    /// Where the previous page ended.
    pub cursor: Option<Cursor>,
}

/// Whether events are returned with their persons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonDetails {
    Included,
    Omitted,
}

impl Events {
    /// `sink` is where ingestion writes what `store` reads. Without `people`, identities are read from
    /// the catalog after every start.
    pub fn new(
        catalog: Catalog,
        store: Store,
        sink: Arc<dyn Sink>,
        clock: Clock,
        people: Option<People>,
    ) -> Self {
        let (live, pulses) = (Live::new(), Pulses::new());
        let (live_publisher, pulse_publisher) = (live.clone(), pulses.clone());
        sink.on_append(Box::new(move |rows: &[&NewRow<'_>]| {
            live_publisher.publish(rows);
            pulse_publisher.publish(rows);
        }));
        let pulse_publisher = pulses.clone();
        catalog.projects().on_change(move |project| pulse_publisher.publish_change(project));
        let read_views = ReadViews::new(catalog.clone(), store.clone(), people);
        let (reads, lists) = (ReadPermits::new(), OpenLists::new());
        Self { catalog, store, sink, reads, clock, live, pulses, read_views, lists }
    }

    /// Keeps the persons on disk current until it is cancelled.
    pub fn maintain_persons(&self) -> impl Future<Output = ()> + use<> {
        self.read_views.clone().maintain_persons()
    }

    /// All persons of a project as they are now.
    pub async fn scan_persons(&self, project: ProjectId) -> catalog::Result<PersonScan> {
        self.read_views.scan_persons(project).await
    }

    /// Why queries of some project wait for its persons.
    pub fn persons_progress(&self) -> Option<String> {
        self.read_views.persons_progress()
    }

    /// The first journal position whose events queries do not see yet.
    pub fn applied_position(&self) -> u64 {
        self.sink.applied_position()
    }

    /// Subscribes to events that are ingested from now on.
    pub fn subscribe(&self, filter: LiveFilter) -> Result<LiveSubscription> {
        self.live.subscribe(filter)
    }

    /// Subscribes to the counts of events that are ingested from now on.
    pub fn subscribe_pulse(&self, project: ProjectId) -> Result<PulseSubscription> {
        self.pulses.subscribe(project)
    }

    /// Ends every live subscription, so that the server can stop.
    pub fn close_live_streams(&self) {
        self.live.close();
        self.pulses.close();
    }

    /// A query runner on the same read views.
    pub fn queries(&self, limits: Limits) -> QueryRunner {
        QueryRunner::new(self.catalog.clone(), self.read_views.clone(), limits)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub async fn get(
        &self,
        project: ProjectId,
        uuid: Uuid,
        details: PersonDetails,
    ) -> Result<Option<Event>> {
        let store = self.store.clone();
        let row = self.reads.run(move || store.get(project, uuid)).await?;
        Ok(self.with_persons(project, row.into_iter().collect(), details).await?.pop())
    }

    /// The conditions, with persons and distinct ids looked up; none when no event can match.
    async fn conditions(
        &self,
        project: &ProjectRow,
        filter: &EventFilter,
    ) -> Result<Option<EventConditions>> {
        let mut distinct_nos: Option<DenseIdSet> = None;
        if let Some(text) = &filter.distinct_id {
            let ids = self.catalog.persons().distinct_ids(project.id, &[text]).await?;
            distinct_nos = Some(ids.iter().map(|id| id.no.0).collect());
        }
        if let Some(person) = &filter.person {
            let of_person = self.distinct_nos_of(project.id, person).await?;
            distinct_nos = Some(match distinct_nos {
                Some(distinct_nos) => distinct_nos & of_person,
                None => of_person,
            });
        }
        if distinct_nos.as_ref().is_some_and(DenseIdSet::is_empty) {
            return Ok(None);
        }
        if filter.action.as_ref().is_some_and(ActionExpr::is_empty) {
            return Ok(None);
        }
        Ok(Some(EventConditions {
            events: filter.event.clone().map(|event| [event].into()),
            distinct_nos,
            after: filter.after,
            before: filter.before,
            filters: filter.properties.clone(),
            action: filter.action.clone(),
        }))
    }

    /// A view with what the conditions need.
    async fn view(&self, project: &ProjectRow, conditions: &EventConditions) -> Result<View> {
        let EventConditions { filters, action, .. } = conditions;
        if !needs_joins(filters) && !action.as_ref().is_some_and(ActionExpr::needs_joins) {
            return Ok(self.read_views.events_only(project));
        }
        let mut needs = Needs::default();
        needs.add_filters(filters);
        action.iter().for_each(|action| needs.add_action(action));
        let (names, cancellation) = (ReferencedNames::default(), eval::Cancellation::default());
        Ok(self.read_views.open(project, &needs, names, &cancellation).await?.0)
    }

    async fn distinct_nos_of(&self, project: ProjectId, person: &str) -> Result<DenseIdSet> {
        let person_no = match (Uuid::parse_str(person), person.parse()) {
            (Ok(uuid), _) => self.catalog.persons().no_by_uuid(project, uuid).await?,
            (Err(_), Ok(person_no)) => Some(PersonNo(person_no)),
            _ => None,
        };
        let Some(person_no) = person_no else { return Ok(DenseIdSet::new()) };
        let ids = self.catalog.persons().distinct_ids_of(project, &[person_no]).await?;
        Ok(ids.iter().map(|id| id.no.0).collect())
    }

    async fn with_persons(
        &self,
        project: ProjectId,
        rows: Vec<EventRow>,
        details: PersonDetails,
    ) -> Result<Vec<Event>> {
        let persons = match details {
            PersonDetails::Included => self.persons_of(project, &rows).await?,
            PersonDetails::Omitted => HashMap::new(),
        };
        let to_event = |row: EventRow| {
            let person = persons.get(&*row.distinct_id);
            Event::new(row, person)
        };
        Ok(rows.into_iter().map(to_event).collect())
    }

    async fn persons_of(
        &self,
        project: ProjectId,
        rows: &[EventRow],
    ) -> Result<HashMap<String, Person>> {
        let mut distinct_ids: Vec<&str> = rows.iter().map(|row| &*row.distinct_id).collect();
        distinct_ids.sort_unstable();
        distinct_ids.dedup();
        let (ids, persons) = self.catalog.persons().identities(project, &distinct_ids).await?;
        let persons: HashMap<PersonNo, Person> =
            persons.into_iter().map(|person| (person.no, person)).collect();
        let person = |no: Option<PersonNo>| persons.get(&no?).cloned();
        Ok(ids.into_iter().filter_map(|id| Some((id.text, person(id.person)?))).collect())
    }
}
