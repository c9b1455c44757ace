//! From the bytes of a request to its JSON text. Hints are advice; bytes decide.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::memory::MemoryTracker;
use crate::outline::{Outline, outline};
use crate::{Error, Result, form, inflate, lzstring, repair, value};

/// A payload is taken for base64 by this many of its first bytes.
const LOOK_AHEAD_BYTES: usize = 128;
/// Send times in a query string are milliseconds; what lies outside of these years is not.
const SENT_AT_MS_MIN: i64 = 1_609_459_200_000; // 2021-01-01
const SENT_AT_MS_MAX: i64 = 253_402_300_799_999; // 9999-12-31
/// A byte that is no UTF-8 becomes U+FFFD.
const REPLACEMENT_BYTES: usize = 3;
const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

const PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, PADDING);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, PADDING);

/// What the ladder needs to see of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// As it stands in the URL, without the question mark.
    pub query: &'a str,
    pub content_type: Option<&'a str>,
    pub content_encoding: Option<&'a str>,
    pub body: &'a [u8],
}

/// What becomes of invalid UTF-8, `NaN` and `Infinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// The request is rejected: a replacement would store something that the client did not send.
    Strict,
    /// Read as replacement characters and null, for `/flags` and `/decide`.
    Lenient,
}

/// The JSON text of a request: an object or an array, of bounded size and depth, without lone
/// surrogates and U+0000. Its grammar is checked only when it is parsed.
#[derive(Clone, Debug)]
pub struct JsonText<'a> {
    json: Cow<'a, str>,
    pub(crate) outline: Outline,
    pub(crate) around: Around,
}

/// What stood around the payload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    /// Of the JSON object that held the payload as a string.
    pub(crate) wrapper_token: Option<String>,
    /// Of the form or the query string.
    pub(crate) form_token: Option<String>,
    pub(crate) sent_at_ms: Option<i64>,
    pub(crate) beacon: bool,
}

impl JsonText<'_> {
    pub fn as_str(&self) -> &str {
        &self.json
    }

    /// Memory the text holds beyond the request's own body. Room behind its end was never touched.
    pub fn owned_bytes(&self) -> usize {
        match &self.json {
            Cow::Borrowed(_) => 0,
            Cow::Owned(text) => text.len(),
        }
    }

    /// A token beside the payload, in a wrapper, form or query: for requests without one inside.
    pub fn outer_token(&self) -> Option<&str> {
        self.around.wrapper_token.as_deref().or(self.around.form_token.as_deref())
    }

    /// `beacon=1`: the sender will not read the answer.
    pub fn is_beacon(&self) -> bool {
        self.around.beacon
    }
}

/// Climbs the ladder. No step yields more than `bytes_max` bytes.
pub fn decode_text<'a>(
    parts: &Parts<'a>,
    strictness: Strictness,
    bytes_max: usize,
) -> Result<JsonText<'a>> {
    decode_text_within(parts, strictness, &mut MemoryTracker::new(bytes_max, &mut |_| true))
}

/// The same, where `memory` may refuse.
pub fn decode_text_within<'a>(
    parts: &Parts<'a>,
    strictness: Strictness,
    memory: &mut MemoryTracker<'_>,
) -> Result<JsonText<'a>> {
    let query = Query::read(parts.query);
    let mut around = Around {
        sent_at_ms: query.sent_at_ms,
        beacon: query.beacon,
        form_token: query.token,
        ..Around::default()
    };
    let payload = match query.data {
        Some(data) => step_through(restore_plus(data), query.hint, None, &mut around, memory)?,
        None => {
            let hint = query.hint.or_else(|| Hint::named(parts.content_encoding?.as_bytes()));
            let body = content_decoded(parts.body, parts.content_encoding, memory)?;
            step_through(body, hint, parts.content_type, &mut around, memory)?
        }
    };
    let mut text = finish(payload, strictness, around, memory)?;
    if !matches!(text.outline, Outline::Object { wrapper: true, .. }) {
        return Ok(text);
    }
    memory.take(text.json.len())?;
    let (data, hint) = unwrapped(&text.json, &mut text.around)?;
    let hint = hint.or(query.hint);
    let payload = step_through(Cow::Owned(data), hint, None, &mut text.around, memory)?;
    finish(payload, strictness, text.around, memory)
}

