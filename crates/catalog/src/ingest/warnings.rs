//! Ingestion warnings: problems with the events that a project sent.

use std::collections::HashSet;

use model::{ProjectId, Timestamp, Warning, Window};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::Warnings;
use crate::db::dialect::placeholders;
use crate::db::select::Condition;
use crate::db::{Row, Tx, args};
use crate::{Error, Result};

/// Further warnings of one call are dropped, so that warnings cannot crowd out events.
pub const WARNINGS_AT_ONCE_MAX: usize = 5_000;
/// Rows per INSERT; SQLite takes 32,766 parameters.
const ROWS_PER_INSERT: usize = 500;

pub const WARNING_DAYS_MAX: i64 = 30;
pub const WARNINGS_PER_PROJECT_MAX: i64 = 10_000;
/// Rows per pruning transaction, to keep it short.
const ROWS_PER_PRUNE: i64 = 1_000;

/// A warning, as the API serializes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WarningRow {
    pub id: Uuid,
    pub team_id: ProjectId,
    pub source: String,
    #[serde(rename = "type")]
    #[schemars(with = "model::WarningKind")]
    pub kind: String,
    pub timestamp: Timestamp,
    #[schemars(with = "model::WarningDetails")]
    pub details: Value,
}

impl WarningRow {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            team_id: row.get("project_id")?,
            source: row.get("source")?,
            kind: row.get("type")?,
            timestamp: row.get("created_at")?,
            details: row.json("details")?,
        })
    }
}

impl Warnings<'_> {
    /// Newest first.
    pub async fn list(
        self,
        project: ProjectId,
        kind: Option<&str>,
        window: Window,
    ) -> Result<(Vec<WarningRow>, i64)> {
        let mut condition = Condition::new("w.project_id = $1", args![project]);
        if let Some(kind) = kind {
            condition.and("w.type = ?", kind);
        }
        let columns = "w.id, w.project_id, w.source, w.type, w.details, w.created_at";
        let order = "w.created_at DESC, w.id DESC";
        let from = "ingestion_warnings w";
        let (rows, total) = self.core.db.page(columns, from, condition, order, window).await?;
        Ok((rows.iter().map(WarningRow::read).collect::<Result<_>>()?, total))
    }

    /// Stores warnings of `source`, at most `WARNINGS_AT_ONCE_MAX`, without those of deleted
    /// projects. Returns the count stored.
    pub async fn record(self, source: &str, warnings: &[Warning]) -> Result<usize> {
        let mut tx = self.core.db.begin().await?;
        let kept = record(&mut tx, source, warnings).await?;
        tx.commit().await?;
        Ok(kept)
    }

    /// Deletes warnings past `WARNING_DAYS_MAX` or `WARNINGS_PER_PROJECT_MAX`. Returns the
    /// count.
    pub async fn prune(self) -> Result<u64> {
        let oldest = self.core.clock.now().plus_seconds(-WARNING_DAYS_MAX * 24 * 3_600);
        let mut pruned = self.delete_where("created_at < $1", args![oldest]).await?;
        let crowded = self
            .core
            .db
            .all(
                "SELECT project_id FROM ingestion_warnings \
                 GROUP BY project_id HAVING COUNT(*) > $1",
                args![WARNINGS_PER_PROJECT_MAX],
            )
            .await?;
        for row in crowded {
            let project: ProjectId = row.get("project_id")?;
            let last_kept = self
                .core
                .db
                .one(
                    "SELECT created_at, id FROM ingestion_warnings WHERE project_id = $1 \
                     ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET $2",
                    args![project, WARNINGS_PER_PROJECT_MAX - 1],
                )
                .await?;
            let (at, id): (Timestamp, Uuid) = (last_kept.get("created_at")?, last_kept.get("id")?);
            pruned += self
                .delete_where(
                    "project_id = $1 AND (created_at, id) < ($2, $3)",
                    args![project, at, id],
                )
                .await?;
        }
        Ok(pruned)
    }

    async fn delete_where(self, which: &str, values: Vec<crate::db::Value>) -> Result<u64> {
        let sql = format!(
            "DELETE FROM ingestion_warnings WHERE id IN \
             (SELECT id FROM ingestion_warnings WHERE {which} LIMIT {ROWS_PER_PRUNE})"
        );
        let mut pruned = 0;
        loop {
            let mut tx = self.core.db.begin().await?;
            let deleted = tx.run(sql.clone(), values.clone()).await?;
            tx.commit().await?;
            pruned += deleted;
            if deleted < ROWS_PER_PRUNE.unsigned_abs() {
                return Ok(pruned);
            }
        }
    }
}

/// Like [`Warnings::record`], within a transaction.
pub(crate) async fn record(tx: &mut Tx, source: &str, warnings: &[Warning]) -> Result<usize> {
    if warnings.is_empty() {
        return Ok(0);
    }
    let taken = &warnings[..warnings.len().min(WARNINGS_AT_ONCE_MAX)];
    if taken.len() < warnings.len() {
        tracing::warn!(
            dropped = warnings.len() - taken.len(),
            "dropped ingestion warnings past the limit of one call"
        );
    }
    let known = known_projects(tx, taken).await?;
    let kept: Vec<&Warning> =
        taken.iter().filter(|warning| known.contains(&warning.project)).collect();
    for rows in kept.chunks(ROWS_PER_INSERT) {
        insert(tx, source, rows).await?;
    }
    Ok(kept.len())
}

async fn known_projects(tx: &mut Tx, warnings: &[Warning]) -> Result<HashSet<ProjectId>> {
    let project_ids: HashSet<ProjectId> = warnings.iter().map(|warning| warning.project).collect();
    let sql = format!("SELECT id FROM projects WHERE id IN {}", placeholders(1, project_ids.len()));
    let values = project_ids.into_iter().map(Into::into).collect();
    tx.all(sql, values).await?.iter().map(|row| row.get("id")).collect()
}

async fn insert(tx: &mut Tx, source: &str, warnings: &[&Warning]) -> Result<()> {
    let mut values = args![source];
    let mut rows = Vec::with_capacity(warnings.len());
    for warning in warnings {
        let details = serde_json::to_string(&warning.details)
            .map_err(|why| Error::corrupt("details", why))?;
        let first = values.len() + 1;
        values.extend(args![
            Uuid::now_v7(),
            warning.project,
            warning.kind.as_str(),
            details,
            warning.timestamp,
        ]);
        rows.push(format!(
            "($1, ${first}, ${}, ${}, ${}, ${})",
            first + 1,
            first + 2,
            first + 3,
            first + 4
        ));
    }
    let sql = format!(
        "INSERT INTO ingestion_warnings (source, id, project_id, type, details, created_at) \
         VALUES {}",
        rows.join(", ")
    );
    tx.run(sql, values).await?;
    Ok(())
}
