//! `ActorsQuery`: persons or groups as rows, all of a project or those behind a number.

use std::collections::HashMap;
use std::sync::Arc;

use facts::{CohortFacts, Cohorts, Groups, World};
use hogql::ast::{BinaryOp, Body, Column, Expr, ExprKind, From, Literal, Order, Query, Select};
use hogql::ast::{LogicOp, Name, Source as Table, SourceKind};
use hogql::plan::Plan;
use hogql::{Project, Span};
use insights::{Actor, Behind, Insight, Point};
use model::CohortId;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::conditions::{
    Conditions, Rows, all, binary, call, check, field, in_cohort, literal, logic,
};
use crate::events_query::{aliased, object, read_order, written};
use crate::question::{ALWAYS_ALLOWED, Overrides, strict_part};
use crate::{Error, Result};

const LIMIT_DEFAULT: u64 = 100;
const COLUMNS_MAX: usize = 100;
/// What is shown unless something else is asked for.
const SELECT: [&str; 4] = ["actor", "id", "created_at", "person.$delete"];
/// In the statement, those behind the number are a cohort; no stored one has this id.
const BEHIND: CohortId = CohortId(i64::MAX);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Own {
    #[serde(rename = "kind")]
    _kind: String,
    source: Option<Map<String, Json>>,
    select: Option<Vec<String>>,
    search: Option<String>,
    properties: Json,
    fixed_properties: Json,
    order_by: Option<Vec<String>>,
    limit: Option<u64>,
    offset: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct ActorsQuery {
    own: Own,
    pub behind: Option<(Box<Insight>, Box<Point>)>,
}

/// Columns that are put together after the rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Plain,
    Person,
    Group,
    PersonName,
    /// Out of who is behind the number.
    Events,
    Appearances,
    Nothing,
    NoRecordings,
}

pub(crate) struct ActorsPlan {
    pub plan: Plan,
    /// The world that the plan runs in.
    pub world: Arc<World>,
    pub columns: Vec<String>,
    pub limit: u64,
    pub offset: u64,
    /// How many are behind the number of whom nothing is stored.
    pub missing: Option<usize>,
    shapes: Vec<Shape>,
    group: Option<usize>,
    /// By id, those behind the number.
    actors: HashMap<String, Actor>,
    /// Rows are put into order by how many events they have, descending or not.
    by_events: Option<bool>,
}

impl ActorsQuery {
    pub fn read(query: &Map<String, Json>) -> Result<Self> {
        let mut own: Own = serde_json::from_value(Json::Object(strict_part(query)))
            .map_err(|why| Error::Parse(why.to_string()))?;
        let behind = own.source.take().map(source).transpose()?;
        Ok(Self { own, behind })
    }

    /// Whether its expressions and filters can be read. Those behind a number may be persons or
    /// groups.
    pub fn check(&self) -> Result<()> {
        let group = self.behind.as_ref().map(|_| 0);
        self.order(group)?;
        for text in self.own.select.iter().flatten() {
            column(written(text), group)?;
        }
        for filters in [&self.own.properties, &self.own.fixed_properties] {
            check(filters, Rows::Persons).or_else(|why| match &self.behind {
                Some(_) => check(filters, Rows::Groups).map_err(|_| why),
                None => Err(why),
            })?;
        }
        self.behind.iter().try_for_each(|(insight, _)| Ok(insight.check()?))
    }

    pub fn want_rows(&mut self, rows: u64) {
        self.own.limit = self.own.limit.or(Some(rows));
    }

    /// Whether its filters may name cohorts.
    pub fn names_cohorts(&self) -> bool {
        format!("{:?}", self.own).to_ascii_lowercase().contains("cohort")
    }

