//! Cohorts: listing, creating and changing them. `members.rs` has their members, `calculation.rs`
//! computes them.

pub(crate) mod calculation;
pub(crate) mod evaluation;
pub(crate) mod filling;
pub(crate) mod members;
pub(crate) mod references;
pub(crate) mod usage;

use std::collections::{BTreeSet, HashMap};

use model::flag::filters::InvalidFilters;
use model::{
    Cohort, CohortId, FlagId, ObjectKind, ProjectId, Timestamp, UserId, Visibilities, Window,
    cohort_type,
};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use crate::activity::{Actor, Logged};
use crate::db::select::Condition;
use crate::db::{Core, Row, Tx, args, author};
use crate::objects::edit::{Deleted, Editable, set};
use crate::objects::lock_dashboards;
use crate::{Error, Result};
use references::{
    bump_flag_versions, check_references, check_unused, recalculate_dependents, referencing_flags,
};

/// Cohorts and their members.
#[derive(Clone, Copy)]
pub struct Cohorts<'a> {
    pub(crate) core: &'a Core,
    /// Notified when a cohort is to be calculated.
    pub(crate) requested: &'a Notify,
}

pub struct NewCohort {
    pub name: Option<String>,
    pub description: String,
    pub deleted: bool,
    pub kind: NewCohortKind,
}

pub enum NewCohortKind {
    /// A static cohort, filled afterwards. Filters are stored but not evaluated.
    Static(Option<Map<String, Value>>),
    /// A static cohort of the persons for whom a flag is on now, filled in the background.
    OfFlag(FlagId),
    /// Validated by [`model::cohort_tree`].
    Dynamic(Map<String, Value>),
}

/// A partial update; absent fields stay unchanged.
#[derive(Default)]
pub struct CohortChange {
    pub name: Option<Option<String>>,
    pub description: Option<String>,
    pub filters: Option<Map<String, Value>>,
    pub deleted: Option<bool>,
}

/// Filters of a list; an absent filter matches everything.
#[derive(Default)]
pub struct CohortFilter {
    pub search: Option<String>,
    pub is_static: Option<bool>,
    pub created_by: Option<UserId>,
}

const COLUMNS: &str = "h.id, h.project_id, h.name, h.description, h.is_static, h.filters, \
     h.version, h.pending_version, h.is_calculating, h.last_calculation, h.errors_calculating, \
     h.last_error_message, h.count, h.created_at, h.deleted";
const FROM: &str = "cohorts h LEFT JOIN users u ON u.id = h.created_by";

fn read(row: &Row) -> Result<Cohort> {
    let is_static: bool = row.get("is_static")?;
    let filters = row.optional_json("filters")?;
    Ok(Cohort {
        id: row.get("id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        groups: Vec::new(),
        cohort_type: Some(cohort_type(is_static, filters.as_ref())),
        filters,
        query: None,
        version: row.get("version")?,
        pending_version: row.get("pending_version")?,
        is_calculating: row.get("is_calculating")?,
        created_by: author::read(row)?,
        created_at: row.get("created_at")?,
        last_calculation: row.get("last_calculation")?,
        errors_calculating: row.get("errors_calculating")?,
        last_error_message: row.get("last_error_message")?,
        count: row.get("count")?,
        is_static,
        experiment_set: Vec::new(),
        deleted: row.get("deleted")?,
        team_id: row.get("project_id")?,
    })
}

impl Logged for Cohort {
    const SCOPE: &'static str = "Cohort";
    /// Changes by the calculation, not by a user.
    const UNLOGGED: &'static [&'static str] = &[
        "version",
        "pending_version",
        "is_calculating",
        "last_calculation",
        "errors_calculating",
        "last_error_message",
        "count",
    ];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        self.name.clone()
    }
}

impl Editable for Cohort {
    type Id = CohortId;

