//! What a question is answered from: a project's events, persons, groups and cohorts at one
//! moment, and what property filters, actions and dates mean over them.
//!
//! It stands on the read path below everything that computes an answer. `query` fills a [`World`]
//! from the catalog; nothing here waits for anything but the warehouse's files.

mod actions;
mod channel;
mod cleaning;
mod cohorts;
mod dates;
mod elements;
mod error;
mod filters;
mod groups;
mod matcher;
mod people;
mod profiles;
mod selectors;
mod sessions;
mod set;
mod slab;
mod world;

pub use actions::ActionTest;
pub use channel::{channel, url_host, url_path};
pub use cleaning::PathCleaning;
pub use cohorts::{CohortFacts, Cohorts};
pub use dates::{Zone, parse_moment};
pub use elements::{Element, parse as parse_elements};
pub use error::{Error, Result};
pub use filters::{Filters, event_column};
pub use groups::{GroupFacts, Groups};
pub use matcher::{CLEANED, Matcher, check_pattern};
pub use people::{People, PersonFacts};
pub use selectors::Selector;
pub use sessions::{SessionFacts, SessionField, SessionValue};
pub use set::Set;
pub use world::{ActionFacts, Expressions, Needs, World};
