//! Log in and log out of browser sessions.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use catalog::DUMMY_PASSWORD_HASH;
use model::UserId;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::auth::browser_session::{Client, SESSION_SECONDS};
use crate::auth::login_limits::{EMAIL_CHARS_MAX, Network, PASSWORD_CHARS_MAX};
use crate::http::body::max_chars;
use crate::http::openapi::{DescribeResponse, Operation};
use crate::{App, Body, Error, Result, Routes};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.post("/api/login", log_in).post("/api/logout", log_out)
}

#[derive(Deserialize, JsonSchema)]
struct LogIn {
    email: String,
    password: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct LoggedIn {
    success: bool,
}

async fn log_in(
    app: App,
    client: Client,
    network: Network,
    body: Body<LogIn>,
) -> Result<WithCookies<LoggedIn>> {
    client.check_log_in()?;
    let LogIn { email, password } = body.read()?;
    max_chars("email", &email, EMAIL_CHARS_MAX)?;
    max_chars("password", &password, PASSWORD_CHARS_MAX)?;
    let from = app.origin_of(network, &email).await?;
    let account = app.catalog.users().by_email(&email).await?.filter(|user| user.is_active);
    let hash = account.as_ref().and_then(|user| user.password_hash.clone());
    let hash = hash.unwrap_or_else(|| DUMMY_PASSWORD_HASH.into());
    let verified =
        app.login_limiter.check(&email, (password, hash), from, app.catalog.clock()).await?;
    let Some(user) = account.filter(|_| verified) else {
        return Err(Error::bad_request("Invalid email or password."));
    };
    start_session(&app, &client, network, user.user.id).await
}

/// Creates a session for an authenticated user and sets its cookies.
pub(super) async fn start_session(
    app: &App,
    client: &Client,
    network: Network,
    user: UserId,
) -> Result<WithCookies<LoggedIn>> {
    app.catalog.sessions().record_network(user, &network.to_string()).await?;
    let session = app.catalog.sessions().create(user, SESSION_SECONDS).await?;
    Ok(WithCookies { body: LoggedIn { success: true }, cookies: client.cookies(&session) })
}

/// Deletes the cookie's session, if there is one, and clears the cookies.
async fn log_out(app: App, client: Client) -> Result<WithCookies<LoggedIn>> {
    if let Some(session) = &client.session {
        client.check_write()?;
        app.catalog.sessions().delete(session).await?;
    }
    Ok(WithCookies { body: LoggedIn { success: true }, cookies: client.cleared() })
}

pub(super) struct WithCookies<T> {
    body: T,
    cookies: Vec<String>,
}

impl<T: Serialize> IntoResponse for WithCookies<T> {
    fn into_response(self) -> Response {
        let mut response = axum::Json(self.body).into_response();
        for cookie in self.cookies {
            if let Ok(value) = HeaderValue::from_str(&cookie) {
                response.headers_mut().append(header::SET_COOKIE, value);
            }
        }
        response
    }
}

impl<T: JsonSchema> DescribeResponse for WithCookies<T> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<T>(200, schemas);
    }
}
