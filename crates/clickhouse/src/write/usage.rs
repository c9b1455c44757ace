//! How often properties without a column occur.

use std::collections::HashMap;

/// Names that are counted; further ones are not, until the counts start again.
const NAMES_MAX: usize = 4_096;
/// Rows before which the counts say nothing.
const ROWS_MIN: u64 = 10_000;
/// A property on one in this many rows is worth a column.
const ONE_IN: u64 = 100;

#[derive(Debug, Default)]
pub(super) struct Usage {
    pub rows: u64,
    names: HashMap<String, u64>,
}

impl Usage {
    pub fn count(&mut self, name: &str) {
        if let Some(count) = self.names.get_mut(name) {
            *count += 1;
        } else if self.names.len() < NAMES_MAX {
            self.names.insert(name.to_owned(), 1);
        }
    }

    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        for (name, count) in other.names {
            if let Some(known) = self.names.get_mut(&name) {
                *known += count;
            } else if self.names.len() < NAMES_MAX {
                self.names.insert(name, count);
            }
        }
    }

    /// The properties that are worth a column, the most frequent first, once enough rows were counted.
    /// Then the counts start again.
    pub fn take_frequent(&mut self) -> Vec<String> {
        if self.rows < ROWS_MIN {
            return Vec::new();
        }
        let Self { rows, names } = std::mem::take(self);
        let frequent = names.into_iter().filter(|(_, count)| *count >= rows / ONE_IN);
        let mut frequent: Vec<(String, u64)> = frequent.collect();
        frequent.sort_unstable_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then(a.cmp(b)));
        frequent.into_iter().map(|(name, _)| name).collect()
    }
}
