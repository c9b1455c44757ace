//! Scheduling of threads: priority (niceness), time slices and CPU affinity.
//!
//! Request threads have the highest priority. Query threads run for long and must starve neither
//! requests nor the ingest thread. The ingest thread has a lower priority than queries: it can catch
//! up after a burst, as long as it always gets a share of the CPU.

use std::io;

#[cfg(target_os = "linux")]
use rustix::process::getpid;
#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Niceness of threads that run queries.
pub const QUERY_NICENESS: i32 = 12;
/// Niceness of the thread that applies journal records to the stores. Next to two query threads it
/// still gets a fifth of two CPU cores.
pub const INGEST_NICENESS: i32 = 15;
/// Niceness of the thread that flushes, compacts and scrubs. This costs a hundredth of what ingest
/// costs, so a tenth of a core is enough.
pub const MAINTENANCE_NICENESS: i32 = 19;

/// The time slice for a niceness. Since Linux 6.12 a thread with a shorter slice preempts one with a
/// longer slice at once, and request threads keep the default, which is the shortest. Without this a
/// request may wait a millisecond for a core, and a query for the whole slice of a merge.
#[cfg(target_os = "linux")]
const fn time_slice_nanos(niceness: i32) -> u64 {
    if niceness <= QUERY_NICENESS {
        20_000_000
    } else if niceness <= INGEST_NICENESS {
        50_000_000
    } else {
        100_000_000
    }
}

/// Lowers the priority of the calling thread to `niceness`; never raises it. On Linux, threads that
/// it spawns later inherit the priority. Failure is ignored: the system then only shares its cores
/// more evenly.
pub fn lower_priority(niceness: i32) {
    let Ok(current) = rustix::process::getpriority_process(None) else { return };
    if current < niceness {
        let _ = rustix::process::setpriority_process(None, niceness);
    }
    #[cfg(target_os = "linux")]
    set_time_slice(current.max(niceness));
}

/// Kernels without per-thread time slices ignore the value.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no library wraps sched_setattr")]
fn set_time_slice(niceness: i32) {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: niceness,
        sched_priority: 0,
        sched_runtime: time_slice_nanos(niceness),
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes at the pointer, and `attributes` outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Pins the calling thread, which must not be the main thread, to the `nth` CPU core. Does nothing
/// unless `threads`, the size of the thread pool, equals the number of cores.
///
/// Linux searches for an idle core only while few cores are busy. On two cores we saw one idle for
/// 40 % of the time while a request thread waited for the other. Threads that the caller spawns
/// inherit the affinity unless they call [`unpin`].
#[cfg(target_os = "linux")]
pub fn pin_to_core(nth: usize, threads: usize) {
    let Ok(process_cores) = sched_getaffinity(None) else { return };
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| process_cores.is_set(core));
    if process_cores.count() as usize != threads {
        return;
    }
    let Some(core) = cores.nth(nth) else { return };
    let mut affinity = CpuSet::new();
    affinity.set(core);
    let _ = sched_setaffinity(None, &affinity);
}

#[cfg(not(target_os = "linux"))]
pub fn pin_to_core(_nth: usize, _threads: usize) {}

/// Lets the calling thread run on every core of the process again. The main thread is never pinned,
/// so its affinity is that of the process.
pub fn unpin() {
    #[cfg(target_os = "linux")]
    if let (Ok(own), Ok(process_cores)) =
        (sched_getaffinity(None), sched_getaffinity(Some(getpid())))
        && own != process_cores
    {
        let _ = sched_setaffinity(None, &process_cores);
    }
}

/// Runs `work` on a new unpinned thread with the priority of queries.
pub fn spawn_query_thread(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let work = || {
        unpin();
        lower_priority(QUERY_NICENESS);
        work();
    };
    thread.spawn(work).map(drop)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc;

    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn query_thread_and_its_children_run_at_query_niceness() {
        let (send, receive) = mpsc::sync_channel(1);
        let work = move || {
            let outer = getpriority_process(None).unwrap();
            let inner = std::thread::spawn(|| getpriority_process(None).unwrap()).join().unwrap();
            send.send((outer, inner)).unwrap();
        };
        let before = getpriority_process(None).unwrap();
        spawn_query_thread("query", 1 << 20, work).unwrap();
        let expected = QUERY_NICENESS.max(before);
        assert_eq!(receive.recv().unwrap(), (expected, expected));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }

    #[test]
    fn query_thread_of_a_pinned_thread_is_unpinned() {
        let process_cores = sched_getaffinity(None).unwrap();
        let count = process_cores.count() as usize;
        let (send, receive) = mpsc::sync_channel(1);
        let pinned = std::thread::spawn(move || {
            pin_to_core(count - 1, count);
            spawn_query_thread("query", 1 << 20, move || {
                send.send(sched_getaffinity(None)).unwrap();
            })
            .unwrap();
            sched_getaffinity(None).unwrap()
        });
        assert_eq!(pinned.join().unwrap().count(), 1);
        assert_eq!(receive.recv().unwrap().unwrap(), process_cores);
    }

    #[test]
    fn threads_are_not_pinned_unless_each_has_a_core() {
        let process_cores = sched_getaffinity(None).unwrap();
        let count = process_cores.count() as usize;
        let affinity = std::thread::spawn(move || {
            pin_to_core(0, count + 1);
            sched_getaffinity(None).unwrap()
        });
        assert_eq!(affinity.join().unwrap(), process_cores);
    }

    #[test]
    #[allow(unsafe_code, reason = "no library wraps sched_getattr")]
    fn lower_priority_means_a_longer_time_slice() {
        let attributes = || {
            let mut read: libc::sched_attr = unsafe { std::mem::zeroed() };
            let size = size_of_val(&read);
            let status =
                unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut read, size, 0) };
            assert_eq!(status, 0);
            (read.sched_nice, read.sched_runtime)
        };
        let (initial, _) = attributes();
        let mut shorter = 0;
        for niceness in [QUERY_NICENESS, INGEST_NICENESS, MAINTENANCE_NICENESS] {
            let lowered = std::thread::spawn(move || {
                lower_priority(niceness);
                attributes()
            });
            let (actual, slice) = lowered.join().unwrap();
            assert_eq!(actual, niceness.max(initial));
            // Kernels without per-thread time slices report 0.
            assert!(slice == 0 || slice == time_slice_nanos(actual), "{slice}");
            assert!(time_slice_nanos(niceness) > shorter);
            shorter = time_slice_nanos(niceness);
        }
    }
}
