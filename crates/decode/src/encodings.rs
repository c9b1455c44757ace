//! Decodes the bytes of a request to JSON: content encoding, form, gzip, LZ-String, base64, UTF-8.
//!
//! Declared encodings (`Content-Encoding`, `compression`) are only hints, which SDKs often get wrong:
//! magic bytes decide.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::memory::MemoryTracker;
use crate::outline::{Outline, outline};
use crate::{Error, Result, form, inflate, lzstring, repair, value};

/// Bytes that are sniffed to recognize base64.
const SNIFF_BYTES: usize = 128;
/// Plausible range of `sent_at` in a query string, in milliseconds; other values are ignored.
const SENT_AT_MS_MIN: i64 = 1_609_459_200_000; // 2021-01-01
const SENT_AT_MS_MAX: i64 = 253_402_300_799_999; // 9999-12-31
/// Length of U+FFFD in UTF-8, which replaces an invalid byte.
const REPLACEMENT_BYTES: usize = 3;
const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

const PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, PADDING);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, PADDING);

/// The parts of a request that carry or describe the payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// The raw query string, without the question mark.
    pub query: &'a str,
    pub content_type: Option<&'a str>,
    pub content_encoding: Option<&'a str>,
    pub body: &'a [u8],
}

/// How invalid UTF-8, `NaN` and `Infinity` are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// The request is rejected: a replacement would store something that the client did not send.
    Strict,
    /// Replaced by U+FFFD and null, for `/flags` and `/decide`.
    Lenient,
}

/// The decoded payload: a JSON object or array of bounded size and depth, without lone surrogates and
/// U+0000. Its grammar is validated only by parsing.
#[derive(Clone, Debug)]
pub struct JsonText<'a> {
    json: Cow<'a, str>,
    pub(crate) outline: Outline,
    pub(crate) envelope: Envelope,
}

/// Metadata outside of the payload: wrapper object, form or query string.
#[derive(Clone, Debug, Default)]
pub(crate) struct Envelope {
    /// From the JSON object that wraps the payload as a string.
    pub(crate) wrapper_token: Option<String>,
    /// From the form or the query string.
    pub(crate) form_token: Option<String>,
    pub(crate) sent_at_ms: Option<i64>,
    pub(crate) beacon: bool,
}

impl JsonText<'_> {
    pub fn as_str(&self) -> &str {
        &self.json
    }

    /// Heap memory of the text, 0 if it borrows the body. Spare capacity was never touched, so it
    /// costs no pages.
    pub fn owned_bytes(&self) -> usize {
        match &self.json {
            Cow::Borrowed(_) => 0,
            Cow::Owned(text) => text.len(),
        }
    }

    /// The token outside of the payload (wrapper, form or query), for requests without one inside.
    pub fn outer_token(&self) -> Option<&str> {
        self.envelope.wrapper_token.as_deref().or(self.envelope.form_token.as_deref())
    }

    /// `beacon=1`: the client does not read the response.
    pub fn is_beacon(&self) -> bool {
        self.envelope.beacon
    }
}

/// Decodes the payload. No layer may yield more than `bytes_max` bytes.
pub fn decode_text<'a>(
    parts: &Parts<'a>,
    strictness: Strictness,
    bytes_max: usize,
) -> Result<JsonText<'a>> {
    decode_text_within(parts, strictness, &mut MemoryTracker::new(bytes_max, &mut |_| true))
}

/// As [`decode_text`], with memory that `memory` may refuse.
pub fn decode_text_within<'a>(
    parts: &Parts<'a>,
    strictness: Strictness,
    memory: &mut MemoryTracker<'_>,
) -> Result<JsonText<'a>> {
    let query = Query::read(parts.query);
    let mut envelope = Envelope {
        sent_at_ms: query.sent_at_ms,
        beacon: query.beacon,
        form_token: query.token,
        ..Envelope::default()
    };
    let payload = match query.data {
        Some(data) => decode_layers(restore_plus(data), query.hint, None, &mut envelope, memory)?,
        None => {
            let hint = query.hint.or_else(|| Hint::named(parts.content_encoding?.as_bytes()));
            let body = content_decoded(parts.body, parts.content_encoding, memory)?;
            decode_layers(body, hint, parts.content_type, &mut envelope, memory)?
        }
    };
    let mut text = to_text(payload, strictness, envelope, memory)?;
    if !matches!(text.outline, Outline::Object { wrapper: true, .. }) {
        return Ok(text);
    }
    memory.take(text.json.len())?;
    let (data, hint) = unwrapped(&text.json, &mut text.envelope)?;
    let hint = hint.or(query.hint);
    let payload = decode_layers(Cow::Owned(data), hint, None, &mut text.envelope, memory)?;
    to_text(payload, strictness, text.envelope, memory)
}

