//! Requests as capture sees them, independent of the HTTP library.

use std::net::IpAddr;

use decode::{DefaultEventName, Parts};
use model::Timestamp;

/// The kind of path, which decides how a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/e`, `/capture`, `/track`, `/batch`, `/i/v0/e`, `/i/v0/ai/batch`: the body's shape decides.
    Events,
    /// `/engage`: an event without a name becomes `$identify`.
    Engage,
    /// `/s`: decoded and authenticated, never stored.
    Recordings,
}

impl Endpoint {
    pub(crate) fn default_event_name(self) -> DefaultEventName {
        match self {
            Self::Engage => DefaultEventName::Identify,
            Self::Events | Self::Recordings => DefaultEventName::None,
        }
    }
}

/// A capture request, GET or POST.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub endpoint: Endpoint,
    /// The raw query string, without the question mark.
    pub query: &'a str,
    pub content_type: Option<&'a str>,
    pub content_encoding: Option<&'a str>,
    pub body: &'a [u8],
    pub client_ip: Option<IpAddr>,
    pub received_at: Timestamp,
}

impl<'a> Request<'a> {
    pub(crate) fn parts(&self) -> Parts<'a> {
        Parts {
            query: self.query,
            content_type: self.content_type,
            content_encoding: self.content_encoding,
            body: self.body,
        }
    }
}

/// A capture v1 request with its raw header values.
#[derive(Clone, Copy, Debug)]
pub struct V1Request<'a> {
    pub authorization: Option<&'a str>,
    pub content_type: Option<&'a str>,
    pub content_encoding: Option<&'a str>,
    pub user_agent: Option<&'a str>,
    pub sdk_info: Option<&'a str>,
    pub attempt: Option<&'a str>,
    pub request_id: Option<&'a str>,
    pub request_timestamp: Option<&'a str>,
    pub body: &'a [u8],
    pub client_ip: Option<IpAddr>,
    pub received_at: Timestamp,
}
