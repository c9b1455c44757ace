//! The outbox of a warehouse that joins persons, groups and cohorts at its engine.
//!
//! While such a warehouse is in use ([`Feed::enable`]), every transaction that changes persons, groups
//! or members of cohorts records which ones in `feed_changes`. Whoever tells the warehouse reads their
//! state as it is by then, and forgets the changes that the warehouse knows durably. A killed process
//! loses none of them, and telling one again changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use model::group::Group;
use model::person::{DistinctNo, IdentityChanges, PersonNo};
use model::{CohortId, ProjectId, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::db::bulk::id_values;
use crate::db::dialect::Dialect;
use crate::db::{Row, Tx, Value, args, handle};
use crate::persons::identities::PERSON_COLUMNS;
use crate::persons::scans::{StoredPerson, read_stored};
use crate::{Error, Result};

handle! {
    /// Changes that a warehouse is told of.
    Feed
}

/// The feed's key in `journal_offsets`.
const CONSUMER: &str = "feed";
/// PostgreSQL's advisory lock of those who record changes ("feedline" in ASCII); see [`lock_all`].
const ORDER_LOCK: i64 = 0x6665_6564_6c69_6e65;
const LOCK_ATTEMPTS_MAX: usize = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The persons, groups and cohorts that a transaction changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedChange {
    /// Rises with every change.
    pub id: i64,
    pub project: ProjectId,
    /// The first journal position after the batch; zero for an edit of a cohort.
    pub position: u64,
    pub changed: Changed,
}

/// What changed in a project. A person that does not exist any more was merged or deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub persons: BTreeSet<PersonNo>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub distinct_ids: BTreeSet<DistinctNo>,
    /// Type index and key.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<(u8, String)>,
    /// The members of a version of a cohort.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub cohorts: BTreeSet<(CohortId, i64)>,
}

/// A distinct id with its person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FedDistinctId {
    pub no: DistinctNo,
    pub text: String,
    pub person: Option<(PersonNo, Uuid)>,
}