/// Step 7, and a look at the frame of what came out.
pub(crate) fn finish<'a>(
    payload: Cow<'a, [u8]>,
    strictness: Strictness,
    around: Around,
    memory: &mut MemoryTracker<'_>,
) -> Result<JsonText<'a>> {
    let json = to_json(payload, strictness, memory)?;
    let outline = outline(&json)?;
    Ok(JsonText { json, outline, around })
}

/// How large the text will probably be: for budgets, before anything is decompressed.
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
        let mut found = Self::default();
        let mut underscore = None;
        for (name, value) in form::pairs(query.as_bytes()) {
            match &*name {
                b"data" if !value.is_empty() => found.data = Some(value),
                b"compression" => found.hint = Hint::named(&value),
                b"token" | b"api_key" => found.token = String::from_utf8(value.into_owned()).ok(),
                b"sent_at" => found.sent_at_ms = millis(&value),
                b"_" => underscore = millis(&value),
                b"beacon" => found.beacon = &*value == b"1",
                _ => {}
            }
        }
        found.sent_at_ms = found.sent_at_ms.or(underscore);
        found
    }
}

fn millis(value: &[u8]) -> Option<i64> {
    let millis = str::from_utf8(value).ok()?.parse().ok()?;
    (SENT_AT_MS_MIN..=SENT_AT_MS_MAX).contains(&millis).then_some(millis)
}

/// Step 1. A coding that is unknown, or `gzip` on what is not gzip, changes nothing.
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

/// Steps 2 to 6: form, gzip, LZ-String, base64.
fn step_through<'a>(
    mut payload: Cow<'a, [u8]>,
    mut hint: Option<Hint>,
    content_type: Option<&str>,
    around: &mut Around,
    memory: &mut MemoryTracker<'_>,
) -> Result<Cow<'a, [u8]>> {
    let known = |payload: &[u8]| is_json(payload) || inflate::is_gzip(payload);
    if !known(&payload)
        && (content_type.is_some_and(is_form_type) || form::looks_like_form(&payload))
    {
        memory.take(payload.len())?;
        let form = Form::read(&payload)?;
        hint = hint.or(form.hint);
        around.form_token = form.token.or(around.form_token.take());
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

/// No encoding of the ladder begins like this, so such a payload needs no guesses.
fn is_json(payload: &[u8]) -> bool {
    let text = payload.strip_prefix(UTF8_BOM).unwrap_or(payload);
    matches!(text.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Padding may be missing, as it often is in URLs; one digit over is never right.
fn looks_like_base64(digits: &[u8]) -> bool {
    let head = &digits[..digits.len().min(LOOK_AHEAD_BYTES)];
    !head.is_empty()
        && digits.len() % 4 != 1
        && head.iter().all(|byte| {
            matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' | b'-' | b'_')
        })
}

/// Decoding a form turns the plus signs of base64 into spaces, unless they were escaped.
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

/// UTF-8, byte order mark, escapes.
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
        Strictness::Lenient => repair::null_for_numbers_that_are_none(text, memory)?,
    };
    repair::replace_escapes(text, memory)
}

/// The payload that a JSON object holds as a string.
fn unwrapped(json: &str, around: &mut Around) -> Result<(Vec<u8>, Option<Hint>)> {
    let fields = crate::fields::Fields::read(json)?;
    around.wrapper_token = fields.token().map(Cow::into_owned);
    let hint = fields.compression.and_then(value::string);
    let data = fields.data.and_then(value::string).unwrap_or_default();
    Ok((data.into_owned().into_bytes(), hint.and_then(|hint| Hint::named(hint.as_bytes()))))
}
