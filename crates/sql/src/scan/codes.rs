//! Numbers that stand for values: the dense id of a person, the global code of a string. They are equal
//! where the values are, so grouping and distinct counts need no more.

use std::sync::Arc;

use eval::Program;
use facts::ReadView;
use hogql::plan::Expr;
use hogql::tables::LazyJoin;
use warehouse::{ABSENT, Batch, Column, Projection};

use super::dictionary_strings::Missing;
use super::entry_expr::{EntryCode, EntryText, program};
use super::entry_memo::EntryMemo;
use super::fields::{column_index, links, text_column};
use crate::error::Result;
use crate::lower::Lowering;
use crate::lower::codes::{CodeOf, Codes};
use crate::lower::global_codes::GlobalCodes;
use crate::lower::leaves::{Field, PathStep, leaf_of};

/// An expression of one source of which a select needs only the code.
pub(crate) struct CodedExpr<'a> {
    pub of: CodeOf,
    pub expr: &'a Expr,
    pub source: usize,
    /// The only field that it reads.
    pub field: Field,
    pub codes: Codes,
}

/// Where codes come from.
pub(super) enum CodeSource {
    Person,
    Text(Box<CodedText>),
}

pub(super) struct CodedText {
    column: DictionaryColumn,
    text: EntryText,
    program: Option<Program>,
    codes: Arc<GlobalCodes>,
    memo: EntryMemo,
}

/// A dictionary column of events, by its index in the projection, or of persons.
pub(super) enum DictionaryColumn {
    Event(usize),
    Person(Arc<Column>),
}

impl DictionaryColumn {
    /// Calls `with` with the column of the rows of a batch.
    pub(super) fn read<T>(
        &self,
        read: &Batch,
        view: &ReadView,
        with: impl FnOnce(&Column) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Event(at) => with(&read.columns[*at]),
            Self::Person(column) => {
                let code = |distinct_no: &u32| {
                    let actor = view.persons.actor(*distinct_no) as usize;
                    column.codes.get(actor).copied().unwrap_or(ABSENT)
                };
                let codes = read.distinct_nos.iter().map(code).collect();
                with(&Column { codes, dictionary: column.dictionary.clone() })
            }
        }
    }
}

impl CodeSource {
    /// Whether the codes depend on the person of an event.
    pub(super) fn is_by_person(&self) -> bool {
        match self {
            Self::Person => true,
            Self::Text(coded) => matches!(coded.column, DictionaryColumn::Person(_)),
        }
    }

    pub(super) fn rows(&self, read: &Batch, view: &ReadView) -> Result<Vec<u32>> {
        match self {
            Self::Person => {
                Ok(read.distinct_nos.iter().map(|no| view.persons.actor(*no)).collect())
            }
            Self::Text(coded) => {
                let CodedText { column, text, program, codes, memo } = &**coded;
                let function = EntryCode { text, program: program.as_ref(), codes };
                column.read(read, view, |column| memo.rows(column, &function))
            }
        }
    }
}

impl Lowering {
    pub(super) fn code_source(
        &self,
        coded: &CodedExpr<'_>,
        columns: &mut Projection,
    ) -> Result<CodeSource> {
        let Codes::Strings(codes) = &coded.codes else { return Ok(CodeSource::Person) };
        let Some((column, text)) = self.dictionary_column(&coded.field, columns)? else {
            return Err(super::unsupported(&coded.field));
        };
        let is_field = leaf_of(coded.expr).is_some();
        let program = match is_field {
            true => None,
            false => Some(program(coded.expr, coded.source, &coded.field, &self.context)?),
        };
        let memo = EntryMemo::new(self.cancellation.memory());
        Ok(CodeSource::Text(Box::new(CodedText {
            column,
            text,
            program,
            codes: codes.clone(),
            memo,
        })))
    }

    /// The dictionary column whose strings a field has; `None` if it is not stored as one.
    pub(super) fn dictionary_column(
        &self,
        field: &Field,
        columns: &mut Projection,
    ) -> Result<Option<(DictionaryColumn, EntryText)>> {
        let via = links(field)?;
        let path = field.path.clone();
        if let Some((key, missing)) = text_column(&via, field) {
            let column = DictionaryColumn::Event(column_index(key, columns));
            return Ok(Some((column, EntryText { path, missing })));
        }
        let ([LazyJoin::Person], "properties", [PathStep::Key(name), ..]) =
            (&via[..], field.name, &path[..])
        else {
            return Ok(None);
        };
        let column = DictionaryColumn::Person(self.view.persons.column(name));
        Ok(Some((column, EntryText { path, missing: Missing::Null })))
    }
}

/// Whether a field of events is stored as a dictionary column.
pub(crate) fn is_dictionary(field: &Field) -> bool {
    let Ok(via) = links(field) else { return false };
    let of_person = (&via[..], field.name, &field.path[..]);
    text_column(&via, field).is_some()
        || matches!(of_person, ([LazyJoin::Person], "properties", [PathStep::Key(_), ..]))
}

/// Whether a field of events depends on nothing but its person.
pub(super) fn is_of_person(field: &Field) -> bool {
    is_person_id(field) || links(field).is_ok_and(|via| via == [LazyJoin::Person])
}

/// Whether a field of events is the id of its person.
pub(crate) fn is_person_id(field: &Field) -> bool {
    let Ok(via) = links(field) else { return false };
    match &via[..] {
        [] => field.name == "person_id",
        [LazyJoin::Person] => matches!(field.name, "id" | "person_id"),
        _ => false,
    }
}
