//! Cells by breakdown value and bucket.

use std::mem::size_of;

use smallvec::{SmallVec, smallvec};

/// What a cell of a table holds; threads fill tables of their own, which are put together.
pub(crate) trait Cell: Default + Send {
    fn absorb(&mut self, other: Self);
    /// Of the heap.
    fn bytes(&self) -> usize {
        0
    }
}

impl Cell for u64 {
    fn absorb(&mut self, other: Self) {
        *self += other;
    }
}

impl Cell for facts::IdSet {
    fn absorb(&mut self, other: Self) {
        self.union(&other);
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

/// Sum, count and extremes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    pub sum: f64,
    pub count: u64,
    pub min: f64,
    pub max: f64,
}

impl Default for Stat {
    fn default() -> Self {
        Self { sum: 0.0, count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Stat {
    pub fn add(&mut self, number: f64) {
        self.sum += number;
        self.count += 1;
        self.min = self.min.min(number);
        self.max = self.max.max(number);
    }
}

impl Cell for Stat {
    fn absorb(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

impl Cell for Vec<f64> {
    fn absorb(&mut self, mut other: Self) {
        self.append(&mut other);
    }

    fn bytes(&self) -> usize {
        self.capacity() * 8
    }
}

/// How often each actor was there.
impl Cell for hashbrown::HashMap<u32, u64> {
    fn absorb(&mut self, other: Self) {
        for (actor, count) in other {
            *self.entry(actor).or_default() += count;
        }
    }

    fn bytes(&self) -> usize {
        self.allocation_size()
    }
}

/// The first values have a cell for every bucket; with many values most cells would be empty, so
/// later ones only have those that were used.
const DENSE_ROWS: usize = 256;

#[derive(Debug)]
struct Row<C> {
    /// One is all there is without an interval, and often with one.
    cells: SmallVec<[(u32, C); 1]>,
    dense: bool,
}

#[derive(Debug)]
pub(crate) struct Tally<C> {
    buckets: usize,
    rows: Vec<Option<Row<C>>>,
    measured_bytes: usize,
    /// Cells that were asked for since.
    touched: usize,
}

impl<C: Cell> Tally<C> {
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
        let found = row.cells.binary_search_by_key(&(bucket as u32), |(bucket, _)| *bucket);
        let at = found.unwrap_or_else(|at| {
            row.cells.insert(at, (bucket as u32, C::default()));
            at
        });
        &mut row.cells[at].1
    }

    pub fn absorb(&mut self, other: Self) {
        for (value, row) in other.rows.into_iter().enumerate() {
            let Some(row) = row else { continue };
            for (bucket, cell) in row.cells {
                self.cell(value as u32, bucket as usize).absorb(cell);
            }
        }
    }

    /// Puts tables of several threads together.
    pub fn join(buckets: usize, tables: impl IntoIterator<Item = Self>) -> Self {
        let mut tables = tables.into_iter();
        let mut all = tables.next().unwrap_or_else(|| Self::new(buckets));
        tables.for_each(|table| all.absorb(table));
        all
    }

    /// Values that were met.
    pub fn values(&self) -> impl Iterator<Item = u32> {
        let met = self.rows.iter().enumerate().filter(|(_, row)| row.is_some());
        met.map(|(value, _)| value as u32)
    }

    /// Takes the cells of some values and puts them together, one for each bucket.
    pub fn take(&mut self, values: impl IntoIterator<Item = u32>) -> Vec<C> {
        let mut cells: Vec<C> = Vec::with_capacity(self.buckets);
        cells.resize_with(self.buckets, C::default);
        for value in values {
            let row = self.rows.get_mut(value as usize).and_then(Option::take);
            for (bucket, cell) in row.into_iter().flat_map(|row| row.cells) {
                cells[bucket as usize].absorb(cell);
            }
        }
        cells
    }

    /// A value's cells, one for each bucket.
    pub fn show(&self, value: u32, empty: &C, each: impl FnOnce(&[&C])) {
        let mut cells: SmallVec<[&C; 1]> = smallvec![empty; self.buckets];
        if let Some(Some(row)) = self.rows.get(value as usize) {
            for (bucket, cell) in &row.cells {
                cells[*bucket as usize] = cell;
            }
        }
        each(&cells);
    }

    /// Looking at every row costs as much as filling it, so it is done again only when as many
    /// cells may have grown.
    pub fn bytes(&mut self) -> usize {
        if self.touched >= self.rows.len() {
            self.touched = 0;
            self.measured_bytes = self.measure();
        }
        self.measured_bytes
    }

    fn measure(&self) -> usize {
        let cell = |(_, cell): &(u32, C)| cell.bytes();
        let row = |row: &Row<C>| {
            let heap = if row.cells.spilled() { row.cells.capacity() } else { 0 };
            heap * size_of::<(u32, C)>() + row.cells.iter().map(cell).sum::<usize>()
        };
        let rows = self.rows.iter().flatten().map(row).sum::<usize>();
        rows + self.rows.capacity() * size_of::<Option<Row<C>>>()
    }
}
