//! Requests about many flags: their keys, and changes of their tags.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{FlagChange, TagEdit};
use model::{FlagId, ObjectKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Flags, Rights};
use crate::http::body::tags;
use crate::{App, Body, Error, Json, Reader, Result, Routes, Writer};

/// Upstream's limit of one change of tags.
const IDS_MAX: usize = 500;
/// Ours: a project has at most 2,000 live flags.
const KEYS_MAX: usize = 2_000;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/feature_flags/bulk_keys", bulk_keys)
        .post("/api/projects/{project_id}/feature_flags/bulk_update_tags", bulk_update_tags)
}

#[derive(Deserialize, JsonSchema)]
struct KeysFields {
    /// Numbers, or strings of digits; others are ignored with a warning.
    #[serde(default)]
    ids: Vec<Value>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagKeys")]
struct Keys {
    /// Keys by id, of the flags that exist and that the caller may see.
    keys: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

async fn bulk_keys(caller: Reader<Flags>, app: App, body: Body<KeysFields>) -> Result<Json<Keys>> {
    let sent = body.read()?.ids;
    bounded(sent.len(), KEYS_MAX)?;
    let id = |sent: &Value| match sent {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_i64(),
    };
    let ids: BTreeSet<i64> = sent.iter().filter_map(id).collect();
    let ignored: Vec<String> =
        sent.iter().filter(|sent| id(sent).is_none()).map(ToString::to_string).collect();
    let visibility = caller.visibility(ObjectKind::FeatureFlag);
    let ids: Vec<FlagId> = ids.into_iter().map(FlagId).collect();
    let found = app.catalog.flags().keys(caller.project.id, &ids, &visibility).await?;
    let keys = found.into_iter().map(|(id, key)| (id.to_string(), key)).collect();
    let warning = (!ignored.is_empty())
        .then(|| format!("These ids are not numbers and were ignored: {}", ignored.join(", ")));
    Ok(Json(Keys { keys, warning }))
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TagAction {
    Add,
    Remove,
    Set,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "BulkUpdateTags")]
struct TagFields {
    ids: Vec<i64>,
    action: TagAction,
    tags: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BulkUpdatedTags")]
struct UpdatedTags {
    updated: Vec<TaggedFlag>,
    skipped: Vec<SkippedFlag>,
}

#[derive(Serialize, JsonSchema)]
struct TaggedFlag {
    id: i64,
    tags: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct SkippedFlag {
    id: i64,
    reason: String,
}

/// Changes the tags of each flag as a PATCH would; flags that cannot be changed are skipped.
async fn bulk_update_tags(
    caller: Writer<Flags>,
    app: App,
    body: Body<TagFields>,
) -> Result<Json<UpdatedTags>> {
    let TagFields { ids, action, tags: sent } = body.read()?;
    bounded(ids.len(), IDS_MAX)?;
    let sent = tags(&sent)?;
    let rights = Rights::of(&app, &caller).await?;
    let mut outcome = UpdatedTags { updated: Vec::new(), skipped: Vec::new() };
    for id in ids.into_iter().collect::<BTreeSet<i64>>() {
        match tag(&app, &caller, &rights, FlagId(id), action, &sent).await {
            Ok(tags) => outcome.updated.push(TaggedFlag { id, tags }),
            Err(error) if error.is_client_error() => {
                let reason = error.detail().to_owned();
                outcome.skipped.push(SkippedFlag { id, reason });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Json(outcome))
}

async fn tag(
    app: &App,
    caller: &Writer<Flags>,
    rights: &Rights,
    id: FlagId,
    action: TagAction,
    sent: &[String],
) -> Result<Vec<String>> {
    let flag = app.catalog.flags().get(caller.project.id, id).await?;
    if flag.deleted {
        return Err(Error::not_found());
    }
    rights.require(&flag)?;
    let (tags, tag_edit) = match action {
        TagAction::Add => (None, Some(TagEdit::Add(sent.to_vec()))),
        TagAction::Remove => (None, Some(TagEdit::Remove(sent.to_vec()))),
        TagAction::Set => (Some(sent.to_vec()), None),
    };
    let change = FlagChange { tags, tag_edit, ..FlagChange::default() };
    let (actor, visibility) = (caller.actor(), caller.visibility(ObjectKind::FeatureFlag));
    let updated = app.catalog.flags().update(&actor, id, &change, None, &visibility).await?;
    Ok(updated.flag.tags)
}

fn bounded(count: usize, max: usize) -> Result<()> {
    if count > max {
        let detail = format!("Ensure this field has no more than {max} elements.");
        return Err(Error::invalid("ids", "max_length", detail));
    }
    Ok(())
}
