//! Finds the token of a request and resolves it to a project.

use std::borrow::Cow;
use std::pin::Pin;

use decode::{Element, Payload, ProjectField};
use model::ProjectId;

use crate::limits::TOKEN_BYTES_MAX;
use crate::outcome::Rejection;

pub type LookupFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Resolves tokens to projects. Implementations should serve cached tokens while the catalog is
/// unavailable.
pub trait TokenLookup: Send + Sync {
    fn project_of<'a>(&'a self, token: &'a str) -> LookupFuture<'a, TokenOwner>;

    /// `project` is the `project_id` of the body, if any.
    fn project_of_personal_key<'a>(
        &'a self,
        key: &'a str,
        project: Option<ProjectId>,
    ) -> LookupFuture<'a, KeyOwner>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOwner {
    Known(ProjectId),
    Unknown,
    Unavailable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    Known(ProjectId),
    UnknownKey,
    /// The key is valid, but the project is missing or not accessible with it.
    UnknownProject,
    Unavailable,
}

/// Trims the token; `None` if it is empty, too long or not ASCII.
pub(crate) fn normalize_token(token: &str) -> Option<&str> {
    let token = token.trim();
    let valid = !token.is_empty()
        && token.len() <= TOKEN_BYTES_MAX
        && token.bytes().all(|byte| byte.is_ascii() && byte != 0);
    valid.then_some(token)
}

pub(crate) async fn authenticate(
    tokens: &dyn TokenLookup,
    payload: &Payload<'_>,
) -> Result<ProjectId, Rejection> {
    let (token, project) = find_token(payload)?;
    let invalid = Rejection::InvalidApiKey {
        detail: "Project API key invalid. You can find your project API key in project settings.",
    };
    let Some(token) = normalize_token(&token) else { return Err(invalid) };
    if token.starts_with("phx_") {
        let project = match project {
            ProjectField::Given(id) => Some(ProjectId(id)),
            ProjectField::Absent | ProjectField::NotAnInteger => None,
        };
        return match tokens.project_of_personal_key(token, project).await {
            KeyOwner::Known(project) => Ok(project),
            KeyOwner::UnknownKey => Err(Rejection::InvalidPersonalApiKey),
            KeyOwner::UnknownProject => Err(Rejection::InvalidProject),
            KeyOwner::Unavailable => Err(Rejection::LookupUnavailable),
        };
    }
    match tokens.project_of(token).await {
        TokenOwner::Known(project) => Ok(project),
        TokenOwner::Unknown => Err(invalid),
        TokenOwner::Unavailable => Err(Rejection::LookupUnavailable),
    }
}

/// The token of the batch, else the one that all its events share, else that of the form or query.
fn find_token<'t>(payload: &Payload<'t>) -> Result<(Cow<'t, str>, ProjectField), Rejection> {
    if let Some(token) = &payload.token {
        return Ok((token.clone(), payload.project_id));
    }
    let mut event_token: Option<Cow<'t, str>> = None;
    let mut elements = payload.elements();
    for element in elements.by_ref() {
        let Element::Event(event) = element? else { continue };
        let Some(token) = event.token.filter(|token| !token.trim().is_empty()) else { continue };
        match &event_token {
            Some(first) if first.trim() != token.trim() => {
                return Err(Rejection::InvalidApiKey {
                    detail: "The events carry different project API keys.",
                });
            }
            Some(_) => {}
            None => event_token = Some(token),
        }
    }
    let project = match payload.project_id {
        ProjectField::Absent => elements.project_id(),
        given => given,
    };
    match event_token.or(payload.fallback_token.map(Cow::Borrowed)) {
        Some(token) => Ok((token, project)),
        None => Err(Rejection::InvalidApiKey {
            detail: "API key not provided. Send it as api_key in the request body.",
        }),
    }
}
