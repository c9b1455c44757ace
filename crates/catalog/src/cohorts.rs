//! Cohorts as rows: how they are described, found and changed. Who belongs to one is in
//! `cohort_members.rs`.

use std::collections::{BTreeSet, HashMap};

use model::flag::filters::Refused;
use model::property::{DEPTH_MAX, Deed, Node};
use model::{
    ActionId, Cohort, CohortId, FlagId, ProjectId, Timestamp, UserId, Window, cohort_tree,
    cohort_type,
};
use serde_json::{Map, Value};

use crate::boards::{project_of, take_turn};
use crate::db::{Row, Tx, args};
use crate::edit::{Among, Editable, set};
use crate::flags::unfit;
use crate::select::Condition;
use crate::{Actor, Catalog, Error, Logged, Result, users};

pub struct NewCohort {
    pub name: Option<String>,
    pub description: String,
    pub deleted: bool,
    pub kind: NewCohortKind,
}

pub enum NewCohortKind {
    /// A list, filled afterwards.
    Static,
    /// A list of those for whom a flag is on now, filled in the background.
    OfFlag(FlagId),
    /// Checked by [`model::cohort_tree`].
    Dynamic(Map<String, Value>),
}

/// What may change; absent fields stay.
#[derive(Default)]
pub struct CohortChange {
    pub name: Option<Option<String>>,
    pub description: Option<String>,
    pub filters: Option<Map<String, Value>>,
    pub deleted: Option<bool>,
}

/// Which cohorts are asked for; absent filters let everything through.
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
        created_by: users::nested(row)?,
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
    /// What calculating changes, people did not.
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
        let project = project_of(actor)?;
        take_turn(tx, project).await?;
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} WHERE h.project_id = $1 AND h.id = $2{}",
            users::NESTED,
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

    /// Nothing shows when a cohort was changed.
    fn set_updated_at(&mut self, _: Timestamp) {}
}

/// Asks for a calculation that has not begun.
pub(crate) fn want_calculation(cohort: &mut Cohort) {
    cohort.is_calculating = true;
    cohort.pending_version = Some(cohort.pending_version.or(cohort.version).unwrap_or(0) + 1);
}

impl Catalog {
    /// Newest first.
    pub async fn cohorts(
        &self,
        project: ProjectId,
        filter: &CohortFilter,
        window: Window,
    ) -> Result<(Vec<Cohort>, i64)> {
        let which = "h.project_id = $1 AND NOT h.deleted";
        let mut condition = Condition::new(which, args![project]);
        if let Some(search) = &filter.search {
            condition.and_found_in(&["h.name", "h.description"], None, search);
        }
        if let Some(is_static) = filter.is_static {
            condition.and("h.is_static = ?", is_static);
        }
        if let Some(author) = filter.created_by {
            condition.and("h.created_by = ?", author);
        }
        let columns = format!("{COLUMNS}, {}", users::NESTED);
        let order = "h.created_at DESC, h.id DESC";
        let (rows, total) = self.db.page(&columns, FROM, condition, order, window).await?;
        Ok((rows.iter().map(read).collect::<Result<_>>()?, total))
    }

