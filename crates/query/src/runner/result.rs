//! A query's result, and the flat JSON object that the query endpoint returns.

use std::time::Duration;

use catalog::ProjectRow;
use facts::QueryContext;
use hogql::plan::Plan;
use model::Timestamp;
use serde_json::{Map, Value as Json, json};
use warehouse::ScanStats;

use super::PreparedQuery;
use crate::actors_query::ActorsPlan;
use crate::events_query::EventsPlan;
use crate::store::View;

/// How much longer a result counts as fresh for `lazy_async`.
const LAZY_SECONDS: i64 = 3_600;

#[derive(Clone, Debug)]
pub struct QueryResult {
    pub results: Json,
    pub has_more: Option<bool>,
    pub columns: Option<Json>,
    /// Whether `hogql` is the query itself, not a statement made from it.
    pub is_statement: bool,
    pub types: Option<Json>,
    /// The normalized statement of a HogQL query, or the statement that computes an insight.
    pub hogql: Option<String>,
    pub resolved: Option<(String, String)>,
    pub computed_at: Timestamp,
    pub fresh_until: Timestamp,
    pub key: String,
    pub timezone: String,
    /// Keys that only some kinds of query return.
    more: Map<String, Json>,
    took: Duration,
    scan_stats: ScanStats,
    peak_memory_bytes: usize,
    bytes: usize,
}

impl QueryResult {
    fn new(results: Json) -> Self {
        let never = Timestamp::from_micros(0);
        Self {
            results,
            has_more: None,
            columns: None,
            is_statement: false,
            types: None,
            hogql: None,
            resolved: None,
            computed_at: never,
            fresh_until: never,
            key: String::new(),
            timezone: String::new(),
            more: Map::new(),
            took: Duration::ZERO,
            scan_stats: ScanStats::default(),
            peak_memory_bytes: 0,
            bytes: 0,
        }
    }

    pub(super) fn of_insight(outcome: insights::InsightResult, hogql: Option<String>) -> Self {
        let insights::InsightResult { results, has_more, resolved, .. } = outcome;
        Self { has_more, resolved, hogql, ..Self::new(results) }
    }

    pub(super) fn of_statement(outcome: insights::StatementResult, hogql: String) -> Self {
        let insights::StatementResult { results, has_more, columns, more, resolved } = outcome;
        let (names, types) = columns.into_iter().flatten().unzip::<_, _, Vec<_>, Vec<_>>();
        let given = |list: Json, is_table: bool| is_table.then_some(list);
        let is_table = !names.is_empty();
        Self {
            has_more,
            columns: given(names.into(), is_table),
            types: given(types.into(), is_table),
            hogql: Some(hogql),
            resolved,
            more,
            ..Self::new(results)
        }
    }

    pub(super) fn of_hogql(text: &str, plan: &Plan, result_set: sql::ResultSet) -> Self {
        let types: Vec<Json> = result_set
            .columns
            .iter()
            .zip(&result_set.types)
            .map(|(column, ty)| json!([column, ty.name(&plan.zone)]))
            .collect();
        let mut result = Self::new(result_set.rows.into_iter().map(Json::Array).collect());
        result.columns = Some(result_set.columns.into());
        result.types = Some(types.into());
        result.is_statement = true;
        result.hogql =
            Some(hogql::parse(text).map_or_else(|_| text.to_owned(), |query| query.to_string()));
        // A client whose limit was capped must not take the page for all rows.
        if !plan.page.has_limit || result_set.has_more {
            result.has_more = Some(result_set.has_more);
            result.more.insert("limit".into(), plan.page.limit.into());
            result.more.insert("offset".into(), plan.page.offset.into());
        }
        if !result_set.plan.is_empty() {
            result.more.insert("explain".into(), result_set.plan.into());
        }
        result.fill(&["limit", "offset", "clickhouse", "explain", "metadata"]);
        result
    }

