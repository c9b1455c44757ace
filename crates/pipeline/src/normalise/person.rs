//! What an event says about its person.

use geoip::Place;
use model::WarningKind;
use model::event::AcceptedEvent;
use serde_json::{Map, Value};

use super::properties::Properties;
use super::{PersonStep, Rules, names};

#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) set: Map<String, Value>,
    pub(super) set_once: Map<String, Value>,
    pub(super) unset: Vec<String>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.set_once.is_empty() && self.unset.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Takes the instructions out of the properties; those beside them win, key by key.
pub(super) fn lift(event: &AcceptedEvent<'_>, properties: &mut Properties<'_>) -> Changes {
    let object = |inside: Option<Value>, beside: Option<&str>| {
        let mut merged = match inside {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        if let Some(Value::Object(members)) =
            beside.and_then(|json| serde_json::from_str(json).ok())
        {
            merged.extend(members);
        }
        merged
    };
    let beside_unset = event.unset.and_then(|json| serde_json::from_str(json).ok());
    let changes = Changes {
        set: object(properties.value("$set"), event.set),
        set_once: object(properties.value("$set_once"), event.set_once),
        unset: [properties.value("$unset"), beside_unset]
            .into_iter()
            .flatten()
            .flat_map(unset_names)
            .collect(),
    };
    ["$set", "$set_once", "$unset"].iter().for_each(|name| properties.remove(name));
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
    const NAME: &str = "$process_person_profile";
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
    let grouped =
        matches!(properties.value("$groups"), Some(Value::Object(groups)) if !groups.is_empty());
    let step = match event.name {
        "$feature_flag_called" if sent.as_deref() != Some("true") && !grouped => {
            PersonStep::OnlyIfKnown
        }
        _ => PersonStep::Full,
    };
    Ok((step, finding))
}

/// Copies what describes the person from the event: device, campaign and place.
pub(super) fn from_event(
    changes: &mut Changes,
    properties: &mut Properties<'_>,
    place: Option<&Place>,
) {
    if !properties.contains("$os")
        && let Some(os) = properties.value("$os_name")
    {
        properties.set_value("$os", &os);
    }
    for name in names::TO_PERSON {
        let Some(value) = properties.value(name) else { continue };
        changes.set.entry(*name).or_insert_with(|| value.clone());
        changes.set_once.entry(names::initial(name)).or_insert(value);
    }
    let Some(place) = place else { return };
    // A place that is no longer known is cleared, not kept from an earlier address.
    for (name, value) in place.all_properties() {
        changes.set.entry(name).or_insert_with(|| value.clone().unwrap_or(Value::Null));
        if let Some(value) = value {
            changes.set_once.entry(names::initial(name)).or_insert(value);
        }
    }
}
