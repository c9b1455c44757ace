//! Identity resolution: which person an event belongs to, merges and property updates, applied in
//! journal order.
//!
//! An [`IdentityCache`] is a write-back cache of the distinct ids and persons that batches touch. It
//! is loaded from the catalog, decides without I/O, and then yields the changes to write. A single
//! writer per project makes that safe.

mod edits;
mod merges;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use ahash::RandomState;
use model::WarningKind;
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use model::{ProjectId, Timestamp};
use serde_json::Value;
use uuid::Uuid;

use self::merges::MergeForest;
use crate::normalize::{
    COPIED, CopiedProperties, CopiedProperty, Merge, Name, PersonChanges, PersonProcessing,
    is_illegal, is_volatile,
};

/// Serialized properties of a person; a larger update is rejected with a warning, and the event
/// stored.
const PROPERTIES_BYTES_MAX: usize = 512 << 10;

/// What identity resolution needs of an event.
#[derive(Debug)]
pub struct Request<'a> {
    pub event: &'a str,
    pub event_uuid: Uuid,
    pub distinct_id: &'a str,
    pub time: Timestamp,
    pub person: PersonProcessing,
    pub merge: Option<&'a Merge>,
    pub changes: &'a PersonChanges,
    pub copies: CopiedProperties<'a>,
}

/// Write-back cache of one project's distinct ids and persons.
#[derive(Debug)]
pub struct IdentityCache {
    project: ProjectId,
    ids: HashMap<String, Slot<DistinctId>, RandomState>,
    persons: HashMap<PersonNo, Slot<Arc<Person<JsonObject>>>, RandomState>,
    /// (from, into), in order.
    merges: Vec<(PersonNo, PersonNo)>,
    /// Merges that are not applied to `ids` yet.
    forest: MergeForest,
    deleted: Vec<PersonNo>,
    rekeyed: Vec<PersonNo>,
    next_distinct: u32,
    next_person: u32,
    /// `next_person` when changes were last taken.
    first_new_person: u32,
    /// Upper bound of the memory that cached properties take.
    bytes: usize,
    hasher: RandomState,
    hints: PositionHints,
}

#[derive(Debug)]
struct Slot<T> {
    row: T,
    dirty: bool,
    /// For persons: hash of the properties copied from the last event, all of which the person has.
    copied_hash: Option<u64>,
}

impl<T> Slot<T> {
    fn new(row: T, dirty: bool) -> Self {
        Self { row, dirty, copied_hash: None }
    }
}

impl Slot<Arc<Person<JsonObject>>> {
    /// Marks the person dirty and returns it for a change.
    fn change(&mut self) -> &mut Person<JsonObject> {
        self.dirty = true;
        Arc::make_mut(&mut self.row)
    }
}

impl IdentityCache {
    /// Dense ids continue from the project's counters.
    pub fn new(project: ProjectId, next_distinct: u32, next_person: u32) -> Self {
        Self {
            project,
            ids: HashMap::default(),
            persons: HashMap::default(),
            merges: Vec::new(),
            forest: MergeForest::default(),
            deleted: Vec::new(),
            rekeyed: Vec::new(),
            next_distinct,
            next_person,
            first_new_person: next_person,
            bytes: 0,
            hasher: RandomState::new(),
            hints: PositionHints::default(),
        }
    }

    pub fn load(&mut self, ids: Vec<DistinctId>, persons: Vec<Person<JsonObject>>) {
        for row in ids {
            self.ids.insert(row.text.clone(), Slot::new(row, false));
        }
        for row in persons {
            self.bytes += row.properties.memory_bytes();
            self.persons.insert(row.no, Slot::new(Arc::new(row), false));
        }
    }

    /// The dense id of a cached distinct id.
    pub fn number(&self, distinct_id: &str) -> Option<DistinctNo> {
        self.ids.get(distinct_id).map(|slot| slot.row.no)
    }

    /// Applies one event; returns the dense id of its distinct id, and warnings.
    pub fn apply(&mut self, request: &Request<'_>) -> (DistinctNo, Vec<WarningKind>) {
        let mut warnings = Vec::new();
        let cached = self.ids.get(request.distinct_id).map(|slot| (slot.row.no, slot.row.person));
        let (distinct_no, is_known, person) = match cached {
            Some((no, person)) => (no, true, person.map(|person| self.forest.survivor(person).0)),
            None => (self.id(request.distinct_id), false, None),
        };
        let full = match request.person {
            PersonProcessing::Full => true,
            PersonProcessing::Personless => false,
            PersonProcessing::OnlyIfKnown => person.is_some(),
        };
        if full {
            self.apply_to_person(request, is_known, person, &mut warnings);
        }
        (distinct_no, warnings)
    }

