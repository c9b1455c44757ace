//! The contract on the embedded warehouse, wherever its rows are: in memory, in segments, or merged.

use std::marker::PhantomData;
use std::time::Duration;

use ::model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{
    ColumnKey, EventRow, Filter, Listing, Retention, Settings, Sink, Value, ValueCount, Window,
};

use crate::contract::Adapter;
use crate::support::{Store, small};

/// Where the rows are when they are read.
trait Layout {
    fn arrange(store: &Store);
}

struct InMemory;
struct Flushed;
struct Merged;

impl Layout for InMemory {
    fn arrange(_: &Store) {}
}

impl Layout for Flushed {
    fn arrange(store: &Store) {
        store.warehouse.flush().unwrap();
    }
}

impl Layout for Merged {
    fn arrange(store: &Store) {
        store.warehouse.flush().unwrap();
        store.compact_fully();
    }
}

struct Embedded<L> {
    store: Store,
    layout: PhantomData<L>,
}

impl<L: Layout> Adapter for Embedded<L> {
    fn open(age_max: Option<Duration>) -> Self {
        let retention = Retention { age_max, ..Retention::default() };
        let store = Store::with(Settings { retention, ..small() });
        Self { store, layout: PhantomData }
    }

    fn restart(self) -> Self {
        Self { store: self.store.reopen(), ..self }
    }

    fn sink(&self) -> &dyn Sink {
        &self.store.warehouse
    }

    fn settle(&self) {
        L::arrange(&self.store);
    }

    fn now(&self) -> Timestamp {
        self.store.clock.now()
    }

    fn list(&self, project: ProjectId, filter: &Filter, window: &Window) -> Listing {
        self.store.warehouse.snapshot(project).list(filter, window).unwrap()
    }

    fn get(&self, project: ProjectId, uuid: Uuid) -> Option<EventRow> {
        self.store.warehouse.snapshot(project).get(uuid).unwrap()
    }

    fn values(
        &self,
        project: ProjectId,
        key: &ColumnKey,
        filter: &Filter,
        limit: usize,
    ) -> Vec<ValueCount> {
        let is_given = |value: Value<'_>| value != Value::Null;
        self.store.warehouse.snapshot(project).values(key, filter, &is_given, limit).unwrap()
    }
}

mod in_memory {
    crate::contract::contract_of!(super::Embedded<super::InMemory>);
}

mod flushed {
    crate::contract::contract_of!(super::Embedded<super::Flushed>);
}

mod merged {
    crate::contract::contract_of!(super::Embedded<super::Merged>);
}
