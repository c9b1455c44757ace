//! The project's words, shared by every crate. No I/O, no async.

mod account;
pub mod event;
mod id;
pub mod scope;
mod time;
mod warning;
mod window;

pub use account::{Level, User};
pub use id::{OrganizationId, ProjectId, UserId};
pub use time::{Clock, Timestamp};
pub use warning::{Warning, WarningDetails, WarningKind};
pub use window::{LIMIT_DEFAULT, LIMIT_MAX, Window};
