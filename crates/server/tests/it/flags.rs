//! Feature flags: management, evaluation, local evaluation and SDKs.

pub mod access;
pub mod client_actions;
pub mod drafts;
pub mod evaluation;
pub mod local_evaluation;
pub mod management;
pub mod refusals;
pub mod sdk_agreement;
pub mod stored_properties;
pub mod usage;