    /// Takes all changes since the last call; they count as committed from here on.
    pub fn take_changes(&mut self) -> IdentityChanges {
        self.apply_merges();
        let (mut ids, mut persons) = (Vec::new(), Vec::new());
        for slot in self.ids.values_mut().filter(|slot| slot.dirty) {
            slot.dirty = false;
            ids.push(slot.row.clone());
        }
        for slot in self.persons.values_mut().filter(|slot| slot.dirty) {
            slot.dirty = false;
            persons.push(slot.row.clone());
        }
        let mut changes = IdentityChanges {
            ids,
            persons,
            merges: std::mem::take(&mut self.merges),
            deleted: std::mem::take(&mut self.deleted),
            rekeyed: std::mem::take(&mut self.rekeyed),
            first_new_person: std::mem::replace(&mut self.first_new_person, self.next_person),
            next_distinct: self.next_distinct,
            next_person: self.next_person,
        };
        // A fixed order of writes makes replay deterministic.
        changes.ids.sort_by_key(|id| id.no);
        changes.persons.sort_by_key(|person| person.no);
        changes
    }

    /// Number of cached distinct ids.
    pub fn ids(&self) -> usize {
        self.ids.len()
    }

    /// Upper bound of the memory that cached properties take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn apply_to_person(
        &mut self,
        request: &Request<'_>,
        into_known: bool,
        person: Option<PersonNo>,
        warnings: &mut Vec<WarningKind>,
    ) {
        let merged = match request.merge {
            Some(merge) if merge.other == request.distinct_id => None,
            Some(merge) if is_illegal(&merge.other) || is_illegal(request.distinct_id) => {
                warnings.push(WarningKind::CannotMergeWithIllegalDistinctId);
                None
            }
            Some(merge) => Some(self.merge(request, merge, into_known, warnings)),
            None => None,
        };
        let survivor = merged.or_else(|| Some(Survivor { no: person?, version: None }));
        match survivor {
            None => drop(self.create(request.distinct_id, request, false, warnings)),
            Some(Survivor { no, version }) => {
                let updated = self.update(no, request, warnings);
                if let Some(slot) = self.persons.get_mut(&no)
                    && (updated || version.is_some())
                {
                    let row = slot.change();
                    row.version = version.unwrap_or(row.version).max(row.version) + 1;
                }
            }
        }
    }

    /// Merges the person of `merge.other` into the person of the event's distinct id.
    fn merge(
        &mut self,
        request: &Request<'_>,
        merge: &Merge,
        into_known: bool,
        warnings: &mut Vec<WarningKind>,
    ) -> Survivor {
        let (into, other) = (request.distinct_id, merge.other.as_str());
        let other_known = self.ids.contains_key(other);
        self.id(other);
        match (self.person_of(into), self.person_of(other)) {
            (None, None) => {
                let (first, second) =
                    if other_known && !into_known { (other, into) } else { (into, other) };
                let no = self.create(first, request, true, warnings);
                self.attach(second, no);
                Survivor { no, version: None }
            }
            (Some(no), None) => {
                self.attach(other, no);
                self.identified(no)
            }
            (None, Some(no)) => {
                self.attach(into, no);
                self.identified(no)
            }
            (Some(no), Some(same)) if no == same => self.identified(no),
            (Some(no), Some(gone)) => {
                if !self.is_identified(gone) || merge.dangerously {
                    let version = self.absorb(no, gone);
                    self.identified(no);
                    return Survivor { no, version: Some(version) };
                }
                warnings.push(WarningKind::CannotMergeAlreadyIdentified);
                self.identified(no)
            }
        }
    }

    /// Merges `gone` into `into`, whose properties win; returns the version of `gone`.
    fn absorb(&mut self, into: PersonNo, gone: PersonNo) -> i64 {
        let Some(Slot { row: other, .. }) = self.persons.remove(&gone) else { return 0 };
        if let Some(slot) = self.persons.get_mut(&into) {
            slot.copied_hash = None;
            let row = slot.change();
            row.properties = other.properties.merged(&row.properties);
            if other.created_at < row.created_at {
                row.created_at = other.created_at;
                self.rekeyed.push(into);
            }
        }
        self.merges.push((gone, into));
        self.forest.add(gone, into);
        other.version
    }

    fn create(
        &mut self,
        first: &str,
        request: &Request<'_>,
        is_identified: bool,
        warnings: &mut Vec<WarningKind>,
    ) -> PersonNo {
        let no = PersonNo(self.next_person);
        self.next_person += 1;
        let initial = request.changes.all(request.copies);
        let bytes: usize = initial.iter().map(|(name, json)| member_bytes(name, json)).sum();
        // A repeated name counts once.
        let fit = bytes <= PROPERTIES_BYTES_MAX
            || JsonObject::default().changed(initial.iter().cloned(), []).text().len()
                <= PROPERTIES_BYTES_MAX;
        if !fit {
            warnings.push(WarningKind::PersonPropertiesSizeViolation);
        }
        let creator = ("$creator_event_uuid", format!("\"{}\"", request.event_uuid).into());
        let initial = initial.into_iter().filter(|_| fit);
        let properties = JsonObject::default().changed(initial.chain([creator]), []);
        let floor = self.ids.get(first).map_or(0, |slot| slot.row.version_floor);
        let row = Person {
            no,
            uuid: person_uuid(self.project, first),
            properties,
            is_identified,
            version: if floor == 0 { 0 } else { floor + 1 },
            created_at: request.time,
        };
        let has_all = fit && request.changes.sets_no_copied_property();
        let copied_hash = has_all.then(|| request.copies.copied_hash(&self.hasher));
        self.bytes += row.properties.memory_bytes();
        self.persons.insert(no, Slot { row: Arc::new(row), dirty: true, copied_hash });
        self.attach(first, no);
        no
    }

    /// Applies `$set_once`, `$set`, `$unset` and copied properties; returns whether the person must
    /// be written.
    fn update<'r>(
        &mut self,
        no: PersonNo,
        request: &'r Request<'_>,
        warnings: &mut Vec<WarningKind>,
    ) -> bool {
        let Some(slot) = self.persons.get_mut(&no) else { return false };
        let (known, changes, hints) = (&slot.row.properties, request.changes, &self.hints);
        let always =
            matches!(request.event, "$identify" | "$create_alias" | "$merge_dangerously" | "$set");
        let copied_hash = request.copies.copied_hash(&self.hasher);
        // Consecutive events of a visitor mostly copy the same values.
        let same_copies = slot.copied_hash == Some(copied_hash);
        let must_write = always
            || changes_properties(changes, known)
            || match same_copies {
                true => copies_new_values(changes, request.copies.outside_hash(), known, hints),
                false => copies_new_values(changes, request.copies.all(), known, hints),
            };
        if !must_write {
            if changes.sets_no_copied_property() {
                slot.copied_hash = Some(copied_hash);
            }
            return false;
        }
        let may_be_new = |copied: &CopiedProperty<'_>| !same_copies || copied.name.is_campaign();
        let copies = |name: &String| request.copies.all().any(|copied| copied.name.text() == name);
        let once = changes.set_once.iter().filter(|(name, _)| {
            !known.contains(name) && !changes.set.contains_key(*name) && !copies(name)
        });
        let new_value = |(name, value): (&'r String, &Value)| {
            let is_same = known.get(name).is_some_and(|known| equals(known, value));
            (!is_same).then(|| (name.as_str(), Cow::Owned(value.to_string())))
        };
        let mut changed: Vec<(&str, Cow<'_, str>)> =
            once.chain(&changes.set).filter_map(new_value).collect();
        let current = request.copies.all().filter(|copied| {
            (may_be_new(copied) || copied.name.is_volatile())
                && changes.copies_current(copied)
                && hints.is_new(copied, known)
        });
        changed.extend(current.map(|copied| (copied.name.text(), copied.canonical())));
        let initial = request.copies.all().filter(may_be_new).filter_map(|copied| {
            let name = changes.initial_name(&copied)?;
            (!hints.has_initial(copied.name, known)).then(|| (name, copied.canonical()))
        });
        changed.extend(initial);
        let mut removed = changes.unset.iter().filter(|name| known.contains(name)).peekable();
        if removed.peek().is_none() && changed.is_empty() {
            return false;
        }
        let added: usize = changed.iter().map(|(name, json)| member_bytes(name, json)).sum();
        if added + known.text().len() > PROPERTIES_BYTES_MAX {
            warnings.push(WarningKind::PersonPropertiesSizeViolation);
            return false;
        }
        let changed = known.changed(changed, removed.map(String::as_str));
        slot.copied_hash = changes.sets_no_copied_property().then_some(copied_hash);
        self.bytes += changed.memory_bytes();
        self.bytes = self.bytes.saturating_sub(known.memory_bytes());
        slot.change().properties = changed;
        true
    }

    /// Marks a person as identified; the version rises only if it was not.
    fn identified(&mut self, no: PersonNo) -> Survivor {
        let changed = self.persons.get_mut(&no).is_some_and(|slot| {
            let changed = !slot.row.is_identified;
            if changed {
                slot.change().is_identified = true;
            }
            changed
        });
        Survivor { no, version: changed.then_some(0) }
    }

    fn is_identified(&self, no: PersonNo) -> bool {
        self.persons.get(&no).is_some_and(|slot| slot.row.is_identified)
    }

    fn person_of(&mut self, id: &str) -> Option<PersonNo> {
        let person = self.ids.get(id)?.row.person?;
        Some(self.forest.survivor(person).0)
    }

    fn attach(&mut self, id: &str, no: PersonNo) {
        let previous = self.ids.get(id).and_then(|slot| slot.row.person);
        let merges = previous.map_or(0, |person| self.forest.survivor(person).1);
        if let Some(slot) = self.ids.get_mut(id) {
            // The version tells readers that the id changed its person.
            slot.row.version += merges + i64::from(slot.row.person.is_some());
            slot.row.person = Some(no);
            slot.dirty = true;
        }
    }

    /// The dense id of a distinct id; assigns one if it is new.
    fn id(&mut self, text: &str) -> DistinctNo {
        if let Some(slot) = self.ids.get(text) {
            return slot.row.no;
        }
        let no = DistinctNo(self.next_distinct);
        self.next_distinct += 1;
        let row =
            DistinctId { no, text: text.to_owned(), person: None, version: 0, version_floor: 0 };
        self.ids.insert(text.to_owned(), Slot::new(row, true));
        no
    }
}

