//! References between cohorts, actions and flags: existence, cycles, and what to recalculate.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::property::{BehavioralFilter, DEPTH_MAX, EventOrAction, Node, event_cohorts};
use model::{
    ActionId, ActionStep, CohortId, FlagId, ObjectKind, ProjectId, UserId, Visibilities,
    Visibility, stored_cohort_tree,
};
use serde_json::{Map, Value};

use crate::db::{Row, Tx, args};
use crate::{Error, Result};

const LOOP: &str = "Cohorts cannot reference other cohorts in a loop.";

/// Checks that referenced cohorts and actions exist and form no cycle. Returns whether the cohort
/// needs events, by itself or by reference.
pub(crate) async fn check_references(
    tx: &mut Tx,
    project: ProjectId,
    cohort: Option<CohortId>,
    filters: &Map<String, Value>,
    visibility: &Visibilities,
) -> Result<bool> {
    let refused = |detail: &str| Err(Error::refused(Some("filters"), detail));
    let tree = tree(filters)?;
    check_actions(tx, project, actions(&tree), visibility.of(ObjectKind::Action)).await?;
    let references = References::of_tree(tx, project, &tree).await?;
    if cohort.is_some_and(|cohort| references.cohorts.contains(&cohort)) {
        return refused(LOOP);
    }
    if references.missing {
        return refused("There is no such cohort in this project.");
    }
    if references.too_deep {
        return refused("Cohorts reference each other too deeply.");
    }
    Ok(references.has_behavioral_filters || tree.has_behavioral_filters())
}

/// Refuses action steps that would close a cycle through cohorts.
pub(crate) async fn check_steps(
    tx: &mut Tx,
    project: ProjectId,
    action: ActionId,
    steps: &[ActionStep],
) -> Result<()> {
    let references = References::of_cohorts(tx, project, step_cohorts(steps)).await?;
    match references.actions.contains(&action) {
        true => Err(Error::refused(Some("steps"), LOOP)),
        false => Ok(()),
    }
}

/// The transitive closure of references of cohorts: direct, in behavioral filters, or through
/// actions. It includes deleted cohorts, which may be restored.
#[derive(Default)]
struct References {
    cohorts: BTreeSet<CohortId>,
    actions: BTreeSet<ActionId>,
    missing: bool,
    has_behavioral_filters: bool,
    too_deep: bool,
}

impl References {
    async fn of_tree(tx: &mut Tx, project: ProjectId, tree: &Node) -> Result<Self> {
        let mut references = Self::default();
        let wanted = references.direct(tx, project, std::slice::from_ref(tree)).await?;
        references.resolve(tx, project, wanted).await?;
        Ok(references)
    }

    async fn of_cohorts(tx: &mut Tx, project: ProjectId, wanted: Vec<CohortId>) -> Result<Self> {
        let mut references = Self::default();
        references.resolve(tx, project, wanted).await?;
        Ok(references)
    }

    async fn resolve(
        &mut self,
        tx: &mut Tx,
        project: ProjectId,
        mut pending: Vec<CohortId>,
    ) -> Result<()> {
        for _ in 0..=DEPTH_MAX {
            pending.retain(|id| self.cohorts.insert(*id));
            if pending.is_empty() {
                return Ok(());
            }
            let ids: Vec<_> = pending.iter().map(|id| (*id).into()).collect();
            let sql = "SELECT filters, is_static, deleted FROM cohorts \
                       WHERE project_id = $1 AND id IN {list}";
            let rows = tx.all_in(sql, args![project], &ids).await?;
            self.missing |= rows.len() < pending.len();
            let mut trees = Vec::new();
            for row in &rows {
                self.missing |= row.get::<bool>("deleted")?;
                // The filters of a static cohort are not evaluated.
                let is_static: bool = row.get("is_static")?;
                let filters = row.optional_json("filters")?;
                if let Some(filters) = filters.filter(|_| !is_static) {
                    trees.push(tree(&filters)?);
                }
            }
            self.has_behavioral_filters |= trees.iter().any(Node::has_behavioral_filters);
            pending = self.direct(tx, project, &trees).await?;
        }
        self.too_deep = true;
        Ok(())
    }

