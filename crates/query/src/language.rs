//! Queries about HogQL itself, for editors: checking a statement, the schema, and completion. They
//! read no events and are answered at once, without a permit and without the cache.

pub(crate) mod autocomplete;
pub(crate) mod database_schema;
pub(crate) mod function_signature;
pub(crate) mod metadata;

use std::collections::BTreeMap;

use hogql::PlaceholderValues;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::Result;
use crate::hogql_query::{Variable, variable_values};
use crate::parse::{ParsedQuery, read_strictly};

#[derive(Clone, Debug)]
pub(crate) enum LanguageQuery {
    Metadata(metadata::MetadataQuery),
    Autocomplete(autocomplete::AutocompleteQuery),
    Schema,
}

/// What a text is; PostHog's further languages (programs, their JSON and Liquid) are not run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Language {
    /// A statement.
    #[serde(rename = "hogQL")]
    Statement,
    /// An expression over the rows of `sourceQuery`, or over events.
    #[serde(rename = "hogQLExpr")]
    Expression,
    /// Text with expressions in braces.
    #[serde(rename = "hogTemplate")]
    Template,
}

impl LanguageQuery {
    /// None for another kind.
    pub fn parse(kind: &str, query: &Map<String, Json>) -> Result<Option<Self>> {
        let query = Json::Object(crate::parse::strict_part(query));
        Ok(match kind {
            "HogQLMetadata" => Some(Self::Metadata(read_strictly(&query)?)),
            "HogQLAutocomplete" => Some(Self::Autocomplete(read_strictly(&query)?)),
            "DatabaseSchemaQuery" => {
                read_strictly::<database_schema::DatabaseSchemaQuery>(&query)?;
                Some(Self::Schema)
            }
            _ => None,
        })
    }

    /// Whether the query around an expression is valid.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Metadata(query) => table_of(query.source_query.as_ref()).map(drop),
            Self::Autocomplete(query) => table_of(query.source_query.as_ref()).map(drop),
            Self::Schema => Ok(()),
        }
    }
}

/// The table whose rows an expression reads.
fn table_of(source: Option<&Map<String, Json>>) -> Result<&'static str> {
    let Some(source) = source else { return Ok("events") };
    Ok(match ParsedQuery::parse(source)? {
        ParsedQuery::Actors(_) => "persons",
        _ => "events",
    })
}

/// `globals` and `variables` as the values of placeholders.
fn placeholder_values(
    globals: Option<&Map<String, Json>>,
    variables: Option<&BTreeMap<String, Variable>>,
    defaults: &BTreeMap<String, Json>,
) -> PlaceholderValues {
    let values = globals.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
    let variables = variables.into_iter().flat_map(BTreeMap::values);
    PlaceholderValues { values: values.collect(), variables: variable_values(variables, defaults) }
}
