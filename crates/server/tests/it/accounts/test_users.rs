//! Helpers: add users, log in, create keys.

use catalog::{Catalog, Location, Secret, Vault};
use model::Clock;
use serde_json::{Value, json};

use crate::harness::{Request, Response, Server};

pub const PASSWORD: &str = "mild steel teapot";
pub const MEMBERS: &str = "/api/organizations/@current/members/";

/// A browser session.
pub struct Browser<'a> {
    server: &'a Server,
    cookies: String,
    csrf: String,
}

/// Adds a member to the administrator's organization; returns the user's uuid.
#[track_caller]
pub fn add(server: &Server, email: &str, level: i64) -> String {
    let body = json!({ "email": email, "first_name": "P", "password": PASSWORD, "level": level });
    let made = server.post(MEMBERS, body).expect(201).json();
    made["user"]["uuid"].as_str().unwrap().to_owned()
}

pub fn try_log_in(server: &Server, email: &str, password: &str) -> Response {
    let body = json!({ "email": email, "password": password });
    server.call("POST", "/api/login").no_key().json(body).send()
}

#[track_caller]
pub fn log_in<'a>(server: &'a Server, email: &str, password: &str) -> Browser<'a> {
    let response = try_log_in(server, email, password).expect(200);
    let (session, csrf) =
        (cookie(&response, "hedgerow_session"), cookie(&response, "hedgerow_csrf"));
    Browser {
        server,
        cookies: format!("other=1; hedgerow_session={session}; hedgerow_csrf={csrf}"),
        csrf,
    }
}

/// The API cannot deactivate users, so this writes to the catalog.
pub fn set_active(server: &Server, email: &str, active: bool) {
    let set = |name: &str| {
        let known = server.instance().environment.iter().find(|(known, _)| known == name);
        known.map(|(_, value)| value.clone())
    };
    let (url, file) = (set("HEDGEROW_CATALOG_URL"), server.file("catalog.sqlite"));
    let location = url.as_deref().map_or(Location::Sqlite(&file), Location::Postgres);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let key = std::fs::read_to_string(server.file("secret.key")).unwrap();
        let vault = Vault::new(&Secret::given(key.trim()));
        let catalog = Catalog::join(location, vault, Clock::system()).await.unwrap();
        let user = catalog.users().by_email(email).await.unwrap().unwrap();
        catalog.users().set_active(user.user.id, active).await.unwrap();
        catalog.close().await;
    });
}

/// An organization of another user, which the administrator who created it
/// has left.
#[track_caller]
pub fn organization_of(server: &Server, email: &str, name: &str) -> Value {
    let made = server.post("/api/organizations/", json!({ "name": name })).expect(201).json();
    let members = format!("/api/organizations/{}/members/", made["id"].as_str().unwrap());
    server.post(&members, json!({ "email": email, "level": 15 })).expect(201);
    server.delete(&format!("{members}@me")).expect(204);
    made
}

/// A key of a user added with [`add`].
#[track_caller]
pub fn key_of(server: &Server, email: &str, scopes: &[&str]) -> String {
    let body = json!({ "label": "test", "scopes": scopes });
    let browser = log_in(server, email, PASSWORD);
    let made = browser.write("POST", "/api/personal_api_keys/", body).expect(201).json();
    made["value"].as_str().unwrap().to_owned()
}

#[track_caller]
pub fn cookie(response: &Response, name: &str) -> String {
    let line = set_cookie(response, name);
    let value = line.split(';').next().unwrap().split_once('=').unwrap().1;
    value.to_owned()
}

/// The `Set-Cookie` header of one cookie.
#[track_caller]
pub fn set_cookie<'a>(response: &'a Response, name: &str) -> &'a str {
    let lines = response.headers.iter().filter(|(header, _)| header == "set-cookie");
    let mut named = lines.filter(|(_, line)| line.starts_with(&format!("{name}=")));
    &named.next().unwrap_or_else(|| panic!("no cookie {name}")).1
}

impl Browser<'_> {
    /// A request with cookies only.
    pub fn call(&self, method: &str, path: &str) -> Request {
        self.server.call(method, path).no_key().header("Cookie", &self.cookies)
    }

    pub fn get(&self, path: &str) -> Response {
        self.call("GET", path).send()
    }

    /// A request as our own pages send it.
    pub fn write(&self, method: &str, path: &str, body: Value) -> Response {
        self.with_token(method, path).json(body).send()
    }

    pub fn with_token(&self, method: &str, path: &str) -> Request {
        self.call(method, path).header("X-CSRFToken", &self.csrf)
    }
}
