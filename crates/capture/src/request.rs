use std::net::IpAddr;

use decode::{DefaultEventName, Parts};
use model::Timestamp;

/// What a path makes of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/e`, `/capture`, `/track`, `/batch`, `/i/v0/e`, `/i/v0/ai/batch`: bodies decide.
    Events,
    /// `/engage`: an object without a name is an `$identify`.
    Engage,
    /// `/s`: decoded and authenticated, never stored.
    Recordings,
}

impl Endpoint {
    pub(crate) fn unnamed(self) -> DefaultEventName {
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
    /// As it stands in the URL, without the question mark.
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

/// A capture v1 request; headers as they came.
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
