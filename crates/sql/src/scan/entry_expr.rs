//! An expression of one dictionary column, evaluated over the column's entries.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use eval::Program;
use hogql::plan::Expr;
use warehouse::{Dictionary, Value};

use super::dictionary_strings::{Missing, text};
use super::entry_memo::EntryFunction;
use crate::error::Result;
use crate::lower::expressions::from_eval;
use crate::lower::global_codes::GlobalCodes;
use crate::lower::leaves::{Field, Leaf, PathStep, leaf_of};

/// The strings that a field has in a dictionary column.
#[derive(Clone, Debug)]
pub(super) struct EntryText {
    pub path: Vec<PathStep>,
    pub missing: Missing,
}

impl EntryText {
    fn of_entries(&self, dictionary: &Dictionary, entries: &[u32]) -> ArrayRef {
        let mut strings = StringBuilder::new();
        for entry in entries {
            self.append(text(dictionary.get(*entry), &self.path), &mut strings);
        }
        Arc::new(strings.finish())
    }

    fn of_absent(&self) -> ArrayRef {
        let mut strings = StringBuilder::new();
        self.append(text(Value::Null, &self.path), &mut strings);
        Arc::new(strings.finish())
    }

    fn append(&self, text: Option<impl AsRef<str>>, strings: &mut StringBuilder) {
        match (text, self.missing) {
            (Some(text), _) => strings.append_value(text),
            (None, Missing::Empty) => strings.append_value(""),
            (None, Missing::Null) => strings.append_null(),
        }
    }
}

/// Compiles an expression whose only input is the field's string.
pub(super) fn program(
    expr: &Expr,
    source: usize,
    field: &Field,
    context: &Arc<eval::Context>,
) -> Result<Program> {
    let leaf = Leaf::Field { source, field: field.clone() };
    let program = Program::compile(expr, context, &mut |part| {
        (leaf_of(part).as_ref() == Some(&leaf)).then_some(0)
    });
    program.map_err(from_eval)
}

/// A condition: 1 where it holds, otherwise 0.
pub(super) struct EntryCondition<'a> {
    pub text: &'a EntryText,
    pub program: &'a Program,
}

impl EntryCondition<'_> {
    fn results(&self, strings: ArrayRef) -> Result<Vec<u32>> {
        let rows = strings.len();
        let holds = self.program.filter(&[strings], rows).map_err(from_eval)?;
        Ok(holds.values().iter().map(u32::from).collect())
    }
}

impl EntryFunction for EntryCondition<'_> {
    fn compute(&self, dictionary: &Dictionary, entries: &[u32]) -> Result<Vec<u32>> {
        self.results(self.text.of_entries(dictionary, entries))
    }

    fn absent(&self) -> Result<u32> {
        Ok(self.results(self.text.of_absent())?[0])
    }
}

/// A string as its global code.
pub(super) struct EntryCode<'a> {
    pub text: &'a EntryText,
    /// What computes the string from the field; `None` for the field itself.
    pub program: Option<&'a Program>,
    pub codes: &'a GlobalCodes,
}

impl EntryCode<'_> {
    fn results(&self, strings: ArrayRef) -> Result<Vec<u32>> {
        let strings = match self.program {
            Some(program) => {
                let rows = strings.len();
                program.run(&[strings], rows).map_err(from_eval)?
            }
            None => strings,
        };
        let strings: &StringArray = strings.as_string();
        Ok(self.codes.intern_all(strings.iter())?)
    }
}

impl EntryFunction for EntryCode<'_> {
    fn compute(&self, dictionary: &Dictionary, entries: &[u32]) -> Result<Vec<u32>> {
        match self.program {
            Some(_) => self.results(self.text.of_entries(dictionary, entries)),
            None => {
                let strings = entries.iter().map(|entry| {
                    let text = text(dictionary.get(*entry), &self.text.path);
                    match self.text.missing {
                        Missing::Empty => Some(text.unwrap_or_default()),
                        Missing::Null => text,
                    }
                });
                Ok(self.codes.intern_all(strings)?)
            }
        }
    }

    fn absent(&self) -> Result<u32> {
        Ok(self.results(self.text.of_absent())?[0])
    }
}
