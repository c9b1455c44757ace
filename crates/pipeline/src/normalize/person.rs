//! Person properties of an event: `$set`, `$set_once`, `$unset`, and properties copied from the event.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use ahash::RandomState;
use geoip::Location;
use model::WarningKind;
use model::event::AcceptedEvent;
use model::json::to_value;
use model::json_object::canonical;
use serde_json::{Map, Value};

use super::names::{self, Name, name};
use super::properties::Properties;
use super::{PersonProcessing, Rules};

/// The explicit changes: `$set`, `$set_once` and `$unset`.
#[derive(Debug, Default)]
pub struct PersonChanges {
    pub set: Map<String, Value>,
    pub set_once: Map<String, Value>,
    pub unset: Vec<String>,
}

/// The event's properties that are copied to its person: device, campaign and location. Nearly every
/// event has them with unchanged values, so they are compared in place, without a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopiedProperties<'e> {
    properties: Option<&'e Properties<'e>>,
    location: Option<&'e Location>,
}

/// An event property that is also set on the person, and its initial value as `$initial_…`. Explicit
/// `$set` and `$set_once` win.
#[derive(Clone, Copy, Debug)]
pub struct CopiedProperty<'e> {
    pub name: Name,
    /// `None` clears the property.
    json: Option<&'e str>,
}

impl<'e> CopiedProperty<'e> {
    fn json(&self) -> &'e str {
        self.json.unwrap_or("null")
    }

    /// The property of its initial value; `None` when it is cleared.
    pub fn initial(&self) -> Option<&'static str> {
        self.json.and_then(|_| self.name.initial())
    }

    pub fn value(&self) -> Value {
        to_value(self.json()).unwrap_or(Value::Null)
    }

    pub fn canonical(&self) -> Cow<'e, str> {
        canonical(self.json())
    }

    /// Whether it equals stored JSON.
    pub fn equals(&self, known: &str) -> bool {
        self.json() == known || self.canonical() == known
    }
}

impl<'e> CopiedProperties<'e> {
    pub(super) fn new(properties: &'e Properties<'e>) -> Self {
        Self { properties: Some(properties), location: properties.location() }
    }

    fn present(self) -> u128 {
        self.properties.map_or(0, Properties::present)
    }

    pub fn len(self) -> usize {
        let copied = self.present() & (names::DEVICES | names::CAMPAIGNS);
        copied.count_ones() as usize + self.location.map_or(0, Location::len)
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    pub fn all(self) -> impl Iterator<Item = CopiedProperty<'e>> {
        self.among(names::DEVICES | names::CAMPAIGNS, self.location)
    }

