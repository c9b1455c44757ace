//! One of the two APIs: requests with a personal API key, repeated where that is safe.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Request, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::{Error, Result};

/// Of one answer. A dashboard carries the results of its insights.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Of an error that is shown.
const DETAIL_CHARS_MAX: usize = 500;
/// About a minute of waiting in all, more if the server asks for it.
const ATTEMPTS_MAX: u32 = 8;
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// PostHog's rate limits are counted by the minute and by the hour.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Of all pages of a list.
const LIST_BYTES_MAX: u64 = 1 << 30;
/// In one list.
const OBJECTS_MAX: usize = 100_000;
/// A list ends after so many pages, of at least ten objects each.
const PAGES_MAX: usize = 10_000;

/// Tells the user what happens.
pub type Progress<'p> = &'p dyn Fn(&str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    /// Repeated after a lost answer.
    Patch,
    /// Not repeated after a lost answer, since the object may exist: [`Error::Lost`].
    Post,
    /// A PATCH that adds something: as `Post`.
    PatchOnce,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Patch | Self::PatchOnce => "PATCH",
            Self::Post => "POST",
        }
    }
}

#[derive(Clone, Copy)]
pub enum Content<'c> {
    None,
    Json(&'c Value),
    Form { boundary: &'c str, bytes: &'c [u8] },
}

pub struct Site<'p> {
    agent: Agent,
    /// Scheme, host and port.
    base: String,
    /// Never shown: neither errors nor progress contain headers.
    key: Option<String>,
    progress: Progress<'p>,
    /// Bytes of answers so far.
    received: Cell<u64>,
}

enum Attempt {
    Done(Value),
    /// The server has not acted on the request.
    Refused(Failure, Option<Duration>),
    /// It may have.
    Unknown(Failure),
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Status(u16),
    Connection(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(to, "status {status}"),
            Self::Connection(why) => to.write_str(why),
        }
    }
}

impl<'p> Site<'p> {
    /// `key` is none for endpoints that take a project token.
    pub fn new(base: &str, key: Option<&str>, progress: Progress<'p>) -> Result<Self> {
        let base = base.trim_end_matches('/');
        let host = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
        if !host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' '])) {
            return Err(Error::Address(base.to_owned()));
        }
        if key.is_some_and(|key| key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(Error::Key);
        }
        let key = key.map(str::to_owned);
        Ok(Self {
            agent: agent(base)?,
            base: base.to_owned(),
            key,
            progress,
            received: Cell::new(0),
        })
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::Get, path, Content::None)
    }

    pub fn send(&self, method: Method, path: &str, content: Content<'_>) -> Result<Value> {
        let mut backoff = BACKOFF_FIRST;
        for attempt in 1.. {
            let (why, after) = match self.attempt(method, path, content)? {
                Attempt::Done(answer) => return Ok(answer),
                Attempt::Refused(why, after) => (why, after),
                Attempt::Unknown(why) if matches!(method, Method::Post | Method::PatchOnce) => {
                    thread::sleep(backoff);
                    return Err(Error::Lost { url: self.url(path), why });
                }
                Attempt::Unknown(why) => (why, None),
            };
            if attempt == ATTEMPTS_MAX {
                return Err(Error::Unavailable { url: self.url(path), why });
            }
            let wait = after.unwrap_or(backoff).min(RETRY_AFTER_MAX);
            (self.progress)(&format!("{}: {why}; next attempt in {wait:?}", self.base));
            thread::sleep(wait);
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
        unreachable!("the loop ends at its last attempt")
    }

    /// The objects of a list, which may have pages, as `kept` returns them. `seen` is told how many there
    /// are so far.
    pub fn list(
        &self,
        path: &str,
        kept: impl Fn(Value) -> Option<Value>,
        seen: impl Fn(usize),
    ) -> Result<Vec<Value>> {
        let (mut objects, before) = (Vec::new(), self.received.get());
        self.pages(path, |page| {
            objects.extend(page.into_iter().filter_map(&kept));
            seen(objects.len());
            match self.received.get() - before > LIST_BYTES_MAX || objects.len() > OBJECTS_MAX {
                true => Err(Error::TooLarge { url: self.url(path) }),
                false => Ok(()),
            }
        })?;
        Ok(objects)
    }

    /// Calls `each` with every page of a list.
    pub fn pages(&self, path: &str, mut each: impl FnMut(Vec<Value>) -> Result<()>) -> Result<()> {
        let mut path = path.to_owned();
        for _ in 0..PAGES_MAX {
            let page = self.get(&path)?;
            let (objects, next) = match page {
                Value::Array(objects) => (objects, None),
                Value::Object(mut fields) => {
                    let next = fields.get("next").and_then(Value::as_str).map(str::to_owned);
                    match fields.remove("results") {
                        Some(Value::Array(objects)) => (objects, next),
                        _ => return Err(Error::NoList { url: self.url(&path) }),
                    }
                }
                _ => return Err(Error::NoList { url: self.url(&path) }),
            };
            let is_empty = objects.is_empty();
            each(objects)?;
            match next.as_deref().and_then(path_of).filter(|next| *next != path && !is_empty) {
                Some(next) => path = next.to_owned(),
                None => return Ok(()),
            }
        }
        Err(Error::NoList { url: self.url(&path) })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn attempt(&self, method: Method, path: &str, content: Content<'_>) -> Result<Attempt> {
        let url = self.url(path);
        let mut request = Request::builder().method(method.name()).uri(&url);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let (kind, bytes) = match content {
            Content::None => (String::new(), Vec::new()),
            Content::Json(value) => ("application/json".into(), value.to_string().into_bytes()),
            Content::Form { boundary, bytes } => {
                (format!("multipart/form-data; boundary={boundary}"), bytes.to_vec())
            }
        };
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        let sent = match (method, request.body(bytes)) {
            (_, Err(_)) => return Err(Error::Address(url)),
            (Method::Get, Ok(request)) => self.agent.run(request.map(|_| ())),
            (_, Ok(request)) => self.agent.run(request),
        };
        match sent {
            Ok(response) => self.answer(&url, response),
            // Nothing was sent.
            Err(why @ (ureq::Error::ConnectionFailed | ureq::Error::HostNotFound)) => {
                Ok(Attempt::Refused(Failure::Connection(why.to_string()), None))
            }
            Err(ureq::Error::Tls(why)) => Err(Error::Untrusted { url, why: why.into() }),
            Err(ureq::Error::Rustls(why)) => Err(Error::Untrusted { url, why: why.to_string() }),
            Err(why) => Ok(Attempt::Unknown(Failure::Connection(why.to_string()))),
        }
    }

    fn answer(&self, url: &str, mut response: Response<Body>) -> Result<Attempt> {
        let status = response.status();
        let header =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after = header("retry-after")
            .and_then(|text| text.trim().parse().ok())
            .map(Duration::from_secs);
        let location = header("location").map(str::to_owned);
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = match body {
            Ok(body) => body,
            Err(ureq::Error::BodyExceedsLimit(_)) => {
                return Err(Error::TooLarge { url: url.to_owned() });
            }
            Err(why) => return Ok(Attempt::Unknown(Failure::Connection(why.to_string()))),
        };
        self.received.set(self.received.get() + body.len() as u64);
        let code = status.as_u16();
        if status.is_success() {
            if body.is_empty() {
                return Ok(Attempt::Done(Value::Null));
            }
            let parsed = serde_json::from_slice(&body);
            return parsed.map(Attempt::Done).map_err(|_| Error::NoJson { url: url.to_owned() });
        }
        if let (true, Some(location)) = (status.is_redirection(), location) {
            return Err(Error::Redirected { url: url.to_owned(), location: printable(&location) });
        }
        Ok(match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Attempt::Refused(Failure::Status(code), retry_after)
            }
            _ if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                Attempt::Unknown(Failure::Status(code))
            }
            _ => {
                return Err(Error::Status {
                    url: url.to_owned(),
                    status: code,
                    detail: detail(&body),
                });
            }
        })
    }
}

