//! What a plan reads of the events, for an engine that computes the plan itself.

use std::collections::BTreeSet;

use hogql::ast::JoinKind;
use hogql::plan::{
    Body, Comparison, Expr, ExprKind, JoinedSource, Plan, Relation, Select, Set, Source, Step,
};
use hogql::tables::{LazyJoin, Table};
use model::ProjectId;

use super::selects::Scope;
use super::sessions::SESSION_PROPERTIES;
use super::{PrintContext, Printer, Promoted, unsupported};
use crate::client::{Parameter, Parameters};
use crate::error::{Error, Result};

/// Events of a project, as a relation with the columns of their table.
#[derive(Clone, Debug)]
pub struct PrintedEvents {
    pub project: ProjectId,
    pub columns: EventColumns,
    pub(crate) zone: String,
    /// The relation, and the same one with the copies that were not merged yet.
    rows: [String; 2],
    /// What follows the relation.
    tail: String,
    pub(crate) parameters: Parameters,
}

/// The columns of events that a reader needs besides those of a fixed width, names and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventColumns {
    /// None for all.
    pub properties: Option<BTreeSet<String>>,
    pub elements_chain: bool,
}

impl EventColumns {
    pub fn all() -> Self {
        Self { properties: None, elements_chain: true }
    }

    fn none() -> Self {
        Self { properties: Some(BTreeSet::new()), elements_chain: false }
    }

    fn add_property(&mut self, name: &str) {
        if let Some(names) = &mut self.properties
            && !names.contains(name)
        {
            names.insert(name.to_owned());
        }
    }
}

impl PrintedEvents {
    /// Drops those of other distinct ids.
    pub fn keep_distinct_nos(&mut self, distinct_nos: &[i64]) {
        let distinct_nos = self.parameters.add(Parameter::Ints(distinct_nos));
        self.tail.push_str(&format!(" AND distinct_no IN {distinct_nos}"));
    }

    /// What follows `FROM`, with its `WHERE`.
    pub(crate) fn from(&self) -> String {
        format!("({}){}", self.rows[0], self.tail)
    }

    /// As [`PrintedEvents::from`], without `FINAL`.
    pub(crate) fn unmerged(&self) -> String {
        format!("({}){}", self.rows[1], self.tail)
    }
}

/// The events that a statement `SELECT … FROM events WHERE …` selects.
pub fn print_matching(
    plan: &Plan,
    promoted: &Promoted,
    context: &PrintContext,
) -> Result<PrintedEvents> {
    let Body::Select(select) = &plan.root.body else { return Err(unsupported("a set of rows")) };
    let [JoinedSource { source: Source::Table(Table::Events, project), .. }] = &select.sources[..]
    else {
        return Err(unsupported("a list of anything but events"));
    };
    if select.grouping.is_some() || !select.unnests.is_empty() {
        return Err(unsupported("a list of anything but events"));
    }
    let mut printer = Printer::new(plan, promoted, context)?;
    let mut scope = Scope::of_one(1);
    let filter = select.filter.as_ref().map(|filter| printer.expr(&mut scope, filter));
    let filter = filter.transpose()?.unwrap_or_else(|| "true".to_owned());
    printer.events_where(*project, EventColumns::all(), scope, &filter)
}

/// Which of a plan's conditions select the events that are read for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowing {
    /// All that can be printed.
    Printable,
    /// Only those on names and times, which ClickHouse never refuses.
    EventsAndTimes,
}

