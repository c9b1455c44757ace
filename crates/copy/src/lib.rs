//! `hedgerow copy`: makes the objects of a project of PostHog, or of another Hedgerow, here.
//!
//! Both sides are spoken to through their REST API: a server owns its data directory, and its API
//! validates, authorizes and logs what is written. Events are not copied; `import` reads them.
//!
//! The copy reads all lists, sorts the objects by their references ([`order`]), maps the ids in each
//! ([`references`]) and creates them one at a time. The [`ledger`] remembers what became what, so
//! that a copy resumes and a later one takes over what changed at the source. [`check`] asks both
//! sides for the flags of the same users.

mod bodies;
pub mod check;
mod copier;
mod definitions;
mod groups;
mod kind;
mod ledger;
mod members;
mod order;
mod references;
mod report;
mod site;
mod source;
mod tiles;
mod twins;

use std::path::PathBuf;

pub use copier::copy;
pub use kind::{Key, Kind};
pub use report::{Left, Outcome, Report};
pub use site::{Failure, Progress};

/// A project and how to reach it.
#[derive(Clone)]
pub struct Project {
    /// Scheme, host and port.
    pub base: String,
    pub id: String,
    pub personal_api_key: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is no address such as https://us.posthog.com")]
    Address(String),
    #[error("a personal API key is one word")]
    Key,
    #[error("{url} does not answer as it should, the last time with: {why}; run the command again")]
    Unavailable { url: String, why: Failure },
    #[error("the answer of {url} was lost ({why}), so whether it acted is not known")]
    Lost { url: String, why: Failure },
    #[error("no secure connection to {url}: {why}")]
    Untrusted { url: String, why: String },
    #[error("{url} redirects to {location}; name that address instead")]
    Redirected { url: String, location: String },
    #[error("{url}: status {status}: {detail}")]
    Status { url: String, status: u16, detail: String },
    #[error("{url} answers with more than is accepted")]
    TooLarge { url: String },
    #[error("{url} answers with something other than JSON")]
    NoJson { url: String },
    #[error("{url} answers with something other than a list")]
    NoList { url: String },
    #[error("project {0} has no API token, so it is none")]
    NoProject(String),
    #[error("{}", path.display())]
    Ledger { path: PathBuf, source: std::io::Error },
    #[error("{} is in use by another copy", path.display())]
    LedgerInUse { path: PathBuf },
    #[error("line {line} of {} is not a ledger's; name another file with --state", path.display())]
    NoLedger { path: PathBuf, line: usize },
    #[error(
        "{} is of a copy from {} of {} to {} of {}; name another file with --state",
        path.display(), found.project, found.from, found.to_project, found.to
    )]
    OtherLedger { path: PathBuf, found: Box<ledger::Header> },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The server refused this one request; others may succeed.
    fn refusal(self) -> std::result::Result<String, Self> {
        match self {
            Self::Status { status: 401, .. } => Err(self),
            Self::Status { status, detail, .. } => Ok(format!("status {status}: {detail}")),
            Self::TooLarge { .. } | Self::NoJson { .. } | Self::NoList { .. } => {
                Ok(self.to_string())
            }
            // It answers others.
            Self::Unavailable { why: Failure::Status(status), .. }
                if status != 429 && status != 503 =>
            {
                Ok(self.to_string())
            }
            Self::Lost { why: Failure::Status(_), .. } => Ok(self.to_string()),
            other => Err(other),
        }
    }
}
