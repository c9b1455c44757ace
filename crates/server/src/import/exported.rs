//! An event as an export tells of it, and as capture can read it.

use std::collections::BTreeMap;

use pipeline::normalise::parse_time;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

/// Of uuids that are made for events without one.
const NAMESPACE: Uuid = Uuid::from_u128(0x5b0e_6d1c_7c0f_4a52_9d0e_0c7f_3b1e_8a44);
/// Events that say nothing about a person, whatever theirs is like.
const WITHOUT_PERSON: [&str; 2] = ["$groupidentify", "$exception"];
/// Written when a person is made, not by events.
const CREATOR: &str = "$creator_event_uuid";
const NO_OBJECT: &str = "its properties are no JSON object";
/// It would be stored at the moment of the import, and move when it is imported again.
const NO_TIME: &str = "it has no timestamp that can be read";

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The members that mean something here; others are ignored.
#[derive(Deserialize)]
pub(super) struct Exported<'a> {
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

impl Exported<'_> {
    /// `origin` is different for every event of a file, and the same whenever it is read.
    pub fn to_json(&self, origin: &str) -> Result<String, &'static str> {
        let time = self.timestamp.as_deref().filter(|text| parse_time(text).is_some());
        let time = time.ok_or(NO_TIME)?;
        let made = || Uuid::new_v5(&NAMESPACE, origin.as_bytes());
        let event = json!({
            "uuid": self.uuid.unwrap_or_else(made),
            "event": self.event,
            "distinct_id": self.distinct_id,
            "timestamp": time,
        });
        let mut text = event.to_string();
        text.truncate(text.len() - 1);
        let chain = self.elements_chain.as_deref().filter(|chain| !chain.is_empty());
        let chain = chain.map(to_raw_value).transpose().map_err(|_| NO_OBJECT)?;
        // Properties go in as they are: reading them would change the literals of numbers.
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
        let mut known: Members<'_> = serde_json::from_str(&person).map_err(|_| NO_OBJECT)?;
        known.remove(CREATOR);
        // An export says what the person is like, not what the event changed.
        if !known.is_empty() && !personless && !WITHOUT_PERSON.contains(&self.event.as_str()) {
            let known = serde_json::to_string(&known).map_err(|_| NO_OBJECT)?;
            text.push_str(&format!(",\"$set\":{known}"));
        }
        text.push('}');
        Ok(text)
    }
}

/// An object, or one as JSON in a text, as some exports have it.
fn object_text(sent: Option<&RawValue>) -> Result<String, &'static str> {
    match sent.map(RawValue::get) {
        None | Some("null" | "\"\"") => Ok("{}".to_owned()),
        Some(text) if text.starts_with('"') => serde_json::from_str(text).map_err(|_| NO_OBJECT),
        Some(text) => Ok(text.to_owned()),
    }
}
