//! The members of an event or of a batch that mean something, as raw JSON.

use std::fmt;

use std::borrow::Cow;

use serde::Deserializer;
use serde::de::{Deserialize, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::value;

macro_rules! fields {
    ($($field:ident = $name:literal),+ $(,)?) => {
        /// Written by hand rather than derived: a repeated key is no error, the last one counts
        /// (`null` included, which stands for absence).
        #[derive(Default)]
        pub(crate) struct Fields<'a> {
            $(pub(crate) $field: Option<&'a str>,)+
        }

        #[allow(non_camel_case_types)]
        enum Key { $($field,)+ Other }

        impl<'de> Deserialize<'de> for Key {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct KeyVisitor;
                impl Visitor<'_> for KeyVisitor {
                    type Value = Key;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a key")
                    }

                    fn visit_str<E>(self, key: &str) -> Result<Key, E> {
                        Ok(match key {
                            $($name => Key::$field,)+
                            _ => Key::Other,
                        })
                    }
                }
                deserializer.deserialize_identifier(KeyVisitor)
            }
        }

        impl<'de> Deserialize<'de> for Fields<'de> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct FieldsVisitor;
                impl<'de> Visitor<'de> for FieldsVisitor {
                    type Value = Fields<'de>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<'de>>(
                        self,
                        mut members: A,
                    ) -> Result<Fields<'de>, A::Error> {
                        let mut fields = Fields::default();
                        while let Some(key) = members.next_key()? {
                            let slot = match key {
                                $(Key::$field => &mut fields.$field,)+
                                Key::Other => {
                                    members.next_value::<IgnoredAny>()?;
                                    continue;
                                }
                            };
                            let raw = members.next_value::<&'de RawValue>()?.get();
                            *slot = (raw != "null").then_some(raw);
                        }
                        Ok(fields)
                    }
                }
                deserializer.deserialize_map(FieldsVisitor)
            }
        }
    };
}

fields! {
    api_key = "api_key",
    token = "token",
    dollar_token = "$token",
    event = "event",
    distinct_id = "distinct_id",
    dollar_distinct_id = "$distinct_id",
    uuid = "uuid",
    timestamp = "timestamp",
    offset = "offset",
    properties = "properties",
    set = "$set",
    set_once = "$set_once",
    unset = "$unset",
    sent_at = "sent_at",
    historical_migration = "historical_migration",
    project_id = "project_id",
    data = "data",
    compression = "compression",
    created_at = "created_at",
    batch = "batch",
    session_id = "session_id",
    window_id = "window_id",
    options = "options",
}

impl<'a> Fields<'a> {
    pub(crate) fn read(json: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// The first of the three members that is a text and not blank.
    pub(crate) fn token(&self) -> Option<Cow<'a, str>> {
        [self.api_key, self.token, self.dollar_token]
            .into_iter()
            .flatten()
            .filter_map(value::string)
            .find(|token| !token.trim().is_empty())
    }

    /// Only the boolean counts.
    pub(crate) fn is_historical(&self) -> bool {
        self.historical_migration == Some("true")
    }
}
