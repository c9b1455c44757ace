//! Who an event belongs to: the decision tables of persons, applied in journal order.
//!
//! A [`Ledger`] holds the ids and persons that one batch touches. It is filled from the catalog
//! before, decides without I/O, and tells afterwards what to write; one writer per project makes
//! that safe.

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
use crate::normalise::{
    COPIED, Copied, Copies, Merge, Name, PersonChanges, PersonStep, is_illegal, is_noise,
};

/// Serialised; an update past it is refused and the event kept.
const PROPERTIES_BYTES_MAX: usize = 512 << 10;

/// What one event asks of identity.
#[derive(Debug)]
pub struct Request<'a> {
    pub event: &'a str,
    pub event_uuid: Uuid,
    pub distinct_id: &'a str,
    pub time: Timestamp,
    pub person: PersonStep,
    pub merge: Option<&'a Merge>,
    pub changes: &'a PersonChanges,
    pub copies: Copies<'a>,
}

/// The persons and ids of one project that a batch works on.
#[derive(Debug)]
pub struct Ledger {
    project: ProjectId,
    ids: HashMap<String, Slot<DistinctId>, RandomState>,
    persons: HashMap<PersonNo, Slot<Arc<Person<JsonObject>>>, RandomState>,
    /// In order: every id of the first now belongs to the second.
    merges: Vec<(PersonNo, PersonNo)>,
    /// Those that ids were not told of yet.
    forest: MergeForest,
    deleted: Vec<PersonNo>,
    rekeyed: Vec<PersonNo>,
    next_distinct: u32,
    next_person: u32,
    /// The next one when changes were asked last.
    first_new_person: u32,
    /// What the properties of its persons take, at most.
    bytes: usize,
    hasher: RandomState,
    places: Places,
}

#[derive(Debug)]
struct Slot<T> {
    row: T,
    dirty: bool,
    /// Of a person: what was copied from its last event, all of which the person has.
    routine: Option<u64>,
}

impl<T> Slot<T> {
    fn new(row: T, dirty: bool) -> Self {
        Self { row, dirty, routine: None }
    }
}

impl Slot<Arc<Person<JsonObject>>> {
    /// The person, to be changed and written.
    fn change(&mut self) -> &mut Person<JsonObject> {
        self.dirty = true;
        Arc::make_mut(&mut self.row)
    }
}

impl Ledger {
    /// Numbers continue where the project left off.
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
            places: Places::default(),
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

    /// The number of an id that is known already.
    pub fn number(&self, distinct_id: &str) -> Option<DistinctNo> {
        self.ids.get(distinct_id).map(|slot| slot.row.no)
    }

    /// Applies one event; answers the number of its distinct id and what to warn about.
    pub fn apply(&mut self, request: &Request<'_>) -> (DistinctNo, Vec<WarningKind>) {
        let mut warnings = Vec::new();
        let found = self.ids.get(request.distinct_id).map(|slot| (slot.row.no, slot.row.person));
        let (own, known, person) = match found {
            Some((no, person)) => (no, true, person.map(|person| self.forest.survivor(person).0)),
            None => (self.id(request.distinct_id), false, None),
        };
        let full = match request.person {
            PersonStep::Full => true,
            PersonStep::Personless => false,
            PersonStep::OnlyIfKnown => person.is_some(),
        };
        if full {
            self.apply_to_person(request, known, person, &mut warnings);
        }
        (own, warnings)
    }

    /// Everything that changed since it was asked last. From here on that counts as written.
    pub fn take_changes(&mut self) -> IdentityChanges {
        self.settle();
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
        // A fixed order of writes keeps two runs of one journal alike.
        changes.ids.sort_by_key(|id| id.no);
        changes.persons.sort_by_key(|person| person.no);
        changes
    }

    /// How many ids it holds.
    pub fn ids(&self) -> usize {
        self.ids.len()
    }

    /// What the properties of its persons take, at most.
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

    /// The survivor is always the person of the event's own distinct id.
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