    /// The cohorts that these filters reference, directly or through actions not visited yet.
    async fn direct(
        &mut self,
        tx: &mut Tx,
        project: ProjectId,
        trees: &[Node],
    ) -> Result<Vec<CohortId>> {
        let mut references = Vec::new();
        trees.iter().for_each(|tree| cohorts(tree, &mut references));
        let mut new: BTreeSet<ActionId> = trees.iter().flat_map(actions).collect();
        new.retain(|id| self.actions.insert(*id));
        for (_, cohorts) in actions_cohorts(tx, project, &new).await? {
            references.extend(cohorts);
        }
        Ok(references)
    }
}

/// The cohorts that a filter tree references, also in behavioral filters.
pub(super) fn cohorts(tree: &Node, found: &mut Vec<CohortId>) {
    let mut behaviours = Vec::new();
    tree.behavioral_filters(&mut behaviours);
    behaviours.iter().for_each(|behaviour| behaviour.cohorts(found));
    tree.cohorts(found);
}

pub(super) fn step_cohorts(steps: &[ActionStep]) -> Vec<CohortId> {
    let mut cohorts = Vec::new();
    let filters = steps.iter().filter_map(|step| step.properties.as_ref()).flatten();
    filters.for_each(|filter| event_cohorts(filter, &mut cohorts));
    cohorts
}

async fn actions_cohorts(
    tx: &mut Tx,
    project: ProjectId,
    ids: &BTreeSet<ActionId>,
) -> Result<Vec<(ActionId, Vec<CohortId>)>> {
    let list: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT id, steps FROM actions WHERE project_id = $1 AND id IN {list}";
    let rows = tx.all_in(sql, args![project], &list).await?;
    let read = |row: &Row| Ok((row.get("id")?, step_cohorts(&row.json::<Vec<_>>("steps")?)));
    rows.iter().map(read).collect()
}

/// Whether one of these cohorts, or one they reference, has a behavioral filter.
pub(crate) async fn have_behavioral_filters(
    tx: &mut Tx,
    project: ProjectId,
    ids: Vec<CohortId>,
) -> Result<bool> {
    Ok(References::of_cohorts(tx, project, ids).await?.has_behavioral_filters)
}

fn actions(tree: &Node) -> BTreeSet<ActionId> {
    let mut behaviours = Vec::new();
    tree.behavioral_filters(&mut behaviours);
    let action = |behaviour: &&BehavioralFilter| match behaviour.target {
        EventOrAction::Action(id) => Some(id),
        EventOrAction::Event(_) => None,
    };
    behaviours.iter().filter_map(action).collect()
}

/// Checks that actions exist and are visible to the author.
async fn check_actions(
    tx: &mut Tx,
    project: ProjectId,
    referenced: BTreeSet<ActionId>,
    visibility: &Visibility,
) -> Result<()> {
    let list: Vec<_> = referenced.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT id, created_by FROM actions \
               WHERE project_id = $1 AND NOT deleted AND id IN {list}";
    let mut visible_count = 0;
    for row in tx.all_in(sql, args![project], &list).await? {
        let id: ActionId = row.get("id")?;
        visible_count += usize::from(visibility.holds(id.0, row.get("created_by")?));
    }
    if visible_count < referenced.len() {
        return Err(Error::refused(Some("filters"), "There is no such action in this project."));
    }
    Ok(())
}

pub(super) fn tree(filters: &Map<String, Value>) -> Result<Node> {
    stored_cohort_tree(filters).map_err(|why| Error::refused(Some("filters"), why.to_string()))
}

/// Whether all of these cohorts are live ones of the project.
pub(crate) async fn all_exist(tx: &mut Tx, project: ProjectId, ids: &[CohortId]) -> Result<bool> {
    let requested: BTreeSet<CohortId> = ids.iter().copied().collect();
    let list: Vec<_> = requested.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT id FROM cohorts WHERE project_id = $1 AND NOT deleted AND id IN {list}";
    let rows = tx.all_in(sql, args![project], &list).await?;
    let existing: BTreeSet<CohortId> =
        rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
    Ok(existing == requested)
}

/// The cohorts that a cohort references, transitively, and itself.
pub(crate) async fn referenced(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
) -> Result<BTreeSet<CohortId>> {
    Ok(References::of_cohorts(tx, project, vec![id]).await?.cohorts)
}

