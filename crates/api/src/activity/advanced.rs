//! The activity log with filters by several values, and the values to choose from.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use catalog::{ActivityChoices, ActivityFilter, Entry};
use model::{LIMIT_DEFAULT, LIMIT_MAX, Timestamp, Visibilities, Window};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::{ActivityLog, SCOPES_MAX};
use crate::auth::caller::InProject;
use crate::http::openapi::{DescribeRequest, Operation};
use crate::http::path::instant;
use crate::{App, AppState, Error, Json, Listing, Reader, RequestUrl, Result, Routes};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/advanced_activity_logs", list)
        .get("/api/projects/{project_id}/advanced_activity_logs/available_filters", choices)
}

/// The filters and the page of a request.
struct AdvancedQuery {
    users: Vec<Uuid>,
    scopes: Vec<String>,
    activities: Vec<String>,
    item_ids: Vec<String>,
    period: (Option<Timestamp>, Option<Timestamp>),
    page: i64,
    page_size: i64,
    url: RequestUrl,
}

/// Filters that PostHog has and Hedgerow does not: a result that ignores one would be wrong.
const UNSUPPORTED: [&str; 8] = [
    "search_text",
    "detail_filters",
    "hogql_filter",
    "was_impersonated",
    "is_system",
    "clients",
    "ip_addresses",
    "fields",
];

impl FromRequestParts<AppState> for AdvancedQuery {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let url = RequestUrl::of(parts);
        let is_given =
            |name: &&&str| url.value(name).is_some_and(|text| text != "{}" && text != "[]");
        if let Some(name) = UNSUPPORTED.iter().find(is_given) {
            return Err(Error::invalid(*name, "invalid_input", "This filter is not supported."));
        }
        let users = list_of(&url, "users")?.into_iter().map(|text| {
            Uuid::parse_str(&text)
                .map_err(|_| Error::invalid("users", "invalid_input", "Must be a valid UUID."))
        });
        let number = |name, default: i64| url.number(name).filter(|n| *n > 0).unwrap_or(default);
        let time = |name: &str| instant(name, url.value(name).map(str::to_owned).as_ref());
        Ok(Self {
            users: users.collect::<Result<_>>()?,
            scopes: list_of(&url, "scopes")?,
            activities: list_of(&url, "activities")?,
            item_ids: list_of(&url, "item_ids")?,
            period: (time("start_date")?, time("end_date")?),
            page: number("page", 1),
            page_size: number("page_size", LIMIT_DEFAULT).min(LIMIT_MAX),
            url,
        })
    }
}

/// A parameter that is repeated, separated by commas, or a JSON array.
fn list_of(url: &RequestUrl, name: &str) -> Result<Vec<String>> {
    let words = |text: &str| match serde_json::from_str::<Vec<String>>(text) {
        Ok(words) => words,
        Err(_) => text.split(',').map(str::to_owned).collect(),
    };
    let mut words: Vec<String> = url.values(name).flat_map(words).collect();
    words.retain(|word| !word.is_empty());
    if words.len() > SCOPES_MAX {
        let detail = format!("Ensure this field has no more than {SCOPES_MAX} elements.");
        return Err(Error::invalid(name, "max_length", detail));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(crate::http::path::nul(name));
    }
    Ok(words)
}

impl DescribeRequest for AdvancedQuery {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        for name in ["users", "scopes", "activities", "item_ids"] {
            operation
                .query_parameter(name, json!({ "type": "array", "items": { "type": "string" } }));
        }
        for name in ["start_date", "end_date"] {
            operation.query_parameter(name, json!({ "type": "string", "format": "date-time" }));
        }
        for name in ["page", "page_size"] {
            operation.query_parameter(name, json!({ "type": "integer", "minimum": 1 }));
        }
    }
}

async fn list(
    caller: Reader<ActivityLog>,
    query: AdvancedQuery,
    app: App,
) -> Result<Listing<Entry>> {
    let AdvancedQuery { users, scopes, activities, item_ids, period, page, page_size, url } = query;
    let everything = everything(&caller);
    let filter = ActivityFilter { users, scopes, activities, item_ids, period, ..everything };
    let offset = (page - 1).saturating_mul(page_size);
    let window = Window { limit: page_size, offset };
    let (results, count) = app.catalog.activity().page(&filter, window).await?;
    let link = |number: i64| url.link(&[("page", Some(&number.to_string()))]);
    let next = (offset.saturating_add(page_size) < count).then(|| link(page + 1));
    let previous = (page > 1).then(|| link(page - 1));
    Ok(Listing { count, next, previous, results })
}

fn everything<R, M>(caller: &InProject<R, M>) -> ActivityFilter {
    let visibility: Visibilities = caller.visibilities();
    ActivityFilter {
        organization: caller.project.organization,
        project: caller.project.id,
        scopes: Vec::new(),
        item_ids: Vec::new(),
        users: Vec::new(),
        activities: Vec::new(),
        period: (None, None),
        visibility,
    }
}

#[derive(Serialize, JsonSchema)]
struct AvailableFilters {
    static_filters: StaticFilters,
    /// Always empty: details cannot be filtered.
    #[schemars(with = "model::json_shapes::EmptyObject")]
    detail_fields: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize, JsonSchema)]
struct StaticFilters {
    users: Vec<LabeledUser>,
    scopes: Vec<FilterChoice>,
    activities: Vec<FilterChoice>,
    /// Always empty: clients are not logged.
    clients: Vec<FilterChoice>,
}

#[derive(Serialize, JsonSchema)]
struct LabeledUser {
    value: Uuid,
    label: String,
}

#[derive(Serialize, JsonSchema)]
struct FilterChoice {
    value: String,
}

/// The users, scopes and activities that occur in the log.
async fn choices(caller: Reader<ActivityLog>, app: App) -> Result<Json<AvailableFilters>> {
    let ActivityChoices { users, scopes, activities } =
        app.catalog.activity().choices(&everything(&caller)).await?;
    let label = |user: model::User| {
        let name = format!("{} {}", user.first_name, user.last_name);
        let name = name.trim();
        let label = if name.is_empty() { user.email } else { name.to_owned() };
        LabeledUser { value: user.uuid, label }
    };
    let choice = |value: String| FilterChoice { value };
    Ok(Json(AvailableFilters {
        static_filters: StaticFilters {
            users: users.into_iter().map(label).collect(),
            scopes: scopes.into_iter().map(choice).collect(),
            activities: activities.into_iter().map(choice).collect(),
            clients: Vec::new(),
        },
        detail_fields: serde_json::Map::new(),
    }))
}
