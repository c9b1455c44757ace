//! Converts an exported event to the JSON that capture reads.

use std::collections::BTreeMap;

use pipeline::normalize::parse_time;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

/// Namespace of the v5 uuids of events without a uuid.
const NAMESPACE: Uuid = Uuid::from_u128(0x5b0e_6d1c_7c0f_4a52_9d0e_0c7f_3b1e_8a44);
/// Events that must not set person properties.
const WITHOUT_PERSON: [&str; 2] = ["$groupidentify", "$exception"];
/// Person property that the pipeline sets when it creates a person.
const CREATOR: &str = "$creator_event_uuid";
const NO_OBJECT: &str = "its properties are not a JSON object";
/// Such an event would get the time of the import, another one with each import.
const NO_TIME: &str = "it has no valid timestamp";

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The fields that an import uses; others are ignored.
#[derive(Deserialize)]
pub(super) struct ExportedEvent<'a> {
    #[serde(default)]
    pub uuid: Option<Uuid>,
    pub event: String,
    pub distinct_id: String,
    #[serde(default)]
    pub timestamp: Option<String>,
    #[serde(default, borrow)]
    pub properties: Option<&'a RawValue>,
    #[serde(default)]
    pub elements_chain: Option<String>,
    #[serde(default, borrow)]
    pub person_properties: Option<&'a RawValue>,
}

impl ExportedEvent<'_> {
    /// `origin` identifies the event within its file and seeds the uuid of an event without one, so
    /// that a second import yields the same uuid.
    pub fn to_json(&self, origin: &str) -> Result<String, &'static str> {
        let time = self.timestamp.as_deref().filter(|text| parse_time(text).is_some());
        let time = time.ok_or(NO_TIME)?;
        let derived = || Uuid::new_v5(&NAMESPACE, origin.as_bytes());
        let event = json!({
            "uuid": self.uuid.unwrap_or_else(derived),
            "event": self.event,
            "distinct_id": self.distinct_id,
            "timestamp": time,
        });
        let mut text = event.to_string();
        text.truncate(text.len() - 1);
        let chain = self.elements_chain.as_deref().filter(|chain| !chain.is_empty());
        let chain = chain.map(to_raw_value).transpose().map_err(|_| NO_OBJECT)?;
        // Properties stay raw JSON: parsing would change the spelling of numbers.
        let properties = object_text(self.properties)?;
        let mut members: Members<'_> = serde_json::from_str(&properties).map_err(|_| NO_OBJECT)?;
        let personless = members.get("$process_person_profile").is_some_and(|x| x.get() == "false");
        match &chain {
            None => text.push_str(&format!(",\"properties\":{properties}")),
            Some(chain) => {
                members.insert("$elements_chain".into(), chain);
                let all = serde_json::to_string(&members).map_err(|_| NO_OBJECT)?;
                text.push_str(&format!(",\"properties\":{all}"));
            }
        }
        let person = object_text(self.person_properties)?;
        let mut set: Members<'_> = serde_json::from_str(&person).map_err(|_| NO_OBJECT)?;
        set.remove(CREATOR);
        // An export holds the person's properties, not the changes that the event made.
        if !set.is_empty() && !personless && !WITHOUT_PERSON.contains(&self.event.as_str()) {
            let set = serde_json::to_string(&set).map_err(|_| NO_OBJECT)?;
            text.push_str(&format!(",\"$set\":{set}"));
        }
        text.push('}');
        Ok(text)
    }
}

/// An object, or a string with the JSON of one, as some exports have it.
fn object_text(sent: Option<&RawValue>) -> Result<String, &'static str> {
    match sent.map(RawValue::get) {
        None | Some("null" | "\"\"") => Ok("{}".to_owned()),
        Some(text) if text.starts_with('"') => serde_json::from_str(text).map_err(|_| NO_OBJECT),
        Some(text) => Ok(text.to_owned()),
    }
}
