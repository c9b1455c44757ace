//! Dead letters: records that ingestion could not apply, and replaying them.

use catalog::DeadLetter;

use crate::ingestion::edits::append;
use crate::{App, Error, IdAsUuid, Json, Listing, Page, Reader, Resource, Result, Routes, Writer};

enum DeadLetters {}

/// Takes the scope of the project, like ingestion warnings.
impl Resource for DeadLetters {
    const SCOPE: &'static str = "project";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/dead_letters", list)
        .post("/api/projects/{project_id}/dead_letters/{id}/replay", replay)
}

async fn list(caller: Reader<DeadLetters>, page: Page, app: App) -> Result<Listing<DeadLetter>> {
    let (letters, total) =
        app.catalog.dead_letters().list(Some(caller.project.id), page.window).await?;
    Ok(page.listing(letters, total))
}

/// Appends the record to the journal again. If it fails again, it becomes a new dead letter.
async fn replay(caller: Writer<DeadLetters>, id: IdAsUuid, app: App) -> Result<Json<DeadLetter>> {
    let project = Some(caller.project.id);
    let (_, record) = app.catalog.dead_letters().get(project, id.0).await?;
    if !app.catalog.dead_letters().mark_replayed(id.0).await? {
        return Err(Error::conflict("This dead letter has already been replayed."));
    }
    if let Err(error) = append(&app, &record).await {
        app.catalog.dead_letters().unmark_replayed(id.0).await?;
        return Err(error);
    }
    Ok(Json(app.catalog.dead_letters().get(project, id.0).await?.0))
}
