//! The project's words, shared by every crate. No I/O, no async.

pub mod event;
mod id;
pub mod scope;
mod time;

pub use id::{OrganizationId, ProjectId, UserId};
pub use time::{Clock, Timestamp};
