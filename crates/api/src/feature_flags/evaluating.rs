//! Flag evaluation for management: values, reasons and explanations for one person.

use std::collections::{BTreeMap, HashSet};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use catalog::ProjectRow;
use flags::{
    Context, EvaluationRequest, FlagResult, FlagSet, ProjectFlags, RecordedSteps, Selection, Step,
};
use model::flag::FlagDefinition;
use model::{FlagId, ObjectKind};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::definitions::unavailable;
use super::drafts::Draft;
use super::{FlagFields, Flags, visible_flag};
use crate::http::openapi::{DescribeRequest, Operation};
use crate::sdk::evaluation::response::FlagValue;
use crate::{App, AppState, Body, Error, Id, Json, Reader, RequestUrl, Result, Routes, Writer};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/feature_flags/evaluation_reasons", evaluation_reasons)
        .get("/api/projects/{project_id}/feature_flags/my_flags", my_flags)
        .post("/api/projects/{project_id}/feature_flags/explain", explain_new)
        .get("/api/projects/{project_id}/feature_flags/{id}/explain", explain)
        .post("/api/projects/{project_id}/feature_flags/{id}/explain", explain_change)
}

#[derive(Serialize, JsonSchema)]
struct Evaluation {
    reason: String,
    condition_index: Option<usize>,
    description: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlagEvaluation")]
struct Evaluated {
    value: FlagValue<'static>,
    evaluation: Evaluation,
}

impl Evaluated {
    fn of(answer: &FlagResult<'_>) -> Self {
        let evaluation = match answer.failure {
            Some(failure) => Evaluation {
                reason: failure.as_str().into(),
                condition_index: None,
                description: "The flag could not be evaluated".into(),
            },
            None => Evaluation {
                reason: answer.reason.code.as_str().into(),
                condition_index: answer.reason.condition_index,
                description: answer.reason.description().into_owned(),
            },
        };
        Self { value: FlagValue::of(answer).into_owned(), evaluation }
    }

    fn disabled() -> Self {
        let evaluation = Evaluation {
            reason: "disabled".into(),
            condition_index: None,
            description: "Feature flag is disabled".into(),
        };
        Self { value: FlagValue::Boolean(false), evaluation }
    }
}

/// The person, groups and flags to evaluate.
struct EvaluationQuery {
    distinct_id: Option<String>,
    groups: Vec<(String, String)>,
    keys: Option<Vec<String>>,
}

impl EvaluationQuery {
    fn request(self, distinct_id: String) -> EvaluationRequest {
        let selection = Selection { keys: self.keys, ..Selection::default() };
        EvaluationRequest {
            distinct_id,
            groups: self.groups,
            selection,
            ..EvaluationRequest::default()
        }
    }

    fn names(&self, key: &str) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.iter().any(|known| known == key))
    }

    fn distinct_id(&self) -> Result<String> {
        self.distinct_id.clone().ok_or_else(|| Error::required("distinct_id"))
    }
}

impl FromRequestParts<AppState> for EvaluationQuery {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let url = RequestUrl::of(parts);
        let groups = match url.value("groups") {
            None => Map::new(),
            Some(text) => serde_json::from_str(text)
                .map_err(|_| Error::invalid("groups", "invalid_input", "Must be a JSON object."))?,
        };
        let text = |value: Value| match value {
            Value::String(key) => Some(key),
            Value::Number(key) => Some(key.to_string()),
            _ => None,
        };
        let keys: Vec<String> = url
            .values("flag_keys")
            .flat_map(|sent| serde_json::from_str(sent).unwrap_or_else(|_| vec![sent.to_owned()]))
            .collect();
        Ok(Self {
            distinct_id: url.value("distinct_id").map(|id| id.replace('\0', "\u{fffd}")),
            groups: groups
                .into_iter()
                .filter_map(|(kind, key)| Some((kind, text(key)?.replace('\0', "\u{fffd}"))))
                .collect(),
            keys: Some(keys).filter(|keys| !keys.is_empty()),
        })
    }
}

impl DescribeRequest for EvaluationQuery {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        for name in ["distinct_id", "groups", "flag_keys"] {
            operation.query_parameter(name, json!({ "type": "string" }));
        }
    }
}

/// The flags visible to the caller; none if access rules hide no flag.
async fn visible_flags(app: &App, caller: &Reader<Flags>) -> Result<Option<HashSet<FlagId>>> {
    let visibility = caller.visibility(ObjectKind::FeatureFlag);
    Ok(app.catalog.flags().visible_ids(caller.project.id, &visibility).await?)
}

