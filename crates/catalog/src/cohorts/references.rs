//! What cohorts ask for, and what asks for them: other cohorts, actions and flags.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::property::{Behaviour, DEPTH_MAX, Deed, Node, event_cohorts};
use model::{
    ActionId, ActionStep, CohortId, FlagId, ObjectKind, ProjectId, Sight, Sights, UserId,
    stored_cohort_tree,
};
use serde_json::{Map, Value};

use crate::db::{Row, Tx, args};
use crate::{Error, Result};

const LOOP: &str = "Cohorts cannot reference other cohorts in a loop.";

/// Cohorts and actions that are named must be there, and cohorts must not lead back here. Tells
/// whether it takes events to calculate.
pub(crate) async fn check_references(
    tx: &mut Tx,
    project: ProjectId,
    own: Option<CohortId>,
    filters: &Map<String, Value>,
    seen: &Sights,
) -> Result<bool> {
    let refused = |detail: &str| Err(Error::refused(Some("filters"), detail));
    let tree = tree(filters)?;
    check_actions(tx, project, actions(&tree), seen.of(ObjectKind::Action)).await?;
    let reached = Reached::by(tx, project, &tree).await?;
    if own.is_some_and(|own| reached.asked.contains(&own)) {
        return refused(LOOP);
    }
    if reached.missing {
        return refused("There is no such cohort in this project.");
    }
    if reached.too_deep {
        return refused("Cohorts reference each other too deeply.");
    }
    Ok(reached.asks_behaviour || tree.asks_behaviour())
}

/// An action that a cohort asks for must not ask for that cohort.
pub(crate) async fn check_steps(
    tx: &mut Tx,
    project: ProjectId,
    own: ActionId,
    steps: &[ActionStep],
) -> Result<()> {
    let reached = Reached::from(tx, project, step_cohorts(steps)).await?;
    match reached.actions.contains(&own) {
        true => Err(Error::refused(Some("steps"), LOOP)),
        false => Ok(()),
    }
}

/// What there is to know of cohorts and of those they name, however far: by themselves, in what
/// they ask of events, or by actions. Deleted ones may come back, so they are checked through too.
#[derive(Default)]
struct Reached {
    asked: BTreeSet<CohortId>,
    actions: BTreeSet<ActionId>,
    missing: bool,
    asks_behaviour: bool,
    too_deep: bool,
}

impl Reached {
    async fn by(tx: &mut Tx, project: ProjectId, tree: &Node) -> Result<Self> {
        let mut reached = Self::default();
        let wanted = reached.named(tx, project, std::slice::from_ref(tree)).await?;
        reached.follow(tx, project, wanted).await?;
        Ok(reached)
    }

    async fn from(tx: &mut Tx, project: ProjectId, wanted: Vec<CohortId>) -> Result<Self> {
        let mut reached = Self::default();
        reached.follow(tx, project, wanted).await?;
        Ok(reached)
    }

    async fn follow(
        &mut self,
        tx: &mut Tx,
        project: ProjectId,
        mut wanted: Vec<CohortId>,
    ) -> Result<()> {
        for _ in 0..=DEPTH_MAX {
            wanted.retain(|id| self.asked.insert(*id));
            if wanted.is_empty() {
                return Ok(());
            }
            let ids: Vec<_> = wanted.iter().map(|id| (*id).into()).collect();
            let sql = "SELECT filters, is_static, deleted FROM cohorts \
                       WHERE project_id = $1 AND id IN {list}";
            let rows = tx.all_in(sql, args![project], &ids).await?;
            self.missing |= rows.len() < wanted.len();
            let mut trees = Vec::new();
            for row in &rows {
                self.missing |= row.get::<bool>("deleted")?;
                // A list asks for nobody, whatever it was sent with.
                let is_static: bool = row.get("is_static")?;
                let filters = row.optional_json("filters")?;
                if let Some(filters) = filters.filter(|_| !is_static) {
                    trees.push(tree(&filters)?);
                }
            }
            self.asks_behaviour |= trees.iter().any(Node::asks_behaviour);
            wanted = self.named(tx, project, &trees).await?;
        }
        self.too_deep = true;
        Ok(())
    }

    /// The cohorts that these name, actions in between or not.
    async fn named(
        &mut self,
        tx: &mut Tx,
        project: ProjectId,
        trees: &[Node],
    ) -> Result<Vec<CohortId>> {
        let mut found = Vec::new();
        trees.iter().for_each(|tree| cohorts(tree, &mut found));
        let mut new: BTreeSet<ActionId> = trees.iter().flat_map(actions).collect();
        new.retain(|id| self.actions.insert(*id));
        for (_, cohorts) in actions_cohorts(tx, project, &new).await? {
            found.extend(cohorts);
        }
        Ok(found)
    }
}

/// The cohorts that a tree names, also in what it asks of events.
fn cohorts(tree: &Node, found: &mut Vec<CohortId>) {
    let mut behaviours = Vec::new();
    tree.behaviours(&mut behaviours);
    behaviours.iter().for_each(|behaviour| behaviour.cohorts(found));
    tree.cohorts(found);
}

