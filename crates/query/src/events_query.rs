//! `EventsQuery`: HogQL expressions as columns of events.

use std::sync::Arc;

use facts::{ReadView, Zone, parse_timestamp};
use hogql::ast::{BinaryOp, Body, Column, Expr, ExprKind, From, Literal, Order, Query, Select};
use hogql::ast::{Name, Source, SourceKind};
use hogql::plan::Plan;
use hogql::{Project, Span, has_aggregate, parse_expr};
use model::{ActionId, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use warehouse::Predicate;

use crate::conditions::{Conditions, Rows, all, binary, call, check, field, literal, timestamp};
use crate::parse::Overrides;
use crate::{Error, Result};

const LIMIT_DEFAULT: u64 = 100;
/// Events may be this far in the future: a client's clock may be ahead.
const AHEAD_SECONDS: i64 = 5;
const COLUMNS_MAX: usize = 100;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct EventsQuery {
    #[serde(rename = "kind")]
    pub _kind: String,
    pub select: Vec<String>,
    #[serde(rename = "where")]
    pub conditions: Option<Vec<String>>,
    pub properties: Json,
    pub fixed_properties: Json,
    pub event: Option<String>,
    pub events: Option<Vec<String>>,
    pub action_id: Option<i64>,
    pub person_id: Option<String>,
    pub filter_test_accounts: Option<bool>,
    pub after: Option<String>,
    pub before: Option<String>,
    pub order_by: Option<Vec<String>>,
    pub limit: Option<u64>,
    pub offset: Option<u64>,
}

/// How a column's JSON is built from the statement's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Plain,
    /// `*`
    Event,
    Person,
    PersonName,
}

pub(crate) struct EventsPlan {
    pub plan: Plan,
    pub columns: Vec<String>,
    shapes: Vec<Shape>,
    /// The column whose last value is the cursor of the next page.
    pub time_column: Option<usize>,
    pub limit: u64,
    pub offset: u64,
}

const EVENT_FIELDS: [&str; 8] = [
    "uuid",
    "event",
    "properties",
    "timestamp",
    "distinct_id",
    "elements_chain",
    "created_at",
    "person_mode",
];

