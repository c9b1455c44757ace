//! Session properties, computed from all events that share a `$session_id`.

use std::collections::BTreeSet;
use std::sync::Arc;

use facts::{ReadView, SessionFacts, SessionValue};
use model::Timestamp;
use warehouse::{ColumnKey, Value};

use crate::columns::interner::StringInterner;
use crate::columns::memo::DictionaryMemo;
use crate::columns::{number, text};
use crate::limits::{MemoryReservation, QueryLimits};
use crate::scan::context::EventSelection;
use crate::scan::{ActorSource, Rows, Scan};
use crate::{Error, Result};

/// Sessions are read this far around a date range, because SDKs end a session after 24 hours.
const AROUND_MICROS: i64 = 86_400_000_000;
/// Session fields that the filters of one query may reference; each costs a scan of the events.
const FIELDS_MAX: usize = 10;
const SECOND: i64 = 1_000_000;
/// A shorter session without a second pageview and without autocapture is a bounce.
const BOUNCE_SECONDS: i64 = 10;
const NO_TEXT: u32 = u32::MAX;

/// A session property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Duration,
    Pageviews,
    Autocaptures,
    Screens,
    IsBounce,
    Start,
    End,
    /// Number of distinct URLs.
    Urls,
    /// Channel type, derived from the entry values of [`ORIGINS`].
    Channel,
    /// First value of an event property in the session.
    Entry(&'static str, UrlPart),
    /// Last value of an event property in the session.
    Exit(&'static str, UrlPart),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UrlPart {
    Whole,
    Path,
    Host,
}

const URL: &str = "$current_url";

/// Event properties that decide the channel type.
const ORIGINS: [&str; 6] =
    ["utm_source", "utm_medium", "utm_campaign", "$referring_domain", "gclid", "gad_source"];

impl Field {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "$session_duration" => Self::Duration,
            "$pageview_count" => Self::Pageviews,
            "$autocapture_count" => Self::Autocaptures,
            "$screen_count" => Self::Screens,
            "$is_bounce" => Self::IsBounce,
            "$start_timestamp" => Self::Start,
            "$end_timestamp" => Self::End,
            "$num_uniq_urls" => Self::Urls,
            "$channel_type" => Self::Channel,
            "$entry_current_url" => Self::Entry(URL, UrlPart::Whole),
            "$entry_pathname" => Self::Entry(URL, UrlPart::Path),
            "$entry_hostname" => Self::Entry(URL, UrlPart::Host),
            "$end_current_url" | "$exit_current_url" => Self::Exit(URL, UrlPart::Whole),
            "$end_pathname" | "$exit_pathname" => Self::Exit(URL, UrlPart::Path),
            "$entry_utm_source" => Self::Entry("utm_source", UrlPart::Whole),
            "$entry_utm_campaign" => Self::Entry("utm_campaign", UrlPart::Whole),
            "$entry_utm_medium" => Self::Entry("utm_medium", UrlPart::Whole),
            "$entry_utm_term" => Self::Entry("utm_term", UrlPart::Whole),
            "$entry_utm_content" => Self::Entry("utm_content", UrlPart::Whole),
            "$entry_referring_domain" => Self::Entry("$referring_domain", UrlPart::Whole),
            "$entry_gclid" => Self::Entry("gclid", UrlPart::Whole),
            "$entry_fbclid" => Self::Entry("fbclid", UrlPart::Whole),
            "$entry_gad_source" => Self::Entry("gad_source", UrlPart::Whole),
            "$last_external_click_url" => Self::Exit("$external_click_url", UrlPart::Whole),
            "$vitals_lcp" => Self::Entry("$web_vitals_LCP_value", UrlPart::Whole),
            other => {
                let detail = format!("Sessions cannot be asked for their '{other}' here.");
                return Err(Error::Invalid(detail));
            }
        })
    }

    fn property(self) -> Option<&'static str> {
        match self {
            Self::Entry(name, _) | Self::Exit(name, _) => Some(name),
            Self::Urls => Some(URL),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Session {
    start: i64,
    end: i64,
    pageviews: u32,
    autocaptures: u32,
    screens: u32,
    text: u32,
    /// Timestamp of the event that has `text`.
    at: i64,
}

const EMPTY: Session = Session {
    start: i64::MAX,
    end: i64::MIN,
    pageviews: 0,
    autocaptures: 0,
    screens: 0,
    text: NO_TEXT,
    at: 0,
};

impl Session {
    fn seconds(&self) -> i64 {
        (self.end.div_euclid(SECOND) - self.start.div_euclid(SECOND)).max(0)
    }

    fn merge(&mut self, other: &Self, field: Field) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.pageviews += other.pageviews;
        self.autocaptures += other.autocaptures;
        self.screens += other.screens;
        let better = match field {
            Field::Exit(..) => other.at >= self.at,
            _ => other.at < self.at,
        };
        if other.text != NO_TEXT && (self.text == NO_TEXT || better) {
            (self.text, self.at) = (other.text, other.at);
        }
    }
}

