//! The insights that most users viewed lately.

use model::User;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::response::InsightResponse;
use crate::auth::resources::Insights;
use crate::{App, Error, Json, Query, Reader, Result, Routes};

/// Upstream's defaults and limit.
const DAYS: i64 = 1;
const LIMIT: i64 = 10;
const LIMIT_MAX: i64 = 100;
/// Ours: a view is remembered until the next one, so more days tell little.
const DAYS_MAX: i64 = 365;
const DAY_SECONDS: i64 = 86_400;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("/api/projects/{project_id}/insights/trending", trending)
}

#[derive(Deserialize, JsonSchema)]
struct TrendingQuery {
    days: Option<i64>,
    limit: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
struct TrendingInsight {
    #[serde(flatten)]
    insight: InsightResponse,
    /// Who viewed it, latest first.
    viewers: Vec<User>,
    /// How many users viewed it.
    view_count: usize,
}

async fn trending(
    caller: Reader<Insights>,
    query: Query<TrendingQuery>,
    app: App,
) -> Result<Json<Vec<TrendingInsight>>> {
    let days = query.days.unwrap_or(DAYS);
    if !(1..=DAYS_MAX).contains(&days) {
        let detail = format!("Ensure this value is between 1 and {DAYS_MAX}.");
        return Err(Error::invalid("days", "invalid_input", detail));
    }
    let limit = query.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
    let since = app.catalog.clock().now().plus_seconds(-days * DAY_SECONDS);
    let visibility = caller.visibilities();
    let (project, user) = (caller.project.id, caller.user.user.id);
    let found =
        app.catalog.insights().most_viewed(project, user, since, limit, &visibility).await?;
    let viewer = caller.viewer();
    let shown = found.into_iter().filter(|(insight, _)| insight.rights(viewer).can_view());
    let shown = shown.map(|(insight, viewers)| TrendingInsight {
        insight: InsightResponse::to(viewer, insight),
        view_count: viewers.len(),
        viewers,
    });
    Ok(Json(shown.collect()))
}
