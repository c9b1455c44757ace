//! Ingestion warnings: problems with the events that a project sent.

use catalog::WarningRow;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::path::given;
use crate::{App, Listing, Page, Query, Reader, Resource, Result, Routes};

enum Warnings {}

/// Takes the scope of the project.
impl Resource for Warnings {
    const SCOPE: &'static str = "project";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.get("/api/projects/{project_id}/ingestion_warnings", list)
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    #[serde(rename = "type")]
    kind: Option<String>,
}

async fn list(
    caller: Reader<Warnings>,
    page: Page,
    query: Query<ListQuery>,
    app: App,
) -> Result<Listing<WarningRow>> {
    let kind = given(query.kind.as_ref());
    let (warnings, total) =
        app.catalog.warnings().list(caller.project.id, kind, page.window).await?;
    Ok(page.listing(warnings, total))
}
