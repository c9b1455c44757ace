//! Runs a query's work at ClickHouse: on a thread that waits, killed when nobody waits for it.

use ::clickhouse::Reader;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::ClickHouseView;
use crate::permits::spawn_query;
use crate::runner::RunResources;
use crate::{Error, Result};

/// Kills that wait for ClickHouse at once. Without one, a query ends at its `max_execution_time`.
const KILLS_MAX: usize = 4;
static KILLS: Semaphore = Semaphore::const_new(KILLS_MAX);

/// Runs work on a thread of its own. The statement that it runs has the id it is given.
pub(super) async fn at_clickhouse<T: Send + 'static>(
    view: &ClickHouseView,
    run: &RunResources<'_>,
    work: impl FnOnce(&ClickHouseView, String) -> Result<T> + Send + 'static,
) -> Result<T> {
    let query_id = Uuid::new_v4().to_string();
    let mut kill = KillOnDrop { reader: Some(view.reader.clone()), query_id: query_id.clone() };
    let view = view.clone();
    let working = spawn_query(run.permit.clone(), move || work(&view, query_id));
    let done = tokio::select! {
        done = tokio::time::timeout(run.time_max, working) => done.map_err(|_| Error::Timeout)??,
        () = run.cancel.wait() => return Err(Error::Cancelled),
    };
    kill.reader = None;
    done
}

/// Ends the statement at ClickHouse on drop, unless it has ended.
struct KillOnDrop {
    reader: Option<Reader>,
    query_id: String,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let (Some(reader), Ok(runtime)) = (self.reader.take(), Handle::try_current()) else {
            return;
        };
        let query_id = std::mem::take(&mut self.query_id);
        let Ok(permit) = KILLS.try_acquire() else {
            tracing::debug!(query.id = query_id, "too many queries of ClickHouse to kill");
            return;
        };
        drop(runtime.spawn_blocking(move || {
            let _permit = permit;
            if let Err(error) = reader.client().kill(&query_id) {
                tracing::warn!(query.id = query_id, %error, "cannot kill a query of ClickHouse");
            }
        }));
    }
}
