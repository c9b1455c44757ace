//! Expressions, from text to results.

#![allow(clippy::unwrap_used)]

mod batches;
mod clickhouse;
mod columns;
mod functions;
mod generated;
mod limits;
mod results;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use eval::{Context, Program, json_value};
use hogql::plan::{Body, Expr};
use hogql::types::Type;
use hogql::{PlaceholderValues, Project};
use jiff::tz::TimeZone;
use model::ProjectId;
use model::definition::{PropertyOwner, PropertyType};
use serde_json::Value;

/// 2024-05-17 22:30:15.5 UTC, which is the next day in Berlin.
const NOW: i64 = 1_715_985_015_500_000;

fn project() -> Project {
    let property = |name: &str, kind| ((PropertyOwner::Event, name.to_owned()), kind);
    Project {
        id: ProjectId(1),
        zone: "Europe/Berlin".to_owned(),
        groups: BTreeMap::new(),
        properties: HashMap::from([
            property("amount", PropertyType::Numeric),
            property("paid", PropertyType::Boolean),
            property("due", PropertyType::DateTime),
        ]),
        cohorts: BTreeMap::new(),
        actions: Default::default(),
        objects: Default::default(),
    }
}

fn context() -> Arc<Context> {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    Arc::new(Context {
        zone,
        now: NOW,
        week_starts_monday: false,
        cancellation: eval::Cancellation::default(),
    })
}

/// The only column of a select.
fn column(expr: &str, from: &str) -> Result<Expr, String> {
    let text = format!("select {expr} as x{from}");
    let plan = hogql::plan(&text, &PlaceholderValues::default(), &project(), None);
    let plan = plan.map_err(|error| error.to_string())?;
    let Body::Select(mut select) = plan.root.body else { panic!("{expr} is no select") };
    Ok(select.columns.remove(0))
}

fn compiled(expr: &str) -> Result<Program, String> {
    let expr = column(expr, "")?;
    Program::compile(&expr, &context(), &mut |_| None).map_err(|error| error.to_string())
}

fn evaluate(expr: &str) -> Result<(Value, Type), String> {
    let program = compiled(expr)?;
    let array = program.run(&[], 1).map_err(|error| error.to_string())?;
    assert_eq!(array.data_type(), &eval::data_type(program.ty()), "{expr}");
    let value = json_value(&array, program.ty(), 0, &context().zone);
    Ok((value, program.ty().clone()))
}
