//! What an event says about its person.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use ahash::RandomState;
use geoip::Place;
use model::WarningKind;
use model::event::AcceptedEvent;
use model::json::to_value;
use model::json_object::canonical;
use serde_json::{Map, Value};

use super::names::{self, Name, name};
use super::properties::Properties;
use super::{PersonStep, Rules};

/// What the sender itself says about the person.
#[derive(Debug, Default)]
pub struct PersonChanges {
    pub set: Map<String, Value>,
    pub set_once: Map<String, Value>,
    pub unset: Vec<String>,
}

/// What describes the person on the event: device, campaign and place. Nearly every event has these
/// and nearly none says anything new, so they are looked at where they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copies<'e> {
    properties: Option<&'e Properties<'e>>,
    place: Option<&'e Place>,
}

/// A property of the event that is set on the person too, and its first value once more under a
/// name of its own. What the sender set by these names itself wins.
#[derive(Clone, Copy, Debug)]
pub struct Copied<'e> {
    pub name: Name,
    /// None for what is cleared.
    json: Option<&'e str>,
}

impl<'e> Copied<'e> {
    fn json(&self) -> &'e str {
        self.json.unwrap_or("null")
    }

    /// The name of its first value; what is cleared has none.
    pub fn initial(&self) -> Option<&'static str> {
        self.json.and_then(|_| self.name.initial())
    }

    pub fn value(&self) -> Value {
        to_value(self.json()).unwrap_or(Value::Null)
    }

    pub fn canonical(&self) -> Cow<'e, str> {
        canonical(self.json())
    }

    /// Whether it says what is known already.
    pub fn is(&self, known: &str) -> bool {
        self.json() == known || self.canonical() == known
    }
}

impl<'e> Copies<'e> {
    pub(super) fn new(properties: &'e Properties<'e>) -> Self {
        Self { properties: Some(properties), place: properties.place() }
    }

    fn present(self) -> u128 {
        self.properties.map_or(0, Properties::present)
    }

    pub fn len(self) -> usize {
        let own = self.present() & (names::DEVICES | names::CAMPAIGNS);
        own.count_ones() as usize + self.place.map_or(0, Place::len)
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    pub fn all(self) -> impl Iterator<Item = Copied<'e>> {
        self.among(names::DEVICES | names::CAMPAIGNS, self.place)
    }

    /// Those that a person may not have whose last event had the same routine.
    pub fn beside_routine(self) -> impl Iterator<Item = Copied<'e>> {
        self.among(names::CAMPAIGNS, None)
    }

    fn among(self, set: u128, place: Option<&'e Place>) -> impl Iterator<Item = Copied<'e>> {
        let json = move |name| self.properties.and_then(|all| all.json(name));
        let own =
            Name::all_of(self.present() & set).map(move |name| Copied { name, json: json(name) });
        // A place that is no longer known is cleared, not kept from an earlier address.
        let place =
            place.into_iter().flat_map(names::of_place).map(|(name, json)| Copied { name, json });
        own.chain(place)
    }

    /// Equal for two events that copy the same names but for the campaign's, and the same values but
    /// for what changes with every page.
    pub fn routine(self, hasher: &RandomState) -> u64 {
        let mut hash = hasher.build_hasher();
        let devices = self.present() & names::DEVICES;
        let steady = self.among(names::STEADY_DEVICES, None);
        steady.for_each(|copied| copied.json.hash(&mut hash));
        (devices, self.place.map(Place::fingerprint)).hash(&mut hash);
        hash.finish()
    }

    /// Equal for two events that copy the same names, given that their properties have the same
    /// names and are of the same types.
    pub fn shape(self) -> (bool, usize, u32) {
        let known = self.place.map_or(0, Place::known);
        (self.properties.is_some(), self.place.map_or(0, Place::len), known)
    }
}

