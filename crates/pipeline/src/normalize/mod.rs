//! Normalizes and enriches an accepted event. Pure, so that replay gives the same row.
//!
//! The order follows the contract: timestamp, cleanup, elements, GeoIP, person properties, person
//! processing, groups, size limit.

mod elements;
mod layout;
mod names;
mod person;
mod properties;
#[cfg(test)]
mod tests;
mod time;

use std::borrow::Cow;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use geoip::GeoIp;
use model::WarningKind;
use model::event::{AcceptedEvent, RecordError, SentAt};
use model::json::{Members, to_value};
use model::{ProjectId, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use layout::Layout;
pub use names::Name;
pub(crate) use names::{ANY_GROUP, COPIED, groups as group_names, is_illegal, is_volatile, name};
pub use person::{CopiedProperties, CopiedProperty, PersonChanges};
pub use properties::Properties;
pub use time::parse as parse_time;

/// JSON bytes of an event after enrichment.
const EVENT_BYTES_MAX: usize = 1_000_000;
/// The limit of `$ai_…` events: LLM traces carry whole conversations.
const AI_EVENT_BYTES_MAX: usize = 8 << 20;
const DISTINCT_ID_CHARS_MAX: usize = 200;
const GROUP_KEY_CHARS_MAX: usize = 400;

/// Project settings that affect ingestion.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub anonymize_ips: bool,
    pub person_processing_opt_out: bool,
    pub drop_events_older_than: Option<Duration>,
}

/// An event ready for identity resolution.
#[derive(Debug)]
pub struct NormalizedEvent<'a> {
    pub project: ProjectId,
    pub uuid: Uuid,
    pub name: &'a str,
    pub distinct_id: &'a str,
    pub time: Timestamp,
    pub received_at: Timestamp,
    pub historical: bool,
    pub properties: Properties<'a>,
    pub elements_chain: String,
    pub person: PersonProcessing,
    pub changes: PersonChanges,
    /// Whether properties are copied to the person.
    copies: bool,
    pub merge: Option<Merge>,
    /// (type, key), in the order sent.
    pub groups: Vec<(String, GroupKey)>,
    pub group_identify: Option<GroupIdentify>,
    pub warnings: Vec<EventWarning>,
}

impl NormalizedEvent<'_> {
    pub fn copies(&self) -> CopiedProperties<'_> {
        match self.copies {
            true => CopiedProperties::new(&self.properties),
            false => CopiedProperties::default(),
        }
    }
}

/// Whether an event creates or updates a person profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonProcessing {
    Full,
    /// `$process_person_profile` is false, or the project opted out.
    Personless,
    /// `$feature_flag_called`: updates an existing profile but creates none.
    OnlyIfKnown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    pub other: String,
    /// Merges even a person that is already identified.
    pub dangerously: bool,
}

/// A group's key as a string for comparison, and as JSON for the event, where a number stays one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupKey {
    pub text: String,
    pub json: String,
}

