//! What is known of sessions: a session is all events with its id.

use warehouse::{Key, Value};

use crate::question::{Meant, Question};
use crate::scan::{Actors, Entries, Rows, Scan, Texts, text};
use crate::stop::Held;
use crate::{Error, Result};

/// Sessions are looked at this far around a period: SDKs end them after a day.
const AROUND_MICROS: i64 = 86_400_000_000;
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

impl Field {
    fn named(name: &str) -> Result<Self> {
        const URL: &str = "$current_url";
        Ok(match name {
            "$session_duration" => Self::Duration,
            "$pageview_count" => Self::Pageviews,
            "$autocapture_count" => Self::Autocaptures,
            "$screen_count" => Self::Screens,
            "$is_bounce" => Self::IsBounce,
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
            other => {
                let detail = format!("Sessions cannot be asked for their '{other}' here.");
                return Err(Error::Invalid(detail));
            }
        })
    }

    fn property(self) -> Option<&'static str> {
        match self {
            Self::Entry(name, _) | Self::Exit(name, _) => Some(name),
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

/// All sessions around a period, by the numbers that `actors` gives them.
#[derive(Debug)]
pub(crate) struct Sessions {
    field: Field,
    ids: Actors,
    sessions: Vec<Session>,
    texts: Texts,
}

#[derive(Default)]
struct Reading {
    sessions: Vec<Session>,
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

impl Sessions {
    /// Of the sessions around two moments.
    pub fn read(question: &Question<'_>, name: &str, from: i64, to: i64) -> Result<Self> {
        let field = Field::named(name)?;
        let (ids, texts) = (Actors::sessions(), Texts::default());
        let from = from.saturating_sub(AROUND_MICROS);
        let to = to.saturating_add(AROUND_MICROS);
        let property = field.property().map(|name| Key::Property(name.to_owned()));
        let keys = std::iter::once(Key::Event).chain(property).collect();
        let scan = question.scan(Meant::everything().filter(from, to));
        let scan = Scan { actors: Some(&ids), keys, ..scan };
        let new = || (Reading::default(), question.stop.hold());
        let each = |(own, held): &mut (Reading, Held<'_>), rows: &Rows<'_>| {
            own.add(rows, field, &texts);
            held.set(own.sessions.capacity() * size_of::<Session>())
        };
        let mut sessions: Vec<Session> = Vec::new();
        for (own, _) in scan.fold(new, each)? {
            sessions.resize(sessions.len().max(own.sessions.len()), EMPTY);
            let both = sessions.iter_mut().zip(&own.sessions);
            both.for_each(|(session, own)| session.absorb(own, field));
        }
        Ok(Self { field, ids, sessions, texts })
    }

    fn session(&self, id: &str) -> Option<&Session> {
        let Actors::Texts(_, ids) = &self.ids else { return None };
        self.sessions.get(ids.number(id) as usize)
    }

    /// What is known of a session, as a text.
    pub fn text(&self, id: &str) -> Option<String> {
        let session = self.session(id)?;
        match self.field {
            Field::IsBounce => Some(is_bounce(session).to_string()),
            Field::Entry(..) | Field::Exit(..) => {
                (session.text != NO_TEXT).then(|| self.texts.get(session.text))
            }
            _ => self.number(id).map(|number| number.to_string()),
        }
    }

    pub fn number(&self, id: &str) -> Option<f64> {
        let session = self.session(id)?;
        match self.field {
            Field::Duration => Some(session.seconds() as f64),
            Field::Pageviews => Some(f64::from(session.pageviews)),
            Field::Autocaptures => Some(f64::from(session.autocaptures)),
            Field::Screens => Some(f64::from(session.screens)),
            Field::IsBounce => Some(f64::from(u8::from(is_bounce(session)))),
            Field::Entry(..) | Field::Exit(..) => None,
        }
    }
}

fn is_bounce(session: &Session) -> bool {
    session.pageviews <= 1 && session.autocaptures == 0 && session.seconds() < BOUNCE_SECONDS
}

impl Reading {
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
        }
    }
}

impl Of {
    fn read(self, url: &str) -> Option<&str> {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let part = match self {
            Self::Whole => url,
            Self::Host => &rest[..host],
            Self::Path => {
                let path = &rest[host..];
                &path[..path.find(['?', '#']).unwrap_or(path.len())]
            }
        };
        (!part.is_empty()).then_some(part)
    }
}
