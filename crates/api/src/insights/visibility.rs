//! Whether a caller may view an insight together with everything its query names.

use catalog::CheckedInsights;
use model::Insight;

use super::results;
use crate::auth::caller::InProject;
use crate::{AppState, Result};

/// The insights that the caller may view with everything their queries refer to. A dashboard's
/// shared link publishes each insight on it, so adding one takes what enabling the link takes.
pub(crate) async fn viewable<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    insights: &[Insight],
) -> Result<CheckedInsights> {
    let mut viewable = CheckedInsights::default();
    for insight in insights {
        if can_view(app, caller, insight).await? {
            viewable.add(insight);
        }
    }
    Ok(viewable)
}

pub(crate) async fn can_view<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    insight: &Insight,
) -> Result<bool> {
    if !insight.rights(caller.viewer()).can_view() {
        return Ok(false);
    }
    // A query that cannot be parsed shows nothing.
    let Ok(Some(query)) = results::insight_query(insight) else { return Ok(true) };
    Ok(app.queries.can_view(caller.project.id, &query, &caller.visibilities()).await?)
}
