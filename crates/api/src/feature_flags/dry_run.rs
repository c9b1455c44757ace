//! Dry runs: how many persons or groups would get another value if a flag were saved.

use std::time::Duration;

use flags::{Cell, Comparison, Context, FlagSet, Selection};
use model::flag::FeatureFlag;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blast_radius::{persons_unless, target};
use super::definitions::unavailable;
use super::drafts::Draft;
use super::{FlagFields, Flags};
use crate::{App, Body, Error, Id, Json, Query, Result, Routes, Writer};

/// Time limits of a dry run, which then reports a partial result.
const MS_MAX: u64 = 20_000;
const MS_MIN: u64 = 50;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/feature_flags/dry_run", dry_run_new)
        .post("/api/projects/{project_id}/feature_flags/{id}/dry_run", dry_run)
}

#[derive(Deserialize, JsonSchema)]
struct DryRunQuery {
    /// Stops after so many milliseconds with a partial result, from 50 to 20,000.
    ms_max: Option<u64>,
}

impl DryRunQuery {
    fn duration(&self) -> Result<Duration> {
        let ms = self.ms_max.unwrap_or(MS_MAX);
        if !(MS_MIN..=MS_MAX).contains(&ms) {
            let detail = format!("Ensure this value is between {MS_MIN} and {MS_MAX}.");
            return Err(Error::invalid("ms_max", "invalid_input", detail));
        }
        Ok(Duration::from_millis(ms))
    }
}

#[derive(Serialize, JsonSchema)]
struct DryRun {
    /// How many persons or groups were evaluated.
    subjects: u64,
    /// How many there are; null for groups if time ran out before all were evaluated.
    total: Option<u64>,
    /// False if time ran out before all of them were evaluated.
    complete: bool,
    /// How many would get a different value.
    changed: u64,
    matrix: Vec<Change>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DryRunChange")]
struct Change {
    from: String,
    to: String,
    count: u64,
    /// Up to a few distinct ids or group keys.
    examples: Vec<String>,
}

/// Counts the values of a flag that does not exist yet; before, everybody has `false`.
async fn dry_run_new(
    caller: Writer<Flags>,
    query: Query<DryRunQuery>,
    app: App,
    body: Body<FlagFields>,
) -> Result<Json<DryRun>> {
    let draft = Draft::of_new(&app, &caller, &body).await?;
    compare(&app, &caller, draft, query.duration()?).await
}

/// Compares the flag's values before and after a PATCH with the same body, without storing it.
async fn dry_run(
    caller: Writer<Flags>,
    id: Id,
    query: Query<DryRunQuery>,
    app: App,
    body: Body<FlagFields>,
) -> Result<Json<DryRun>> {
    let draft = Draft::of_change(&app, &caller, id, &body).await?;
    compare(&app, &caller, draft, query.duration()?).await
}

async fn compare(
    app: &App,
    caller: &Writer<Flags>,
    draft: Draft,
    max_duration: Duration,
) -> Result<Json<DryRun>> {
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    // The cached flags may be older than the flag that was just read.
    let old = draft.stored.as_ref().map(|stored| flags.with(stored.definition()));
    let (old, new) = (old.as_ref().unwrap_or(&flags), draft.among(&flags));
    let index = draft.flag.filters.get("aggregation_group_type_index").and_then(Value::as_u64);
    let index = index.map(|index| index as u8);
    let persons = persons_unless(app, caller.project.id, index).await?;
    let subjects = target(persons.as_ref(), index);
    let was = draft.stored.as_ref().map(|stored| (stored, selection(stored)));
    let becomes = selection(&draft.flag);
    let value = |set: &FlagSet, context: &Context<'_>| match (std::ptr::eq(set, &old.set), &was) {
        (true, None) => "false".to_owned(),
        (true, Some((flag, selection))) => value(set, flag, context, selection),
        (false, _) => value(set, &draft.flag, context, &becomes),
    };
    let sets = (&old.set, &new.set);
    let compared = app.flags.compare(&caller.project, subjects, sets, max_duration, value).await?;
    let total = match compared.complete {
        true => Some(compared.subjects),
        false => persons.map(|persons| persons.count()),
    };
    Ok(Json(DryRun::of(compared, total)))
}

fn selection(flag: &FeatureFlag) -> Selection {
    Selection { keys: Some(vec![flag.key.clone()]), ..Selection::default() }
}

fn value(
    set: &FlagSet,
    flag: &FeatureFlag,
    context: &Context<'_>,
    selection: &Selection,
) -> String {
    let answers = set.evaluate(context, selection);
    match answers.results.iter().find(|answer| answer.flag.id == flag.id) {
        Some(answer) if answer.enabled => answer.variant.unwrap_or("true").to_owned(),
        _ => "false".to_owned(),
    }
}

impl DryRun {
    fn of(compared: Comparison, total: Option<u64>) -> Self {
        let matrix: Vec<Change> = compared
            .cells
            .into_iter()
            .map(|((from, to), Cell { count, examples })| Change { from, to, count, examples })
            .collect();
        let changed =
            matrix.iter().filter(|cell| cell.from != cell.to).map(|cell| cell.count).sum();
        let (subjects, complete) = (compared.subjects, compared.complete);
        Self { subjects, total, complete, changed, matrix }
    }
}