/// The person that remains after a merge; a version if the merge itself must be written.
struct Survivor {
    no: PersonNo,
    version: Option<i64>,
}

/// Whether `$set`, `$set_once` or `$unset` require a write. New values of volatile properties alone
/// do not.
fn changes_properties(changes: &PersonChanges, known: &JsonObject) -> bool {
    changes.unset.iter().any(|name| known.contains(name))
        || changes.set.iter().any(|(name, value)| match known.get(name) {
            Some(known) => !is_volatile(name) && !equals(known, value),
            None => true,
        })
        || changes.set_once.keys().any(|name| !known.contains(name))
}

/// Whether a value equals stored JSON.
fn equals(known: &str, value: &Value) -> bool {
    match (value, known.strip_prefix('"')) {
        (Value::String(text), Some(rest)) if !rest.contains('\\') => {
            rest.strip_suffix('"') == Some(text)
        }
        _ => *known == *value.to_string(),
    }
}

/// Whether copied properties require a write.
fn copies_new_values<'e>(
    changes: &PersonChanges,
    mut copies: impl Iterator<Item = CopiedProperty<'e>>,
    known: &JsonObject,
    hints: &PositionHints,
) -> bool {
    let is_new = |copied: &CopiedProperty<'_>| match hints.value(copied.name, known) {
        Some(known) => !copied.name.is_volatile() && !copied.equals(known),
        None => true,
    };
    copies.any(|copied| {
        changes.copies_current(&copied) && is_new(&copied)
            || changes.initial_name(&copied).is_some() && !hints.has_initial(copied.name, known)
    })
}

/// Indexes of the copied properties in the previous person: most persons have them at the same one.
#[derive(Debug)]
struct PositionHints {
    current: [AtomicUsize; COPIED],
    initial: [AtomicUsize; COPIED],
}

impl Default for PositionHints {
    fn default() -> Self {
        let new = || std::array::from_fn(|_| AtomicUsize::default());
        Self { current: new(), initial: new() }
    }
}

impl PositionHints {
    /// The JSON of a copied property on a person.
    fn value<'k>(&self, name: Name, known: &'k JsonObject) -> Option<&'k str> {
        known.get_with_hint(name.text(), self.current.get(name.number())?)
    }

    fn has_initial(&self, name: Name, known: &JsonObject) -> bool {
        let value = || known.get_with_hint(name.initial()?, self.initial.get(name.number())?);
        value().is_some()
    }

    fn is_new(&self, copied: &CopiedProperty<'_>, known: &JsonObject) -> bool {
        self.value(copied.name, known).is_none_or(|known| !copied.equals(known))
    }
}

/// Size of a serialized member with its quotes, colon and comma.
const fn member_bytes(name: &str, json: &str) -> usize {
    name.len() + json.len() + 4
}

#[cfg(test)]
mod tests;