/// The last layer: converts to JSON text and scans its outline.
pub(crate) fn to_text<'a>(
    payload: Cow<'a, [u8]>,
    strictness: Strictness,
    envelope: Envelope,
    memory: &mut MemoryTracker<'_>,
) -> Result<JsonText<'a>> {
    let json = to_json(payload, strictness, memory)?;
    let outline = outline(&json)?;
    Ok(JsonText { json, outline, envelope })
}

/// Estimates the decoded size before decompression, for the memory budget.
pub fn decoded_bytes_hint(parts: &Parts<'_>, bytes_max: usize) -> usize {
    const RATIO_GUESS: usize = 16;
    let plain = parts.body.len().max(parts.query.len());
    let compressed = parts.content_encoding.is_some_and(|name| {
        matches!(name.trim().to_ascii_lowercase().as_str(), "deflate" | "br" | "zstd")
    });
    if inflate::is_gzip(parts.body) {
        inflate::gzip_bytes_hint(parts.body, bytes_max).max(plain.min(bytes_max))
    } else if compressed {
        plain.saturating_mul(RATIO_GUESS).min(bytes_max)
    } else {
        plain.min(bytes_max)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Gzip,
    LzString,
    Base64,
}

impl Hint {
    fn named(name: &[u8]) -> Option<Self> {
        match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"gzip" | b"gzip-js" => Some(Self::Gzip),
            b"lz64" | b"lz-string" => Some(Self::LzString),
            b"base64" | b"b64" => Some(Self::Base64),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Query<'a> {
    data: Option<Cow<'a, [u8]>>,
    hint: Option<Hint>,
    token: Option<String>,
    sent_at_ms: Option<i64>,
    beacon: bool,
}

impl<'a> Query<'a> {
    fn read(query: &'a str) -> Self {
        let mut parsed = Self::default();
        let mut underscore = None;
        for (name, value) in form::pairs(query.as_bytes()) {
            match &*name {
                b"data" if !value.is_empty() => parsed.data = Some(value),
                b"compression" => parsed.hint = Hint::named(&value),
                b"token" | b"api_key" => parsed.token = String::from_utf8(value.into_owned()).ok(),
                b"sent_at" => parsed.sent_at_ms = millis(&value),
                b"_" => underscore = millis(&value),
                b"beacon" => parsed.beacon = &*value == b"1",
                _ => {}
            }
        }
        parsed.sent_at_ms = parsed.sent_at_ms.or(underscore);
        parsed
    }
}

fn millis(value: &[u8]) -> Option<i64> {
    let millis = str::from_utf8(value).ok()?.parse().ok()?;
    (SENT_AT_MS_MIN..=SENT_AT_MS_MAX).contains(&millis).then_some(millis)
}

/// Undoes `Content-Encoding`. An unknown coding, and `gzip` without the magic bytes, are ignored.
fn content_decoded<'a>(
    body: &'a [u8],
    encoding: Option<&str>,
    memory: &mut MemoryTracker<'_>,
) -> Result<Cow<'a, [u8]>> {
    if body.is_empty() {
        return Err(Error::Empty);
    }
    let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
    Ok(match encoding.as_str() {
        "gzip" | "gzip-js" | "x-gzip" if inflate::is_gzip(body) => {
            Cow::Owned(inflate::gunzip(body, memory)?)
        }
        "deflate" => Cow::Owned(inflate::inflate(body, memory)?),
        "br" => Cow::Owned(inflate::unbrotli(body, memory)?),
        "zstd" => Cow::Owned(inflate::unzstd(body, memory)?),
        _ => Cow::Borrowed(body),
    })
}

/// Undoes form encoding, gzip, LZ-String and base64, whichever the bytes show.
fn decode_layers<'a>(
    mut payload: Cow<'a, [u8]>,
    mut hint: Option<Hint>,
    content_type: Option<&str>,
    envelope: &mut Envelope,
    memory: &mut MemoryTracker<'_>,
) -> Result<Cow<'a, [u8]>> {
    let recognized = |payload: &[u8]| is_json(payload) || inflate::is_gzip(payload);
    if !recognized(&payload)
        && (content_type.is_some_and(is_form_type) || form::looks_like_form(&payload))
    {
        memory.take(payload.len())?;
        let form = Form::read(&payload)?;
        hint = hint.or(form.hint);
        envelope.form_token = form.token.or(envelope.form_token.take());
        payload = Cow::Owned(restore_plus(Cow::Owned(form.data)).into_owned());
    }
    if inflate::is_gzip(&payload) {
        return inflate::gunzip(&payload, memory).map(Cow::Owned);
    }
    if is_json(&payload) {
        return Ok(payload);
    }
    let digits = payload.trim_ascii();
    if hint == Some(Hint::LzString) {
        return lzstring::decompress(digits, memory).map(Cow::Owned);
    }
    if !looks_like_base64(digits) {
        return Ok(payload);
    }
    memory.take(digits.len())?;
    let decoded = base64_decoded(digits)?;
    if inflate::is_gzip(&decoded) {
        return inflate::gunzip(&decoded, memory).map(Cow::Owned);
    }
    Ok(Cow::Owned(decoded))
}

