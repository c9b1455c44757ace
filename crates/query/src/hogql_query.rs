//! `HogQLQuery`: a statement, the values of its placeholders, and the filters around it.

use std::collections::BTreeMap;

use facts::{QueryContext, parse_timestamp};
use hogql::plan::Plan;
use hogql::{Filters, PlaceholderValues, Project};
use model::FieldError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::conditions::{Conditions, Rows, all, check};
use crate::parse::{DateRange, Overrides};
use crate::{Error, Result};

#[derive(Clone, Debug, Deserialize, JsonSchema)]
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
    /// Whether the response has the physical plan.
    #[serde(default)]
    explain: Option<bool>,
    /// The limit of a statement that has none.
    #[serde(skip)]
    pub default_limit: Option<u64>,
    /// The defaults of the project's variables, by their names in statements.
    #[serde(skip)]
    pub variable_defaults: BTreeMap<String, Json>,
}

/// The value of a variable of HogQL statements.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "QueryVariable")]
pub struct Variable {
    code_name: String,
    #[serde(default)]
    value: Json,
    #[serde(default, rename = "isNull")]
    is_null: Option<bool>,
}

impl Variable {
    fn given(&self) -> Json {
        match self.is_null {
            Some(true) => Json::Null,
            _ => self.value.clone(),
        }
    }
}

/// The values of variables by their names in statements; the last one given counts.
pub(crate) fn variable_values<'a>(
    given: impl Iterator<Item = &'a Variable>,
    defaults: &BTreeMap<String, Json>,
) -> BTreeMap<String, Json> {
    let mut values = defaults.clone();
    for variable in given {
        let value = match variable.given() {
            // A variable without a value has its default.
            Json::Null if variable.is_null != Some(true) => {
                defaults.get(&variable.code_name).cloned().unwrap_or_default()
            }
            value => value,
        };
        values.insert(variable.code_name.clone(), value);
    }
    values
}

/// Whether the variables of a dashboard or request are well-formed.
pub fn check_variables(variables: &Map<String, Json>) -> std::result::Result<(), FieldError> {
    let read = |(name, sent): (&String, &Json)| match model::deserialize_strict::<Variable>(sent) {
        Ok(_) => Ok(()),
        Err(why) => Err(why.nested_in(name)),
    };
    variables.iter().try_for_each(read)
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HogQLFilters")]
pub(crate) struct HogqlFilters {
    #[serde(default)]
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    pub properties: Json,
    #[serde(default)]
    date_range: Option<DateRange>,
    #[serde(default)]
    filter_test_accounts: Option<bool>,
}

impl HogqlQuery {
    pub fn plan(
        &self,
        overrides: &Overrides,
        project: &Project,
        context: &QueryContext,
    ) -> Result<Plan> {
        let filters = self.filters(overrides, context)?;
        let values = self.placeholders(overrides)?;
        let mut plan = hogql::plan(&self.query, &values, project, filters.as_ref())?;
        if let Some(rows) = self.default_limit.filter(|_| !plan.page.has_limit) {
            plan.page.limit = rows.min(hogql::limits::ROWS_MAX);
        }
        Ok(plan)
    }

    /// The statement with its placeholders filled, and its filters, as the source of another query.
    pub fn filled(
        &self,
        overrides: &Overrides,
        context: &QueryContext,
    ) -> Result<(hogql::ast::Query, Option<Filters>)> {
        let values = self.placeholders(overrides)?;
        let query = hogql::fill(hogql::parse(&self.query)?, &self.query, &values)?;
        Ok((query, self.filters(overrides, context)?))
    }

    pub fn explains(&self) -> bool {
        self.explain == Some(true)
    }

    /// Checks the syntax of the statement and its filters; names are resolved when it runs.
    pub fn check(&self) -> Result<()> {
        hogql::parse(&self.query)?;
        self.filters.iter().try_for_each(|filters| check(&filters.properties, Rows::Events))
    }

    /// Whether the statement may name a variable.
    pub fn mentions_variables(&self) -> bool {
        self.query.contains("variables")
    }

    fn placeholders(&self, overrides: &Overrides) -> Result<PlaceholderValues> {
        let overrides = overrides.variables.values().map(|changed| {
            model::deserialize_strict(changed).map_err(|why| {
                Error::Parse(format!("variables_override: {}", why.dotted_message()))
            })
        });
        let overrides = overrides.collect::<Result<Vec<Variable>>>()?;
        let given = self.variables.iter().flat_map(BTreeMap::values).chain(&overrides);
        let variables = variable_values(given, &self.variable_defaults);
        let values = self.values.clone().unwrap_or_default().into_iter().collect();
        Ok(PlaceholderValues { values, variables })
    }

    fn filters(&self, overrides: &Overrides, context: &QueryContext) -> Result<Option<Filters>> {
        if self.filters.is_none() && overrides.is_empty() {
            return Ok(None);
        }
        let filters = self.filters.clone().unwrap_or_default();
        let conditions = Conditions::new(context, Rows::Events);
        let mut parts = Vec::new();
        parts.extend(conditions.read(&filters.properties)?);
        for properties in overrides.properties() {
            parts.extend(conditions.read(properties)?);
        }
        if filters.filter_test_accounts == Some(true) {
            parts.extend(conditions.read(&context.test_account_filters)?);
        }
        let range = overrides.date_range(filters.date_range.as_ref());
        // A string that is neither a date nor a relative date means now (contract, 2.2).
        let at = |text: &Option<String>| {
            let text = text.as_deref().filter(|text| !text.is_empty() && *text != "all")?;
            Some(parse_timestamp(text, context.now, &context.zone).unwrap_or(context.now))
        };
        Ok(Some(Filters {
            from: at(&range.date_from),
            to: at(&range.date_to),
            condition: (!parts.is_empty()).then(|| all(parts)),
        }))
    }
}
