//! Prints a checked HogQL plan as a statement of ClickHouse.
//!
//! Each select becomes up to three levels, so that no alias of one can be taken for a name of another:
//!
//! ```text
//! SELECT … FROM (SELECT <columns> AS c0, …, <order> AS o0      page, order, limit by, distinct
//!   FROM (SELECT <keys> AS k0, <aggregates> AS a0 … GROUP BY k0)    grouping
//!   FROM (SELECT <leaves> AS f0, … FROM events FINAL …) AS s0_0)    sources, with the joins they need
//! ```
//!
//! A source selects only the leaves that its select reads. Its project is that of the plan's source,
//! never a value of the statement. Names of columns and functions come from the tables of this crate
//! and of `hogql`; numbers of columns are ours; values, names of properties and zones are parameters.
//! What cannot be printed so that it means the same is [`Error::Unsupported`].

mod aggregates;
mod calls;
mod channel_type;
mod expressions;
mod functions;
mod object_json;
mod reads;
mod selects;
mod sessions;
mod sources;

use std::collections::{BTreeSet, HashMap};

use hogql::plan::Plan;
use hogql::types::{DateTimeType, Kind, Type};
use model::{CohortId, ProjectId, Timestamp};

use crate::client::{Parameter, Parameters, Statement};
use crate::error::{Error, Result};
use crate::read::statement;

pub use reads::{EventColumns, Narrowing, PrintedEvents, event_reads, print_matching, print_reads};

/// The properties with a column, as [`crate::Schema::promoted`] returns them.
type Promoted = BTreeSet<String>;

/// What the meaning of a plan depends on besides itself.
#[derive(Clone, Debug)]
pub struct PrintContext {
    pub now: Timestamp,
    pub week_starts_monday: bool,
    /// The calculated cohorts and the version of each that is in effect.
    pub cohorts: HashMap<CohortId, i64>,
    pub static_cohorts: BTreeSet<CohortId>,
}

/// A printed plan. The columns of its result are `r0`, `r1` and so on, in the order of the plan's, each
/// nullable; dates are `Date32`, date-times `DateTime64(6, 'UTC')`.
#[derive(Clone, Debug)]
pub struct Printed {
    pub statement: Statement,
    /// Rows beyond the plan's page that say whether there are more.
    pub probed_rows: u64,
}

impl Printed {
    /// Instead of the rows, the numbers of the persons whose ids are in the first column.
    #[must_use]
    pub fn as_persons(mut self, project: ProjectId) -> Self {
        let project = self.statement.parameters.add(Parameter::Int(project.0));
        self.statement.text = format!(
            "SELECT person_no FROM persons FINAL WHERE project_id = {project} AND NOT is_deleted \
             AND person_id IN (SELECT r0 FROM ({}))",
            self.statement.text
        );
        self
    }
}

/// `promoted` are the properties with a column, as [`crate::Schema::promoted`] returns them.
pub fn print(plan: &Plan, promoted: &Promoted, context: &PrintContext) -> Result<Printed> {
    let mut printer = Printer::new(plan, promoted, context)?;
    let mut ctes = Vec::new();
    for (no, cte) in plan.ctes.iter().enumerate() {
        ctes.push(format!("cte{no} AS ({})", printer.relation(cte, selects::Demand::All)?));
    }
    let with = if ctes.is_empty() { String::new() } else { format!("WITH {} ", ctes.join(", ")) };
    let probed_rows = u64::from(!plan.page.has_limit || plan.page.capped);
    let root = printer.page(&plan.root, plan.page.limit.saturating_add(probed_rows))?;
    let mut statement = statement(format!("{with}{root}"), printer.parameters);
    statement.settings.extend(settings(&plan.zone));
    Ok(Printed { statement, probed_rows })
}

/// What printed expressions rely on.
pub(crate) fn settings(zone: &str) -> [(&'static str, String); 6] {
    [
        ("session_timezone", zone.to_owned()),
        ("join_use_nulls", "1".to_owned()),
        ("transform_null_in", "0".to_owned()),
        ("least_greatest_legacy_null_behavior", "1".to_owned()),
        ("output_format_json_escape_forward_slashes", "0".to_owned()),
        // The optimization turns max(x - 12) into max(x) - 12, which differs for no rows.
        ("optimize_arithmetic_operations_in_aggregate_functions", "0".to_owned()),
    ]
}

struct Printer<'a> {
    parameters: Parameters,
    context: &'a PrintContext,
    promoted: &'a Promoted,
    plan: &'a Plan,
    /// Selects so far: each has names of its own.
    selects: usize,
    /// Whether events are there with the copies that were not merged yet.
    reads_copies: bool,
}

impl<'a> Printer<'a> {
    fn new(plan: &'a Plan, promoted: &'a Promoted, context: &'a PrintContext) -> Result<Self> {
        // It is part of the names of types.
        if !model::is_time_zone(&plan.zone) {
            return Err(unsupported("a time zone without a name"));
        }
        Ok(Self {
            parameters: Parameters::default(),
            context,
            promoted,
            plan,
            selects: 0,
            reads_copies: false,
        })
    }

    /// The type as ClickHouse names it.
    fn type_name(&self, ty: &Type) -> String {
        match ty.kind {
            Kind::Null => "Nullable(Nothing)".to_owned(),
            _ => ty.name(&self.plan.zone),
        }
    }

    fn zone(&mut self) -> String {
        let zone = self.plan.zone.clone();
        self.string(&zone)
    }

    fn string(&mut self, text: &str) -> String {
        self.parameters.add(Parameter::String(text))
    }
}

/// A column as it leaves ClickHouse: maps as lists of their entries.
fn output(no: usize, ty: &Type) -> Result<String> {
    let ty_name = output_type(ty)?;
    Ok(match &ty.kind {
        Kind::Map(_) => {
            format!("CAST(arrayZip(mapKeys(c{no}), mapValues(c{no})) AS {ty_name}) AS r{no}")
        }
        _ => format!("CAST(c{no} AS {ty_name}) AS r{no}"),
    })
}

/// The type in which a value leaves ClickHouse.
fn output_type(ty: &Type) -> Result<String> {
    let scalar = |name: String| Ok(format!("Nullable({name})"));
    match &ty.kind {
        Kind::Null => scalar("String".to_owned()),
        Kind::Date => scalar("Date32".to_owned()),
        Kind::DateTime(DateTimeType { .. }) => scalar("DateTime64(6, 'UTC')".to_owned()),
        Kind::Interval(_) => Err(unsupported("an interval as a result")),
        // Its entries.
        Kind::Map(pair) => {
            Ok(format!("Array(Tuple({}, {}))", output_type(&pair.0)?, output_type(&pair.1)?))
        }
        Kind::Array(element) => Ok(format!("Array({})", output_type(element)?)),
        Kind::Tuple(items) => {
            let items: Vec<String> = items.iter().map(output_type).collect::<Result<_>>()?;
            Ok(format!("Tuple({})", items.join(", ")))
        }
        _ => scalar(Type { nullable: false, ..ty.clone() }.name("UTC")),
    }
}

fn unsupported(what: impl Into<String>) -> Error {
    Error::Unsupported { what: what.into() }
}
