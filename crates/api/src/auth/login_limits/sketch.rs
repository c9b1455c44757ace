//! Counters of a fixed size for keys that strangers choose: a count-min sketch with windows.
//!
//! A key has one cell in each row, by a hash whose seed nobody outside knows; its count is the
//! least of them. So a count is never too low, whatever other keys are counted, and nothing is
//! evicted. It is too high only when other keys share all its cells, which nobody can aim at.

use std::hash::{BuildHasher, Hash, RandomState};

const ROWS: usize = 4;
/// Of one row; all rows are 1 MiB. Checks of passwords take a core for so long that a window has
/// fewer than 40,000 of them, of which a key shares five in every row once in 40,000 times.
const CELLS: usize = 1 << 14;

pub(super) struct Sketch {
    seeds: [RandomState; ROWS],
    cells: Box<[Cell]>,
    limit: u32,
    seconds: i64,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    count: u32,
    /// When the window began: with its first failure, and again with the one that closed it.
    since: i64,
}

impl Sketch {
    /// Refuses a key for `seconds` once it was counted `limit` times within as many seconds.
    pub(super) fn new(limit: u32, seconds: i64) -> Self {
        let cells = vec![Cell::default(); ROWS * CELLS].into_boxed_slice();
        Self { seeds: std::array::from_fn(|_| RandomState::new()), cells, limit, seconds }
    }

    /// Seconds until the key may be tried again; 0 when it may be now.
    pub(super) fn wait(&self, key: &impl Hash, now: i64) -> i64 {
        let waits = self.places(key).map(|place| {
            let cell = &self.cells[place];
            let left = self.seconds - now.saturating_sub(cell.since);
            if cell.count >= self.limit { left.max(0) } else { 0 }
        });
        waits.into_iter().min().unwrap_or(0)
    }

    /// Counts the key once. Only the lowest of its cells grow, so that keys which share one with it
    /// are hardly told apart from those that do not.
    pub(super) fn add(&mut self, key: &impl Hash, now: i64) {
        let places = self.places(key);
        for place in places {
            let cell = &mut self.cells[place];
            if now.saturating_sub(cell.since) >= self.seconds {
                *cell = Cell { count: 0, since: now };
            }
        }
        let least = self.least(places);
        for place in places {
            let cell = &mut self.cells[place];
            if cell.count == least {
                cell.count = cell.count.saturating_add(1);
                if cell.count == self.limit {
                    cell.since = now;
                }
            }
        }
    }

    /// Takes one count of the key back.
    pub(super) fn take_back(&mut self, key: &impl Hash) {
        self.lower(key, 1);
    }

    /// Takes all counts of the key back.
    pub(super) fn forget(&mut self, key: &impl Hash) {
        let least = self.least(self.places(key));
        self.lower(key, least);
    }

    fn lower(&mut self, key: &impl Hash, by: u32) {
        for place in self.places(key) {
            let cell = &mut self.cells[place];
            cell.count = cell.count.saturating_sub(by);
        }
    }

    fn least(&self, places: [usize; ROWS]) -> u32 {
        places.into_iter().map(|place| self.cells[place].count).min().unwrap_or(0)
    }

    fn places(&self, key: &impl Hash) -> [usize; ROWS] {
        std::array::from_fn(|row| {
            let cell = self.seeds[row].hash_one(key) as usize % CELLS;
            row * CELLS + cell
        })
    }
}
