//! What a query holds, within its bound: the columns that are kept for everybody give way to it.

use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, PoisonError};

use datafusion_common::Result;
use datafusion_execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use warehouse::Loan;

#[derive(Debug)]
pub(crate) struct Memory {
    pool: GreedyMemoryPool,
    loan: Mutex<Loan>,
}

impl Memory {
    pub(crate) fn new(bytes_max: usize, loan: Loan) -> Self {
        Self { pool: GreedyMemoryPool::new(bytes_max), loan: Mutex::new(loan) }
    }

    fn tell(&self) {
        let mut loan = self.loan.lock().unwrap_or_else(PoisonError::into_inner);
        loan.set(self.pool.reserved());
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pool)
    }
}

impl MemoryPool for Memory {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.tell();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        self.tell();
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)?;
        self.tell();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
