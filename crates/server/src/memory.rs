//! The allocator. That of the C library takes a third of the pipeline's time.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`: how long pages without a block are kept.
const PURGE_DELAY: std::ffi::c_int = 15;
/// At once, and every buffer of some size costs page faults again; after its own second, and
/// bodies of 20 MB from 64 senders hold over 1 GB.
const KEPT_MILLISECONDS: std::ffi::c_long = 10;

#[allow(unsafe_code, reason = "the allocator has no other way in")]
pub(crate) fn return_freed_pages() {
    // SAFETY: no other thread runs yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, KEPT_MILLISECONDS) };
}
