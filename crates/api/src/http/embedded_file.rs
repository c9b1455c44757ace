//! Files that the build embeds, each also compressed.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use crate::http::response_budget::SharedBytes;

pub(crate) const CACHE_IMMUTABLE: HeaderValue =
    HeaderValue::from_static("public, max-age=31536000, immutable");

pub(crate) struct EmbeddedFile {
    pub name: &'static str,
    pub plain: &'static [u8],
    /// None if compression saves little.
    pub gzip: Option<&'static [u8]>,
    pub brotli: Option<&'static [u8]>,
}

impl EmbeddedFile {
    /// The file of this name; `files` are sorted by name.
    pub(crate) fn find(files: &'static [Self], name: &str) -> Option<&'static Self> {
        files.binary_search_by_key(&name, |file| file.name).ok().map(|index| &files[index])
    }

    /// The file in the best encoding that the request's `headers` accept; 304 without a body if
    /// they name `version`, which the entity tag holds.
    pub(crate) fn response(
        &self,
        headers: &HeaderMap,
        version: &str,
        media: HeaderValue,
        cache: HeaderValue,
    ) -> Response {
        // Weak, since the encodings share it.
        let tag = format!("W/\"{version}\"");
        let known = headers.get(header::IF_NONE_MATCH);
        let unchanged = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let mut response = match unchanged {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => self.body(headers, media),
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, cache);
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }

    fn body(&self, headers: &HeaderMap, media: HeaderValue) -> Response {
        let copies = [("br", self.brotli), ("gzip", self.gzip)];
        let accepted = copies.into_iter().find_map(|(coding, copy)| {
            copy.filter(|_| accepts_encoding(headers, coding)).map(|bytes| (coding, bytes))
        });
        let bytes = accepted.map_or(self.plain, |(_, bytes)| bytes);
        let mut response = Response::new(Body::from(Bytes::from_static(bytes)));
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        response.extensions_mut().insert(SharedBytes);
        if let Some((coding, _)) = accepted {
            let coding = HeaderValue::from_static(coding);
            response.headers_mut().insert(header::CONTENT_ENCODING, coding);
        }
        response
    }
}

pub(crate) fn accepts_encoding(headers: &HeaderMap, coding: &str) -> bool {
    let given = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    given.into_iter().flat_map(|value| value.split(',')).any(|entry| {
        let (name, quality) = entry.split_once(';').unwrap_or((entry, ""));
        name.trim().eq_ignore_ascii_case(coding) && !is_refused(quality)
    })
}

/// Whether the parameters of an `Accept…` entry have a quality of zero.
pub(crate) fn is_refused(parameters: &str) -> bool {
    matches!(parameters.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
}
