//! `SessionsTimelineQuery`: recent events by session, newest first. Events without a session id form
//! sessions of their own, which a gap of half an hour ends.

use std::collections::BTreeMap;

use facts::{QueryContext, parse_elements, parse_timestamp};
use hogql::ast::{BinaryOp, Query};
use hogql::build::{binary, boolean, call, field, int, literal, timestamp};
use model::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::lower::Statement;
use crate::lower::rows::Row;
use crate::lower::selection::both;
use crate::query::spec::without_always;
use crate::statement_query::StatementResult;
use crate::{Error, Result};

/// Events of a timeline, and sessions whose further events it shows.
const EVENTS_MAX: u64 = 1_000;
const SESSIONS_MAX: u64 = 1_000;
/// A client's clock may be ahead.
const AHEAD_SECONDS: i64 = 5;
const GAP_MICROS: i64 = 30 * 60 * 1_000_000;
const COLUMNS: usize = 7;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SessionsTimelineFields")]
pub struct TimelineQuery {
    person_id: Option<String>,
    /// By default a day ago.
    after: Option<String>,
    before: Option<String>,
}

impl TimelineQuery {
    pub fn parse(json: &Json) -> Result<Self> {
        let query = model::deserialize_strict(&Json::Object(without_always(json)?));
        query.map_err(|why| Error::Parse(why.dotted_message()))
    }

    pub(crate) fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        let at = |text: &str| {
            let at = parse_timestamp(text, context.now, &context.zone);
            at.ok_or_else(|| Error::Invalid(format!("'{text}' is not a time.")))
        };
        let after = at(self.after.as_deref().unwrap_or("-24h"))?;
        let before = match self.before.as_deref() {
            // PostHog's default.
            None | Some("+5s") => context.now.plus_seconds(AHEAD_SECONDS),
            Some(text) => at(text)?,
        };
        let compare =
            |op: BinaryOp, at: Timestamp| binary(op, field(&["timestamp"]), timestamp(at));
        let recent = both([
            Some(compare(BinaryOp::Greater, after)),
            Some(compare(BinaryOp::LessOrEqual, before)),
        ]);
        let person = self.person_id.as_deref().filter(|id| !id.is_empty());
        let person = person.map_or_else(
            || boolean(true),
            |id| {
                let own = call("toString", vec![field(&["person_id"])]);
                binary(BinaryOp::Equal, own, literal(id))
            },
        );
        let mut statement = Statement::default();
        let sessions = [
            ("recent", recent.clone()),
            ("person", person.clone()),
            ("sessions", int(SESSIONS_MAX)),
        ];
        statement.cte(
            "recent",
            "SELECT $session_id AS id FROM events WHERE {recent} AND {person} AND \
             $session_id IS NOT NULL GROUP BY id ORDER BY max(timestamp) DESC, id LIMIT {sessions}",
            &sessions,
        )?;
        statement.finish(
            "SELECT uuid, timestamp, event, properties, distinct_id, elements_chain, $session_id \
             FROM events WHERE {person} AND ({recent} OR $session_id IN (SELECT id FROM recent)) \
             ORDER BY timestamp DESC, uuid LIMIT {events}",
            &[("recent", recent), ("person", person), ("events", int(EVENTS_MAX + 1))],
        )
    }
}

/// The entries of events that are sorted, newest first.
pub(crate) fn result_of_rows(mut rows: Vec<Vec<Json>>) -> Result<StatementResult> {
    let has_more = rows.len() as u64 > EVENTS_MAX;
    rows.truncate(EVENTS_MAX as usize);
    let mut entries: Vec<(Option<String>, Vec<Json>)> = Vec::new();
    let mut by_session: BTreeMap<String, usize> = BTreeMap::new();
    // The entry of events without a session id, and the time of its earliest event so far.
    let mut informal: Option<(usize, i64)> = None;
    for row in &rows {
        let session = row.get(COLUMNS - 1).and_then(Json::as_str).filter(|id| !id.is_empty());
        let (at, event) = event(row)?;
        let known = match session {
            Some(id) => by_session.get(id).copied(),
            None => informal.filter(|(_, last)| last - at <= GAP_MICROS).map(|(entry, _)| entry),
        };
        let entry = known.unwrap_or(entries.len());
        if known.is_none() {
            entries.push((session.map(str::to_owned), Vec::new()));
        }
        match session {
            Some(id) => drop(by_session.insert(id.to_owned(), entry)),
            None => informal = Some((entry, at)),
        }
        entries[entry].1.push(event);
    }
    let entry = |(session, events): (Option<String>, Vec<Json>)| json!({ "sessionId": session, "events": events, "recording_duration_s": null });
    let mut result = StatementResult::new(entries.into_iter().map(entry).collect());
    result.has_more = Some(has_more);
    Ok(result)
}

/// The time of a row, and its event.
fn event(row: &[Json]) -> Result<(i64, Json)> {
    let mut row = Row::new(row);
    let (uuid, time) = (row.next()?.clone(), row.text()?);
    let at = Timestamp::parse(time).ok_or_else(|| Error::invalid("An event has no time."))?;
    let name = row.next()?.clone();
    let properties: Json = serde_json::from_str(row.text()?).unwrap_or_else(|_| json!({}));
    let distinct_id = row.next()?.clone();
    let chain = row.next()?.as_str().filter(|chain| !chain.is_empty());
    let event = json!({
        "id": uuid,
        "uuid": uuid,
        "distinct_id": distinct_id,
        "event": name,
        "timestamp": time,
        "properties": properties,
        "elements_chain": chain,
        "elements": parse_elements(chain.unwrap_or_default()),
    });
    Ok((at.as_micros(), event))
}
