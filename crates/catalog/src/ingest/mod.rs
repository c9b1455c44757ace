//! The pipeline's writes: all changes of a batch and the journal offset, in one transaction, which
//! makes replays after a crash exact.

pub(crate) mod dead_letters;
mod definitions;
mod flags;
mod groups;
mod identity;
pub(crate) mod listeners;
pub(crate) mod warnings;

use std::collections::HashMap;

use model::definition::Observations;
use model::group::Group;
use model::person::{DistinctNo, IdentityChanges};
use model::{ProjectId, ProjectSettings, Timestamp, Warning, WarningDetails, WarningKind};

use crate::db::bulk::{Rows, id_values};
use crate::db::{Core, Tx, args, handle};
use crate::definitions::quota::DefinitionQuota;
use crate::feed;
use crate::{Error, Result};
use dead_letters::NewDeadLetter;
use listeners::{IngestOutcome, Listeners};

use tokio::sync::watch;

handle! {
    /// Ingestion warnings.
    Warnings
}
handle! {
    /// Records that could not be applied.
    DeadLetters
}
/// The pipeline's batches and the journal offset.
#[derive(Clone, Copy)]
pub struct Ingest<'a> {
    pub(crate) core: &'a Core,
    pub(crate) state: &'a IngestState,
    pub(crate) quota: &'a DefinitionQuota,
}

/// This process's view of the pipeline's progress.
#[derive(Default)]
pub(crate) struct IngestState {
    /// The first journal position that is not applied yet.
    applied: watch::Sender<u64>,
    listeners: Listeners,
}

/// The pipeline's key in `journal_offsets`.
pub(crate) const CONSUMER: &str = "pipeline";
const WARNINGS_SOURCE: &str = "pipeline";

/// All changes by the records from `from` up to `reach`.
#[derive(Debug, Default)]
pub struct IngestBatch {
    pub journal: u128,
    /// The stored offset must equal this; otherwise the batch fails with [`Error::OutOfSync`].
    pub from: u64,
    /// The offset after the batch.
    pub reach: u64,
    pub projects: Vec<ProjectChanges>,
    pub observations: Observations,
    pub warnings: Vec<Warning>,
    pub dead_letters: Vec<NewDeadLetter>,
    pub deletions: Vec<EventDeletion>,
}

#[derive(Debug)]
pub struct ProjectChanges {
    pub project: ProjectId,
    pub identity: IdentityChanges,
    pub group_types: Vec<(String, u8)>,
    pub groups: Vec<Group>,
    /// Whether this batch contains the project's first event.
    pub first_event: bool,
}

/// A pending deletion of events by distinct id, for the warehouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDeletion {
    pub project: ProjectId,
    /// Events at or after this journal position stay.
    pub before: u64,
    pub distinct_nos: Vec<DistinctNo>,
}

/// A project's settings for ingestion.
#[derive(Clone, Debug, Default)]
pub struct IngestRules {
    pub settings: ProjectSettings,
    pub ingested_event: bool,
}

