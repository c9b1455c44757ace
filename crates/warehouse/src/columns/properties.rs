//! Rebuilds the JSON object of an event's properties from its columns.

use crate::columns::json::{self, ObjectWriter};
use crate::columns::{EventRow, Field, Value};

/// Collects the properties of one row from its columns; sorts them by name.
#[derive(Default)]
pub(crate) struct PropertyCollector(Vec<(String, String)>);

impl PropertyCollector {
    /// Stores a column's value in its field of `row`, or among the properties.
    pub fn set(&mut self, row: &mut EventRow, field: &Field, value: Value<'_>) {
        match field {
            Field::Event => row.event = value.text().into(),
            Field::DistinctId => row.distinct_id = value.text().into(),
            Field::ElementsChain => row.elements_chain = value.text().into(),
            Field::Group(index) => row.groups[*index] = Some(value.text().into()),
            Field::Property(_) | Field::Nulls | Field::Rest => self.add(field, value),
        }
    }

    /// Stores the value of a column that holds properties.
    pub fn add(&mut self, field: &Field, value: Value<'_>) {
        match field {
            Field::Event | Field::DistinctId | Field::ElementsChain | Field::Group(_) => {}
            Field::Property(name) => self.0.push((name.to_string(), value.to_json())),
            Field::Nulls => {
                let names = json::names_from_json(value.text()).unwrap_or_default();
                self.0.extend(names.into_iter().map(|name| (name, "null".to_owned())));
            }
            Field::Rest => {
                let each = |name: &str, value: Value<'_>| {
                    self.0.push((name.to_owned(), value.to_json()));
                };
                // This crate wrote the JSON, and page checksums catch corruption before this.
                let _ = json::for_each_json_member(value.text(), each);
            }
        }
    }

    pub fn finish(mut self) -> String {
        rest_json(&mut self.0)
    }
}

/// A JSON object of the members, sorted by name so that equal objects are equal strings.
pub(crate) fn rest_json<N: AsRef<str> + Ord>(members: &mut [(N, String)]) -> String {
    members.sort_unstable();
    let mut writer = ObjectWriter::new();
    for (name, json) in members {
        writer.member(name.as_ref(), Value::Json(json));
    }
    writer.finish()
}
