//! Personal API keys of the caller.

use catalog::{KeyChange, NewKey, PersonalKey};
use model::scope::Scopes;
use model::{OrganizationId, ProjectId, Window};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::body::{max_chars, not_blank, present};
use crate::{
    AccountReader, AccountWriter, App, Body, Created, Error, Found, Gone, Patch, Resource, Result,
    Routes, TextId, Whole,
};

/// Upstream's documented length of a label.
const LABEL_CHARS_MAX: usize = 40;

enum Keys {}

impl Resource for Keys {
    const SCOPE: &'static str = "user";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/personal_api_keys", list)
        .post("/api/personal_api_keys", create)
        .get("/api/personal_api_keys/{id}", read)
        .patch("/api/personal_api_keys/{id}", update)
        .delete("/api/personal_api_keys/{id}", destroy)
        .post("/api/personal_api_keys/{id}/roll", roll)
}

async fn list(caller: AccountReader<Keys>, app: App) -> Result<Found<Vec<PersonalKey>>> {
    Ok(Found(app.catalog.keys(caller.user.user.id).await?))
}

#[derive(Deserialize, JsonSchema)]
struct CreateKey {
    label: String,
    scopes: Vec<String>,
    #[serde(default)]
    scoped_teams: Option<Vec<ProjectId>>,
    #[serde(default)]
    scoped_organizations: Option<Vec<OrganizationId>>,
}

async fn create(
    caller: AccountWriter<Keys>,
    app: App,
    body: Body<CreateKey>,
) -> Result<Created<PersonalKey>> {
    let body = body.read()?;
    check_label(&body.label)?;
    let scopes = scopes(body.scopes)?;
    caller
        .check_reach(&app, body.scoped_teams.as_ref(), body.scoped_organizations.as_ref())
        .await?;
    caller.check_grant(&scopes)?;
    let new = NewKey {
        label: body.label,
        scopes,
        scoped_teams: body.scoped_teams,
        scoped_organizations: body.scoped_organizations,
    };
    Ok(Created(app.catalog.create_key(&caller.actor()?, caller.user.user.id, new).await?))
}

async fn read(caller: AccountReader<Keys>, id: TextId, app: App) -> Result<Found<PersonalKey>> {
    let id = caller.key_id(&id)?;
    Ok(Found(app.catalog.key(caller.user.user.id, &id).await?))
}

#[derive(Deserialize, JsonSchema)]
struct UpdateKey {
    #[serde(default, deserialize_with = "present")]
    label: Option<String>,
    #[serde(default, deserialize_with = "present")]
    scopes: Option<Vec<String>>,
    #[serde(default)]
    scoped_teams: Patch<Vec<ProjectId>>,
    #[serde(default)]
    scoped_organizations: Patch<Vec<OrganizationId>>,
}

async fn update(
    caller: AccountWriter<Keys>,
    whole: Whole,
    id: TextId,
    app: App,
    body: Body<UpdateKey>,
) -> Result<Found<PersonalKey>> {
    let owner = caller.user.user.id;
    let id = app.catalog.key(owner, &caller.key_id(&id)?).await?.id;
    let body = body.read()?;
    if whole.0 && body.label.is_none() {
        return Err(Error::required("label"));
    }
    if whole.0 && body.scopes.is_none() {
        return Err(Error::required("scopes"));
    }
    body.label.as_deref().map(check_label).transpose()?;
    let scopes = body.scopes.map(scopes).transpose()?;
    let (teams, organizations) =
        (body.scoped_teams.nullable(), body.scoped_organizations.nullable());
    let reach =
        (teams.as_ref().and_then(Option::as_ref), organizations.as_ref().and_then(Option::as_ref));
    caller.check_reach(&app, reach.0, reach.1).await?;
    scopes.as_ref().map(|scopes| caller.check_grant(scopes)).transpose()?;
    let change = KeyChange {
        label: body.label,
        scopes,
        scoped_teams: teams,
        scoped_organizations: organizations,
    };
    Ok(Found(app.catalog.update_key(&caller.actor()?, owner, &id, change).await?))
}

async fn roll(caller: AccountWriter<Keys>, id: TextId, app: App) -> Result<Found<PersonalKey>> {
    let id = caller.key_id(&id)?;
    Ok(Found(app.catalog.roll_key(&caller.actor()?, caller.user.user.id, &id).await?))
}

async fn destroy(caller: AccountWriter<Keys>, id: TextId, app: App) -> Result<Gone> {
    let id = caller.key_id(&id)?;
    app.catalog.delete_key(&caller.actor()?, caller.user.user.id, &id).await?;
    Ok(Gone)
}

impl<M> crate::caller::OnAccount<Keys, M> {
    /// `@current` is the key of this very call.
    fn key_id(&self, id: &TextId) -> Result<String> {
        match (id.0.as_str(), &self.key) {
            ("@current", Some(key)) => Ok(key.id.clone()),
            ("@current", None) => Err(Error::not_found()),
            (id, _) => Ok(id.to_owned()),
        }
    }

    /// A key may reach only where its owner belongs.
    async fn check_reach(
        &self,
        app: &App,
        teams: Option<&Vec<ProjectId>>,
        organizations: Option<&Vec<OrganizationId>>,
    ) -> Result<()> {
        let everything = Window { limit: i64::MAX, offset: 0 };
        let user = self.user.user.id;
        if let Some(teams) = teams {
            let (known, _) = app.catalog.projects_of(user, None, everything).await?;
            if !teams.iter().all(|team| known.iter().any(|project| project.id == *team)) {
                let detail =
                    "You must be a member of all projects that you are scoping the key to.";
                return Err(Error::invalid("scoped_teams", "invalid_input", detail));
            }
        }
        if let Some(organizations) = organizations {
            let (known, _) = app.catalog.organizations_of(user, everything).await?;
            if !organizations.iter().all(|id| known.iter().any(|(known, _)| known.id == *id)) {
                let detail =
                    "You must be a member of all organizations that you are scoping the key to.";
                return Err(Error::invalid("scoped_organizations", "invalid_input", detail));
            }
        }
        Ok(())
    }

    /// A key cannot make one that may do more than itself.
    fn check_grant(&self, wanted: &Scopes) -> Result<()> {
        let Some(own) = &self.key else { return Ok(()) };
        match wanted.beyond(&own.scopes) {
            Some(scope) => {
                Err(Error::forbidden(format!("API key missing required scope '{scope}'")))
            }
            None => Ok(()),
        }
    }
}

fn check_label(label: &str) -> Result<()> {
    not_blank("label", label)?;
    max_chars("label", label, LABEL_CHARS_MAX)
}

fn scopes(words: Vec<String>) -> Result<Scopes> {
    Scopes::parse(words).map_err(|why| Error::invalid("scopes", "invalid_input", why.to_string()))
}
