//! Where a cohort is used: flags, insights, other cohorts and actions that reference it directly.

use model::{ActionStep, CohortId, ObjectKind, ProjectId, Visibilities};
use serde_json::Value;

use super::Cohorts;
use super::references::{cohorts, step_cohorts, tree};
use crate::Result;
use crate::db::{Row, args};

/// Objects listed of each kind.
const LISTED_MAX: usize = 100;
/// Rows per statement, since queries and filters may be large.
const BATCH_ROWS: i64 = 200;

/// An object that references a cohort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CohortUser {
    pub id: i64,
    /// A flag's key or an insight's short id.
    pub key: Option<String>,
    pub name: Option<String>,
}

/// What references a cohort; at most 100 of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CohortUsers {
    pub flags: Vec<CohortUser>,
    pub insights: Vec<CohortUser>,
    pub cohorts: Vec<CohortUser>,
    pub actions: Vec<CohortUser>,
    /// Objects that the reader may not see.
    pub hidden: u64,
}

impl Cohorts<'_> {
    /// The live objects that reference a cohort directly.
    pub async fn users(
        self,
        project: ProjectId,
        id: CohortId,
        name: Option<&str>,
        visibilities: &Visibilities,
    ) -> Result<CohortUsers> {
        let mut users = CohortUsers::default();
        let flags = "SELECT f.id, f.key AS key, f.name AS name, f.created_by FROM feature_flags f \
             WHERE f.project_id = $1 AND f.id > $2 AND NOT f.deleted AND f.id IN \
             (SELECT flag_id FROM feature_flag_cohorts WHERE cohort_id = $4) ORDER BY f.id LIMIT $3";
        let mut kind = (Some(ObjectKind::FeatureFlag), visibilities);
        users.flags = self
            .referencing(flags, (project, Some(id)), kind, &mut users.hidden, |_| Ok(true))
            .await?;
        let insights = "SELECT id, short_id AS key, COALESCE(NULLIF(name, ''), derived_name) AS name, \
             created_by, query, filters FROM insights WHERE project_id = $1 AND id > $2 \
             AND NOT deleted AND (lower(COALESCE(query, '')) LIKE '%cohort%' \
             OR lower(filters) LIKE '%cohort%') ORDER BY id LIMIT $3";
        kind.0 = Some(ObjectKind::Insight);
        let mentioned = |row: &Row| {
            let query: Option<Value> = row.optional_json("query")?;
            let filters: Value = row.json("filters")?;
            Ok(query.iter().chain([&filters]).any(|json| mentions(json, id, name)))
        };
        users.insights =
            self.referencing(insights, (project, None), kind, &mut users.hidden, mentioned).await?;
        let others = "SELECT id, NULL AS key, name, created_by, filters FROM cohorts \
             WHERE project_id = $1 AND id > $2 AND NOT deleted AND NOT is_static \
             AND filters LIKE '%cohort%' ORDER BY id LIMIT $3";
        kind.0 = None;
        let referenced = |row: &Row| {
            let mut found = Vec::new();
            cohorts(&tree(&row.json("filters")?)?, &mut found);
            Ok(found.contains(&id))
        };
        users.cohorts =
            self.referencing(others, (project, None), kind, &mut users.hidden, referenced).await?;
        let actions = "SELECT id, NULL AS key, name, created_by, steps FROM actions \
             WHERE project_id = $1 AND id > $2 AND NOT deleted AND steps LIKE '%cohort%' \
             ORDER BY id LIMIT $3";
        kind.0 = Some(ObjectKind::Action);
        let stepped =
            |row: &Row| Ok(step_cohorts(&row.json::<Vec<ActionStep>>("steps")?).contains(&id));
        users.actions =
            self.referencing(actions, (project, None), kind, &mut users.hidden, stepped).await?;
        Ok(users)
    }

    /// The visible rows that `references` accepts, by id, and the number of hidden ones.
    async fn referencing(
        self,
        sql: &'static str,
        (project, cohort): (ProjectId, Option<CohortId>),
        (kind, visibilities): (Option<ObjectKind>, &Visibilities),
        hidden: &mut u64,
        references: impl Fn(&Row) -> Result<bool>,
    ) -> Result<Vec<CohortUser>> {
        let (mut after, mut users) = (0, Vec::new());
        loop {
            let mut values = args![project, after, BATCH_ROWS];
            values.extend(cohort.map(Into::into));
            let rows = self.core.db.all(sql, values).await?;
            for row in &rows {
                after = row.get("id")?;
                if !references(row)? {
                    continue;
                }
                let author = row.get("created_by")?;
                match kind.is_none_or(|kind| visibilities.of(kind).holds(after, author)) {
                    true => users.push(CohortUser {
                        id: after,
                        key: row.get("key")?,
                        name: row.get("name")?,
                    }),
                    false => *hidden += 1,
                }
            }
            if rows.len() < BATCH_ROWS as usize || users.len() >= LISTED_MAX {
                users.truncate(LISTED_MAX);
                return Ok(users);
            }
        }
    }
}

