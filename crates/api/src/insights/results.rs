//! Runs insights' queries and turns their results into responses and tables.

use std::collections::HashMap;

use catalog::{Deleted, ProjectRow};
use futures_util::{StreamExt as _, stream};
use model::{
    DashboardId, DashboardPresentation, Insight, InsightId, ObjectKind, ProjectId, Timestamp,
    Visibilities,
};
use query::{QueryRequest, QueryResponse, Refresh, convert_legacy_filters, schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::overrides::Overrides;
use super::response::InsightResponse;
use crate::http::csv::{cell, cells_of, rows};
use crate::http::pipe_table;
use crate::queries::status_of;
use crate::{AppState, Error, Result};

/// Concurrent queries of one request. The others wait here, where they hold no query permit.
const AT_ONCE: usize = 2;

/// How to run a query: its refresh mode, overrides and what the caller may see.
#[derive(Clone, Debug)]
pub(crate) struct RunOptions {
    pub refresh: Refresh,
    filters: Vec<Map<String, Value>>,
    variables: Map<String, Value>,
    /// The objects that the query may refer to.
    visibilities: Visibilities,
    /// The objects that the query belongs to.
    objects: Vec<(ObjectKind, i64)>,
}

impl RunOptions {
    pub(crate) fn new(refresh: Refresh, visibilities: Visibilities) -> Self {
        Self {
            refresh,
            filters: Vec::new(),
            variables: Map::new(),
            visibilities,
            objects: Vec::new(),
        }
    }

    /// Adds an object that a client must be allowed to view to poll the run's status.
    pub(crate) fn belonging_to(mut self, kind: ObjectKind, id: i64) -> Self {
        self.objects.push((kind, id));
        self
    }

    /// Adds the overrides of a request.
    pub(crate) fn overridden(mut self, overrides: Overrides) -> Self {
        self.filters.extend(overrides.filters);
        self.variables = overrides.variables.unwrap_or(self.variables);
        self
    }

    /// For a tile: with its dashboard's filters and then its own on top.
    pub(crate) fn on_tile(
        refresh: Refresh,
        dashboard: &Map<String, Value>,
        variables: Option<&Map<String, Value>>,
        tile: Option<&Map<String, Value>>,
        visibilities: Visibilities,
    ) -> Self {
        let filters = std::iter::once(dashboard).chain(tile).cloned().collect();
        let variables = variables.cloned().unwrap_or_default();
        Self { refresh, filters, variables, visibilities, objects: Vec::new() }
    }
}

/// The filters and variables that a dashboard applies to its insights.
pub(crate) struct DashboardOverrides {
    on: DashboardId,
    presentation: DashboardPresentation,
    tiles: HashMap<InsightId, Map<String, Value>>,
}

impl DashboardOverrides {
    pub(crate) async fn of(app: &AppState, project: ProjectId, on: DashboardId) -> Result<Self> {
        let presentation =
            app.catalog.dashboards().get(project, on, None, Deleted::Exclude).await?.presentation;
        Ok(Self { on, presentation, tiles: app.catalog.dashboards().tile_filters(on).await? })
    }

    /// Replaces the dashboard's filters and variables by those of a request.
    pub(crate) fn overridden(mut self, overrides: Overrides) -> Self {
        self.presentation.filters = overrides.filters.unwrap_or(self.presentation.filters);
        self.presentation.variables = overrides.variables.or(self.presentation.variables);
        self
    }

    pub(crate) fn run_options(
        &self,
        refresh: Refresh,
        insight: InsightId,
        visibilities: Visibilities,
    ) -> RunOptions {
        let DashboardPresentation { filters, variables, .. } = &self.presentation;
        let tile_filters = self.tiles.get(&insight);
        let options =
            RunOptions::on_tile(refresh, filters, variables.as_ref(), tile_filters, visibilities);
        options.belonging_to(ObjectKind::Dashboard, self.on.0)
    }
}

/// Parses the `refresh` parameter of insights and dashboards; cached results only by default.
pub(crate) fn refresh(text: Option<&str>) -> Result<Refresh> {
    match text.unwrap_or_default() {
        "" | "false" => Ok(Refresh::ForceCache),
        "true" => Ok(Refresh::ForceBlocking),
        word => Refresh::parse(word).ok_or_else(|| Error::invalid_choice("refresh", word)),
    }
}

/// The result fields of an insight; all null if no result is cached.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "InsightAnswer")]
pub(crate) struct InsightResult {
    #[schemars(with = "Option<schema::QueryResults>")]
    pub result: Option<Value>,
    #[serde(rename = "hasMore")]
    has_more: Option<bool>,
    #[schemars(with = "Option<Vec<String>>")]
    pub columns: Option<Value>,
    #[schemars(with = "Option<Vec<schema::ColumnType>>")]
    types: Option<Value>,
    hogql: Option<String>,
    pub last_refresh: Option<Timestamp>,
    cache_target_age: Option<Timestamp>,
    next_allowed_client_refresh: Option<Timestamp>,
    timezone: Option<String>,
    pub is_cached: bool,
    #[schemars(with = "Option<schema::QueryStatus>")]
    query_status: Option<Value>,
    /// Whether `hogql` is the query itself.
    #[serde(skip)]
    is_statement: bool,
    /// Shown by tiles and shared pages.
    #[serde(skip)]
    pub failure: Option<QueryFailure>,
}

/// Why there is no result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TileError")]
pub(crate) struct QueryFailure {
    #[serde(rename = "type")]
    kind: &'static str,
    pub message: String,
}

impl InsightResult {
    pub(crate) async fn of(
        app: &AppState,
        project: &ProjectRow,
        query: query::Result<Option<Value>>,
        options: &RunOptions,
    ) -> Result<Self> {
        let Some(query) = query? else { return Ok(Self::default()) };
        let mut request = QueryRequest::new(query, options.refresh, options.visibilities.clone());
        request.filter_layers = options.filters.clone();
        request.variables = options.variables.clone();
        request.objects = options.objects.clone();
        let reply = app.queries.run(project, request).await?;
        Ok(match reply {
            QueryResponse::Ready { result, is_cached, running, .. } => Self {
                result: Some(result.results.clone()),
                has_more: result.has_more,
                columns: result.columns.clone(),
                types: result.types.clone(),
                hogql: result.hogql.clone(),
                is_statement: result.is_statement,
                last_refresh: Some(result.computed_at),
                cache_target_age: Some(result.fresh_until),
                next_allowed_client_refresh: Some(result.fresh_until),
                timezone: Some(result.timezone.clone()),
                is_cached,
                query_status: running.map(|running| status_of(&running)),
                failure: None,
            },
            QueryResponse::Running(running) => {
                Self { query_status: Some(status_of(&running)), ..Self::default() }
            }
            QueryResponse::NotCached => Self::default(),
        })
    }

    /// Without the statement, unless the query itself is one.
    pub(super) fn without_lowered_hogql(mut self) -> Self {
        if !self.is_statement {
            self.hogql = None;
        }
        self
    }

    /// Like `of`, with a failure as part of the result: one insight must not fail a dashboard.
    pub(crate) async fn or_failure(
        app: &AppState,
        project: &ProjectRow,
        query: query::Result<Option<Value>>,
        options: &RunOptions,
    ) -> Self {
        match Self::of(app, project, query, options).await {
            Ok(result) => result,
            Err(error) => {
                let status = json!({
                    "id": "", "query_async": false, "team_id": project.id, "error": true,
                    "complete": true, "error_message": error.detail(), "results": null,
                });
                let failure =
                    QueryFailure { kind: error.kind(), message: error.detail().to_owned() };
                Self { query_status: Some(status), failure: Some(failure), ..Self::default() }
            }
        }
    }
}

/// The query of an insight, converted from legacy filters if it is stored so.
pub(crate) fn insight_query(insight: &Insight) -> query::Result<Option<Value>> {
    match &insight.query {
        Some(query) => Ok(Some(Value::Object(query.clone().into_fields()))),
        None => convert_legacy_filters(&insight.filters, None)
            .map_err(|why| query::Error::Invalid(why.dotted_message())),
    }
}

/// Runs the queries of many insights, `AT_ONCE` at a time.
pub(crate) async fn run_all(
    app: &AppState,
    project: &ProjectRow,
    mut runs: Vec<(&mut InsightResponse, RunOptions)>,
) {
    let run = |(shown, options): &(&mut InsightResponse, RunOptions)| {
        let insight = shown.insight();
        (insight_query(insight), options.clone().belonging_to(ObjectKind::Insight, insight.id.0))
    };
    let queries: Vec<(query::Result<Option<Value>>, RunOptions)> = runs.iter().map(run).collect();
    let results = stream::iter(queries).map(|(query, options)| {
        let (app, project) = (app.clone(), project.clone());
        async move { InsightResult::or_failure(&app, &project, query, &options).await }
    });
    let results: Vec<InsightResult> = results.buffered(AT_ONCE).collect().await;
    for ((shown, _), result) in runs.iter_mut().zip(results) {
        shown.set_result(result);
    }
}

/// An insight's result as text for language models.
pub(crate) fn text_table(insight: &InsightResult) -> Option<String> {
    let result = insight.result.as_ref()?;
    Some(match &insight.columns {
        Some(columns) => pipe_table::of_result(columns, result),
        None => pipe_table::of_cells(&table(insight)),
    })
}

/// An insight's result as a table, with a header.
pub(crate) fn table(insight: &InsightResult) -> Vec<Vec<String>> {
    let Some(result) = &insight.result else { return Vec::new() };
    if let Some(columns) = &insight.columns {
        return rows(columns, result);
    }
    // Time to convert: the bins of a histogram.
    if let Some(bins) = result.get("bins") {
        return rows(&json!(["seconds", "actors"]), bins);
    }
    let items: Vec<&Value> = result.as_array().into_iter().flatten().collect();
    let Some(first) = items.first() else { return Vec::new() };
    let named = |name: &str, item: &Value| item.get(name).map_or_else(String::new, cell);
    if first
        .get("labels")
        .is_some_and(|labels| labels.as_array().is_some_and(|all| !all.is_empty()))
    {
        let mut rows = vec![[vec!["series".into()], cells_of(first.get("labels"))].concat()];
        for item in items {
            rows.push([vec![named("label", item)], cells_of(item.get("data"))].concat());
        }
        return rows;
    }
    if first.get("aggregated_value").is_some() {
        let mut rows = vec![vec!["series".into(), "value".into()]];
        rows.extend(
            items.iter().map(|item| vec![named("label", item), named("aggregated_value", item)]),
        );
        return rows;
    }
    if first.get("values").is_some() {
        let cells = |item: &Value, name: &str| -> Vec<String> {
            let values = item.get("values").and_then(Value::as_array);
            values.into_iter().flatten().map(|value| named(name, value)).collect()
        };
        let mut rows = vec![[vec!["cohort".into()], cells(first, "label")].concat()];
        for item in items {
            rows.push([vec![named("label", item)], cells(item, "count")].concat());
        }
        return rows;
    }
    // Funnel steps, in one list per breakdown value, or edges of paths.
    let steps: Vec<&Value> = match first {
        Value::Array(_) => {
            items.iter().flat_map(|item| item.as_array().into_iter().flatten()).collect()
        }
        _ => items,
    };
    let Some(Value::Object(fields)) = steps.first() else { return Vec::new() };
    let columns: Vec<String> = fields
        .iter()
        .filter(|(_, value)| !value.is_array() || fields.get("breakdown") == Some(*value))
        .map(|(name, _)| name.clone())
        .collect();
    let mut rows = vec![columns.clone()];
    rows.extend(steps.iter().map(|step| columns.iter().map(|name| named(name, step)).collect()));
    rows
}