impl GroupKey {
    fn read(json: &str) -> Option<Self> {
        let value = to_value(json).filter(|value| !value.is_null())?;
        let text = as_text(&value);
        let json = match value {
            Value::Number(_) => json.to_owned(),
            _ => Value::from(text.as_str()).to_string(),
        };
        Some(Self { text, json })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupIdentify {
    pub kind: String,
    pub key: String,
    pub set: Map<String, Value>,
}

/// An ingestion warning about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventWarning {
    pub kind: WarningKind,
    pub message: Option<String>,
}

impl From<WarningKind> for EventWarning {
    fn from(kind: WarningKind) -> Self {
        Self { kind, message: None }
    }
}

#[derive(Debug)]
pub enum Outcome<'a> {
    Store(Box<NormalizedEvent<'a>>),
    /// Dropped, with warnings; without any, the event is one that is never stored.
    Drop(Vec<EventWarning>),
}

/// Normalizes one event. An error means that the record is corrupted.
pub fn normalize<'a>(
    event: &AcceptedEvent<'a>,
    rules: &Rules,
    geoip: &GeoIp,
    layout: &mut Layout,
) -> Result<Outcome<'a>, RecordError> {
    let mut properties = Properties::parse(event.properties, layout)?;
    if let Some(dropped) = dropped_by_name(event, &properties) {
        return Ok(Outcome::Drop(dropped));
    }
    add_v1(event, &mut properties);
    if properties.is_true(name!("$cookieless_mode")) {
        return Ok(Outcome::Drop(vec![WarningKind::CookielessDisabled.into()]));
    }
    let mut warnings: Vec<EventWarning> = Vec::new();
    let ignore_sent_at = properties.is_true(name!("$ignore_sent_at"));
    let (time, warning) = time::event_time(event, ignore_sent_at);
    warnings.extend(warning.map(EventWarning::from));
    if let Some(age_max) = rules.drop_events_older_than
        && event.received_at.seconds_since(time) > age_max.as_secs() as i64
    {
        return Ok(Outcome::Drop(vec![WarningKind::EventDroppedTooOld.into()]));
    }
    clean(event, &mut properties);
    let elements_chain = take_elements(&mut properties);
    let location = locate(event, &mut properties, geoip);
    if rules.anonymize_ips {
        properties.remove(name!("$ip"));
    }
    let mut changes = person::take_changes(event, &mut properties);
    if event.name == "$exception" && !changes.is_empty() {
        warnings.push(WarningKind::SetOnException.into());
    }
    let person = match person::processing(event, &mut properties, rules) {
        Ok((person, warning)) => {
            warnings.extend(warning.map(EventWarning::from));
            person
        }
        Err(kind) => return Ok(Outcome::Drop(vec![kind.into()])),
    };
    if let Some(location) = location {
        properties.set_location(location);
    }
    let copies = !matches!(
        (person, event.name),
        (PersonProcessing::Personless, _) | (_, "$exception" | "$groupidentify")
    );
    match copies {
        true => person::fill_os(&mut properties),
        false => changes.clear(),
    }
    let group_identify = match group_identify(event, &properties) {
        Ok(found) => found,
        Err(kind) => return Ok(Outcome::Drop(vec![kind.into()])),
    };
    let groups = match person {
        PersonProcessing::Personless => {
            group_names().for_each(|name| properties.remove(name));
            Vec::new()
        }
        _ => groups(&properties),
    };
    let bytes_max =
        if event.name.starts_with("$ai_") { AI_EVENT_BYTES_MAX } else { EVENT_BYTES_MAX };
    if !properties.fit(elements_chain.len(), bytes_max) {
        return Ok(Outcome::Drop(vec![WarningKind::MessageSizeTooLarge.into()]));
    }
    let merge = merge(event, &properties);
    Ok(Outcome::Store(Box::new(NormalizedEvent {
        project: event.project,
        uuid: event.uuid.at(time),
        name: event.name,
        distinct_id: event.distinct_id,
        time,
        received_at: event.received_at,
        historical: event.historical_migration,
        properties,
        elements_chain,
        person,
        changes,
        copies,
        merge,
        groups,
        group_identify,
        warnings,
    })))
}

/// Drops events that are never stored, by name.
fn dropped_by_name(
    event: &AcceptedEvent<'_>,
    properties: &Properties<'_>,
) -> Option<Vec<EventWarning>> {
    match event.name {
        "$$heatmap" => Some(Vec::new()),
        "$snapshot" => Some(vec![WarningKind::ReplayNotStored.into()]),
        "$performance_event" => Some(vec![WarningKind::PerformanceEventNotStored.into()]),
        "$$client_ingestion_warning" => Some(vec![EventWarning {
            kind: WarningKind::ClientIngestionWarning,
            message: properties
                .text(name!("$$client_ingestion_warning_message"))
                .map(Cow::into_owned),
        }]),
        _ => None,
    }
}

/// Adds the fields of capture v1; they override properties.
fn add_v1(event: &AcceptedEvent<'_>, properties: &mut Properties<'_>) {
    let Some(v1) = &event.v1 else { return };
    let mut put = |name: Name, value: Value| properties.set_value(name, &value);
    put(name!("$lib"), v1.lib_name.into());
    put(name!("$lib_version"), v1.lib_version.into());
    for (name, text) in [(name!("$session_id"), v1.session_id), (name!("$window_id"), v1.window_id)]
    {
        text.into_iter().for_each(|text| put(name, text.into()));
    }
    for (name, switch) in [
        (name!("$cookieless_mode"), v1.options.cookieless_mode),
        (name!("$ignore_sent_at"), v1.options.disable_skew_correction),
        (name!("$process_person_profile"), v1.options.process_person_profile),
    ] {
        switch.into_iter().for_each(|switch| put(name, switch.into()));
    }
    if v1.person_processing_disabled {
        put(name!("$process_person_profile"), false.into());
    }
    if let Some(tour) = v1.options.product_tour_id.and_then(|json| serde_json::from_str(json).ok())
    {
        put(name!("$product_tour_id"), tour);
    }
}

