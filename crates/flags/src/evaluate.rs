//! The decision itself, in the one order that every SDK follows.

use std::cell::RefCell;
use std::collections::HashMap;

use model::CohortId;
use model::property::{DEPTH_MAX, ExternalCondition, Node, Properties, PropertyFilter};
use serde_json::Value;

use crate::answer::{Answer, Answers, Failure, Reason, ReasonCode};
use crate::compile::{Cohort, FlagSet};
use crate::context::{Context, HashKeys, Membership};
use crate::flag::{Condition, Expected, Flag, Requirement, Rules};
use crate::hash::{Buckets, Kind, holdout_bucket};
use crate::order::Standing;
use crate::select::Selection;
use crate::trace::{Silent, Trace};

/// Where among the answers a flag's is.
#[derive(Clone, Copy)]
struct Slot(u32);

impl Slot {
    const EMPTY: Self = Self(u32::MAX);
}

/// The answers that were given already, and what was worked out for all of them.
#[derive(Clone, Copy)]
struct Given<'g, 's> {
    slots: &'g [Slot],
    answers: &'g [Answer<'s>],
    buckets: &'g Buckets<'g, 's>,
}

impl<'g, 's> Given<'g, 's> {
    fn answer(&self, flag: usize) -> Option<&'g Answer<'s>> {
        self.answers.get(self.slots[flag].0 as usize)
    }
}

impl FlagSet {
    pub fn evaluate<'s>(&'s self, context: &Context<'_>, selection: &Selection) -> Answers<'s> {
        self.evaluate_with(context, selection, &mut Silent)
    }

    /// The same, telling `trace` of every step.
    pub fn evaluate_with<'s>(
        &'s self,
        context: &Context<'_>,
        selection: &Selection,
        trace: &mut impl Trace,
    ) -> Answers<'s> {
        let asked = selection.keys.as_ref().map(|keys| {
            self.with_dependencies(keys.iter().filter_map(|key| self.by_key.get(key).copied()))
        });
        // Small entries beside the answers: a project may have thousands of flags.
        let mut slots: Vec<Slot> = vec![Slot::EMPTY; self.flags.len()];
        let mut answers = Vec::with_capacity(self.flags.len());
        let mut errors = false;
        let mut buckets = match asked {
            Some(_) => Buckets::none(),
            None => Buckets::of(context.distinct_id, &self.hashed),
        };
        for at in &self.order {
            let flag = &self.flags[*at];
            let wanted = asked.as_ref().is_none_or(|asked| asked[*at]) && selection.admits(flag);
            if wanted {
                trace.flag(&flag.key);
                buckets.reach(*at, |flag| &self.flags[flag].key);
                let given = Given { slots: &slots, answers: &answers, buckets: &buckets };
                let answer = self.answer(*at, context, given, trace);
                errors |= answer.failure.is_some() || self.standing[*at] == Standing::Cyclic;
                slots[*at] = Slot(answers.len() as u32);
                answers.push(answer);
            }
        }
        if !self.order.is_sorted() {
            answers.sort_unstable_by(|a, b| a.flag.key.cmp(&b.flag.key));
        }
        Answers { answers, errors }
    }

    fn answer<'s>(
        &'s self,
        at: usize,
        context: &Context<'_>,
        given: Given<'_, 's>,
        trace: &mut impl Trace,
    ) -> Answer<'s> {
        let flag = &self.flags[at];
        let Some(rules) = &flag.rules else { return failed(flag, Failure::InvalidFilters) };
        if self.standing[at] != Standing::Sound {
            return off(flag, Reason::new(ReasonCode::MissingDependency, None));
        }
        let members = RefCell::default();
        let mut run = Run { set: self, at, flag, rules, context, given, trace, members };
        // What an earlier flag missed is not this one's failure.
        run.missed();
        match run.decide() {
            Ok(answer) if !run.missed() => answer,
            Ok(_) => failed(flag, Failure::DatabaseError),
            Err(failure) => failed(flag, failure),
        }
    }
}

