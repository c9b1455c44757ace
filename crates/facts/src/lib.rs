//! Read views: a project's events, persons, groups and cohorts at one position, and predicates over
//! them from property filters ([`model::filter_expr`]) and actions.
//!
//! The crate sits on the read path below everything that computes a result. `query` fills a
//! [`ReadView`] from the catalog; the only I/O here is reading the warehouse's files. What a query
//! means apart from the data is a [`QueryContext`], which other engines use too.

mod actions;
pub mod channel_type;
mod cohorts;
mod error;
mod filters;
mod groups;
mod id_set;
mod matcher;
mod path_cleaning;
mod person_index;
mod query_context;
mod read_view;
mod sessions;

pub use actions::{ActionExpr, ActionMatcher};
pub use channel_type::{channel_type, url_host, url_path};
pub use cohorts::{CohortFacts, Cohorts};
pub use error::{Error, Result};
pub use filters::{Filters, event_column, needs_joins, parse_filters, read_filters};
pub use groups::{Group, GroupFacts, Groups};
pub use id_set::IdSet;
pub use matcher::{Matcher, check_pattern};
pub use model::elements::{Element, parse as parse_elements};
pub use model::{Zone, parse_timestamp};
pub use path_cleaning::{PathCleaning, replacement};
pub use person_index::{Checkpoint, Checkpoints, PersonFacts, PersonIndex};
pub use query_context::{NamedAction, Needs, QueryContext};
pub use read_view::{ConditionCompiler, ReadView};
pub use sessions::{SessionFacts, SessionField, SessionValue};