impl Feed<'_> {
    /// Changes are recorded from now on, until the process ends.
    pub fn enable(self) {
        self.core.db.change_feed().enable();
    }

    /// Whether a change was recorded since the last call.
    pub fn take_recorded(self) -> bool {
        self.core.db.change_feed().take_recorded()
    }

    /// The warehouse knows all changes up to this one.
    pub fn told(self, id: i64) {
        self.core.db.change_feed().tell(id);
    }

    /// The journal position that changes were recorded up to; none if none ever was.
    pub async fn position(self) -> Result<Option<u64>> {
        let sql = "SELECT position FROM journal_offsets WHERE consumer = $1";
        let row = self.core.db.optional(sql, args![CONSUMER]).await?;
        row.map(|row| Ok(row.get::<i64>("position")? as u64)).transpose()
    }

    /// The warehouse was told of everything up to this position.
    pub async fn set_position(self, journal: u128, position: u64) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        advance(&mut tx, journal, position, self.core.clock.now()).await?;
        tx.commit().await
    }

    /// The first and the last change that are recorded.
    pub async fn bounds(self) -> Result<Option<(i64, i64)>> {
        let sql = "SELECT MIN(id) AS first, MAX(id) AS last FROM feed_changes";
        let row = self.core.db.one(sql, args![]).await?;
        let (first, last): (Option<i64>, Option<i64>) = (row.get("first")?, row.get("last")?);
        Ok(first.zip(last))
    }

    /// The changes after this one, in order.
    pub async fn after(self, id: i64, limit: i64) -> Result<Vec<FeedChange>> {
        let sql = "SELECT id, project_id, position, changes FROM feed_changes WHERE id > $1 \
                   ORDER BY id LIMIT $2";
        let rows = match self.core.db.dialect() {
            // It has one writer, and its readers see what is committed.
            Dialect::Sqlite => self.core.db.all(sql, args![id, limit]).await?,
            Dialect::Postgres => {
                let mut tx = self.core.db.begin().await?;
                lock_all(&mut tx).await?;
                tx.all(sql, args![id, limit]).await?
            }
        };
        let change = |row: &Row| {
            Ok(FeedChange {
                id: row.get("id")?,
                project: row.get("project_id")?,
                position: row.get::<i64>("position")? as u64,
                changed: row.json("changes")?,
            })
        };
        rows.iter().map(change).collect()
    }

    /// Removes the changes before this one.
    pub async fn forget_before(self, id: i64) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.run("DELETE FROM feed_changes WHERE id < $1", args![id]).await?;
        tx.commit().await
    }

    /// Every project that has persons or distinct ids.
    pub async fn projects(self) -> Result<Vec<ProjectId>> {
        let sql = "SELECT project_id FROM project_numbers ORDER BY project_id";
        let rows = self.core.db.all(sql, args![]).await?;
        rows.iter().map(|row| row.get("project_id")).collect()
    }

    /// Records the members of all cohorts as changed.
    pub async fn record_all_cohorts(self) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let sql = "SELECT id, project_id, COALESCE(version, 0) AS version FROM cohorts \
                   WHERE NOT deleted ORDER BY id";
        for row in tx.all(sql, args![]).await? {
            let cohort = (row.get("id")?, row.get("version")?);
            record_cohort(&mut tx, row.get("project_id")?, cohort).await?;
        }
        tx.commit().await
    }

    /// The persons that exist among these.
    pub async fn persons(self, project: ProjectId, nos: &[PersonNo]) -> Result<Vec<StoredPerson>> {
        let sql = format!(
            "SELECT {PERSON_COLUMNS} FROM persons p WHERE p.project_id = $1 AND p.no IN {{list}}"
        );
        let rows = self.core.db.all_in(&sql, args![project], &id_values(nos)).await?;
        rows.iter().map(read_stored).collect()
    }

    /// These distinct ids with their persons.
    pub async fn distinct_ids(
        self,
        project: ProjectId,
        nos: &[DistinctNo],
    ) -> Result<Vec<FedDistinctId>> {
        let sql = distinct_ids_where("d.no IN {list}");
        let rows = self.core.db.all_in(&sql, args![project], &id_values(nos)).await?;
        rows.iter().map(read_distinct_id).collect()
    }

    /// Distinct ids after `after` with their persons, by dense id.
    pub async fn scan_distinct_ids(
        self,
        project: ProjectId,
        after: Option<DistinctNo>,
        limit: i64,
    ) -> Result<Vec<FedDistinctId>> {
        let sql = distinct_ids_where("d.no > $2 ORDER BY d.no LIMIT $3");
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.core.db.all(&sql, args![project, after, limit]).await?;
        rows.iter().map(read_distinct_id).collect()
    }

    /// Members of a version of a cohort after `after`, by dense id.
    pub async fn members(
        self,
        (cohort, version): (CohortId, i64),
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<PersonNo>> {
        let sql = "SELECT person_no FROM cohort_people WHERE cohort_id = $1 AND version = $2 \
                   AND person_no > $3 ORDER BY person_no LIMIT $4";
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.core.db.all(sql, args![cohort, version, after, limit]).await?;
        rows.iter().map(|row| row.get("person_no")).collect()
    }

    /// The version of a cohort that is in effect; zero if there is none.
    pub async fn version_in_effect(self, cohort: CohortId) -> Result<i64> {
        let sql = "SELECT COALESCE(version, 0) AS version FROM cohorts WHERE id = $1";
        let row = self.core.db.optional(sql, args![cohort]).await?;
        row.map_or(Ok(0), |row| row.get("version"))
    }

    /// Records that a version of a cohort has all its members, and returns once the warehouse knows
    /// them: a query that reads the version finds them there.
    pub(crate) async fn tell_version(
        self,
        project: ProjectId,
        cohort: CohortId,
        version: i64,
    ) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let recorded = record_cohort(&mut tx, project, (cohort, version)).await?;
        tx.commit().await?;
        if let Some(id) = recorded {
            self.core.db.change_feed().wait_told(id).await;
        }
        Ok(())
    }
}

fn distinct_ids_where(condition: &str) -> String {
    format!(
        "SELECT d.no, d.distinct_id, p.no AS person_no, p.uuid FROM distinct_ids d \
         LEFT JOIN persons p ON p.project_id = d.project_id AND p.no = d.person_no \
         WHERE d.project_id = $1 AND {condition}"
    )
}

fn read_distinct_id(row: &Row) -> Result<FedDistinctId> {
    let person: Option<PersonNo> = row.get("person_no")?;
    let person = person.map(|no| Ok::<_, Error>((no, row.get("uuid")?))).transpose()?;
    Ok(FedDistinctId { no: row.get("no")?, text: row.get("distinct_id")?, person })
}

