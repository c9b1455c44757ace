//! Feature flags, evaluated: a pure function of the compiled flags, a context and the time.
//!
//! On the read path it stands between the catalog, which gives definitions, persons and groups,
//! and the API, which answers SDKs. Only `service` asks the catalog; whatever decides knows no
//! store, no clock and no request.

mod answer;
mod compile;
mod context;
mod evaluate;
mod flag;
mod hash;
mod lanes;
mod local;
mod order;
mod select;
#[cfg(feature = "service")]
mod service;
mod trace;
mod write;

pub use answer::{Answer, Answers, Failure, Reason, ReasonCode};
pub use compile::{Environment, FlagSet};
pub use context::{Context, GroupSubject, HashKeys, Membership, Stored, Subject};
pub use flag::Flag;
pub use hash::{Prefix, bucket, holdout_bucket};
pub use select::{RequestRuntime, Selection};
#[cfg(feature = "service")]
pub use service::{
    Asked, Cell, Comparison, EXAMPLES_MAX, Everybody, Flags, LocalEvaluation, ProjectFlags,
    Unavailable,
};
pub use trace::{Silent, Step, Steps, Trace};
