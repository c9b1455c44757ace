//! The caller's own user; other users are out of reach.

use catalog::{NewEmail, NewPassword, PersonalKey, UserChange, UserRow};
use model::{
    LIMIT_MAX, MembershipLevel, OrganizationId, ProjectId, Timestamp, UserId, UserSchema,
    UserSettings, Window,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::accounts::organizations::{self, Organization};
use crate::accounts::projects::ProjectItem;
use crate::auth::caller::OnAccount;
use crate::auth::login_limits::{Network, PASSWORD_CHARS_MAX, check_email, check_password};
use crate::http::body::{WithSettings, max_chars, present};
use crate::{
    AccountReader, AccountWriter, App, AppState, Body, Error, IsPut, Json, Listing, Page, Resource,
    Result, Routes, StringId,
};

/// Upstream's documented length of a name.
pub(super) const NAME_CHARS_MAX: usize = 150;

enum Users {}

impl Resource for Users {
    const SCOPE: &'static str = "user";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.get("/api/users", list).get("/api/users/{id}", read).patch("/api/users/{id}", update)
}

/// The caller's user with its private fields.
#[derive(Serialize, JsonSchema)]
struct Me {
    id: UserId,
    uuid: Uuid,
    distinct_id: String,
    first_name: String,
    last_name: String,
    email: String,
    pending_email: Option<String>,
    is_email_verified: bool,
    date_joined: Timestamp,
    is_staff: bool,
    is_impersonated: bool,
    has_password: bool,
    is_2fa_enabled: bool,
    has_social_auth: bool,
    has_sso_enforcement: bool,
    #[schemars(with = "Vec<String>")]
    scene_personalisation: Vec<Value>,
    #[serde(flatten)]
    settings: UserSettings,
    team: Option<ProjectItem>,
    organization: Option<Organization>,
    organizations: Vec<OrganizationItem>,
}

#[derive(Serialize, JsonSchema)]
struct OrganizationItem {
    id: OrganizationId,
    name: String,
    slug: String,
    membership_level: MembershipLevel,
    #[schemars(with = "Option<String>")]
    logo_media_id: Value,
}

impl Me {
    async fn of(app: &AppState, row: UserRow) -> Result<Self> {
        let all = Window { limit: LIMIT_MAX, offset: 0 };
        let (mut rows, _) = app.catalog.organizations().of_user(row.user.id, None, all).await?;
        let organizations = rows
            .iter()
            .map(|(organization, level)| OrganizationItem {
                id: organization.id,
                name: organization.name.clone(),
                slug: organization.slug.clone(),
                membership_level: *level,
                logo_media_id: organization.settings.logo_media_id(),
            })
            .collect();
        let team = match row.current_project {
            Some(id) => accessible_project(app, row.user.id, id).await?,
            None => None,
        };
        // The current project and organization may be ones that the user has left.
        rows.retain(|(organization, _)| Some(organization.id) == row.current_organization);
        let team = team.filter(|project| {
            rows.iter().any(|(organization, _)| organization.id == project.organization)
        });
        let organization = organizations::with_projects(app, row.user.id, rows).await?.pop();
        Ok(Self {
            id: row.user.id,
            uuid: row.user.uuid,
            distinct_id: row.user.distinct_id,
            first_name: row.user.first_name,
            last_name: row.user.last_name,
            email: row.user.email,
            pending_email: None,
            is_email_verified: row.user.is_email_verified,
            date_joined: row.date_joined,
            is_staff: row.is_staff,
            is_impersonated: false,
            has_password: row.password_hash.is_some(),
            is_2fa_enabled: false,
            has_social_auth: false,
            has_sso_enforcement: false,
            scene_personalisation: Vec::new(),
            settings: row.settings,
            team: team.map(ProjectItem::from),
            organization,
            organizations,
        })
    }
}

/// The project, if it exists and the user may enter it.
async fn accessible_project(
    app: &AppState,
    user: UserId,
    id: ProjectId,
) -> Result<Option<catalog::ProjectRow>> {
    match app.catalog.projects().get(id).await {
        Ok(project) => {
            let standing = app.catalog.access().effective(user, id).await?;
            Ok(standing.map(|_| project))
        }
        Err(catalog::Error::NotFound) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

async fn list(caller: AccountReader<Users>, page: Page, app: App) -> Result<Listing<Me>> {
    let me = Me::of(&app, caller.user).await?;
    let shown = if page.window.offset == 0 { vec![me] } else { Vec::new() };
    Ok(page.listing(shown, 1))
}

async fn read(caller: AccountReader<Users>, id: StringId, app: App) -> Result<Json<Me>> {
    caller.check_self(&id)?;
    Me::of(&app, caller.user).await.map(Json)
}

#[derive(Deserialize, JsonSchema)]
struct UserFields {
    #[serde(default, deserialize_with = "present")]
    first_name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    last_name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    email: Option<String>,
    #[serde(default, deserialize_with = "present")]
    password: Option<String>,
    #[serde(default, deserialize_with = "present")]
    current_password: Option<String>,
    #[serde(default, deserialize_with = "present")]
    set_current_organization: Option<OrganizationId>,
    #[serde(default, deserialize_with = "present")]
    set_current_team: Option<ProjectId>,
}

async fn update(
    caller: AccountWriter<Users>,
    is_put: IsPut,
    id: StringId,
    network: Network,
    app: App,
    body: Body<WithSettings<UserFields, UserSchema>>,
) -> Result<Json<Me>> {
    caller.check_self(&id)?;
    caller.check_unlimited()?;
    let WithSettings { fields, settings } = body.read_with_settings()?;
    if is_put.0 && fields.first_name.is_none() {
        return Err(Error::required("first_name"));
    }
    if is_put.0 && fields.email.is_none() {
        return Err(Error::required("email"));
    }
    for (attr, name) in [("first_name", &fields.first_name), ("last_name", &fields.last_name)] {
        name.as_deref().map(|name| max_chars(attr, name, NAME_CHARS_MAX)).transpose()?;
    }
    let email = fields.email.as_deref().map(check_email).transpose()?;
    let email = email.filter(|email| *email != caller.user.user.email);
    let workplace = caller.new_workplace(&app, &fields).await?;
    if email.is_some() {
        caller.verify_password(&app, network, &fields, "your email address").await?;
    } else if fields.password.is_some() {
        caller.verify_password(&app, network, &fields, "your password").await?;
    }
    let password = caller.new_password(&app, &fields).await?;
    let change = UserChange {
        // There is no mail server to confirm an address; addresses of staff count as verified.
        email: email.map(|address| NewEmail { address, is_verified: caller.user.is_staff }),
        first_name: fields.first_name,
        last_name: fields.last_name,
        password,
        current_project: workplace,
        settings,
    };
    let row = app.catalog.users().update(caller.user.user.id, change).await?;
    Me::of(&app, row).await.map(Json)
}

impl<M> OnAccount<Users, M> {
    fn check_self(&self, id: &StringId) -> Result<()> {
        if id.0 == "@me" {
            return Ok(());
        }
        match Uuid::parse_str(&id.0) {
            Ok(uuid) if uuid == self.user.user.uuid => Ok(()),
            // The same response whether or not the user exists.
            Ok(_) => {
                Err(Error::forbidden("You are only allowed to access the `@me` user instance."))
            }
            Err(_) => Err(Error::not_found()),
        }
    }

    /// The organization and project to make current; the user must belong to both.
    async fn new_workplace(
        &self,
        app: &AppState,
        fields: &UserFields,
    ) -> Result<Option<(OrganizationId, Option<ProjectId>)>> {
        let unknown = |attr: &str, id: &dyn std::fmt::Display| {
            Error::invalid(attr, "does_not_exist", format!("Object with id {id} does not exist."))
        };
        let user = self.user.user.id;
        if let Some(id) = fields.set_current_organization
            && app.catalog.members().access(user, id).await?.is_none()
        {
            return Err(unknown("set_current_organization", &id));
        }
        let Some(id) = fields.set_current_team else {
            return Ok(fields.set_current_organization.map(|id| (id, None)));
        };
        let missing = || unknown("set_current_team", &id);
        let organization =
            accessible_project(app, user, id).await?.ok_or_else(missing)?.organization;
        if fields.set_current_organization.is_some_and(|other| other != organization) {
            return Err(missing());
        }
        Ok(Some((organization, Some(id))))
    }

    /// Rejects keys restricted to projects or organizations: they do not speak for the account.
    fn check_unlimited(&self) -> Result<()> {
        let limited =
            |key: &PersonalKey| key.scoped_teams.is_some() || key.scoped_organizations.is_some();
        if self.key.as_ref().is_some_and(limited) {
            return Err(Error::forbidden(
                "API keys with scoped projects or organizations cannot change the account.",
            ));
        }
        Ok(())
    }

    /// Requires the current password to change the password or e-mail address, whatever the
    /// credentials, under the same limits as log-in.
    async fn verify_password(
        &self,
        app: &AppState,
        network: Network,
        fields: &UserFields,
        changed: &str,
    ) -> Result<()> {
        let Some(hash) = self.user.password_hash.clone() else {
            let detail = "This account has no password. The operator sets one with `hedgerow \
                          admin reset-password`.";
            return Err(Error::forbidden(detail));
        };
        let Some(current) = fields.current_password.clone() else {
            let detail = format!("This field is required when updating {changed}.");
            return Err(Error::invalid("current_password", "required", detail));
        };
        max_chars("current_password", &current, PASSWORD_CHARS_MAX)?;
        let email = &self.user.user.email;
        let from = app.origin_of(network, email).await?;
        if !app.login_limiter.check(email, (current, hash), from, app.catalog.clock()).await? {
            let detail = "Your current password is incorrect.";
            return Err(Error::invalid("current_password", "incorrect_password", detail));
        }
        Ok(())
    }

    async fn new_password(
        &self,
        app: &AppState,
        fields: &UserFields,
    ) -> Result<Option<NewPassword>> {
        let Some(password) = fields.password.clone() else { return Ok(None) };
        check_password("password", &password)?;
        let hash = app.login_limiter.hash(password).await?;
        Ok(Some(NewPassword { hash, keep_session: self.session.clone() }))
    }
}
