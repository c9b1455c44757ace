//! `ActorsQuery`: persons or groups as rows; all of a project, or the actors of one data point of an
//! insight.

use std::collections::HashMap;

use facts::QueryContext;
use hogql::ast::{BinaryOp, Body, Column, Expr, ExprKind, From, Literal, Order, Query, Select};
use hogql::ast::{LogicOp, Name, Source as Table, SourceKind};
use hogql::plan::Plan;
use hogql::types::Kind;
use hogql::{Filters, Project, Span};
use insights::{Actor, InsightActors};
use model::CohortId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::conditions::{
    Conditions, Rows, all, binary, call, check, field, in_cohort, literal, logic,
};
use crate::drill_down::DrillDown;
use crate::events_query::{aliased, object, read_order, strip_comment};
use crate::hogql_query::HogqlQuery;
use crate::parse::{Overrides, read_strictly, strict_part};
use crate::store::View;
use crate::{Error, Result};

const LIMIT_DEFAULT: u64 = 100;
const COLUMNS_MAX: usize = 100;
/// The default columns.
const SELECT: [&str; 4] = ["actor", "id", "created_at", "person.$delete"];
/// The columns of a data point that is asked for alone.
const POINT_SELECT: [&str; 2] = ["actor_id", "event_count"];
/// Columns of a source statement that name the person, the first of them that it has.
const ID_COLUMNS: [&str; 3] = ["actor_id", "person_id", "id"];
/// In the statement, the actors of the data point are a cohort; no stored cohort has this id.
const DRILL_DOWN: CohortId = CohortId(i64::MAX);

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "ActorsFields")]
pub(crate) struct Fields {
    #[serde(rename = "kind")]
    _kind: String,
    #[schemars(skip)]
    source: Option<Map<String, Json>>,
    select: Option<Vec<String>>,
    search: Option<String>,
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    properties: Json,
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    fixed_properties: Json,
    order_by: Option<Vec<String>>,
    limit: Option<u64>,
    offset: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct ActorsQuery {
    fields: Fields,
    pub source: Option<DrillDown>,
    /// A statement whose rows name the persons.
    statement: Option<Box<HogqlQuery>>,
}

/// How a column's JSON is built from the statement's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Plain,
    Person,
    Group,
    PersonName,
    /// The actor's number of events at the data point.
    Events,
    Appearances,
    Nothing,
    NoRecordings,
}

pub(crate) struct ActorsPlan {
    pub plan: Plan,
    /// The view that the plan runs on.
    pub view: View,
    pub columns: Vec<String>,
    pub limit: u64,
    pub offset: u64,
    /// How many actors of the data point are not stored as a person or group.
    pub missing: Option<usize>,
    shapes: Vec<Shape>,
    group: Option<usize>,
    /// The actors of the data point, by id.
    actors: HashMap<String, Actor>,
    /// Set to sort rows by event count after the statement has run: whether descending.
    by_events: Option<bool>,
}

impl ActorsQuery {
    pub fn read(query: &Map<String, Json>) -> Result<Self> {
        let mut fields: Fields = serde_json::from_value(Json::Object(strict_part(query)))
            .map_err(|why| Error::Parse(why.to_string()))?;
        let source = fields.source.take();
        let is_statement = |source: &Map<String, Json>| {
            source.get("kind").and_then(Json::as_str) == Some("HogQLQuery")
        };
        let (source, statement) = match source {
            Some(source) if is_statement(&source) => {
                let statement = read_strictly(&Json::Object(strict_part(&source)))?;
                (None, Some(Box::new(statement)))
            }
            source => {
                let parse = |source| DrillDown::parse("ActorsQuery", source);
                (source.map(parse).transpose()?, None)
            }
        };
        Ok(Self { fields, source, statement })
    }

    pub fn statement_mut(&mut self) -> Option<&mut HogqlQuery> {
        self.statement.as_deref_mut()
    }

    /// A data point that is asked for alone: ids and numbers of events of its actors.
    pub fn of_point(source: &Map<String, Json>) -> Result<Self> {
        let select = POINT_SELECT.map(str::to_owned).to_vec();
        let fields = Fields { select: Some(select), ..Fields::default() };
        let source = Some(DrillDown::parse("ActorsQuery", source.clone())?);
        Ok(Self { fields, source, statement: None })
    }

    /// Whether its expressions and filters can be parsed. The actors of a data point may be persons
    /// or groups.
    pub fn check(&self) -> Result<()> {
        let group = self.source.as_ref().map(|_| 0);
        self.order(group)?;
        for text in self.fields.select.iter().flatten() {
            column(strip_comment(text), group)?;
        }
        for filters in [&self.fields.properties, &self.fields.fixed_properties] {
            check(filters, Rows::Persons).or_else(|why| match &self.source {
                Some(_) => check(filters, Rows::Groups).map_err(|_| why),
                None => Err(why),
            })?;
        }
        self.statement.iter().try_for_each(|statement| statement.check())?;
        self.source.iter().try_for_each(DrillDown::check)
    }

