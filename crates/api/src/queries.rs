//! The query endpoint: running queries, polling their status and cancelling them.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use query::{QueryRequest, QueryResponse, QueryRun, QueryStatus, Refresh, schema};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::http::body::max_chars;
use crate::http::openapi::{self, Operation};
use crate::{App, Body, Error, Json, Query, Reader, Resource, Result, Routes, StringId};

const NAME_CHARS_MAX: usize = 128;

pub(crate) enum Queries {}

impl Resource for Queries {
    const SCOPE: &'static str = "query";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/query", ask)
        .post("/api/projects/{project_id}/query/{id}", ask_kind)
        .get("/api/projects/{project_id}/query/{id}", read)
        .delete("/api/projects/{project_id}/query/{id}", cancel)
}

#[derive(Default, Deserialize, JsonSchema)]
#[schemars(rename = "Question")]
struct QueryBody {
    #[schemars(with = "schema::Query")]
    query: Option<Value>,
    #[schemars(with = "Option<schema::RefreshMode>")]
    refresh: Option<Value>,
    #[serde(rename = "async")]
    is_async: Option<bool>,
    client_query_id: Option<String>,
    name: Option<String>,
    #[schemars(with = "Option<schema::FilterOverrides>")]
    filters_override: Option<Map<String, Value>>,
    #[schemars(with = "Option<schema::Variables>")]
    variables_override: Option<Map<String, Value>>,
}

impl QueryBody {
    fn read(self, caller: &Reader<Queries>) -> Result<QueryRequest> {
        let Some(query @ Value::Object(_)) = self.query else {
            return Err(Error::parse("query: Input should be a valid dictionary"));
        };
        if let Some(name) = &self.name {
            max_chars("name", name, NAME_CHARS_MAX)?;
        }
        if let Some(id) = &self.client_query_id {
            max_chars("client_query_id", id, NAME_CHARS_MAX)?;
        }
        let refresh = match (&self.refresh, self.is_async) {
            (None | Some(Value::Null), Some(true)) => Refresh::Async,
            (None | Some(Value::Null | Value::Bool(false)), _) => Refresh::Blocking,
            (Some(Value::Bool(true)), _) => Refresh::ForceBlocking,
            (Some(Value::String(word)), _) => mode(word)?,
            (Some(_), _) => return Err(Error::parse("refresh: Input should be a mode")),
        };
        // This endpoint always returns a result or a run.
        let refresh = if refresh == Refresh::ForceCache { Refresh::Blocking } else { refresh };
        Ok(QueryRequest {
            query,
            refresh,
            client_query_id: self.client_query_id.filter(|id| !id.is_empty()),
            filter_layers: self.filters_override.into_iter().collect(),
            variables: self.variables_override.unwrap_or_default(),
            default_limit: None,
            visibility: caller.visibilities(),
            objects: Vec::new(),
            readable: readable(caller),
        })
    }
}

/// The kinds of objects that the caller's credentials may read as `system` tables.
pub(crate) fn readable(caller: &Reader<Queries>) -> BTreeSet<&'static str> {
    let objects = query::SYSTEM_TABLES.iter().filter_map(|table| table.object());
    objects.filter(|object| caller.may_read(object).is_ok()).collect()
}

fn mode(word: &str) -> Result<Refresh> {
    Refresh::parse(word).ok_or_else(|| Error::parse(format!("refresh: '{word}' is not a mode")))
}

async fn ask(caller: Reader<Queries>, app: App, body: Body<QueryBody>) -> Result<QueryReply> {
    let request = body.read()?.read(&caller)?;
    Ok(app.queries.run(&caller.project, request).await?.into())
}

/// The kind in the path must equal the query's.
async fn ask_kind(
    caller: Reader<Queries>,
    kind: StringId,
    app: App,
    body: Body<QueryBody>,
) -> Result<QueryReply> {
    let request = body.read()?.read(&caller)?;
    if request.query.get("kind").and_then(Value::as_str) != Some(kind.0.as_str()) {
        return Err(Error::parse("The kind in the path is not the kind of the query."));
    }
    Ok(app.queries.run(&caller.project, request).await?.into())
}

