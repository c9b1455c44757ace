//! Behavioral filters of cohorts, as statements.

use ::clickhouse::print;
use hogql::ast::{BinaryOp, Body, Expr, Query};
use hogql::plan::Plan;
use insights::Behavior;
use model::property::{BehavioralFilter, Comparison, EventOrAction, Frequency};
use warehouse::DenseIdSet;

use super::ClickHouseView;
use super::at_clickhouse::at_clickhouse;
use super::pull::pull;
use crate::conditions::{Conditions, Rows, all, binary, call, field, literal, timestamp};
use crate::runner::RunResources;
use crate::store::{MatchingPersons, embedded};
use crate::{Error, Result};

pub(in crate::store) async fn matching_persons(
    view: &ClickHouseView,
    behaviours: Vec<BehavioralFilter>,
    run: &RunResources<'_>,
) -> Result<MatchingPersons> {
    let mut found = MatchingPersons::new();
    for behaviour in behaviours {
        let plan = plan(view, &behaviour)?;
        let persons = match printed(view, &plan, run).await? {
            Some(persons) => persons,
            None => {
                let columns = Some(::clickhouse::EventColumns::all());
                let (pulled, _charge) = pull(view, plan, columns, run).await?;
                let of_one = vec![behaviour.clone()];
                let mut found = embedded::matching_persons(&pulled, of_one, run).await?;
                found.remove(&behaviour).unwrap_or_default()
            }
        };
        found.insert(behaviour, persons);
    }
    Ok(found)
}

/// The persons that a statement names; none if ClickHouse cannot compute it.
async fn printed(
    view: &ClickHouseView,
    plan: &Plan,
    run: &RunResources<'_>,
) -> Result<Option<DenseIdSet>> {
    let printed = match print(plan, &view.reader.schema().promoted(), &view.cohorts) {
        Ok(printed) => printed,
        Err(::clickhouse::Error::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (project, time_max, memory_max) = (plan.project, run.time_max, run.memory_bytes);
    let persons = at_clickhouse(view, run, move |view, query_id| {
        let printed = printed.as_persons(project);
        let batches = view.run(printed, query_id, time_max, memory_max)?;
        let mut persons = DenseIdSet::new();
        for numbers in batches.numbers() {
            persons.extend(numbers?);
        }
        Ok(persons)
    });
    match persons.await {
        Err(Error::Refused(why)) => {
            tracing::warn!(why, "ClickHouse refuses a printed behavioral filter");
            Ok(None)
        }
        persons => persons.map(Some),
    }
}

/// `SELECT person_id FROM events WHERE … GROUP BY person_id HAVING …`.
fn plan(view: &ClickHouseView, behaviour: &BehavioralFilter) -> Result<Plan> {
    let Behavior { from, to, filters } = insights::behavior(behaviour, view.context())?;
    let printer = Conditions::new(view.context(), Rows::Events);
    let is_first = behaviour.frequency == Frequency::FirstTime;
    let compare_time = |operator, at| binary(operator, field(&["timestamp"]), timestamp(at));
    let mut parts = vec![compare_time(BinaryOp::LessOrEqual, to)];
    if !is_first {
        parts.push(compare_time(BinaryOp::GreaterOrEqual, from));
    }
    parts.push(match &behaviour.target {
        EventOrAction::Event(event) => binary(BinaryOp::Equal, field(&["event"]), literal(event)),
        EventOrAction::Action(id) => match view.context().actions.get(id) {
            Some(action) => {
                let steps = action.events.steps.iter();
                let steps = steps.map(|(step, filters)| printer.of_step(step, filters));
                hogql::build::any(steps.collect::<Result<_>>()?)
            }
            None => {
                return Err(Error::Invalid(format!(
                    "The filter references action {id}, which is deleted."
                )));
            }
        },
    });
    if !filters.keeps_all() {
        parts.push(printer.print(&filters)?);
    }
    let mut query: Query = hogql::parse("SELECT person_id FROM events GROUP BY person_id")?;
    let Body::Select(select) = &mut query.body else {
        return Err(Error::Internal("a select is none".into()));
    };
    select.filter = Some(all(parts));
    select.having = having(behaviour.frequency, from);
    let mut plan = hogql::resolve(&query, "", &view.schema, None)?;
    plan.page.limit = u64::from(u32::MAX);
    Ok(plan)
}

fn having(frequency: Frequency, from: model::Timestamp) -> Option<Expr> {
    let int = |number: u64| hogql::build::int(number);
    match frequency {
        Frequency::AtLeastOnce => None,
        Frequency::FirstTime => {
            let first = call("min", vec![field(&["timestamp"])]);
            Some(binary(BinaryOp::GreaterOrEqual, first, timestamp(from)))
        }
        Frequency::Times(comparison, times) => {
            let operator = match comparison {
                Comparison::Equal => BinaryOp::Equal,
                Comparison::AtLeast => BinaryOp::GreaterOrEqual,
                Comparison::AtMost => BinaryOp::LessOrEqual,
                Comparison::More => BinaryOp::Greater,
                Comparison::Less => BinaryOp::Less,
            };
            Some(binary(operator, call("count", Vec::new()), int(times)))
        }
    }
}