    pub fn plan(
        &self,
        overrides: &Overrides,
        project: Project,
        world: &Arc<World>,
        behind: Option<Behind>,
    ) -> Result<ActorsPlan> {
        let group = behind.as_ref().and_then(|behind| behind.group);
        let (mut project, mut world) = (project, world.clone());
        let (order, by_events) = self.order(group)?;
        let (mut actors, mut missing) = (HashMap::new(), None);
        let known = behind.is_some();
        if let Some(mut behind) = behind {
            let all = behind.actors.len();
            behind.actors.retain(|actor| is_stored(&world, group, actor));
            missing = Some(all - behind.actors.len());
            if let Some(descending) = by_events {
                let events = |actor: &Actor| actor.events;
                match descending {
                    true => behind.actors.sort_by_key(|actor| std::cmp::Reverse(events(actor))),
                    false => behind.actors.sort_by_key(events),
                }
                behind.actors.truncate(hogql::limits::ROWS_MAX as usize);
            }
            world = Arc::new(among(&world, &behind));
            actors = by_id(&world, behind);
            project.cohorts.insert(BEHIND, String::new());
        }
        let mut shapes = Vec::new();
        let mut columns = Vec::new();
        let mut exprs = Vec::new();
        let asked = self.own.select.clone().filter(|select| !select.is_empty());
        let asked = asked.unwrap_or_else(|| SELECT.map(str::to_owned).to_vec());
        if asked.len() > COLUMNS_MAX {
            return Err(Error::Refused(format!("At most {COLUMNS_MAX} columns can be selected.")));
        }
        for text in &asked {
            let (shape, expr, alias) = column(written(text), group)?;
            columns.push(alias.unwrap_or_else(|| text.clone()));
            shapes.push(shape);
            exprs.push(expr);
        }
        exprs.push(call("toString", vec![id(group)]));
        let limit = self.own.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, hogql::limits::ROWS_MAX);
        let offset = self.own.offset.unwrap_or(0);
        let int = |value: u64| expr(ExprKind::Literal(Literal::Int(value)));
        let (first, count) = match by_events {
            // Put into order, and cut, when the rows are there.
            Some(_) => (0, hogql::limits::ROWS_MAX),
            None => (offset, limit + 1),
        };
        let table = if group.is_some() { "groups" } else { "persons" };
        let table = SourceKind::Table(Name::new(table, Span::default()));
        let select = Select {
            columns: exprs.into_iter().map(|expr| Column { expr, alias: None }).collect(),
            from: Some(From {
                first: Table { kind: table, alias: None, span: Span::default() },
                joins: Vec::new(),
            }),
            filter: Some(all(self.conditions(overrides, &world, group, known)?)),
            order,
            limit: Some(int(count)),
            offset: Some(int(first)),
            ..Select::default()
        };
        let query = Query { with: Vec::new(), body: Body::Select(Box::new(select)) };
        let plan = hogql::resolve(&query, "", &project, None)?;
        let plan = ActorsPlan {
            plan,
            world,
            columns,
            limit,
            offset,
            missing,
            shapes,
            group,
            actors,
            by_events,
        };
        Ok(plan)
    }

    fn conditions(
        &self,
        overrides: &Overrides,
        world: &World,
        group: Option<usize>,
        known: bool,
    ) -> Result<Vec<Expr>> {
        let rows = if group.is_some() { Rows::Groups } else { Rows::Persons };
        let filters = Conditions::new(world, rows);
        let mut parts = Vec::new();
        for properties in [&self.own.properties, &self.own.fixed_properties] {
            parts.extend(filters.read(properties)?);
        }
        // On top of a number, a dashboard's filters are the insight's.
        if self.behind.is_none() {
            for properties in overrides.properties() {
                parts.extend(filters.read(properties)?);
            }
        }
        match group {
            Some(index) => {
                let index = expr(ExprKind::Literal(Literal::Int(index as u64)));
                parts.push(binary(BinaryOp::Equal, field(&["index"]), index));
            }
            None if known => parts.push(in_cohort(field(&["id"]), BEHIND, false)),
            None => {}
        }
        if let Some(text) =
            self.own.search.as_deref().map(str::trim).filter(|text| !text.is_empty())
        {
            parts.push(search(text, group));
        }
        Ok(parts)
    }

    /// By what rows are sorted; newest first unless something else is asked for.
    fn order(&self, group: Option<usize>) -> Result<(Vec<Order>, Option<bool>)> {
        let last = Order { expr: id(group), descending: false, nulls_first: None };
        let mut order = Vec::new();
        let given = self.own.order_by.iter().flatten();
        for text in given.flat_map(|text| parts(text)).filter(|text| !text.trim().is_empty()) {
            let mut by = read_order(text)?;
            if by.expr.kind == field(&["event_count"]).kind {
                if self.behind.is_none() {
                    let detail = "Only those behind a number have an event_count.";
                    return Err(Error::Refused(detail.into()));
                }
                if order.is_empty() {
                    return Ok((vec![last], Some(by.descending)));
                }
                continue;
            }
            if ["id", "actor_id", "person_id"]
                .iter()
                .any(|name| by.expr.kind == field(&[name]).kind)
            {
                by.expr = id(group);
            }
            order.push(by);
        }
        if order.is_empty() {
            let newest =
                Order { expr: field(&["created_at"]), descending: true, nulls_first: None };
            order.push(newest);
        }
        order.push(last);
        Ok((order, None))
    }
}

