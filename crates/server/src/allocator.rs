//! The global allocator (mimalloc), and when it returns free pages to the operating system.
//!
//! glibc's allocator takes a third of the pipeline's CPU time.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use crate::process;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`: milliseconds until mimalloc returns a free page to the system.
const PURGE_DELAY: c_int = 15;
/// A returned page costs a page fault when it is reused: with no delay that is a sixth of the
/// pipeline's time. With mimalloc's default of one second a busy server holds far more memory than
/// it needs.
const PURGE_DELAY_MS: c_long = 100;
/// During startup pages are returned at once: their memory is not needed again.
const STARTUP: Duration = Duration::from_secs(1);
const PURGE_INTERVAL: Duration = Duration::from_secs(2);

/// Configures mimalloc for startup: it returns freed pages at once. Call it first in `main`.
pub(crate) fn init() {
    set_purge_delay(0);
}

/// Purges until the server stops: mimalloc purges only during allocations, so an idle server
/// would keep its free pages. The journal and the warehouse also [`purge`] when they have freed much:
/// bodies of 20 MB from 64 clients would otherwise hold over 1 GB, and 458 MB even with a 10 ms
/// delay.
pub(crate) async fn purge_periodically() {
    tokio::time::sleep(STARTUP).await;
    set_purge_delay(PURGE_DELAY_MS);
    process::unmap_code();
    loop {
        tokio::time::sleep(PURGE_INTERVAL).await;
        purge();
    }
}

#[allow(unsafe_code, reason = "mimalloc has no safe API for options")]
fn set_purge_delay(milliseconds: c_long) {
    // SAFETY: mimalloc reads and writes the option as one aligned integer.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, milliseconds) };
}

/// Returns the free pages of all threads to the system.
#[allow(unsafe_code, reason = "mimalloc has no safe API for this")]
pub(crate) fn purge() {
    // SAFETY: any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
