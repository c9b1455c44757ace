//! Annotations: dated notes drawn over charts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AnnotationId, DashboardId, InsightId, ObjectKind, ProjectId, Timestamp, User, UserId,
    Visibilities,
};

/// An annotation as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Annotation {
    pub id: AnnotationId,
    pub content: Option<String>,
    pub date_marker: Option<Timestamp>,
    pub creation_type: CreationType,
    /// The insight it is drawn on.
    pub dashboard_item: Option<InsightId>,
    pub dashboard_id: Option<DashboardId>,
    pub dashboard_name: Option<String>,
    pub insight_short_id: Option<String>,
    pub insight_name: Option<String>,
    pub insight_derived_name: Option<String>,
    pub created_by: Option<User>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted: bool,
    pub scope: AnnotationScope,
    /// The project it was created in. Annotations of organization scope show in all its projects.
    #[serde(skip)]
    pub project: ProjectId,
    /// Author of the dashboard it belongs to; authors always see their own objects.
    #[serde(skip)]
    pub dashboard_author: Option<UserId>,
    #[serde(skip)]
    pub insight_author: Option<UserId>,
}

impl Annotation {
    fn may_show_dashboard(&self, visibilities: &Visibilities) -> bool {
        let visibility = visibilities.of(ObjectKind::Dashboard);
        self.dashboard_id.is_none_or(|id| visibility.holds(id.0, self.dashboard_author))
    }

    fn may_show_insight(&self, visibilities: &Visibilities) -> bool {
        let visibility = visibilities.of(ObjectKind::Insight);
        self.dashboard_item.is_none_or(|id| visibility.holds(id.0, self.insight_author))
    }

    /// An annotation on one insight or dashboard is visible if that object is.
    pub fn is_seen(&self, visibilities: &Visibilities) -> bool {
        match self.scope {
            AnnotationScope::DashboardItem => self.may_show_insight(visibilities),
            AnnotationScope::Dashboard => self.may_show_dashboard(visibilities),
            AnnotationScope::Project | AnnotationScope::Organization => true,
        }
    }

    /// Redacts the dashboard and insight it was created on, where the viewer may not see them. An
    /// annotation from another project always loses both: this project's rules do not cover them.
    pub fn within(mut self, project: ProjectId, visibilities: &Visibilities) -> Self {
        let is_local = self.project == project;
        if !is_local || !self.may_show_dashboard(visibilities) {
            (self.dashboard_id, self.dashboard_name) = (None, None);
        }
        if !is_local || !self.may_show_insight(visibilities) {
            (self.dashboard_item, self.insight_short_id) = (None, None);
            (self.insight_name, self.insight_derived_name) = (None, None);
        }
        self
    }
}

/// On which charts an annotation is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnnotationScope {
    /// One insight; `insight` is the name newer clients filter by.
    #[serde(alias = "insight")]
    DashboardItem,
    Dashboard,
    Project,
    Organization,
}

impl AnnotationScope {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DashboardItem => "dashboard_item",
            Self::Dashboard => "dashboard",
            Self::Project => "project",
            Self::Organization => "organization",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "dashboard_item" | "insight" => Some(Self::DashboardItem),
            "dashboard" => Some(Self::Dashboard),
            "project" => Some(Self::Project),
            "organization" => Some(Self::Organization),
            _ => None,
        }
    }
}

/// Whether a user or a deployment script created it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CreationType {
    #[default]
    #[serde(rename = "USR")]
    User,
    #[serde(rename = "GIT")]
    Deployment,
}

impl CreationType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "USR",
            Self::Deployment => "GIT",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "USR" => Some(Self::User),
            "GIT" => Some(Self::Deployment),
            _ => None,
        }
    }
}
