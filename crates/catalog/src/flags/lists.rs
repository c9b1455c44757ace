//! Lists of feature flags.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::flag::{EvaluationRuntime, FeatureFlag, STALE_SECONDS};
use model::{FlagId, ProjectId, Timestamp, UserId, Visibility, Window};

use super::{Flags, OBJECT, rows};
use crate::Result;
use crate::db::select::{Condition, visible};
use crate::db::{Row, Value, args};
use crate::objects::tags;

/// Filters of a list; an absent filter matches everything but archived flags.
#[derive(Clone, Debug, Default)]
pub struct FlagFilter {
    pub search: Option<String>,
    pub key: Option<String>,
    pub active: Option<bool>,
    pub staleness: Option<Staleness>,
    pub archived: Option<bool>,
    /// Whether the flag has variants.
    pub multivariate: Option<bool>,
    pub remote_configuration: Option<bool>,
    /// Matches nothing: there are no experiments yet.
    pub with_experiment: bool,
    pub created_by: Option<Vec<UserId>>,
    pub tags: Option<Vec<String>>,
    pub excluded_tags: Option<Vec<String>>,
    pub excluded_keys: Option<Vec<String>>,
    pub evaluation_runtime: Option<EvaluationRuntime>,
    pub has_evaluation_contexts: Option<bool>,
    pub eligible_for_experiment: bool,
    pub order: FlagOrder,
    pub visibility: Visibility,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    Stale,
}

/// A column of `ORDERS`, and a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagOrder {
    column: &'static str,
    descending: bool,
}

const ORDERS: [&str; 8] =
    ["id", "key", "name", "active", "version", "created_at", "updated_at", "last_called_at"];

impl Default for FlagOrder {
    fn default() -> Self {
        Self { column: "created_at", descending: true }
    }
}

impl FlagOrder {
    /// Parses a field name, with a leading `-` for descending order; none for other fields.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, descending) = match text.strip_prefix('-') {
            Some(name) => (name, true),
            None => (text, false),
        };
        let column = ORDERS.iter().find(|column| **column == name)?;
        Some(Self { column, descending })
    }
}

impl FlagFilter {
    fn condition(&self, project: ProjectId, now: Timestamp) -> Condition {
        let mut condition = Condition::new("f.project_id = $1 AND NOT f.deleted", args![project]);
        condition.and("f.archived = ?", self.archived.unwrap_or(false));
        if let Some(search) = &self.search {
            condition.and_search(&["f.key", "f.name"], None, search);
        }
        if let Some(key) = &self.key {
            condition.and("lower(f.key) = ?", key.to_lowercase());
        }
        if let Some(active) = self.active {
            condition.and("f.active = ?", active);
        }
        if self.staleness.is_some() {
            let since = now.plus_seconds(-STALE_SECONDS);
            condition.and(
                "f.active AND (f.last_called_at < ? OR (f.last_called_at IS NULL \
                 AND f.created_at < ? AND f.fully_rolled_out))",
                since,
            );
        }
        if let Some(remote) = self.remote_configuration {
            condition.and("f.is_remote_configuration = ?", remote);
        }
        if let Some(runtime) = self.evaluation_runtime {
            condition.and("f.evaluation_runtime = ?", runtime.as_str());
        }
        match self.multivariate {
            Some(true) => condition.and_sql("f.variant_count > 0"),
            Some(false) => condition.and_sql("f.variant_count = 0"),
            None => {}
        }
        match self.has_evaluation_contexts {
            Some(true) => condition.and_sql("f.evaluation_contexts <> '[]'"),
            Some(false) => condition.and_sql("f.evaluation_contexts = '[]'"),
            None => {}
        }
        if self.eligible_for_experiment {
            condition.and_sql("f.variant_count BETWEEN 2 AND 20");
        }
        if self.with_experiment {
            condition.and_sql("1 = 0");
        }
        self.lists(&mut condition);
        condition.and_visible(&self.visibility, "f");
        condition
    }

    fn lists(&self, condition: &mut Condition) {
        if let Some(authors) = &self.created_by {
            condition.and_in("f.created_by IN ?", authors.clone());
        }
        if let Some(tags) = &self.tags {
            condition.and_tagged(OBJECT, "f", tags);
        }
        if let Some(excluded) = self.excluded_tags.as_ref().filter(|tags| !tags.is_empty()) {
            condition.and_not_tagged(OBJECT, "f", excluded);
        }
        if let Some(keys) = self.excluded_keys.as_ref().filter(|keys| !keys.is_empty()) {
            condition.and_in("f.key NOT IN ?", keys.iter().map(String::as_str).collect());
        }
    }

