//! What the allocator does with large blocks.

/// Blocks of this size and more get pages of their own, which go back to the system at once.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 1 << 20;

/// Left alone, glibc raises this bound to the largest block freed so far and keeps such blocks in
/// arenas: bodies of 20 MB from 64 senders then hold over 1 GB long after they were answered.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the C library has no other way in")]
pub(crate) fn return_large_blocks() {
    // SAFETY: no other thread runs yet.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn return_large_blocks() {}
