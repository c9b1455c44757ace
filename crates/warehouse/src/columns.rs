//! Rows and columns in memory: values, dictionary-encoded columns, event rows and their fields.

pub(crate) mod dictionary;
pub(crate) mod fields;
pub(crate) mod json;
mod properties;
pub(crate) mod row;
pub(crate) mod value;

pub(crate) use dictionary::{ABSENT, Column, Dictionary, Interner, ValueHasher};
pub(crate) use fields::{Field, IntColumn, PROPERTY_COLUMNS_MAX, PROPERTY_PREFIX, RARE_ONE_IN};
pub(crate) use properties::{PropertyCollector, rest_json};
pub(crate) use row::{
    EventRow, GROUP_TYPES, Identity, NewRow, Property, WELL_KNOWN_PROPERTIES_MAX,
};
pub(crate) use value::{Tag, Value};
