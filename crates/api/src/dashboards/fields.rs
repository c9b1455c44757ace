//! The fields that creating and updating a dashboard share.

use catalog::{DashboardChange, NewDashboard};
use model::{DashboardPresentation, Restriction};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::default_dashboard;
use crate::http::body::{lenient_bool, max_bytes, max_chars, present, tags};
use crate::insights::overrides::{OVERRIDE_BYTES_MAX, check_filters, check_variables};
use crate::{Error, Patch, Result};

/// Upstream's length of a name.
pub(super) const NAME_CHARS_MAX: usize = 400;
/// Ours, also for insights: a list shows up to a thousand, so each stays small.
pub(super) const DESCRIPTION_CHARS_MAX: usize = 16_384;

#[derive(Deserialize, JsonSchema)]
pub(super) struct DashboardFields {
    #[serde(default)]
    name: Patch<String>,
    #[serde(default, deserialize_with = "present")]
    description: Option<String>,
    #[serde(default, deserialize_with = "lenient_bool")]
    pinned: Option<bool>,
    #[serde(default, deserialize_with = "lenient_bool")]
    deleted: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    tags: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    restriction_level: Option<Restriction>,
    /// Null clears them.
    #[serde(default)]
    #[schemars(with = "Option<query::schema::FilterOverrides>")]
    filters: Patch<Value>,
    #[serde(default)]
    #[schemars(with = "Option<query::schema::Variables>")]
    variables: Patch<Map<String, Value>>,
    #[serde(default)]
    breakdown_colors: Patch<Vec<Value>>,
    #[serde(default)]
    data_color_theme_id: Patch<i64>,
    #[serde(default)]
    quick_filter_ids: Patch<Vec<Value>>,
    /// The version that the client edited; 409 unless it is the stored one. Ignored on creation.
    #[serde(default)]
    version: Option<i64>,
}

impl DashboardFields {
    pub(super) fn validate(self) -> Result<DashboardChange> {
        if let Patch::Value(name) = &self.name {
            max_chars("name", name, NAME_CHARS_MAX)?;
        }
        if let Some(description) = &self.description {
            max_chars("description", description, DESCRIPTION_CHARS_MAX)?;
        }
        let filters = match self.filters {
            Patch::Absent => None,
            Patch::Null => Some(Map::new()),
            Patch::Value(Value::Object(filters)) => Some(filters),
            Patch::Value(_) => {
                let detail = "Filters must be a dictionary";
                return Err(Error::invalid("filters", "invalid_input", detail));
            }
        };
        let (variables, colors) = (self.variables.nullable(), self.breakdown_colors.nullable());
        let quick_filters = self.quick_filter_ids.nullable();
        filters.as_ref().map(|filters| check_filters("filters", filters)).transpose()?;
        variables.iter().flatten().try_for_each(|sent| check_variables("variables", sent))?;
        max_bytes("breakdown_colors", &colors, OVERRIDE_BYTES_MAX)?;
        max_bytes("quick_filter_ids", &quick_filters, OVERRIDE_BYTES_MAX)?;
        Ok(DashboardChange {
            name: self.name.nullable(),
            description: self.description,
            pinned: self.pinned,
            deleted: self.deleted,
            tags: self.tags.as_deref().map(tags).transpose()?,
            restriction_level: self.restriction_level,
            filters,
            variables,
            breakdown_colors: colors.map(Option::unwrap_or_default),
            data_color_theme_id: self.data_color_theme_id.nullable(),
            quick_filter_ids: quick_filters.map(Option::unwrap_or_default),
            version: self.version,
            ..Default::default()
        })
    }
}

/// Turns a change into a new dashboard: the sent fields over the defaults.
pub(super) trait IntoNew {
    fn into_new(self) -> NewDashboard;
}

impl IntoNew for DashboardChange {
    fn into_new(self) -> NewDashboard {
        let defaults = default_dashboard();
        NewDashboard {
            name: self.name.flatten(),
            description: self.description.unwrap_or(defaults.description),
            pinned: self.pinned.unwrap_or(defaults.pinned),
            tags: self.tags.unwrap_or(defaults.tags),
            restriction_level: self.restriction_level.unwrap_or(defaults.restriction_level),
            presentation: DashboardPresentation {
                filters: self.filters.unwrap_or_default(),
                variables: self.variables.flatten(),
                breakdown_colors: self.breakdown_colors.unwrap_or_default(),
                data_color_theme_id: self.data_color_theme_id.flatten(),
                quick_filter_ids: self.quick_filter_ids.unwrap_or_default(),
            },
            deleted: self.deleted.unwrap_or(defaults.deleted),
            ..defaults
        }
    }
}
