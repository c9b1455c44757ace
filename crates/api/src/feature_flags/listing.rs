//! What a list of flags may be asked for.

use catalog::{FlagFilter, FlagOrder, Staleness};
use model::UserId;
use model::flag::EvaluationRuntime;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::path::{given, search};
use crate::{Error, Result};

/// Elements of a list in the query string; each is one argument of the query.
const ELEMENTS_MAX: usize = 100;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Wanted {
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

impl Wanted {
    pub(super) fn filter(&self) -> Result<FlagFilter> {
        let kind = given(self.r#type.as_ref());
        let active = given(self.active.as_ref());
        Ok(FlagFilter {
            search: search(self.search.as_ref())?,
            key: given(self.key.as_ref()).map(str::to_owned),
            active: active.and_then(truth),
            staleness: (active == Some("STALE")).then_some(Staleness::Stale),
            archived: given(self.archived.as_ref()).and_then(truth),
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
            evaluation_runtime: given(self.evaluation_runtime.as_ref())
                .and_then(EvaluationRuntime::parse),
            has_evaluation_contexts: given(self.has_evaluation_contexts.as_ref()).and_then(truth),
            eligible_for_experiment: given(self.eligible_for_experiment.as_ref()).and_then(truth)
                == Some(true),
            order: given(self.order.as_ref()).and_then(FlagOrder::parse).unwrap_or_default(),
        })
    }

    /// One number, several behind commas, or a JSON list.
    fn authors(&self) -> Result<Option<Vec<UserId>>> {
        let Some(text) = given(self.created_by_id.as_ref()) else { return Ok(None) };
        let inner = text.trim_start_matches('[').trim_end_matches(']');
        let numbers: Option<Vec<UserId>> = inner
            .split(',')
            .map(|number| number.trim().trim_matches('"').parse().ok().map(UserId))
            .collect();
        bounded("created_by_id", numbers)
    }
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A JSON list of words; a malformed one is ignored.
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
