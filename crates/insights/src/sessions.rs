//! What is known of sessions: a session is all events with its id.

use std::collections::BTreeSet;
use std::sync::Arc;

use facts::{ReadView, SessionFacts, SessionValue};
use model::Timestamp;
use warehouse::{Key, Value};

use crate::context::EventSelection;
use crate::limits::{MemoryReservation, QueryLimits};
use crate::scan::{Actors, Entries, Rows, Scan, Texts, number, text};
use crate::{Error, Result};

/// Sessions are looked at this far around a period: SDKs end them after a day.
const AROUND_MICROS: i64 = 86_400_000_000;
/// Fields that the filters of one question may name: each is a look through the events.
const FIELDS_MAX: usize = 10;
const SECOND: i64 = 1_000_000;
/// Shorter visits without a second page or a click are bounces.
const BOUNCE_SECONDS: i64 = 10;
const NO_TEXT: u32 = u32::MAX;

/// One thing that is known of every session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Duration,
    Pageviews,
    Autocaptures,
    Screens,
    IsBounce,
    Start,
    End,
    /// How many different addresses it saw.
    Urls,
    /// Where it came from, out of several entries.
    Channel,
    /// The first value of a property.
    Entry(&'static str, Of),
    /// The last one.
    Exit(&'static str, Of),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Whole,
    Path,
    Host,
}

const URL: &str = "$current_url";

/// What a channel is decided by.
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
            "$entry_current_url" => Self::Entry(URL, Of::Whole),
            "$entry_pathname" => Self::Entry(URL, Of::Path),
            "$entry_hostname" => Self::Entry(URL, Of::Host),
            "$end_current_url" | "$exit_current_url" => Self::Exit(URL, Of::Whole),
            "$end_pathname" | "$exit_pathname" => Self::Exit(URL, Of::Path),
            "$entry_utm_source" => Self::Entry("utm_source", Of::Whole),
            "$entry_utm_campaign" => Self::Entry("utm_campaign", Of::Whole),
            "$entry_utm_medium" => Self::Entry("utm_medium", Of::Whole),
            "$entry_utm_term" => Self::Entry("utm_term", Of::Whole),
            "$entry_utm_content" => Self::Entry("utm_content", Of::Whole),
            "$entry_referring_domain" => Self::Entry("$referring_domain", Of::Whole),
            "$entry_gclid" => Self::Entry("gclid", Of::Whole),
            "$entry_fbclid" => Self::Entry("fbclid", Of::Whole),
            "$entry_gad_source" => Self::Entry("gad_source", Of::Whole),
            "$last_external_click_url" => Self::Exit("$external_click_url", Of::Whole),
            "$vitals_lcp" => Self::Entry("$web_vitals_LCP_value", Of::Whole),
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
    /// When the text was there.
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

    fn absorb(&mut self, other: &Self, field: Field) {
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

/// All sessions around a period, by the numbers that `ids` gives them.
#[derive(Debug)]
pub(crate) struct Sessions {
    field: Field,
    ids: Actors,
    sessions: Vec<Session>,
    texts: Texts,
    /// How many different texts each session has, where that is asked for.
    counts: Vec<u32>,
    /// Of a channel, its [`ORIGINS`].
    origins: Vec<Sessions>,
}

#[derive(Default)]
struct Reading {
    sessions: Vec<Session>,
    /// Sessions and their texts, where they are counted.
    pairs: Vec<u64>,
    events: Entries<Name>,
    texts: Entries<u32>,
}

#[derive(Clone, Copy)]
enum Name {
    Pageview,
    Autocapture,
    Screen,
    Other,
}

/// What filters ask of sessions: of all of them, since an event may belong to any.
pub(crate) fn facts(
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
    let mut facts = SessionFacts::default();
    for name in fields {
        let sessions = Sessions::read(view, limits, name, None)?;
        facts.insert(name, Arc::new(move |id: &str| sessions.value(id)));
    }
    Ok(Arc::new(facts))
}

impl Sessions {
    /// Of the sessions around two moments, or of all.
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
                origins.push(Self::of_field(view, limits, Field::Entry(name, Of::Whole), around)?);
            }
        }
        let (ids, texts) = (Actors::sessions(), Texts::default());
        let (from, to) = around.unwrap_or((i64::MIN, i64::MAX));
        let from = from.saturating_sub(AROUND_MICROS);
        let to = to.saturating_add(AROUND_MICROS);
        let property = field.property().map(|name| Key::Property(name.to_owned()));
        let keys = std::iter::once(Key::Event).chain(property).collect();
        let filter = EventSelection::everything().filter(from, to);
        let scan = Scan { view, limits, filter, actors: Some(&ids), breakdown: None, keys };
        let new = || (Reading::default(), limits.reserve());
        let each = |(own, reservation): &mut (Reading, MemoryReservation<'_>), rows: &Rows<'_>| {
            own.add(rows, field, &texts);
            reservation.resize(own.bytes())
        };
        let mut reservation = limits.reserve();
        let (mut sessions, mut pairs): (Vec<Session>, Vec<u64>) = Default::default();
        for (own, _) in scan.fold(new, each)? {
            sessions.resize(sessions.len().max(own.sessions.len()), EMPTY);
            let both = sessions.iter_mut().zip(&own.sessions);
            both.for_each(|(session, own)| session.absorb(own, field));
            pairs.extend(own.pairs);
            reservation.resize(pairs.capacity() * 8)?;
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut counts = vec![0; if field == Field::Urls { sessions.len() } else { 0 }];
        pairs.iter().for_each(|pair| counts[(pair >> 32) as usize] += 1);
        Ok(Self { field, ids, sessions, texts, counts, origins })
    }

    fn number_of(&self, id: &str) -> Option<usize> {
        let Actors::Texts(_, ids) = &self.ids else { return None };
        ids.find(id).map(|number| number as usize).filter(|number| *number < self.sessions.len())
    }

    fn value(&self, id: &str) -> Option<SessionValue> {
        let number = self.number_of(id)?;
        let session = &self.sessions[number];
        let count = |count: u32| Some(SessionValue::Number(f64::from(count)));
        let moment = |at: i64| Some(SessionValue::Text(Timestamp::from_micros(at).to_string()));
        match self.field {
            Field::Duration => Some(SessionValue::Number(session.seconds() as f64)),
            Field::Pageviews => count(session.pageviews),
            Field::Autocaptures => count(session.autocaptures),
            Field::Screens => count(session.screens),
            Field::IsBounce => Some(SessionValue::Bool(is_bounce(session))),
            Field::Start => moment(session.start),
            Field::End => moment(session.end),
            Field::Urls => count(self.counts[number]),
            Field::Channel => {
                let origin = |name: &str| {
                    let at = ORIGINS.iter().position(|own| *own == name)?;
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

    /// What is known of a session, as a text.
    pub fn text(&self, id: &str) -> Option<String> {
        Some(match self.value(id)? {
            SessionValue::Text(text) => text,
            SessionValue::Number(number) => number.to_string(),
            SessionValue::Bool(truth) => truth.to_string(),
        })
    }

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

impl Reading {
    fn bytes(&self) -> usize {
        self.sessions.capacity() * size_of::<Session>() + self.pairs.capacity() * 8
    }

    fn add(&mut self, rows: &Rows<'_>, field: Field, texts: &Texts) {
        let names = self.events.each_row(&rows.columns[0], Name::Other, |event| match event {
            Value::Text("$pageview") => Name::Pageview,
            Value::Text("$autocapture") => Name::Autocapture,
            Value::Text("$screen") => Name::Screen,
            _ => Name::Other,
        });
        let number = |value: Value<'_>| {
            let part = match field {
                Field::Entry(_, of) | Field::Exit(_, of) => {
                    text(value).and_then(|text| of.read(text))
                }
                Field::Urls => text(value),
                _ => None,
            };
            part.map_or(NO_TEXT, |text| texts.number(text))
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
                pageviews: count(matches!(name, Name::Pageview)),
                autocaptures: count(matches!(name, Name::Autocapture)),
                screens: count(matches!(name, Name::Screen)),
                text: values[row],
                at,
            };
            self.sessions[session].absorb(&one, field);
            if field == Field::Urls && one.text != NO_TEXT {
                self.pairs.push((session as u64) << 32 | u64::from(one.text));
            }
        }
    }
}

impl Of {
    fn read(self, url: &str) -> Option<&str> {
        let part = match self {
            Self::Whole => url,
            Self::Host => facts::url_host(url),
            Self::Path => facts::url_path(url),
        };
        (!part.is_empty()).then_some(part)
    }
}