fn off(flag: &Flag, reason: Reason) -> Answer<'_> {
    Answer { flag, enabled: false, variant: None, payload: None, reason, failure: None }
}

fn failed(flag: &Flag, failure: Failure) -> Answer<'_> {
    let reason = Reason::new(ReasonCode::NoConditionMatch, None);
    Answer { failure: Some(failure), ..off(flag, reason) }
}

/// One flag for one context.
struct Run<'r, 's, T> {
    set: &'s FlagSet,
    at: usize,
    flag: &'s Flag,
    rules: &'s Rules,
    context: &'r Context<'r>,
    given: Given<'r, 's>,
    trace: &'r mut T,
    /// Cohorts that were looked at: they may ask for one another many times over.
    members: RefCell<HashMap<CohortId, bool>>,
}

impl<'r, 's, T: Trace> Run<'r, 's, T> {
    /// Whether stored properties were needed and could not be read.
    fn missed(&self) -> bool {
        let groups = self.context.groups.iter().flatten();
        let of_groups = groups.fold(false, |any, group| any | group.properties.take_missed());
        self.context.person.take_missed() | of_groups
    }

    fn decide(&mut self) -> Result<Answer<'s>, Failure> {
        if let Some(answer) = self.by_enrolment()? {
            return Ok(answer);
        }
        if let Some(answer) = self.by_holdout() {
            return Ok(answer);
        }
        self.by_conditions()
    }

    fn by_enrolment(&mut self) -> Result<Option<Answer<'s>>, Failure> {
        if let Some(key) = &self.rules.enrolment
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

    fn by_holdout(&mut self) -> Option<Answer<'s>> {
        let holdout = self.rules.holdout.as_ref()?;
        let identifier = self.identifier_for_holdout()?;
        if holdout.share < 1.0 {
            let value = holdout_bucket(identifier);
            self.trace.hash("holdout", identifier, value, holdout.share);
            if value > holdout.share {
                return None;
            }
        }
        Some(Answer {
            flag: self.flag,
            enabled: true,
            variant: Some(&holdout.variant),
            payload: holdout.payload.as_deref(),
            reason: Reason::new(ReasonCode::HoldoutConditionValue, None),
            failure: None,
        })
    }

    fn by_conditions(&mut self) -> Result<Answer<'s>, Failure> {
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
        let known = self.given.buckets.get(self.at, kind, identifier);
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
                let found = match aggregation {
                    None => filter.find(&context.person),
                    Some(_) => {
                        self.group(aggregation).and_then(|group| filter.find(&group.properties))
                    }
                };
                Ok(self.compared(filter, found))
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
        let answer = below.and_then(|at| self.given.answer(at));
        let enabled = answer.is_some_and(|answer| answer.enabled);
        let fits = match expected {
            Expected::On => enabled,
            Expected::Off => !enabled,
            Expected::Variant(key) => {
                enabled && answer.and_then(|answer| answer.variant) == Some(key.as_str())
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
            // Cohorts that name each other describe nobody.
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
        tree.matches(person, self.context.now, &mut |asked| match asked {
            ExternalCondition::Cohort(id) => self.is_member(id, depth + 1),
            // Flags look at no events, and cannot be stored with such a cohort.
            ExternalCondition::Behavioral(_) => Err(Failure::CohortNotFound),
        })
    }

    fn matched(&mut self, condition: &'s Condition, reason: Reason) -> Result<Answer<'s>, Failure> {
        let variant = match condition.variant {
            Some(wanted) => Some(wanted),
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

    fn on(&self, variant: Option<usize>, reason: Reason) -> Answer<'s> {
        let variant = variant.map(|at| &self.rules.variants[at]);
        Answer {
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

    /// What decides the bucket.
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

    /// Stored hash keys never decide holdouts. None when the group is not known.
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
