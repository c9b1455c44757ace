//! Response formats of flag evaluation, for all versions of SDKs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flags::{FlagResult, FlagResults};
use model::{FlagId, Timestamp};
use schemars::JsonSchema;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

const MICROS_PER_MILLI: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// A list of the enabled flags' keys.
    Keys,
    /// A map of the enabled flags to their values.
    EnabledMap,
    /// A map of all flags to their values, and one to their payloads.
    Maps { both_spellings: bool },
    /// All flags with value, reason and metadata.
    Flags,
}

pub(super) struct Envelope {
    format: ResponseFormat,
    request_id: Uuid,
    evaluated_at: i64,
    config: Option<Map<String, Value>>,
}

/// The results of all flags, in the form that the SDK's version reads. Those that ask for the
/// configuration also get the fields of `RemoteConfig`.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes the response")]
pub(super) struct FlagsResponse {
    errors_while_computing_flags: bool,
    /// In older forms.
    error_computing_flags: Option<bool>,
    /// By key, in the current form.
    flags: Option<BTreeMap<String, FlagDetail>>,
    /// In older forms.
    feature_flags: Option<FeatureFlags>,
    /// In older forms: payloads by key, as JSON.
    feature_flag_payloads: Option<BTreeMap<String, String>>,
    request_id: Uuid,
    /// Milliseconds of the epoch.
    evaluated_at: i64,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes the response")]
enum FeatureFlags {
    /// Of enabled flags.
    Keys(Vec<String>),
    Values(BTreeMap<String, FlagValue<'static>>),
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes the response")]
struct FlagDetail {
    key: String,
    enabled: bool,
    variant: Option<String>,
    /// The flag could not be evaluated.
    failed: Option<bool>,
    reason: FlagReason,
    metadata: FlagMetadata,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes the response")]
struct FlagReason {
    code: String,
    condition_index: Option<usize>,
    description: String,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes the response")]
struct FlagMetadata {
    id: FlagId,
    version: i64,
    description: Option<String>,
    /// As JSON.
    payload: Option<String>,
    has_experiment: bool,
}

impl Envelope {
    pub(super) fn new(format: ResponseFormat, request_id: Option<Uuid>, now: Timestamp) -> Self {
        Self {
            format,
            request_id: request_id.unwrap_or_else(new_id),
            evaluated_at: now.as_micros() / MICROS_PER_MILLI,
            config: None,
        }
    }

    pub(super) fn with_config(self, config: Option<Map<String, Value>>) -> Self {
        Self { config, ..self }
    }

    /// A response without flags.
    pub(super) fn empty(self) -> String {
        self.of(&FlagResults::default())
    }

    pub(super) fn of(self, answers: &FlagResults<'_>) -> String {
        match self.format {
            ResponseFormat::Flags => self.details(answers),
            _ => serde_json::to_string(&Body { envelope: &self, answers }).unwrap_or_default(),
        }
    }

    /// The format of current SDKs, written without an intermediate tree.
    fn details(self, answers: &FlagResults<'_>) -> String {
        let mut json = format!(r#"{{"errorsWhileComputingFlags":{},"flags":"#, answers.errors);
        answers.write_details(&mut json);
        let Self { request_id, evaluated_at, .. } = self;
        json += &format!(r#","requestId":"{request_id}","evaluatedAt":{evaluated_at}"#);
        for (key, value) in self.config.iter().flatten() {
            json += &format!(",{}:{value}", Value::from(key.as_str()));
        }
        json.push('}');
        json
    }
}

/// A random uuid from the thread's generator, without a system call.
fn new_id() -> Uuid {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid()
}

struct Body<'a> {
    envelope: &'a Envelope,
    answers: &'a FlagResults<'a>,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { envelope, answers } = self;
        let mut map = serializer.serialize_map(None)?;
        let both = matches!(
            envelope.format,
            ResponseFormat::Keys
                | ResponseFormat::EnabledMap
                | ResponseFormat::Maps { both_spellings: true }
        );
        map.serialize_entry("errorsWhileComputingFlags", &answers.errors)?;
        if both {
            map.serialize_entry("errorComputingFlags", &answers.errors)?;
        }
        let all = &answers.results;
        match envelope.format {
            ResponseFormat::Keys => map.serialize_entry("featureFlags", &EnabledKeys(all))?,
            ResponseFormat::EnabledMap => {
                map.serialize_entry("featureFlags", &Values { all, only_enabled: true })?;
            }
            ResponseFormat::Maps { .. } => {
                map.serialize_entry("featureFlags", &Values { all, only_enabled: false })?;
                map.serialize_entry("featureFlagPayloads", &Payloads(all))?;
            }
            // Serialized by `details`.
            ResponseFormat::Flags => {}
        }
        map.serialize_entry("requestId", &envelope.request_id)?;
        map.serialize_entry("evaluatedAt", &envelope.evaluated_at)?;
        for (key, value) in envelope.config.iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

struct EnabledKeys<'a>(&'a [FlagResult<'a>]);

impl Serialize for EnabledKeys<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for answer in self.0.iter().filter(|answer| answer.enabled) {
            list.serialize_element(&answer.flag.key)?;
        }
        list.end()
    }
}

struct Values<'a> {
    all: &'a [FlagResult<'a>],
    only_enabled: bool,
}

/// A flag's value: a variant's key, or a boolean.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum FlagValue<'a> {
    Variant(Cow<'a, str>),
    Boolean(bool),
}

impl<'a> FlagValue<'a> {
    pub(crate) fn of(answer: &FlagResult<'a>) -> Self {
        match answer.variant.filter(|_| answer.enabled) {
            Some(variant) => Self::Variant(Cow::Borrowed(variant)),
            None => Self::Boolean(answer.enabled),
        }
    }

    pub(crate) fn into_owned(self) -> FlagValue<'static> {
        match self {
            Self::Variant(key) => FlagValue::Variant(Cow::Owned(key.into_owned())),
            Self::Boolean(value) => FlagValue::Boolean(value),
        }
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let flags = self.all.iter().filter(|answer| answer.enabled || !self.only_enabled);
        serializer.collect_map(flags.map(|answer| (&answer.flag.key, FlagValue::of(answer))))
    }
}

struct Payloads<'a>(&'a [FlagResult<'a>]);

impl Serialize for Payloads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let payloads = self.0.iter().filter_map(|answer| Some((&answer.flag.key, answer.payload?)));
        serializer.collect_map(payloads)
    }
}