    pub fn set_default_limit(&mut self, rows: u64) {
        self.fields.limit = self.fields.limit.or(Some(rows));
    }

    /// Whether its filters may reference cohorts.
    pub fn mentions_cohorts(&self) -> bool {
        let text = format!("{:?} {:?}", self.fields, self.statement);
        text.to_ascii_lowercase().contains("cohort")
    }

    pub fn plan(
        &self,
        overrides: &Overrides,
        project: Project,
        view: &View,
        drill_down: Option<InsightActors>,
    ) -> Result<ActorsPlan> {
        let group = drill_down.as_ref().and_then(|drill_down| drill_down.group);
        let (mut project, mut view) = (project, view.clone());
        let (order, by_events) = self.order(group)?;
        let (mut actors, mut missing) = (HashMap::new(), None);
        let is_drill_down = drill_down.is_some();
        if let Some(mut drill_down) = drill_down {
            let all = drill_down.actors.len();
            view.retain_stored(&mut drill_down);
            missing = Some(all - drill_down.actors.len());
            if let Some(descending) = by_events {
                let events = |actor: &Actor| actor.events;
                match descending {
                    true => drill_down.actors.sort_by_key(|actor| std::cmp::Reverse(events(actor))),
                    false => drill_down.actors.sort_by_key(events),
                }
                drill_down.actors.truncate(hogql::limits::ROWS_MAX as usize);
            }
            view = view.restrict_to_actors(DRILL_DOWN, &drill_down);
            actors = view.actors_by_id(drill_down);
            project.cohorts.insert(DRILL_DOWN, String::new());
        }
        let mut shapes = Vec::new();
        let mut columns = Vec::new();
        let mut exprs = Vec::new();
        let selected = self.fields.select.clone().filter(|select| !select.is_empty());
        let selected = selected.unwrap_or_else(|| SELECT.map(str::to_owned).to_vec());
        if selected.len() > COLUMNS_MAX {
            return Err(Error::Invalid(format!("At most {COLUMNS_MAX} columns can be selected.")));
        }
        for text in &selected {
            let (shape, expr, alias) = column(strip_comment(text), group)?;
            columns.push(alias.unwrap_or_else(|| text.clone()));
            shapes.push(shape);
            exprs.push(expr);
        }
        exprs.push(call("toString", vec![id(group)]));
        let limit = self.fields.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, hogql::limits::ROWS_MAX);
        let offset = self.fields.offset.unwrap_or(0);
        let mut conditions = self.conditions(overrides, view.context(), group, is_drill_down)?;
        let mut filters = None;
        if let Some(statement) = &self.statement {
            let (source, around) = statement.filled(overrides, view.context())?;
            filters = around;
            conditions.push(named_by(source, &project, filters.as_ref())?);
        }
        let int = |value: u64| expr(ExprKind::Literal(Literal::Int(value)));
        let (first, count) = match by_events {
            // Sorted and paged after the statement has run.
            Some(_) => (0, hogql::limits::ROWS_MAX),
            None => (offset, limit + 1),
        };
        let table = if group.is_some() { "groups" } else { "persons" };
        let table = SourceKind::Table(Name::new(table, Span::default()));
        let select = Select {
            columns: exprs.into_iter().map(|expr| Column { expr, alias: None }).collect(),
            from: Some(From {
                first: Table {
                    kind: table,
                    alias: None,
                    columns: Vec::new(),
                    span: Span::default(),
                },
                joins: Vec::new(),
            }),
            filter: Some(all(conditions)),
            order,
            limit: Some(int(count)),
            offset: Some(int(first)),
            ..Select::default()
        };
        let query = Query { with: Vec::new(), body: Body::Select(Box::new(select)) };
        let plan = hogql::resolve(&query, "", &project, filters.as_ref())?;
        let plan = ActorsPlan {
            plan,
            view,
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
        context: &QueryContext,
        group: Option<usize>,
        is_drill_down: bool,
    ) -> Result<Vec<Expr>> {
        let rows = if group.is_some() { Rows::Groups } else { Rows::Persons };
        let filters = Conditions::new(context, rows);
        let mut parts = Vec::new();
        for properties in [&self.fields.properties, &self.fields.fixed_properties] {
            parts.extend(filters.read(properties)?);
        }
        // With a source, a dashboard's filters apply to the insight.
        if self.source.is_none() {
            for properties in overrides.properties() {
                parts.extend(filters.read(properties)?);
            }
        }
        match group {
            Some(index) => {
                let index = expr(ExprKind::Literal(Literal::Int(index as u64)));
                parts.push(binary(BinaryOp::Equal, field(&["index"]), index));
            }
            None if is_drill_down => parts.push(in_cohort(field(&["id"]), DRILL_DOWN, false)),
            None => {}
        }
        if let Some(text) =
            self.fields.search.as_deref().map(str::trim).filter(|text| !text.is_empty())
        {
            parts.push(search(text, group));
        }
        Ok(parts)
    }

