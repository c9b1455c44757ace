//! The members of an event or of a batch that mean something, as raw JSON.

use std::borrow::Cow;

use crate::grammar::{string_end, value_end, value_start};
use crate::outline::skip_blanks;
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
    /// Of a text that is an object and nothing else.
    pub(crate) fn read(json: &'a str) -> Result<Self> {
        let bytes = json.as_bytes();
        let start = skip_blanks(bytes, 0);
        if bytes.get(start) != Some(&b'{') {
            return Err(Error::Json);
        }
        let (fields, end) = Self::of_object(json, start)?;
        if skip_blanks(bytes, end) == bytes.len() { Ok(fields) } else { Err(Error::Json) }
    }

    /// Of the object whose bracket stands at `start`, and where it ends. A repeated key is no
    /// error, the last one counts (`null` included, which stands for absence).
    pub(crate) fn of_object(json: &'a str, start: usize) -> Result<(Self, usize)> {
        let bytes = json.as_bytes();
        let mut fields = Self::default();
        let mut at = skip_blanks(bytes, start + 1);
        if bytes.get(at) == Some(&b'}') {
            return Ok((fields, at + 1));
        }
        loop {
            if bytes.get(at) != Some(&b'"') {
                return Err(Error::Json);
            }
            let key_end = string_end(bytes, at)?;
            let key = value::string(&json[at..key_end]).ok_or(Error::Json)?;
            let start = value_start(bytes, key_end)?;
            let end = value_end(bytes, start)?;
            if let Some(slot) = fields.slot(&key) {
                let raw = &json[start..end];
                *slot = (raw != "null").then_some(raw);
            }
            at = skip_blanks(bytes, end);
            match bytes.get(at) {
                Some(b',') => at = skip_blanks(bytes, at + 1),
                Some(b'}') => return Ok((fields, at + 1)),
                _ => return Err(Error::Json),
            }
        }
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