/// One property of all sessions in a time range, indexed by the ids that `ids` assigns.
#[derive(Debug)]
pub(crate) struct Sessions {
    field: Field,
    ids: ActorSource,
    sessions: Vec<Session>,
    texts: StringInterner,
    /// Distinct URLs per session; empty unless the field is [`Field::Urls`].
    counts: Vec<u32>,
    /// For [`Field::Channel`], one table per entry of [`ORIGINS`].
    origins: Vec<Sessions>,
}

#[derive(Default)]
struct SessionScan {
    sessions: Vec<Session>,
    /// (session, URL) pairs for [`Field::Urls`].
    pairs: Vec<u64>,
    events: DictionaryMemo<EventKind>,
    texts: DictionaryMemo<u32>,
}

#[derive(Clone, Copy)]
enum EventKind {
    Pageview,
    Autocapture,
    Screen,
    Other,
}

/// Reads the session fields that filters reference, over all events: an event may belong to any
/// session.
pub(crate) fn session_facts(
    view: &ReadView,
    limits: &QueryLimits,
    fields: &BTreeSet<String>,
) -> Result<Arc<SessionFacts>> {
    if fields.is_empty() {
        return Ok(view.sessions.clone());
    }
    if fields.len() > FIELDS_MAX {
        let detail = format!("Filters may ask for at most {FIELDS_MAX} fields of sessions.");
        return Err(Error::Invalid(detail));
    }
    let mut fields_by_name = SessionFacts::default();
    for name in fields {
        let sessions = Sessions::read(view, limits, name, None)?;
        fields_by_name.insert(name, Arc::new(move |id: &str| sessions.value(id)));
    }
    Ok(Arc::new(fields_by_name))
}

impl Sessions {
    /// Reads a property of the sessions around a time range, or of all sessions.
    pub fn read(
        view: &ReadView,
        limits: &QueryLimits,
        name: &str,
        around: Option<(i64, i64)>,
    ) -> Result<Self> {
        Self::of_field(view, limits, Field::named(name)?, around)
    }