impl EventsQuery {
    pub fn plan(
        &self,
        overrides: &Overrides,
        project: &Project,
        view: &ReadView,
    ) -> Result<EventsPlan> {
        let selected: Vec<&str> = match self.select.is_empty() {
            true => vec!["*"],
            false => self.select.iter().map(String::as_str).collect(),
        };
        if selected.len() > COLUMNS_MAX {
            return Err(Error::Invalid(format!("At most {COLUMNS_MAX} columns can be selected.")));
        }
        let mut shapes = Vec::new();
        let mut columns = Vec::new();
        let mut exprs = Vec::new();
        for text in &selected {
            let bare = strip_comment(text);
            let tuple = |fields: &[&[&str]]| {
                call("tuple", fields.iter().map(|chain| field(chain)).collect())
            };
            let (shape, (expr, alias)) = match bare {
                "*" => {
                    let fields: Vec<Expr> =
                        EVENT_FIELDS.iter().map(|name| field(&[name])).collect();
                    (Shape::Event, (call("tuple", fields), None))
                }
                "person" => {
                    let fields: [&[&str]; 4] = [
                        &["person", "id"],
                        &["person", "created_at"],
                        &["person", "properties"],
                        &["distinct_id"],
                    ];
                    (Shape::Person, (tuple(&fields), None))
                }
                "person_display_name" => {
                    let fields: [&[&str]; 4] = [
                        &["person", "properties"],
                        &["person", "id"],
                        &["distinct_id"],
                        &["person", "created_at"],
                    ];
                    (Shape::PersonName, (tuple(&fields), None))
                }
                _ => (Shape::Plain, aliased(bare)?),
            };
            columns.push(alias.unwrap_or_else(|| (*text).to_owned()));
            shapes.push(shape);
            exprs.push(expr);
        }
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, hogql::limits::ROWS_MAX);
        let offset = self.offset.unwrap_or(0);
        let aggregates = exprs.iter().any(has_aggregate);
        let (filter, having) = self.conditions(overrides, view)?;
        let order = self.order(&exprs, &selected, aggregates)?;
        let mut time_column = time_column(&order, &exprs);
        if time_column.is_none() && !aggregates && newest_first(&order) {
            // A hidden column, for the cursor of the next page.
            time_column = Some(exprs.len());
            exprs.push(field(&["timestamp"]));
        }
        let keys = exprs.iter().zip(&shapes).filter(|(expr, _)| aggregates && !has_aggregate(expr));
        let group = keys.map(|(expr, _)| expr.clone()).collect();
        let int = |value: u64| Expr {
            kind: ExprKind::Literal(Literal::Int(value)),
            span: Span::default(),
        };
        let table = SourceKind::Table(Name::new("events", Span::default()));
        let select = Select {
            columns: exprs.into_iter().map(|expr| Column { expr, alias: None }).collect(),
            from: Some(From {
                first: Source { kind: table, alias: None, span: Span::default() },
                joins: Vec::new(),
            }),
            filter: Some(all(filter)),
            having: (!having.is_empty()).then(|| all(having)),
            group,
            order,
            // One row more shows whether there is a next page; at ROWS_MAX the result set says so.
            limit: Some(int(limit + 1)),
            offset: Some(int(offset)),
            ..Select::default()
        };
        let query = Query { with: Vec::new(), body: Body::Select(Box::new(select)) };
        let plan = hogql::resolve(&query, "", project, None)?;
        Ok(EventsPlan { plan, columns, shapes, time_column, limit, offset })
    }

    /// Whether its expressions and filters can be parsed.
    pub fn check(&self) -> Result<()> {
        let columns = self.select.iter().map(|text| strip_comment(text));
        columns.filter(|text| *text != "*").try_for_each(|text| aliased(text).map(drop))?;
        self.order_by.iter().flatten().try_for_each(|text| read_order(text).map(drop))?;
        for text in self.conditions.iter().flatten() {
            parse_expr(text)?;
        }
        let times = self.after.iter().filter(|text| *text != "all").chain(&self.before);
        for text in times {
            at(text, Timestamp::from_micros(0), &Zone::named("UTC"))?;
        }
        [&self.properties, &self.fixed_properties]
            .into_iter()
            .try_for_each(|filters| check(filters, Rows::Events))
    }

    /// The view restricted to the events of `actionId`: none if the action is missing.
    pub fn restrict_to_action(&self, view: Arc<ReadView>) -> Result<Arc<ReadView>> {
        let Some(id) = self.action_id else { return Ok(view) };
        let only = match view.actions.get(&ActionId(id)) {
            Some(action) => action.matcher.predicate(&view)?,
            None => Predicate::Any(Vec::new()),
        };
        Ok(Arc::new(ReadView { event_filter: Some(only), ..ReadView::clone(&view) }))
    }

    /// The conditions of WHERE, and those of HAVING.
    fn conditions(&self, overrides: &Overrides, view: &ReadView) -> Result<(Vec<Expr>, Vec<Expr>)> {
        let filters = Conditions::new(view, Rows::Events);
        let (mut rows, mut groups) = (Vec::new(), Vec::new());
        let range = overrides.date_range(None);
        let after = range.date_from.as_ref().or(self.after.as_ref());
        let before = range.date_to.as_ref().or(self.before.as_ref());
        let at = |text: &str| at(text, view.now, &view.zone);
        let time = || field(&["timestamp"]);
        match after.map_or("-24h", String::as_str) {
            "all" => {}
            text => rows.push(binary(BinaryOp::Greater, time(), timestamp(at(text)?))),
        }
        let before = match before {
            Some(text) => at(text)?,
            None => view.now.plus_seconds(AHEAD_SECONDS),
        };
        rows.push(binary(BinaryOp::Less, time(), timestamp(before)));
        if let Some(event) = self.event.as_deref().filter(|event| !event.is_empty()) {
            rows.push(binary(BinaryOp::Equal, field(&["event"]), literal(event)));
        }
        if let Some(events) = self.events.as_ref().filter(|events| !events.is_empty()) {
            let list = events.iter().map(|event| literal(event)).collect();
            let set = Expr { kind: ExprKind::Tuple(list), span: Span::default() };
            let kind = ExprKind::In {
                expr: Box::new(field(&["event"])),
                set: Box::new(set),
                negated: false,
            };
            rows.push(Expr { kind, span: Span::default() });
        }
        if let Some(person) = self.person_id.as_deref().filter(|id| !id.is_empty()) {
            let id = call("toString", vec![field(&["person_id"])]);
            rows.push(binary(BinaryOp::Equal, id, literal(person)));
        }
        let filter_lists = [&self.properties, &self.fixed_properties];
        for properties in filter_lists.into_iter().chain(overrides.properties()) {
            rows.extend(filters.read(properties)?);
        }
        if self.filter_test_accounts == Some(true) {
            rows.extend(filters.read(&view.test_account_filters)?);
        }
        for text in self.conditions.iter().flatten() {
            let condition = parse_expr(text)?;
            if has_aggregate(&condition) { &mut groups } else { &mut rows }.push(condition);
        }
        Ok((rows, groups))
    }

    fn order(&self, exprs: &[Expr], selected: &[&str], aggregates: bool) -> Result<Vec<Order>> {
        let by =
            |expr: &Expr, descending| Order { expr: expr.clone(), descending, nulls_first: None };
        if let Some(given) = self.order_by.as_ref().filter(|given| !given.is_empty()) {
            return given.iter().map(|text| read_order(text)).collect();
        }
        if let Some(at) = selected.iter().position(|text| text.trim() == "count()") {
            return Ok(vec![by(&exprs[at], true)]);
        }
        if let Some(expr) = exprs.iter().find(|expr| has_aggregate(expr)) {
            return Ok(vec![by(expr, true)]);
        }
        let time = selected.iter().any(|text| matches!(text.trim(), "timestamp" | "*"));
        if time && !aggregates {
            return Ok(vec![by(&field(&["timestamp"]), true)]);
        }
        Ok(exprs.first().map(|expr| by(expr, false)).into_iter().collect())
    }
}

