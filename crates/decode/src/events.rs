//! Parses raw events from a capture body, one at a time.

use std::borrow::Cow;

use model::event::{RawEvent, RawProperties, RawTime, RawUuid, SentAt};
use model::json::{skip_whitespace, value_end};
use uuid::Uuid;

use crate::fields::Fields;
use crate::outline::{Outline, walk_object};
use crate::{Error, JsonText, Result, value};

/// Longer than any timestamp. Every record of a request repeats `sent_at`, so an unbounded one would
/// amplify a small body into many journal bytes.
const SENT_AT_BYTES_MAX: usize = 64;

/// The name of an event without `event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultEventName {
    /// No name: capture drops the event.
    None,
    /// `$identify`, on `/engage`.
    Identify,
}

/// A parsed capture body.
#[derive(Clone, Debug)]
pub struct Payload<'t> {
    /// Takes precedence over tokens of single events.
    pub token: Option<Cow<'t, str>>,
    /// From the form or the query string; used if there is no other.
    pub fallback_token: Option<&'t str>,
    pub project_id: ProjectField,
    pub historical_migration: bool,
    pub sent_at: Option<SentAt<'t>>,
    source: Source<'t>,
    default_name: DefaultEventName,
}

/// The field `project_id`, which personal API keys require.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectField {
    #[default]
    Absent,
    Given(i64),
    NotAnInteger,
}

#[derive(Clone, Debug)]
enum Source<'t> {
    One(Box<RawEvent<'t>>),
    /// The JSON of an array.
    Many(&'t str),
}

#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "almost every element is an event")]
pub enum Element<'t> {
    Event(RawEvent<'t>),
    /// An array element that is not an object.
    NotAnObject,
}

/// Parses the fields of a capture body; [`Payload::elements`] parses the events lazily.
pub fn parse_events<'t>(
    text: &'t JsonText<'_>,
    default_name: DefaultEventName,
) -> Result<Payload<'t>> {
    let json = text.as_str();
    let mut payload = Payload {
        token: text.envelope.wrapper_token.as_deref().map(Cow::Borrowed),
        fallback_token: text.envelope.form_token.as_deref(),
        project_id: ProjectField::Absent,
        historical_migration: false,
        sent_at: text.envelope.sent_at_ms.map(SentAt::Millis),
        source: Source::Many(json),
        default_name,
    };
    match &text.outline {
        Outline::Array => payload.source = Source::Many(non_empty(json)?),
        Outline::Object { batch: Some(batch), .. } => {
            let list = &json[batch.clone()];
            if !list.starts_with('[') {
                return Err(Error::Shape);
            }
            payload.source = Source::Many(non_empty(list)?);
            // The same object with an empty batch: short, and parsing it validates its grammar.
            let frame = [&json[..batch.start], "[]", &json[batch.end..]].concat();
            let fields = Fields::read(&frame)?;
            payload.take_frame(&fields);
        }
        Outline::Object { batch: None, .. } => {
            let fields = Fields::read(json)?;
            payload.take_frame(&fields);
            let mut event = raw_event(&fields, json.trim_ascii().len(), payload.inner_token());
            event.name = named(event.name, default_name);
            payload.source = Source::One(Box::new(event));
        }
    }
    Ok(payload)
}

impl<'t> Payload<'t> {
    fn take_frame(&mut self, fields: &Fields<'_>) {
        if self.token.is_none() {
            self.token = fields.token().map(|token| Cow::Owned(token.into_owned()));
        }
        self.project_id = project_field(fields);
        self.historical_migration = fields.is_historical();
        let sent_at = fields.sent_at.and_then(value::string);
        if let Some(text) = sent_at.filter(|text| (1..=SENT_AT_BYTES_MAX).contains(&text.len())) {
            self.sent_at = Some(SentAt::Text(Cow::Owned(text.into_owned())));
        }
    }

    /// Iterates the events in order. An error ends the iteration and invalidates the request.
    pub fn elements(&self) -> Elements<'t> {
        let state = match &self.source {
            Source::One(event) => State::One(Some(event.clone())),
            Source::Many(list) => State::Many { list, at: 1 },
        };
        Elements {
            state,
            default_name: self.default_name,
            inner_token: self.inner_token(),
            project_id: ProjectField::Absent,
        }
    }

    fn inner_token(&self) -> InnerToken {
        if self.token.is_some() { InnerToken::Ignored } else { InnerToken::Needed }
    }
}

#[derive(Clone, Debug)]
pub struct Elements<'t> {
    state: State<'t>,
    default_name: DefaultEventName,
    inner_token: InnerToken,
    project_id: ProjectField,
}

/// Whether to search the properties for a token, which costs a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InnerToken {
    Needed,
    Ignored,
}

#[derive(Clone, Debug)]
enum State<'t> {
    One(Option<Box<RawEvent<'t>>>),
    Many { list: &'t str, at: usize },
}

impl Elements<'_> {
    /// The last `project_id` of an element.
    pub fn project_id(&self) -> ProjectField {
        self.project_id
    }
}

