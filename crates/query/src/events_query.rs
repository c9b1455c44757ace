//! `EventsQuery`: HogQL expressions as columns of events.

use facts::{QueryContext, Zone, parse_timestamp};
use hogql::ast::{BinaryOp, Body, Column, Expr, ExprKind, From, Literal, Order, Query, Select};
use hogql::ast::{Name, Source, SourceKind};
use hogql::plan::Plan;
use hogql::{Project, Span, has_aggregate, parse_expr};
use insights::CountedEvents;
use model::{ActionId, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::conditions::{Conditions, Rows, all, binary, call, check, field, literal, timestamp};
use crate::drill_down::DrillDown;
use crate::parse::{Overrides, read_strictly, strict_part};
use crate::{Error, Result};

const LIMIT_DEFAULT: u64 = 100;
/// Events may be this far in the future: a client's clock may be ahead.
const AHEAD_SECONDS: i64 = 5;
const COLUMNS_MAX: usize = 100;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "EventsFields")]
pub(crate) struct Fields {
    #[serde(rename = "kind")]
    _kind: String,
    #[schemars(skip)]
    source: Option<Map<String, Json>>,
    select: Vec<String>,
    #[serde(rename = "where")]
    conditions: Option<Vec<String>>,
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    properties: Json,
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    fixed_properties: Json,
    event: Option<String>,
    events: Option<Vec<String>>,
    action_id: Option<i64>,
    person_id: Option<String>,
    filter_test_accounts: Option<bool>,
    after: Option<String>,
    before: Option<String>,
    order_by: Option<Vec<String>>,
    limit: Option<u64>,
    offset: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct EventsQuery {
    fields: Fields,
    /// The data point whose events are listed; none for all events.
    pub source: Option<DrillDown>,
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
    pub fn read(query: &Map<String, Json>) -> Result<Self> {
        let mut fields: Fields = read_strictly(&Json::Object(strict_part(query)))?;
        let source = fields.source.take();
        let source = source.map(|source| DrillDown::parse("EventsQuery", source)).transpose()?;
        Ok(Self { fields, source })
    }

    pub fn action_id(&self) -> Option<ActionId> {
        self.fields.action_id.map(ActionId)
    }

    pub fn set_default_limit(&mut self, rows: u64) {
        self.fields.limit = self.fields.limit.or(Some(rows));
    }

    /// Whether its filters or expressions may reference cohorts.
    pub fn mentions_cohorts(&self) -> bool {
        format!("{:?}", self.fields).to_ascii_lowercase().contains("cohort")
    }

    /// `counted` are the events of the data point.
    pub fn plan(
        &self,
        overrides: &Overrides,
        project: &Project,
        context: &QueryContext,
        counted: Option<&CountedEvents>,
    ) -> Result<EventsPlan> {
        let selected: Vec<&str> = match self.fields.select.is_empty() {
            true => vec!["*"],
            false => self.fields.select.iter().map(String::as_str).collect(),
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
        let limit = self.fields.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, hogql::limits::ROWS_MAX);
        let offset = self.fields.offset.unwrap_or(0);
        let aggregates = exprs.iter().any(has_aggregate);
        let (filter, having) = self.conditions(overrides, context, counted)?;
        let order = self.order(&exprs, &selected, &columns, aggregates)?;
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
                first: Source {
                    kind: table,
                    alias: None,
                    columns: Vec::new(),
                    span: Span::default(),
                },
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
        let columns = self.fields.select.iter().map(|text| strip_comment(text));
        columns.filter(|text| *text != "*").try_for_each(|text| aliased(text).map(drop))?;
        self.fields.order_by.iter().flatten().try_for_each(|text| read_order(text).map(drop))?;
        for text in self.fields.conditions.iter().flatten() {
            parse_expr(text)?;
        }
        let times =
            self.fields.after.iter().filter(|text| *text != "all").chain(&self.fields.before);
        for text in times {
            at(text, Timestamp::from_micros(0), &Zone::named("UTC"))?;
        }
        for filters in [&self.fields.properties, &self.fields.fixed_properties] {
            check(filters, Rows::Events)?;
        }
        self.source.iter().try_for_each(DrillDown::check)
    }

    /// The conditions of WHERE, and those of HAVING.
    fn conditions(
        &self,
        overrides: &Overrides,
        context: &QueryContext,
        counted: Option<&CountedEvents>,
    ) -> Result<(Vec<Expr>, Vec<Expr>)> {
        let filters = Conditions::new(context, Rows::Events);
        let mut rows = self.times(overrides, context, counted)?;
        let mut groups = Vec::new();
        if let Some(event) = self.fields.event.as_deref().filter(|event| !event.is_empty()) {
            rows.push(binary(BinaryOp::Equal, field(&["event"]), literal(event)));
        }
        if let Some(events) = self.fields.events.as_ref().filter(|events| !events.is_empty()) {
            rows.push(event_in(events));
        }
        if let Some(names) = counted.and_then(|counted| counted.names.as_ref()) {
            rows.extend((!names.is_empty()).then(|| event_in(names)));
        }
        if let Some(person) = self.fields.person_id.as_deref().filter(|id| !id.is_empty()) {
            let id = call("toString", vec![field(&["person_id"])]);
            rows.push(binary(BinaryOp::Equal, id, literal(person)));
        }
        for properties in [&self.fields.properties, &self.fields.fixed_properties] {
            rows.extend(filters.read(properties)?);
        }
        // With a source, a dashboard's filters apply to the insight.
        if self.source.is_none() {
            for properties in overrides.properties() {
                rows.extend(filters.read(properties)?);
            }
        }
        if self.fields.filter_test_accounts == Some(true) {
            rows.extend(filters.read(&context.test_account_filters)?);
        }
        for text in self.fields.conditions.iter().flatten() {
            let condition = parse_expr(text)?;
            if has_aggregate(&condition) { &mut groups } else { &mut rows }.push(condition);
        }
        Ok((rows, groups))
    }

    /// The conditions on the timestamp. A data point has times of its own; without one, only recent
    /// events are listed unless the query or a dashboard says otherwise.
    fn times(
        &self,
        overrides: &Overrides,
        context: &QueryContext,
        counted: Option<&CountedEvents>,
    ) -> Result<Vec<Expr>> {
        let mut conditions = Vec::new();
        let mut compare = |op: BinaryOp, at: Timestamp| {
            conditions.push(binary(op, field(&["timestamp"]), timestamp(at)));
        };
        let at = |text: &str| at(text, context.now, &context.zone);
        let Fields { after, before, .. } = &self.fields;
        let (after, before) = match counted {
            Some(CountedEvents { from, to, .. }) => {
                compare(BinaryOp::GreaterOrEqual, *from);
                compare(BinaryOp::LessOrEqual, *to);
                let after = after.as_deref().filter(|text| *text != "all");
                (after.map(at).transpose()?, before.as_deref().map(at).transpose()?)
            }
            None => {
                let range = overrides.date_range(None);
                let after = range.date_from.as_ref().or(after.as_ref());
                let after = match after.map_or("-24h", String::as_str) {
                    "all" => None,
                    text => Some(at(text)?),
                };
                let before = match range.date_to.as_ref().or(before.as_ref()) {
                    Some(text) => at(text)?,
                    None => context.now.plus_seconds(AHEAD_SECONDS),
                };
                (after, Some(before))
            }
        };
        after.into_iter().for_each(|after| compare(BinaryOp::Greater, after));
        before.into_iter().for_each(|before| compare(BinaryOp::Less, before));
        Ok(conditions)
    }

    fn order(
        &self,
        exprs: &[Expr],
        selected: &[&str],
        columns: &[String],
        aggregates: bool,
    ) -> Result<Vec<Order>> {
        let by =
            |expr: &Expr, descending| Order { expr: expr.clone(), descending, nulls_first: None };
        if let Some(given) = self.fields.order_by.as_ref().filter(|given| !given.is_empty()) {
            // The name of a column stands for it.
            let named = |order: Order| match &order.expr.kind {
                ExprKind::Field(chain) if chain.len() == 1 => {
                    let column = columns.iter().position(|column| *column == chain[0].text);
                    let expr = column.map_or_else(|| order.expr.clone(), |at| exprs[at].clone());
                    Order { expr, ..order }
                }
                _ => order,
            };
            return given.iter().map(|text| Ok(named(read_order(text)?))).collect();
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

fn event_in<'a>(names: impl IntoIterator<Item = &'a String>) -> Expr {
    let span = Span::default();
    let names = names.into_iter().map(|name| literal(name)).collect();
    let set = Box::new(Expr { kind: ExprKind::Tuple(names), span });
    let expr = Box::new(field(&["event"]));
    Expr { kind: ExprKind::In { expr, set, negated: false }, span }
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
    pub fn shape(&self, row: &mut [Json], context: &QueryContext) {
        for (value, shape) in row.iter_mut().zip(&self.shapes) {
            let Json::Array(parts) = value else { continue };
            *value = match shape {
                Shape::Plain => continue,
                Shape::Event => event(parts, context),
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

fn event(parts: &[Json], context: &QueryContext) -> Json {
    let mut event = Map::new();
    for (name, value) in EVENT_FIELDS.iter().zip(parts) {
        let value = if *name == "properties" { object(value) } else { value.clone() };
        event.insert((*name).to_owned(), value);
    }
    event.insert("team_id".into(), json!(context.project));
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
