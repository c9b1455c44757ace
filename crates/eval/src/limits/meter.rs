//! Thread-local metering of the running program: cancellation checks and memory charges.
//!
//! Many small functions may turn small values into large ones. They report work and allocations to
//! the program that runs on their thread. It is thread-local because a compiled program and its
//! kernels are shared by the threads of a query, so they cannot own the mutable run, and as a
//! parameter it would pass through every kernel, cast, comparison and builder, most of which never
//! report. Nothing outlives a run: the slot is empty unless a [`RunGuard`] exists.

use std::cell::RefCell;

use crate::error::{Error, Result};
use crate::limits::cancellation::{Cancellation, ROWS_PER_CHECK};
use crate::limits::memory::MemoryCharge;

/// Granularity of charges for growing buffers; smaller buffers are not charged.
const STEP_BYTES: usize = 256 * 1024;

struct Run {
    cancellation: Cancellation,
    /// Rows, elements or bytes processed since the last cancellation check.
    units: usize,
    /// Intermediate results of the run, released when it ends.
    charge: MemoryCharge,
    bytes: usize,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Keeps a run current on this thread; dropping it restores the run that was current before.
pub(crate) struct RunGuard(Option<Run>);

impl Drop for RunGuard {
    fn drop(&mut self) {
        let previous = self.0.take();
        let current = RUN.with(|run| std::mem::replace(&mut *run.borrow_mut(), previous));
        drop(current);
    }
}

pub(crate) fn enter(cancellation: &Cancellation) -> RunGuard {
    let charge = cancellation.memory().charge();
    let run = Run { cancellation: cancellation.clone(), units: 0, charge, bytes: 0 };
    RunGuard(RUN.with(|current| current.borrow_mut().replace(run)))
}

/// Reports work; checks for cancellation once per [`ROWS_PER_CHECK`] units.
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

/// Checks for cancellation now.
pub(crate) fn check() -> Result<()> {
    work(ROWS_PER_CHECK)
}

/// Charges an intermediate result until the run ends.
pub(crate) fn charge_run(bytes: usize) -> Result<()> {
    RUN.with(|run| match &mut *run.borrow_mut() {
        None => Ok(()),
        Some(run) => {
            run.bytes = run.bytes.saturating_add(bytes);
            set_in_steps(&mut run.charge, run.bytes)
        }
    })
}

/// Charges something that outlives the run, however small.
pub(crate) fn charge(bytes: usize) -> Result<Option<MemoryCharge>> {
    let Some(mut charge) = empty_charge() else { return Ok(None) };
    if charge.set(bytes) { Ok(Some(charge)) } else { Err(Error::MemoryLimit) }
}

/// As [`charge`], but ignores less than [`STEP_BYTES`].
pub(crate) fn charge_large(bytes: usize) -> Result<Option<MemoryCharge>> {
    if bytes < STEP_BYTES { Ok(None) } else { charge(bytes) }
}

fn empty_charge() -> Option<MemoryCharge> {
    RUN.with(|run| run.borrow().as_ref().map(|run| run.cancellation.memory().charge()))
}

/// Fails if this many bytes more would exceed the memory limit; charges nothing.
pub(crate) fn check_headroom(bytes: usize) -> Result<()> {
    charge_large(bytes).map(drop)
}

fn set_in_steps(charge: &mut MemoryCharge, bytes: usize) -> Result<()> {
    if bytes < STEP_BYTES || bytes <= charge.bytes() {
        return Ok(());
    }
    if charge.set(bytes.next_multiple_of(STEP_BYTES)) { Ok(()) } else { Err(Error::MemoryLimit) }
}

/// The charge of a buffer while it grows.
#[derive(Default)]
pub(crate) struct GrowingBuffer {
    charge: Option<MemoryCharge>,
    reported: usize,
}

impl GrowingBuffer {
    /// Reports the buffer's current size.
    #[inline]
    pub fn grow_to(&mut self, bytes: usize) -> Result<()> {
        if bytes < self.reported + STEP_BYTES {
            return Ok(());
        }
        self.grow(bytes)
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> Result<()> {
        work(bytes - self.reported)?;
        self.reported = bytes;
        if self.charge.is_none() {
            self.charge = empty_charge();
        }
        self.charge.as_mut().map_or(Ok(()), |charge| set_in_steps(charge, bytes))
    }
}
