//! A count-min sketch with time windows: fixed-size counters for keys that clients choose.
//!
//! A key has one cell in each row, chosen by a hash with a random seed; its count is the minimum of
//! them. A count is never too low, whatever other keys are counted, and nothing is evicted. It is
//! too high only if other keys collide in every row, which an attacker cannot provoke.

use std::hash::{BuildHasher, Hash, RandomState};

const ROWS: usize = 4;
/// Per row; all rows take 1 MiB. CPU time bounds password checks to fewer than 40,000 per window,
/// at which a key collides five times in every row with a probability of 1 in 40,000.
const CELLS: usize = 1 << 14;

pub(super) struct Sketch {
    seeds: [RandomState; ROWS],
    /// Allocated by the first failure: most servers idle without one.
    cells: Box<[Cell]>,
    limit: u32,
    seconds: i64,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    count: u32,
    /// Start of the window, in seconds: its first failure, or the failure that reached the limit.
    since: i64,
}

impl Sketch {
    /// Blocks a key for `seconds` once it is counted `limit` times within `seconds`.
    pub(super) fn new(limit: u32, seconds: i64) -> Self {
        let seeds = std::array::from_fn(|_| RandomState::new());
        Self { seeds, cells: Box::default(), limit, seconds }
    }

    /// Seconds until the key is allowed again; 0 if it is allowed now.
    pub(super) fn wait(&self, key: &impl Hash, now: i64) -> i64 {
        let waits = self.indexes_of(key).map(|index| {
            let Some(cell) = self.cells.get(index) else { return 0 };
            let left = self.seconds - now.saturating_sub(cell.since);
            if cell.count >= self.limit { left.max(0) } else { 0 }
        });
        waits.into_iter().min().unwrap_or(0)
    }

    /// Counts the key once. Only its lowest cells grow (conservative update), which keeps
    /// overestimates of colliding keys small.
    pub(super) fn add(&mut self, key: &impl Hash, now: i64) {
        if self.cells.is_empty() {
            self.cells = vec![Cell::default(); ROWS * CELLS].into_boxed_slice();
        }
        let indexes = self.indexes_of(key);
        for index in indexes {
            let cell = &mut self.cells[index];
            if now.saturating_sub(cell.since) >= self.seconds {
                *cell = Cell { count: 0, since: now };
            }
        }
        let least = self.least(indexes);
        for index in indexes {
            let cell = &mut self.cells[index];
            if cell.count == least {
                cell.count = cell.count.saturating_add(1);
                if cell.count == self.limit {
                    cell.since = now;
                }
            }
        }
    }

    /// Decrements the key's count by one.
    pub(super) fn decrement(&mut self, key: &impl Hash) {
        self.lower(key, 1);
    }

    /// Resets the key's count to zero.
    pub(super) fn reset(&mut self, key: &impl Hash) {
        let least = self.least(self.indexes_of(key));
        self.lower(key, least);
    }

    fn lower(&mut self, key: &impl Hash, by: u32) {
        for index in self.indexes_of(key) {
            if let Some(cell) = self.cells.get_mut(index) {
                cell.count = cell.count.saturating_sub(by);
            }
        }
    }

    fn least(&self, indexes: [usize; ROWS]) -> u32 {
        indexes
            .into_iter()
            .map(|index| self.cells.get(index).map_or(0, |cell| cell.count))
            .min()
            .unwrap_or(0)
    }

    fn indexes_of(&self, key: &impl Hash) -> [usize; ROWS] {
        std::array::from_fn(|row| {
            let cell = self.seeds[row].hash_one(key) as usize % CELLS;
            row * CELLS + cell
        })
    }
}