impl PersonChanges {
    pub fn is_empty(&self) -> bool {
        let Self { set, set_once, unset } = self;
        set.is_empty() && set_once.is_empty() && unset.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the sender itself set or cleared nothing by a name that is also copied.
    pub fn copies_are_apart(&self) -> bool {
        let apart = |name: &str| !name.starts_with('$') && Name::find(name).is_none();
        self.set.keys().chain(self.set_once.keys()).chain(&self.unset).all(|name| apart(name))
    }

    /// Whether it is copied, as far as the sender did not set its name.
    pub fn is_now(&self, copied: &Copied<'_>) -> bool {
        !self.set.contains_key(copied.name.text())
    }

    /// The name of its first value, unless the sender set that.
    pub fn once(&self, copied: &Copied<'_>) -> Option<&'static str> {
        let free = |initial: &&str| {
            !self.set_once.contains_key(*initial) && !self.set.contains_key(*initial)
        };
        copied.initial().filter(free)
    }

    /// The first properties of a person; the last of a name counts.
    pub fn all<'e>(&'e self, copies: Copies<'e>) -> Vec<(&'e str, Cow<'e, str>)> {
        let said = |(name, value): (&'e String, &Value)| (name.as_str(), value.to_string().into());
        let once =
            copies.all().filter_map(|copied| Some((self.once(&copied)?, copied.canonical())));
        let now = copies.all().filter(|copied| self.is_now(copied));
        let now = now.map(|copied| (copied.name.text(), copied.canonical()));
        let set_once = self.set_once.iter().map(said);
        once.chain(set_once).chain(now).chain(self.set.iter().map(said)).collect()
    }
}

/// Takes the instructions out of the properties; those beside them win, key by key.
pub(super) fn lift<'a>(
    event: &AcceptedEvent<'a>,
    properties: &mut Properties<'a>,
) -> PersonChanges {
    let object = |inside: Option<Value>, beside: Option<&str>| {
        let mut merged = match inside {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        if let Some(Value::Object(members)) = beside.and_then(to_value) {
            merged.extend(members);
        }
        merged
    };
    let beside_unset = event.unset.and_then(to_value);
    let changes = PersonChanges {
        set: object(properties.value(name!("$set")), event.set),
        set_once: object(properties.value(name!("$set_once")), event.set_once),
        unset: [properties.value(name!("$unset")), beside_unset]
            .into_iter()
            .flatten()
            .flat_map(unset_names)
            .collect(),
    };
    [name!("$set"), name!("$set_once"), name!("$unset")]
        .into_iter()
        .for_each(|name| properties.remove(name));
    changes
}

fn unset_names(value: Value) -> Vec<String> {
    match value {
        Value::Array(items) => {
            items.into_iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
        }
        Value::Object(members) => members.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    }
}

/// Decides whether there is a person; an error drops the event.
pub(super) fn step(
    event: &AcceptedEvent<'_>,
    properties: &mut Properties<'_>,
    rules: &Rules,
) -> Result<(PersonStep, Option<WarningKind>), WarningKind> {
    const NAME: Name = name!("$process_person_profile");
    let sent = properties.json(NAME).map(str::to_owned);
    let finding = match sent.as_deref() {
        None | Some("true" | "false") => None,
        Some(_) => Some(WarningKind::InvalidProcessPersonProfile),
    };
    let off = match sent.as_deref() {
        Some("false") => true,
        None => rules.person_processing_opt_out,
        Some(_) => false,
    };
    if off {
        if matches!(
            event.name,
            "$identify" | "$create_alias" | "$merge_dangerously" | "$groupidentify"
        ) {
            return Err(WarningKind::InvalidEventWhenProcessPersonProfileIsFalse);
        }
        properties.set_value(NAME, &false.into());
        return Ok((PersonStep::Personless, finding));
    }
    properties.remove(NAME);
    let grouped = matches!(properties.value(name!("$groups")), Some(Value::Object(groups)) if !groups.is_empty());
    let step = match event.name {
        "$feature_flag_called" if sent.as_deref() != Some("true") && !grouped => {
            PersonStep::OnlyIfKnown
        }
        _ => PersonStep::Full,
    };
    Ok((step, finding))
}

/// Some SDKs name the operating system elsewhere.
pub(super) fn name_system(properties: &mut Properties<'_>) {
    if !properties.contains(name!("$os"))
        && let Some(os) = properties.value(name!("$os_name"))
    {
        properties.set_value(name!("$os"), &os);
    }
}
