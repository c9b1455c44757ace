//! What a field is, once for each entry of a dictionary.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray, UInt32Array,
};
use eval::{MemoryCharge, MemoryTracker};
use facts::ReadView;
use warehouse::{ABSENT, Dictionary, Value};

use super::coded::{Missing, Texts, property};
use super::persons::texts;
use super::sessions::Sessions;
use super::tables::object;
use super::unsupported;
use crate::error::Result;
use crate::lower::leaves::{Field, Place};
use crate::memory::taken;

/// What is worked out once for every entry of a dictionary.
pub(super) enum Coded {
    Text(Vec<Place>, Missing),
    Href,
    Elements(fn(&facts::Element) -> Option<&str>),
    Group(usize, Field),
    Session(Arc<Sessions>, ArrayRef),
}

#[derive(Clone)]
pub(super) enum Entries {
    Texts(Texts),
    /// Values by code; rows without a code have the last.
    Values(ArrayRef),
    /// Places in a column by code.
    Places(Arc<Vec<Option<u32>>>, ArrayRef),
}

/// Entries, counted while a partition or the scan has them.
#[derive(Clone)]
pub(super) struct Counted {
    pub entries: Entries,
    pub _charge: Arc<MemoryCharge>,
}

impl Coded {
    pub(super) fn entries(&self, dictionary: &Dictionary, world: &ReadView) -> Result<Entries> {
        let chains = || {
            dictionary.iter().map(|value| match value {
                Value::Text(chain) => facts::parse_elements(chain),
                _ => Vec::new(),
            })
        };
        Ok(match self {
            Self::Text(path, missing) => Entries::Texts(Texts::of(dictionary, path, *missing)),
            Self::Href => {
                let href = |chain: Vec<facts::Element>| {
                    chain.into_iter().find_map(|element| element.href).unwrap_or_default()
                };
                let hrefs = chains().map(href).chain([String::new()]);
                Entries::Values(Arc::new(StringArray::from_iter_values(hrefs)))
            }
            Self::Elements(of) => {
                let mut all: Vec<Vec<String>> = Vec::with_capacity(dictionary.len() + 1);
                for chain in chains() {
                    let mut found: Vec<String> = Vec::new();
                    for text in chain.iter().filter_map(of) {
                        if !found.iter().any(|own| own == text) {
                            found.push(text.to_owned());
                        }
                    }
                    all.push(found);
                }
                all.push(Vec::new());
                Entries::Values(texts(all.iter().map(Vec::as_slice)))
            }
            Self::Group(index, field) => Entries::Values(groups(*index, field, dictionary, world)?),
            Self::Session(sessions, column) => {
                let ids = Texts::of(dictionary, &[], Missing::Null);
                let places = ids.entries().map(|id| sessions.place(id?));
                Entries::Places(Arc::new(places.collect()), column.clone())
            }
        })
    }
}

fn groups(
    index: usize,
    field: &Field,
    dictionary: &Dictionary,
    world: &ReadView,
) -> Result<ArrayRef> {
    let found = dictionary.iter().map(|value| match value {
        Value::Text(key) => world.groups.get(index, key).map(|group| (key, group)),
        _ => None,
    });
    let found = found.chain([None]);
    Ok(match (field.name, &field.path[..]) {
        ("properties", path @ [_, ..]) => {
            let texts = found.map(|group| property(&group?.1.properties, path));
            Arc::new(texts.collect::<StringArray>())
        }
        ("properties", []) => {
            let texts = found.map(|group| Some(object(&group?.1.properties)));
            Arc::new(texts.collect::<StringArray>())
        }
        ("key", _) => Arc::new(found.map(|group| Some(group?.0)).collect::<StringArray>()),
        ("index", _) => {
            Arc::new(found.map(|group| group.map(|_| index as i64)).collect::<Int64Array>())
        }
        ("created_at" | "updated_at", _) => {
            let times = found.map(|group| Some(group?.1.created_at.as_micros()));
            Arc::new(times.collect::<TimestampMicrosecondArray>())
        }
        _ => return Err(unsupported(field)),
    })
}

impl Entries {
    /// Of a dictionary, for as long as they are kept.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.bytes(),
            Self::Values(values) => values.get_array_memory_size(),
            Self::Places(places, _) => size_of_val(&places[..]),
        }
    }

    pub(super) fn rows(&self, codes: &[u32], account: &MemoryTracker) -> Result<ArrayRef> {
        match self {
            Self::Texts(texts) => texts.rows(codes.iter().copied()),
            Self::Values(values) => {
                let last = values.len() as u32 - 1;
                let places = codes.iter().map(|code| if *code == ABSENT { last } else { *code });
                Ok(taken(values, &UInt32Array::from_iter_values(places), account)?)
            }
            Self::Places(places, column) => {
                let place = |code: &u32| places.get(*code as usize).copied().flatten();
                Ok(taken(column, &codes.iter().map(place).collect(), account)?)
            }
        }
    }
}
