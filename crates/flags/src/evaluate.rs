//! Flag evaluation, in the order that all SDKs follow: enrollment, holdout, conditions.

use std::cell::RefCell;
use std::collections::HashMap;

use model::CohortId;
use model::property::{DEPTH_MAX, ExternalCondition, Node, Properties, PropertyFilter};
use serde_json::Value;

use crate::compile::{Cohort, FlagSet};
use crate::context::{Context, HashKeys, Membership};
use crate::dependencies::DependencyState;
use crate::flag::{Condition, Expected, Flag, Requirement, Rules};
use crate::hash::{Buckets, Kind, holdout_bucket};
use crate::result::{Failure, FlagResult, FlagResults, Reason, ReasonCode};
use crate::selection::Selection;
use crate::trace::{NoTrace, Trace};

/// Index of a flag's result.
#[derive(Clone, Copy)]
struct Slot(u32);

impl Slot {
    const EMPTY: Self = Self(u32::MAX);
}

/// Results so far, and buckets computed in advance.
#[derive(Clone, Copy)]
struct Evaluated<'g, 's> {
    slots: &'g [Slot],
    results: &'g [FlagResult<'s>],
    buckets: &'g Buckets<'g, 's>,
}

impl<'g, 's> Evaluated<'g, 's> {
    fn result(&self, flag: usize) -> Option<&'g FlagResult<'s>> {
        self.results.get(self.slots[flag].0 as usize)
    }
}

impl FlagSet {
    pub fn evaluate<'s>(&'s self, context: &Context<'_>, selection: &Selection) -> FlagResults<'s> {
        self.evaluate_with(context, selection, &mut NoTrace)
    }

    /// Like [`Self::evaluate`], reporting every step to `trace`.
    pub fn evaluate_with<'s>(
        &'s self,
        context: &Context<'_>,
        selection: &Selection,
        trace: &mut impl Trace,
    ) -> FlagResults<'s> {
        let selected = selection.keys.as_ref().map(|keys| {
            self.with_dependencies(keys.iter().filter_map(|key| self.by_key.get(key).copied()))
        });
        // A compact index instead of options of results: a project may have thousands of flags.
        let mut slots: Vec<Slot> = vec![Slot::EMPTY; self.flags.len()];
        let mut results = Vec::with_capacity(self.flags.len());
        let mut errors = false;
        let mut buckets = match selected {
            Some(_) => Buckets::none(),
            None => Buckets::of(context.distinct_id, &self.hashed),
        };
        for at in &self.order {
            let flag = &self.flags[*at];
            if selected.as_ref().is_none_or(|selected| selected[*at]) && selection.admits(flag) {
                trace.flag(&flag.key);
                buckets.reach(*at, |flag| &self.flags[flag].key);
                let evaluated = Evaluated { slots: &slots, results: &results, buckets: &buckets };
                let result = self.result(*at, context, evaluated, trace);
                errors |= result.failure.is_some()
                    || self.dependency_states[*at] == DependencyState::Cyclic;
                slots[*at] = Slot(results.len() as u32);
                results.push(result);
            }
        }
        if !self.order.is_sorted() {
            results.sort_unstable_by(|a, b| a.flag.key.cmp(&b.flag.key));
        }
        FlagResults { results, errors }
    }

    fn result<'s>(
        &'s self,
        at: usize,
        context: &Context<'_>,
        evaluated: Evaluated<'_, 's>,
        trace: &mut impl Trace,
    ) -> FlagResult<'s> {
        let flag = &self.flags[at];
        let Some(rules) = &flag.rules else { return failed(flag, Failure::InvalidFilters) };
        if self.dependency_states[at] != DependencyState::Resolved {
            return off(flag, Reason::new(ReasonCode::MissingDependency, None));
        }
        let members = RefCell::default();
        let mut run = Run { set: self, at, flag, rules, context, evaluated, trace, members };
        // Clears the mark of an earlier flag.
        run.unavailable();
        match run.decide() {
            Ok(result) if !run.unavailable() => result,
            Ok(_) => failed(flag, Failure::DatabaseError),
            Err(failure) => failed(flag, failure),
        }
    }
}

