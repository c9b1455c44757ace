//! Setup links: the first start of an instance, and accounts whose password is forgotten.
//!
//! The token in a link is the only credential, and works once. It stands in the fragment of the
//! link, which browsers send to no server and proxies do not log.

use catalog::{InstanceSetup, Member, NewSetupLink, Secret, Setup, SetupPurpose};
use model::{MembershipLevel, Timestamp, is_time_zone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accounts::session::{LoggedIn, WithCookies, start_session};
use crate::accounts::{organizations, projects, users};
use crate::auth::browser_session::Client;
use crate::auth::login_limits::{Network, check_email, check_password};
use crate::http::body::{max_chars, not_blank, present};
use crate::{App, Body, Created, Error, Json, OrganizationWriter, Result, Routes, StringId};

/// Ours: a token has 43 characters.
const TOKEN_CHARS_MAX: usize = 100;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/setup", read)
        .post("/api/setup", complete)
        .post("/api/organizations/{organization_id}/members/{id}/setup_link", create_for_member)
}

/// The path that a link leads to.
pub fn setup_path(link: &NewSetupLink) -> String {
    let page = match link.purpose {
        SetupPurpose::FirstStart => "/setup",
        SetupPurpose::Password => "/setup/password",
    };
    format!("{page}#{}", link.token.reveal())
}

#[derive(Serialize, JsonSchema)]
struct SetupStatus {
    /// Whether the first owner has yet to open the setup link that the server printed.
    needed: bool,
}

async fn read(app: App) -> Result<Json<SetupStatus>> {
    let needed = app.catalog.setup_links().is_first_start_pending().await?;
    Ok(Json(SetupStatus { needed }))
}

/// A link of the first start requires all fields; any other link takes token, password and name.
#[derive(Deserialize, JsonSchema)]
struct CompleteSetup {
    token: String,
    password: String,
    #[serde(default, deserialize_with = "present")]
    first_name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    email: Option<String>,
    /// The organization's name.
    #[serde(default, deserialize_with = "present")]
    organization: Option<String>,
    /// The project's name.
    #[serde(default, deserialize_with = "present")]
    project: Option<String>,
    #[serde(default, deserialize_with = "present")]
    timezone: Option<String>,
}

impl CompleteSetup {
    /// Trims and checks the fields that are present.
    fn check(&mut self) -> Result<()> {
        max_chars("token", &self.token, TOKEN_CHARS_MAX)?;
        if let Some(email) = &mut self.email {
            *email = check_email(email)?;
        }
        for (attr, name, chars_max) in [
            ("first_name", &mut self.first_name, users::NAME_CHARS_MAX),
            ("organization", &mut self.organization, organizations::NAME_CHARS_MAX),
            ("project", &mut self.project, projects::NAME_CHARS_MAX),
        ] {
            if let Some(name) = name {
                *name = name.trim().to_owned();
                not_blank(attr, name)?;
                max_chars(attr, name, chars_max)?;
            }
        }
        if let Some(zone) = self.timezone.as_deref().filter(|zone| !is_time_zone(zone)) {
            return Err(Error::invalid_choice("timezone", zone));
        }
        check_password("password", &self.password)
    }

    /// The fields that only a link of the first start takes.
    fn instance(&mut self, purpose: SetupPurpose) -> Result<Option<InstanceSetup>> {
        let fields = [
            ("email", self.email.take()),
            ("organization", self.organization.take()),
            ("project", self.project.take()),
            ("timezone", self.timezone.take()),
        ];
        if purpose == SetupPurpose::Password {
            return match fields.into_iter().find(|(_, value)| value.is_some()) {
                Some((attr, _)) => {
                    let detail = "This link sets a password only.";
                    Err(Error::invalid(attr, "invalid_input", detail))
                }
                None => Ok(None),
            };
        }
        if self.first_name.is_none() {
            return Err(Error::required("first_name"));
        }
        let [email, organization, project, timezone] =
            fields.map(|(attr, value)| value.ok_or_else(|| Error::required(attr)));
        Ok(Some(InstanceSetup {
            email: email?,
            organization: organization?,
            project: project?,
            timezone: timezone?,
        }))
    }
}

/// Sets the password, names the instance on its first start, and logs in.
async fn complete(
    app: App,
    client: Client,
    network: Network,
    body: Body<CompleteSetup>,
) -> Result<WithCookies<LoggedIn>> {
    client.check_log_in()?;
    let mut body = body.read()?;
    body.check()?;
    let token = Secret::given(std::mem::take(&mut body.token));
    let attempt = app.login_limiter.attempt_link(network, app.catalog.clock().now())?;
    let link = app.catalog.setup_links().find(&token).await?.ok_or_else(invalid_link)?;
    attempt.succeeded();
    let instance = body.instance(link.purpose)?;
    let password_hash = app.login_limiter.hash(body.password).await?;
    let setup = Setup { password_hash, first_name: body.first_name, instance };
    let completed = app.catalog.setup_links().complete(&token, setup).await?;
    start_session(&app, &client, network, completed.ok_or_else(invalid_link)?).await
}

fn invalid_link() -> Error {
    let detail = "This setup link is not valid any more: it was used or replaced, or is older than \
                  24 hours. `hedgerow admin setup-link` prints a new one.";
    Error::invalid("token", "invalid_input", detail)
}

#[derive(Serialize, JsonSchema)]
struct SetupLinkItem {
    /// To append to the server's address. Shown only now; the member's earlier link ends.
    path: String,
    expires_at: Timestamp,
}

async fn create_for_member(
    caller: OrganizationWriter<Member>,
    id: StringId,
    app: App,
) -> Result<Created<SetupLinkItem>> {
    caller.require(MembershipLevel::Admin)?;
    let user = caller.member_id(&id)?;
    let link = app.catalog.setup_links().create_for_member(&caller.actor(), user).await?;
    Ok(Created(SetupLinkItem { path: setup_path(&link), expires_at: link.expires_at }))
}
