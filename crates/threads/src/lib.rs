//! How far threads stand back while others wait for a processor, and which keep to one.
//!
//! Requests come first. Questions take long, and must starve neither those nor the pipeline, which
//! stands back a little further: it can catch up, but only if it is never stopped.

use std::io;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Of threads that work on questions.
pub const QUESTIONS_NICENESS: i32 = 12;
/// Of threads that apply what was accepted: against two that work on a question this still is a
/// fifth of two processors.
pub const BEHIND_NICENESS: i32 = 15;
/// Of threads that tidy: a hundredth of what applying costs, so a tenth is plenty.
pub const UPKEEP_NICENESS: i32 = 19;

/// How long they go on once they have a processor, the longer the further back they stand. Linux,
/// since 6.12, lets whoever takes shorter turns interrupt them at once, and requests take the
/// shortest; otherwise a request may wait for a millisecond, and a question for a merge's whole turn.
#[cfg(target_os = "linux")]
const fn turn_nanos(niceness: i32) -> u64 {
    if niceness <= QUESTIONS_NICENESS {
        20_000_000
    } else if niceness <= BEHIND_NICENESS {
        50_000_000
    } else {
        100_000_000
    }
}

/// On Linux this is a property of the thread, and of those that it starts. One that stands further
/// back stays there. A system that does not allow it only shares its processors more evenly.
pub fn stand_back(niceness: i32) {
    let Ok(own) = rustix::process::getpriority_process(None) else { return };
    if own < niceness {
        let _ = rustix::process::setpriority_process(None, niceness);
    }
    #[cfg(target_os = "linux")]
    take_long_turns(own.max(niceness));
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no library knows this call")]
fn take_long_turns(niceness: i32) {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: niceness,
        sched_priority: 0,
        sched_runtime: turn_nanos(niceness),
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the system reads `size` bytes behind the pointer, which live until it returns.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Where the process may run, once a thread of it keeps to a processor.
#[cfg(target_os = "linux")]
static EVERYWHERE: OnceLock<CpuSet> = OnceLock::new();

/// The `nth` of as many threads as there are processors keeps to one of its own. Linux looks for
/// an idle processor only while few are busy; of two, one was seen idle for 40 % of the time while
/// a thread that answers requests waited for the other. Threads that this one starts inherit it,
/// unless they `roam`.
#[cfg(target_os = "linux")]
pub fn keep_apart(nth: usize, threads: usize) {
    let Ok(everywhere) = sched_getaffinity(None) else { return };
    let mut processors = (0..CpuSet::MAX_CPU).filter(|&one| everywhere.is_set(one));
    if everywhere.count() as usize != threads {
        return;
    }
    let Some(own) = processors.nth(nth) else { return };
    EVERYWHERE.get_or_init(|| everywhere);
    let mut one = CpuSet::new();
    one.set(own);
    let _ = sched_setaffinity(None, &one);
}

#[cfg(not(target_os = "linux"))]
pub fn keep_apart(_nth: usize, _threads: usize) {}

/// Runs wherever the process may.
pub fn roam() {
    #[cfg(target_os = "linux")]
    if let Some(everywhere) = EVERYWHERE.get() {
        let _ = sched_setaffinity(None, everywhere);
    }
}

/// Works on a question, on a thread that stands back.
pub fn beside(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let work = || {
        roam();
        stand_back(QUESTIONS_NICENESS);
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
    fn what_works_on_a_question_stands_back_with_all_it_starts() {
        let (send, told) = mpsc::sync_channel(1);
        let work = move || {
            let own = getpriority_process(None).unwrap();
            let inner = std::thread::spawn(|| getpriority_process(None).unwrap()).join().unwrap();
            send.send((own, inner)).unwrap();
        };
        let before = getpriority_process(None).unwrap();
        beside("question", 1 << 20, work).unwrap();
        let expected = QUESTIONS_NICENESS.max(before);
        assert_eq!(told.recv().unwrap(), (expected, expected));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }

    #[test]
    fn a_question_of_a_thread_that_keeps_to_a_processor_runs_anywhere() {
        let everywhere = sched_getaffinity(None).unwrap();
        let count = everywhere.count() as usize;
        let (send, told) = mpsc::sync_channel(1);
        let kept = std::thread::spawn(move || {
            keep_apart(count - 1, count);
            beside("question", 1 << 20, move || send.send(sched_getaffinity(None)).unwrap())
                .unwrap();
            sched_getaffinity(None).unwrap()
        });
        assert_eq!(kept.join().unwrap().count(), 1);
        assert_eq!(told.recv().unwrap().unwrap(), everywhere);
    }

    #[test]
    fn nobody_keeps_to_a_processor_that_others_need() {
        let everywhere = sched_getaffinity(None).unwrap();
        let count = everywhere.count() as usize;
        let left = std::thread::spawn(move || {
            keep_apart(0, count + 1);
            sched_getaffinity(None).unwrap()
        });
        assert_eq!(left.join().unwrap(), everywhere);
    }

    #[test]
    #[allow(unsafe_code, reason = "no library knows this call")]
    fn who_stands_further_back_takes_longer_turns() {
        let kept = || {
            let mut kept: libc::sched_attr = unsafe { std::mem::zeroed() };
            let size = size_of_val(&kept);
            let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut kept, size, 0) };
            assert_eq!(done, 0);
            (kept.sched_nice, kept.sched_runtime)
        };
        let (own, _) = kept();
        let mut before = 0;
        for niceness in [QUESTIONS_NICENESS, BEHIND_NICENESS, UPKEEP_NICENESS] {
            let behind = std::thread::spawn(move || {
                stand_back(niceness);
                kept()
            });
            let (at, turn) = behind.join().unwrap();
            assert_eq!(at, niceness.max(own));
            // Nothing is told by systems that do not know turns.
            assert!(turn == 0 || turn == turn_nanos(at), "{turn}");
            assert!(turn_nanos(niceness) > before);
            before = turn_nanos(niceness);
        }
    }
}
