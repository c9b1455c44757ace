//! The viewer of insights: a member with read access, or a client with a sharing token.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use catalog::{InsightFilter, ProjectRow, ShareTarget};
use model::{AccessLevel, DashboardId, Insight, UserId, Visibilities};
use query::Refresh;
use schemars::SchemaGenerator;
use serde_json::json;

use super::Insights;
use super::overrides::Overrides;
use super::response::{InsightResponse, anonymize};
use crate::auth::access::require;
use crate::auth::caller;
use crate::auth::credentials;
use crate::auth::sharing_token::shared_object;
use crate::http::openapi::{DescribeRequest, Operation};
use crate::{AppState, Error, Reader, Result};

pub(super) enum InsightViewer {
    Member(Box<Reader<Insights>>),
    LinkViewer(Box<LinkViewer>),
}

/// A client with a sharing token, which sees what the link shows and nothing else.
pub(super) struct LinkViewer {
    project: ProjectRow,
    sees: ShareTarget,
}

impl InsightViewer {
    pub(super) fn project(&self) -> &ProjectRow {
        match self {
            Self::Member(caller) => &caller.project,
            Self::LinkViewer(link) => &link.project,
        }
    }

    pub(super) fn user(&self) -> Option<UserId> {
        match self {
            Self::Member(caller) => Some(caller.user.user.id),
            Self::LinkViewer(_) => None,
        }
    }

    /// The shared dashboard whose filters apply, if the link is to a dashboard.
    pub(super) fn dashboard(&self) -> Option<DashboardId> {
        match self {
            Self::Member(_) => None,
            Self::LinkViewer(link) => link.dashboard(),
        }
    }

    /// Objects that a query may refer to. A sharing token sets no restriction: the link's queries run
    /// whatever they refer to.
    pub(super) fn visibilities(&self) -> Visibilities {
        match self {
            Self::Member(caller) => caller.visibilities(),
            Self::LinkViewer(_) => Visibilities::default(),
        }
    }

    /// Restricts a list to visible insights.
    pub(super) fn narrow(&self, filter: &mut InsightFilter) {
        let link = match self {
            Self::Member(caller) => return filter.visibility = caller.visibilities(),
            Self::LinkViewer(link) => link,
        };
        match link.sees {
            ShareTarget::Dashboard(id) => drop(filter.dashboards.insert(id)),
            ShareTarget::Insight(id) => filter.id = Some(id),
        }
    }

    /// Rejects an insight that the viewer may not see; with a sharing token as a 404.
    pub(super) fn check(&self, insight: &Insight) -> Result<()> {
        let link = match self {
            Self::Member(caller) => {
                return require(insight.rights(caller.viewer()).level, AccessLevel::Viewer);
            }
            Self::LinkViewer(link) => link,
        };
        let sees = match link.sees {
            ShareTarget::Dashboard(id) => insight.dashboards.contains(&id),
            ShareTarget::Insight(id) => insight.id == id,
        };
        if sees { Ok(()) } else { Err(Error::not_found()) }
    }

    pub(super) fn show(&self, mut insight: Insight) -> InsightResponse {
        match self {
            Self::Member(caller) => InsightResponse::to(caller.viewer(), insight),
            Self::LinkViewer(link) => {
                anonymize(&mut insight, link.dashboard());
                InsightResponse::public(insight)
            }
        }
    }

    /// Rejects overrides with a sharing token.
    pub(super) fn check_overrides(&self, overrides: &Overrides) -> Result<()> {
        match self {
            Self::LinkViewer(_) if !overrides.is_empty() => {
                Err(Error::bad_request("A shared link shows an insight as it is."))
            }
            _ => Ok(()),
        }
    }

    /// A client with a sharing token cannot force a recomputation of cached results.
    pub(super) fn refresh(&self, requested: Refresh) -> Refresh {
        match (self, requested) {
            (Self::LinkViewer(_), requested) if requested != Refresh::ForceCache => {
                Refresh::Blocking
            }
            _ => requested,
        }
    }
}

impl LinkViewer {
    fn dashboard(&self) -> Option<DashboardId> {
        match self.sees {
            ShareTarget::Dashboard(id) => Some(id),
            ShareTarget::Insight(_) => None,
        }
    }

    async fn of(parts: &mut Parts, app: &AppState, token: &str) -> Result<Self> {
        let wrong = || {
            let detail = "Sharing access token is invalid.";
            Error::unauthorized("authentication_failed", detail)
        };
        let shared = shared_object(app, token).await?.ok_or_else(wrong)?;
        let project = match caller::project_in_path(parts, app).await? {
            Some(project) => project,
            None => app.catalog.projects().get(shared.project).await?,
        };
        if project.id != shared.project {
            return Err(Error::forbidden("You don't have access to the project."));
        }
        Ok(Self { project, sees: shared.target })
    }
}

impl FromRequestParts<AppState> for InsightViewer {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        match credentials::sharing_token(parts)? {
            Some(token) => {
                Ok(Self::LinkViewer(Box::new(LinkViewer::of(parts, app, &token).await?)))
            }
            None => Ok(Self::Member(Box::new(Reader::from_request_parts(parts, app).await?))),
        }
    }
}

impl DescribeRequest for InsightViewer {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        Reader::<Insights>::describe(operation, schemas);
        operation.query_parameter("sharing_access_token", json!({ "type": "string" }));
    }
}