    /// The sort order, newest first by default. For `event_count`, the order by id and whether to sort
    /// descending afterwards.
    fn order(&self, group: Option<usize>) -> Result<(Vec<Order>, Option<bool>)> {
        let last = Order { expr: id(group), descending: false, nulls_first: None };
        let mut order = Vec::new();
        let given = self.fields.order_by.iter().flatten();
        for text in given.flat_map(|text| parts(text)).filter(|text| !text.trim().is_empty()) {
            let mut by = read_order(text)?;
            if by.expr.kind == field(&["event_count"]).kind {
                if self.source.is_none() {
                    let detail = "event_count needs a source: only actors of an insight have one.";
                    return Err(Error::Invalid(detail.into()));
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

/// The condition that a person's id is among the rows of a statement.
fn named_by(source: Query, project: &Project, filters: Option<&Filters>) -> Result<Expr> {
    let resolved = hogql::resolve(&source, "", project, filters)?.root.columns;
    let known = ID_COLUMNS.iter().find_map(|name| resolved.iter().find(|one| one.name == *name));
    let Some(column) = known.or(resolved.first()) else {
        return Err(Error::Invalid("The source statement has no columns.".into()));
    };
    let named = field(&[&column.name]);
    let id = match &column.ty.kind {
        Kind::Uuid => named,
        kind if kind.is_string() => call("toUUID", vec![named]),
        _ => {
            let detail = format!("Column '{}' of the source does not hold ids.", column.name);
            return Err(Error::Invalid(detail));
        }
    };
    let first = Table {
        kind: SourceKind::Query(Box::new(source)),
        alias: None,
        columns: Vec::new(),
        span: Span::default(),
    };
    let select = Select {
        columns: vec![Column { expr: id, alias: None }],
        from: Some(From { first, joins: Vec::new() }),
        ..Select::default()
    };
    let ids = Query { with: Vec::new(), body: Body::Select(Box::new(select)) };
    let set = Box::new(expr(ExprKind::Query(Box::new(ids))));
    Ok(expr(ExprKind::In { expr: Box::new(field(&["id"])), set, negated: false }))
}

/// Splits `a DESC, b ASC`, unless the commas may belong to a call.
fn parts(text: &str) -> Vec<&str> {
    match text.contains('(') {
        true => vec![text],
        false => text.split(',').collect(),
    }
}

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
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

/// Matches a substring of the email or name, or a whole id.
fn search(text: &str, group: Option<usize>) -> Expr {
    let part = |of: Expr| {
        let position =
            call("position", vec![call("lower", vec![of]), literal(&text.to_lowercase())]);
        binary(BinaryOp::Greater, position, expr(ExprKind::Literal(Literal::Int(0))))
    };
    let property = |name: &str| call("toString", vec![field(&["properties", name])]);
    let tests = match group {
        Some(_) => vec![part(field(&["key"])), part(property("name"))],
        None => vec![
            part(property("email")),
            part(property("name")),
            call("has", vec![field(&["distinct_ids"]), literal(text)]),
            binary(BinaryOp::Equal, call("toString", vec![field(&["id"])]), literal(text)),
        ],
    };
    logic(LogicOp::Or, tests)
}

impl ActorsPlan {
    /// The ClickHouse type names of the columns, from the types of the statement.
    pub fn types(&self, types: &[hogql::types::Type]) -> Vec<String> {
        let name = |(shape, ty): (&Shape, &hogql::types::Type)| match shape {
            Shape::Events => "UInt64".to_owned(),
            Shape::Appearances => "Array(UInt64)".to_owned(),
            Shape::NoRecordings => "Array(Nothing)".to_owned(),
            Shape::Nothing => "Nullable(Nothing)".to_owned(),
            Shape::Plain | Shape::Person | Shape::Group | Shape::PersonName => {
                ty.name(&self.plan.zone)
            }
        };
        self.shapes.iter().zip(types).map(name).collect()
    }

    /// The rows of the page, and whether there are more.
    pub fn page(&self, mut rows: Vec<Vec<Json>>, more: bool) -> (Vec<Vec<Json>>, bool) {
        let actor_of =
            |row: &Vec<Json>| row.last().and_then(Json::as_str).and_then(|id| self.actors.get(id));
        let mut more = more;
        if let Some(descending) = self.by_events {
            let events = |row: &Vec<Json>| actor_of(row).map_or(0, |actor| actor.events);
            // The sort is stable: rows with equal counts stay ordered by id.
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
            let actor = actor_of(row).cloned().unwrap_or_default();
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
                let name = ["email", "name", "username"].into_iter().find_map(|name| {
                    properties.get(name).and_then(Json::as_str).filter(|text| !text.is_empty())
                });
                let first = distinct_ids.get(0).and_then(Json::as_str);
                let display_name = name.or(first).or(id.as_str());
                json!({ "display_name": display_name, "id": id, "distinct_id": first })
            }
            _ => value,
        }
    }
}