/// The events that a plan reads, as far as its conditions can be printed, and the columns that it
/// reads of them; none if it reads no events.
pub fn print_reads(
    plan: &Plan,
    promoted: &Promoted,
    context: &PrintContext,
    by: Narrowing,
) -> Result<Option<PrintedEvents>> {
    let reads = Reads::of(plan);
    if reads.uses.is_empty() {
        return Ok(None);
    }
    let mut printer = Printer::new(plan, promoted, context)?;
    let mut scope = Scope::of_one(1);
    let mut any = Vec::new();
    for conditions in &reads.uses {
        let mut all = Vec::new();
        for condition in conditions {
            if by == Narrowing::EventsAndTimes && !is_of_event_or_time(condition) {
                continue;
            }
            // What cannot be printed would leave its columns in the scope.
            let mut tried = Printer::new(plan, promoted, context)?;
            let mut of_tried = Scope::of_one(1);
            let printable = tried
                .expr(&mut of_tried, condition)
                .and_then(|_| tried.whole_events(plan.project, &of_tried.leaves[0]));
            match printable {
                Ok(_) => all.push(printer.expr(&mut scope, condition)?),
                Err(Error::Unsupported { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        match all.is_empty() {
            true => any.push("true".to_owned()),
            false => any.push(format!("({})", all.join(" AND "))),
        }
    }
    any.sort_unstable();
    any.dedup();
    let filter = match any.iter().any(|one| one == "true") {
        true => "true".to_owned(),
        false => any.join(" OR "),
    };
    printer.events_where(plan.project, reads.columns, scope, &filter).map(Some)
}

impl Scope {
    /// Of a select with this number, whose sources are one.
    fn of_one(id: usize) -> Self {
        Self {
            id,
            leaves: vec![Vec::new()],
            outputs: vec![BTreeSet::new()],
            windows: Vec::new(),
            is_merged: true,
        }
    }
}

impl Printer<'_> {
    fn events_where(
        mut self,
        project: ProjectId,
        columns: EventColumns,
        scope: Scope,
        filter: &str,
    ) -> Result<PrintedEvents> {
        let merged = self.whole_events(project, &scope.leaves[0])?;
        self.reads_copies = true;
        let rows = [merged, self.whole_events(project, &scope.leaves[0])?];
        let tail = format!(" AS s{}_0 WHERE ({filter})", scope.id);
        let zone = self.plan.zone.clone();
        Ok(PrintedEvents { project, columns, zone, rows, tail, parameters: self.parameters })
    }
}

/// Collects what the selects of a plan read of events.
struct Reads<'p> {
    columns: EventColumns,
    /// For each place that reads events, the conditions that its rows must meet.
    uses: Vec<Vec<&'p Expr>>,
}

/// In how many places a plan reads events.
pub fn event_reads(plan: &Plan) -> usize {
    Reads::of(plan).uses.len()
}

impl<'p> Reads<'p> {
    fn of(plan: &'p Plan) -> Self {
        let mut reads = Self { columns: EventColumns::none(), uses: Vec::new() };
        plan.ctes.iter().for_each(|cte| reads.relation(cte));
        reads.relation(&plan.root);
        reads
    }

    fn relation(&mut self, relation: &'p Relation) {
        match &relation.body {
            Body::Select(select) => self.select(select),
            Body::Set { first, rest } => {
                self.relation(first);
                rest.iter().for_each(|(_, member)| self.relation(member));
            }
        }
    }

    fn select(&mut self, select: &'p Select) {
        for (no, source) in select.sources.iter().enumerate() {
            match &source.source {
                Source::Table(Table::Events, _) => self.uses.push(conditions_on(select, no)),
                Source::Table(Table::Sessions, _) => self.sessions(),
                Source::Query(relation) => self.relation(relation),
                Source::Table(..) | Source::Numbers { .. } | Source::Cte(_) => {}
            }
        }
        let tables: Vec<bool> = select
            .sources
            .iter()
            .map(|source| matches!(source.source, Source::Table(Table::Events, _)))
            .collect();
        for expr in exprs_of(select) {
            self.expr(expr, &tables);
        }
    }

    /// Sessions are computed from all of their events.
    fn sessions(&mut self) {
        self.uses.push(Vec::new());
        SESSION_PROPERTIES.iter().for_each(|name| self.columns.add_property(name));
    }

    /// `is_events` tells of each source whether it is the table of events.
    fn expr(&mut self, expr: &'p Expr, is_events: &[bool]) {
        match &expr.kind {
            ExprKind::Property { of, path } => {
                if let (ExprKind::Column { source, via, name: "properties" }, [Step::Key(key), ..]) =
                    (&of.kind, &path[..])
                    && is_events.get(*source) == Some(&true)
                    && via.is_empty()
                {
                    return self.columns.add_property(key);
                }
                self.expr(of, is_events);
            }
            ExprKind::Column { source, via, name } => {
                if via.contains(&LazyJoin::Session) {
                    self.sessions();
                } else if via.is_empty() && is_events.get(*source) == Some(&true) {
                    self.column(name);
                }
            }
            ExprKind::Query(relation) => self.relation(relation),
            ExprKind::In { set: Set::Query(relation), expr, .. } => {
                self.relation(relation);
                self.expr(expr, is_events);
            }
            _ => parts_of(expr).into_iter().for_each(|part| self.expr(part, is_events)),
        }
    }

    fn column(&mut self, name: &str) {
        match name {
            "uuid" | "event" | "timestamp" | "created_at" | "distinct_id" | "person_id"
            | "team_id" => {}
            "$session_id" | "$window_id" => self.columns.add_property(name),
            "person_mode" => self.columns.add_property("$process_person_profile"),
            "elements_chain" => self.columns.elements_chain = true,
            name if name.starts_with("$group_") => {}
            "properties" => self.columns.properties = None,
            _ => self.columns = EventColumns::all(),
        }
    }
}

/// The conjuncts of the filter that only read this source, unless rows that do not meet them still
/// matter.
fn conditions_on(select: &Select, source: usize) -> Vec<&Expr> {
    let keeps_unmatched = |joined: &JoinedSource| match joined.kind {
        None | Some(JoinKind::Inner | JoinKind::Cross) => false,
        Some(JoinKind::Left) => source > 0,
        Some(JoinKind::Right | JoinKind::Full) => true,
    };
    if select.sources.iter().any(keeps_unmatched) {
        return Vec::new();
    }
    let all = select.filter.iter().flat_map(conjuncts);
    all.filter(|condition| reads_only(condition, source)).collect()
}

pub(super) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::And(parts) => parts.iter().flat_map(conjuncts).collect(),
        _ => vec![expr],
    }
}

