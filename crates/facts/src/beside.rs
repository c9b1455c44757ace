//! How far threads stand back while others wait for a processor.
//!
//! Requests come first. Questions take long, and must starve neither those nor the pipeline, which
//! stands back a little further: it can catch up, but only if it is never stopped.

use std::io;

/// Of threads that work on questions.
pub const QUESTIONS_NICENESS: i32 = 12;
/// Of threads that apply what was accepted, and tidy: against two that work on a question this
/// still is a fifth of two processors.
pub const BEHIND_NICENESS: i32 = 15;

/// On Linux this is a property of the thread, and of those that it starts. One that stands further
/// back stays there. A system that does not allow it only shares its processors more evenly.
pub fn stand_back(niceness: i32) {
    if rustix::process::getpriority_process(None).is_ok_and(|own| own < niceness) {
        let _ = rustix::process::setpriority_process(None, niceness);
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
        let (send, told) = mpsc::channel();
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
}
