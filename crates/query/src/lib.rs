//! Answers about events: what is asked becomes a filter over the warehouse's columns, with what
//! the catalog knows of persons put beside it.
//!
//! It stands on the read path between `api` and the stores. It never writes, and knows no HTTP.

mod actors_query;
mod conditions;
mod error;
mod events;
mod events_query;
mod hogql_query;
mod legacy;
mod live;
mod names;
mod queries;
mod question;
mod reads;
mod shape;
mod worlds;

pub use error::{Error, Result};
pub use events::{
    EventBatches, Events, Mark, Order, People, Slice, ValuesKey, ValuesOf, Wanted, offset_max,
};
pub use facts::{ActionTest, Element, Filters, Selector, Zone, check_pattern, parse_moment};
pub use hogql_query::check_variables;
pub use legacy::{OldInsight, query_of};
pub use live::{News, Watch, Watched};
pub use queries::{
    Answer, Asked, Limits, Queries, QueryStatus, Refresh, Reply, Running, check_behaviour,
};
pub use question::{check, check_filter, check_filters, check_properties};
pub use shape::{Event, EventPerson, event_time};
