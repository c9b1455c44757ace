//! The embedded engine and ClickHouse answer alike: the same generated project in both.

mod differential;
mod lists;
mod mirror;
#[path = "../../../../sql/tests/it/support.rs"]
#[allow(dead_code, reason = "sql's tests use more of it")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use eval::QueryMemoryPool;
use insights::AdmissionControl;
use tokio::sync::Semaphore;

use crate::runner::{Cancel, RunResources};
use differential::ZONES;

const MEMORY_BYTES_MAX: usize = 256 << 20;

/// Runs a future with the resources of a query.
fn run<T>(work: impl AsyncFnOnce(&RunResources<'_>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cancel = Cancel::default();
        work(&resources(&cancel).await).await
    })
}

async fn resources(cancel: &Cancel) -> RunResources<'_> {
    let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
    RunResources {
        permit: Arc::new(permit),
        memory: QueryMemoryPool::new(usize::MAX).tracker(MEMORY_BYTES_MAX),
        cancel,
        time_max: Duration::from_secs(60),
        memory_bytes: MEMORY_BYTES_MAX,
        admission: AdmissionControl::default(),
        explains: false,
    }
}

/// Fails with what differs.
fn assert_none(wrong: Option<Vec<String>>) {
    let wrong = wrong.unwrap_or_default();
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
}
