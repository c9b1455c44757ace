//! The recognized fields of an event or a batch, as raw JSON.

use std::borrow::Cow;

use model::json::Members;

use crate::{Error, Result, value};

macro_rules! fields {
    ($($field:ident = $name:literal),+ $(,)?) => {
        #[derive(Default)]
        pub(crate) struct Fields<'a> {
            $(pub(crate) $field: Option<&'a str>,)+
        }

        impl<'a> Fields<'a> {
            fn slot(&mut self, key: &str) -> Option<&mut Option<&'a str>> {
                match key {
                    $($name => Some(&mut self.$field),)+
                    _ => None,
                }
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
    /// Parses a text that is exactly one object.
    pub(crate) fn read(json: &'a str) -> Result<Self> {
        let mut members = Members::new(json)?;
        let fields = Self::of_members(&mut members)?;
        if members.is_finished() { Ok(fields) } else { Err(Error::Json) }
    }

    /// Parses the object at offset `start`; returns its end as well.
    pub(crate) fn of_object(json: &'a str, start: usize) -> Result<(Self, usize)> {
        let mut members = Members::at(json, start)?;
        let fields = Self::of_members(&mut members)?;
        Ok((fields, members.end()))
    }

    /// The last of repeated keys counts; `null` counts as absent.
    fn of_members(members: &mut Members<'a>) -> Result<Self> {
        let mut fields = Self::default();
        for member in members {
            let (name, raw) = member?;
            if let Some(slot) = fields.slot(&name) {
                *slot = (raw != "null").then_some(raw);
            }
        }
        Ok(fields)
    }

    /// The first of the three fields that is a non-blank string.
    pub(crate) fn token(&self) -> Option<Cow<'a, str>> {
        [self.api_key, self.token, self.dollar_token]
            .into_iter()
            .flatten()
            .filter_map(value::string)
            .find(|token| !token.trim().is_empty())
    }

    /// Only the literal `true` counts.
    pub(crate) fn is_historical(&self) -> bool {
        self.historical_migration == Some("true")
    }
}