/// A column's expression without its trailing comment.
pub(crate) fn strip_comment(text: &str) -> &str {
    text.split(" -- ").next().unwrap_or(text).trim()
}

/// `expression AS name`
pub(crate) fn aliased(text: &str) -> Result<(Expr, Option<String>)> {
    let statement = hogql::parse(&format!("select {text}")).map_err(|mut error| {
        if let Some(at) = &mut error.at {
            at.byte = at.byte.saturating_sub("select ".len());
            if at.line == 1 {
                at.column = at.column.saturating_sub("select ".len()).max(1);
            }
        }
        error
    })?;
    match statement.body {
        Body::Select(select) if select.columns.len() == 1 && select.from.is_none() => {
            let mut columns = select.columns;
            let Column { expr, alias } = columns.remove(0);
            Ok((expr, alias.map(|alias| alias.text)))
        }
        _ => Err(Error::Invalid(format!("'{text}' is not one expression."))),
    }
}

/// `expression`, `expression DESC`, or `-expression`.
pub(crate) fn read_order(text: &str) -> Result<Order> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let (bare, descending) = match (text.strip_prefix('-'), lower.as_str()) {
        (_, lower) if lower.ends_with(" desc") => (&text[..text.len() - 5], true),
        (_, lower) if lower.ends_with(" asc") => (&text[..text.len() - 4], false),
        (Some(rest), _) => (rest, true),
        _ => (text, false),
    };
    Ok(Order { expr: parse_expr(bare)?, descending, nulls_first: None })
}

fn at(text: &str, now: Timestamp, zone: &Zone) -> Result<Timestamp> {
    let read = parse_timestamp(text, now, zone);
    read.ok_or_else(|| Error::Invalid(format!("'{text}' is not a time.")))
}

fn newest_first(order: &[Order]) -> bool {
    order.first().is_some_and(|first| first.descending && first.expr == field(&["timestamp"]))
}

fn time_column(order: &[Order], exprs: &[Expr]) -> Option<usize> {
    let time = field(&["timestamp"]);
    exprs.iter().position(|expr| *expr == time).filter(|_| newest_first(order))
}

impl EventsPlan {
    /// Builds the JSON objects of composite columns.
    pub fn shape(&self, row: &mut [Json], view: &ReadView) {
        for (value, shape) in row.iter_mut().zip(&self.shapes) {
            let Json::Array(parts) = value else { continue };
            *value = match shape {
                Shape::Plain => continue,
                Shape::Event => event(parts, view),
                Shape::Person => person(parts),
                Shape::PersonName => person_name(parts),
            };
        }
    }
}

pub(crate) fn object(json: &Json) -> Json {
    let text = json.as_str().unwrap_or("{}");
    serde_json::from_str(text).unwrap_or_else(|_| Json::Object(Map::new()))
}

fn event(parts: &[Json], view: &ReadView) -> Json {
    let mut event = Map::new();
    for (name, value) in EVENT_FIELDS.iter().zip(parts) {
        let value = if *name == "properties" { object(value) } else { value.clone() };
        event.insert((*name).to_owned(), value);
    }
    event.insert("team_id".into(), json!(view.project));
    Json::Object(event)
}

fn person(parts: &[Json]) -> Json {
    match parts {
        [_, Json::Null, _, distinct_id] => json!({ "distinct_id": distinct_id }),
        [uuid, created_at, properties, distinct_id] => json!({
            "uuid": uuid,
            "created_at": created_at,
            "properties": object(properties),
            "distinct_id": distinct_id,
        }),
        _ => Json::Null,
    }
}

fn person_name(parts: &[Json]) -> Json {
    let [properties, id, distinct_id, _] = parts else { return Json::Null };
    let properties = object(properties);
    let name = ["email", "name", "username"].into_iter().find_map(|name| {
        properties.get(name).and_then(Json::as_str).filter(|text| !text.is_empty())
    });
    let display_name = name.or(distinct_id.as_str()).unwrap_or_default();
    json!({ "display_name": display_name, "id": id, "distinct_id": distinct_id })
}
