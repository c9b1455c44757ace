//! What a project says about its data: actions, annotations, event and property definitions.

pub(crate) mod actions;
pub(crate) mod annotations;
pub(crate) mod event_definitions;
pub(crate) mod property_definitions;
