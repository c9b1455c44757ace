//! The activity log: of a whole project by cursor, of one kind of object by page number.

mod advanced;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use catalog::{ActivityFilter, Direction, Entry, LogCursor, Logged, ProjectRow, SCOPES};
use model::{LIMIT_MAX, Timestamp, Visibilities, Window};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::http::openapi::{DescribeRequest, Operation};
use crate::{App, AppState, Error, Json, Reader, RequestUrl, Resource, Result, Routes};

/// Entries on a page of the project's log, and by default on a page about one kind of object.
const LOG_PAGE_ENTRIES: i64 = 100;
const PAGE_ENTRIES_DEFAULT: i64 = 10;
/// More than there are scopes; each becomes a bind parameter of the statement.
const SCOPES_MAX: usize = 100;

/// The API key scope of every activity endpoint.
pub(crate) enum ActivityLog {}

impl Resource for ActivityLog {
    const SCOPE: &'static str = "activity_log";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    advanced::routes(routes.get("/api/projects/{project_id}/activity_log", list))
}

#[derive(Serialize, JsonSchema)]
struct LogPage {
    next: Option<String>,
    previous: Option<String>,
    results: Vec<Entry>,
}

async fn list(
    caller: Reader<ActivityLog>,
    query: LogQuery,
    url: RequestUrl,
    app: App,
) -> Result<Json<LogPage>> {
    let filter = ActivityFilter {
        organization: caller.project.organization,
        project: caller.project.id,
        scopes: query.scopes,
        item_ids: query.item_id.into_iter().collect(),
        users: query.user.into_iter().collect(),
        activities: Vec::new(),
        period: (None, None),
        visibility: caller.visibilities(),
    };
    let from = query.cursor;
    // One entry more than a page shows whether there is another page.
    let mut results =
        app.catalog.activity().from_cursor(&filter, from, LOG_PAGE_ENTRIES + 1).await?;
    let is_more = results.len() > LOG_PAGE_ENTRIES as usize;
    let (has_next, has_previous) = match from {
        None => (is_more, false),
        Some((_, Direction::Older)) => (is_more, true),
        Some((_, Direction::Newer)) => (true, is_more),
    };
    if is_more {
        match from {
            Some((_, Direction::Newer)) => drop(results.remove(0)),
            _ => results.truncate(LOG_PAGE_ENTRIES as usize),
        }
    }
    let link = |entry: Option<&Entry>, direction| {
        let mark = entry.map(|entry| LogCursor { created_at: entry.created_at, id: entry.id });
        let mark = mark.or(from.map(|(mark, _)| mark))?;
        Some(url.link(&[("cursor", Some(&write_cursor(mark, direction)))]))
    };
    Ok(Json(LogPage {
        next: has_next.then(|| link(results.last(), Direction::Older)).flatten(),
        previous: has_previous.then(|| link(results.first(), Direction::Newer)).flatten(),
        results,
    }))
}

/// The filters and the cursor of a request for the project's log.
struct LogQuery {
    scopes: Vec<String>,
    item_id: Option<String>,
    user: Option<Uuid>,
    cursor: Option<(LogCursor, Direction)>,
}

impl FromRequestParts<AppState> for LogQuery {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let url = RequestUrl::of(parts);
        let scopes: Vec<String> = ["scope", "scopes"]
            .into_iter()
            .flat_map(|name| url.values(name).map(move |words| (name, words)))
            .flat_map(|(name, words)| words.split(',').map(move |word| (name, word)))
            .filter(|(_, word)| !word.is_empty())
            .map(|(name, word)| match SCOPES.contains(&word) {
                true => Ok(word.to_owned()),
                false => Err(Error::invalid_choice(name, word)),
            })
            .collect::<Result<_>>()?;
        if scopes.len() > SCOPES_MAX {
            let detail = format!("Ensure this field has no more than {SCOPES_MAX} elements.");
            return Err(Error::invalid("scopes", "max_length", detail));
        }
        let user = url.value("user").map(|text| {
            Uuid::parse_str(text)
                .map_err(|_| Error::invalid("user", "invalid_input", "Must be a valid UUID."))
        });
        let cursor = url.value("cursor").map(|text| {
            read_cursor(text).ok_or_else(|| Error::not_found_because("Invalid cursor"))
        });
        Ok(Self {
            scopes,
            item_id: url.value("item_id").map(str::to_owned),
            user: user.transpose()?,
            cursor: cursor.transpose()?,
        })
    }
}

impl DescribeRequest for LogQuery {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        let text = || json!({ "type": "string" });
        operation.query_parameter("scope", text());
        operation.query_parameter("scopes", json!({ "type": "array", "items": text() }));
        operation.query_parameter("item_id", text());
        operation.query_parameter("user", json!({ "type": "string", "format": "uuid" }));
        operation.query_parameter("cursor", text());
    }
}