fn clean(event: &AcceptedEvent<'_>, properties: &mut Properties<'_>) {
    names::removed().for_each(|name| properties.remove(name));
    if let Some(SentAt::Text(sent_at)) = &event.sent_at {
        properties.set_value(name!("$sent_at"), &Value::from(sent_at.as_ref()));
    }
    // No early exit, so that the compiler vectorizes the loop.
    let has_uppercase =
        |json: &str| json.bytes().fold(false, |any, byte| any | byte.is_ascii_uppercase());
    if properties.json(name!("$session_id")).is_some_and(has_uppercase)
        && let Some(session) = properties.text(name!("$session_id"))
        && Uuid::parse_str(&session).is_ok()
    {
        let session = session.to_lowercase();
        properties.set_value(name!("$session_id"), &session.into());
    }
    if properties.contains(name!("capture_internal")) {
        properties.set_value(name!("$ip"), &"127.0.0.1".into());
    } else if !properties.is_truthy(name!("$ip"))
        && let Some(ip) = event.client_ip
    {
        properties.set_value(name!("$ip"), &ip.to_string().into());
    }
}

fn take_elements(properties: &mut Properties<'_>) -> String {
    let given = properties.text(name!("$elements_chain")).filter(|chain| !chain.is_empty());
    let chain = given.map(Cow::into_owned).or_else(|| match properties.value(name!("$elements")) {
        Some(Value::Array(elements)) => Some(elements::chain(&elements)),
        _ => None,
    });
    properties.remove(name!("$elements_chain"));
    properties.remove(name!("$elements"));
    chain.unwrap_or_default()
}

fn locate(
    event: &AcceptedEvent<'_>,
    properties: &mut Properties<'_>,
    geoip: &GeoIp,
) -> Option<Arc<geoip::Location>> {
    if properties.is_truthy(name!("$geoip_disable")) {
        return None;
    }
    let sent = properties.text(name!("$ip")).and_then(|text| text.trim().parse::<IpAddr>().ok());
    geoip.lookup(sent.or(event.client_ip)?)
}

fn merge(event: &AcceptedEvent<'_>, properties: &Properties<'_>) -> Option<Merge> {
    let (key, dangerously) = match event.name {
        "$identify" => (name!("$anon_distinct_id"), false),
        "$create_alias" => (name!("alias"), false),
        "$merge_dangerously" => (name!("alias"), true),
        _ => return None,
    };
    if !properties.is_truthy(key) {
        return None;
    }
    let other = as_text(&properties.value(key)?);
    Some(Merge { other: other.chars().take(DISTINCT_ID_CHARS_MAX).collect(), dangerously })
}

/// The event's groups; types longer than `GROUP_KEY_CHARS_MAX` are skipped.
fn groups(properties: &Properties<'_>) -> Vec<(String, GroupKey)> {
    let sent = properties.json(name!("$groups")).map(Members::new);
    let sent: Vec<_> = sent.into_iter().flatten().flatten().flatten().collect();
    let (mut groups, mut visited) = (Vec::new(), HashSet::new());
    // The last key of a repeated type wins.
    for (kind, json) in sent.into_iter().rev() {
        if visited.insert(kind.clone())
            && let Some(key) = GroupKey::read(json)
            && kind.chars().count() <= GROUP_KEY_CHARS_MAX
        {
            groups.push((kind.into_owned(), key));
        }
    }
    groups.reverse();
    groups
}

fn group_identify(
    event: &AcceptedEvent<'_>,
    properties: &Properties<'_>,
) -> Result<Option<GroupIdentify>, WarningKind> {
    if event.name != "$groupidentify"
        || !properties.is_truthy(name!("$group_type"))
        || !properties.is_truthy(name!("$group_key"))
    {
        return Ok(None);
    }
    let text = |name| properties.value(name).map(|value| as_text(&value)).unwrap_or_default();
    let (kind, key) = (text(name!("$group_type")), text(name!("$group_key")));
    if key.chars().count() > GROUP_KEY_CHARS_MAX {
        return Err(WarningKind::GroupKeyTooLong);
    }
    let set = match properties.value(name!("$group_set")) {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(set)) => set,
        Some(_) => return Err(WarningKind::GroupSetInvalid),
    };
    Ok((kind.chars().count() <= GROUP_KEY_CHARS_MAX).then_some(GroupIdentify { kind, key, set }))
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
