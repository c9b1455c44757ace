//! Compiles all flags of a project together, when one of them changes.

use std::collections::HashMap;

use model::flag::{CohortDefinition, CohortKind, FlagDefinition};
use model::property::{Dialect, Node};
use model::{CohortId, FlagId};

use crate::dependencies::{DependencyState, topological_order};
use crate::flag::Flag;
use crate::hash::Kind;

/// What a project's flags are compiled with.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub dialect: Dialect,
    /// All cohorts that flags reference, directly or through other cohorts.
    pub cohorts: Vec<CohortDefinition>,
}

/// The compiled flags of a project, sorted by key.
#[derive(Clone, Debug, Default)]
pub struct FlagSet {
    pub(crate) flags: Vec<Flag>,
    pub(crate) by_key: HashMap<String, usize>,
    pub(crate) cohorts: HashMap<CohortId, Cohort>,
    /// Topological order: dependencies first.
    pub(crate) order: Vec<usize>,
    pub(crate) dependency_states: Vec<DependencyState>,
    /// For each flag, the indexes of its dependencies; `None` for those that do not exist.
    pub(crate) depends: Vec<Vec<Option<usize>>>,
    /// Hashes of a person's distinct id that evaluation is likely to need; computed in SIMD lanes.
    pub(crate) hashed: Vec<(u32, Kind)>,
    continuity: bool,
    static_cohorts: bool,
    persons: bool,
    groups: bool,
    created_at: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Cohort {
    Static,
    Dynamic(Node),
    /// Its conditions cannot be evaluated.
    Broken,
}

/// Without flags that hash another identifier: groups, devices, experience continuity.
fn hashed(flags: &[Flag]) -> Vec<(u32, Kind)> {
    let mut hashed = Vec::new();
    for (at, flag) in (0u32..).zip(flags) {
        let Some(rules) = flag.rules.as_ref().filter(|_| flag.active) else { continue };
        if flag.by_device || flag.continuity {
            continue;
        }
        let mut on_persons =
            rules.conditions.iter().filter(|condition| condition.aggregation.is_none());
        if on_persons.clone().any(|condition| condition.share.is_some()) {
            hashed.push((at, Kind::Rollout));
        }
        if !rules.variants.is_empty() && on_persons.any(|condition| condition.variant.is_none()) {
            hashed.push((at, Kind::Variant));
        }
    }
    hashed
}

impl FlagSet {
    /// Never fails: an invalid flag fails alone, when it is evaluated.
    pub fn compile(definitions: &[FlagDefinition], environment: &Environment) -> Self {
        let dialect = &environment.dialect;
        let mut flags: Vec<Flag> =
            definitions.iter().map(|definition| Flag::compile(definition, dialect)).collect();
        flags.sort_by(|a, b| a.key.cmp(&b.key));
        let by_id: HashMap<FlagId, usize> =
            flags.iter().enumerate().map(|(at, flag)| (flag.id, at)).collect();
        let depends: Vec<Vec<Option<usize>>> = flags
            .iter()
            .map(|flag| flag.dependencies().iter().map(|id| by_id.get(id).copied()).collect())
            .collect();
        let (order, dependency_states) = topological_order(&depends);
        let cohorts: HashMap<CohortId, Cohort> = environment
            .cohorts
            .iter()
            .map(|cohort| {
                let compiled = match &cohort.kind {
                    CohortKind::Static => Cohort::Static,
                    CohortKind::Dynamic(tree) => {
                        Node::parse(tree, dialect).map_or(Cohort::Broken, Cohort::Dynamic)
                    }
                };
                (cohort.id, compiled)
            })
            .collect();
        Self {
            by_key: flags.iter().enumerate().map(|(at, flag)| (flag.key.clone(), at)).collect(),
            continuity: flags.iter().any(|flag| flag.active && flag.continuity),
            persons: flags.iter().any(|flag| flag.active && flag.needs_person()),
            groups: flags.iter().any(|flag| flag.active && flag.needs_groups()),
            created_at: flags.iter().any(|flag| flag.active && flag.needs_created_at()),
            static_cohorts: cohorts.values().any(|cohort| matches!(cohort, Cohort::Static)),
            hashed: hashed(&flags),
            flags,
            cohorts,
            order,
            dependency_states,
            depends,
        }
    }

    pub fn flags(&self) -> &[Flag] {
        &self.flags
    }

    pub fn flag(&self, key: &str) -> Option<&Flag> {
        self.by_key.get(key).map(|at| &self.flags[*at])
    }

    pub fn has_active(&self) -> bool {
        self.flags.iter().any(|flag| flag.active)
    }

    /// Whether a flag has experience continuity, so that evaluation needs stored hash keys.
    pub const fn needs_hash_keys(&self) -> bool {
        self.continuity
    }

    /// Whether a result may depend on a stored person.
    pub const fn needs_person(&self) -> bool {
        self.persons || self.continuity || self.static_cohorts
    }

    pub const fn needs_created_at(&self) -> bool {
        self.created_at
    }

    pub const fn needs_groups(&self) -> bool {
        self.groups
    }

    pub const fn needs_static_cohorts(&self) -> bool {
        self.static_cohorts
    }

    /// The active flags with experience continuity.
    pub fn continuous(&self) -> impl Iterator<Item = &Flag> {
        self.flags.iter().filter(|flag| flag.active && flag.continuity)
    }

    /// The keys of a flag's dependencies in evaluation order, itself last; empty if a dependency is
    /// missing or cyclic.
    pub fn chain(&self, id: FlagId) -> Vec<&str> {
        let Some(at) = self.flags.iter().position(|flag| flag.id == id) else { return Vec::new() };
        if self.dependency_states[at] != DependencyState::Resolved {
            return Vec::new();
        }
        let marked = self.with_dependencies([at]);
        let chain = self.order.iter().filter(|at| marked[**at]);
        chain.map(|at| self.flags[*at].key.as_str()).collect()
    }

    /// Marks flags and their transitive dependencies.
    pub(crate) fn with_dependencies(&self, start: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut marked = vec![false; self.flags.len()];
        let mut open: Vec<usize> = start.into_iter().collect();
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut marked[at], true) {
                open.extend(self.depends[at].iter().flatten());
            }
        }
        marked
    }
}
