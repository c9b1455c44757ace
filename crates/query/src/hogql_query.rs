//! `HogQLQuery`: a statement, the values of its placeholders, and the filters around it.

use std::collections::BTreeMap;

use facts::{ReadView, parse_timestamp};
use hogql::plan::Plan;
use hogql::{Filters, PlaceholderValues, Project};
use model::FieldError;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::conditions::{Conditions, Rows, all, check};
use crate::parse::{DateRange, Overrides};
use crate::{Error, Result};

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HogqlQuery {
    #[serde(rename = "kind")]
    _kind: String,
    pub query: String,
    #[serde(default)]
    values: Option<Map<String, Json>>,
    #[serde(default)]
    variables: Option<BTreeMap<String, Variable>>,
    #[serde(default)]
    filters: Option<HogqlFilters>,
    #[serde(default, rename = "explain")]
    _explain: Option<bool>,
    /// The limit of a statement that has none.
    #[serde(skip)]
    pub default_limit: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Variable {
    code_name: String,
    #[serde(default)]
    value: Json,
    #[serde(default, rename = "isNull")]
    is_null: Option<bool>,
}

/// Whether the variables of a dashboard or request are well-formed.
pub fn check_variables(variables: &Map<String, Json>) -> std::result::Result<(), FieldError> {
    let read = |(name, sent): (&String, &Json)| match model::deserialize_strict::<Variable>(sent) {
        Ok(_) => Ok(()),
        Err(why) => Err(why.nested_in(name)),
    };
    variables.iter().try_for_each(read)
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HogqlFilters {
    #[serde(default)]
    properties: Json,
    #[serde(default)]
    date_range: Option<DateRange>,
    #[serde(default)]
    filter_test_accounts: Option<bool>,
}

impl HogqlQuery {
    pub fn plan(&self, overrides: &Overrides, project: &Project, view: &ReadView) -> Result<Plan> {
        let filters = self.filters(overrides, view)?;
        let values = self.placeholders(overrides)?;
        let mut plan = hogql::plan(&self.query, &values, project, filters.as_ref())?;
        if let Some(rows) = self.default_limit.filter(|_| !plan.page.has_limit) {
            plan.page.limit = rows.min(hogql::limits::ROWS_MAX);
        }
        Ok(plan)
    }

    /// Checks the syntax of the statement and its filters; names are resolved when it runs.
    pub fn check(&self) -> Result<()> {
        hogql::parse(&self.query)?;
        self.filters.iter().try_for_each(|filters| check(&filters.properties, Rows::Events))
    }

    fn placeholders(&self, overrides: &Overrides) -> Result<PlaceholderValues> {
        let given = |variable: &Variable| match variable.is_null {
            Some(true) => Json::Null,
            _ => variable.value.clone(),
        };
        let mut variables: BTreeMap<String, Json> = BTreeMap::new();
        for variable in self.variables.iter().flatten().map(|(_, variable)| variable) {
            variables.insert(variable.code_name.clone(), given(variable));
        }
        for changed in overrides.variables.values() {
            let variable: Variable = model::deserialize_strict(changed).map_err(|why| {
                Error::Parse(format!("variables_override: {}", why.dotted_message()))
            })?;
            variables.insert(variable.code_name.clone(), given(&variable));
        }
        let values = self.values.clone().unwrap_or_default().into_iter().collect();
        Ok(PlaceholderValues { values, variables })
    }

    fn filters(&self, overrides: &Overrides, view: &ReadView) -> Result<Option<Filters>> {
        if self.filters.is_none() && overrides.is_empty() {
            return Ok(None);
        }
        let filters = self.filters.clone().unwrap_or_default();
        let conditions = Conditions::new(view, Rows::Events);
        let mut parts = Vec::new();
        parts.extend(conditions.read(&filters.properties)?);
        for properties in overrides.properties() {
            parts.extend(conditions.read(properties)?);
        }
        if filters.filter_test_accounts == Some(true) {
            parts.extend(conditions.read(&view.test_account_filters)?);
        }
        let range = overrides.date_range(filters.date_range.as_ref());
        // A string that is neither a date nor a relative date means now (contract, 2.2).
        let at = |text: &Option<String>| {
            let text = text.as_deref().filter(|text| !text.is_empty() && *text != "all")?;
            Some(parse_timestamp(text, view.now, &view.zone).unwrap_or(view.now))
        };
        Ok(Some(Filters {
            from: at(&range.date_from),
            to: at(&range.date_to),
            condition: (!parts.is_empty()).then(|| all(parts)),
        }))
    }
}
