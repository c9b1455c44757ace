//! Related persons and groups: those that occur in the same events.

use std::collections::BTreeSet;

use catalog::{PersonWithIds, ProjectRow};
use model::group::Group;
use model::{ProjectId, Timestamp};
use query::{Event, EventFilter, EventPage, Order, PersonDetails, Zone, read_filters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Groups, index};
use crate::http::path::given;
use crate::persons::{PersonItem, display_names};
use crate::{App, AppState, Error, Json, Query, Reader, Result, Routes};

/// How far back events are read: 90 days, as upstream.
const LOOKBACK_SECONDS: i64 = 90 * 86_400;
/// The newest events that are read.
const EVENTS_MAX: usize = 10_000;
/// Persons, and groups, in a response.
const RESULTS_MAX: usize = 100;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("/api/projects/{project_id}/groups/related", related)
}

#[derive(Deserialize, JsonSchema)]
struct RelatedQuery {
    /// The group's type. Without it, `id` is a person's uuid.
    group_type_index: Option<String>,
    id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Related {
    Person(Box<PersonItem>),
    Group(GroupActor),
}

#[derive(Serialize, JsonSchema)]
struct GroupActor {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    group_type_index: u8,
    group_key: String,
    created_at: Timestamp,
    properties: Map<String, Value>,
    /// Always empty: there are no recordings.
    #[schemars(with = "Vec<String>")]
    matched_recordings: Vec<Value>,
    #[schemars(with = "Option<f64>")]
    value_at_data_point: Option<Value>,
}

impl From<Group> for GroupActor {
    fn from(group: Group) -> Self {
        Self {
            id: group.key.clone(),
            kind: "group",
            group_type_index: group.index,
            group_key: group.key,
            created_at: group.created_at,
            properties: group.properties,
            matched_recordings: Vec::new(),
            value_at_data_point: None,
        }
    }
}

/// The distinct ids and groups that occur in the events.
#[derive(Default)]
struct Mentions {
    distinct_ids: BTreeSet<String>,
    /// By type and key.
    groups: BTreeSet<(String, String)>,
}

impl Mentions {
    fn add(&mut self, event: &Event) {
        self.distinct_ids.insert(event.distinct_id.clone());
        let groups = event.properties.get("$groups");
        let groups: Option<Map<String, Value>> =
            groups.and_then(|json| serde_json::from_str(json.get()).ok());
        for (kind, key) in groups.into_iter().flatten() {
            let key = model::property::text(&key).into_owned();
            self.groups.insert((kind, key));
        }
    }
}

async fn related(
    caller: Reader<Groups>,
    query: Query<RelatedQuery>,
    app: App,
) -> Result<Json<Vec<Related>>> {
    let id = given(query.id.as_ref()).ok_or_else(|| Error::required("id"))?;
    let group_type = match given(query.group_type_index.as_ref()) {
        Some(_) => Some(index(query.group_type_index.as_ref())?),
        None => None,
    };
    let (now, project) = (app.events.now(), caller.project.id);
    let mut filter =
        EventFilter { after: Some(now.plus_seconds(-LOOKBACK_SECONDS)), ..EventFilter::default() };
    match group_type {
        Some(index) => {
            let key = format!("$group_{index}");
            let in_group = json!([{ "type": "event_metadata", "key": key, "value": [id] }]);
            let zone = Zone::named(&caller.project.timezone);
            filter.properties = read_filters(&in_group, now, &zone).map_err(query::Error::from)?;
        }
        None => filter.person = Some(id.to_owned()),
    }
    let mentions = collect_mentions(&app, &caller.project, &filter).await?;
    let mut related: Vec<Related> = Vec::new();
    if group_type.is_some() {
        let display = display_names(&caller);
        let persons = persons(&app, project, &mentions).await?.into_iter();
        related.extend(
            persons.map(|person| Related::Person(Box::new(PersonItem::of(person, &display)))),
        );
    }
    let groups = groups(&app, project, &mentions, group_type).await?;
    related.extend(groups.into_iter().map(|group| Related::Group(group.into())));
    Ok(Json(related))
}

async fn collect_mentions(
    app: &AppState,
    project: &ProjectRow,
    filter: &EventFilter,
) -> Result<Mentions> {
    let mut mentions = Mentions::default();
    let page = EventPage { order: Order::NewestFirst, limit: EVENTS_MAX, offset: 0, cursor: None };
    let mut events_found = app.events.list(project, filter, page, PersonDetails::Omitted).await?;
    while let Some(events) = events_found.batch().await? {
        events.iter().for_each(|event| mentions.add(event));
    }
    Ok(mentions)
}

/// Each person once, however many of its distinct ids occur.
async fn persons(
    app: &AppState,
    project: ProjectId,
    mentions: &Mentions,
) -> Result<Vec<PersonWithIds>> {
    let ids: Vec<&str> = mentions.distinct_ids.iter().map(String::as_str).collect();
    let stored = app.catalog.persons().distinct_ids(project, &ids).await?;
    let numbers: BTreeSet<_> = stored.into_iter().filter_map(|id| id.person).collect();
    let numbers: Vec<_> = numbers.into_iter().take(RESULTS_MAX).collect();
    Ok(app.catalog.persons().with_distinct_ids(project, &numbers).await?)
}

/// The stored groups of types other than `excluded_type`.
async fn groups(
    app: &AppState,
    project: ProjectId,
    mentions: &Mentions,
    excluded_type: Option<u8>,
) -> Result<Vec<Group>> {
    let types = app.catalog.groups().types(project).await?;
    let keys: Vec<(u8, &str)> = mentions
        .groups
        .iter()
        .filter_map(|(kind, key)| {
            let kind = types.iter().find(|known| known.name == *kind)?;
            Some((kind.index, key.as_str()))
        })
        .filter(|(kind, _)| excluded_type != Some(*kind))
        .take(RESULTS_MAX)
        .collect();
    let mut groups = app.catalog.groups().by_key(project, &keys).await?;
    groups.sort_by(|a, b| (a.index, &a.key).cmp(&(b.index, &b.key)));
    Ok(groups)
}
