//! Filters of a request that lists flags.

use catalog::{FlagFilter, FlagOrder, Staleness};
use model::flag::EvaluationRuntime;
use model::{UserId, Visibility};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::http::path::{given, search, switch};
use crate::{Error, Result};

/// Elements of a list parameter; each becomes a bind parameter of the statement.
const ELEMENTS_MAX: usize = 100;

#[derive(Deserialize, JsonSchema)]
pub(super) struct FlagListQuery {
    search: Option<String>,
    key: Option<String>,
    /// `true`, `false` or `STALE`.
    active: Option<String>,
    archived: Option<String>,
    /// `boolean`, `multivariant`, `experiment` or `remote_config`.
    r#type: Option<String>,
    created_by_id: Option<String>,
    tags: Option<String>,
    excluded_tags: Option<String>,
    excluded_properties: Option<String>,
    evaluation_runtime: Option<String>,
    has_evaluation_contexts: Option<String>,
    eligible_for_experiment: Option<String>,
    order: Option<String>,
}

impl FlagListQuery {
    pub(super) fn filter(&self) -> Result<FlagFilter> {
        let kind = one_of("type", self.r#type.as_ref(), |word| {
            ["boolean", "multivariant", "experiment", "remote_config"]
                .contains(&word)
                .then_some(word)
        })?;
        let is_stale = given(self.active.as_ref()) == Some("STALE");
        let active = if is_stale { None } else { switch("active", self.active.as_ref())? };
        let eligible = self.eligible_for_experiment.as_ref();
        Ok(FlagFilter {
            search: search(self.search.as_ref())?,
            key: given(self.key.as_ref()).map(str::to_owned),
            active,
            staleness: is_stale.then_some(Staleness::Stale),
            archived: switch("archived", self.archived.as_ref())?,
            multivariate: match kind {
                Some("boolean") => Some(false),
                Some("multivariant") => Some(true),
                _ => None,
            },
            remote_configuration: (kind == Some("remote_config")).then_some(true),
            with_experiment: kind == Some("experiment"),
            created_by: self.authors()?,
            tags: words("tags", self.tags.as_ref())?,
            excluded_tags: words("excluded_tags", self.excluded_tags.as_ref())?,
            excluded_keys: words("excluded_properties", self.excluded_properties.as_ref())?,
            evaluation_runtime: one_of(
                "evaluation_runtime",
                self.evaluation_runtime.as_ref(),
                EvaluationRuntime::parse,
            )?,
            has_evaluation_contexts: switch(
                "has_evaluation_contexts",
                self.has_evaluation_contexts.as_ref(),
            )?,
            eligible_for_experiment: switch("eligible_for_experiment", eligible)? == Some(true),
            order: one_of("order", self.order.as_ref(), FlagOrder::parse)?.unwrap_or_default(),
            visibility: Visibility::Everything,
        })
    }

    /// One id, comma-separated ids, or a JSON list; a malformed list is ignored.
    fn authors(&self) -> Result<Option<Vec<UserId>>> {
        let Some(text) = given(self.created_by_id.as_ref()) else { return Ok(None) };
        if text.starts_with('[') {
            let listed: Option<Vec<Value>> = serde_json::from_str(text).ok();
            let number = |value: &Value| match value {
                Value::String(text) => text.trim().parse().ok(),
                other => other.as_i64(),
            };
            let numbers = listed.and_then(|listed| listed.iter().map(number).collect());
            return bounded("created_by_id", numbers).map(|all| all.map(users));
        }
        let numbers: std::result::Result<Vec<i64>, _> =
            text.split(',').map(|number| number.trim().parse()).collect();
        let detail = "A valid integer is required.";
        let numbers =
            numbers.map_err(|_| Error::invalid("created_by_id", "invalid_input", detail))?;
        bounded("created_by_id", Some(numbers)).map(|all| all.map(users))
    }
}

fn users(numbers: Vec<i64>) -> Vec<UserId> {
    numbers.into_iter().map(UserId).collect()
}

fn one_of<'a, T>(
    attr: &'static str,
    text: Option<&'a String>,
    parse: impl FnOnce(&'a str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(text) = given(text) else { return Ok(None) };
    parse(text).map(Some).ok_or_else(|| Error::invalid_choice(attr, text))
}

/// A JSON list of strings; a malformed one is ignored.
fn words(attr: &'static str, text: Option<&String>) -> Result<Option<Vec<String>>> {
    bounded(attr, given(text).and_then(|text| serde_json::from_str(text).ok()))
}

fn bounded<T>(attr: &'static str, list: Option<Vec<T>>) -> Result<Option<Vec<T>>> {
    if list.as_ref().is_some_and(|list| list.len() > ELEMENTS_MAX) {
        let detail = format!("Ensure this field has no more than {ELEMENTS_MAX} elements.");
        return Err(Error::invalid(attr, "max_length", detail));
    }
    Ok(list)
}