fn off(flag: &Flag, reason: Reason) -> FlagResult<'_> {
    FlagResult { flag, enabled: false, variant: None, payload: None, reason, failure: None }
}

fn failed(flag: &Flag, failure: Failure) -> FlagResult<'_> {
    let reason = Reason::new(ReasonCode::NoConditionMatch, None);
    FlagResult { failure: Some(failure), ..off(flag, reason) }
}

/// The evaluation of one flag in one context.
struct Run<'r, 's, T> {
    set: &'s FlagSet,
    at: usize,
    flag: &'s Flag,
    rules: &'s Rules,
    context: &'r Context<'r>,
    evaluated: Evaluated<'r, 's>,
    trace: &'r mut T,
    /// Memoized cohort memberships: cohorts may reference each other many times.
    members: RefCell<HashMap<CohortId, bool>>,
}

impl<'r, 's, T: Trace> Run<'r, 's, T> {
    /// Whether stored properties were read while unavailable, since the last call.
    fn unavailable(&self) -> bool {
        let groups = self.context.groups.iter().flatten();
        let of_groups = groups.fold(false, |any, group| any | group.properties.take_unavailable());
        self.context.person.take_unavailable() | of_groups
    }

    fn decide(&mut self) -> Result<FlagResult<'s>, Failure> {
        if let Some(result) = self.by_enrollment()? {
            return Ok(result);
        }
        if let Some(result) = self.by_holdout() {
            return Ok(result);
        }
        self.by_conditions()
    }

    fn by_enrollment(&mut self) -> Result<Option<FlagResult<'s>>, Failure> {
        if let Some(key) = &self.rules.enrollment
            && let Some(value) = self.context.person.property(key)
        {
            let enrolled = *value == Value::Bool(true) || value.as_str() == Some("true");
            let reason = Reason::new(ReasonCode::SuperConditionValue, Some(0));
            return Ok(Some(match enrolled {
                true => self.on(None, reason),
                false => off(self.flag, reason),
            }));
        }
        let Some(condition) = &self.rules.super_condition else { return Ok(None) };
        let applies = condition.requirements.iter().any(|requirement| match requirement {
            Requirement::Property(filter) => filter.find(&self.context.person).is_some(),
            _ => false,
        });
        if !applies {
            return Ok(None);
        }
        let result = self.condition(condition)?;
        let reason = Reason::new(ReasonCode::SuperConditionValue, Some(0));
        Ok(Some(match result {
            ReasonCode::ConditionMatch => self.matched(condition, reason)?,
            _ => off(self.flag, reason),
        }))
    }

    fn by_holdout(&mut self) -> Option<FlagResult<'s>> {
        let holdout = self.rules.holdout.as_ref()?;
        let identifier = self.identifier_for_holdout()?;
        if holdout.share < 1.0 {
            let value = holdout_bucket(identifier);
            self.trace.hash("holdout", identifier, value, holdout.share);
            if value > holdout.share {
                return None;
            }
        }
        Some(FlagResult {
            flag: self.flag,
            enabled: true,
            variant: Some(&holdout.variant),
            payload: holdout.payload.as_deref(),
            reason: Reason::new(ReasonCode::HoldoutConditionValue, None),
            failure: None,
        })
    }

    fn by_conditions(&mut self) -> Result<FlagResult<'s>, Failure> {
        let mut best: Option<(ReasonCode, usize)> = None;
        let mut skipped_groups = false;
        for (index, condition) in self.rules.conditions.iter().enumerate() {
            let result = self.condition(condition)?;
            self.trace.condition(index, result);
            if result == ReasonCode::ConditionMatch {
                return self.matched(condition, Reason::new(result, Some(index)));
            }
            skipped_groups |= result == ReasonCode::NoGroupType;
            if best.is_none_or(|(rank, _)| result >= rank) {
                best = Some((result, index));
            }
            let by_rollout = result == ReasonCode::OutOfRolloutBound;
            if self.rules.early_exit && by_rollout && !self.lacks_device(condition) {
                return Ok(off(self.flag, Reason::new(result, Some(index))));
            }
        }
        let (code, index) =
            best.map_or((ReasonCode::NoConditionMatch, None), |(code, index)| (code, Some(index)));
        let reason = Reason { skipped_groups, ..Reason::new(code, index) };
        Ok(off(self.flag, reason))
    }

    fn lacks_device(&self, condition: &Condition) -> bool {
        condition.aggregation.is_none() && self.flag.by_device && self.context.device_id.is_none()
    }

    fn condition(&mut self, condition: &'s Condition) -> Result<ReasonCode, Failure> {
        if condition.aggregation.is_some() && self.group(condition.aggregation).is_none() {
            return Ok(ReasonCode::NoGroupType);
        }
        if self.lacks_device(condition) {
            return Ok(ReasonCode::OutOfRolloutBound);
        }
        for requirement in &condition.requirements {
            if !self.requirement(requirement, condition.aggregation)? {
                return Ok(ReasonCode::NoConditionMatch);
            }
        }
        let Some(share) = condition.share else { return Ok(ReasonCode::ConditionMatch) };
        let identifier = self.identifier(condition.aggregation)?;
        let value = self.bucket(identifier, Kind::Rollout);
        self.trace.hash("rollout", identifier, value, share);
        Ok(match value <= share {
            true => ReasonCode::ConditionMatch,
            false => ReasonCode::OutOfRolloutBound,
        })
    }

    fn bucket(&self, identifier: &str, kind: Kind) -> f64 {
        let known = self.evaluated.buckets.get(self.at, kind, identifier);
        known.unwrap_or_else(|| self.flag.prefix.bucket(identifier, kind.salt()))
    }

    fn requirement(
        &mut self,
        requirement: &'s Requirement,
        aggregation: Option<u8>,
    ) -> Result<bool, Failure> {
        match requirement {
            Requirement::Impossible => Ok(false),
            Requirement::Property(filter) => {
                let context = self.context;
                let subject = match aggregation {
                    None => filter.find(&context.person),
                    Some(_) => {
                        self.group(aggregation).and_then(|group| filter.find(&group.properties))
                    }
                };
                Ok(self.compared(filter, subject))
            }
            Requirement::CreatedAt(filter) => {
                Ok(self.compared(filter, self.context.created_at.as_ref()))
            }
            Requirement::Cohort { id, excluded } => {
                let member = self.is_member(*id, 0)?;
                self.trace.cohort(id.0, member);
                Ok(member != *excluded)
            }
            Requirement::Flag { dependency, expected } => Ok(self.depends(*dependency, expected)),
        }
    }

    fn compared(&mut self, filter: &PropertyFilter, found: Option<&Value>) -> bool {
        let fits = filter.accepts(found, self.context.now);
        self.trace.property(filter, found, fits);
        fits
    }

    /// A dependency that is not evaluated counts as off.
    fn depends(&mut self, dependency: usize, expected: &Expected) -> bool {
        let below = self.set.depends[self.at].get(dependency).copied().flatten();
        let result = below.and_then(|at| self.evaluated.result(at));
        let enabled = result.is_some_and(|result| result.enabled);
        let fits = match expected {
            Expected::On => enabled,
            Expected::Off => !enabled,
            Expected::Variant(key) => {
                enabled && result.and_then(|result| result.variant) == Some(key.as_str())
            }
        };
        if let Some(below) = below {
            self.trace.dependency(self.set.flags[below].id.0, fits);
        }
        fits
    }

    fn is_member(&self, id: CohortId, depth: usize) -> Result<bool, Failure> {
        match self.set.cohorts.get(&id) {
            None | Some(Cohort::Broken) => Err(Failure::CohortNotFound),
            // A cycle of cohorts matches nobody.
            Some(_) if depth > DEPTH_MAX => Ok(false),
            Some(Cohort::Static) => match self.context.cohorts {
                Membership::Known(cohorts) => Ok(cohorts.contains(&id)),
                Membership::None => Ok(false),
                Membership::Unavailable => Err(Failure::DatabaseError),
            },
            Some(Cohort::Dynamic(tree)) => {
                if let Some(known) = self.members.borrow().get(&id) {
                    return Ok(*known);
                }
                let fits = self.fits_tree(tree, depth)?;
                self.members.borrow_mut().insert(id, fits);
                Ok(fits)
            }
        }
    }

    fn fits_tree(&self, tree: &Node, depth: usize) -> Result<bool, Failure> {
        let person = &self.context.person;
        tree.matches(person, self.context.now, &mut |condition| match condition {
            ExternalCondition::Cohort(id) => self.is_member(id, depth + 1),
            // Flags cannot be stored with behavioral cohorts: evaluation reads no events.
            ExternalCondition::Behavioral(_) => Err(Failure::CohortNotFound),
        })
    }

    fn matched(
        &mut self,
        condition: &'s Condition,
        reason: Reason,
    ) -> Result<FlagResult<'s>, Failure> {
        let variant = match condition.variant {
            Some(variant) => Some(variant),
            None if self.rules.variants.is_empty() => None,
            None => {
                let identifier = self.identifier(condition.aggregation)?;
                let value = self.bucket(identifier, Kind::Variant);
                let chosen = self.rules.variants.iter().position(|variant| value < variant.below);
                let bound = chosen.map_or(1.0, |chosen| self.rules.variants[chosen].below);
                self.trace.hash("variant", identifier, value, bound);
                chosen
            }
        };
        Ok(self.on(variant, reason))
    }

    fn on(&self, variant: Option<usize>, reason: Reason) -> FlagResult<'s> {
        let variant = variant.map(|at| &self.rules.variants[at]);
        FlagResult {
            flag: self.flag,
            enabled: true,
            variant: variant.map(|variant| variant.key.as_str()),
            payload: match variant {
                Some(variant) => variant.payload.as_deref(),
                None => self.rules.payload.as_deref(),
            },
            reason,
            failure: None,
        }
    }

    fn group(&self, aggregation: Option<u8>) -> Option<&'r crate::context::GroupSubject<'r>> {
        self.context.groups.get(usize::from(aggregation?))?.as_ref()
    }

    /// The bucketing identifier.
    fn identifier(&self, aggregation: Option<u8>) -> Result<&'r str, Failure> {
        if aggregation.is_some() {
            return Ok(self.group(aggregation).map_or("", |group| &group.key));
        }
        if self.flag.by_device
            && let Some(device) = self.context.device_id
        {
            return Ok(device);
        }
        if self.flag.continuity {
            match self.context.hash_keys {
                HashKeys::Unavailable => return Err(Failure::DatabaseError),
                HashKeys::None => {}
                HashKeys::Known(keys) => {
                    if let Some(key) = keys.get(&self.flag.key) {
                        return Ok(key);
                    }
                }
            }
            if let Some(anonymous) = self.context.anon_distinct_id {
                return Ok(anonymous);
            }
        }
        Ok(self.context.distinct_id)
    }

    /// Holdouts ignore stored hash keys. `None` if the request has no such group.
    fn identifier_for_holdout(&self) -> Option<&'r str> {
        if self.rules.aggregation.is_some() {
            return self.group(self.rules.aggregation).map(|group| group.key.as_str());
        }
        if self.flag.by_device
            && let Some(device) = self.context.device_id
        {
            return Some(device);
        }
        let anonymous = self.context.anon_distinct_id.filter(|_| self.flag.continuity);
        Some(anonymous.unwrap_or(self.context.distinct_id))
    }
}