/// `a DESC, b ASC` as one text is two.
fn parts(text: &str) -> Vec<&str> {
    match text.contains('(') {
        true => vec![text],
        false => text.split(',').collect(),
    }
}

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

fn source(mut source: Map<String, Json>) -> Result<(Box<Insight>, Box<Point>)> {
    let kind = source.remove("kind");
    let kind = kind.as_ref().and_then(Json::as_str).unwrap_or_default();
    if !["InsightActorsQuery", "FunnelsActorsQuery"].contains(&kind) {
        let detail = "The source of an ActorsQuery is an InsightActorsQuery or FunnelsActorsQuery.";
        return Err(Error::Parse(detail.into()));
    }
    ALWAYS_ALLOWED.iter().for_each(|name| drop(source.remove(*name)));
    source.retain(|_, value| !value.is_null());
    let inner = source.remove("source").unwrap_or_default();
    let of = inner.get("kind").and_then(Json::as_str).unwrap_or_default();
    let insight = match Insight::parse(of, &inner) {
        Some(insight) if kind == "InsightActorsQuery" || of == "FunnelsQuery" => insight?,
        _ => return Err(Error::Parse(format!("'{of}' cannot be the source of an {kind}."))),
    };
    let point = Point::read(Json::Object(source))?;
    Ok((Box::new(insight), Box::new(point)))
}

fn id(group: Option<usize>) -> Expr {
    field(&[if group.is_some() { "key" } else { "id" }])
}

fn column(bare: &str, group: Option<usize>) -> Result<(Shape, Expr, Option<String>)> {
    let tuple = |names: &[&str]| call("tuple", names.iter().map(|name| field(&[name])).collect());
    let zero = || expr(ExprKind::Literal(Literal::Int(0)));
    Ok(match (bare, group) {
        ("actor" | "group", Some(_)) => {
            (Shape::Group, tuple(&["key", "created_at", "properties"]), None)
        }
        ("actor" | "person", None) => {
            let fields = ["id", "created_at", "properties", "is_identified", "distinct_ids"];
            (Shape::Person, tuple(&fields), None)
        }
        ("person_display_name", None) => {
            (Shape::PersonName, tuple(&["properties", "id", "distinct_ids"]), None)
        }
        ("person.$delete" | "group.$delete", _) => (Shape::Nothing, zero(), None),
        ("event_count", _) => (Shape::Events, zero(), None),
        ("appearances", _) => (Shape::Appearances, zero(), None),
        ("matched_recordings", _) => (Shape::NoRecordings, zero(), None),
        ("id" | "actor_id", _) => (Shape::Plain, id(group), None),
        _ => {
            let (expr, alias) = aliased(bare)?;
            (Shape::Plain, expr, alias)
        }
    })
}

/// A part of the email or the name, or the whole of an id.
fn search(text: &str, group: Option<usize>) -> Expr {
    let part = |of: Expr| {
        let place = call("position", vec![call("lower", vec![of]), literal(&text.to_lowercase())]);
        binary(BinaryOp::Greater, place, expr(ExprKind::Literal(Literal::Int(0))))
    };
    let property = |name: &str| call("toString", vec![field(&["properties", name])]);
    let own = match group {
        Some(_) => vec![part(field(&["key"])), part(property("name"))],
        None => vec![
            part(property("email")),
            part(property("name")),
            call("has", vec![field(&["distinct_ids"]), literal(text)]),
            binary(BinaryOp::Equal, call("toString", vec![field(&["id"])]), literal(text)),
        ],
    };
    logic(LogicOp::Or, own)
}