async fn evaluation_reasons(
    caller: Reader<Flags>,
    query: EvaluationQuery,
    app: App,
) -> Result<Json<BTreeMap<String, Evaluated>>> {
    let distinct_id = query.distinct_id()?;
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    let mut shown: BTreeMap<String, Evaluated> = flags
        .definitions()
        .iter()
        .filter(|flag| !flag.active && query.names(&flag.key))
        .map(|flag| (flag.key.clone(), Evaluated::disabled()))
        .collect();
    let request = query.request(distinct_id);
    let evaluated = app.flags.with_context(&caller.project, request, |set, context, selection| {
        let answers = set.evaluate(context, selection);
        answers
            .results
            .iter()
            .map(|answer| (answer.flag.key.clone(), Evaluated::of(answer)))
            .collect::<Vec<_>>()
    });
    shown.extend(evaluated.await.map_err(unavailable)?);
    if let Some(visible_ids) = visible_flags(&app, &caller).await? {
        let visible = flags.definitions().iter().filter(|flag| visible_ids.contains(&flag.id));
        let visible: HashSet<&str> = visible.map(|flag| flag.key.as_str()).collect();
        shown.retain(|key, _| visible.contains(key.as_str()));
    }
    Ok(Json(shown))
}

#[derive(Serialize, JsonSchema)]
struct MyFlag {
    feature_flag: FlagDefinition,
    value: FlagValue<'static>,
}

/// Every live flag, newest first, with its value for the caller.
async fn my_flags(
    caller: Reader<Flags>,
    query: EvaluationQuery,
    app: App,
) -> Result<Json<Vec<MyFlag>>> {
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    let mut definitions: Vec<FlagDefinition> =
        flags.definitions().iter().filter(|flag| query.names(&flag.key)).cloned().collect();
    if let Some(visible_ids) = visible_flags(&app, &caller).await? {
        definitions.retain(|flag| visible_ids.contains(&flag.id));
    }
    definitions.sort_by_key(|flag| std::cmp::Reverse(flag.id));
    let request = query.request(caller.user.user.distinct_id.clone());
    let values = app.flags.with_context(&caller.project, request, |set, context, selection| {
        let answers = set.evaluate(context, selection);
        let values = answers.results.iter();
        values
            .map(|answer| (answer.flag.key.clone(), FlagValue::of(answer).into_owned()))
            .collect::<BTreeMap<_, _>>()
    });
    let mut values = values.await.map_err(unavailable)?;
    let shown = definitions.into_iter().map(|feature_flag| MyFlag {
        value: values.remove(&feature_flag.key).unwrap_or(FlagValue::Boolean(false)),
        feature_flag,
    });
    Ok(Json(shown.collect()))
}

#[derive(Serialize, JsonSchema)]
struct Explanation {
    key: String,
    #[serde(flatten)]
    answer: Evaluated,
    /// Every comparison and every hash, in the order of evaluation.
    steps: Vec<Step>,
}

/// Explains a flag's value for one person, step by step.
async fn explain(
    caller: Reader<Flags>,
    id: Id,
    query: EvaluationQuery,
    app: App,
) -> Result<Json<Explanation>> {
    let (flag, _) = visible_flag(&app, &caller, id).await?;
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    explanation(&app, &caller.project, &flags, flag.key, query).await
}

/// Explains the value after a PATCH with the same body, without storing it.
async fn explain_change(
    caller: Writer<Flags>,
    id: Id,
    query: EvaluationQuery,
    app: App,
    body: Body<FlagFields>,
) -> Result<Json<Explanation>> {
    // A draft may compare any property, whose value the explanation shows.
    caller.may_read("person")?;
    let draft = Draft::of_change(&app, &caller, id, &body).await?;
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    let flags = draft.among(&flags);
    explanation(&app, &caller.project, &flags, draft.flag.key, query).await
}

/// Explains the value of a flag that does not exist yet.
async fn explain_new(
    caller: Writer<Flags>,
    query: EvaluationQuery,
    app: App,
    body: Body<FlagFields>,
) -> Result<Json<Explanation>> {
    caller.may_read("person")?;
    let draft = Draft::of_new(&app, &caller, &body).await?;
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    let flags = draft.among(&flags);
    explanation(&app, &caller.project, &flags, draft.flag.key, query).await
}

async fn explanation(
    app: &App,
    project: &ProjectRow,
    flags: &ProjectFlags,
    key: String,
    query: EvaluationQuery,
) -> Result<Json<Explanation>> {
    let distinct_id = query.distinct_id()?;
    let mut request = query.request(distinct_id);
    request.selection.keys = Some(vec![key.clone()]);
    let explain = |set: &FlagSet, context: &Context<'_>, selection: &Selection| {
        let mut steps = RecordedSteps::default();
        let answers = set.evaluate_with(context, selection, &mut steps);
        let answer = answers.results.iter().find(|answer| answer.flag.key == key);
        (answer.map_or_else(Evaluated::disabled, Evaluated::of), steps.into_steps())
    };
    let (answer, steps) = app.flags.with_context_of(project, flags, request, explain).await;
    Ok(Json(Explanation { key, answer, steps }))
}
