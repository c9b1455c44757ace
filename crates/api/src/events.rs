//! Events: listing, reading one, live streams, and values of properties.

mod live;
mod pulse;
mod selected;
mod streamed;
mod values;

use model::filter_expr::FilterExpr;
use model::{AccessLevel, ActionId, Timestamp};
use query::{
    ActionExpr, Cursor, Event, EventFilter, EventPage, Order, PersonDetails, Zone, event_time,
    offset_max, parse_filters, parse_timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::http::csv::{self, Cells, Format, JsonOrCsv};
use crate::http::path::given;
use crate::{App, Error, Query, Reader, RequestUrl, Resource, Result, Routes, StringId};
use streamed::ListResponse;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_DEFAULT_CSV: usize = 1_000;
/// Airbyte's source requests 10,000 and takes a shorter page for the last, so that a lower bound
/// would silently lose events.
const LIMIT_MAX: usize = 50_000;
/// Tolerated clock skew of clients.
const CLOCK_SKEW_SECONDS: i64 = 5;

enum Events {}

/// Reading events takes the scope of queries.
impl Resource for Events {
    const SCOPE: &'static str = "query";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/events", list)
        .get("/api/projects/{project_id}/events/{id}", read)
        .get("/api/projects/{project_id}/events/values", values::list)
        .get("/api/projects/{project_id}/events/live", live::watch)
        .get("/api/projects/{project_id}/pulse", pulse::follow)
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    /// Later than this: ISO 8601, or relative such as -24h.
    after: Option<String>,
    /// Earlier than this.
    before: Option<String>,
    distinct_id: Option<String>,
    event: Option<String>,
    limit: Option<String>,
    offset: Option<String>,
    /// A person's uuid or numeric id.
    person_id: Option<String>,
    action_id: Option<String>,
    /// A JSON array of property filters, or a filter group.
    properties: Option<String>,
    /// A JSON array; anything but `["-timestamp"]` sorts the oldest first.
    #[serde(rename = "orderBy")]
    order_by: Option<String>,
    include_person: Option<String>,
    /// The position after the previous page, from its `next`.
    cursor: Option<String>,
    select: Option<String>,
    #[serde(rename = "where")]
    conditions: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a response that is streamed")]
#[schemars(rename = "Answered")]
enum EventsResponse {
    List(EventListing<Vec<Event>>),
    Selected(selected::Selected),
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EventListing")]
struct EventListing<T> {
    next: Option<String>,
    results: T,
}

async fn list(
    caller: Reader<Events>,
    url: RequestUrl,
    query: Query<ListQuery>,
    format: Format,
    app: App,
) -> Result<ListResponse> {
    if let Some(selected) = selected::list(&caller, &url, &query, format, &app).await? {
        return Ok(ListResponse::Selected(selected));
    }
    let zone = Zone::named(&caller.project.timezone);
    let now = app.events.now();
    let page = query.page(format)?;
    let mut filter = query.filter(now, &zone)?;
    if let Some(id) = given(query.action_id.as_ref()) {
        filter.action = Some(action(&app, &caller, id, now, &zone).await?);
    }
    let person_details = query.person_details();
    let order = page.order;
    query.resume(&mut filter, page.cursor.as_ref(), order);
    let events = app.events.list(&caller.project, &filter, page, person_details).await?;
    let next = events.next().map(|cursor| next_link(&url, cursor, order));
    streamed::respond(events, format, next).await.map(ListResponse::Events)
}

/// An unknown or hidden action matches no event, like one without steps.
async fn action(
    app: &App,
    caller: &Reader<Events>,
    id: &str,
    now: Timestamp,
    zone: &Zone,
) -> Result<ActionExpr> {
    let number = id.parse().map_err(|_| {
        Error::invalid("action_id", "invalid_input", "A valid integer is required.")
    })?;
    let action = app
        .catalog
        .actions()
        .get(caller.project.id, ActionId(number), catalog::Deleted::Exclude)
        .await;
    let steps = match action {
        Ok(action) if caller.level_of(&action) > AccessLevel::None => action.steps,
        Ok(_) | Err(catalog::Error::NotFound) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(ActionExpr::parse(&steps, now, zone).map_err(query::Error::from)?)
}

/// The link to the next page: after the last event's timestamp and its position among events with
/// the same timestamp.
fn next_link(url: &RequestUrl, cursor: &Cursor, order: Order) -> String {
    let (bound, time) = (bound_of(order), event_time(cursor.timestamp()));
    url.link(&[(bound, Some(&time)), ("cursor", Some(&cursor.to_string())), ("offset", None)])
}

const fn bound_of(order: Order) -> &'static str {
    match order {
        Order::NewestFirst => "before",
        Order::OldestFirst => "after",
    }
}

impl ListQuery {
    fn page(&self, format: Format) -> Result<EventPage> {
        let number = |text: &Option<String>| text.as_deref()?.parse::<i64>().ok();
        let default = match format {
            Format::Json => LIMIT_DEFAULT,
            Format::Csv => LIMIT_DEFAULT_CSV,
        };
        let limit = number(&self.limit).and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.filter(|limit| *limit > 0).unwrap_or(default).min(LIMIT_MAX);
        let offset = number(&self.offset).and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.unwrap_or(0);
        if offset > offset_max() {
            let most = offset_max();
            let detail = format!("Offset is deprecated. Max supported offset value is {most}");
            return Err(Error::invalid("offset", "invalid_input", detail));
        }
        let cursor = given(self.cursor.as_ref()).map(|text| {
            text.parse::<Cursor>().map_err(|_| {
                let detail = "Invalid cursor. Use the one in `next`.";
                Error::invalid("cursor", "invalid_input", detail)
            })
        });
        Ok(EventPage { order: self.order()?, limit, offset, cursor: cursor.transpose()? })
    }

    fn order(&self) -> Result<Order> {
        let Some(text) = given(self.order_by.as_ref()) else { return Ok(Order::NewestFirst) };
        let columns: Vec<String> = serde_json::from_str(text).map_err(|_| {
            let detail = "Must be a JSON array of columns, such as [\"-timestamp\"].";
            Error::invalid("orderBy", "invalid_input", detail)
        })?;
        Ok(match columns.as_slice() {
            [only] if only == "-timestamp" => Order::NewestFirst,
            _ => Order::OldestFirst,
        })
    }

    fn filter(&self, now: Timestamp, zone: &Zone) -> Result<EventFilter> {
        let timestamp = |name: &str, text: &Option<String>| {
            let Some(text) = given(text.as_ref()) else { return Ok(None) };
            parse_timestamp(text, now, zone).map(Some).ok_or_else(|| {
                let detail =
                    "Must be ISO 8601, as in 2024-03-01T10:00:00Z, or relative, as in -24h.";
                Error::invalid(name, "invalid_input", detail)
            })
        };
        let text = |text: &Option<String>| given(text.as_ref()).map(str::to_owned);
        let before = timestamp("before", &self.before)?;
        let after = timestamp("after", &self.after)?;
        let properties = match given(self.properties.as_ref()) {
            Some(text) => parse_filters(text, now, zone).map_err(query::Error::from)?,
            None => FilterExpr::default(),
        };
        Ok(EventFilter {
            event: text(&self.event),
            distinct_id: text(&self.distinct_id),
            person: text(&self.person_id),
            after,
            before: before.or(Some(now.plus_seconds(CLOCK_SKEW_SECONDS))),
            properties: FilterExpr::And(vec![properties, self.conditions(now, zone)?]),
            action: None,
        })
    }

    /// A cursor refines the time bound sent with it: it resumes after one of the events at that
    /// timestamp. If the bound is not the cursor's, the client changed it, and the bound wins.
    fn resume(&self, filter: &mut EventFilter, cursor: Option<&Cursor>, order: Order) {
        let bound = match order {
            Order::NewestFirst => &mut filter.before,
            Order::OldestFirst => &mut filter.after,
        };
        let Some(cursor) = cursor.filter(|cursor| *bound == Some(cursor.timestamp())) else {
            return;
        };
        // Include events at the cursor's timestamp, without rescanning earlier ones.
        let micros = cursor.timestamp().as_micros();
        *bound = match order {
            Order::NewestFirst => micros.checked_add(1),
            Order::OldestFirst => micros.checked_sub(1),
        }
        .map(Timestamp::from_micros);
    }

    fn person_details(&self) -> PersonDetails {
        person_details(self.include_person.as_ref())
    }
}

fn person_details(include_person: Option<&String>) -> PersonDetails {
    match given(include_person) {
        Some("true" | "True" | "1") => PersonDetails::Included,
        _ => PersonDetails::Omitted,
    }
}

#[derive(Deserialize, JsonSchema)]
struct ReadQuery {
    include_person: Option<String>,
}

async fn read(
    caller: Reader<Events>,
    id: StringId,
    query: Query<ReadQuery>,
    format: Format,
    app: App,
) -> Result<JsonOrCsv<Event>> {
    let uuid =
        Uuid::parse_str(&id.0).map_err(|_| Error::without_attr("invalid", "Invalid UUID"))?;
    let person_details = person_details(query.include_person.as_ref());
    let event =
        app.events.get(caller.project.id, uuid, person_details).await?.ok_or_else(|| {
            Error::not_found_because(format!("No events exist for event UUID {}", id.0))
        })?;
    Ok(match format {
        Format::Json => JsonOrCsv::Json(event),
        Format::Csv => JsonOrCsv::Csv(table(std::slice::from_ref(&event))?),
    })
}

fn table(events: &[Event]) -> Result<String> {
    let rows: Vec<Cells> = events.iter().map(streamed::cells).collect();
    csv::table(&rows)
}
