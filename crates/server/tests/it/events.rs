//! Events, their definitions and actions, import and export.

pub mod actions;
pub mod definitions;
pub mod import_export;
pub mod large_lists;
pub mod list;
pub mod values_and_live;