/// A cohort and the live cohorts that reference it, transitively.
async fn referencing(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
) -> Result<Vec<crate::db::Value>> {
    let sql = "SELECT id, filters FROM cohorts \
               WHERE project_id = $1 AND NOT deleted AND NOT is_static AND filters IS NOT NULL";
    let mut others: Vec<(CohortId, Vec<CohortId>)> = Vec::new();
    let mut by_actions: Vec<BTreeSet<ActionId>> = Vec::new();
    for row in tx.all(sql, args![project]).await? {
        let (tree, mut named) = (tree(&row.json("filters")?)?, Vec::new());
        cohorts(&tree, &mut named);
        others.push((row.get("id")?, named));
        by_actions.push(actions(&tree));
    }
    let action_ids = by_actions.iter().flatten().copied().collect();
    for (action, cohorts) in actions_cohorts(tx, project, &action_ids).await? {
        for ((_, named), by) in others.iter_mut().zip(&by_actions) {
            if by.contains(&action) {
                named.extend(&cohorts);
            }
        }
    }
    let mut asking: HashMap<CohortId, Vec<CohortId>> = HashMap::new();
    for (other, named) in &others {
        named.iter().for_each(|named| asking.entry(*named).or_default().push(*other));
    }
    let (mut referencing, mut visited) = (vec![id], HashSet::from([id]));
    let mut at = 0;
    while let Some(reached) = referencing.get(at).copied() {
        at += 1;
        let direct = asking.remove(&reached).unwrap_or_default();
        referencing.extend(direct.into_iter().filter(|direct| visited.insert(*direct)));
    }
    Ok(referencing.iter().map(|id| (*id).into()).collect())
}

/// Requests a calculation of all cohorts that reference this one.
pub(crate) async fn recalculate_dependents(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
) -> Result<()> {
    let list = referencing(tx, project, id).await?;
    let sql = "UPDATE cohorts SET is_calculating = TRUE, \
               pending_version = COALESCE(pending_version, version, 0) + 1 \
               WHERE project_id = $1 AND id <> $2 AND NOT is_static AND id IN {list}";
    tx.run_in(sql, args![project, id], &list).await
}

/// Increments the version of each flag that references the cohort, transitively.
pub(crate) async fn bump_flag_versions(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
) -> Result<()> {
    let list = referencing(tx, project, id).await?;
    let sql = "UPDATE feature_flags SET version = version + 1 WHERE project_id = $1 \
               AND NOT deleted AND id IN (SELECT flag_id FROM feature_flag_cohorts \
               WHERE cohort_id IN {list})";
    tx.run_in(sql, args![project], &list).await
}

/// The live flags that reference a cohort, transitively: id, key and author.
pub(crate) async fn referencing_flags(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
) -> Result<Vec<(FlagId, String, Option<UserId>)>> {
    let list = referencing(tx, project, id).await?;
    let sql = "SELECT DISTINCT f.id, f.key, f.created_by FROM feature_flag_cohorts c \
               JOIN feature_flags f ON f.id = c.flag_id \
               WHERE NOT f.deleted AND c.cohort_id IN {list} ORDER BY f.key";
    let rows = tx.all_in(sql, args![], &list).await?;
    rows.iter().map(|row| Ok((row.get("id")?, row.get("key")?, row.get("created_by")?))).collect()
}

/// Refuses to delete a cohort that flags reference; flags hidden from the user are counted but not
/// named.
pub(crate) async fn check_unused(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
    visibility: &Visibility,
) -> Result<()> {
    let flags = referencing_flags(tx, project, id).await?;
    if flags.is_empty() {
        return Ok(());
    }
    let (count, named) = (flags.len(), flags.into_iter());
    let named =
        named.filter(|(id, _, author)| visibility.holds(id.0, *author)).map(|(_, key, _)| key);
    let mut named: Vec<String> = named.collect();
    if named.len() < count {
        named.push(format!("{} that you cannot see", count - named.len()));
    }
    let detail = format!("This cohort is used by feature flags: {}", named.join(", "));
    Err(Error::refused(Some("deleted"), detail))
}