    async fn lock(tx: &mut Tx, actor: &Actor, id: CohortId) -> Result<Self> {
        let project = actor.project_id()?;
        lock_dashboards(tx, project).await?;
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} WHERE h.project_id = $1 AND h.id = $2{}",
            author::COLUMNS,
            tx.dialect().for_update_of("h"),
        );
        read(&tx.one(sql, args![project, id]).await?)
    }

    async fn save(&mut self, tx: &mut Tx, _: &Self) -> Result<()> {
        tx.run(
            "UPDATE cohorts SET name = $2, description = $3, filters = $4, deleted = $5, \
             is_calculating = $6, pending_version = $7 WHERE id = $1",
            args![
                self.id,
                self.name.as_deref(),
                self.description.as_str(),
                self.filters.clone().map(Value::Object),
                self.deleted,
                self.is_calculating,
                self.pending_version,
            ],
        )
        .await?;
        Ok(())
    }

    fn project(&self) -> ProjectId {
        self.team_id
    }

    fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Cohorts have no `updated_at`.
    fn mark_changed(&mut self, _: Timestamp) {}
}

/// Requests a calculation under the next version.
pub(crate) fn request_calculation(cohort: &mut Cohort) {
    cohort.is_calculating = true;
    cohort.pending_version = Some(cohort.pending_version.or(cohort.version).unwrap_or(0) + 1);
}