/// Encodes a direction and an entry's timestamp and id; opaque to clients.
fn write_cursor(mark: LogCursor, direction: Direction) -> String {
    let sign = match direction {
        Direction::Older => '<',
        Direction::Newer => '>',
    };
    URL_SAFE_NO_PAD.encode(format!("{sign}{} {}", mark.created_at.as_micros(), mark.id))
}

fn read_cursor(text: &str) -> Option<(LogCursor, Direction)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let (direction, mark) = match text.split_at_checked(1)? {
        ("<", mark) => (Direction::Older, mark),
        (">", mark) => (Direction::Newer, mark),
        _ => return None,
    };
    let (micros, id) = mark.split_once(' ')?;
    let created_at = Timestamp::from_micros(micros.parse().ok()?);
    Some((LogCursor { created_at, id: Uuid::parse_str(id).ok()? }, direction))
}

/// A page by number, as `<resource>/activity` and `<resource>/{id}/activity` serve it.
pub(crate) struct ActivityPage {
    number: i64,
    limit: i64,
    /// A parameter that was not a positive integer; most endpoints ignore it.
    invalid_parameter: Option<&'static str>,
    /// Objects that the caller may see, of the kinds that access rules cover.
    visibilities: Visibilities,
    url: RequestUrl,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ActivityListing {
    results: Vec<Entry>,
    next: Option<String>,
    previous: Option<String>,
    total_count: i64,
}

impl ActivityPage {
    /// Rejects a bad `page` or `limit`, as upstream does for flags.
    pub(crate) fn strictly(self) -> Result<Self> {
        match self.invalid_parameter {
            None => Ok(self),
            Some(name) => {
                Err(Error::invalid(name, "invalid_input", "A positive integer is required."))
            }
        }
    }

    pub(crate) fn visible_to(self, visibilities: Visibilities) -> Self {
        Self { visibilities, ..self }
    }

    /// The activity of all objects of a kind.
    pub(crate) async fn of_all<T: Logged>(
        &self,
        app: &AppState,
        project: &ProjectRow,
    ) -> Result<Json<ActivityListing>> {
        self.of_scope(app, project, T::SCOPE, None).await
    }

    /// The activity of one object. Callers check that it exists and is visible.
    pub(crate) async fn of<T: Logged>(
        &self,
        app: &AppState,
        project: &ProjectRow,
        item: &T,
    ) -> Result<Json<ActivityListing>> {
        self.of_scope(app, project, T::SCOPE, Some(item.item_id())).await
    }

    /// The same for a kind given by its scope in the log.
    pub(crate) async fn of_scope(
        &self,
        app: &AppState,
        project: &ProjectRow,
        scope: &str,
        item_id: Option<String>,
    ) -> Result<Json<ActivityListing>> {
        let filter = ActivityFilter {
            organization: project.organization,
            project: project.id,
            scopes: vec![scope.into()],
            item_ids: item_id.into_iter().collect(),
            users: Vec::new(),
            activities: Vec::new(),
            period: (None, None),
            visibility: self.visibilities.clone(),
        };
        let offset = (self.number - 1).saturating_mul(self.limit);
        let window = Window { limit: self.limit, offset };
        let (results, total_count) = app.catalog.activity().page(&filter, window).await?;
        let has_next = offset.saturating_add(self.limit) < total_count;
        Ok(Json(ActivityListing {
            results,
            next: has_next.then(|| self.link(self.number + 1)),
            previous: (self.number > 1).then(|| self.link(self.number - 1)),
            total_count,
        }))
    }

    fn link(&self, number: i64) -> String {
        let (limit, number) = (self.limit.to_string(), number.to_string());
        self.url.link(&[("limit", Some(&limit)), ("page", Some(&number))])
    }
}

impl FromRequestParts<AppState> for ActivityPage {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let url = RequestUrl::of(parts);
        let number = |name, default: i64| url.number(name).filter(|n| *n > 0).unwrap_or(default);
        let is_invalid = |name: &&&str| {
            url.value(name).is_some() && url.number(name).is_none_or(|number| number < 1)
        };
        Ok(Self {
            visibilities: Visibilities::default(),
            invalid_parameter: ["limit", "page"].iter().find(is_invalid).copied(),
            number: number("page", 1),
            limit: number("limit", PAGE_ENTRIES_DEFAULT).min(LIMIT_MAX),
            url,
        })
    }
}

impl DescribeRequest for ActivityPage {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        let number = || json!({ "type": "integer", "minimum": 1 });
        operation.query_parameter("limit", number());
        operation.query_parameter("page", number());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_cursor_round_trips_and_rejects_other_strings() {
        let mark = LogCursor { created_at: Timestamp::from_micros(-7), id: Uuid::from_u128(1) };
        for direction in [Direction::Older, Direction::Newer] {
            let text = write_cursor(mark, direction);
            assert_eq!(read_cursor(&text), Some((mark, direction)));
        }
        for text in ["", "x", "%", "PDEgMQ", "w6k", "Pw"] {
            assert_eq!(read_cursor(text), None, "{text}");
        }
    }
}
