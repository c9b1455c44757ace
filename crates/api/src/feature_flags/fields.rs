//! Request fields of a flag and their validation.

use catalog::{ExpectedVersion, FlagChange, TAG_CHARS_MAX, normalize_tags};
use model::Timestamp;
use model::flag::filters::{Fields, strip_names};
use model::flag::{BucketingIdentifier, EvaluationRuntime, Original};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::http::body::{lenient_bool, max_chars, not_blank, present, tags};
use crate::{Body, Error, Patch, Result};

/// Upstream's lengths.
const KEY_CHARS_MAX: usize = 400;
const CONTEXTS_MAX: usize = 50;
/// Ours: a list shows up to a thousand flags, so each stays small.
const NAME_CHARS_MAX: usize = 16_384;
const ROLLBACK_BYTES_MAX: usize = 64 << 10;
const DASHBOARDS_MAX: usize = 100;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "FeatureFlagFields")]
pub(crate) struct FlagFields {
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<model::json_shapes::FlagFilters>")]
    filters: Option<Fields>,
    #[serde(default, deserialize_with = "lenient_bool")]
    active: Option<bool>,
    #[serde(default, deserialize_with = "lenient_bool")]
    archived: Option<bool>,
    #[serde(default, deserialize_with = "lenient_bool")]
    deleted: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    created_at: Option<Timestamp>,
    #[serde(default)]
    ensure_experience_continuity: Patch<bool>,
    #[serde(default)]
    rollback_conditions: Patch<Value>,
    #[serde(default)]
    performed_rollback: Patch<bool>,
    #[serde(default, deserialize_with = "present")]
    tags: Option<Vec<String>>,
    /// `evaluation_tags` is the older name.
    #[serde(default, alias = "evaluation_tags", deserialize_with = "present")]
    evaluation_contexts: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    analytics_dashboards: Option<Vec<i64>>,
    #[serde(default, deserialize_with = "present")]
    has_enriched_analytics: Option<bool>,
    #[serde(default)]
    is_remote_configuration: Patch<bool>,
    #[serde(default)]
    has_encrypted_payloads: Patch<bool>,
    #[serde(default)]
    evaluation_runtime: Patch<EvaluationRuntime>,
    #[serde(default)]
    bucketing_identifier: Patch<BucketingIdentifier>,
    /// The version that the client edited, for conflict detection; ignored on creation.
    #[serde(default)]
    version: Option<i64>,
    /// The flag as the client read it before editing.
    #[serde(default)]
    #[schemars(with = "Option<Box<FlagFields>>")]
    original_flag: Option<Map<String, Value>>,
}

impl FlagFields {
    /// The fields of a new flag.
    pub(super) fn validate_new(self) -> Result<FlagChange> {
        let new = self.validate()?;
        if new.key.is_none() {
            return Err(Error::required("key"));
        }
        Ok(new)
    }

    pub(crate) fn validate(self) -> Result<FlagChange> {
        if let Some(key) = &self.key {
            check_key(key)?;
        }
        if let Some(name) = &self.name {
            max_chars("name", name, NAME_CHARS_MAX)?;
        }
        let rollback = self.rollback_conditions.nullable();
        let bytes =
            rollback.as_ref().map_or(0, |value| Value::from(value.clone()).to_string().len());
        if bytes > ROLLBACK_BYTES_MAX {
            let detail = format!("Ensure this field has no more than {ROLLBACK_BYTES_MAX} bytes.");
            return Err(Error::invalid("rollback_conditions", "max_length", detail));
        }
        let off_when_null = |sent: Patch<bool>| sent.nullable().map(|given| given.unwrap_or(false));
        Ok(FlagChange {
            key: self.key,
            name: self.name,
            filters: self.filters,
            active: self.active,
            archived: self.archived,
            deleted: self.deleted,
            created_at: self.created_at,
            ensure_experience_continuity: off_when_null(self.ensure_experience_continuity),
            rollback_conditions: rollback,
            performed_rollback: off_when_null(self.performed_rollback),
            tags: self.tags.as_deref().map(tags).transpose()?,
            tag_edit: None,
            evaluation_contexts: self.evaluation_contexts.as_deref().map(contexts).transpose()?,
            analytics_dashboards: self.analytics_dashboards.map(dashboards).transpose()?,
            has_enriched_analytics: self.has_enriched_analytics,
            is_remote_configuration: off_when_null(self.is_remote_configuration),
            has_encrypted_payloads: off_when_null(self.has_encrypted_payloads),
            evaluation_runtime: self.evaluation_runtime.nullable(),
            bucketing_identifier: self.bucketing_identifier.nullable(),
        })
    }
}

fn check_key(key: &str) -> Result<()> {
    not_blank("key", key)?;
    max_chars("key", key, KEY_CHARS_MAX)?;
    if !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        let detail = "Only letters, numbers, hyphens (-) & underscores (_) are allowed.";
        return Err(Error::invalid("key", "invalid_key", detail));
    }
    Ok(())
}

fn contexts(sent: &[String]) -> Result<Vec<String>> {
    const ATTR: &str = "evaluation_contexts";
    sent.iter().try_for_each(|name| max_chars(ATTR, name, TAG_CHARS_MAX))?;
    let contexts = normalize_tags(sent);
    if contexts.len() > CONTEXTS_MAX {
        let detail = format!("Ensure this field has no more than {CONTEXTS_MAX} elements.");
        return Err(Error::invalid(ATTR, "max_length", detail));
    }
    Ok(contexts)
}

fn dashboards(sent: Vec<i64>) -> Result<Vec<i64>> {
    if sent.len() > DASHBOARDS_MAX {
        let detail = format!("Ensure this field has no more than {DASHBOARDS_MAX} elements.");
        return Err(Error::invalid("analytics_dashboards", "max_length", detail));
    }
    Ok(sent)
}

/// A change and, if the client sent it, the base it edited, for conflict detection.
pub(super) fn change(
    body: &Body<FlagFields>,
    sent: &Value,
) -> Result<(FlagChange, Option<ExpectedVersion>)> {
    let fields = body.read()?;
    let (version, original) = (fields.version, fields.original_flag.clone());
    let change = fields.validate()?;
    let (Some(version), Some(mut original), Value::Object(sent)) = (version, original, sent) else {
        return Ok((change, None));
    };
    let mut sent = sent.clone();
    for shown in [&mut original, &mut sent] {
        // Names that responses add are not changes.
        if let Some(Value::Object(filters)) = shown.get_mut("filters") {
            strip_names(filters);
        }
    }
    let original = Original(original);
    let changed: Map<String, Value> = sent
        .iter()
        .filter(|(field, value)| !original.is_unchanged(field, value))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    let changed: FlagFields = model::deserialize_strict(&Value::Object(changed))?;
    let expected = ExpectedVersion { version, original, sent, changed: changed.validate()? };
    Ok((change, Some(expected)))
}