/// Whether a condition compares the event's name or time with constants.
fn is_of_event_or_time(condition: &Expr) -> bool {
    let is_column = |expr: &Expr| {
        matches!(&expr.kind, ExprKind::Column { via, name: "event" | "timestamp", .. }
            if via.is_empty())
    };
    let both = |left: &Expr, right: &Expr| is_column(left) && is_plain_constant(right);
    match &condition.kind {
        ExprKind::And(parts) | ExprKind::Or(parts) => parts.iter().all(is_of_event_or_time),
        ExprKind::Not(part) => is_of_event_or_time(part),
        ExprKind::Compare(comparison, sides) => {
            let is_order = matches!(
                comparison,
                Comparison::Equal
                    | Comparison::NotEqual
                    | Comparison::Less
                    | Comparison::LessOrEqual
                    | Comparison::Greater
                    | Comparison::GreaterOrEqual
            );
            is_order && (both(&sides[0], &sides[1]) || both(&sides[1], &sides[0]))
        }
        ExprKind::In { expr, set: Set::List(items), .. } => {
            is_column(expr) && items.iter().all(is_plain_constant)
        }
        _ => false,
    }
}

/// A literal, or a time made of literals.
fn is_plain_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Value(_) => true,
        ExprKind::Cast { expr, .. } | ExprKind::Interval(expr, _) => is_plain_constant(expr),
        ExprKind::Call { function, args } => {
            let name = function.0.name;
            let is_of_time = matches!(
                name,
                "now"
                    | "today"
                    | "yesterday"
                    | "dateAdd"
                    | "dateSub"
                    | "plus"
                    | "minus"
                    | "toDate"
                    | "toDateTime"
                    | "toDateTime64"
                    | "toTimeZone"
            ) || name.starts_with("toStartOf")
                || name.starts_with("toInterval");
            is_of_time && args.iter().all(is_plain_constant)
        }
        _ => false,
    }
}

/// Whether an expression reads only stored columns of this source.
fn reads_only(expr: &Expr, source: usize) -> bool {
    match &expr.kind {
        ExprKind::Column { source: of, via, name } => {
            *of == source && via.is_empty() && !matches!(*name, "person_id" | "person_mode")
        }
        ExprKind::Output { .. }
        | ExprKind::Element(..)
        | ExprKind::Key(_)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::Query(_)
        | ExprKind::AggregateCall(_)
        | ExprKind::WindowCall(_)
        | ExprKind::Unnested { .. }
        | ExprKind::In { set: Set::Query(_) | Set::Cohort(_), .. } => false,
        _ => parts_of(expr).into_iter().all(|part| reads_only(part, source)),
    }
}

/// Whether an expression reads rows of this source, and whether of others.
pub(super) fn reads_of(expr: &Expr, source: usize) -> (bool, bool) {
    match &expr.kind {
        ExprKind::Column { source: of, .. } | ExprKind::Output { source: of, .. } => {
            (*of == source, *of != source)
        }
        _ => parts_of(expr).into_iter().fold((false, false), |(own, other), part| {
            let (more_own, more_other) = reads_of(part, source);
            (own || more_own, other || more_other)
        }),
    }
}

/// The direct subexpressions; subqueries do not count.
fn parts_of(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Property { of, .. } => vec![of],
        ExprKind::Lambda { body, .. } => vec![body],
        ExprKind::Call { args, .. } | ExprKind::And(args) | ExprKind::Or(args) => {
            args.iter().collect()
        }
        ExprKind::Compare(_, sides) => sides.iter().collect(),
        ExprKind::Not(part) | ExprKind::Interval(part, _) => vec![part],
        ExprKind::IsNull { expr, .. } | ExprKind::Cast { expr, .. } => vec![expr],
        ExprKind::In { expr, set, .. } => match set {
            Set::List(items) => std::iter::once(&**expr).chain(items).collect(),
            Set::Array(array) => vec![expr, array],
            Set::Query(_) | Set::Cohort(_) => vec![expr],
        },
        ExprKind::Unnested { array } => vec![array],
        _ => Vec::new(),
    }
}

/// All expressions of a select, apart from those of its subqueries.
fn exprs_of(select: &Select) -> Vec<&Expr> {
    let mut all: Vec<&Expr> =
        select.sources.iter().filter_map(|source| source.on.as_ref()).collect();
    all.extend(select.unnests.iter().chain(&select.late_unnests).flat_map(|unnest| &unnest.arrays));
    all.extend(&select.filter);
    if let Some(grouping) = &select.grouping {
        all.extend(&grouping.keys);
        let calls = &grouping.aggregates;
        all.extend(calls.iter().flat_map(|call| call.args.iter().chain(&call.filter)));
        all.extend(&grouping.having);
    }
    for window in &select.windows {
        all.extend(window.call.args.iter().chain(&window.call.filter));
        all.extend(&window.partition);
        all.extend(window.order.iter().map(|order| &order.expr));
    }
    all.extend(&select.qualify);
    all.extend(&select.columns);
    all.extend(select.order.iter().map(|order| &order.expr));
    all.extend(select.limit_by.iter().flat_map(|limit_by| &limit_by.by));
    all
}