    pub async fn cohort(&self, project: ProjectId, id: CohortId, among: Among) -> Result<Cohort> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} WHERE h.project_id = $1 AND h.id = $2{}",
            users::NESTED,
            among.condition("h"),
        );
        read(&self.db.one(sql, args![project, id]).await?)
    }

    /// Names of those that have one, deleted ones too.
    pub async fn cohort_names(
        &self,
        project: ProjectId,
        ids: &[CohortId],
    ) -> Result<HashMap<CohortId, String>> {
        let list: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
        let sql = "SELECT id, name FROM cohorts \
                   WHERE project_id = $1 AND name IS NOT NULL AND id IN {list}";
        let rows = self.db.all_in(sql, args![project], &list).await?;
        rows.iter().map(|row| Ok((row.get("id")?, row.get("name")?))).collect()
    }

    pub async fn create_cohort(&self, actor: &Actor, new: NewCohort) -> Result<Cohort> {
        let project = project_of(actor)?;
        let mut tx = self.db.begin().await?;
        take_turn(&mut tx, project).await?;
        let now = self.clock.now();
        let (is_static, filters, flag) = match new.kind {
            NewCohortKind::Static => (true, None, None),
            NewCohortKind::OfFlag(flag) => (true, None, Some(flag)),
            NewCohortKind::Dynamic(filters) => {
                check_references(&mut tx, project, None, &filters).await?;
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
        tx.changes_project(project);
        tx.commit().await?;
        self.wake_cohorts();
        Ok(cohort)
    }

    pub async fn update_cohort(
        &self,
        actor: &Actor,
        id: CohortId,
        change: CohortChange,
    ) -> Result<Cohort> {
        let project = project_of(actor)?;
        let mut tx = self.db.begin().await?;
        take_turn(&mut tx, project).await?;
        if let Some(filters) = &change.filters {
            let asks_behaviour = check_references(&mut tx, project, Some(id), filters).await?;
            if asks_behaviour && !flags_reaching(&mut tx, project, id).await?.is_empty() {
                return Err(unfit(Refused::behaviour()));
            }
        }
        if change.deleted == Some(true) {
            check_unused(&mut tx, project, id).await?;
        }
        let (mut redefined, mut came_or_went) = (false, false);
        let apply = |cohort: &mut Cohort, _| {
            set(&mut cohort.name, change.name);
            set(&mut cohort.description, change.description);
            let was_deleted = cohort.deleted;
            set(&mut cohort.deleted, change.deleted);
            came_or_went = was_deleted != cohort.deleted;
            let filters = change.filters.filter(|_| !cohort.is_static);
            let changes = filters.is_some() && filters != cohort.filters;
            if changes {
                cohort.filters = filters;
                redefined = true;
            }
            if !cohort.is_static && (changes || (was_deleted && !cohort.deleted)) {
                want_calculation(cohort);
            }
            Ok(())
        };
        let cohort = self.edit_in(&mut tx, actor, id, apply).await?;
        if redefined {
            touch_flags(&mut tx, project, id).await?;
        }
        if redefined || came_or_went {
            recalculate_those_asking(&mut tx, project, id).await?;
        }
        tx.changes_project(project);
        tx.commit().await?;
        self.wake_cohorts();
        Ok(cohort)
    }

    /// Calculates a cohort anew, soon; a list is what it is.
    pub async fn recalculate_cohort(&self, actor: &Actor, id: CohortId) -> Result<Cohort> {
        let mut tx = self.db.begin().await?;
        let apply = |cohort: &mut Cohort, _| {
            if !cohort.is_static && !cohort.is_calculating {
                want_calculation(cohort);
            }
            Ok(())
        };
        let cohort = self.edit_in(&mut tx, actor, id, apply).await?;
        tx.commit().await?;
        self.wake_cohorts();
        Ok(cohort)
    }
}

/// Cohorts and actions that are named must be there, and cohorts must not lead back here. Tells
/// whether it takes events to calculate.
async fn check_references(
    tx: &mut Tx,
    project: ProjectId,
    own: Option<CohortId>,
    filters: &Map<String, Value>,
) -> Result<bool> {
    let refused = |detail: &str| Err(Error::refused(Some("filters"), detail));
    let tree = tree(filters)?;
    check_actions(tx, project, &tree).await?;
    let mut named = Vec::new();
    tree.cohorts(&mut named);
    let reached = Reached::from(tx, project, named).await?;
    if own.is_some_and(|own| reached.asked.contains(&own)) {
        return refused("Cohorts cannot reference other cohorts in a loop.");
    }
    if reached.missing {
        return refused("There is no such cohort in this project.");
    }
    if reached.too_deep {
        return refused("Cohorts reference each other too deeply.");
    }
    Ok(reached.asks_behaviour || tree.asks_behaviour())
}

/// What there is to know of cohorts and of those they name, however far.
#[derive(Default)]
struct Reached {
    asked: BTreeSet<CohortId>,
    missing: bool,
    asks_behaviour: bool,
    too_deep: bool,
}

impl Reached {
    async fn from(tx: &mut Tx, project: ProjectId, mut wanted: Vec<CohortId>) -> Result<Self> {
        let mut reached = Self::default();
        for _ in 0..=DEPTH_MAX {
            wanted.retain(|id| reached.asked.insert(*id));
            if wanted.is_empty() {
                return Ok(reached);
            }
            let ids: Vec<_> = wanted.iter().map(|id| (*id).into()).collect();
            let sql = "SELECT filters FROM cohorts \
                       WHERE project_id = $1 AND NOT deleted AND id IN {list}";
            let rows = tx.all_in(sql, args![project], &ids).await?;
            reached.missing |= rows.len() < wanted.len();
            wanted.clear();
            for row in &rows {
                if let Some(filters) = row.optional_json("filters")? {
                    let tree = tree(&filters)?;
                    reached.asks_behaviour |= tree.asks_behaviour();
                    tree.cohorts(&mut wanted);
                }
            }
        }
        reached.too_deep = true;
        Ok(reached)
    }
}

/// Whether one of these cohorts, or one that they name, takes events to calculate.
pub(crate) async fn ask_behaviour(
    tx: &mut Tx,
    project: ProjectId,
    ids: Vec<CohortId>,
) -> Result<bool> {
    Ok(Reached::from(tx, project, ids).await?.asks_behaviour)
}

async fn check_actions(tx: &mut Tx, project: ProjectId, tree: &Node) -> Result<()> {
    let mut behaviours = Vec::new();
    tree.behaviours(&mut behaviours);
    let wanted: BTreeSet<ActionId> = behaviours
        .iter()
        .filter_map(|behaviour| match behaviour.deed {
            Deed::Action(id) => Some(id),
            Deed::Event(_) => None,
        })
        .collect();
    let list: Vec<_> = wanted.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT id FROM actions WHERE project_id = $1 AND NOT deleted AND id IN {list}";
    if tx.all_in(sql, args![project], &list).await?.len() < wanted.len() {
        return Err(Error::refused(Some("filters"), "There is no such action in this project."));
    }
    Ok(())
}

fn tree(filters: &Map<String, Value>) -> Result<Node> {
    cohort_tree(filters).map_err(|why| Error::refused(Some("filters"), why.to_string()))
}

fn references(filters: &Map<String, Value>) -> Result<Vec<CohortId>> {
    let mut found = Vec::new();
    tree(filters)?.cohorts(&mut found);
    Ok(found)
}

/// Whether all of these cohorts are live ones of the project.
pub(crate) async fn are_there(tx: &mut Tx, project: ProjectId, ids: &[CohortId]) -> Result<bool> {
    let wanted: BTreeSet<CohortId> = ids.iter().copied().collect();
    let list: Vec<_> = wanted.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT id FROM cohorts WHERE project_id = $1 AND NOT deleted AND id IN {list}";
    let rows = tx.all_in(sql, args![project], &list).await?;
    let found: BTreeSet<CohortId> = rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
    Ok(found == wanted)
}

/// A cohort and those that ask for it, however far.
async fn reaching(tx: &mut Tx, project: ProjectId, id: CohortId) -> Result<Vec<crate::db::Value>> {
    let sql = "SELECT id, filters FROM cohorts \
               WHERE project_id = $1 AND NOT deleted AND filters IS NOT NULL";
    let mut others: Vec<(CohortId, Vec<CohortId>)> = Vec::new();
    for row in tx.all(sql, args![project]).await? {
        others.push((row.get("id")?, references(&row.json("filters")?)?));
    }
    let mut reaching = vec![id];
    let mut at = 0;
    while let Some(reached) = reaching.get(at).copied() {
        at += 1;
        let (found, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(_, named)| named.contains(&reached));
        others = rest;
        reaching.extend(found.into_iter().map(|(id, _)| id).filter(|found| *found != id));
    }
    Ok(reaching.iter().map(|id| (*id).into()).collect())
}

/// Cohorts that ask for this one mean something else now, or nothing any more.
async fn recalculate_those_asking(tx: &mut Tx, project: ProjectId, id: CohortId) -> Result<()> {
    let list = reaching(tx, project, id).await?;
    let sql = "UPDATE cohorts SET is_calculating = TRUE, \
               pending_version = COALESCE(pending_version, version, 0) + 1 \
               WHERE project_id = $1 AND id <> $2 AND NOT is_static AND id IN {list}";
    tx.run_in(sql, args![project, id], &list).await
}

/// For flags that reach a cohort, its change is one of theirs.
async fn touch_flags(tx: &mut Tx, project: ProjectId, id: CohortId) -> Result<()> {
    let list = reaching(tx, project, id).await?;
    let sql = "UPDATE feature_flags SET version = version + 1 WHERE project_id = $1 \
               AND NOT deleted AND id IN (SELECT flag_id FROM feature_flag_cohorts \
               WHERE cohort_id IN {list})";
    tx.run_in(sql, args![project], &list).await
}

/// Keys of the flags that ask for a cohort, however far.
async fn flags_reaching(tx: &mut Tx, project: ProjectId, id: CohortId) -> Result<Vec<String>> {
    let list = reaching(tx, project, id).await?;
    let sql = "SELECT DISTINCT f.key FROM feature_flag_cohorts c \
               JOIN feature_flags f ON f.id = c.flag_id \
               WHERE NOT f.deleted AND c.cohort_id IN {list} ORDER BY f.key";
    let rows = tx.all_in(sql, args![], &list).await?;
    rows.iter().map(|row| row.get("key")).collect()
}

/// A flag that asks for a cohort would go on asking.
async fn check_unused(tx: &mut Tx, project: ProjectId, id: CohortId) -> Result<()> {
    let keys = flags_reaching(tx, project, id).await?;
    if keys.is_empty() {
        return Ok(());
    }
    let detail = format!("This cohort is used by feature flags: {}", keys.join(", "));
    Err(Error::refused(Some("deleted"), detail))
}
