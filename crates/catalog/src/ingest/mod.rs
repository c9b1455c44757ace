//! What the pipeline writes: everything a batch of events changed, and how far the journal is
//! applied, in one transaction. That is what makes a replay after a crash exact.

pub(crate) mod dead_letters;
mod definitions;
mod flags;
mod groups;
mod identity;
pub(crate) mod listeners;
pub(crate) mod warnings;

use std::collections::HashMap;

use model::definition::Sightings;
use model::group::Group;
use model::person::{DistinctNo, IdentityChanges};
use model::{ProjectId, ProjectSettings, Timestamp, Warning, WarningDetails, WarningKind};

use crate::db::bulk::{Rows, keys};
use crate::db::{Core, Tx, args, handle};
use crate::definitions::quota::DefinitionQuota;
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
/// What the pipeline writes.
#[derive(Clone, Copy)]
pub struct Ingest<'a> {
    pub(crate) core: &'a Core,
    pub(crate) state: &'a IngestState,
    pub(crate) quota: &'a DefinitionQuota,
}

/// What this process knows of the pipeline's progress.
#[derive(Default)]
pub(crate) struct IngestState {
    /// The first journal position that is not applied yet.
    applied: watch::Sender<u64>,
    listeners: Listeners,
}

/// Whose row of `journal_offsets` it is.
pub(crate) const CONSUMER: &str = "pipeline";
const WARNINGS_SOURCE: &str = "pipeline";

/// Everything that the records from `from` up to `reach` changed.
#[derive(Debug, Default)]
pub struct IngestBatch {
    pub journal: u128,
    /// Where the catalog stands; a batch that starts elsewhere is refused.
    pub from: u64,
    /// The first position that is not applied afterwards.
    pub reach: u64,
    pub projects: Vec<ProjectChanges>,
    pub sightings: Sightings,
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
    /// Whether this is the first event it ever got.
    pub first_event: bool,
}

/// Events of some distinct ids that are to be deleted from the warehouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDeletion {
    pub project: ProjectId,
    /// Events from this journal position on stay.
    pub before: u64,
    pub distinct_nos: Vec<DistinctNo>,
}

/// What a project decided about its events.
#[derive(Clone, Debug, Default)]
pub struct IngestRules {
    pub settings: ProjectSettings,
    pub ingested_event: bool,
}

impl Ingest<'_> {
    /// The journal that was applied, and the first position of it that was not; none before the
    /// first batch.
    pub async fn offset(self) -> Result<Option<(u128, u64)>> {
        let sql = "SELECT journal_id, position FROM journal_offsets WHERE consumer = $1";
        let Some(row) = self.core.db.optional(sql, args![CONSUMER]).await? else { return Ok(None) };
        let id: String = row.get("journal_id")?;
        let id = u128::from_str_radix(&id, 16).map_err(|why| Error::corrupt("journal_id", why))?;
        let position = row.get::<i64>("position")? as u64;
        self.state.applied.send_replace(position);
        Ok(Some((id, position)))
    }

    /// The rules of those projects that are there.
    pub async fn rules(self, projects: &[ProjectId]) -> Result<HashMap<ProjectId, IngestRules>> {
        let sql = "SELECT id, settings, ingested_event FROM projects WHERE id IN {list}";
        let rows = self.core.db.all_in(sql, args![], &keys(projects)).await?;
        let rules = rows.iter().map(|row| {
            let settings = ProjectSettings::stored(row.json("settings")?);
            let ingested_event = row.get("ingested_event")?;
            Ok((row.get("id")?, IngestRules { settings, ingested_event }))
        });
        rules.collect()
    }

    /// Writes a batch, or nothing of it. Who asks waits for files where it is.
    pub async fn apply(self, batch: &IngestBatch) -> Result<()> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin_here().await?;
        move_offset(&mut tx, batch, now).await?;
        for changes in &batch.projects {
            identity::write(&mut tx, changes.project, &changes.identity).await?;
            groups::write(&mut tx, changes, now).await?;
            if changes.first_event {
                let sql = "UPDATE projects SET ingested_event = $2 WHERE id = $1";
                tx.run(sql, args![changes.project, true]).await?;
                tx.changes_project(changes.project);
            }
            // Flags name groups by their type's index.
            if !changes.group_types.is_empty() {
                tx.changes_project(changes.project);
            }
        }
        let room = self.quota;
        let unsettled = room.unsettled();
        let left_out = definitions::write(&mut tx, &batch.sightings, room, now).await?;
        warn_of_definitions(&mut tx, &left_out, now).await?;
        flags::write(&mut tx, &batch.sightings.flags).await?;
        warnings::record(&mut tx, WARNINGS_SOURCE, &batch.warnings).await?;
        dead_letters::insert(&mut tx, &batch.dead_letters, now).await?;
        note_deletions(&mut tx, &batch.deletions, now).await?;
        if let Err(error) = tx.commit().await {
            self.state.listeners.notify(IngestOutcome::Unknown);
            return Err(error);
        }
        unsettled.settle();
        room.count_left_out(left_out.values().sum());
        self.state.listeners.notify(IngestOutcome::Committed(&batch.projects));
        self.state.applied.send_replace(batch.reach);
        Ok(())
    }

    /// The first journal position that is not applied, as far as this process knows. It differs
    /// after every batch: what was read of persons and groups before may be stale.
    pub fn applied_position(self) -> u64 {
        *self.state.applied.borrow()
    }

    /// Returns when everything before and at `position` is applied.
    pub async fn wait_applied(self, position: u64) {
        // The sender lives as long as the catalog, so waiting cannot fail.
        let _ = self.state.applied.subscribe().wait_for(|applied| *applied > position).await;
    }

    /// Deletes of events that were asked for and not yet reported done, in order.
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

    /// Notes that `events` events are gone for good.
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

    /// `listener` hears of every batch of the pipeline, in their order, before its events can be
    /// read.
    pub fn on_apply(self, listener: impl Fn(IngestOutcome<'_>) + Send + Sync + 'static) {
        self.state.listeners.add(listener);
    }
}

/// Moves the offset from where the batch begins to where it ends. It fails when the catalog is
/// not there, such as after a commit whose answer was lost.
async fn move_offset(tx: &mut Tx, batch: &IngestBatch, now: Timestamp) -> Result<()> {
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

/// Once an hour.
async fn warn_of_definitions(
    tx: &mut Tx,
    left_out: &definitions::LeftOut,
    now: Timestamp,
) -> Result<()> {
    let kind = WarningKind::TooManyDefinitions;
    for (project, names) in left_out {
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

async fn note_deletions(tx: &mut Tx, deletions: &[EventDeletion], now: Timestamp) -> Result<()> {
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