impl<'t> Iterator for Elements<'t> {
    type Item = Result<Element<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (list, at) = match &mut self.state {
            State::One(event) => return event.take().map(|event| Ok(Element::Event(*event))),
            State::Many { list, at } => (*list, at),
        };
        match next_fields(list, at)? {
            Err(error) => Some(Err(error)),
            Ok(None) => Some(Ok(Element::NotAnObject)),
            Ok(Some((fields, bytes))) => {
                let mut event = raw_event(&fields, bytes, self.inner_token);
                event.name = named(event.name, self.default_name);
                match project_field(&fields) {
                    ProjectField::Absent => {}
                    present => self.project_id = present,
                }
                Some(Ok(Element::Event(event)))
            }
        }
    }
}

/// Parses the next element of the array `list` from offset `at`: the fields of an object with its
/// length, or `None` for another value. An error ends the iteration.
#[allow(clippy::type_complexity)]
pub(crate) fn next_fields<'t>(
    list: &'t str,
    at: &mut usize,
) -> Option<Result<Option<(Fields<'t>, usize)>>> {
    let bytes = list.as_bytes();
    let start = skip_whitespace(bytes, *at);
    if start >= bytes.len() {
        return None;
    }
    *at = bytes.len();
    let (fields, end) = match element_at(list, start) {
        Ok(element) => element,
        Err(error) => return Some(Err(error)),
    };
    let after = skip_whitespace(bytes, end);
    match bytes.get(after) {
        Some(b',') => *at = after + 1,
        Some(b']') => {}
        _ => return Some(Err(Error::Json)),
    }
    Some(Ok(fields.map(|fields| (fields, end - start))))
}

fn element_at(list: &str, start: usize) -> Result<(Option<Fields<'_>>, usize)> {
    if list.as_bytes()[start] == b'{' {
        let (fields, end) = Fields::of_object(list, start)?;
        return Ok((Some(fields), end));
    }
    Ok((None, value_end(list.as_bytes(), start)?))
}

pub(crate) fn non_empty(list: &str) -> Result<&str> {
    let list = list.trim_matches([' ', '\t', '\n', '\r']);
    match list.as_bytes().get(skip_whitespace(list.as_bytes(), 1)) {
        Some(b']') => Err(Error::EmptyBatch),
        _ => Ok(list),
    }
}

fn named(name: Option<Cow<'_, str>>, default_name: DefaultEventName) -> Option<Cow<'_, str>> {
    match default_name {
        DefaultEventName::None => name,
        DefaultEventName::Identify => name.or(Some(Cow::Borrowed("$identify"))),
    }
}

pub(crate) fn raw_event<'t>(
    fields: &Fields<'t>,
    bytes: usize,
    inner_token: InnerToken,
) -> RawEvent<'t> {
    let properties = match fields.properties {
        None => RawProperties::Absent,
        Some(raw) if raw.starts_with('{') => RawProperties::Object(raw),
        Some(_) => RawProperties::NotAnObject,
    };
    let mut token = fields.token();
    let mut distinct_id = fields.distinct_id.or(fields.dollar_distinct_id);
    if let RawProperties::Object(json) = properties
        && (distinct_id.is_none() || (token.is_none() && inner_token == InnerToken::Needed))
    {
        let inner = Inner::read(json);
        distinct_id = distinct_id.or(inner.distinct_id);
        token = token.or_else(|| value::string(inner.token?));
    }
    RawEvent {
        token,
        name: fields.event.map(value::text),
        distinct_id: distinct_id.map(value::text),
        uuid: raw_uuid(fields.uuid),
        timestamp: fields.timestamp.map(raw_time),
        offset_ms: fields.offset.filter(|raw| value::is_number(raw)).and_then(value::integer),
        properties,
        set: fields.set,
        set_once: fields.set_once,
        unset: fields.unset,
        bytes,
    }
}

/// Fields that older SDKs put into the properties. The object is valid JSON already; a scan costs a
/// third of parsing it again.
#[derive(Default)]
struct Inner<'t> {
    token: Option<&'t str>,
    distinct_id: Option<&'t str>,
}

impl<'t> Inner<'t> {
    fn read(json: &'t str) -> Self {
        let mut inner = Self::default();
        let walked = walk_object(json, 0, |key, range| {
            let slot = match &*unescaped(key) {
                "token" => &mut inner.token,
                "distinct_id" => &mut inner.distinct_id,
                _ => return,
            };
            let raw = &json[range];
            *slot = (raw != "null").then_some(raw);
        });
        if walked.is_ok() { inner } else { Self::default() }
    }
}

fn unescaped(key: &str) -> Cow<'_, str> {
    if !key.contains('\\') {
        return Cow::Borrowed(key);
    }
    serde_json::from_str(&format!("\"{key}\"")).map_or(Cow::Borrowed(key), Cow::Owned)
}

pub(crate) fn raw_uuid(raw: Option<&str>) -> RawUuid {
    let Some(raw) = raw else { return RawUuid::Absent };
    match value::string(raw) {
        Some(text) if text.is_empty() => RawUuid::Absent,
        Some(text) => Uuid::try_parse(&text).map_or(RawUuid::Invalid, RawUuid::Given),
        None => RawUuid::Invalid,
    }
}

fn raw_time(raw: &str) -> RawTime<'_> {
    match value::string(raw) {
        Some(text) => RawTime::Text(text),
        None if value::is_number(raw) => RawTime::Number(raw),
        None => RawTime::Unreadable,
    }
}

fn project_field(fields: &Fields<'_>) -> ProjectField {
    match fields.project_id.map(str::parse) {
        None => ProjectField::Absent,
        Some(Ok(id)) => ProjectField::Given(id),
        Some(Err(_)) => ProjectField::NotAnInteger,
    }
}
