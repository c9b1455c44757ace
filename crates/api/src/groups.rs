//! Groups: companies, teams and other entities that events refer to. Edits go through the journal,
//! like those of persons.

mod properties;
mod related;
mod types;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use catalog::{GroupActivity, GroupFilter};
use model::edit::Edit;
use model::group::{GROUP_TYPES_MAX, Group};
use model::{ProjectId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::body::{max_chars, not_blank};
use crate::http::path::{given, search};
use crate::ingestion::edits::change;
use crate::{
    App, AppState, Body, Created, Error, Json, Query, Reader, RequestUrl, Resource, Result, Routes,
    Writer,
};

/// Upstream's page size, which clients cannot choose.
const PAGE_GROUPS: usize = 100;
/// The bound of ingestion.
const KEY_CHARS_MAX: usize = 400;

pub(crate) enum Groups {}

pub(crate) use types::TypeItem;

impl Resource for Groups {
    const SCOPE: &'static str = "group";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = routes
        .get("/api/projects/{project_id}/groups", list)
        .post("/api/projects/{project_id}/groups", create)
        .get("/api/projects/{project_id}/groups/find", find)
        .post("/api/projects/{project_id}/groups/update_property", update_property)
        .post("/api/projects/{project_id}/groups/delete_property", delete_property);
    related::routes(properties::routes(types::routes(routes)))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Group")]
struct GroupItem {
    group_type_index: u8,
    group_key: String,
    group_properties: Map<String, Value>,
    created_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
struct GroupListing {
    next: Option<String>,
    previous: Option<String>,
    results: Vec<GroupItem>,
}

impl From<Group> for GroupItem {
    fn from(group: Group) -> Self {
        Self {
            group_type_index: group.index,
            group_key: group.key,
            group_properties: group.properties,
            created_at: group.created_at,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    group_type_index: Option<String>,
    group_key: Option<String>,
    /// A substring of the key or of the name.
    search: Option<String>,
    /// From the previous page's `next`.
    cursor: Option<String>,
}

fn index(text: Option<&String>) -> Result<u8> {
    let text = given(text).ok_or_else(|| Error::required("group_type_index"))?;
    let index = text.parse().ok().filter(|index| *index < GROUP_TYPES_MAX);
    index.ok_or_else(|| {
        let detail = "A valid index of a group type is required.";
        Error::invalid("group_type_index", "invalid_input", detail)
    })
}

async fn list(
    caller: Reader<Groups>,
    url: RequestUrl,
    query: Query<ListQuery>,
    app: App,
) -> Result<Json<GroupListing>> {
    let index = index(query.group_type_index.as_ref())?;
    let filter = GroupFilter {
        key: given(query.group_key.as_ref()).map(str::to_owned),
        search: search(query.search.as_ref())?,
        after: given(query.cursor.as_ref()).map(parse_cursor).transpose()?,
    };
    let limit = PAGE_GROUPS as i64 + 1;
    let mut groups = app.catalog.groups().list(caller.project.id, index, &filter, limit).await?;
    let more = groups.len() > PAGE_GROUPS;
    groups.truncate(PAGE_GROUPS);
    let last = groups.last().filter(|_| more).map(cursor);
    let next = last.map(|cursor| url.link(&[("cursor", Some(&cursor))]));
    let results = groups.into_iter().map(Into::into).collect();
    Ok(Json(GroupListing { next, previous: None, results }))
}

fn cursor(last: &Group) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}:{}", last.created_at.as_micros(), last.key))
}

fn parse_cursor(cursor: &str) -> Result<(Timestamp, String)> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (micros, key) = text.split_once(':')?;
        let key = Some(key).filter(|key| !key.contains('\0'))?;
        Some((Timestamp::from_micros(micros.parse().ok()?), key.to_owned()))
    };
    read().ok_or_else(|| Error::invalid("cursor", "invalid_input", "Invalid cursor"))
}

#[derive(Deserialize, JsonSchema)]
struct OneQuery {
    group_type_index: Option<String>,
    group_key: Option<String>,
}

async fn find_group(app: &AppState, project: ProjectId, query: &OneQuery) -> Result<Group> {
    let index = index(query.group_type_index.as_ref())?;
    let key = given(query.group_key.as_ref()).ok_or_else(|| Error::required("group_key"))?;
    let groups = app.catalog.groups().by_key(project, &[(index, key)]).await?;
    groups.into_iter().next().ok_or_else(Error::not_found)
}

async fn find(caller: Reader<Groups>, query: Query<OneQuery>, app: App) -> Result<Json<GroupItem>> {
    Ok(Json(find_group(&app, caller.project.id, &query).await?.into()))
}

#[derive(Deserialize, JsonSchema)]
struct NewGroup {
    group_type_index: u32,
    group_key: String,
    #[serde(default)]
    group_properties: Map<String, Value>,
}

async fn create(
    caller: Writer<Groups>,
    app: App,
    body: Body<NewGroup>,
) -> Result<Created<GroupItem>> {
    let NewGroup { group_type_index, group_key: key, group_properties: set } = body.read()?;
    not_blank("group_key", &key)?;
    max_chars("group_key", &key, KEY_CHARS_MAX)?;
    let project = caller.project.id;
    let types = app.catalog.groups().types(project).await?;
    let kind = types.into_iter().find(|kind| u32::from(kind.index) == group_type_index);
    let index = kind.map(|kind| kind.index).ok_or_else(|| {
        let detail = "The project has no such group type.";
        Error::invalid("group_type_index", "does_not_exist", detail)
    })?;
    if !app.catalog.groups().by_key(project, &[(index, &key)]).await?.is_empty() {
        let detail = "A group with this key already exists";
        return Err(Error::invalid("group_key", "unique", detail));
    }
    let created_at = app.catalog.clock().now();
    let (group_key, group_properties) = (key.clone(), set.clone());
    change(&app, project, Edit::ChangeGroup { index, key, set, unset: Vec::new() }).await?;
    log(&app, &caller, (index, &group_key), GroupActivity::Created).await?;
    Ok(Created(GroupItem { group_type_index: index, group_key, group_properties, created_at }))
}

#[derive(Deserialize, JsonSchema)]
struct NewValue {
    key: String,
    value: Value,
}

async fn update_property(
    caller: Writer<Groups>,
    query: Query<OneQuery>,
    app: App,
    body: Body<NewValue>,
) -> Result<Json<GroupItem>> {
    let NewValue { key, value } = body.read()?;
    let mut group = find_group(&app, caller.project.id, &query).await?;
    let set = Map::from_iter([(key, value)]);
    group.properties.extend(set.clone());
    let (index, key) = (group.index, group.key.clone());
    let edit = Edit::ChangeGroup { index, key, set, unset: Vec::new() };
    change(&app, caller.project.id, edit).await?;
    log(&app, &caller, (group.index, &group.key), GroupActivity::Updated).await?;
    Ok(Json(group.into()))
}

#[derive(Deserialize, JsonSchema)]
struct Unset {
    #[serde(rename = "$unset")]
    unset: String,
}

async fn delete_property(
    caller: Writer<Groups>,
    query: Query<OneQuery>,
    app: App,
    body: Body<Unset>,
) -> Result<Json<GroupItem>> {
    let Unset { unset } = body.read()?;
    let mut group = find_group(&app, caller.project.id, &query).await?;
    group.properties.remove(&unset);
    let (index, key) = (group.index, group.key.clone());
    let edit = Edit::ChangeGroup { index, key, set: Map::new(), unset: vec![unset] };
    change(&app, caller.project.id, edit).await?;
    log(&app, &caller, (group.index, &group.key), GroupActivity::PropertyDeleted).await?;
    Ok(Json(group.into()))
}

/// Adds an entry to the activity log, without the change's values.
async fn log(
    app: &AppState,
    caller: &Writer<Groups>,
    group: (u8, &str),
    activity: GroupActivity,
) -> Result<()> {
    Ok(app.catalog.groups().log(&caller.actor(), group, activity).await?)
}