fn step_cohorts(steps: &[ActionStep]) -> Vec<CohortId> {
    let mut found = Vec::new();
    let filters = steps.iter().filter_map(|step| step.properties.as_ref()).flatten();
    filters.for_each(|filter| event_cohorts(filter, &mut found));
    found
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

/// Whether one of these cohorts, or one that they name, takes events to calculate.
pub(crate) async fn ask_behaviour(
    tx: &mut Tx,
    project: ProjectId,
    ids: Vec<CohortId>,
) -> Result<bool> {
    Ok(Reached::from(tx, project, ids).await?.asks_behaviour)
}

fn actions(tree: &Node) -> BTreeSet<ActionId> {
    let mut behaviours = Vec::new();
    tree.behaviours(&mut behaviours);
    let action = |behaviour: &&Behaviour| match behaviour.deed {
        Deed::Action(id) => Some(id),
        Deed::Event(_) => None,
    };
    behaviours.iter().filter_map(action).collect()
}

/// Actions must be there and within sight.
async fn check_actions(
    tx: &mut Tx,
    project: ProjectId,
    wanted: BTreeSet<ActionId>,
    seen: &Sight,
) -> Result<()> {
    let list: Vec<_> = wanted.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT id, created_by FROM actions \
               WHERE project_id = $1 AND NOT deleted AND id IN {list}";
    let mut found = 0;
    for row in tx.all_in(sql, args![project], &list).await? {
        let id: ActionId = row.get("id")?;
        found += usize::from(seen.holds(id.0, row.get("created_by")?));
    }
    if found < wanted.len() {
        return Err(Error::refused(Some("filters"), "There is no such action in this project."));
    }
    Ok(())
}

fn tree(filters: &Map<String, Value>) -> Result<Node> {
    stored_cohort_tree(filters).map_err(|why| Error::refused(Some("filters"), why.to_string()))
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

/// The cohorts that one names, however far.
pub(crate) async fn reached(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
) -> Result<BTreeSet<CohortId>> {
    Ok(Reached::from(tx, project, vec![id]).await?.asked)
}

/// A cohort and those that ask for it, however far.
async fn reaching(tx: &mut Tx, project: ProjectId, id: CohortId) -> Result<Vec<crate::db::Value>> {
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
    let asked = by_actions.iter().flatten().copied().collect();
    for (action, cohorts) in actions_cohorts(tx, project, &asked).await? {
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
    let (mut reaching, mut seen) = (vec![id], HashSet::from([id]));
    let mut at = 0;
    while let Some(reached) = reaching.get(at).copied() {
        at += 1;
        let found = asking.remove(&reached).unwrap_or_default();
        reaching.extend(found.into_iter().filter(|found| seen.insert(*found)));
    }
    Ok(reaching.iter().map(|id| (*id).into()).collect())
}

/// Cohorts that ask for this one mean something else now, or nothing any more.
pub(crate) async fn recalculate_those_asking(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
) -> Result<()> {
    let list = reaching(tx, project, id).await?;
    let sql = "UPDATE cohorts SET is_calculating = TRUE, \
               pending_version = COALESCE(pending_version, version, 0) + 1 \
               WHERE project_id = $1 AND id <> $2 AND NOT is_static AND id IN {list}";
    tx.run_in(sql, args![project, id], &list).await
}

/// For flags that reach a cohort, its change is one of theirs.
pub(crate) async fn touch_flags(tx: &mut Tx, project: ProjectId, id: CohortId) -> Result<()> {
    let list = reaching(tx, project, id).await?;
    let sql = "UPDATE feature_flags SET version = version + 1 WHERE project_id = $1 \
               AND NOT deleted AND id IN (SELECT flag_id FROM feature_flag_cohorts \
               WHERE cohort_id IN {list})";
    tx.run_in(sql, args![project], &list).await
}

/// The flags that ask for a cohort, however far: numbers, keys and authors.
pub(crate) async fn flags_reaching(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
) -> Result<Vec<(FlagId, String, Option<UserId>)>> {
    let list = reaching(tx, project, id).await?;
    let sql = "SELECT DISTINCT f.id, f.key, f.created_by FROM feature_flag_cohorts c \
               JOIN feature_flags f ON f.id = c.flag_id \
               WHERE NOT f.deleted AND c.cohort_id IN {list} ORDER BY f.key";
    let rows = tx.all_in(sql, args![], &list).await?;
    rows.iter().map(|row| Ok((row.get("id")?, row.get("key")?, row.get("created_by")?))).collect()
}

/// A flag that asks for a cohort would go on asking; those out of sight are not named.
pub(crate) async fn check_unused(
    tx: &mut Tx,
    project: ProjectId,
    id: CohortId,
    seen: &Sight,
) -> Result<()> {
    let flags = flags_reaching(tx, project, id).await?;
    if flags.is_empty() {
        return Ok(());
    }
    let (count, named) = (flags.len(), flags.into_iter());
    let named = named.filter(|(id, _, author)| seen.holds(id.0, *author)).map(|(_, key, _)| key);
    let mut named: Vec<String> = named.collect();
    if named.len() < count {
        named.push(format!("{} that you cannot see", count - named.len()));
    }
    let detail = format!("This cohort is used by feature flags: {}", named.join(", "));
    Err(Error::refused(Some("deleted"), detail))
}
