//! Answers queries about HogQL: they need the project's names, but neither its events nor a permit.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::ProjectRow;

use super::{Inner, PreparedQuery, QueryResponse, QueryResult};
use crate::Result;
use crate::language::LanguageQuery;
use crate::language::database_schema::DatabaseSchema;

impl Inner {
    pub(super) async fn answer_language(
        &self,
        project: &ProjectRow,
        prepared: &PreparedQuery,
        query: &LanguageQuery,
    ) -> Result<QueryResponse> {
        let mut schema =
            self.read_views.schema(project, &prepared.names, &prepared.actions).await?;
        schema.objects = (*prepared.rows).clone();
        let answer = match query {
            LanguageQuery::Metadata(query) => {
                let defaults = match query.mentions_variables() {
                    true => self.catalog.insight_variables().defaults(project.id).await?,
                    false => BTreeMap::new(),
                };
                serde_json::to_value(query.answer(&schema, &defaults)?)
            }
            LanguageQuery::Schema => serde_json::to_value(DatabaseSchema::new(&schema)),
            LanguageQuery::Autocomplete(query) => {
                let definitions = self.catalog.property_definitions();
                serde_json::to_value(query.answer(&schema, definitions).await?)
            }
        };
        let answer = answer.map_err(|error| crate::Error::Internal(error.to_string()))?;
        let now = self.catalog.clock().now();
        let result = QueryResult::of_language(answer, prepared, project, now);
        Ok(QueryResponse::Ready {
            result: Arc::new(result),
            is_cached: false,
            running: None,
            reserved: None,
        })
    }
}
