//! Admission of appends: bounds the bytes that are queued or being written.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Result, Settings};

/// Charged for each request in addition to its bytes, so that the byte limit also bounds the number
/// of requests.
pub(crate) const REQUEST_BYTES: u64 = 256;

pub(crate) struct Capacity {
    semaphore: Arc<Semaphore>,
    bytes_max: u64,
    wait_max: Duration,
}

impl Capacity {
    pub(crate) fn new(settings: &Settings) -> Capacity {
        Capacity {
            semaphore: Arc::new(Semaphore::new(settings.queue_bytes_max as usize)),
            bytes_max: settings.queue_bytes_max,
            wait_max: settings.queue_wait_max,
        }
    }

    /// The share of an append of `bytes`, released on drop.
    pub(crate) async fn acquire(&self, bytes: u64) -> Result<OwnedSemaphorePermit> {
        let (bytes, bytes_max) = (bytes + REQUEST_BYTES, self.bytes_max);
        let permits = u32::try_from(bytes).ok().filter(|_| bytes <= bytes_max);
        let permits = permits.ok_or(Error::TooLarge { bytes, bytes_max })?;
        if let Ok(permit) = self.semaphore.clone().try_acquire_many_owned(permits) {
            return Ok(permit);
        }
        let waited = self.wait_max;
        let permit = self.semaphore.clone().acquire_many_owned(permits);
        match tokio::time::timeout(waited, permit).await {
            Ok(permit) => permit.map_err(|_| Error::Closed),
            Err(_) => Err(Error::Busy { waited }),
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.bytes_max - self.semaphore.available_permits() as u64
    }
}
