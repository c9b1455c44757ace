//! Feature flag evaluation: a pure function of compiled flags, a context and the time.
//!
//! On the read path it sits between the catalog, which stores definitions, persons and groups, and
//! the API, which serves SDKs. Only `service` reads the catalog and the clock.

mod compile;
mod context;
mod dependencies;
mod evaluate;
mod flag;
mod hash;
mod json;
mod local_evaluation;
mod result;
mod selection;
#[cfg(feature = "service")]
mod service;
mod sha1_lanes;
mod trace;

pub use compile::{Environment, FlagSet};
pub use context::{Context, GroupSubject, HashKeys, Membership, Stored, Subject};
pub use flag::Flag;
pub use hash::{Prefix, bucket, holdout_bucket};
pub use result::{Failure, FlagResult, FlagResults, Reason, ReasonCode};
pub use selection::{RequestRuntime, Selection};
#[cfg(feature = "service")]
pub use service::{
    Cell, Comparison, EXAMPLES_MAX, EvaluationRequest, Flags, LocalEvaluation, ProjectFlags,
    ScanTarget, Unavailable,
};
pub use trace::{NoTrace, RecordedSteps, Step, Trace};