    /// Takes over everything of `gone` but what `into` has itself; answers the higher version.
    fn absorb(&mut self, into: PersonNo, gone: PersonNo) -> i64 {
        let Some(Slot { row: other, .. }) = self.persons.remove(&gone) else { return 0 };
        if let Some(slot) = self.persons.get_mut(&into) {
            slot.routine = None;
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
        let first_ones = request.changes.all(request.copies);
        let bytes: usize = first_ones.iter().map(|(name, json)| member_bytes(name, json)).sum();
        // A name that is there twice counts once.
        let fit = bytes <= PROPERTIES_BYTES_MAX
            || JsonObject::default().changed(first_ones.iter().cloned(), []).text().len()
                <= PROPERTIES_BYTES_MAX;
        if !fit {
            warnings.push(WarningKind::PersonPropertiesSizeViolation);
        }
        let creator = ("$creator_event_uuid", format!("\"{}\"", request.event_uuid).into());
        let kept = first_ones.into_iter().filter(|_| fit);
        let properties = JsonObject::default().changed(kept.chain([creator]), []);
        let floor = self.ids.get(first).map_or(0, |slot| slot.row.version_floor);
        let row = Person {
            no,
            uuid: person_uuid(self.project, first),
            properties,
            is_identified,
            version: if floor == 0 { 0 } else { floor + 1 },
            created_at: request.time,
        };
        let has_all = fit && request.changes.copies_are_apart();
        let routine = has_all.then(|| request.copies.routine(&self.hasher));
        self.bytes += row.properties.memory_bytes();
        self.persons.insert(no, Slot { row: Arc::new(row), dirty: true, routine });
        self.attach(first, no);
        no
    }

    /// Applies `$set_once`, `$set` and `$unset`; tells whether anything was worth writing.
    fn update<'r>(
        &mut self,
        no: PersonNo,
        request: &'r Request<'_>,
        warnings: &mut Vec<WarningKind>,
    ) -> bool {
        let Some(slot) = self.persons.get_mut(&no) else { return false };
        let (known, changes, places) = (&slot.row.properties, request.changes, &self.places);
        let always =
            matches!(request.event, "$identify" | "$create_alias" | "$merge_dangerously" | "$set");
        let routine = request.copies.routine(&self.hasher);
        // Somebody who looks around sends the same again and again.
        let usual = slot.routine == Some(routine);
        let worth = always
            || says_news(changes, known)
            || match usual {
                true => copies_news(changes, request.copies.beside_routine(), known, places),
                false => copies_news(changes, request.copies.all(), known, places),
            };
        if !worth {
            if changes.copies_are_apart() {
                slot.routine = Some(routine);
            }
            return false;
        }
        let may_be_new = |copied: &Copied<'_>| !usual || copied.name.is_campaign();
        let copies = |name: &String| request.copies.all().any(|copied| copied.name.text() == name);
        let once = changes.set_once.iter().filter(|(name, _)| {
            !known.contains(name) && !changes.set.contains_key(*name) && !copies(name)
        });
        let said = |(name, value): (&'r String, &Value)| {
            let is_known = known.get(name).is_some_and(|known| is(known, value));
            (!is_known).then(|| (name.as_str(), Cow::Owned(value.to_string())))
        };
        let mut changed: Vec<(&str, Cow<'_, str>)> =
            once.chain(&changes.set).filter_map(said).collect();
        let now = request.copies.all().filter(|copied| {
            (may_be_new(copied) || copied.name.is_noise())
                && changes.is_now(copied)
                && places.is_news(copied, known)
        });
        changed.extend(now.map(|copied| (copied.name.text(), copied.canonical())));
        let first = request.copies.all().filter(may_be_new).filter_map(|copied| {
            let name = changes.once(&copied)?;
            (!places.has_first(copied.name, known)).then(|| (name, copied.canonical()))
        });
        changed.extend(first);
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
        slot.routine = changes.copies_are_apart().then_some(routine);
        self.bytes += changed.memory_bytes();
        self.bytes = self.bytes.saturating_sub(known.memory_bytes());
        slot.change().properties = changed;
        true
    }

    /// Marks a person as identified; the version moves only if that was news.
    fn identified(&mut self, no: PersonNo) -> Survivor {
        let news = self.persons.get_mut(&no).is_some_and(|slot| {
            let news = !slot.row.is_identified;
            if news {
                slot.change().is_identified = true;
            }
            news
        });
        Survivor { no, version: news.then_some(0) }
    }

    fn is_identified(&self, no: PersonNo) -> bool {
        self.persons.get(&no).is_some_and(|slot| slot.row.is_identified)
    }

    fn person_of(&mut self, id: &str) -> Option<PersonNo> {
        let person = self.ids.get(id)?.row.person?;
        Some(self.forest.survivor(person).0)
    }

    fn attach(&mut self, id: &str, no: PersonNo) {
        let held = self.ids.get(id).and_then(|slot| slot.row.person);
        let merges = held.map_or(0, |person| self.forest.survivor(person).1);
        if let Some(slot) = self.ids.get_mut(id) {
            // An id that changes hands tells readers so by its version.
            slot.row.version += merges + i64::from(slot.row.person.is_some());
            slot.row.person = Some(no);
            slot.dirty = true;
        }
    }

    /// The number of an id, given to it now if it is new.
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

/// Who an event belongs to after a merge; a version when that alone is worth a write.
struct Survivor {
    no: PersonNo,
    version: Option<i64>,
}

/// Whether the catalog should hear of what the sender says: of what changes with every page only the
/// first value.
fn says_news(changes: &PersonChanges, known: &JsonObject) -> bool {
    changes.unset.iter().any(|name| known.contains(name))
        || changes.set.iter().any(|(name, value)| match known.get(name) {
            Some(known) => !is_noise(name) && !is(known, value),
            None => true,
        })
        || changes.set_once.keys().any(|name| !known.contains(name))
}

/// Whether it says what is known already.
fn is(known: &str, value: &Value) -> bool {
    match (value, known.strip_prefix('"')) {
        (Value::String(text), Some(rest)) if !rest.contains('\\') => {
            rest.strip_suffix('"') == Some(text)
        }
        _ => *known == *value.to_string(),
    }
}

/// The same of what is copied.
fn copies_news<'e>(
    changes: &PersonChanges,
    mut copies: impl Iterator<Item = Copied<'e>>,
    known: &JsonObject,
    places: &Places,
) -> bool {
    let is_new = |copied: &Copied<'_>| match places.value(copied.name, known) {
        Some(known) => !copied.name.is_noise() && !copied.is(known),
        None => true,
    };
    copies.any(|copied| {
        changes.is_now(&copied) && is_new(&copied)
            || changes.once(&copied).is_some() && !places.has_first(copied.name, known)
    })
}

/// Where the names that are copied stood in the person looked at before: mostly they stand there in
/// the next one too.
#[derive(Debug)]
struct Places {
    now: [AtomicUsize; COPIED],
    first: [AtomicUsize; COPIED],
}

impl Default for Places {
    fn default() -> Self {
        let new = || std::array::from_fn(|_| AtomicUsize::default());
        Self { now: new(), first: new() }
    }
}

impl Places {
    /// The JSON of a property that is copied.
    fn value<'k>(&self, name: Name, known: &'k JsonObject) -> Option<&'k str> {
        known.get_with_hint(name.text(), self.now.get(name.number())?)
    }

    fn has_first(&self, name: Name, known: &JsonObject) -> bool {
        let found = || known.get_with_hint(name.initial()?, self.first.get(name.number())?);
        found().is_some()
    }

    fn is_news(&self, copied: &Copied<'_>, known: &JsonObject) -> bool {
        self.value(copied.name, known).is_none_or(|known| !copied.is(known))
    }
}

/// Of a member with its quotes, colon and comma.
const fn member_bytes(name: &str, json: &str) -> usize {
    name.len() + json.len() + 4
}

#[cfg(test)]
mod tests;