struct Form {
    data: Vec<u8>,
    hint: Option<Hint>,
    token: Option<String>,
}

impl Form {
    fn read(body: &[u8]) -> Result<Self> {
        let (mut data, mut hint, mut token) = (None, None, None);
        for (name, value) in form::pairs(body) {
            match &*name {
                b"data" => data = Some(value.into_owned()),
                b"compression" => hint = Hint::named(&value),
                b"token" | b"api_key" => token = String::from_utf8(value.into_owned()).ok(),
                _ => {}
            }
        }
        Ok(Self { data: data.ok_or(Error::Form)?, hint, token })
    }
}

fn is_form_type(content_type: &str) -> bool {
    const FORM: &str = "application/x-www-form-urlencoded";
    content_type.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM))
}

/// Whether it starts like JSON; no supported encoding does.
fn is_json(payload: &[u8]) -> bool {
    let text = payload.strip_prefix(UTF8_BOM).unwrap_or(payload);
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Missing padding is accepted, as in URLs; a remainder of one digit is never valid.
fn looks_like_base64(digits: &[u8]) -> bool {
    let head = &digits[..digits.len().min(SNIFF_BYTES)];
    !head.is_empty()
        && digits.len() % 4 != 1
        && head.iter().all(|byte| {
            matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' | b'-' | b'_')
        })
}

/// Restores plus signs of base64 that form decoding turned into spaces.
fn restore_plus(mut payload: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if is_json(&payload) || inflate::is_gzip(&payload) || !payload.contains(&b' ') {
        return payload;
    }
    for byte in payload.to_mut() {
        if *byte == b' ' {
            *byte = b'+';
        }
    }
    payload
}

fn base64_decoded(digits: &[u8]) -> Result<Vec<u8>> {
    let url_safe = digits.iter().any(|byte| matches!(byte, b'-' | b'_'));
    let engine = if url_safe { BASE64_URL } else { BASE64 };
    engine.decode(digits).map_err(|_| Error::Encoding("base64"))
}

/// Validates UTF-8, strips the byte order mark and replaces unstorable escapes.
fn to_json<'a>(
    payload: Cow<'a, [u8]>,
    strictness: Strictness,
    memory: &mut MemoryTracker<'_>,
) -> Result<Cow<'a, str>> {
    if payload.len() > memory.bytes_max {
        return Err(Error::TooLarge);
    }
    let text = match payload {
        Cow::Borrowed(bytes) => {
            let bytes = bytes.strip_prefix(UTF8_BOM).unwrap_or(bytes);
            match (simdutf8::basic::from_utf8(bytes), strictness) {
                (Ok(text), _) => Cow::Borrowed(text),
                (Err(_), Strictness::Strict) => return Err(Error::Utf8),
                (Err(_), Strictness::Lenient) => {
                    memory.take(REPLACEMENT_BYTES * bytes.len())?;
                    String::from_utf8_lossy(bytes)
                }
            }
        }
        Cow::Owned(mut bytes) => {
            if bytes.starts_with(UTF8_BOM) {
                bytes.drain(..UTF8_BOM.len());
            }
            Cow::Owned(match (String::from_utf8(bytes), strictness) {
                (Ok(text), _) => text,
                (Err(_), Strictness::Strict) => return Err(Error::Utf8),
                (Err(error), Strictness::Lenient) => {
                    memory.take(REPLACEMENT_BYTES * error.as_bytes().len())?;
                    String::from_utf8_lossy(error.as_bytes()).into_owned()
                }
            })
        }
    };
    let text = match strictness {
        Strictness::Strict => text,
        Strictness::Lenient => repair::replace_nan_with_null(text, memory)?,
    };
    repair::replace_escapes(text, memory)
}

/// Extracts the payload that a wrapper object holds as the string `data`.
fn unwrapped(json: &str, envelope: &mut Envelope) -> Result<(Vec<u8>, Option<Hint>)> {
    let fields = crate::fields::Fields::read(json)?;
    envelope.wrapper_token = fields.token().map(Cow::into_owned);
    let hint = fields.compression.and_then(value::string);
    let data = fields.data.and_then(value::string).unwrap_or_default();
    Ok((data.into_owned().into_bytes(), hint.and_then(|hint| Hint::named(hint.as_bytes()))))
}
