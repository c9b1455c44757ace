//! An answer, and the flat object in which it is shown.

use std::time::Duration;

use catalog::ProjectRow;
use facts::World;
use hogql::plan::Plan;
use model::Timestamp;
use serde_json::{Map, Value as Json, json};

use super::Ready;
use crate::actors_query::ActorsPlan;
use crate::events_query::EventsPlan;

/// How much longer an answer is good enough for who is in no hurry.
const LEISURE_SECONDS: i64 = 3_600;

#[derive(Clone, Debug)]
pub struct Answer {
    pub results: Json,
    pub has_more: Option<bool>,
    pub columns: Option<Json>,
    pub types: Option<Json>,
    /// The question in HogQL, where it is one.
    pub hogql: Option<String>,
    pub resolved: Option<(String, String)>,
    pub computed_at: Timestamp,
    pub fresh_until: Timestamp,
    pub key: String,
    pub timezone: String,
    /// What only some kinds show.
    more: Map<String, Json>,
    took: Duration,
    bytes: usize,
}

impl Answer {
    fn new(results: Json) -> Self {
        let never = Timestamp::from_micros(0);
        Self {
            results,
            has_more: None,
            columns: None,
            types: None,
            hogql: None,
            resolved: None,
            computed_at: never,
            fresh_until: never,
            key: String::new(),
            timezone: String::new(),
            more: Map::new(),
            took: Duration::ZERO,
            bytes: 0,
        }
    }

    pub(super) fn of_insight(outcome: insights::Outcome) -> Self {
        let insights::Outcome { results, has_more, resolved, .. } = outcome;
        Self { has_more, resolved, ..Self::new(results) }
    }

    pub(super) fn of_hogql(text: &str, plan: &Plan, found: sql::Answer) -> Self {
        let types: Vec<Json> = found
            .columns
            .iter()
            .zip(&found.types)
            .map(|(column, ty)| json!([column, ty.name(&plan.zone)]))
            .collect();
        let mut answer = Self::new(found.rows.into_iter().map(Json::Array).collect());
        answer.columns = Some(found.columns.into());
        answer.types = Some(types.into());
        answer.hogql =
            Some(hogql::parse(text).map_or_else(|_| text.to_owned(), |own| own.to_string()));
        // Who asked for more rows than an answer has must not take it for all of them.
        if !plan.page.limited || found.has_more {
            answer.has_more = Some(found.has_more);
            answer.more.insert("limit".into(), plan.page.limit.into());
            answer.more.insert("offset".into(), plan.page.offset.into());
        }
        answer.fill(&["limit", "offset", "clickhouse", "explain", "metadata"]);
        answer
    }

    pub(super) fn of_events(plan: &EventsPlan, found: sql::Answer, world: &World) -> Self {
        let mut rows = found.rows;
        let has_more = rows.len() as u64 > plan.limit || found.has_more;
        rows.truncate(plan.limit as usize);
        let cursor = match (has_more, plan.time_column, rows.last()) {
            (true, Some(column), Some(last)) => last.get(column).cloned(),
            _ => None,
        };
        let shown = plan.columns.len();
        for row in &mut rows {
            row.truncate(shown);
            plan.shape(row, world);
        }
        let types = found.types.iter().take(shown).map(|ty| ty.name(&plan.plan.zone));
        let types: Vec<String> = types.collect();
        let mut answer = Self::new(rows.into_iter().map(Json::Array).collect());
        answer.columns = Some(plan.columns.clone().into());
        answer.types = Some(types.into());
        answer.has_more = Some(has_more);
        answer.more.insert("limit".into(), plan.limit.into());
        answer.more.insert("offset".into(), plan.offset.into());
        answer.more.insert("nextCursor".into(), cursor.unwrap_or_default());
        answer
    }