/// Records a batch of the pipeline, before it is written: it still finds whose distinct ids a merge
/// moves. Does nothing unless there is a feed.
pub(crate) async fn record_batch(
    tx: &mut Tx,
    project: ProjectId,
    position: u64,
    identity: &IdentityChanges,
    groups: &[Group],
) -> Result<()> {
    if !tx.has_feed() {
        return Ok(());
    }
    let mut changed = Changed {
        persons: identity.persons.iter().map(|person| person.no).collect(),
        distinct_ids: identity.ids.iter().map(|id| id.no).collect(),
        groups: groups.iter().map(|group| (group.index, group.key.clone())).collect(),
        cohorts: BTreeSet::new(),
    };
    let merged = identity.merges.iter().map(|(gone, _)| *gone);
    changed.persons.extend(merged.clone());
    changed.persons.extend(&identity.deleted);
    // Rows of distinct ids have the uuid of their person.
    let mut owners: Vec<Value> = merged.map(Into::into).collect();
    if !identity.rekeyed.is_empty() {
        let rekeyed: Vec<Value> = identity.rekeyed.iter().map(|no| (*no).into()).collect();
        let sql = "SELECT no, uuid FROM persons WHERE project_id = $1 AND no IN {list}";
        for row in tx.all_in(sql, args![project], &rekeyed).await? {
            let (no, uuid): (PersonNo, Uuid) = (row.get("no")?, row.get("uuid")?);
            if identity.persons.iter().any(|person| person.no == no && person.uuid != uuid) {
                owners.push(no.into());
            }
        }
    }
    let sql = "SELECT no FROM distinct_ids WHERE project_id = $1 AND person_no IN {list}";
    for row in tx.all_in(sql, args![project], &owners).await? {
        changed.distinct_ids.insert(row.get("no")?);
    }
    if changed != Changed::default() {
        insert(tx, project, position, &changed).await?;
    }
    Ok(())
}

/// Records that the members of a version of a cohort changed, and returns the change's id. Does nothing
/// unless there is a feed.
pub(crate) async fn record_cohort(
    tx: &mut Tx,
    project: ProjectId,
    cohort: (CohortId, i64),
) -> Result<Option<i64>> {
    if !tx.has_feed() {
        return Ok(None);
    }
    let changed = Changed { cohorts: BTreeSet::from([cohort]), ..Changed::default() };
    insert(tx, project, 0, &changed).await.map(Some)
}

async fn insert(tx: &mut Tx, project: ProjectId, position: u64, changed: &Changed) -> Result<i64> {
    let changes = serde_json::to_string(changed).map_err(|why| Error::corrupt("changes", why))?;
    if tx.dialect() == Dialect::Postgres {
        let sql = "SELECT pg_advisory_xact_lock_shared($1) IS NULL AS is_locked";
        tx.one(sql, args![ORDER_LOCK]).await?;
    }
    let sql = "INSERT INTO feed_changes (project_id, position, changes) VALUES ($1, $2, $3) \
               RETURNING id";
    let row = tx.one(sql, args![project, position as i64, changes]).await?;
    tx.notify_feed();
    row.get("id")
}

/// Waits on PostgreSQL until no transaction that has an id of a change is open: a change with a lower
/// id must not appear after a higher one was read.
async fn lock_all(tx: &mut Tx) -> Result<()> {
    // Does not queue: who waits for a lock that another writer holds must not wait for this one too.
    for _ in 0..LOCK_ATTEMPTS_MAX {
        let sql = "SELECT pg_try_advisory_xact_lock($1) AS is_locked";
        if tx.one(sql, args![ORDER_LOCK]).await?.get("is_locked")? {
            return Ok(());
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    let sql = "SELECT pg_advisory_xact_lock($1) IS NULL AS is_locked";
    tx.one(sql, args![ORDER_LOCK]).await.map(drop)
}

/// Moves the position that changes were recorded up to.
pub(crate) async fn advance(
    tx: &mut Tx,
    journal: u128,
    position: u64,
    now: Timestamp,
) -> Result<()> {
    let sql = "INSERT INTO journal_offsets (consumer, journal_id, position, updated_at) \
               VALUES ($1, $2, $3, $4) ON CONFLICT (consumer) DO UPDATE \
               SET journal_id = excluded.journal_id, position = excluded.position, \
               updated_at = excluded.updated_at";
    tx.run(sql, args![CONSUMER, format!("{journal:032x}"), position as i64, now]).await.map(drop)
}
