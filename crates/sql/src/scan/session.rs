//! One session, accumulated from its events.

/// The code of a missing string.
pub(super) const NONE: u32 = u32::MAX;

/// Distinct URLs of one session that are stored.
const URLS_MAX: usize = 1_000;

const MICROS: i64 = 1_000_000;
/// Sessions shorter than this, without a second pageview or an autocapture, are bounces
/// (contract, 5.4).
const BOUNCE_SECONDS: u64 = 10;

/// Properties whose first value in a session is stored.
pub(super) const ENTRY_PROPERTIES: [&str; 11] = [
    "$current_url",
    "utm_source",
    "utm_campaign",
    "utm_medium",
    "utm_term",
    "utm_content",
    "$referring_domain",
    "gclid",
    "fbclid",
    "gad_source",
    "$web_vitals_LCP_value",
];
/// Properties whose last value in a session is stored.
pub(super) const EXIT_PROPERTIES: [&str; 2] = ["$current_url", "$external_click_url"];

#[derive(Clone, Copy)]
struct TimestampedString {
    at: i64,
    text: u32,
}

pub(super) struct Session {
    pub distinct_id: u32,
    distinct_at: i64,
    pub start: i64,
    pub end: i64,
    pub inserted: i64,
    pub urls: Vec<u32>,
    entries: [TimestampedString; ENTRY_PROPERTIES.len()],
    exits: [TimestampedString; EXIT_PROPERTIES.len()],
    pub pageviews: u64,
    pub autocaptures: u64,
    pub screens: u64,
}

/// What a session reads of an event.
pub(super) struct Event<'a> {
    pub name: &'a str,
    pub at: i64,
    pub inserted: i64,
    pub distinct_id: u32,
    pub entries: [u32; ENTRY_PROPERTIES.len()],
    pub exits: [u32; EXIT_PROPERTIES.len()],
}

impl Session {
    pub(super) fn new() -> Self {
        Self {
            distinct_id: NONE,
            distinct_at: i64::MAX,
            start: i64::MAX,
            end: i64::MIN,
            inserted: i64::MIN,
            urls: Vec::new(),
            entries: [TimestampedString { at: i64::MAX, text: NONE }; ENTRY_PROPERTIES.len()],
            exits: [TimestampedString { at: i64::MIN, text: NONE }; EXIT_PROPERTIES.len()],
            pageviews: 0,
            autocaptures: 0,
            screens: 0,
        }
    }

    pub(super) fn add(&mut self, event: &Event<'_>) {
        let at = event.at;
        self.start = self.start.min(at);
        self.end = self.end.max(at);
        self.inserted = self.inserted.max(event.inserted);
        if at < self.distinct_at {
            (self.distinct_at, self.distinct_id) = (at, event.distinct_id);
        }
        for (entry, text) in self.entries.iter_mut().zip(event.entries) {
            if text != NONE && at < entry.at {
                *entry = TimestampedString { at, text };
            }
        }
        for (exit, text) in self.exits.iter_mut().zip(event.exits) {
            if text != NONE && at >= exit.at {
                *exit = TimestampedString { at, text };
            }
        }
        let url = event.entries[0];
        if url != NONE && self.urls.len() < URLS_MAX && !self.urls.contains(&url) {
            self.urls.push(url);
        }
        match event.name {
            "$pageview" => self.pageviews += 1,
            "$autocapture" => self.autocaptures += 1,
            "$screen" => self.screens += 1,
            _ => {}
        }
    }

    pub(super) fn entry(&self, name: &str) -> u32 {
        let at = ENTRY_PROPERTIES.iter().position(|property| *property == name);
        at.map_or(NONE, |at| self.entries[at].text)
    }

    pub(super) fn exit(&self, name: &str) -> u32 {
        let at = EXIT_PROPERTIES.iter().position(|property| *property == name);
        at.map_or(NONE, |at| self.exits[at].text)
    }

    /// The duration: the difference of the two timestamps' whole seconds.
    pub(super) fn seconds(&self) -> u64 {
        (self.end.div_euclid(MICROS) - self.start.div_euclid(MICROS)).max(0) as u64
    }

    pub(super) fn is_bounce(&self) -> bool {
        self.pageviews <= 1 && self.autocaptures == 0 && self.seconds() < BOUNCE_SECONDS
    }
}
