//! Edits of persons and groups through the journal, which orders them with events.

use std::time::Duration;

use model::ProjectId;
use model::edit::{Edit, EditRecord};

use crate::{AppState, Error, Result};

/// How long a response waits for its edit to be applied, for read-your-writes.
const APPLIED_WAIT: Duration = Duration::from_secs(2);

/// Appends an edit to the journal and waits up to `APPLIED_WAIT` for it to be applied.
pub(crate) async fn change(app: &AppState, project: ProjectId, edit: Edit) -> Result<()> {
    let at = app.catalog.clock().now();
    let mut record = Vec::new();
    EditRecord { project, at, edit }.encode(&mut record);
    append(app, &record).await
}

pub(crate) async fn append(app: &AppState, record: &[u8]) -> Result<()> {
    let position = app.capture.append_record(record).await.map_err(|rejection| {
        tracing::warn!(error = %rejection, "could not append an edit to the journal");
        Error::unavailable("The journal does not accept edits at the moment. Try again later.")
    })?;
    // The journal has the record, so a timeout is not an error.
    let _ = tokio::time::timeout(APPLIED_WAIT, app.catalog.ingest().wait_applied(position)).await;
    Ok(())
}
