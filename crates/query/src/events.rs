//! Lists of events, single events, and the values of their properties.

mod listed;
mod values;

use std::collections::HashMap;

use catalog::{Catalog, ProjectRow};
use facts::{ActionTest, Filters, Needs};
use model::person::{Person, PersonNo};
use model::{Clock, ProjectId, Timestamp};
use uuid::Uuid;
pub use warehouse::{Cursor as Mark, Order};
use warehouse::{EventRow, Filter, Numbers, Predicate, Warehouse};

use crate::Result;
use crate::live::{Live, Watch, Watched};
use crate::names::Names;
use crate::queries::{Limits, Queries};
use crate::reads::Reads;
use crate::shape::Event;
use crate::worlds::Worlds;
pub use listed::EventBatches;
use listed::OpenLists;
pub use values::{ValuesKey, ValuesOf};

/// Upstream's bound on skipping; each skipped event is read.
pub const fn offset_max() -> usize {
    50_000
}

/// Reads events of all projects; cheap to clone.
#[derive(Clone)]
pub struct Events {
    catalog: Catalog,
    warehouse: Warehouse,
    reads: Reads,
    clock: Clock,
    live: Live,
    worlds: Worlds,
    lists: OpenLists,
}

/// Which events; all that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub event: Option<String>,
    pub distinct_id: Option<String>,
    /// A person's uuid or number.
    pub person: Option<String>,
    /// Later than this.
    pub after: Option<Timestamp>,
    /// Earlier than this.
    pub before: Option<Timestamp>,
    pub properties: Filters,
    pub action: Option<ActionTest>,
}

/// Which part of the list.
#[derive(Clone, Debug)]
pub struct Slice {
    pub order: Order,
    pub limit: usize,
    pub offset: usize,
    /// Where an earlier page ended.
    pub mark: Option<Mark>,
}

/// Whether events show their persons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum People {
    Shown,
    Hidden,
}

impl Events {
    pub fn new(catalog: Catalog, warehouse: Warehouse, clock: Clock) -> Self {
        let live = Live::new();
        let publisher = live.clone();
        warehouse.on_append(move |rows| publisher.publish(rows));
        let worlds = Worlds::new(catalog.clone(), warehouse.clone());
        let (reads, lists) = (Reads::new(), OpenLists::new());
        Self { catalog, warehouse, reads, clock, live, worlds, lists }
    }

    /// Events that come from now on.
    pub fn watch(&self, watched: Watched) -> Result<Watch> {
        self.live.watch(watched)
    }

    /// Ends every watch, so that the server can stop.
    pub fn stop_watching(&self) {
        self.live.close();
    }

    /// Answers questions from the same facts.
    pub fn queries(&self, limits: Limits) -> Queries {
        Queries::new(self.catalog.clone(), self.worlds.clone(), limits)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub async fn get(
        &self,
        project: ProjectId,
        uuid: Uuid,
        people: People,
    ) -> Result<Option<Event>> {
        let warehouse = self.warehouse.clone();
        let read = move || Ok(warehouse.snapshot(project).get(uuid)?);
        let row = self.reads.run(read).await?;
        Ok(self.shown(project, row.into_iter().collect(), people).await?.pop())
    }

    /// None when nothing can match.
    async fn filter(&self, project: &ProjectRow, wanted: &Wanted) -> Result<Option<Filter>> {
        let mut numbers: Option<Numbers> = None;
        if let Some(text) = &wanted.distinct_id {
            let ids = self.catalog.distinct_ids(project.id, &[text]).await?;
            numbers = Some(ids.iter().map(|id| id.no.0).collect());
        }
        if let Some(person) = &wanted.person {
            let own = self.ids_of(project.id, person).await?;
            numbers = Some(match numbers {
                Some(numbers) => numbers & own,
                None => own,
            });
        }
        if numbers.as_ref().is_some_and(Numbers::is_empty) {
            return Ok(None);
        }
        if wanted.action.as_ref().is_some_and(ActionTest::is_empty) {
            return Ok(None);
        }
        let predicate = self.predicate(project, wanted).await?;
        Ok(Some(Filter {
            events: wanted.event.clone().map(|event| [event].into()),
            distinct_nos: numbers,
            after: wanted.after,
            before: wanted.before,
            predicate,
        }))
    }

    async fn predicate(&self, project: &ProjectRow, wanted: &Wanted) -> Result<Option<Predicate>> {
        let Wanted { properties, action, .. } = wanted;
        let beyond = properties.looks_beyond_events()
            || action.as_ref().is_some_and(ActionTest::looks_beyond_events);
        let world = if beyond {
            let mut needs = Needs::default();
            properties.needs(&mut needs);
            action.iter().for_each(|action| action.needs(&mut needs));
            let stop = eval::Stop::default();
            self.worlds.world(project, &needs, Names::default(), &stop).await?.0
        } else {
            self.worlds.of_events(project)
        };
        let properties = properties.predicate(&world)?;
        let action = action.as_ref().map(|action| action.predicate(&world)).transpose()?;
        Ok(match (properties, action) {
            (Some(properties), Some(action)) => Some(Predicate::All(vec![properties, action])),
            (properties, action) => properties.or(action),
        })
    }

    async fn ids_of(&self, project: ProjectId, person: &str) -> Result<Numbers> {
        let number = match (Uuid::parse_str(person), person.parse()) {
            (Ok(uuid), _) => self.catalog.person_number(project, uuid).await?,
            (Err(_), Ok(number)) => Some(PersonNo(number)),
            _ => None,
        };
        let Some(number) = number else { return Ok(Numbers::new()) };
        let ids = self.catalog.distinct_ids_of(project, &[number]).await?;
        Ok(ids.iter().map(|id| id.no.0).collect())
    }

    async fn shown(
        &self,
        project: ProjectId,
        rows: Vec<EventRow>,
        people: People,
    ) -> Result<Vec<Event>> {
        let known = match people {
            People::Shown => self.persons_of(project, &rows).await?,
            People::Hidden => HashMap::new(),
        };
        let shown = |row: EventRow| {
            let person = known.get(&*row.distinct_id);
            Event::new(row, person)
        };
        Ok(rows.into_iter().map(shown).collect())
    }

    async fn persons_of(
        &self,
        project: ProjectId,
        rows: &[EventRow],
    ) -> Result<HashMap<String, Person>> {
        let mut texts: Vec<&str> = rows.iter().map(|row| &*row.distinct_id).collect();
        texts.sort_unstable();
        texts.dedup();
        let (ids, persons) = self.catalog.identities(project, &texts).await?;
        let persons: HashMap<PersonNo, Person> =
            persons.into_iter().map(|person| (person.no, person)).collect();
        let own = |no: Option<PersonNo>| persons.get(&no?).cloned();
        Ok(ids.into_iter().filter_map(|id| Some((id.text, own(id.person)?))).collect())
    }
}
