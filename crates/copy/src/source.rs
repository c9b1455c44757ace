//! Reads what there is to copy.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use crate::bodies;
use crate::kind::Kind;
use crate::report::Report;
use crate::site::{Progress, Site};
use crate::{Error, Result};

/// What PostHog gives at most in most lists.
const PAGE: usize = 100;
/// What a tile has besides its content.
pub const PRESENTATION: [&str; 5] =
    ["layouts", "color", "filters_overrides", "show_description", "transparent_background"];

/// The lists of a project, without what is not copied.
#[derive(Default)]
pub struct Lists {
    pub settings: Map<String, Value>,
    pub group_types: Vec<Value>,
    pub event_definitions: Vec<Value>,
    pub property_definitions: Vec<PropertyDefinition>,
    pub objects: BTreeMap<Kind, Vec<Value>>,
    /// By the id of their dashboard.
    pub tiles: Vec<(String, Vec<Value>)>,
}

pub struct PropertyDefinition {
    /// The `type` and `group_type_index` of the list it is in, as a query string.
    pub list: PropertyList,
    pub definition: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PropertyList {
    Event,
    Person,
    Group(String),
}

impl PropertyList {
    pub fn query(&self) -> String {
        match self {
            Self::Event => "type=event".into(),
            Self::Person => "type=person".into(),
            Self::Group(index) => format!("type=group&group_type_index={index}"),
        }
    }
}

/// The path of a list of a project.
pub fn list_path(project: &str, collection: &str, query: &str) -> String {
    let query = if query.is_empty() { String::new() } else { format!("&{query}") };
    format!("/api/projects/{project}/{collection}/?limit={PAGE}{query}")
}

/// A project: its settings, and its token for events and flags.
pub fn project(site: &Site<'_>, id: &str) -> Result<(Map<String, Value>, String)> {
    let Value::Object(fields) = site.get(&format!("/api/projects/{id}/"))? else {
        return Err(Error::NoProject(id.to_owned()));
    };
    let token = fields.get("api_token").and_then(Value::as_str).unwrap_or_default().to_owned();
    if token.is_empty() {
        return Err(Error::NoProject(id.to_owned()));
    }
    Ok((fields, token))
}

pub struct Reader<'r> {
    pub site: &'r Site<'r>,
    pub project: &'r str,
    pub report: &'r mut Report,
    pub progress: Progress<'r>,
}

impl Reader<'_> {
    /// Reads everything. A list that the key may not read is left out, and reported.
    pub fn lists(mut self) -> Result<Lists> {
        let (settings, _) = project(self.site, self.project)?;
        let mut lists = Lists { settings, ..Lists::default() };
        lists.group_types = self.list(Kind::GroupType, "")?;
        lists.event_definitions = self.list(Kind::EventDefinition, "")?;
        let mut kinds = vec![PropertyList::Event, PropertyList::Person];
        let indexes = lists.group_types.iter().filter_map(|kind| kind.get("group_type_index"));
        kinds.extend(indexes.map(|index| PropertyList::Group(index.to_string())));
        for list in kinds {
            let found = self.list(Kind::PropertyDefinition, &list.query())?;
            let with = |definition| PropertyDefinition { list: list.clone(), definition };
            lists.property_definitions.extend(found.into_iter().map(with));
        }
        for kind in Kind::OBJECTS {
            let objects = match kind {
                Kind::Dashboard => self.dashboards(&mut lists)?,
                // Without results.
                Kind::Insight => self.list(kind, "basic=true")?,
                Kind::Flag => {
                    let mut flags = self.list(kind, "")?;
                    // The list hides them otherwise.
                    flags.extend(self.list(kind, "archived=true")?);
                    flags
                }
                _ => self.list(kind, "")?,
            };
            let known = lists.objects.entry(kind).or_default();
            // Before those of tiles, which may say less.
            known.splice(0..0, objects);
            let mut seen = HashSet::new();
            known.retain(|object| seen.insert(id(object)));
        }
        if let Some(insights) = lists.objects.get_mut(&Kind::Insight) {
            insights.retain(is_kept);
        }
        Ok(lists)
    }

    fn list(&mut self, kind: Kind, query: &str) -> Result<Vec<Value>> {
        let path = list_path(self.project, kind.collection(), query);
        let plural = kind.collection().replace('_', " ");
        let seen = |count: usize| (self.progress)(&format!("reading {plural}: {count}"));
        let kept = |object: Value| {
            let is_live = object.get("deleted") != Some(&Value::Bool(true));
            is_live.then(|| trimmed(kind, object))
        };
        match self.site.list(&path, kept, seen) {
            Ok(objects) => Ok(objects),
            Err(why) => {
                self.report.leave_all(kind, why.refusal()?);
                Ok(Vec::new())
            }
        }
    }

    /// Dashboards with their tiles, which lists do not have. Tiles also bring insights that lists may
    /// omit, since they are saved nowhere else.
    fn dashboards(&mut self, lists: &mut Lists) -> Result<Vec<Value>> {
        let listed = self.list(Kind::Dashboard, "")?;
        let mut dashboards = Vec::with_capacity(listed.len());
        for (at, item) in listed.iter().enumerate() {
            (self.progress)(&format!("reading dashboard {} of {}", at + 1, listed.len()));
            let id = id(item);
            let path = format!("/api/projects/{}/dashboards/{id}/", self.project);
            let mut dashboard = match self.site.get(&path) {
                Ok(dashboard) => dashboard,
                Err(why) => {
                    let key = crate::Key::new(Kind::Dashboard, &id);
                    self.report.leave(&key, &bodies::title(Kind::Dashboard, item), why.refusal()?);
                    continue;
                }
            };
            let tiles = match dashboard.get_mut("tiles").map(Value::take) {
                Some(Value::Array(tiles)) => tiles,
                _ => Vec::new(),
            };
            let tiles = tiles.into_iter().filter(|tile| tile.get("deleted") != Some(&true.into()));
            let (mut kept, insights) =
                (Vec::new(), lists.objects.entry(Kind::Insight).or_default());
            for mut tile in tiles {
                if let Some(insight) = tile.get_mut("insight").filter(|insight| insight.is_object())
                {
                    let on_tile = trimmed(Kind::Insight, insight.take());
                    *insight = serde_json::json!({ "id": on_tile.get("id") });
                    insights.push(on_tile);
                }
                kept.push(tile_fields(tile));
            }
            lists.tiles.push((id, kept));
            dashboards.push(trimmed(Kind::Dashboard, dashboard));
        }
        Ok(dashboards)
    }
}

/// An insight that someone keeps. The others are drafts, which the source's lists omit too.
fn is_kept(insight: &Value) -> bool {
    let is_saved = insight.get("saved").and_then(Value::as_bool) == Some(true);
    let on = insight.get("dashboards").and_then(Value::as_array);
    is_saved || on.is_some_and(|on| !on.is_empty())
}

/// The id of an object as text; empty if it has none.
pub fn id(object: &Value) -> String {
    match object.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => String::new(),
    }
}

/// Only the fields that the copy reads.
pub fn trimmed(kind: Kind, object: Value) -> Value {
    match object {
        Value::Object(mut fields) => {
            fields.retain(|name, _| bodies::is_read(kind, name));
            Value::Object(fields)
        }
        other => other,
    }
}

fn tile_fields(tile: Value) -> Value {
    match tile {
        Value::Object(mut fields) => {
            let content = ["id", "insight", "text", "button_tile"];
            fields.retain(|name, _| {
                content.contains(&name.as_str()) || PRESENTATION.contains(&name.as_str())
            });
            Value::Object(fields)
        }
        other => other,
    }
}
