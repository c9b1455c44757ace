//! Reads the values of a statement's rows.

use model::Timestamp;
use serde_json::Value as Json;

use crate::query::calendar::Buckets;
use crate::{Error, Result};

/// One row, read from left to right.
pub(crate) struct Row<'r> {
    values: std::slice::Iter<'r, Json>,
}

fn unexpected() -> Error {
    Error::invalid("The rows are not those of the insight's statement.")
}

impl<'r> Row<'r> {
    pub fn new(values: &'r [Json]) -> Self {
        Self { values: values.iter() }
    }

    pub fn next(&mut self) -> Result<&'r Json> {
        self.values.next().ok_or_else(unexpected)
    }

    pub fn text(&mut self) -> Result<&'r str> {
        self.next()?.as_str().ok_or_else(unexpected)
    }

    /// A number; none for null, which NaN is too.
    pub fn number(&mut self) -> Result<Option<f64>> {
        match self.next()? {
            Json::Null => Ok(None),
            Json::Bool(truth) => Ok(Some(f64::from(u8::from(*truth)))),
            other => other.as_f64().map(Some).ok_or_else(unexpected),
        }
    }

    pub fn count(&mut self) -> Result<u64> {
        let number = self.number()?.filter(|number| *number >= 0.0).ok_or_else(unexpected)?;
        Ok(number as u64)
    }

    pub fn truth(&mut self) -> Result<bool> {
        Ok(self.number()?.is_some_and(|number| number != 0.0))
    }

    /// The index of the bucket that a time lies in.
    pub fn bucket(&mut self, buckets: &Buckets) -> Result<usize> {
        let at = Timestamp::parse(self.text()?).ok_or_else(unexpected)?;
        buckets.of(at.as_micros()).ok_or_else(unexpected)
    }
}
