//! Parts of sessions: what statements read of them, with a value for each session. A statement
//! computes only the parts that its columns show.

use std::sync::Arc;

use warehouse::{ABSENT, Batch, Column, ColumnKey, Dictionary, Interner, Value};

use super::dictionary_strings::text;

/// The code of a missing string, and the row of an event without a session.
pub(super) const NONE: u32 = u32::MAX;
/// An entry without a code yet. No query has the memory for this many strings or sessions.
const UNKNOWN: u32 = NONE - 1;

/// Distinct URLs of one session that are stored.
const URLS_MAX: usize = 1_000;

const URL: &str = "$current_url";
const CLICK: &str = "$external_click_url";
const LCP: &str = "$web_vitals_LCP_value";
/// Properties that decide the channel type.
const ORIGINS: [&str; 6] =
    ["utm_source", "utm_medium", "utm_campaign", "$referring_domain", "gclid", "gad_source"];
/// Other properties whose first value in a session is shown.
const ENTRIES: [&str; 9] = [
    "utm_source",
    "utm_campaign",
    "utm_medium",
    "utm_term",
    "utm_content",
    "$referring_domain",
    "gclid",
    "fbclid",
    "gad_source",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The first and the last timestamp.
    Span,
    InsertedAt,
    /// The numbers of pageviews, autocaptures and screens.
    Counts,
    /// The first distinct id.
    DistinctId,
    /// The dense id of the first distinct id.
    DistinctNo,
    /// Distinct URLs.
    Urls,
    /// The first value of a property.
    First(&'static str),
    /// The last value of a property.
    Last(&'static str),
}

impl Part {
    pub(super) const FIRST_URL: Self = Self::First(URL);
    pub(super) const LAST_URL: Self = Self::Last(URL);
    pub(super) const LAST_CLICK: Self = Self::Last(CLICK);
    pub(super) const FIRST_LCP: Self = Self::First(LCP);

    /// What a column of sessions shows; none for an unknown one.
    pub(super) fn of_column(column: &str) -> Option<Vec<Self>> {
        Some(match column {
            "session_id" | "team_id" => Vec::new(),
            "distinct_id" => vec![Self::DistinctId],
            "person_id" => vec![Self::DistinctNo],
            "$start_timestamp" | "$end_timestamp" | "$session_duration" => vec![Self::Span],
            "max_inserted_at" => vec![Self::InsertedAt],
            "$num_uniq_urls" | "$urls" => vec![Self::Urls],
            "$entry_current_url" | "$entry_pathname" | "$entry_hostname" => vec![Self::FIRST_URL],
            "$end_current_url" | "$exit_current_url" | "$end_pathname" | "$exit_pathname" => {
                vec![Self::LAST_URL]
            }
            "$pageview_count" | "$autocapture_count" | "$screen_count" => vec![Self::Counts],
            "$is_bounce" => vec![Self::Span, Self::Counts],
            "$channel_type" => ORIGINS.map(Self::First).to_vec(),
            "$last_external_click_url" => vec![Self::LAST_CLICK],
            "$vitals_lcp" => vec![Self::FIRST_LCP],
            other => vec![Self::entry(other)?],
        })
    }

    /// The first value that a column `$entry_…` shows.
    pub(super) fn entry(column: &str) -> Option<Self> {
        let name = column.strip_prefix("$entry_")?;
        let property = ENTRIES.iter().find(|entry| entry.trim_start_matches('$') == name)?;
        Some(Self::First(property))
    }

    /// The first value of a property that decides the channel type.
    pub(super) fn origin(name: &str) -> Option<Self> {
        Some(Self::First(ORIGINS.iter().find(|origin| **origin == name)?))
    }

    /// The column of events that it is computed from, besides their times.
    pub(super) fn key(self) -> Option<ColumnKey> {
        let property = |name: &str| Some(ColumnKey::Property(name.to_owned()));
        match self {
            Self::Span | Self::InsertedAt | Self::DistinctNo => None,
            Self::Counts => Some(ColumnKey::Event),
            Self::DistinctId => Some(ColumnKey::DistinctId),
            Self::Urls => property(URL),
            Self::First(name) | Self::Last(name) => property(name),
        }
    }

    pub(super) const fn reads_time(self) -> bool {
        !matches!(self, Self::InsertedAt | Self::Counts | Self::Urls)
    }

    /// Of no session.
    pub(super) fn empty(self) -> Values {
        match self {
            Self::Span => Values::Span { first: Vec::new(), last: Vec::new() },
            Self::InsertedAt => Values::InsertedAt(Vec::new()),
            Self::DistinctNo => Values::DistinctNos { times: Vec::new(), nos: Vec::new() },
            Self::Counts => Values::Counts(Vec::new()),
            Self::Urls => Values::Urls { lists: Vec::new(), strings: Interner::default() },
            Self::DistinctId | Self::First(_) => Values::Strings(Strings::default()),
            Self::Last(_) => Values::Strings(Strings { last: true, ..Strings::default() }),
        }
    }
}

/// A part of sessions, by the sessions' rows.
#[derive(Clone)]
pub(super) enum Values {
    Span {
        first: Vec<i64>,
        last: Vec<i64>,
    },
    InsertedAt(Vec<i64>),
    /// Of the first events, and their times.
    DistinctNos {
        times: Vec<i64>,
        nos: Vec<u32>,
    },
    Counts(Vec<[u32; 3]>),
    Strings(Strings),
    Urls {
        lists: Vec<Vec<u32>>,
        strings: Interner,
    },
}

/// The first or the last string of each session, and its time.
#[derive(Clone, Default)]
pub(super) struct Strings {
    last: bool,
    times: Vec<i64>,
    pub codes: Vec<u32>,
    pub strings: Interner,
}

impl Strings {
    /// The string of a code; none for [`NONE`].
    pub(super) fn get(&self, code: u32) -> Option<&str> {
        string(&self.strings, code)
    }
}

pub(super) fn string(strings: &Interner, code: u32) -> Option<&str> {
    match code {
        NONE => None,
        code => match strings.dictionary.get(code) {
            Value::Text(text) => Some(text),
            _ => None,
        },
    }
}

/// Codes of the strings of a dictionary's entries, of those that rows use: ranges of one row group
/// follow each other and share the dictionary.
#[derive(Default)]
pub(super) struct EntryCodes {
    dictionary: Option<Arc<Dictionary>>,
    codes: Vec<u32>,
}

impl EntryCodes {
    /// Finds the codes of the entries that the column uses. Returns what it knew of another
    /// dictionary.
    pub(super) fn fill(
        &mut self,
        column: &Column,
        code_of: &mut dyn FnMut(&str) -> u32,
    ) -> Option<(Arc<Dictionary>, Vec<u32>)> {
        let dictionary = &column.dictionary;
        let mut before = None;
        if !self.dictionary.as_ref().is_some_and(|known| Arc::ptr_eq(known, dictionary)) {
            before = self.take();
            self.codes = vec![UNKNOWN; dictionary.len()];
            self.dictionary = Some(dictionary.clone());
        }
        let known = &mut self.codes;
        let mut new = Vec::new();
        let is_known = |code: u32| known[code as usize] != UNKNOWN;
        dictionary.for_each_used(&column.codes, is_known, |code| new.push(code));
        for code in new {
            let text = text(dictionary.get(code), &[]);
            known[code as usize] = text.map_or(NONE, |text| code_of(&text));
        }
        before
    }

    /// The dictionary and its entries' codes; [`NONE`] for entries that no row uses.
    pub(super) fn take(&mut self) -> Option<(Arc<Dictionary>, Vec<u32>)> {
        let mut codes = std::mem::take(&mut self.codes);
        codes.iter_mut().filter(|code| **code == UNKNOWN).for_each(|code| *code = NONE);
        Some((self.dictionary.take()?, codes))
    }

    pub(super) fn get(&self, code: u32) -> u32 {
        if code == ABSENT { NONE } else { self.codes[code as usize] }
    }
}

impl Values {
    /// Takes in events, given the row of each one's session, of so many sessions. `column` is that of
    /// [`Part::key`].
    pub(super) fn add(
        &mut self,
        rows: &[u32],
        sessions: usize,
        batch: &Batch,
        column: Option<&Column>,
        entries: &mut EntryCodes,
    ) {
        let with_session = || rows.iter().map(|row| *row as usize).enumerate();
        let with_session = || with_session().filter(|(_, row)| *row != NONE as usize);
        match (self, column) {
            (Self::Span { first, last }, _) => {
                first.resize(sessions, i64::MAX);
                last.resize(sessions, i64::MIN);
                for (at, row) in with_session() {
                    let time = batch.timestamps[at];
                    first[row] = first[row].min(time);
                    last[row] = last[row].max(time);
                }
            }
            (Self::InsertedAt(times), _) => {
                times.resize(sessions, i64::MIN);
                for (at, row) in with_session() {
                    times[row] = times[row].max(batch.created_at[at]);
                }
            }
            (Self::DistinctNos { times, nos }, _) => {
                times.resize(sessions, i64::MAX);
                nos.resize(sessions, 0);
                for (at, row) in with_session() {
                    if batch.timestamps[at] < times[row] {
                        (times[row], nos[row]) = (batch.timestamps[at], batch.distinct_nos[at]);
                    }
                }
            }
            (Self::Counts(counts), Some(events)) => {
                counts.resize(sessions, [0; 3]);
                let kind = |name: Value<'_>| match name {
                    Value::Text("$pageview") => Some(0),
                    Value::Text("$autocapture") => Some(1),
                    Value::Text("$screen") => Some(2),
                    _ => None,
                };
                let kinds: Vec<Option<usize>> = events.dictionary.iter().map(kind).collect();
                for (at, row) in with_session() {
                    let code = events.codes[at];
                    if let Some(kind) = kinds.get(code as usize).copied().flatten() {
                        counts[row][kind] = counts[row][kind].saturating_add(1);
                    }
                }
            }
            (Self::Strings(Strings { last, times, codes, strings }), Some(column)) => {
                let unset = if *last { i64::MIN } else { i64::MAX };
                times.resize(sessions, unset);
                codes.resize(sessions, NONE);
                entries.fill(column, &mut |text| strings.intern(Value::Text(text)));
                for (at, row) in with_session() {
                    let (time, text) = (batch.timestamps[at], entries.get(column.codes[at]));
                    let is_better = if *last { time >= times[row] } else { time < times[row] };
                    if text != NONE && is_better {
                        (times[row], codes[row]) = (time, text);
                    }
                }
            }
            (Self::Urls { lists, strings }, Some(column)) => {
                lists.resize(sessions, Vec::new());
                entries.fill(column, &mut |text| strings.intern(Value::Text(text)));
                for (at, row) in with_session() {
                    let (url, urls) = (entries.get(column.codes[at]), &mut lists[row]);
                    if url != NONE && urls.len() < URLS_MAX && !urls.contains(&url) {
                        urls.push(url);
                    }
                }
            }
            // These have a column.
            (Self::Counts(_) | Self::Strings(_) | Self::Urls { .. }, None) => {}
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of = |strings: &Interner| strings.dictionary.memory_bytes() + strings.table_bytes();
        match self {
            Self::Span { first, last } => (first.capacity() + last.capacity()) * size_of::<i64>(),
            Self::InsertedAt(times) => times.capacity() * size_of::<i64>(),
            Self::DistinctNos { times, nos } => {
                times.capacity() * size_of::<i64>() + nos.capacity() * size_of::<u32>()
            }
            Self::Counts(counts) => counts.capacity() * size_of::<[u32; 3]>(),
            Self::Strings(Strings { times, codes, strings, .. }) => {
                times.capacity() * size_of::<i64>()
                    + codes.capacity() * size_of::<u32>()
                    + of(strings)
            }
            Self::Urls { lists, strings } => {
                let each = lists.iter().map(|list| list.capacity() * size_of::<u32>());
                lists.capacity() * size_of::<Vec<u32>>() + each.sum::<usize>() + of(strings)
            }
        }
    }
}
