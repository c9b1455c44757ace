//! The merge: writes segments from row sets, for both flush and compaction.
//!
//! It first sorts all live rows by event and time alone. Then it merges, permutes and writes one
//! column at a time: it unites dictionaries entry by entry, and moves rows as codes.

mod plan;
mod properties;

use std::sync::Arc;

use model::ProjectId;

use crate::columns::{ABSENT, Dictionary, Field, IntColumn, Interner};
use crate::manifest::StoreDir;
use crate::manifest::store_dir::discard;
use crate::manifest::{SegmentEntry, UuidRanges};
use crate::read::row_set::RowSet;
use crate::segment::write::SegmentWriter;
use crate::{Result, settings::Settings};

pub(crate) use plan::OUTPUTS_MAX;
use plan::Output;

/// zstd levels of a flushed segment, which is merged soon, and of a compacted one.
pub(crate) const LEVEL_FLUSH: i32 = 1;
pub(crate) const LEVEL_COMPACT: i32 = 3;

pub(crate) struct Merge<'a> {
    pub store_dir: &'a StoreDir,
    pub settings: &'a Settings,
    pub project: ProjectId,
    pub level: i32,
    /// The time of the merge, in microseconds: decides which timestamps are `late`.
    pub now: i64,
}

/// A column of all row sets, concatenated.
struct MergedColumn {
    codes: Vec<u32>,
    dictionary: Dictionary,
}

impl Merge<'_> {
    /// Writes the live rows of all row sets, one segment per partition, at most [`OUTPUTS_MAX`].
    pub fn run(
        &self,
        row_sets: &[RowSet],
        next_id: &mut dyn FnMut() -> u64,
    ) -> Result<Vec<SegmentEntry>> {
        let outputs = plan::plan(row_sets, self.settings.row_group_rows, self.now)?;
        if outputs.is_empty() {
            return Ok(Vec::new());
        }
        self.store_dir.create_project(self.project)?;
        let named: Vec<(u64, String)> = outputs
            .iter()
            .map(|output| {
                let id = next_id();
                (id, StoreDir::segment_file(self.project, output.partition, id))
            })
            .collect();
        let written = self.write(row_sets, outputs, &named);
        if written.is_err() {
            named.iter().for_each(|(_, file)| discard(&self.store_dir.path(file)));
        }
        written
    }

    fn write(
        &self,
        row_sets: &[RowSet],
        outputs: Vec<Output>,
        named: &[(u64, String)],
    ) -> Result<Vec<SegmentEntry>> {
        let create = |(output, (_, file)): (&Output, &(u64, String))| {
            let (path, rows) = (self.store_dir.path(file), output.order.len());
            SegmentWriter::create(path, rows, self.settings.row_group_rows, self.level)
        };
        let mut writers: Vec<SegmentWriter> =
            outputs.iter().zip(named).map(create).collect::<Result<_>>()?;
        let uuids = self.write_fixed(row_sets, &outputs, &mut writers)?;
        for field in Field::of_every_event() {
            self.write_coded(row_sets, &field, &outputs, &mut writers)?;
        }
        properties::write(row_sets, &outputs, &mut writers)?;
        self.write_coded(row_sets, &Field::Nulls, &outputs, &mut writers)?;
        let mut entries = Vec::with_capacity(outputs.len());
        for (((output, writer), (id, file)), uuids) in
            outputs.into_iter().zip(writers).zip(named).zip(uuids)
        {
            let written = writer.finish(self.store_dir, output.runs)?;
            entries.push(SegmentEntry {
                id: *id,
                project: self.project,
                partition: output.partition,
                file: file.clone(),
                rows: output.order.len() as u64,
                bytes: written.bytes,
                column_bytes_max: written.column_bytes_max,
                from: output.from,
                to: output.to,
                uuids,
                events: output.events,
                dead: None,
                checks: Some(written.checks),
            });
        }
        self.store_dir.sync_project(self.project)?;
        Ok(entries)
    }

    fn write_fixed(
        &self,
        row_sets: &[RowSet],
        outputs: &[Output],
        writers: &mut [SegmentWriter],
    ) -> Result<Vec<UuidRanges>> {
        let mut uuids = Vec::new();
        for row_set in row_sets {
            uuids.extend_from_slice(&row_set.uuids(0..row_set.rows())?);
        }
        let mut ranges = Vec::new();
        for (output, writer) in outputs.iter().zip(writers.iter_mut()) {
            let ordered = gather(&uuids, &output.order);
            writer.uuids(&ordered)?;
            ranges.push(UuidRanges::of(&ordered));
        }
        drop(uuids);
        for number in IntColumn::ALL {
            let mut values = Vec::new();
            for row_set in row_sets {
                values.extend_from_slice(&row_set.ints(number, 0..row_set.rows())?);
            }
            for (output, writer) in outputs.iter().zip(writers.iter_mut()) {
                writer.ints(number, &gather(&values, &output.order))?;
            }
        }
        let (mut distinct_nos, mut historical) = (Vec::new(), Vec::new());
        for row_set in row_sets {
            distinct_nos.extend_from_slice(&row_set.distinct_nos(0..row_set.rows())?);
            historical.extend_from_slice(&row_set.historical(0..row_set.rows())?);
        }
        for (output, writer) in outputs.iter().zip(writers.iter_mut()) {
            writer.distinct_nos(&gather(&distinct_nos, &output.order))?;
            writer.historical(&gather(&historical, &output.order))?;
        }
        Ok(ranges)
    }

    fn write_coded(
        &self,
        row_sets: &[RowSet],
        field: &Field,
        outputs: &[Output],
        writers: &mut [SegmentWriter],
    ) -> Result<()> {
        if let Some(merged) = merge_column(row_sets, field)? {
            write_merged(&merged, field, outputs, writers)?;
        }
        Ok(())
    }
}

