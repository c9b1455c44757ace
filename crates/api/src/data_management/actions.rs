//! Actions: named sets of event conditions.

use std::collections::BTreeSet;

use catalog::{ActionChange, Deleted, NewAction};
use model::{
    AccessLevel, Action, ActionId, ActionStep, CohortId, ObjectKind, ProjectId, StringMatching,
    Timestamp, User,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::auth::access::{Authored, WithAccess, require};
use crate::auth::resources::Actions;
use crate::http::body::{lenient_bool, max_chars, not_blank, present, tags};
use crate::{
    App, AppState, Body, Created, Error, Id, IsPut, Json, Listing, Page, Patch, Reader, Result,
    Routes, SoftDeleteOnly, Writer,
};

/// Upstream's lengths of a name and of a message.
const NAME_CHARS_MAX: usize = 400;
const SLACK_MESSAGE_CHARS_MAX: usize = 1_200;
/// Ours: a list shows up to a thousand actions, so each stays small.
const DESCRIPTION_CHARS_MAX: usize = 16_384;
const STEPS_MAX: usize = 100;
const STEPS_BYTES_MAX: usize = 64 << 10;

impl Authored for Action {
    const KIND: ObjectKind = ObjectKind::Action;

    fn object_id(&self) -> i64 {
        self.id.0
    }

    fn author(&self) -> Option<&User> {
        self.created_by.as_ref()
    }
}

type ActionResponse = WithAccess<Action>;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/actions", list)
        .post("/api/projects/{project_id}/actions", create)
        .get("/api/projects/{project_id}/actions/{id}", read)
        .patch("/api/projects/{project_id}/actions/{id}", update)
        .delete("/api/projects/{project_id}/actions/{id}", destroy)
        .get("/api/projects/{project_id}/actions/activity", activity)
        .get("/api/projects/{project_id}/actions/{id}/activity", activity_of_one)
}

async fn list(caller: Reader<Actions>, page: Page, app: App) -> Result<Listing<ActionResponse>> {
    let visibility = caller.visibility(ObjectKind::Action);
    let (actions, total) =
        app.catalog.actions().list(caller.project.id, &visibility, page.window).await?;
    Ok(page.listing(actions.into_iter().map(|action| caller.with_access(action)).collect(), total))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ActionFields {
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    description: Option<String>,
    #[serde(default, deserialize_with = "present")]
    tags: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lenient_bool")]
    post_to_slack: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    slack_message_format: Option<String>,
    #[serde(default, deserialize_with = "present")]
    steps: Option<Vec<ActionStep>>,
    /// Any timestamp pins the action, as of now; null unpins it.
    #[serde(default)]
    pinned_at: Patch<Timestamp>,
    #[serde(default, deserialize_with = "lenient_bool")]
    deleted: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("required" = ["name"]))]
struct CreateAction(ActionFields);

async fn create(
    caller: Writer<Actions>,
    app: App,
    body: Body<CreateAction>,
) -> Result<Created<ActionResponse>> {
    caller.may_create(ObjectKind::Action)?;
    let fields = body.read()?.0.validate()?;
    check_cohorts(&app, caller.project.id, &[], fields.steps.as_deref()).await?;
    let (new, visibility) = (new_action(fields)?, caller.visibility(ObjectKind::Action));
    let action = app.catalog.actions().create(&caller.actor(), new, &visibility).await?;
    Ok(Created(caller.with_access(action)))
}

pub(crate) fn new_action(fields: ActionChange) -> Result<NewAction> {
    Ok(NewAction {
        name: fields.name.ok_or_else(|| Error::required("name"))?,
        description: fields.description.unwrap_or_default(),
        tags: fields.tags.unwrap_or_default(),
        post_to_slack: fields.post_to_slack.unwrap_or(false),
        slack_message_format: fields.slack_message_format.unwrap_or_default(),
        steps: fields.steps.unwrap_or_default(),
        pinned: fields.pinned.unwrap_or(false),
        deleted: fields.deleted.unwrap_or(false),
    })
}

async fn read(caller: Reader<Actions>, id: Id, app: App) -> Result<Json<ActionResponse>> {
    let action =
        app.catalog.actions().get(caller.project.id, ActionId(id.0), Deleted::Exclude).await?;
    require(caller.level_of(&action), AccessLevel::Viewer)?;
    Ok(Json(caller.with_access(action)))
}

async fn update(
    caller: Writer<Actions>,
    is_put: IsPut,
    id: Id,
    app: App,
    body: Body<ActionFields>,
) -> Result<Json<ActionResponse>> {
    let id = ActionId(id.0);
    let current = app.catalog.actions().get(caller.project.id, id, body.among()).await?;
    require(caller.level_of(&current), AccessLevel::Editor)?;
    let change = body.read()?.validate()?;
    if is_put.0 && change.name.is_none() {
        return Err(Error::required("name"));
    }
    check_cohorts(&app, caller.project.id, &current.steps, change.steps.as_deref()).await?;
    let visibility = caller.visibility(ObjectKind::Action);
    let action = app.catalog.actions().update(&caller.actor(), id, change, &visibility).await?;
    Ok(Json(caller.with_access(action)))
}

