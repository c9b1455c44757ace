//! Filters and variables that a dashboard or a request applies on top of an insight's query.

use query::{
    check_filter_overrides as check_query_filters, check_variables as check_query_variables,
};
use serde_json::{Map, Value};

use crate::Result;
use crate::http::body::max_bytes;
use crate::http::path::object;

/// Ours, for each field that a dashboard stores verbatim.
pub(crate) const OVERRIDE_BYTES_MAX: usize = 64 << 10;

/// Filters and variables of a request, which replace the dashboard's own.
#[derive(Default)]
pub(crate) struct Overrides {
    pub filters: Option<Map<String, Value>>,
    pub variables: Option<Map<String, Value>>,
}

impl Overrides {
    /// Parses `filters_override` and `variables_override`, both JSON in the query string.
    pub(crate) fn read(filters: Option<&String>, variables: Option<&String>) -> Result<Self> {
        let filters = object("filters_override", filters)?;
        filters.as_ref().map(|sent| check_filters("filters_override", sent)).transpose()?;
        let variables = object("variables_override", variables)?;
        variables.as_ref().map(|sent| check_variables("variables_override", sent)).transpose()?;
        Ok(Self { filters, variables })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_none() && self.variables.is_none()
    }
}

/// Checks that filters apply to every insight kind, and their size.
pub(crate) fn check_filters(attr: &str, filters: &Map<String, Value>) -> Result<()> {
    max_bytes(attr, filters, OVERRIDE_BYTES_MAX)?;
    Ok(check_query_filters(filters).map_err(|why| why.nested_in(attr))?)
}

/// Checks that every HogQL statement can read the variables, and their size.
pub(crate) fn check_variables(attr: &str, variables: &Map<String, Value>) -> Result<()> {
    max_bytes(attr, variables, OVERRIDE_BYTES_MAX)?;
    Ok(check_query_variables(variables).map_err(|why| why.nested_in(attr))?)
}