#[derive(Deserialize, JsonSchema)]
struct StatusQuery {
    show_progress: Option<String>,
}

async fn read(
    caller: Reader<Queries>,
    id: StringId,
    query: Query<StatusQuery>,
    app: App,
) -> Result<StatusReply> {
    let run = app.queries.status(caller.project.id, &id.0, &caller.visibilities()).await?;
    let running = run.ok_or_else(Error::not_found)?;
    let shows = query.show_progress.as_deref() == Some("true");
    let status = match &running.status {
        QueryStatus::Running => StatusCode::ACCEPTED,
        QueryStatus::Completed(_) => StatusCode::OK,
        QueryStatus::Failed { is_user_facing: true, .. } => StatusCode::BAD_REQUEST,
        QueryStatus::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut reply = status_of(&running);
    if shows && status == StatusCode::ACCEPTED {
        let now = app.catalog.clock().now().as_micros();
        let elapsed_ms = (now - running.started_at.as_micros()) / 1_000;
        reply["query_progress"] = json!({ "time_elapsed": elapsed_ms });
    }
    Ok(StatusReply(QueryReply(status, json!({ "query_status": reply }))))
}

#[derive(Serialize, JsonSchema)]
struct Cancelled {
    message: String,
}

/// Succeeds for an unknown run, too.
async fn cancel(caller: Reader<Queries>, id: StringId, app: App) -> Result<Json<Cancelled>> {
    app.queries.cancel(caller.project.id, &id.0);
    Ok(Json(Cancelled { message: "Query will be cancelled.".into() }))
}

/// 200 with a result, or 202 with the status of a run.
struct QueryReply(StatusCode, Value);

impl From<QueryResponse> for QueryReply {
    fn from(reply: QueryResponse) -> Self {
        match reply {
            QueryResponse::Ready { result, is_cached, running, .. } => {
                let status = running.map(|running| status_of(&running));
                Self(StatusCode::OK, Value::Object(result.envelope(is_cached, status)))
            }
            QueryResponse::Running(running) => {
                let reply = status_of(&running);
                Self(StatusCode::ACCEPTED, json!({ "query_status": reply }))
            }
            QueryResponse::NotCached => Self(StatusCode::OK, Value::Null),
        }
    }
}

pub(crate) fn status_of(running: &QueryRun) -> Value {
    let (results, why) = match &running.status {
        QueryStatus::Running => (None, None),
        QueryStatus::Completed(result) => (Some(result.envelope(false, None)), None),
        // Internal errors are only logged.
        QueryStatus::Failed { message, is_user_facing } => {
            (None, is_user_facing.then_some(message))
        }
    };
    let failed = matches!(running.status, QueryStatus::Failed { .. });
    json!({
        "id": running.id,
        "query_async": true,
        "team_id": running.project,
        "insight_id": null,
        "dashboard_id": null,
        "error": failed,
        "complete": running.ended_at.is_some(),
        "error_message": why,
        "results": results,
        "start_time": running.started_at,
        "pickup_time": running.started_at,
        "end_time": running.ended_at,
        "expiration_time": running.expires_at,
        "task_id": null,
        "query_progress": null,
        "labels": null,
    })
}

impl IntoResponse for QueryReply {
    fn into_response(self) -> Response {
        (self.0, axum::Json(self.1)).into_response()
    }
}

impl openapi::DescribeResponse for QueryReply {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<schema::QueryResponse>(200, schemas);
        operation.response::<schema::QueryStatusResponse>(202, schemas);
    }
}

/// The status of a run.
struct StatusReply(QueryReply);

impl IntoResponse for StatusReply {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl openapi::DescribeResponse for StatusReply {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<schema::QueryStatusResponse>(200, schemas);
        operation.response::<schema::QueryStatusResponse>(202, schemas);
    }
}