    pub(super) fn of_actors(plan: &ActorsPlan, found: sql::Answer) -> Self {
        let (rows, has_more) = plan.page(found.rows, found.has_more);
        let types = plan.types(&found.types);
        let mut answer = Self::new(rows.into_iter().map(Json::Array).collect());
        answer.columns = Some(plan.columns.clone().into());
        answer.types = Some(types.into());
        answer.has_more = Some(has_more);
        answer.more.insert("limit".into(), plan.limit.into());
        answer.more.insert("offset".into(), plan.offset.into());
        answer.more.insert("missing_actors_count".into(), json!(plan.missing));
        answer
    }

    /// Null where nothing else is known.
    fn fill(&mut self, names: &[&str]) {
        for name in names {
            self.more.entry(*name).or_insert(Json::Null);
        }
    }

    pub(super) fn finish(
        &mut self,
        ready: &Ready,
        project: &ProjectRow,
        took: Duration,
        now: Timestamp,
    ) {
        self.key = ready.key.clone();
        self.timezone = project.timezone.clone();
        self.took = took;
        self.computed_at = now;
        self.fresh_until = now.plus_seconds(freshness(self).as_secs() as i64);
        if self.columns.is_some() {
            self.more.insert("query".into(), ready.query.get("query").cloned().unwrap_or_default());
        }
        self.bytes = bytes_of(&self.results);
    }

    pub(super) fn fresh_until_at_leisure(&self) -> Timestamp {
        self.fresh_until.plus_seconds(LEISURE_SECONDS)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// As the endpoint answers (contract, 1.2).
    pub fn envelope(&self, is_cached: bool, status: Option<Json>) -> Map<String, Json> {
        let resolved = self.resolved.as_ref();
        let resolved = resolved.map(|(from, to)| json!({ "date_from": from, "date_to": to }));
        let mut shown = self.more.clone();
        let columns = [("columns", &self.columns), ("types", &self.types)];
        for (name, value) in columns {
            if let Some(value) = value {
                shown.insert(name.into(), value.clone());
            }
        }
        let mut set = |name: &str, value: Json| drop(shown.insert(name.into(), value));
        set("results", self.results.clone());
        set("hasMore", json!(self.has_more));
        set("hogql", json!(self.hogql));
        set("timings", json!([{ "k": "./execute", "t": self.took.as_secs_f64() }]));
        set("error", Json::Null);
        let mode = "person_id_override_properties_joined";
        set("modifiers", json!({ "personsOnEventsMode": mode }));
        set("query_status", status.unwrap_or_default());
        set("resolved_date_range", resolved.unwrap_or_default());
        set("is_cached", json!(is_cached));
        set("cache_key", json!(self.key));
        set("last_refresh", json!(self.computed_at));
        set("cache_target_age", json!(self.fresh_until));
        set("next_allowed_client_refresh", json!(self.fresh_until));
        set("timezone", json!(self.timezone));
        set("calculation_trigger", Json::Null);
        set("query_metadata", Json::Null);
        shown
    }
}

/// What a value takes in memory, about.
fn bytes_of(json: &Json) -> usize {
    /// Of an object's member, beside its name and value.
    const MEMBER: usize = 48;
    size_of::<Json>()
        + match json {
            Json::Null | Json::Bool(_) | Json::Number(_) => 0,
            Json::String(text) => text.capacity(),
            Json::Array(all) => all.iter().map(bytes_of).sum(),
            Json::Object(all) => {
                all.iter().map(|(name, value)| MEMBER + name.capacity() + bytes_of(value)).sum()
            }
        }
}

/// Of a range that ends now, the last part keeps changing.
fn freshness(answer: &Answer) -> Duration {
    const MINUTE: u64 = 60;
    const WEEK_MICROS: i64 = 8 * 24 * 3_600 * 1_000_000;
    let seconds = match &answer.resolved {
        None => MINUTE,
        Some((from, to)) => match (Timestamp::parse(from), Timestamp::parse(to)) {
            (Some(from), Some(to)) if to.as_micros() - from.as_micros() > WEEK_MICROS => {
                15 * MINUTE
            }
            _ => 3 * MINUTE,
        },
    };
    Duration::from_secs(seconds)
}
