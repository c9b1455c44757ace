//! Domain types shared by every crate: ids, event stages, property filters, definitions of flags,
//! cohorts and insights, settings, access control and the clock. No I/O, no async.

mod access;
mod account;
mod action;
mod annotation;
mod cohort;
mod dashboard;
mod dates;
pub mod definition;
pub mod edit;
pub mod elements;
pub mod event;
pub mod filter_expr;
pub mod flag;
pub mod group;
mod id;
mod insight;
mod insight_variable;
pub mod json;
pub mod json_object;
pub mod json_shapes;
pub mod person;
mod project;
pub mod property;
pub mod scope;
mod settings;
mod sharing;
mod strict;
mod time;
mod verbatim_json;
mod warning;
mod window;

pub use access::{Access, AppliesTo, ObjectKind, ProjectAccess, Viewer, Visibilities, Visibility};
pub use account::{
    AccessLevel, FlagAccess, MembershipLevel, OrganizationSchema, OrganizationSettings,
    OrganizationSettingsChange, User, UserSchema, UserSettings, UserSettingsChange,
};
pub use action::{Action, ActionStep, StringMatching};
pub use annotation::{Annotation, AnnotationScope, CreationType};
pub use cohort::{
    Cohort, CohortType, cohort_tree, cohort_type, filters_from_groups, stored_cohort_tree,
};
pub use dashboard::{
    Button, ButtonPlacement, ButtonStyle, CreationMode, Dashboard, DashboardHead, DashboardPolicy,
    DashboardPresentation, Note, Privilege, Restriction, Rights, Tile, TileContent,
    TilePresentation, TileRef,
};
pub use dates::{Zone, parse_timestamp};
pub use id::{
    ActionId, AnnotationId, ButtonId, CohortId, DashboardId, FlagId, InsightId, NoteId,
    OrganizationId, ProjectId, TileId, UserId,
};
pub use insight::{Insight, InsightKind, InsightTile};
pub use insight_variable::{InsightVariable, VariableType, code_name};
pub use project::{ProjectSchema, ProjectSettings, ProjectSettingsChange};
pub use settings::{FieldError, Settings, SettingsChange, SettingsSchema};
pub use sharing::{SharedPageOptions, SharingSettings};
pub use strict::{deserialize_strict, json_type_name};
pub use time::{Clock, Timestamp, is_time_zone};
pub use verbatim_json::VerbatimJson;
pub use warning::{Throttle, Warning, WarningDetails, WarningKind};
pub use window::{LIMIT_DEFAULT, LIMIT_MAX, Window};