    fn order(&self) -> String {
        let FlagOrder { column, descending } = self.order;
        let direction = if descending { "DESC" } else { "ASC" };
        format!("f.{column} {direction}, f.id {direction}")
    }
}

impl Flags<'_> {
    pub async fn list(
        self,
        project: ProjectId,
        filter: &FlagFilter,
        window: Window,
    ) -> Result<(Vec<FeatureFlag>, i64)> {
        let condition = filter.condition(project, self.core.clock.now());
        let (rows, total) = self
            .core
            .db
            .page(&rows::columns(), rows::FROM, condition, &filter.order(), window)
            .await?;
        Ok((self.with_tags(project, &rows).await?, total))
    }

    /// The ids of visible live flags; none if all are visible.
    pub async fn visible_ids(
        self,
        project: ProjectId,
        visibility: &Visibility,
    ) -> Result<Option<HashSet<FlagId>>> {
        let mut values = args![project];
        let Some(visible_sql) = visible(visibility, "f", &mut values) else { return Ok(None) };
        let sql = format!(
            "SELECT f.id FROM feature_flags f WHERE f.project_id = $1 AND NOT f.deleted AND {visible_sql}"
        );
        let rows = self.core.db.all(sql, values).await?;
        rows.iter().map(|row| row.get("id")).collect::<Result<_>>().map(Some)
    }

    /// The visible live flags with a condition on this one: id, key and name.
    pub async fn dependents(
        self,
        id: FlagId,
        visibility: &Visibility,
    ) -> Result<Vec<(FlagId, String, String)>> {
        let mut values = args![id];
        let visible_sql = visible(visibility, "f", &mut values).unwrap_or_else(|| "TRUE".into());
        let sql = format!(
            "SELECT DISTINCT f.id, f.key, f.name FROM feature_flag_dependencies d \
             JOIN feature_flags f ON f.id = d.flag_id WHERE d.depends_on = $1 \
             AND NOT f.deleted AND f.id <> $1 AND {visible_sql} ORDER BY f.key"
        );
        let rows = self.core.db.all(sql, values).await?;
        rows.iter().map(|row| Ok((row.get("id")?, row.get("key")?, row.get("name")?))).collect()
    }

    /// The keys of the visible flags among `ids`, deleted ones included.
    pub async fn keys(
        self,
        project: ProjectId,
        ids: &[FlagId],
        visibility: &Visibility,
    ) -> Result<Vec<(FlagId, String)>> {
        let list: Vec<Value> = ids.iter().map(|id| (*id).into()).collect();
        let sql = "SELECT id, key, created_by FROM feature_flags \
                   WHERE project_id = $1 AND id IN {list}";
        let mut keys = Vec::new();
        for row in self.core.db.all_in(sql, args![project], &list).await? {
            let id: FlagId = row.get("id")?;
            if visibility.holds(id.0, row.get("created_by")?) {
                keys.push((id, row.get("key")?));
            }
        }
        Ok(keys)
    }

    /// Live flags by key.
    pub async fn ids_by_key(
        self,
        project: ProjectId,
        keys: &BTreeSet<&str>,
    ) -> Result<HashMap<String, FlagId>> {
        let list: Vec<Value> = keys.iter().map(|key| (*key).into()).collect();
        let sql = "SELECT key, id FROM feature_flags \
                   WHERE project_id = $1 AND NOT deleted AND key IN {list}";
        let rows = self.core.db.all_in(sql, args![project], &list).await?;
        rows.iter().map(|row| Ok((row.get("key")?, row.get("id")?))).collect()
    }

    /// The flags that match `condition`, whose first parameter is the project.
    pub(super) async fn flags_where(
        self,
        condition: &str,
        values: Vec<Value>,
    ) -> Result<Vec<FeatureFlag>> {
        let sql = format!("SELECT {} WHERE f.project_id = $1 AND {condition}", rows::select());
        let rows = self.core.db.all(sql, values).await?;
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        self.with_tags(first.get("project_id")?, &rows).await
    }

    async fn with_tags(self, project: ProjectId, rows: &[Row]) -> Result<Vec<FeatureFlag>> {
        let now = self.core.clock.now();
        let ids = rows
            .iter()
            .map(|row| Ok(row.get::<FlagId>("id")?.to_string()))
            .collect::<Result<Vec<_>>>()?;
        let mut tags = tags::of_many(&self.core.db, project, OBJECT, &ids).await?;
        let flags = rows
            .iter()
            .zip(&ids)
            .map(|(row, id)| rows::read(row, tags.remove(id).unwrap_or_default(), now));
        flags.collect()
    }
}