impl Ingest<'_> {
    /// The journal's id and the first unapplied position; none before the first batch.
    pub async fn offset(self) -> Result<Option<(u128, u64)>> {
        let sql = "SELECT journal_id, position FROM journal_offsets WHERE consumer = $1";
        let Some(row) = self.core.db.optional(sql, args![CONSUMER]).await? else { return Ok(None) };
        let id: String = row.get("journal_id")?;
        let id = u128::from_str_radix(&id, 16).map_err(|why| Error::corrupt("journal_id", why))?;
        let position = row.get::<i64>("position")? as u64;
        self.state.applied.send_replace(position);
        Ok(Some((id, position)))
    }

    /// The settings of the projects that exist.
    pub async fn rules(self, projects: &[ProjectId]) -> Result<HashMap<ProjectId, IngestRules>> {
        let sql = "SELECT id, settings, ingested_event FROM projects WHERE id IN {list}";
        let rows = self.core.db.all_in(sql, args![], &id_values(projects)).await?;
        let rules = rows.iter().map(|row| {
            let settings = ProjectSettings::stored(row.json("settings")?);
            let ingested_event = row.get("ingested_event")?;
            Ok((row.get("id")?, IngestRules { settings, ingested_event }))
        });
        rules.collect()
    }

    /// Applies a batch atomically. Blocks the calling thread on SQLite's I/O.
    pub async fn apply(self, batch: &IngestBatch) -> Result<()> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin_inline().await?;
        advance_offset(&mut tx, batch, now).await?;
        if tx.has_feed() {
            feed::advance(&mut tx, batch.journal, batch.reach, now).await?;
        }
        for changes in &batch.projects {
            let ProjectChanges { project, identity, groups, .. } = changes;
            feed::record_batch(&mut tx, *project, batch.reach, identity, groups).await?;
            identity::write(&mut tx, changes.project, &changes.identity).await?;
            groups::write(&mut tx, changes, now).await?;
            if changes.first_event {
                let sql = "UPDATE projects SET ingested_event = $2 WHERE id = $1";
                tx.run(sql, args![changes.project, true]).await?;
                tx.invalidate_project(changes.project);
            }
            // Flags reference groups by type index, so new types invalidate them.
            if !changes.group_types.is_empty() {
                tx.invalidate_project(changes.project);
            }
        }
        let quota = self.quota;
        let pending = quota.begin();
        let skipped = definitions::write(&mut tx, &batch.observations, quota, now).await?;
        warn_quota_exceeded(&mut tx, &skipped, now).await?;
        flags::write(&mut tx, &batch.observations.flags).await?;
        warnings::record(&mut tx, WARNINGS_SOURCE, &batch.warnings).await?;
        dead_letters::insert(&mut tx, &batch.dead_letters, now).await?;
        record_deletions(&mut tx, &batch.deletions, now).await?;
        self.state.listeners.prepare(batch);
        if let Err(error) = tx.commit().await {
            self.state.listeners.notify(IngestOutcome::Unknown);
            return Err(error);
        }
        pending.settle();
        quota.count_skipped(skipped.values().sum());
        self.state.listeners.notify(IngestOutcome::Committed(&batch.projects));
        self.state.applied.send_replace(batch.reach);
        Ok(())
    }

    /// The first unapplied journal position, as far as this process knows. It changes with every
    /// batch, which makes it a cache version for persons and groups.
    pub fn applied_position(self) -> u64 {
        *self.state.applied.borrow()
    }

    /// Returns when the record at `position` is applied.
    pub async fn wait_applied(self, position: u64) {
        // Cannot fail: the sender lives as long as the catalog.
        let _ = self.state.applied.subscribe().wait_for(|applied| *applied > position).await;
    }

    /// Deletions of events that are not done yet, in order.
    pub async fn deletions_due(self) -> Result<Vec<EventDeletion>> {
        let sql = "SELECT project_id, before_position, distinct_nos FROM event_deletions \
                   WHERE done_at IS NULL ORDER BY before_position";
        let rows = self.core.db.all(sql, args![]).await?;
        let due = rows.iter().map(|row| {
            Ok(EventDeletion {
                project: row.get("project_id")?,
                before: row.get::<i64>("before_position")? as u64,
                distinct_nos: row.json("distinct_nos")?,
            })
        });
        due.collect()
    }

    /// Marks a deletion as done, with the number of events deleted.
    pub async fn deletion_done(self, deletion: &EventDeletion, events: u64) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.run(
            "UPDATE event_deletions SET done_at = $3, events = $4 \
             WHERE project_id = $1 AND before_position = $2",
            args![deletion.project, deletion.before as i64, self.core.clock.now(), events as i64],
        )
        .await?;
        tx.commit().await
    }

    /// Calls `listener` for every batch, in order, when only the commit is left to do. The offset
    /// from which the next batch starts tells whether the commit happened, if no outcome does.
    pub fn on_prepare(self, listener: impl Fn(&IngestBatch) + Send + Sync + 'static) {
        self.state.listeners.add_prepare(listener);
    }

    /// Calls `listener` for every batch, in order, before the batch's events become readable.
    pub fn on_apply(self, listener: impl Fn(IngestOutcome<'_>) + Send + Sync + 'static) {
        self.state.listeners.add(listener);
    }
}

/// Advances the offset from the batch's start to its end, by compare-and-set. Fails with
/// [`Error::OutOfSync`] if the stored offset differs, such as after a commit whose response was
/// lost.
async fn advance_offset(tx: &mut Tx, batch: &IngestBatch, now: Timestamp) -> Result<()> {
    let moved = tx
        .run(
            "INSERT INTO journal_offsets (consumer, journal_id, position, updated_at) \
             VALUES ($1, $2, $3, $4) ON CONFLICT (consumer) DO UPDATE \
             SET position = excluded.position, updated_at = excluded.updated_at \
             WHERE journal_offsets.journal_id = excluded.journal_id \
             AND journal_offsets.position = $5",
            args![
                CONSUMER,
                format!("{:032x}", batch.journal),
                batch.reach as i64,
                now,
                batch.from as i64
            ],
        )
        .await?;
    if moved == 0 { Err(Error::OutOfSync) } else { Ok(()) }
}

/// Warns a project whose definition quota is used up, at most once an hour.
async fn warn_quota_exceeded(
    tx: &mut Tx,
    skipped: &definitions::Skipped,
    now: Timestamp,
) -> Result<()> {
    let kind = WarningKind::TooManyDefinitions;
    for (project, names) in skipped {
        let sql = "SELECT id FROM ingestion_warnings WHERE project_id = $1 AND created_at > $2 \
                   AND type = $3 LIMIT 1";
        let hour_ago = now.plus_seconds(-3_600);
        if !tx.all(sql, args![*project, hour_ago, kind.as_str()]).await?.is_empty() {
            continue;
        }
        let message = format!(
            "{names} names of events or properties are stored but not defined: the project has \
             event_definitions_max or property_definitions_max of them"
        );
        let details = WarningDetails { message: Some(message), ..WarningDetails::default() };
        let warning = Warning { project: *project, kind, timestamp: now, details };
        warnings::record(tx, WARNINGS_SOURCE, &[warning]).await?;
    }
    Ok(())
}

async fn record_deletions(tx: &mut Tx, deletions: &[EventDeletion], now: Timestamp) -> Result<()> {
    let mut rows = Rows::new(4);
    for deletion in deletions {
        let numbers = serde_json::to_string(&deletion.distinct_nos)
            .map_err(|why| Error::corrupt("distinct_nos", why))?;
        rows.push(args![deletion.project, deletion.before as i64, numbers, now]);
    }
    let head =
        "INSERT INTO event_deletions (project_id, before_position, distinct_nos, requested_at)";
    tx.write(head, rows, "").await
}