/// Whether a query names the cohort: in a property filter, a breakdown or HogQL.
fn mentions(json: &Value, id: CohortId, name: Option<&str>) -> bool {
    match json {
        Value::String(text) => hogql_mentions(text, id, name),
        Value::Array(items) => items.iter().any(|item| mentions(item, id, name)),
        Value::Object(fields) => {
            let is = |key: &str, suffix: &str| {
                fields.get(key).and_then(Value::as_str).is_some_and(|kind| kind.ends_with(suffix))
            };
            let names = |key: &str| fields.get(key).is_some_and(|value| contains_id(value, id.0));
            (is("type", "cohort") && names("value"))
                || (is("type", "cohort") && names("property"))
                || (is("breakdown_type", "cohort") && names("breakdown"))
                || fields.values().any(|value| mentions(value, id, name))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a value is the id, as a number or a string, or a list with it.
fn contains_id(value: &Value, id: i64) -> bool {
    match value {
        Value::Number(number) => number.as_i64() == Some(id),
        Value::String(text) => text.parse() == Ok(id),
        Value::Array(items) => items.iter().any(|item| contains_id(item, id)),
        Value::Null | Value::Bool(_) | Value::Object(_) => false,
    }
}

/// Whether a statement has `COHORT <id>` or `COHORT '<name>'`.
fn hogql_mentions(text: &str, id: CohortId, name: Option<&str>) -> bool {
    const WORD: &str = "cohort";
    let lower = text.to_ascii_lowercase();
    let operands = lower.match_indices(WORD).map(|(at, _)| text[at + WORD.len()..].trim_start());
    operands.into_iter().any(|operand| {
        let digits = operand.find(|char: char| !char.is_ascii_digit()).unwrap_or(operand.len());
        let quoted = operand.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        operand[..digits].parse() == Ok(id.0)
            || quoted.is_some_and(|(quoted, _)| Some(quoted) == name)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cohort_is_found_in_filters_breakdowns_and_hogql() {
        for (query, expected) in [
            (json!({ "properties": [{ "type": "cohort", "key": "id", "value": 7 }] }), true),
            (json!({ "properties": [{ "type": "cohort", "key": "id", "value": "7" }] }), true),
            (json!({ "properties": [{ "type": "cohort", "key": "id", "value": 70 }] }), false),
            (json!({ "properties": [{ "type": "event", "key": "id", "value": 7 }] }), false),
            (json!({ "breakdown_type": "cohort", "breakdown": ["all", 7] }), true),
            (json!({ "breakdowns": [{ "type": "cohort", "property": 7 }] }), true),
            (json!({ "query": "select 1 from events where person_id in Cohort 7" }), true),
            (json!({ "query": "select 1 from events where person_id in cohort 'Best'" }), true),
            (json!({ "query": "select 1 from events where person_id in cohort 71" }), false),
        ] {
            assert_eq!(mentions(&query, CohortId(7), Some("Best")), expected, "{query}");
        }
    }
}
