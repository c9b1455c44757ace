//! Columns of `persons`, by dense person id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{
    ArrayRef, BooleanArray, FixedSizeBinaryBuilder, Int64Array, ListBuilder, StringBuilder,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field as ArrowField, TimeUnit};
use facts::ReadView;
use uuid::Uuid;
use warehouse::{ABSENT, Column};

use super::dictionary_strings::{DictionaryStrings, Missing, dictionary_string_type};
use crate::error::Result;
use crate::lower::leaves::Field;

pub(super) const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
pub(super) const UUID: DataType = DataType::FixedSizeBinary(16);

/// Cached uuids of distinct ids without a person.
const CACHED_UUIDS_MAX: usize = 64 * 1024;

/// A column of `persons`.
pub(super) enum PersonField {
    Id(Mutex<HashMap<u32, Uuid>>),
    CreatedAt,
    Properties,
    IsIdentified,
    LastSeenAt,
    /// The distinct ids of each person.
    DistinctIds(HashMap<u32, Vec<Box<str>>>),
    Project,
    Property(Arc<Column>, DictionaryStrings),
}

impl PersonField {
    /// `field` must be resolved to the persons table. None if it has no such column.
    pub(super) fn new(field: &Field, view: &ReadView) -> Option<Self> {
        if let [crate::lower::leaves::PathStep::Key(name), ..] = &field.path[..] {
            let column = view.persons.column(name);
            let texts = DictionaryStrings::of(&column.dictionary, &field.path, Missing::Null);
            return Some(Self::Property(column, texts));
        }
        Some(match field.name {
            "id" | "person_id" => Self::Id(Mutex::default()),
            "created_at" => Self::CreatedAt,
            "properties" => Self::Properties,
            "is_identified" => Self::IsIdentified,
            "last_seen_at" => Self::LastSeenAt,
            "distinct_ids" => {
                let mut ids: HashMap<u32, Vec<Box<str>>> = HashMap::new();
                for (_, text, actor) in view.persons.distinct_ids() {
                    ids.entry(actor).or_default().push(text.into());
                }
                Self::DistinctIds(ids)
            }
            "team_id" => Self::Project,
            _ => return None,
        })
    }

    pub(super) fn ty(&self) -> DataType {
        match self {
            Self::Id(_) => UUID,
            Self::CreatedAt | Self::LastSeenAt => TIMESTAMP,
            Self::Properties => DataType::Utf8,
            Self::IsIdentified => DataType::Boolean,
            Self::DistinctIds(_) => string_list_type(),
            Self::Project => DataType::Int64,
            Self::Property(..) => dictionary_string_type(),
        }
    }

    pub(super) fn rows(&self, view: &ReadView, actors: &[u32]) -> Result<ArrayRef> {
        let people = &view.persons;
        let persons = actors.iter().map(|actor| people.person(*actor));
        Ok(match self {
            Self::Id(cache) => {
                let mut uuids = FixedSizeBinaryBuilder::with_capacity(actors.len(), 16);
                for (actor, person) in actors.iter().zip(persons) {
                    let uuid = match person {
                        Some(person) => person.uuid,
                        // A uuid v5 of the distinct id, which is slow to hash.
                        None => {
                            let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
                            if cache.len() >= CACHED_UUIDS_MAX {
                                cache.clear();
                            }
                            *cache.entry(*actor).or_insert_with(|| people.uuid(*actor))
                        }
                    };
                    uuids.append_value(uuid.as_bytes())?;
                }
                Arc::new(uuids.finish())
            }
            Self::CreatedAt => {
                let times = persons.map(|person| Some(person?.created_at.as_micros()));
                Arc::new(times.collect::<TimestampMicrosecondArray>())
            }
            Self::Properties => {
                let mut texts = StringBuilder::new();
                people.properties(actors, |text| texts.append_option(text));
                Arc::new(texts.finish())
            }
            Self::IsIdentified => Arc::new(
                persons.map(|person| Some(person?.is_identified)).collect::<BooleanArray>(),
            ),
            Self::LastSeenAt => Arc::new(TimestampMicrosecondArray::new_null(actors.len())),
            Self::DistinctIds(ids) => string_lists(
                actors.iter().map(|actor| ids.get(actor).map_or(&[] as &[_], |ids| ids)),
            ),
            Self::Project => {
                let project = view.context.project.0;
                Arc::new(persons.map(|person| person.map(|_| project)).collect::<Int64Array>())
            }
            Self::Property(column, texts) => {
                let code = |actor: &u32| column.codes.get(*actor as usize).copied();
                texts.rows(actors.iter().map(|actor| code(actor).unwrap_or(ABSENT)))?
            }
        })
    }
}

/// The type of arrays of non-null strings.
pub(super) fn string_list_type() -> DataType {
    DataType::List(Arc::new(ArrowField::new("item", DataType::Utf8, false)))
}

pub(super) fn string_lists<'a, T: AsRef<str> + 'a>(
    rows: impl Iterator<Item = &'a [T]>,
) -> ArrayRef {
    let item = ArrowField::new("item", DataType::Utf8, false);
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item);
    for row in rows {
        row.iter().for_each(|text| lists.values().append_value(text));
        lists.append(true);
    }
    Arc::new(lists.finish())
}