    pub(super) fn of_events(
        plan: &EventsPlan,
        result_set: sql::ResultSet,
        context: &QueryContext,
    ) -> Self {
        let mut rows = result_set.rows;
        let has_more = rows.len() as u64 > plan.limit || result_set.has_more;
        rows.truncate(plan.limit as usize);
        let cursor = match (has_more, plan.time_column, rows.last()) {
            (true, Some(column), Some(last)) => last.get(column).cloned(),
            _ => None,
        };
        let width = plan.columns.len();
        for row in &mut rows {
            row.truncate(width);
            plan.shape(row, context);
        }
        let types = result_set.types.iter().take(width).map(|ty| ty.name(&plan.plan.zone));
        let types: Vec<String> = types.collect();
        let mut result = Self::new(rows.into_iter().map(Json::Array).collect());
        result.columns = Some(plan.columns.clone().into());
        result.types = Some(types.into());
        result.has_more = Some(has_more);
        result.more.insert("limit".into(), plan.limit.into());
        result.more.insert("offset".into(), plan.offset.into());
        result.more.insert("nextCursor".into(), cursor.unwrap_or_default());
        result
    }

    pub(super) fn of_actors(plan: &ActorsPlan, result_set: sql::ResultSet) -> Self {
        let (rows, has_more) = plan.page(result_set.rows, result_set.has_more);
        let types = plan.types(&result_set.types);
        let mut result = Self::new(rows.into_iter().map(Json::Array).collect());
        result.columns = Some(plan.columns.clone().into());
        result.types = Some(types.into());
        result.has_more = Some(has_more);
        result.more.insert("limit".into(), plan.limit.into());
        result.more.insert("offset".into(), plan.offset.into());
        result.more.insert("missing_actors_count".into(), json!(plan.missing));
        result
    }

    /// The answer to a query about HogQL, whose keys stand beside empty `results`. It is never cached.
    pub(super) fn of_language(
        answer: Json,
        prepared: &PreparedQuery,
        project: &ProjectRow,
        now: Timestamp,
    ) -> Self {
        let more = match answer {
            Json::Object(more) => more,
            _ => Map::new(),
        };
        Self {
            more,
            key: prepared.key.clone(),
            timezone: project.timezone.clone(),
            computed_at: now,
            fresh_until: now,
            ..Self::new(Json::Array(Vec::new()))
        }
    }

    /// Sets these keys to null where they have no value.
    fn fill(&mut self, names: &[&str]) {
        for name in names {
            self.more.entry(*name).or_insert(Json::Null);
        }
    }

    pub(super) fn finish(
        &mut self,
        prepared: &PreparedQuery,
        project: &ProjectRow,
        took: Duration,
        view: &View,
        peak_memory_bytes: usize,
    ) {
        let now = view.context().now;
        self.peak_memory_bytes = peak_memory_bytes;
        self.scan_stats = view.scan_stats();
        self.key = prepared.key.clone();
        self.timezone = project.timezone.clone();
        self.took = took;
        self.computed_at = now;
        self.fresh_until = now.plus_seconds(freshness(self).as_secs() as i64);
        if self.columns.is_some() {
            self.more
                .insert("query".into(), prepared.query.get("query").cloned().unwrap_or_default());
        }
        let hogql = self.hogql.as_ref().map_or(0, String::capacity);
        self.bytes = bytes_of(&self.results) + hogql;
    }

    pub(super) fn lazy_fresh_until(&self) -> Timestamp {
        self.fresh_until.plus_seconds(LAZY_SECONDS)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The response object of the query endpoint (contract, 1.2).
    pub fn envelope(&self, is_cached: bool, status: Option<Json>) -> Map<String, Json> {
        let resolved = self.resolved.as_ref();
        let resolved = resolved.map(|(from, to)| json!({ "date_from": from, "date_to": to }));
        let mut envelope = self.more.clone();
        let columns = [("columns", &self.columns), ("types", &self.types)];
        for (name, value) in columns {
            if let Some(value) = value {
                envelope.insert(name.into(), value.clone());
            }
        }
        let mut set = |name: &str, value: Json| drop(envelope.insert(name.into(), value));
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
        let ScanStats { rows_scanned, rows_matched, segments, cached_columns } = self.scan_stats;
        let scanned = json!({
            "rows_scanned": rows_scanned,
            "rows_matched": rows_matched,
            "segments": segments,
            "cached_columns": cached_columns,
            "peak_memory_bytes": self.peak_memory_bytes,
        });
        set("query_metadata", scanned);
        envelope
    }
}

/// The approximate size of a value in memory.
fn bytes_of(json: &Json) -> usize {
    /// Overhead of an object's member on top of its name and value.
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

/// How long a result stays fresh: the last interval of a range that ends now keeps changing.
fn freshness(result: &QueryResult) -> Duration {
    const MINUTE: u64 = 60;
    const WEEK_MICROS: i64 = 8 * 24 * 3_600 * 1_000_000;
    let seconds = match &result.resolved {
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
