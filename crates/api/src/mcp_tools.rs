//! Tools that PostHog's MCP server calls by name. They answer text for language models; a query that
//! fails is an answer, not an HTTP error, so that the model can correct it.

use catalog::{EventDefinitionFilter, EventDefinitionOrder, PropertyDefinitionFilter, SortOrder};
use model::Window;
use model::definition::PropertyOwner;
use query::{QueryRequest, QueryResponse, Refresh, ValuesKey, ValuesRequest, Zone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::http::pipe_table;
use crate::queries::{Queries, readable};
use crate::{App, Body, Error, Json, Reader, Result, Routes};

/// Events, properties or values in one answer.
const LISTED_MAX: i64 = 500;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/mcp_tools/execute_sql", execute_sql)
        .post("/api/projects/{project_id}/mcp_tools/read_taxonomy", read_taxonomy)
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "McpToolCall{T}")]
struct ToolCall<T> {
    args: T,
}

#[derive(Deserialize, JsonSchema)]
struct SqlArgs {
    /// A HogQL statement.
    query: String,
}

#[derive(Serialize, JsonSchema)]
struct ToolAnswer {
    success: bool,
    content: String,
}

impl ToolAnswer {
    const fn of(content: String) -> Self {
        Self { success: true, content }
    }

    fn failed(why: &str) -> Self {
        Self { success: false, content: format!("Tool failed: {why}") }
    }
}

/// Runs a statement; its rows are lines, the first names the columns.
async fn execute_sql(
    caller: Reader<Queries>,
    app: App,
    body: Body<ToolCall<SqlArgs>>,
) -> Result<Json<ToolAnswer>> {
    let query = json!({ "kind": "HogQLQuery", "query": body.read()?.args.query });
    let mut request = QueryRequest::new(query, Refresh::Blocking, caller.visibilities());
    request.readable = readable(&caller);
    let reply = match app.queries.run(&caller.project, request).await {
        Ok(reply) => reply,
        Err(error) if error.is_user_facing() => {
            return Ok(Json(ToolAnswer::failed(&error.to_string())));
        }
        Err(error) => return Err(error.into()),
    };
    let QueryResponse::Ready { result, .. } = reply else { return Err(Error::timed_out()) };
    let columns = result.columns.clone().unwrap_or_default();
    let mut answer = ToolAnswer::of(pipe_table::of_result(&columns, &result.results));
    if result.has_more == Some(true) {
        answer.content += "\n(there are more rows: use LIMIT and OFFSET)";
    }
    Ok(Json(answer))
}

#[derive(Deserialize, JsonSchema)]
struct TaxonomyArgs {
    query: TaxonomyQuery,
}

/// What to list.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum TaxonomyQuery {
    Events,
    EventProperties { event_name: String },
    EventPropertyValues { event_name: String, property_name: String },
    EntityProperties { entity: Entity },
    EntityPropertyValues { entity: Entity, property_name: String },
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Entity {
    Person,
}

/// Lists events, properties or values that the project has.
async fn read_taxonomy(
    caller: Reader<Queries>,
    app: App,
    body: Body<ToolCall<TaxonomyArgs>>,
) -> Result<Json<ToolAnswer>> {
    let project = caller.project.id;
    let window = Window { limit: LISTED_MAX, offset: 0 };
    let one = |value: String| vec![value];
    let table: Vec<Vec<String>> = match body.read()?.args.query {
        TaxonomyQuery::Events => {
            caller.may_read("event_definition")?;
            let order = vec![(EventDefinitionOrder::LastSeen, SortOrder::Descending)];
            let filter = EventDefinitionFilter {
                order,
                exclude_hidden: true,
                ..EventDefinitionFilter::default()
            };
            let (events, _) =
                app.catalog.event_definitions().list(project, &filter, window).await?;
            let row = |event: model::definition::EventDefinition| {
                let seen = event.last_seen_at.map(|at| at.to_string()).unwrap_or_default();
                vec![event.name, event.description.unwrap_or_default(), seen]
            };
            let head = ["event", "description", "last_seen_at"].map(str::to_owned).to_vec();
            std::iter::once(head).chain(events.into_iter().map(row)).collect()
        }
        TaxonomyQuery::EventProperties { event_name } => {
            properties(&caller, &app, PropertyOwner::Event, vec![event_name]).await?
        }
        TaxonomyQuery::EntityProperties { entity: Entity::Person } => {
            properties(&caller, &app, PropertyOwner::Person, Vec::new()).await?
        }
        TaxonomyQuery::EventPropertyValues { event_name, property_name } => {
            let key = ValuesKey::Property(property_name);
            let (containing, equal) = (None, Vec::new());
            let request = ValuesRequest { key, containing, events: [event_name].into(), equal };
            let zone = Zone::named(&caller.project.timezone);
            let values = app.events.values(project, request, &zone).await?;
            std::iter::once("value".to_owned()).chain(values).map(one).collect()
        }
        TaxonomyQuery::EntityPropertyValues { entity: Entity::Person, property_name } => {
            caller.may_read("person")?;
            let limit = LISTED_MAX as usize;
            let values = app.catalog.persons().values(project, &property_name, None, limit).await?;
            let row = |(value, count): (String, i64)| vec![value, count.to_string()];
            let head = ["value", "persons"].map(str::to_owned).to_vec();
            std::iter::once(head).chain(values.into_iter().map(row)).collect()
        }
    };
    Ok(Json(ToolAnswer::of(pipe_table::of_cells(&table))))
}

async fn properties(
    caller: &Reader<Queries>,
    app: &App,
    owner: PropertyOwner,
    events: Vec<String>,
) -> Result<Vec<Vec<String>>> {
    caller.may_read("property_definition")?;
    let filter = PropertyDefinitionFilter {
        owner,
        terms: Vec::new(),
        names: Vec::new(),
        excluded: Vec::new(),
        only_seen_on_events: !events.is_empty(),
        events,
        only_numerical: false,
        feature_flag: None,
        exclude_hidden: true,
        exclude_built_in: false,
    };
    let window = Window { limit: LISTED_MAX, offset: 0 };
    let (found, _) =
        app.catalog.property_definitions().list(caller.project.id, &filter, window).await?;
    let row = |property: model::definition::PropertyDefinition| {
        let kind = property.property_type.map(|kind| kind.as_str().to_owned()).unwrap_or_default();
        vec![property.name, kind, property.description.unwrap_or_default()]
    };
    let head = ["property", "type", "description"].map(str::to_owned).to_vec();
    Ok(std::iter::once(head).chain(found.into_iter().map(row)).collect())
}
