//! What a question is answered from: a project's events, persons, groups and cohorts at one
//! moment, and what property filters, actions and dates mean over them.
//!
//! It stands on the read path below everything that computes an answer. `query` fills a [`ReadView`]
//! from the catalog; nothing here waits for anything but the warehouse's files.

mod actions;
mod channel_type;
mod cohorts;
mod dates;
mod elements;
mod error;
mod filters;
mod groups;
mod id_set;
mod matcher;
mod path_cleaning;
mod person_index;
mod profiles;
mod read_view;
mod selectors;
mod sessions;
mod slab;

pub use actions::ActionMatcher;
pub use channel_type::{channel_type, url_host, url_path};
pub use cohorts::{CohortFacts, Cohorts};
pub use dates::{Zone, parse_timestamp};
pub use elements::{Element, parse as parse_elements};
pub use error::{Error, Result};
pub use filters::{Filters, event_column};
pub use groups::{GroupFacts, Groups};
pub use id_set::IdSet;
pub use matcher::{IS_CLEANED_PATH_EXACT, Matcher, check_pattern};
pub use path_cleaning::PathCleaning;
pub use person_index::{PersonFacts, PersonIndex};
pub use read_view::{ActionFacts, ConditionCompiler, Needs, ReadView};
pub use selectors::Selector;
pub use sessions::{SessionFacts, SessionField, SessionValue};