async fn destroy(_: Writer<Actions>) -> Result<SoftDeleteOnly> {
    Ok(SoftDeleteOnly)
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    page.visible_to(caller.visibilities()).of_all::<Action>(&app, &caller.project).await
}

async fn activity_of_one(
    caller: Reader<ActivityLog>,
    id: Id,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let action =
        app.catalog.actions().get(caller.project.id, ActionId(id.0), Deleted::Exclude).await?;
    require(caller.level_of(&action), AccessLevel::Viewer)?;
    page.visible_to(caller.visibilities()).of(&app, &caller.project, &action).await
}

impl ActionFields {
    pub(crate) fn validate(self) -> Result<ActionChange> {
        let name = self.name.map(|name| name.trim().to_owned());
        if let Some(name) = &name {
            not_blank("name", name)?;
            max_chars("name", name, NAME_CHARS_MAX)?;
        }
        if let Some(description) = &self.description {
            max_chars("description", description, DESCRIPTION_CHARS_MAX)?;
        }
        if let Some(message) = &self.slack_message_format {
            max_chars("slack_message_format", message, SLACK_MESSAGE_CHARS_MAX)?;
        }
        self.steps.as_deref().map(check_steps).transpose()?;
        Ok(ActionChange {
            name,
            description: self.description,
            tags: self.tags.as_deref().map(tags).transpose()?,
            post_to_slack: self.post_to_slack,
            slack_message_format: self.slack_message_format,
            steps: self.steps,
            pinned: self.pinned_at.nullable().map(|instant| instant.is_some()),
            deleted: self.deleted,
        })
    }
}

/// Checks what deserializing does not: size, patterns, selectors and filters.
fn check_steps(steps: &[ActionStep]) -> Result<()> {
    let bytes = serde_json::to_string(steps).map_or(usize::MAX, |text| text.len());
    let bound = if steps.len() > STEPS_MAX {
        format!("{STEPS_MAX} elements")
    } else if bytes > STEPS_BYTES_MAX {
        format!("{STEPS_BYTES_MAX} bytes")
    } else {
        return steps.iter().enumerate().try_for_each(|(index, step)| check_step(index, step));
    };
    let detail = format!("Ensure this field has no more than {bound}.");
    Err(Error::invalid("steps", "max_length", detail))
}

fn check_step(index: usize, step: &ActionStep) -> Result<()> {
    let check = |field: String, pattern: &str| {
        let attr = format!("steps__{index}__{field}");
        let refused = |why: query::Error| Error::invalid(attr, "invalid_input", why.to_string());
        query::check_pattern(pattern).map_err(|why| refused(why.into()))
    };
    for (name, text, matching) in [
        ("url", &step.url, step.url_matching),
        ("text", &step.text, step.text_matching),
        ("href", &step.href, step.href_matching),
    ] {
        if let (Some(text), Some(StringMatching::Regex)) = (text, matching) {
            check(name.to_owned(), text)?;
        }
    }
    if let Some(selector) = step.selector.as_deref().filter(|text| !text.is_empty()) {
        let attr = format!("steps__{index}__selector");
        model::elements::Selector::parse(selector)
            .map_err(|why| Error::invalid(attr, "invalid_input", why.0))?;
    }
    for (nth, filter) in step.properties.iter().flatten().enumerate() {
        let word = |name: &str| filter.get(name).and_then(Value::as_str);
        if let (Some("regex" | "not_regex"), Some(pattern)) = (word("operator"), word("value")) {
            check(format!("properties__{nth}__value"), pattern)?;
        }
        cohorts(index, nth, filter)?;
    }
    Ok(())
}

/// The cohorts that a filter refers to.
fn cohorts(index: usize, nth: usize, filter: &Map<String, Value>) -> Result<BTreeSet<CohortId>> {
    let attr = format!("steps__{index}__properties__{nth}");
    let refused = |why: query::Error| Error::invalid(attr, "invalid_input", why.to_string());
    query::check_property_filter(filter).map_err(refused)
}

/// New references to cohorts must exist. References that the action has already pass, so that a
/// client can send back what it read.
async fn check_cohorts(
    app: &AppState,
    project: ProjectId,
    before: &[ActionStep],
    steps: Option<&[ActionStep]>,
) -> Result<()> {
    let named = |steps: &[ActionStep]| {
        let mut named = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            for (nth, filter) in step.properties.iter().flatten().enumerate() {
                // Filters that older versions accepted may be invalid; they refer to no cohort.
                let ids = cohorts(index, nth, filter).unwrap_or_default();
                named.extend(ids.into_iter().map(|id| (index, nth, id)));
            }
        }
        named
    };
    let current = named(before);
    let mut new = named(steps.unwrap_or_default());
    new.retain(|(.., id)| current.iter().all(|(.., other)| other != id));
    if new.is_empty() {
        return Ok(());
    }
    let live = app.catalog.cohorts().live(project).await?;
    match new.iter().find(|(.., id)| live.iter().all(|(other, ..)| other != id)) {
        None => Ok(()),
        Some((index, nth, id)) => {
            let attr = format!("steps__{index}__properties__{nth}__value");
            Err(Error::invalid(attr, "does_not_exist", format!("There is no cohort {id}.")))
        }
    }
}