impl Cohorts<'_> {
    /// Newest first.
    pub async fn list(
        self,
        project: ProjectId,
        filter: &CohortFilter,
        window: Window,
    ) -> Result<(Vec<Cohort>, i64)> {
        let which = "h.project_id = $1 AND NOT h.deleted";
        let mut condition = Condition::new(which, args![project]);
        if let Some(search) = &filter.search {
            condition.and_search(&["h.name", "h.description"], None, search);
        }
        if let Some(is_static) = filter.is_static {
            condition.and("h.is_static = ?", is_static);
        }
        if let Some(author) = filter.created_by {
            condition.and("h.created_by = ?", author);
        }
        let columns = format!("{COLUMNS}, {}", author::COLUMNS);
        let order = "h.created_at DESC, h.id DESC";
        let (rows, total) = self.core.db.page(&columns, FROM, condition, order, window).await?;
        Ok((rows.iter().map(read).collect::<Result<_>>()?, total))
    }

    pub async fn get(self, project: ProjectId, id: CohortId, deleted: Deleted) -> Result<Cohort> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} WHERE h.project_id = $1 AND h.id = $2{}",
            author::COLUMNS,
            deleted.condition("h"),
        );
        read(&self.core.db.one(sql, args![project, id]).await?)
    }

    /// Names by id, of deleted cohorts too; cohorts without a name are left out.
    pub async fn names(
        self,
        project: ProjectId,
        ids: &[CohortId],
    ) -> Result<HashMap<CohortId, String>> {
        let list: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
        let sql = "SELECT id, name FROM cohorts \
                   WHERE project_id = $1 AND name IS NOT NULL AND id IN {list}";
        let rows = self.core.db.all_in(sql, args![project], &list).await?;
        rows.iter().map(|row| Ok((row.get("id")?, row.get("name")?))).collect()
    }

    /// By name, the oldest live cohort with it.
    pub async fn ids_by_name(
        self,
        project: ProjectId,
        names: &BTreeSet<&str>,
    ) -> Result<HashMap<String, CohortId>> {
        let list: Vec<_> = names.iter().map(|name| (*name).into()).collect();
        let sql = "SELECT name, MIN(id) AS id FROM cohorts \
                   WHERE project_id = $1 AND NOT deleted AND name IN {list} GROUP BY name";
        let rows = self.core.db.all_in(sql, args![project], &list).await?;
        rows.iter().map(|row| Ok((row.get("name")?, row.get("id")?))).collect()
    }

    pub async fn create(
        self,
        actor: &Actor,
        new: NewCohort,
        visibility: &Visibilities,
    ) -> Result<Cohort> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        lock_dashboards(&mut tx, project).await?;
        let now = self.core.clock.now();
        let (is_static, filters, flag) = match new.kind {
            NewCohortKind::Static(filters) => (true, filters.map(Value::Object), None),
            NewCohortKind::OfFlag(flag) => (true, None, Some(flag)),
            NewCohortKind::Dynamic(filters) => {
                check_references(&mut tx, project, None, &filters, visibility).await?;
                (false, Some(Value::Object(filters)), None)
            }
        };
        let id = tx
            .one(
                "INSERT INTO cohorts (project_id, name, description, is_static, filters, version, \
                 pending_version, is_calculating, errors_calculating, count, created_by, \
                 created_at, deleted, fill_from_flag) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, \
                 $9, $10, $11, $12, $13) RETURNING id",
                args![
                    project,
                    new.name,
                    new.description,
                    is_static,
                    filters,
                    is_static.then_some(0_i64),
                    (!is_static).then_some(1_i64),
                    !is_static || flag.is_some(),
                    is_static.then_some(0_i64),
                    actor.user,
                    now,
                    new.deleted,
                    flag,
                ],
            )
            .await?
            .get("id")?;
        let cohort = Cohort::lock(&mut tx, actor, id).await?;
        tx.log_created(actor, &cohort, now).await?;
        tx.invalidate_project(project);
        tx.commit().await?;
        self.notify_calculator();
        Ok(cohort)
    }

    pub async fn update(
        self,
        actor: &Actor,
        id: CohortId,
        change: CohortChange,
        visibility: &Visibilities,
    ) -> Result<Cohort> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        lock_dashboards(&mut tx, project).await?;
        let sql = "SELECT filters FROM cohorts \
                   WHERE project_id = $1 AND id = $2 AND NOT is_static";
        let dynamic = tx.optional(sql, args![project, id]).await?;
        let stored: Option<Map<String, Value>> = match &dynamic {
            Some(row) => row.optional_json("filters")?,
            None => None,
        };
        // Unchanged filters are accepted even if they reference something that is gone.
        let is_new = |sent: &&Map<String, Value>| Some(*sent) != stored.as_ref();
        if let Some(filters) = change.filters.as_ref().filter(|_| dynamic.is_some()).filter(is_new)
        {
            let has_behavioral_filters =
                check_references(&mut tx, project, Some(id), filters, visibility).await?;
            if has_behavioral_filters && !referencing_flags(&mut tx, project, id).await?.is_empty()
            {
                return Err(Error::invalid_filters(InvalidFilters::behavioral_cohort()));
            }
        }
        if change.deleted == Some(true) {
            check_unused(&mut tx, project, id, visibility.of(ObjectKind::FeatureFlag)).await?;
        }
        let (mut redefined, mut came_or_went) = (false, false);
        let apply = |cohort: &mut Cohort, _| {
            set(&mut cohort.name, change.name);
            set(&mut cohort.description, change.description);
            let was_deleted = cohort.deleted;
            set(&mut cohort.deleted, change.deleted);
            came_or_went = was_deleted != cohort.deleted;
            if change.filters.is_some() && change.filters != cohort.filters {
                cohort.filters = change.filters;
                redefined = !cohort.is_static;
            }
            if redefined || (!cohort.is_static && was_deleted && !cohort.deleted) {
                request_calculation(cohort);
            }
            Ok(())
        };
        let cohort = self.core.edit_in(&mut tx, actor, id, apply).await?;
        if redefined {
            bump_flag_versions(&mut tx, project, id).await?;
        }
        if redefined || came_or_went {
            recalculate_dependents(&mut tx, project, id).await?;
        }
        tx.invalidate_project(project);
        tx.commit().await?;
        self.notify_calculator();
        Ok(cohort)
    }

    /// Requests a calculation; does nothing for a static cohort.
    pub async fn recalculate(self, actor: &Actor, id: CohortId) -> Result<Cohort> {
        let mut tx = self.core.db.begin().await?;
        let apply = |cohort: &mut Cohort, _| {
            if !cohort.is_static && !cohort.is_calculating {
                request_calculation(cohort);
            }
            Ok(())
        };
        let cohort = self.core.edit_in(&mut tx, actor, id, apply).await?;
        tx.commit().await?;
        self.notify_calculator();
        Ok(cohort)
    }
}
