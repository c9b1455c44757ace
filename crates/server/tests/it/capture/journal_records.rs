//! Reads the records of a server's journal, and recorded SDK requests.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use journal::Inspection;
use model::event::{AcceptedEvent, EventUuid};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::{Request, Response, Server};

#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub project: i64,
    pub name: String,
    pub distinct_id: String,
    /// As sent; `None` if the pipeline generates it.
    pub uuid: Option<Uuid>,
    pub properties: Value,
    pub client_ip: Option<String>,
    pub historical: bool,
    pub lib: Option<(String, String)>,
    pub session_id: Option<String>,
    pub processes_person: Option<bool>,
    pub person_processing_disabled: bool,
}

/// Every event in the journal, in order.
pub fn stored(server: &Server) -> Vec<Stored> {
    stored_in(&server.file("journal"))
}

pub fn stored_in(journal: &Path) -> Vec<Stored> {
    let records = Inspection::open(journal).unwrap();
    records.map(|record| read(&record.unwrap().1)).collect()
}

/// `name distinct_id` of every event.
pub fn told(server: &Server) -> Vec<String> {
    stored(server).iter().map(|event| format!("{} {}", event.name, event.distinct_id)).collect()
}

fn read(record: &[u8]) -> Stored {
    let event = AcceptedEvent::decode(record).unwrap();
    let v1 = event.v1.as_ref();
    Stored {
        project: event.project.0,
        name: event.name.into(),
        distinct_id: event.distinct_id.into(),
        uuid: match event.uuid {
            EventUuid::Given(uuid) => Some(uuid),
            EventUuid::Seed(_) => None,
        },
        properties: serde_json::from_str(event.properties).unwrap(),
        client_ip: event.client_ip.map(|ip| ip.to_string()),
        historical: event.historical_migration,
        lib: v1.map(|v1| (v1.lib_name.into(), v1.lib_version.into())),
        session_id: v1.and_then(|v1| v1.session_id).map(str::to_owned),
        processes_person: v1.and_then(|v1| v1.options.process_person_profile),
        person_processing_disabled: v1.is_some_and(|v1| v1.person_processing_disabled),
    }
}

pub fn fixture<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    let lines = std::fs::read_to_string(path).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A recorded request of an SDK.
#[derive(Deserialize)]
pub struct Recording {
    pub scenario: String,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body_b64: String,
}

impl Recording {
    /// Replays it without connection headers.
    pub fn send(&self, server: &Server) -> Response {
        let call = Request::new(server.address(), &self.method, &self.path);
        let ours = ["host", "connection", "content-length", "transfer-encoding"];
        let kept = self
            .headers
            .iter()
            .filter(|(name, _)| !ours.iter().any(|one| name.eq_ignore_ascii_case(one)));
        let call = kept.fold(call, |call, (name, value)| call.header(name, value));
        call.bytes(STANDARD.decode(&self.body_b64).unwrap()).send()
    }
}
