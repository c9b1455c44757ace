//! Request bodies that are JSON or multipart forms with a file.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use catalog::Deleted;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::http::body::{self, RequestBody};
use crate::http::openapi::{DescribeRequest, Operation};
use crate::{AppState, Body, Error, Result};

/// Parts of a form.
const PARTS_MAX: usize = 100;
/// RFC 2046's maximum. Bounds the search, which compares the boundary at every offset.
const BOUNDARY_BYTES_MAX: usize = 70;
const FILE: &str = "csv";

pub(super) struct Upload<T> {
    json: Body<T>,
    received: Arc<RequestBody>,
    /// Of a multipart form; none for JSON.
    boundary: Option<String>,
    expects: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Upload<T> {
    /// The fields, and the file if there is one.
    pub(super) fn read(&self) -> Result<(T, Option<Vec<u8>>)> {
        let Some(boundary) = &self.boundary else { return Ok((self.json.read()?, None)) };
        let bytes = match &*self.received {
            RequestBody::Complete(bytes) => bytes,
            RequestBody::TooLarge { limit_bytes } => return Err(Error::too_large(*limit_bytes)),
            RequestBody::Truncated => return Err(Error::parse("The request body ended early.")),
        };
        let malformed = || Error::parse("Multipart form parse error");
        let (mut fields, mut file) = (Map::new(), None);
        for Part { name, is_file, content } in parts(bytes, boundary).ok_or_else(malformed)? {
            if name == FILE {
                if !is_file {
                    return Err(Error::invalid(FILE, "invalid_input", "This must be a file."));
                }
                file = Some(content.to_vec());
                continue;
            }
            let text = std::str::from_utf8(content).map_err(|_| malformed())?;
            fields.insert(name, form_value(text));
        }
        Ok((body::typed(&body::check_values(Value::Object(fields))?)?, file))
    }

    pub(super) fn among(&self) -> Deleted {
        if self.boundary.is_some() { Deleted::Exclude } else { self.json.among() }
    }
}

/// Form fields are strings; one that starts like a JSON object or array is parsed as JSON.
fn form_value(text: &str) -> Value {
    let structured = text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok());
    structured.flatten().unwrap_or_else(|| text.into())
}

#[derive(Debug, PartialEq)]
struct Part<'b> {
    name: String,
    is_file: bool,
    content: &'b [u8],
}

/// All parts; none if the body is not a well-formed form.
fn parts<'b>(bytes: &'b [u8], boundary: &str) -> Option<Vec<Part<'b>>> {
    if boundary.len() > BOUNDARY_BYTES_MAX {
        return None;
    }
    let marker = format!("--{boundary}");
    let mut rest = &bytes[find(bytes, marker.as_bytes())? + marker.len()..];
    let mut parts = Vec::new();
    while !rest.starts_with(b"--") {
        let part = rest.strip_prefix(b"\r\n")?;
        let end = find(part, format!("\r\n{marker}").as_bytes())?;
        let head_end = find(&part[..end], b"\r\n\r\n")?;
        let head = std::str::from_utf8(&part[..head_end]).ok()?;
        let content = &part[head_end + 4..end];
        let (name, is_file) = parse_disposition(head)?;
        // Browsers send an empty, unnamed file for an unfilled file input.
        if !(content.is_empty() && is_file == IsFile::Unnamed) {
            parts.push(Part { name, is_file: is_file != IsFile::No, content });
        }
        if parts.len() > PARTS_MAX {
            return None;
        }
        rest = &part[end + 2 + marker.len()..];
    }
    Some(parts)
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

#[derive(PartialEq)]
enum IsFile {
    No,
    Unnamed,
    Named,
}

/// Parses a part's `Content-Disposition`: its name, and whether it is a file.
fn parse_disposition(head: &str) -> Option<(String, IsFile)> {
    let line = head.split("\r\n").find(|line| {
        line.get(..20).is_some_and(|start| start.eq_ignore_ascii_case("content-disposition:"))
    })?;
    let fields = || line.split(';').map(str::trim);
    let named = fields().find_map(|field| field.strip_prefix("name="))?;
    let is_file = match fields().find(|field| field.starts_with("filename")) {
        None => IsFile::No,
        Some("filename=\"\"" | "filename=") => IsFile::Unnamed,
        Some(_) => IsFile::Named,
    };
    Some((named.trim_matches('"').to_owned(), is_file))
}

fn boundary(content_type: &str) -> Option<String> {
    if !body::is_multipart(content_type) {
        return None;
    }
    let (_, rest) = content_type.split_once(';')?;
    let value = rest.split(';').find_map(|field| field.trim().strip_prefix("boundary="))?;
    Some(value.trim_matches('"').to_owned()).filter(|boundary| !boundary.is_empty())
}

impl<T: Send> FromRequestParts<AppState> for Upload<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        let given = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = given.and_then(boundary);
        let received = body::received(parts);
        let json = Body::from_request_parts(parts, app).await?;
        Ok(Self { json, received, boundary, expects: PhantomData })
    }
}

impl<T: JsonSchema> DescribeRequest for Upload<T> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.body::<T>(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipart_form_parses_completely_or_is_rejected() {
        let form = b"preamble--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nA\r\n--b\r\n\
                     content-disposition: form-data; name=csv; filename=\"x\"\r\nContent-Type: text/csv\
                     \r\n\r\nu1\r\nu2\r\n--b--\r\n";
        let read = parts(form, "b").unwrap();
        let expected = [
            Part { name: "name".into(), is_file: false, content: b"A" },
            Part { name: "csv".into(), is_file: true, content: b"u1\r\nu2" },
        ];
        assert_eq!(read, expected);
        for cut in 0..form.len() - 4 {
            // A truncated form yields no parts.
            assert!(parts(&form[..cut], "b").is_none_or(|read| read.is_empty()), "{cut}");
        }
        assert!(parts(form, "c").is_none());
        let unchosen = |content: &str| {
            let head = "Content-Disposition: form-data; name=\"csv\"; filename=\"\"";
            let form = format!("--b\r\n{head}\r\n\r\n{content}\r\n--b--");
            parts(form.as_bytes(), "b").unwrap().len()
        };
        assert_eq!((unchosen(""), unchosen("u1")), (0, 1));
        assert_eq!(boundary("multipart/form-data; boundary=\"x\"").as_deref(), Some("x"));
        assert_eq!(boundary("application/json"), None);
    }
}