/// Writes the column to each output, unless no row has a value.
fn write_merged(
    merged: &MergedColumn,
    field: &Field,
    outputs: &[Output],
    writers: &mut [SegmentWriter],
) -> Result<()> {
    for (output, writer) in outputs.iter().zip(writers) {
        let codes = gather(&merged.codes, &output.order);
        if codes.iter().any(|code| *code != ABSENT) {
            writer.coded(field, &codes, &merged.dictionary)?;
        }
    }
    Ok(())
}

fn gather<T: Copy>(values: &[T], order: &[u32]) -> Vec<T> {
    order.iter().map(|row| values[*row as usize]).collect()
}

/// `None` if no row set has the column.
fn merge_column(row_sets: &[RowSet], field: &Field) -> Result<Option<MergedColumn>> {
    let mut merged = ColumnMerger::default();
    let mut present = false;
    for row_set in row_sets {
        match row_set.column(field, 0..row_set.rows())? {
            Some(column) => {
                present = true;
                merged.add(&column.codes, &column.dictionary);
            }
            None => merged.skip(row_set.rows()),
        }
    }
    Ok(present.then(|| merged.finish()))
}

#[derive(Default)]
struct ColumnMerger {
    codes: Vec<u32>,
    interner: Interner,
    last_dictionary: Option<(Arc<Dictionary>, Vec<u32>)>,
}

impl ColumnMerger {
    fn add(&mut self, codes: &[u32], dictionary: &Arc<Dictionary>) {
        if !self
            .last_dictionary
            .as_ref()
            .is_some_and(|(last_dictionary, _)| Arc::ptr_eq(last_dictionary, dictionary))
        {
            let map = dictionary.iter().map(|value| self.interner.intern(value)).collect();
            self.last_dictionary = Some((dictionary.clone(), map));
        }
        let Some((_, map)) = &self.last_dictionary else { return };
        let merged = |code: &u32| if *code == ABSENT { ABSENT } else { map[*code as usize] };
        self.codes.extend(codes.iter().map(merged));
    }

    fn skip(&mut self, rows: usize) {
        self.codes.resize(self.codes.len() + rows, ABSENT);
    }

    fn finish(self) -> MergedColumn {
        MergedColumn { codes: self.codes, dictionary: self.interner.dictionary }
    }
}
