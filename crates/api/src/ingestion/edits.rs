//! Changes by hand that go through the journal, in order with the events.

use std::time::Duration;

use model::ProjectId;
use model::edit::{Edit, EditRecord};

use crate::{AppState, Error, Result};

/// How long an answer waits for its change to be applied, so that the next read shows it.
const APPLIED_WAIT: Duration = Duration::from_secs(2);

/// Puts an edit into the journal and waits a moment for it to be applied.
pub(crate) async fn change(app: &AppState, project: ProjectId, edit: Edit) -> Result<()> {
    let at = app.catalog.clock().now();
    let mut record = Vec::new();
    EditRecord { project, at, edit }.encode(&mut record);
    keep(app, &record).await
}

pub(crate) async fn keep(app: &AppState, record: &[u8]) -> Result<()> {
    let position = app.capture.append_record(record).await.map_err(|refused| {
        tracing::warn!(error = %refused, "a change could not be kept");
        Error::unavailable("Changes cannot be stored at the moment.")
    })?;
    // Answered either way: the journal has it.
    let _ = tokio::time::timeout(APPLIED_WAIT, app.catalog.ingest().wait_applied(position)).await;
    Ok(())
}
