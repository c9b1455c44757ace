//! One session, as its events are met.

/// A text, or none.
pub(super) const NONE: u32 = u32::MAX;

/// Different addresses of one session that are kept.
const URLS_MAX: usize = 1_000;

const MICROS: i64 = 1_000_000;
/// Shorter visits without a second page or a click are bounces (contract, 5.4).
const BOUNCE_SECONDS: u64 = 10;

/// Properties whose first value in a session is kept.
pub(super) const ENTRIES: [&str; 11] = [
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
/// Properties whose last value is kept.
pub(super) const EXITS: [&str; 2] = ["$current_url", "$external_click_url"];

#[derive(Clone, Copy)]
struct Dated {
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
    entries: [Dated; ENTRIES.len()],
    exits: [Dated; EXITS.len()],
    pub pageviews: u64,
    pub autocaptures: u64,
    pub screens: u64,
}

/// What of an event a session wants to know.
pub(super) struct Event<'a> {
    pub name: &'a str,
    pub at: i64,
    pub inserted: i64,
    pub distinct_id: u32,
    pub entries: [u32; ENTRIES.len()],
    pub exits: [u32; EXITS.len()],
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
            entries: [Dated { at: i64::MAX, text: NONE }; ENTRIES.len()],
            exits: [Dated { at: i64::MIN, text: NONE }; EXITS.len()],
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
        for (own, text) in self.entries.iter_mut().zip(event.entries) {
            if text != NONE && at < own.at {
                *own = Dated { at, text };
            }
        }
        for (own, text) in self.exits.iter_mut().zip(event.exits) {
            if text != NONE && at >= own.at {
                *own = Dated { at, text };
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
        let at = ENTRIES.iter().position(|own| *own == name);
        at.map_or(NONE, |at| self.entries[at].text)
    }

    pub(super) fn exit(&self, name: &str) -> u32 {
        let at = EXITS.iter().position(|own| *own == name);
        at.map_or(NONE, |at| self.exits[at].text)
    }

    /// Seconds that began in it.
    pub(super) fn seconds(&self) -> u64 {
        (self.end.div_euclid(MICROS) - self.start.div_euclid(MICROS)).max(0) as u64
    }

    pub(super) fn is_bounce(&self) -> bool {
        self.pageviews <= 1 && self.autocaptures == 0 && self.seconds() < BOUNCE_SECONDS
    }
}

/// From where a visit came, by the names that upstream gives its channels.
pub(super) fn channel(of: impl Fn(&str) -> Option<String>) -> &'static str {
    let lower = |name: &str| of(name).map(|text| text.to_lowercase()).unwrap_or_default();
    let (source, medium) = (lower("utm_source"), lower("utm_medium"));
    let (campaign, referrer) = (lower("utm_campaign"), lower("$referring_domain"));
    let has_click_id = ["gclid", "gad_source"].iter().any(|name| of(name).is_some());
    let paid_medium = matches!(
        medium.as_str(),
        "cpc" | "cpm" | "cpv" | "cpa" | "ppc" | "retargeting" | "display" | "banner"
    ) || medium.starts_with("paid");
    let origin = [source.as_str(), referrer.as_str()].into_iter().find_map(kind_of);
    if campaign == "cross-network" {
        return "Cross Network";
    }
    if has_click_id || paid_medium {
        return match origin {
            Some(Origin::Search) => "Paid Search",
            Some(Origin::Social) => "Paid Social",
            Some(Origin::Video) => "Paid Video",
            Some(Origin::Shopping) => "Paid Shopping",
            None if has_click_id => "Paid Search",
            None if matches!(medium.as_str(), "display" | "banner" | "cpm") => "Display",
            None => "Paid Unknown",
        };
    }
    match medium.as_str() {
        "email" | "e-mail" | "newsletter" => return "Email",
        "affiliate" => return "Affiliate",
        "audio" => return "Audio",
        "sms" => return "SMS",
        "push" | "mobile" | "notification" => return "Push",
        "referral" => return "Referral",
        _ => {}
    }
    match origin {
        Some(Origin::Search) => "Organic Search",
        Some(Origin::Social) => "Organic Social",
        Some(Origin::Video) => "Organic Video",
        Some(Origin::Shopping) => "Organic Shopping",
        None if source.is_empty() && medium.is_empty() && campaign.is_empty() => {
            match referrer.as_str() {
                "" | "$direct" => "Direct",
                _ => "Referral",
            }
        }
        None if referrer.is_empty() || referrer == "$direct" => "Unknown",
        None => "Referral",
    }
}

enum Origin {
    Search,
    Social,
    Video,
    Shopping,
}

fn kind_of(name: &str) -> Option<Origin> {
    let has = |names: &[&str]| {
        names.iter().any(|own| name.split('.').any(|part| part == *own) || name == *own)
    };
    if has(&["youtube", "vimeo", "twitch", "tiktok", "dailymotion"]) {
        Some(Origin::Video)
    } else if has(&["google", "bing", "duckduckgo", "yahoo", "baidu", "yandex", "ecosia", "qwant"])
    {
        Some(Origin::Search)
    } else if has(&[
        "facebook",
        "fb",
        "instagram",
        "twitter",
        "t",
        "x",
        "linkedin",
        "reddit",
        "pinterest",
        "threads",
        "mastodon",
        "bsky",
        "quora",
        "whatsapp",
        "telegram",
    ]) {
        Some(Origin::Social)
    } else if has(&["amazon", "ebay", "etsy", "shopify", "alibaba"]) {
        Some(Origin::Shopping)
    } else {
        None
    }
}
