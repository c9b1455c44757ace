//! Fields that are computed once for each entry of a dictionary, not once for each row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int64Array, StringArray, TimestampMicrosecondArray,
    UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::UInt32Type;
use eval::{MemoryCharge, MemoryTracker};
use facts::ReadView;
use warehouse::{ABSENT, Dictionary, Value};

use super::dictionary_strings::{DictionaryStrings, Missing, property};
use super::persons::string_lists;
use super::session_parts::NONE;
use super::sessions::Sessions;
use super::tables::object;
use super::unsupported;
use crate::error::Result;
use crate::lower::leaves::{Field, PathStep};
use crate::memory::take_tracked;

/// How a field derives from a dictionary column.
pub(super) enum DerivedField {
    Text(Vec<PathStep>, Missing),
    Href,
    Elements(fn(&facts::Element) -> Option<&str>),
    Group(usize, Field),
    Session(Arc<Sessions>, ArrayRef),
}

/// The values of a derived field for one dictionary.
#[derive(Clone)]
pub(super) enum DerivedEntries {
    Strings(DictionaryStrings),
    /// Values by code; the last is that of rows without a code.
    Values(ArrayRef),
    /// Row indexes in a column, by code; [`NONE`] for none.
    Indexes(Arc<[u32]>, ArrayRef),
}

/// Entries, and the charge of their memory while a partition or the scan references them.
#[derive(Clone)]
pub(super) struct TrackedEntries {
    pub entries: DerivedEntries,
    pub _charge: Arc<MemoryCharge>,
}

impl DerivedField {
    pub(super) fn entries(
        &self,
        dictionary: &Arc<Dictionary>,
        view: &ReadView,
    ) -> Result<DerivedEntries> {
        let chains = || {
            dictionary.iter().map(|value| match value {
                Value::Text(chain) => facts::parse_elements(chain),
                _ => Vec::new(),
            })
        };
        Ok(match self {
            Self::Text(path, missing) => {
                DerivedEntries::Strings(DictionaryStrings::of(dictionary, path, *missing))
            }
            Self::Href => {
                let href = |chain: Vec<facts::Element>| {
                    chain.into_iter().find_map(|element| element.href).unwrap_or_default()
                };
                let hrefs = chains().map(href).chain([String::new()]);
                DerivedEntries::Values(Arc::new(StringArray::from_iter_values(hrefs)))
            }
            Self::Elements(of) => {
                let mut all: Vec<Vec<String>> = Vec::with_capacity(dictionary.len() + 1);
                for chain in chains() {
                    let mut unique: Vec<String> = Vec::new();
                    for text in chain.iter().filter_map(of) {
                        if !unique.iter().any(|known| known == text) {
                            unique.push(text.to_owned());
                        }
                    }
                    all.push(unique);
                }
                all.push(Vec::new());
                DerivedEntries::Values(string_lists(all.iter().map(Vec::as_slice)))
            }
            Self::Group(index, field) => {
                DerivedEntries::Values(group_values(*index, field, dictionary, view)?)
            }
            Self::Session(sessions, column) => {
                DerivedEntries::Indexes(sessions.rows_of(dictionary), column.clone())
            }
        })
    }
}

fn group_values(
    index: usize,
    field: &Field,
    dictionary: &Dictionary,
    view: &ReadView,
) -> Result<ArrayRef> {
    let groups = dictionary.iter().map(|value| match value {
        Value::Text(key) => view.groups.get(index, key),
        _ => None,
    });
    let groups = groups.chain([None]);
    Ok(match (field.name, &field.path[..]) {
        ("properties", path @ [_, ..]) => {
            let texts = groups.map(|group| property(&group?, path));
            Arc::new(texts.collect::<StringArray>())
        }
        ("properties", []) => {
            let texts = groups.map(|group| Some(object(&group?.properties())));
            Arc::new(texts.collect::<StringArray>())
        }
        ("key", _) => Arc::new(groups.map(|group| Some(group?.key())).collect::<StringArray>()),
        ("index", _) => {
            Arc::new(groups.map(|group| group.map(|_| index as i64)).collect::<Int64Array>())
        }
        ("created_at" | "updated_at", _) => {
            let times = groups.map(|group| Some(group?.created_at().as_micros()));
            Arc::new(times.collect::<TimestampMicrosecondArray>())
        }
        _ => return Err(unsupported(field)),
    })
}

impl DerivedEntries {
    /// Memory of the entries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Strings(texts) => texts.bytes(),
            Self::Values(values) => values.get_array_memory_size(),
            Self::Indexes(indexes, _) => size_of_val(&indexes[..]),
        }
    }

    pub(super) fn rows(&self, codes: &[u32], memory: &MemoryTracker) -> Result<ArrayRef> {
        match self {
            Self::Strings(texts) => texts.rows(codes.iter().copied()),
            Self::Values(values) => {
                let last = values.len() as u32 - 1;
                let indexes = codes.iter().map(|code| if *code == ABSENT { last } else { *code });
                Ok(take_tracked(values, &UInt32Array::from_iter_values(indexes), memory)?)
            }
            Self::Indexes(indexes, column) => {
                let index = |code: &u32| {
                    indexes.get(*code as usize).copied().filter(|index| *index != NONE)
                };
                let at: UInt32Array = codes.iter().map(index).collect();
                match column.as_dictionary_opt::<UInt32Type>() {
                    // All rows share the strings.
                    Some(coded) => {
                        let keys = take(coded.keys(), &at, None)?;
                        let keys = keys.as_primitive::<UInt32Type>().clone();
                        Ok(Arc::new(DictionaryArray::try_new(keys, coded.values().clone())?))
                    }
                    None => Ok(take_tracked(column, &at, memory)?),
                }
            }
        }
    }
}