/// The world in which those behind the number can be told from the others.
fn among(world: &World, behind: &Behind) -> World {
    let mut own = world.clone();
    match behind.group {
        None => {
            let members = behind.actors.iter().map(|actor| actor.number).collect();
            let facts = CohortFacts { members, ..CohortFacts::default() };
            let stored = world.cohorts.iter().map(|(id, facts)| (id, facts.clone()));
            own.cohorts = Arc::new(stored.chain([(BEHIND, facts)]).collect::<Cohorts>());
        }
        Some(index) => {
            let mut groups = Groups::default();
            for actor in &behind.actors {
                if let Some(facts) = world.groups.get(index, &actor.key) {
                    groups.set(index, &actor.key, facts.clone());
                }
            }
            own.groups = Arc::new(groups);
        }
    }
    own
}

/// Some actors only have events.
fn is_stored(world: &World, group: Option<usize>, actor: &Actor) -> bool {
    match group {
        None => world.people.person(actor.number).is_some(),
        Some(index) => world.groups.get(index, &actor.key).is_some(),
    }
}

fn by_id(world: &World, behind: Behind) -> HashMap<String, Actor> {
    let id = |actor: &Actor| match behind.group {
        None => world.people.uuid(actor.number).to_string(),
        Some(_) => actor.key.clone(),
    };
    behind.actors.into_iter().map(|actor| (id(&actor), actor)).collect()
}

impl ActorsPlan {
    /// Types of the columns as they are shown; `found` are those of the statement.
    pub fn types(&self, found: &[hogql::types::Type]) -> Vec<String> {
        let of = |(shape, found): (&Shape, &hogql::types::Type)| match shape {
            Shape::Events => "UInt64".to_owned(),
            Shape::Appearances => "Array(UInt64)".to_owned(),
            Shape::NoRecordings => "Array(Nothing)".to_owned(),
            Shape::Nothing => "Nullable(Nothing)".to_owned(),
            Shape::Plain | Shape::Person | Shape::Group | Shape::PersonName => {
                found.name(&self.plan.zone)
            }
        };
        self.shapes.iter().zip(found).map(of).collect()
    }

    /// The rows of the page, and whether there are more.
    pub fn page(&self, mut rows: Vec<Vec<Json>>, more: bool) -> (Vec<Vec<Json>>, bool) {
        let own =
            |row: &Vec<Json>| row.last().and_then(Json::as_str).and_then(|id| self.actors.get(id));
        let mut more = more;
        if let Some(descending) = self.by_events {
            let events = |row: &Vec<Json>| own(row).map_or(0, |actor| actor.events);
            // Equal ones stay in the order of their ids.
            match descending {
                true => rows.sort_by_key(|row| std::cmp::Reverse(events(row))),
                false => rows.sort_by_key(events),
            }
            let offset = usize::try_from(self.offset).unwrap_or(usize::MAX).min(rows.len());
            rows.drain(..offset);
        }
        more |= rows.len() as u64 > self.limit;
        rows.truncate(self.limit as usize);
        for row in &mut rows {
            let actor = own(row).cloned().unwrap_or_default();
            row.truncate(self.columns.len());
            row.iter_mut().zip(&self.shapes).for_each(|(value, shape)| {
                *value = self.shape(*shape, std::mem::take(value), &actor);
            });
        }
        (rows, more)
    }

    fn shape(&self, shape: Shape, value: Json, actor: &Actor) -> Json {
        let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
        match (shape, parts) {
            (Shape::Events, _) => json!(actor.events),
            (Shape::Appearances, _) => json!(actor.appearances),
            (Shape::Nothing, _) => Json::Null,
            (Shape::NoRecordings, _) => json!([]),
            (Shape::Person, [id, created_at, properties, is_identified, distinct_ids]) => json!({
                "id": id,
                "created_at": created_at,
                "properties": object(properties),
                "is_identified": is_identified,
                "distinct_ids": distinct_ids,
            }),
            (Shape::Group, [key, created_at, properties]) => json!({
                "id": key,
                "type": "group",
                "group_key": key,
                "group_type_index": self.group,
                "created_at": created_at,
                "properties": object(properties),
            }),
            (Shape::PersonName, [properties, id, distinct_ids]) => {
                let properties = object(properties);
                let named = ["email", "name", "username"].into_iter().find_map(|name| {
                    properties.get(name).and_then(Json::as_str).filter(|text| !text.is_empty())
                });
                let first = distinct_ids.get(0).and_then(Json::as_str);
                let shown = named.or(first).or(id.as_str());
                json!({ "display_name": shown, "id": id, "distinct_id": first })
            }
            _ => value,
        }
    }
}
