//! Dead letters: journal records that could not be applied, kept for a replay.

use std::collections::HashSet;

use model::{ProjectId, Timestamp, Window};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::DeadLetters;
use crate::Result;
use crate::db::bulk::Rows;
use crate::db::select::Condition;
use crate::db::{Row, Tx, args};

/// Replayed dead letters are deleted after this.
pub const REPLAYED_DAYS_MAX: i64 = 30;
/// Past it the oldest are deleted, so that a broken client cannot fill the disk.
pub const DEAD_LETTERS_PER_PROJECT_MAX: i64 = 10_000;

/// A journal record that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDeadLetter {
    pub project: Option<ProjectId>,
    pub position: u64,
    pub step: &'static str,
    pub reason: String,
    pub event: Option<String>,
    pub distinct_id: Option<String>,
    pub record: Vec<u8>,
}

/// A dead letter, as the API serializes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeadLetter {
    pub id: Uuid,
    pub team_id: Option<ProjectId>,
    /// The record's position in the journal.
    pub position: i64,
    /// The stage that failed, such as decoding or storing.
    pub step: String,
    pub reason: String,
    pub event: Option<String>,
    pub distinct_id: Option<String>,
    pub timestamp: Timestamp,
    pub replayed_at: Option<Timestamp>,
}

const COLUMNS: &str = "d.id, d.project_id, d.position, d.step, d.reason, d.event, d.distinct_id, \
     d.created_at, d.replayed_at";

fn read(row: &Row) -> Result<DeadLetter> {
    Ok(DeadLetter {
        id: row.get("id")?,
        team_id: row.get("project_id")?,
        position: row.get("position")?,
        step: row.get("step")?,
        reason: row.get("reason")?,
        event: row.get("event")?,
        distinct_id: row.get("distinct_id")?,
        timestamp: row.get("created_at")?,
        replayed_at: row.get("replayed_at")?,
    })
}

impl DeadLetters<'_> {
    /// Dead letters not replayed yet, newest first; of all projects if `project` is none.
    pub async fn list(
        self,
        project: Option<ProjectId>,
        window: Window,
    ) -> Result<(Vec<DeadLetter>, i64)> {
        let mut condition = Condition::new("d.replayed_at IS NULL", args![]);
        if let Some(project) = project {
            condition.and("d.project_id = ?", project);
        }
        let order = "d.created_at DESC, d.id DESC";
        let (rows, total) =
            self.core.db.page(COLUMNS, "dead_letters d", condition, order, window).await?;
        Ok((rows.iter().map(read).collect::<Result<_>>()?, total))
    }

    /// Positions in `from..reach` whose records are dead letters.
    pub async fn positions(self, from: u64, reach: u64) -> Result<HashSet<u64>> {
        let sql = "SELECT position FROM dead_letters WHERE position >= $1 AND position < $2";
        let rows = self.core.db.all(sql, args![from as i64, reach as i64]).await?;
        rows.iter().map(|row| Ok(row.get::<i64>("position")? as u64)).collect()
    }

    /// A dead letter and its record, for a replay.
    pub async fn get(self, project: Option<ProjectId>, id: Uuid) -> Result<(DeadLetter, Vec<u8>)> {
        let mut values = args![id];
        let mut sql = format!("SELECT {COLUMNS}, d.record FROM dead_letters d WHERE d.id = $1");
        if let Some(project) = project {
            sql += " AND d.project_id = $2";
            values.extend(args![project]);
        }
        let row = self.core.db.one(sql, values).await?;
        Ok((read(&row)?, row.get("record")?))
    }

    /// Marks a dead letter as replayed; false if it already was.
    pub async fn mark_replayed(self, id: Uuid) -> Result<bool> {
        let mut tx = self.core.db.begin().await?;
        let sql = "UPDATE dead_letters SET replayed_at = $2 WHERE id = $1 AND replayed_at IS NULL";
        let first = tx.run(sql, args![id, self.core.clock.now()]).await? > 0;
        tx.commit().await?;
        Ok(first)
    }

    /// Requests a replay of one dead letter, or of all, by the running or the next server. Returns
    /// the count.
    pub async fn request_replay(self, id: Option<Uuid>) -> Result<u64> {
        let mut sql = "UPDATE dead_letters SET replay_wanted_at = $1 \
                       WHERE replayed_at IS NULL"
            .to_owned();
        let mut values = args![self.core.clock.now()];
        if let Some(id) = id {
            sql += " AND id = $2";
            values.extend(args![id]);
        }
        let mut tx = self.core.db.begin().await?;
        let requested = tx.run(sql, values).await?;
        tx.commit().await?;
        Ok(requested)
    }

    /// Up to `limit` dead letters whose replay is requested, with their records.
    pub async fn replays_requested(self, limit: i64) -> Result<Vec<(Uuid, Vec<u8>)>> {
        let sql = "SELECT id, record FROM dead_letters WHERE replay_wanted_at IS NOT NULL \
                   AND replayed_at IS NULL ORDER BY position LIMIT $1";
        let rows = self.core.db.all(sql, args![limit]).await?;
        rows.iter().map(|row| Ok((row.get("id")?, row.get("record")?))).collect()
    }

    /// Reverts [`DeadLetters::mark_replayed`], if the journal rejected the record.
    pub async fn unmark_replayed(self, id: Uuid) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.run("UPDATE dead_letters SET replayed_at = NULL WHERE id = $1", args![id]).await?;
        tx.commit().await
    }

    /// Deletes dead letters replayed long ago, and the oldest past the limit. Returns the count.
    pub async fn prune(self) -> Result<u64> {
        let oldest = self.core.clock.now().plus_seconds(-REPLAYED_DAYS_MAX * 24 * 3_600);
        let mut tx = self.core.db.begin().await?;
        let sql = "DELETE FROM dead_letters WHERE replayed_at < $1";
        let old = tx.run(sql, args![oldest]).await?;
        let sql = "DELETE FROM dead_letters WHERE id IN (SELECT id FROM (SELECT id, \
                   ROW_NUMBER() OVER (PARTITION BY project_id ORDER BY created_at DESC, id DESC) \
                   AS place FROM dead_letters) AS ranked WHERE place > $1)";
        let many = tx.run(sql, args![DEAD_LETTERS_PER_PROJECT_MAX]).await?;
        tx.commit().await?;
        Ok(old + many)
    }
}

pub(crate) async fn insert(tx: &mut Tx, letters: &[NewDeadLetter], now: Timestamp) -> Result<()> {
    let mut rows = Rows::new(9);
    for letter in letters {
        rows.push(args![
            Uuid::now_v7(),
            letter.project,
            letter.position as i64,
            letter.step,
            letter.reason.as_str(),
            letter.event.as_deref(),
            letter.distinct_id.as_deref(),
            letter.record.clone(),
            now,
        ]);
    }
    let head = "INSERT INTO dead_letters \
                (id, project_id, position, step, reason, event, distinct_id, record, created_at)";
    tx.write(head, rows, "").await
}
