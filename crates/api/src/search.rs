//! Search for objects of all kinds by name and description.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use catalog::{SearchFilter, SearchHit, SearchKind};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::auth::resources::Projects;
use crate::http::body::max_chars;
use crate::http::openapi::{DescribeRequest, Operation};
use crate::http::path::{SEARCH_CHARS_MAX, nul};
use crate::{App, AppState, Error, Json, Reader, RequestUrl, Result, Routes};

/// Upstream's number of results.
const RESULTS_MAX: usize = 25;
/// Upstream's kinds that Hedgerow does not have; they find nothing.
const UNSUPPORTED_KINDS: [&str; 3] = ["experiment", "notebook", "survey"];
/// Values of `entities` in one request, more than there are kinds.
const ENTITIES_MAX: usize = 100;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.get("/api/projects/{project_id}/search", search)
}

/// The search term and the kinds of objects to search.
struct SearchQuery {
    text: Option<String>,
    /// None for every kind that the caller may read.
    kinds: Option<Vec<SearchKind>>,
}

impl FromRequestParts<AppState> for SearchQuery {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let url = RequestUrl::of(parts);
        let text = url.value("q").map(str::trim).filter(|text| !text.is_empty());
        if text.is_some_and(|text| text.contains('\0')) {
            return Err(nul("q"));
        }
        text.map(|text| max_chars("q", text, SEARCH_CHARS_MAX)).transpose()?;
        let words: Vec<&str> = url
            .values("entities")
            .flat_map(|words| words.split(','))
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect();
        if words.len() > ENTITIES_MAX {
            let detail = format!("Ensure this field has no more than {ENTITIES_MAX} elements.");
            return Err(Error::invalid("entities", "max_length", detail));
        }
        let mut kinds = Vec::new();
        for word in &words {
            let kind = SearchKind::ALL.into_iter().find(|kind| kind.as_str() == *word);
            match kind {
                Some(kind) => kinds.push(kind),
                None if UNSUPPORTED_KINDS.contains(word) => {}
                None => return Err(Error::invalid_choice("entities", word)),
            }
        }
        kinds.sort_unstable();
        kinds.dedup();
        Ok(Self { text: text.map(str::to_owned), kinds: (!words.is_empty()).then_some(kinds) })
    }
}

impl DescribeRequest for SearchQuery {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        let text = || json!({ "type": "string" });
        operation.query_parameter("q", text());
        operation.query_parameter("entities", json!({ "type": "array", "items": text() }));
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SearchResults")]
struct Results {
    results: Vec<Hit>,
    /// Matches of each kind; null for a kind that was not searched.
    counts: BTreeMap<&'static str, Option<i64>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SearchResult")]
struct Hit {
    #[serde(rename = "type")]
    kind: &'static str,
    /// An insight's short id; the id of any other object.
    result_id: String,
    /// `name` and `description`, or a flag's `key` and `name`.
    #[schemars(with = "std::collections::BTreeMap<String, Option<String>>")]
    extra_fields: Map<String, Value>,
    /// Relevance, at most 1; null without a search term.
    rank: Option<f64>,
}

impl From<SearchHit> for Hit {
    fn from(hit: SearchHit) -> Self {
        let (title, about) = match hit.kind {
            SearchKind::FeatureFlag => ("key", "name"),
            _ => ("name", "description"),
        };
        let fields = [(title, hit.title), (about, hit.description)];
        let shown = fields.into_iter().map(|(name, text)| (name.to_owned(), json!(text)));
        Self {
            kind: hit.kind.as_str(),
            result_id: hit.id,
            extra_fields: shown.collect(),
            rank: hit.rank,
        }
    }
}

/// Searches the kinds that the key's scopes allow; rejects a requested kind that they do not.
async fn search(caller: Reader<Projects>, query: SearchQuery, app: App) -> Result<Json<Results>> {
    let kinds = match query.kinds {
        Some(kinds) => {
            kinds.iter().try_for_each(|kind| caller.may_read(kind.as_str()))?;
            kinds
        }
        None => {
            let readable = |kind: &SearchKind| caller.may_read(kind.as_str()).is_ok();
            SearchKind::ALL.into_iter().filter(readable).collect()
        }
    };
    let filter = SearchFilter { text: query.text, kinds, visibility: caller.visibilities() };
    let (hits, counts) =
        app.catalog.objects().search(caller.project.id, &filter, RESULTS_MAX).await?;
    let counts = SearchKind::ALL.map(|kind| (kind.as_str(), counts.get(&kind).copied()));
    let results = hits.into_iter().map(Hit::from).collect();
    Ok(Json(Results { results, counts: counts.into() }))
}
