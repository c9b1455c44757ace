//! Conditions on events that the scan evaluates before it reads the columns of the result.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, AsArray, BooleanArray};
use datafusion_physical_expr::PhysicalExpr;
use eval::{MemoryCharge, Program};
use facts::ReadView;
use hogql::plan::Expr;
use warehouse::{Batch, Projection, RowPredicate, ScanRange, SelectedRows};

use super::codes::{DictionaryColumn, is_of_person};
use super::entry_expr::{EntryCondition, EntryText, program};
use super::entry_memo::EntryMemo;
use super::events::WIDE_ROWS_MAX;
use super::fields::FieldReader;
use crate::cancellation::Cancellation;
use crate::error::{Error, Result};
use crate::lower::codes::only_field;
use crate::lower::leaves::{Field, Layout, Leaf, leaves};
use crate::lower::{Lowering, Stage};
use crate::operators::row_sources;

/// Rows of a condition that are evaluated at a time.
const CONDITION_ROWS_MAX: usize = 8 * 1024;

pub(super) enum Condition {
    /// Of one dictionary column: evaluated once for each of its entries.
    Entries(Box<EntriesCondition>),
    /// Of persons: evaluated once for each of them.
    Persons(Box<PersonsCondition>),
    Rows(Box<RowsCondition>),
}

/// A condition as a predicate of the warehouse's lists, which keeps the error that it ran into.
pub(super) struct ListPredicate {
    condition: Condition,
    cancellation: Cancellation,
    pub failed: Mutex<Option<Error>>,
}

pub(super) struct EntriesCondition {
    columns: Projection,
    column: DictionaryColumn,
    text: EntryText,
    program: Program,
    memo: EntryMemo,
    view: Arc<ReadView>,
}

pub(super) struct PersonsCondition {
    of_events: RowsCondition,
    /// By dense id; [`UNKNOWN`] for persons that were not met yet.
    known: Vec<AtomicU8>,
    view: Arc<ReadView>,
    _charge: MemoryCharge,
}

/// Not 0 or 1, which tell whether a condition holds.
const UNKNOWN: u8 = 2;

pub(super) struct RowsCondition {
    reader: FieldReader,
    condition: Arc<dyn PhysicalExpr>,
}

impl Condition {
    /// Drops the rows for which the condition does not hold.
    pub(super) fn retain(&self, part: &ScanRange, selected: &mut SelectedRows) -> Result<()> {
        let rows_max = if self.columns().properties { WIDE_ROWS_MAX } else { usize::MAX };
        let mut holds = Vec::with_capacity(selected.len());
        for chunk in selected.chunks(rows_max) {
            holds.extend(self.holds(part.read_selected(&chunk, self.columns())?)?);
        }
        selected.retain(holds);
        Ok(())
    }

    fn columns(&self) -> &Projection {
        match self {
            Self::Entries(condition) => &condition.columns,
            Self::Persons(condition) => &condition.of_events.reader.columns,
            Self::Rows(condition) => &condition.reader.columns,
        }
    }

    fn holds(&self, read: Batch) -> Result<Vec<bool>> {
        match self {
            Self::Entries(condition) => condition.holds(&read),
            Self::Persons(condition) => condition.holds(&read),
            Self::Rows(condition) => condition.holds(read),
        }
    }
}

impl EntriesCondition {
    fn holds(&self, read: &Batch) -> Result<Vec<bool>> {
        let function = EntryCondition { text: &self.text, program: &self.program };
        let holds =
            self.column.read(read, &self.view, |column| self.memo.rows(column, &function))?;
        Ok(holds.into_iter().map(|holds| holds == 1).collect())
    }
}

