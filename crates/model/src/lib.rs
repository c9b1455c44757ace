//! The project's words, shared by every crate. No I/O, no async.

mod access;
mod account;
mod action;
mod annotation;
mod cohort;
mod dashboard;
pub mod definition;
pub mod edit;
pub mod event;
pub mod flag;
pub mod group;
mod id;
mod insight;
pub mod json;
pub mod object;
pub mod person;
mod project;
pub mod property;
mod read;
pub mod scope;
mod settings;
mod time;
mod warning;
mod window;
mod written;

pub use access::{Access, ObjectKind, ProjectAccess, Sight, Sights, Viewer, Whom};
pub use account::{
    AccessLevel, FlagAccess, Level, MEMBER_KEYS, OfOrganization, OfUser, OrganizationSettings,
    OrganizationSettingsChange, User, UserSettings, UserSettingsChange,
};
pub use action::{Action, ActionStep, StringMatching};
pub use annotation::{Annotation, AnnotationScope, CreationType};
pub use cohort::{
    Cohort, CohortType, cohort_tree, cohort_type, filters_of_groups, stored_cohort_tree,
};
pub use dashboard::{
    Button, ButtonPlacement, ButtonStyle, CreationMode, Dashboard, DashboardHead, DashboardLook,
    Guard, Note, Privilege, Restriction, Rights, Shows, Tile, TileLook, TilePlace,
};
pub use id::{
    ActionId, AnnotationId, ButtonId, CohortId, DashboardId, FlagId, InsightId, NoteId,
    OrganizationId, ProjectId, TileId, UserId,
};
pub use insight::{Insight, InsightKind, Place};
pub use project::{OfProject, ProjectSettings, ProjectSettingsChange};
pub use read::{kind_of, read};
pub use settings::{Refusal, Settings, SettingsChange, Table};
pub use time::{Clock, Timestamp, is_time_zone};
pub use warning::{Throttle, Warning, WarningDetails, WarningKind};
pub use window::{LIMIT_DEFAULT, LIMIT_MAX, Window};
pub use written::Written;
