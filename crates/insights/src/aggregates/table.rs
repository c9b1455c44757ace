//! Partial aggregates by breakdown value and time bucket.

use std::mem::size_of;

use smallvec::{SmallVec, smallvec};

/// A partial aggregate. Each thread fills a table of its own; the tables are merged at the end.
pub(crate) trait Cell: Default + Send {
    fn merge(&mut self, other: Self);
    /// Heap bytes.
    fn bytes(&self) -> usize {
        0
    }
}

impl Cell for u64 {
    fn merge(&mut self, other: Self) {
        *self += other;
    }
}

impl Cell for facts::IdSet {
    fn merge(&mut self, other: Self) {
        self.union(&other);
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

/// Sum, count, minimum and maximum of some numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub sum: f64,
    pub count: u64,
    pub min: f64,
    pub max: f64,
}

impl Default for Summary {
    fn default() -> Self {
        Self { sum: 0.0, count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Summary {
    pub fn add(&mut self, number: f64) {
        self.sum += number;
        self.count += 1;
        self.min = self.min.min(number);
        self.max = self.max.max(number);
    }
}

impl Cell for Summary {
    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

impl Cell for Vec<f64> {
    fn merge(&mut self, mut other: Self) {
        self.append(&mut other);
    }

    fn bytes(&self) -> usize {
        self.capacity() * 8
    }
}

/// Number of events per actor.
impl Cell for hashbrown::HashMap<u32, u64> {
    fn merge(&mut self, other: Self) {
        for (actor, count) in other {
            *self.entry(actor).or_default() += count;
        }
    }

    fn bytes(&self) -> usize {
        self.allocation_size()
    }
}

/// The first values get a cell for every bucket. Later ones are sparse, because with many values
/// most cells stay empty.
const DENSE_ROWS: usize = 256;

#[derive(Debug)]
struct Row<C> {
    /// By bucket. One inline cell is enough for total values and for most sparse rows.
    cells: SmallVec<[(u32, C); 1]>,
    dense: bool,
}

/// Rows are breakdown value ids, columns are buckets.
#[derive(Debug)]
pub(crate) struct AggregateTable<C> {
    buckets: usize,
    rows: Vec<Option<Row<C>>>,
    measured_bytes: usize,
    /// Cells accessed since `measured_bytes` was measured.
    touched: usize,
}

impl<C: Cell> AggregateTable<C> {
    pub fn new(buckets: usize) -> Self {
        Self { buckets, rows: Vec::new(), measured_bytes: 0, touched: 0 }
    }

    pub fn cell(&mut self, value: u32, bucket: usize) -> &mut C {
        self.touched += 1;
        let at = value as usize;
        if at >= self.rows.len() {
            self.rows.resize_with(at + 1, || None);
        }
        let dense = at < DENSE_ROWS;
        let row = self.rows[at].get_or_insert_with(|| {
            let all = 0..if dense { self.buckets as u32 } else { 0 };
            Row { cells: all.map(|bucket| (bucket, C::default())).collect(), dense }
        });
        if row.dense {
            return &mut row.cells[bucket].1;
        }
        let position = row.cells.binary_search_by_key(&(bucket as u32), |(bucket, _)| *bucket);
        let at = position.unwrap_or_else(|at| {
            row.cells.insert(at, (bucket as u32, C::default()));
            at
        });
        &mut row.cells[at].1
    }

    pub fn merge(&mut self, other: Self) {
        for (value, row) in other.rows.into_iter().enumerate() {
            let Some(row) = row else { continue };
            for (bucket, cell) in row.cells {
                self.cell(value as u32, bucket as usize).merge(cell);
            }
        }
    }

    /// Merges the tables of several threads.
    pub fn join(buckets: usize, tables: impl IntoIterator<Item = Self>) -> Self {
        let mut tables = tables.into_iter();
        let mut all = tables.next().unwrap_or_else(|| Self::new(buckets));
        tables.for_each(|table| all.merge(table));
        all
    }

    /// Values that have a row.
    pub fn values(&self) -> impl Iterator<Item = u32> {
        let present = self.rows.iter().enumerate().filter(|(_, row)| row.is_some());
        present.map(|(value, _)| value as u32)
    }

    /// Removes the rows of some values and merges them into one cell per bucket.
    pub fn take(&mut self, values: impl IntoIterator<Item = u32>) -> Vec<C> {
        let mut cells: Vec<C> = Vec::with_capacity(self.buckets);
        cells.resize_with(self.buckets, C::default);
        for value in values {
            let row = self.rows.get_mut(value as usize).and_then(Option::take);
            for (bucket, cell) in row.into_iter().flat_map(|row| row.cells) {
                cells[bucket as usize].merge(cell);
            }
        }
        cells
    }

    /// Calls `each` with a value's cells, one per bucket; `empty` stands for those without data.
    pub fn show(&self, value: u32, empty: &C, each: impl FnOnce(&[&C])) {
        let mut cells: SmallVec<[&C; 1]> = smallvec![empty; self.buckets];
        if let Some(Some(row)) = self.rows.get(value as usize) {
            for (bucket, cell) in &row.cells {
                cells[*bucket as usize] = cell;
            }
        }
        each(&cells);
    }

    /// Heap bytes. Measuring visits every row, so the table measures again only after as many
    /// accesses as it has rows: the cost is amortized.
    pub fn bytes(&mut self) -> usize {
        if self.touched >= self.rows.len() {
            self.touched = 0;
            self.measured_bytes = self.compute();
        }
        self.measured_bytes
    }

    fn compute(&self) -> usize {
        let cell = |(_, cell): &(u32, C)| cell.bytes();
        let row = |row: &Row<C>| {
            let heap = if row.cells.spilled() { row.cells.capacity() } else { 0 };
            heap * size_of::<(u32, C)>() + row.cells.iter().map(cell).sum::<usize>()
        };
        let rows = self.rows.iter().flatten().map(row).sum::<usize>();
        rows + self.rows.capacity() * size_of::<Option<Row<C>>>()
    }
}