impl PersonsCondition {
    fn holds(&self, read: &Batch) -> Result<Vec<bool>> {
        let actor = |distinct_no: &u32| self.view.persons.actor(*distinct_no) as usize;
        let actors: Vec<usize> = read.distinct_nos.iter().map(actor).collect();
        let is_new = |actor: usize| self.known[actor].load(Ordering::Relaxed) == UNKNOWN;
        let each = actors.iter().zip(&read.distinct_nos);
        let mut new: Vec<(usize, u32)> =
            each.filter(|(actor, _)| is_new(**actor)).map(|(actor, no)| (*actor, *no)).collect();
        new.sort_unstable();
        new.dedup_by_key(|(actor, _)| *actor);
        let distinct_nos: Vec<u32> = new.iter().map(|(_, distinct_no)| *distinct_no).collect();
        let one_each = Batch { rows: new.len(), distinct_nos, ..Batch::default() };
        for ((actor, _), holds) in new.iter().zip(self.of_events.holds(one_each)?) {
            self.known[*actor].store(u8::from(holds), Ordering::Relaxed);
        }
        Ok(actors.iter().map(|actor| self.known[*actor].load(Ordering::Relaxed) == 1).collect())
    }
}

impl RowsCondition {
    fn holds(&self, read: Batch) -> Result<Vec<bool>> {
        let prepared = self.reader.prepare(read)?;
        let mut all = Vec::with_capacity(prepared.rows());
        let mut from = 0;
        while from < prepared.rows() {
            let to = prepared.rows().min(from + CONDITION_ROWS_MAX);
            let batch = self.reader.slice(&prepared, from..to, &Vec::new())?;
            let holds = self.condition.evaluate(&batch)?.into_array(batch.num_rows())?;
            let holds: &BooleanArray = holds.as_boolean();
            all.extend((0..holds.len()).map(|row| holds.is_valid(row) && holds.value(row)));
            from = to;
        }
        Ok(all)
    }
}

impl ListPredicate {
    pub(super) fn new(condition: Condition, cancellation: &Cancellation) -> Self {
        Self { condition, cancellation: cancellation.clone(), failed: Mutex::default() }
    }
}

impl std::fmt::Debug for ListPredicate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ListPredicate")
    }
}

impl RowPredicate for ListPredicate {
    fn columns(&self) -> &Projection {
        self.condition.columns()
    }

    fn evaluate(&self, batch: &Batch) -> std::result::Result<Vec<bool>, String> {
        let holds = self.cancellation.check().and_then(|()| self.condition.holds(batch.clone()));
        holds.map_err(|error| {
            let message = error.to_string();
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            message
        })
    }
}

impl Lowering {
    /// A condition on the events that are this source of the select.
    pub(super) fn event_condition(&self, condition: &Expr, source: usize) -> Result<Condition> {
        if let Some((_, field)) = only_field(condition) {
            let mut columns = Projection::default();
            if let Some((column, text)) = self.dictionary_column(&field, &mut columns)? {
                columns.timestamps = false;
                columns.distinct_nos = matches!(column, DictionaryColumn::Person(_));
                let program = program(condition, source, &field, &self.context)?;
                let memo = EntryMemo::new(self.cancellation.memory());
                let view = self.view.clone();
                return Ok(Condition::Entries(Box::new(EntriesCondition {
                    columns,
                    column,
                    text,
                    program,
                    memo,
                    view,
                })));
            }
        }
        let (mut layout, mut fields) = (Layout::default(), Vec::<Field>::new());
        leaves(condition, &mut |leaf| {
            if let Leaf::Field { field, .. } = &leaf
                && layout.get(&leaf).is_none()
            {
                fields.push(field.clone());
                layout.set(leaf, fields.len() - 1);
            }
        });
        let reader = FieldReader::new(self, &fields, &[], false)?;
        let plan = row_sources::in_memory(reader.schema.clone(), Arc::default());
        let stage = Stage { plan, layout, outer: false };
        let condition = self.condition(condition, &stage)?;
        let of_events = RowsCondition { reader, condition };
        // Some fields of persons, such as the project, are read without them.
        let reads_persons = of_events.reader.columns.distinct_nos;
        if !reads_persons || !fields.iter().all(is_of_person) {
            return Ok(Condition::Rows(Box::new(of_events)));
        }
        let view = self.view.clone();
        let persons = view.persons.actors_max();
        let mut charge = self.cancellation.memory().charge();
        if !charge.set(persons) {
            return Err(Error::MemoryLimit);
        }
        let known = (0..persons).map(|_| AtomicU8::new(UNKNOWN)).collect();
        let condition = PersonsCondition { of_events, known, view, _charge: charge };
        Ok(Condition::Persons(Box::new(condition)))
    }
}
