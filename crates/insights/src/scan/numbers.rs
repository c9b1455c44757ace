//! The number that a property of an event, or of its person, has.

use std::sync::Arc;

use facts::{PersonIndex, ReadView};
use warehouse::{ABSENT, Column, ColumnKey, Value};

use crate::columns::memo::DictionaryMemo;
use crate::columns::number;
use crate::scan::Rows;

pub(crate) enum PropertyNumbers<'a> {
    Event(ColumnKey),
    Person(&'a PersonIndex, Arc<Column>),
}

impl<'a> PropertyNumbers<'a> {
    pub fn of_event(name: &str) -> Self {
        Self::Event(ColumnKey::Property(name.to_owned()))
    }

    pub fn of_person(view: &'a ReadView, name: &str) -> Self {
        Self::Person(&view.persons, view.persons.column(name))
    }

    /// The columns that a scan must read for it, as its first.
    pub fn keys(&self) -> Vec<ColumnKey> {
        match self {
            Self::Event(key) => vec![key.clone()],
            Self::Person(..) => Vec::new(),
        }
    }

    /// One for each row; NaN where the property is no number.
    pub fn read(&self, memo: &mut DictionaryMemo<f64>, rows: &Rows<'_>) -> Vec<f64> {
        let of = |value: Value<'_>| number(value).unwrap_or(f64::NAN);
        let Self::Person(persons, property) = self else {
            return memo.each_row(&rows.columns[0], f64::NAN, of);
        };
        let code =
            |no: &u32| property.codes.get(persons.actor(*no) as usize).copied().unwrap_or(ABSENT);
        let codes = rows.distinct_nos.iter().map(code).collect();
        let column = Column { codes, dictionary: property.dictionary.clone() };
        memo.each_row(&column, f64::NAN, of)
    }
}
