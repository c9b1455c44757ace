//! The allocator. That of the C library takes a third of the pipeline's time.

use std::ffi::{c_int, c_long};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`: milliseconds until pages without a block go back to the system.
const PURGE_DELAY: c_int = 15;
/// Pages that are given back have to be taken again one by one, which costs a sixth of the
/// pipeline's time if it happens at once; for a second, the default, a busy server would hold far
/// more than it needs.
const DELAY_MS: c_long = 100;
/// What starting took is not needed again.
const STARTING: Duration = Duration::from_secs(1);
const GIVE_BACK_EVERY: Duration = Duration::from_secs(2);

/// Before anything else.
pub(crate) fn start() {
    set_delay(0);
    journal::Buffer::when_large_is_freed(give_back);
    warehouse::when_much_is_freed(give_back);
}

/// As long as the server runs. Bodies of 20 MB from 64 senders would hold over 1 GB until somebody
/// looks, and 458 MB even if it is for ten milliseconds: what held one is given back when it is
/// freed. What else was freed is given back here, since while nothing happens nobody else does.
pub(crate) async fn tend() {
    tokio::time::sleep(STARTING).await;
    set_delay(DELAY_MS);
    loop {
        tokio::time::sleep(GIVE_BACK_EVERY).await;
        give_back();
    }
}

#[allow(unsafe_code, reason = "the allocator has no other way in")]
fn set_delay(milliseconds: c_long) {
    // SAFETY: one aligned number, which others read before or after.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, milliseconds) };
}

/// Returns pages without a block to the system, whoever freed them.
#[allow(unsafe_code, reason = "the allocator has no other way in")]
fn give_back() {
    // SAFETY: it may be called by any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
