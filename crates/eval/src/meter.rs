//! What a program that runs on this thread has done and holds.
//!
//! Functions are many and small, and each of them may make large values of small ones: they say so
//! here, where the thread's run is known for as long as it lasts, and not by a parameter of every
//! function.

use std::cell::RefCell;

use crate::cancellation::{Cancellation, ROWS_PER_CHECK};
use crate::error::{Error, Result};
use crate::memory::MemoryCharge;

/// What is smaller is not worth counting while it grows.
const STEP_BYTES: usize = 256 * 1024;

struct Run {
    cancellation: Cancellation,
    /// Rows, elements or bytes since the last look.
    units: usize,
    /// What was worked out so far, until the run ends.
    held: MemoryCharge,
    held_bytes: usize,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// A run on this thread, until it is dropped.
pub(crate) struct Entered(Option<Run>);

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        let own = RUN.with(|run| std::mem::replace(&mut *run.borrow_mut(), before));
        drop(own);
    }
}

pub(crate) fn enter(cancellation: &Cancellation) -> Entered {
    let held = cancellation.memory().charge();
    let own = Run { cancellation: cancellation.clone(), units: 0, held, held_bytes: 0 };
    Entered(RUN.with(|run| run.borrow_mut().replace(own)))
}

/// Looks whether anybody still waits, once in a while.
pub(crate) fn work(units: usize) -> Result<()> {
    RUN.with(|run| match &mut *run.borrow_mut() {
        None => Ok(()),
        Some(run) => {
            run.units = run.units.saturating_add(units);
            if run.units < ROWS_PER_CHECK {
                return Ok(());
            }
            run.units = 0;
            run.cancellation.check()
        }
    })
}

/// Looks now.
pub(crate) fn check() -> Result<()> {
    work(ROWS_PER_CHECK)
}

/// Counts what was worked out, until the run ends.
pub(crate) fn hold(bytes: usize) -> Result<()> {
    RUN.with(|run| match &mut *run.borrow_mut() {
        None => Ok(()),
        Some(run) => {
            run.held_bytes = run.held_bytes.saturating_add(bytes);
            set_in_steps(&mut run.held, run.held_bytes)
        }
    })
}

/// Counts what is kept longer than a run: all of it, however small.
pub(crate) fn keep(bytes: usize) -> Result<Option<MemoryCharge>> {
    let Some(mut kept) = charge() else { return Ok(None) };
    if kept.set(bytes) { Ok(Some(kept)) } else { Err(Error::MemoryLimit) }
}

/// As [`keep`], of what is large only.
pub(crate) fn keep_large(bytes: usize) -> Result<Option<MemoryCharge>> {
    if bytes < STEP_BYTES { Ok(None) } else { keep(bytes) }
}

fn charge() -> Option<MemoryCharge> {
    RUN.with(|run| run.borrow().as_ref().map(|run| run.cancellation.memory().charge()))
}

/// Whether so much more may be made.
pub(crate) fn room_for(bytes: usize) -> Result<()> {
    keep_large(bytes).map(drop)
}

fn set_in_steps(charge: &mut MemoryCharge, bytes: usize) -> Result<()> {
    if bytes < STEP_BYTES || bytes <= charge.bytes() {
        return Ok(());
    }
    if charge.set(bytes.next_multiple_of(STEP_BYTES)) { Ok(()) } else { Err(Error::MemoryLimit) }
}

/// Of a buffer while it grows.
#[derive(Default)]
pub(crate) struct Growing {
    charge: Option<MemoryCharge>,
    seen: usize,
}

impl Growing {
    /// Says how large it is by now.
    #[inline]
    pub fn to(&mut self, bytes: usize) -> Result<()> {
        if bytes < self.seen + STEP_BYTES {
            return Ok(());
        }
        self.grow(bytes)
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> Result<()> {
        work(bytes - self.seen)?;
        self.seen = bytes;
        if self.charge.is_none() {
            self.charge = charge();
        }
        self.charge.as_mut().map_or(Ok(()), |charge| set_in_steps(charge, bytes))
    }
}