fn agent(base: &str) -> Result<Agent> {
    let mut tls = TlsConfig::builder();
    if base.starts_with("https://") {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            let why = "this machine has no certificates of authorities".into();
            return Err(Error::Untrusted { url: base.to_owned(), why });
        }
        let certificates = found.certs.iter().map(|one| Certificate::from_der(one).to_owned());
        tls = tls
            .root_certs(RootCerts::Specific(Arc::new(certificates.collect())))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    }
    let config = Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        // A redirect could take the key elsewhere.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("hedgerow/", env!("CARGO_PKG_VERSION")))
        .accept("application/json")
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(REQUEST_TIMEOUT));
    Ok(config.build().new_agent())
}

/// What an error says: its `detail` and the field it is about.
fn detail(body: &[u8]) -> String {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let word = |name: &str| parsed.get(name).and_then(Value::as_str);
    let text = match (word("detail").or(word("error")), word("attr")) {
        (Some(detail), Some(attr)) => format!("{attr}: {detail}"),
        (Some(detail), None) => detail.to_owned(),
        (None, _) => String::from_utf8_lossy(body).into_owned(),
    };
    printable(&text)
}

/// One line without control characters, which could write on the user's terminal.
pub fn printable(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    shown.take(DETAIL_CHARS_MAX).collect()
}

/// The path and query of a link, whose host may be one behind a proxy: the key goes only to the host
/// that the user named.
pub fn path_of(link: &str) -> Option<&str> {
    if link.starts_with('/') {
        return Some(link);
    }
    let (_, after_scheme) = link.split_once("://")?;
    after_scheme.find('/').map(|at| &after_scheme[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_scheme_and_a_host() {
        let opened = |base: &str, key: &str| Site::new(base, Some(key), &|_| {}).map(|_| ());
        for base in ["http://127.0.0.1:8000", "http://posthog.example/"] {
            assert!(opened(base, "phx_1").is_ok(), "{base}");
        }
        for base in
            ["posthog.example", "ftp://x", "http://", "http://a/b", "http://a@b", "http://a b"]
        {
            assert!(matches!(opened(base, "phx_1"), Err(Error::Address(_))), "{base}");
        }
        for key in ["", "two words", "line\nbreak"] {
            assert!(matches!(opened("http://a", key), Err(Error::Key)), "{key:?}");
        }
    }

    #[test]
    fn links_keep_their_path_and_query_only() {
        for (link, path) in [
            (
                "https://elsewhere/api/projects/1/cohorts/?offset=100",
                Some("/api/projects/1/cohorts/?offset=100"),
            ),
            ("/api/x?y=https://z/", Some("/api/x?y=https://z/")),
            ("https://host", None),
        ] {
            assert_eq!(path_of(link), path, "{link}");
        }
    }

    #[test]
    fn details_of_errors_are_one_line() {
        let body = br#"{"type":"validation_error","detail":"No such\ncohort.","attr":"filters"}"#;
        assert_eq!(detail(body), "filters: No such cohort.");
        assert_eq!(detail(b"<html>\x1b[2J"), "<html> [2J");
    }
}