    fn of_field(
        view: &ReadView,
        limits: &QueryLimits,
        field: Field,
        around: Option<(i64, i64)>,
    ) -> Result<Self> {
        let mut origins = Vec::new();
        if field == Field::Channel {
            for name in ORIGINS {
                origins.push(Self::of_field(
                    view,
                    limits,
                    Field::Entry(name, UrlPart::Whole),
                    around,
                )?);
            }
        }
        let (ids, texts) = (ActorSource::sessions(), StringInterner::default());
        let (from, to) = around.unwrap_or((i64::MIN, i64::MAX));
        let from = from.saturating_sub(AROUND_MICROS);
        let to = to.saturating_add(AROUND_MICROS);
        let property = field.property().map(|name| ColumnKey::Property(name.to_owned()));
        let keys = std::iter::once(ColumnKey::Event).chain(property).collect();
        let filter = EventSelection::all().filter(from, to);
        let scan =
            Scan { view, limits, filter, actors: Some(&ids), breakdown: None, keys, uuids: false };
        let new = || (SessionScan::default(), limits.reserve());
        let each = |(own, reservation): &mut (SessionScan, MemoryReservation<'_>),
                    rows: &Rows<'_>| {
            own.add(rows, field, &texts);
            reservation.resize(own.bytes())
        };
        let mut reservation = limits.reserve();
        let (mut sessions, mut pairs): (Vec<Session>, Vec<u64>) = Default::default();
        for (own, _) in scan.fold(new, each)? {
            sessions.resize(sessions.len().max(own.sessions.len()), EMPTY);
            let both = sessions.iter_mut().zip(&own.sessions);
            both.for_each(|(session, own)| session.merge(own, field));
            pairs.extend(own.pairs);
            reservation.resize(pairs.capacity() * 8)?;
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut counts = vec![0; if field == Field::Urls { sessions.len() } else { 0 }];
        pairs.iter().for_each(|pair| counts[(pair >> 32) as usize] += 1);
        Ok(Self { field, ids, sessions, texts, counts, origins })
    }

    fn index_of(&self, id: &str) -> Option<usize> {
        let ActorSource::Column(_, ids) = &self.ids else { return None };
        ids.find(id).map(|index| index as usize).filter(|index| *index < self.sessions.len())
    }

    fn value(&self, id: &str) -> Option<SessionValue> {
        let index = self.index_of(id)?;
        let session = &self.sessions[index];
        let count = |count: u32| Some(SessionValue::Number(f64::from(count)));
        let timestamp = |at: i64| Some(SessionValue::Text(Timestamp::from_micros(at).to_string()));
        match self.field {
            Field::Duration => Some(SessionValue::Number(session.seconds() as f64)),
            Field::Pageviews => count(session.pageviews),
            Field::Autocaptures => count(session.autocaptures),
            Field::Screens => count(session.screens),
            Field::IsBounce => Some(SessionValue::Bool(is_bounce(session))),
            Field::Start => timestamp(session.start),
            Field::End => timestamp(session.end),
            Field::Urls => count(self.counts[index]),
            Field::Channel => {
                let origin = |name: &str| {
                    let at = ORIGINS.iter().position(|origin| *origin == name)?;
                    self.origins.get(at)?.text(id)
                };
                Some(SessionValue::Text(facts::channel_type(origin).to_owned()))
            }
            Field::Entry(..) | Field::Exit(..) => {
                let text = (session.text != NO_TEXT).then(|| self.texts.get(session.text));
                text.map(SessionValue::Text)
            }
        }
    }

    /// The property as a string.
    pub fn text(&self, id: &str) -> Option<String> {
        Some(match self.value(id)? {
            SessionValue::Text(text) => text,
            SessionValue::Number(number) => number.to_string(),
            SessionValue::Bool(truth) => truth.to_string(),
        })
    }

    /// The property as a number; booleans are 0 and 1.
    pub fn number(&self, id: &str) -> Option<f64> {
        match self.value(id)? {
            SessionValue::Number(number) => Some(number),
            SessionValue::Bool(truth) => Some(f64::from(u8::from(truth))),
            SessionValue::Text(text) => number(Value::Text(&text)),
        }
    }
}

fn is_bounce(session: &Session) -> bool {
    session.pageviews <= 1 && session.autocaptures == 0 && session.seconds() < BOUNCE_SECONDS
}

impl SessionScan {
    fn bytes(&self) -> usize {
        self.sessions.capacity() * size_of::<Session>() + self.pairs.capacity() * 8
    }

    fn add(&mut self, rows: &Rows<'_>, field: Field, texts: &StringInterner) {
        let names = self.events.each_row(&rows.columns[0], EventKind::Other, |event| match event {
            Value::Text("$pageview") => EventKind::Pageview,
            Value::Text("$autocapture") => EventKind::Autocapture,
            Value::Text("$screen") => EventKind::Screen,
            _ => EventKind::Other,
        });
        let number = |value: Value<'_>| {
            let part = match field {
                Field::Entry(_, of) | Field::Exit(_, of) => {
                    text(value).and_then(|text| of.read(text))
                }
                Field::Urls => text(value),
                _ => None,
            };
            part.map_or(NO_TEXT, |text| texts.intern(text))
        };
        let values = match rows.columns.get(1) {
            Some(column) => self.texts.each_row(column, NO_TEXT, number),
            None => vec![NO_TEXT; rows.len()],
        };
        for (row, name) in names.into_iter().enumerate() {
            let (session, at) = (rows.actor(row) as usize, rows.times[row]);
            if session >= self.sessions.len() {
                self.sessions.resize(session + 1, EMPTY);
            }
            let count = |is_it: bool| u32::from(is_it);
            let one = Session {
                start: at,
                end: at,
                pageviews: count(matches!(name, EventKind::Pageview)),
                autocaptures: count(matches!(name, EventKind::Autocapture)),
                screens: count(matches!(name, EventKind::Screen)),
                text: values[row],
                at,
            };
            self.sessions[session].merge(&one, field);
            if field == Field::Urls && one.text != NO_TEXT {
                self.pairs.push((session as u64) << 32 | u64::from(one.text));
            }
        }
    }
}

impl UrlPart {
    fn read(self, url: &str) -> Option<&str> {
        let part = match self {
            Self::Whole => url,
            Self::Host => facts::url_host(url),
            Self::Path => facts::url_path(url),
        };
        (!part.is_empty()).then_some(part)
    }
}
