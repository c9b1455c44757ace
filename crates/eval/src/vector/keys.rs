//! Hash keys: two values of one type are equal if their keys are.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use hogql::types::Kind;

use crate::vector::types::entry;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    Null,
    Number(i64),
    Large(i128),
    Bytes(Cow<'a, [u8]>),
    Parts(Vec<Key<'a>>),
}

impl Key<'_> {
    pub fn owned(self) -> Key<'static> {
        match self {
            Self::Null => Key::Null,
            Self::Number(number) => Key::Number(number),
            Self::Large(number) => Key::Large(number),
            Self::Bytes(bytes) => Key::Bytes(Cow::Owned(bytes.into_owned())),
            Self::Parts(parts) => Key::Parts(parts.into_iter().map(Key::owned).collect()),
        }
    }
}

/// The keys of an array's values.
pub(crate) struct Keys<'a> {
    array: &'a ArrayRef,
    parts: Parts<'a>,
}

enum Parts<'a> {
    Numbers(&'a [i64]),
    Unsigned(&'a [i64]),
    Floats(&'a [f64]),
    Decimals(&'a [i128]),
    Strings,
    Uuids,
    List(Box<Keys<'a>>),
    Tuple(Vec<Keys<'a>>),
}

impl<'a> Keys<'a> {
    pub fn new(kind: &Kind, array: &'a ArrayRef) -> Self {
        let parts = match kind {
            Kind::Float => Parts::Floats(array.as_primitive::<Float64Type>().values()),
            Kind::UInt(64) => Parts::Unsigned(array.as_primitive::<Int64Type>().values()),
            Kind::Decimal(_) => Parts::Decimals(array.as_primitive::<Decimal128Type>().values()),
            Kind::String | Kind::Json(_) => Parts::Strings,
            Kind::Uuid => Parts::Uuids,
            Kind::Array(element) => {
                Parts::List(Box::new(Keys::new(&element.kind, array.as_list::<i32>().values())))
            }
            Kind::Map(pair) => {
                Parts::List(Box::new(Keys::new(&entry(pair).kind, array.as_list::<i32>().values())))
            }
            Kind::Tuple(items) => {
                let columns = items.iter().zip(array.as_struct().columns());
                Parts::Tuple(columns.map(|(ty, column)| Keys::new(&ty.kind, column)).collect())
            }
            _ => Parts::Numbers(array.as_primitive::<Int64Type>().values()),
        };
        Self { array, parts }
    }

    /// None for a tuple that contains a null: it is a member of no list.
    pub fn member_key(&self, row: usize) -> Option<Key<'a>> {
        match (&self.parts, self.at(row)) {
            (Parts::Tuple(_), Key::Parts(parts)) if parts.contains(&Key::Null) => None,
            (_, key) => Some(key),
        }
    }

    pub fn at(&self, row: usize) -> Key<'a> {
        if self.array.is_null(row) {
            return Key::Null;
        }
        match &self.parts {
            Parts::Numbers(values) => Key::Number(values[row]),
            Parts::Unsigned(values) if values[row] < 0 => {
                Key::Large(i128::from(values[row] as u64))
            }
            Parts::Unsigned(values) => Key::Number(values[row]),
            // -0.0 equals 0.0.
            Parts::Floats(values) => Key::Number((values[row] + 0.0).to_bits() as i64),
            Parts::Decimals(values) => Key::Large(values[row]),
            Parts::Strings => {
                Key::Bytes(Cow::Borrowed(self.array.as_string::<i32>().value(row).as_bytes()))
            }
            Parts::Uuids => Key::Bytes(Cow::Borrowed(self.array.as_fixed_size_binary().value(row))),
            Parts::List(elements) => {
                let offsets = self.array.as_list::<i32>().value_offsets();
                let range = offsets[row] as usize..offsets[row + 1] as usize;
                Key::Parts(range.map(|at| elements.at(at)).collect())
            }
            Parts::Tuple(columns) => {
                Key::Parts(columns.iter().map(|column| column.at(row)).collect())
            }
        }
    }
}
