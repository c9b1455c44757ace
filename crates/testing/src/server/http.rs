//! A minimal HTTP client that sends paths and bodies verbatim.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A server that is silent for longer hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

#[must_use]
pub struct Request {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        Self { address, method, path, headers: Vec::new(), body: None }
    }

    pub fn key(self, key: &str) -> Self {
        self.no_key().header("Authorization", &format!("Bearer {key}"))
    }

    pub fn no_key(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "Authorization");
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn json(self, body: Value) -> Self {
        self.header("Content-Type", "application/json").bytes(body.to_string().into_bytes())
    }

    pub fn bytes(mut self, body: Vec<u8>) -> Self {
        self.body = Some(body);
        self
    }

    /// The bytes of the request.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let given = |name: &str| self.headers.iter().any(|(k, _)| k.eq_ignore_ascii_case(name));
        if !given("host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        if !given("connection") {
            head.push_str("Connection: close\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &self.body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(self.body.iter().flatten());
        bytes
    }

    pub fn send(self) -> Response {
        let received = raw(self.address, &self.to_bytes());
        Response::parse(&received, &format!("{} {}", self.method, self.path))
    }
}

/// Sends raw bytes and returns everything until the server closes the connection.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    // The server may respond and close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    received
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Method and path of the request, for messages.
    request: String,
}

impl Response {
    pub fn parse(received: &[u8], request: &str) -> Self {
        let end = received.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| {
            panic!("{request}: no response, but {:?}", String::from_utf8_lossy(received))
        });
        let head = std::str::from_utf8(&received[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let chunked = headers.iter().any(|(k, v)| k == "transfer-encoding" && v == "chunked");
        let rest = &received[end + 4..];
        let body = if chunked { unchunk(rest) } else { rest.to_vec() };
        Self { status, headers, body, request: request.into() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let matching = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        matching.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|why| panic!("{}: {why} in {:?}", self.request, self.text()))
    }

    /// Panics with the body unless the status is `status`.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{} answered {}", self.request, self.text());
        self
    }

    /// `type code attr` of an error, `-` for no attr; asserts that it has a detail.
    #[track_caller]
    pub fn error(&self) -> String {
        let body = self.json();
        assert!(!body["detail"].as_str().unwrap().is_empty(), "{}: {body}", self.request);
        let word = |name: &str| body[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", word("type"), word("code"), word("attr"))
    }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = std::str::from_utf8(&rest[..line]).unwrap().split(';').next().unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 2 + size + 2..];
    }
}