    /// The properties that [`Self::copied_hash`] does not cover.
    pub fn outside_hash(self) -> impl Iterator<Item = CopiedProperty<'e>> {
        self.among(names::CAMPAIGNS, None)
    }

    fn among(
        self,
        set: u128,
        location: Option<&'e Location>,
    ) -> impl Iterator<Item = CopiedProperty<'e>> {
        let json = move |name| self.properties.and_then(|all| all.json(name));
        let sent = Name::all_of(self.present() & set)
            .map(move |name| CopiedProperty { name, json: json(name) });
        // Unknown GeoIP properties are cleared, not kept from an earlier address.
        let location = location
            .into_iter()
            .flat_map(names::of_location)
            .map(|(name, json)| CopiedProperty { name, json });
        sent.chain(location)
    }

    /// Hash of the copied names and non-volatile values, without campaign properties. Equal for most
    /// consecutive events of a visitor.
    pub fn copied_hash(self, hasher: &RandomState) -> u64 {
        let mut hash = hasher.build_hasher();
        let devices = self.present() & names::DEVICES;
        let steady = self.among(names::STABLE_DEVICES, None);
        steady.for_each(|copied| copied.json.hash(&mut hash));
        (devices, self.location.map(Location::fingerprint)).hash(&mut hash);
        hash.finish()
    }

    /// Equal for events that copy the same names, given that their properties have the same shape.
    pub fn shape(self) -> (bool, usize, u32) {
        let known = self.location.map_or(0, Location::known);
        (self.properties.is_some(), self.location.map_or(0, Location::len), known)
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

    /// Whether no explicit change names a property that may also be copied.
    pub fn sets_no_copied_property(&self) -> bool {
        let apart = |name: &str| !name.starts_with('$') && Name::find(name).is_none();
        self.set.keys().chain(self.set_once.keys()).chain(&self.unset).all(|name| apart(name))
    }

    /// Whether a copied property is set; an explicit `$set` overrides it.
    pub fn copies_current(&self, copied: &CopiedProperty<'_>) -> bool {
        !self.set.contains_key(copied.name.text())
    }

    /// The property of a copied property's initial value, unless it is set explicitly.
    pub fn initial_name(&self, copied: &CopiedProperty<'_>) -> Option<&'static str> {
        let free = |initial: &&str| {
            !self.set_once.contains_key(*initial) && !self.set.contains_key(*initial)
        };
        copied.initial().filter(free)
    }

    /// The properties of a new person, in order of precedence: the last of a name wins.
    pub fn all<'e>(&'e self, copies: CopiedProperties<'e>) -> Vec<(&'e str, Cow<'e, str>)> {
        let serialized =
            |(name, value): (&'e String, &Value)| (name.as_str(), value.to_string().into());
        let initial = copies
            .all()
            .filter_map(|copied| Some((self.initial_name(&copied)?, copied.canonical())));
        let current = copies.all().filter(|copied| self.copies_current(copied));
        let current = current.map(|copied| (copied.name.text(), copied.canonical()));
        let set_once = self.set_once.iter().map(serialized);
        initial.chain(set_once).chain(current).chain(self.set.iter().map(serialized)).collect()
    }
}

/// Removes `$set`, `$set_once` and `$unset` from the properties and merges them with the top-level
/// ones, which win key by key.
pub(super) fn take_changes<'a>(
    event: &AcceptedEvent<'a>,
    properties: &mut Properties<'a>,
) -> PersonChanges {
    let object = |inside: Option<Value>, top_level: Option<&str>| {
        let mut merged = match inside {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        if let Some(Value::Object(members)) = top_level.and_then(to_value) {
            merged.extend(members);
        }
        merged
    };
    let top_level_unset = event.unset.and_then(to_value);
    let changes = PersonChanges {
        set: object(properties.value(name!("$set")), event.set),
        set_once: object(properties.value(name!("$set_once")), event.set_once),
        unset: [properties.value(name!("$unset")), top_level_unset]
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

/// Decides whether the event has a person profile; an error drops the event.
pub(super) fn processing(
    event: &AcceptedEvent<'_>,
    properties: &mut Properties<'_>,
    rules: &Rules,
) -> Result<(PersonProcessing, Option<WarningKind>), WarningKind> {
    const NAME: Name = name!("$process_person_profile");
    let sent = properties.json(NAME).map(str::to_owned);
    let warning = match sent.as_deref() {
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
        return Ok((PersonProcessing::Personless, warning));
    }
    properties.remove(NAME);
    let grouped = matches!(properties.value(name!("$groups")), Some(Value::Object(groups)) if !groups.is_empty());
    let step = match event.name {
        "$feature_flag_called" if sent.as_deref() != Some("true") && !grouped => {
            PersonProcessing::OnlyIfKnown
        }
        _ => PersonProcessing::Full,
    };
    Ok((step, warning))
}

/// Copies `$os_name`, which some SDKs send, to `$os`.
pub(super) fn fill_os(properties: &mut Properties<'_>) {
    if !properties.contains(name!("$os"))
        && let Some(os) = properties.value(name!("$os_name"))
    {
        properties.set_value(name!("$os"), &os);
    }
}
