//! Queries over a project's events: insight, HogQL, events and actors queries, event lists,
//! property values, the live stream and the pulse.
//!
//! On the read path between `api` and the stores. It joins a project's events with the catalog's
//! persons, groups and cohorts (`read_views`), has the warehouse's engine compute the result within
//! limits (`store`), and caches it. It writes nothing but its identity log, and knows no HTTP.

mod actors_query;
mod conditions;
mod drill_down;
mod error;
mod event_json;
mod events;
mod events_query;
mod hogql_query;
mod identities;
mod identity_log;
mod language;
mod legacy;
mod live;
mod parse;
mod people;
mod permits;
mod person_scan;
mod pulse;
mod read_views;
mod referenced_names;
mod runner;
pub mod schema;
mod store;

pub use error::{Error, Result};
pub use event_json::{Event, EventPerson, event_time};
pub use events::{
    Cursor, EventBatches, EventFilter, EventPage, Events, Order, PersonDetails, ValuesKey,
    ValuesRequest, offset_max,
};
pub use facts::{
    ActionExpr, Element, Zone, check_pattern, parse_filters, parse_timestamp, read_filters,
};
pub use hogql::system::SYSTEM_TABLES;
pub use hogql_query::check_variables;
pub use legacy::{LegacyInsightKind, convert_legacy_filters};
pub use live::{LiveFilter, LiveSubscription, LiveUpdate};
pub use parse::{check, check_filter_overrides, check_property_filter, check_test_account_filters};
pub use people::People;
pub use person_scan::PersonScan;
pub use pulse::{Pulse, PulseSubscription};
pub use runner::{
    Limits, QueryRequest, QueryResponse, QueryResult, QueryRun, QueryRunner, QueryStatus, Refresh,
    check_behavioral_filter,
};
pub use store::Store;
