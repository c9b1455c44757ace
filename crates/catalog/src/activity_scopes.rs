//! All scopes of the activity log.

use model::definition::{EventDefinition, PropertyDefinition};
use model::flag::FeatureFlag;
use model::{Action, Annotation, Cohort, Insight, InsightVariable};

use crate::accounts::keys::PersonalKey;
use crate::accounts::members::Member;
use crate::accounts::organizations::OrganizationRow;
use crate::accounts::roles::RoleRow;
use crate::activity::Logged;
use crate::dashboards::board::Board;
use crate::persons::LoggedPerson;
use crate::persons::groups::GroupType;
use crate::projects::ProjectRow;

/// The scopes, for the API's list of filters.
pub const SCOPES: &[&str] = &[
    Action::SCOPE,
    Annotation::SCOPE,
    Board::SCOPE,
    Cohort::SCOPE,
    EventDefinition::SCOPE,
    FeatureFlag::SCOPE,
    GroupType::SCOPE,
    Insight::SCOPE,
    InsightVariable::SCOPE,
    Member::SCOPE,
    OrganizationRow::SCOPE,
    PersonalKey::SCOPE,
    LoggedPerson::SCOPE,
    ProjectRow::SCOPE,
    PropertyDefinition::SCOPE,
    RoleRow::SCOPE,
];
