//! The reference set: events of a web product, generated deterministically from a seed. Hedgerow gets
//! them as JSON through capture, ClickHouse as columns.

use std::fmt::Write as _;

/// Ninety days from 1 January 2026, UTC.
pub const START_MICROS: i64 = 1_767_225_600_000_000;
pub const DAYS: i64 = 90;
const DAY_MICROS: i64 = 86_400_000_000;
/// Events for each person: 10 M events have 300,000 persons.
const EVENTS_A_PERSON: f64 = 33.3;
/// One in this many persons starts anonymous and identifies later.
const ANONYMOUS_EVERY: u64 = 4;
/// Concurrent sessions, and the maximum of events per session.
const VISITS: u64 = 200;
const VISIT_EVENTS_MAX: u64 = 20;

const BROWSERS: [&str; 8] =
    ["Chrome", "Chrome", "Chrome", "Safari", "Mobile Safari", "Firefox", "Edge", "Opera"];
const SYSTEMS: [&str; 6] = ["Windows", "Mac OS X", "iOS", "Android", "Linux", "Chrome OS"];
const DEVICES: [&str; 3] = ["Desktop", "Mobile", "Tablet"];
const LANGUAGES: [&str; 8] = ["en-US", "en-GB", "de-DE", "fr-FR", "es-ES", "pt-BR", "ja-JP", "pl"];
const ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "Europe/London",
    "Asia/Tokyo",
    "America/Sao_Paulo",
    "Asia/Kolkata",
];
const SECTIONS: [&str; 10] =
    ["home", "pricing", "docs", "blog", "product", "account", "search", "cart", "checkout", "help"];
const PLANS: [&str; 4] = ["free", "free", "team", "enterprise"];
const SOURCES: [&str; 6] = ["google", "newsletter", "twitter", "bing", "partner", "direct"];
/// Event names: these, and numbered ones up to sixty.
const NAMES: [&str; 8] = [
    "$pageview",
    "$autocapture",
    "$pageleave",
    "signed up",
    "item added",
    "checkout started",
    "purchase",
    "$identify",
];
const NAMES_MAX: u64 = 60;

/// A deterministic pseudo-random number generator.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }
}

fn of_person(person: u64, what: u64) -> u64 {
    Dice(person.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ what).roll()
}

#[derive(Clone, Copy)]
pub enum Value<'v> {
    Text(&'v str),
    Integer(i64),
    Decimal(f64),
}

/// Generates events in timestamp order.
pub struct Reference {
    dice: Dice,
    events: u64,
    persons: u64,
    next: u64,
    identified: Vec<bool>,
    visits: Vec<Visit>,
    visits_begun: u64,
    page: String,
    path: String,
    ids: [String; 3],
}

/// A session of a person.
struct Visit {
    person: u64,
    number: u64,
    events_left: u64,
}

/// One event; [`Reference::properties`] generates its properties.
pub struct Event {
    pub micros: i64,
    pub person: u64,
    pub uuid: u128,
    pub name: String,
    pub distinct_id: String,
    /// The anonymous id that `$identify` merges into this one.
    pub anonymous: Option<String>,
    roll: u64,
    /// The number of the session.
    pub visit: u64,
}

impl Event {
    /// Whether it carries `$set`.
    pub const fn sets_properties(&self) -> bool {
        self.anonymous.is_some() || self.roll.is_multiple_of(20)
    }
}

impl Reference {
    pub fn new(events: u64) -> Self {
        let persons = ((events as f64 / EVENTS_A_PERSON) as u64).max(1);
        Self {
            dice: Dice(42),
            events,
            persons,
            next: 0,
            identified: vec![false; persons as usize],
            visits: Vec::new(),
            visits_begun: 0,
            page: String::new(),
            path: String::new(),
            ids: Default::default(),
        }
    }

    pub const fn persons(&self) -> u64 {
        self.persons
    }

    fn name(&mut self) -> String {
        let at = match self.dice.below(1_000) {
            0..=549 => 0,
            550..=719 => 1,
            720..=799 => 2,
            800..=819 => 3,
            820..=859 => 4,
            860..=879 => 5,
            880..=894 => 6,
            rest => NAMES.len() as u64 + (rest - 895) % (NAMES_MAX - NAMES.len() as u64),
        };
        NAMES.get(at as usize).map_or_else(|| format!("feature {at} used"), |name| (*name).into())
    }

    /// Picks the person and session of the next event.
    fn visitor(&mut self) -> (u64, u64) {
        let at = self.dice.below(VISITS) as usize;
        if self.visits.get(at).is_none_or(|visit| visit.events_left == 0) {
            // The minimum of two draws skews activity toward few persons.
            let person = self.dice.below(self.persons).min(self.dice.below(self.persons));
            let visit = Visit {
                person,
                number: self.visits_begun,
                events_left: 1 + self.dice.below(VISIT_EVENTS_MAX),
            };
            self.visits_begun += 1;
            match self.visits.get_mut(at) {
                Some(ended) => *ended = visit,
                None => self.visits.push(visit),
            }
        }
        let at = at.min(self.visits.len() - 1);
        let visit = &mut self.visits[at];
        visit.events_left = visit.events_left.saturating_sub(1);
        (visit.person, visit.number)
    }

    /// The next event; `None` at the end.
    pub fn next_event(&mut self) -> Option<Event> {
        if self.next == self.events {
            return None;
        }
        let span = DAYS * DAY_MICROS;
        // Unique timestamps, so that no result depends on how ties are broken.
        let micros = START_MICROS
            + (i128::from(span) * i128::from(self.next) / i128::from(self.events)) as i64;
        self.next += 1;
        let (person, visit) = self.visitor();
        let mut name = self.name();
        let begins_anonymous = person.is_multiple_of(ANONYMOUS_EVERY);
        let anonymous_id =
            || format!("0190{:08x}-anon-{:012}", of_person(person, 1) as u32, person);
        let named_id = || format!("user_{person}@example.com");
        let mut anonymous = None;
        let distinct_id = if !begins_anonymous || self.identified[person as usize] {
            named_id()
        } else if micros < START_MICROS + span / 2 {
            anonymous_id()
        } else {
            self.identified[person as usize] = true;
            "$identify".clone_into(&mut name);
            anonymous = Some(anonymous_id());
            named_id()
        };
        let roll = self.dice.roll();
        let millis = (micros / 1_000) as u128;
        let random = u128::from(self.dice.roll()) << 64 | u128::from(roll);
        let uuid = millis << 80
            | 7 << 76
            | (random >> 52 & 0xfff) << 64
            | 2 << 62
            | (random & ((1 << 62) - 1));
        Some(Event { micros, person, uuid, name, distinct_id, anonymous, roll, visit })
    }

    /// Every property of `event`, except those that the server adds.
    pub fn properties(&mut self, event: &Event, mut see: impl FnMut(&'static str, Value<'_>)) {
        use Value::{Decimal, Integer, Text};
        let (person, mut dice) = (event.person, Dice(event.roll));
        let pick = |from: &'static [&'static str], what| {
            from[of_person(person, what) as usize % from.len()]
        };
        let section = SECTIONS[dice.below(40).min(dice.below(40)) as usize % SECTIONS.len()];
        let number = dice.below(4_000).min(dice.below(4_000));
        self.path.clear();
        self.page.clear();
        let _ = write!(self.path, "/{section}/{number}");
        let _ = write!(self.page, "https://app.example.com{}", self.path);
        // About one in six page URLs has a unique query string.
        if dice.below(6) == 0 {
            let _ = write!(self.page, "?ref={:x}", dice.below(1 << 28));
        }
        let visit = person ^ event.visit << 24;
        for (text, of) in self.ids.iter_mut().zip([
            of_person(person, 2),
            of_person(visit, 3),
            of_person(visit, 4),
        ]) {
            text.clear();
            let _ = write!(text, "{:08x}-0000-7000-8000-{:012x}", of as u32, of >> 20);
        }
        let [device, session_id, window_id] = &self.ids;
        see("$browser", Text(pick(&BROWSERS, 5)));
        see("$os", Text(pick(&SYSTEMS, 6)));
        see("$device_type", Text(pick(&DEVICES, 7)));
        see("$browser_language", Text(pick(&LANGUAGES, 8)));
        see("$timezone", Text(pick(&ZONES, 9)));
        see("$browser_version", Integer(100 + (of_person(person, 10) % 40) as i64));
        see("$current_url", Text(&self.page));
        see("$pathname", Text(&self.path));
        see("$host", Text("app.example.com"));
        see("$device_id", Text(device));
        see("$session_id", Text(session_id));
        see("$window_id", Text(window_id));
        let (width, height) = [(1_920, 1_080), (1_440, 900), (390, 844), (2_560, 1_440)]
            [of_person(person, 11) as usize % 4];
        see("$screen_width", Integer(width));
        see("$screen_height", Integer(height));
        see("$viewport_width", Integer(width - 20 * (of_person(person, 12) % 4) as i64));
        see("$viewport_height", Integer(height - 100));
        see("$lib", Text("web"));
        see(
            "$lib_version",
            Text(["1.430.0", "1.428.2", "1.401.1"][of_person(person, 13) as usize % 3]),
        );
        see(
            "$referring_domain",
            Text(
                ["$direct", "www.google.com", "news.example.org", "t.co"]
                    [of_person(person, 14) as usize % 4],
            ),
        );
        see(
            "$referrer",
            Text(
                [
                    "$direct",
                    "https://www.google.com/",
                    "https://news.example.org/today",
                    "https://t.co/abc",
                ][of_person(person, 14) as usize % 4],
            ),
        );
        see("title", Text(section));
        see("plan", Text(pick(&PLANS, 15)));
        see(
            "app_version",
            Text(
                ["4.2.0", "4.2.1", "4.3.0", "4.3.1"]
                    [((event.micros - START_MICROS) / (23 * DAY_MICROS)) as usize % 4],
            ),
        );
        see(
            "experiment",
            Text(if of_person(person, 16).is_multiple_of(2) { "control" } else { "test" }),
        );
        see(
            "is_employee",
            Text(if of_person(person, 17).is_multiple_of(200) { "true" } else { "false" }),
        );
        see("load_ms", Integer(20 + (dice.below(3_000).min(dice.below(3_000))) as i64));
        see("scroll_depth", Decimal(dice.below(101) as f64 / 100.0));
        see("position", Integer(dice.below(50) as i64));
        see("amount", Decimal((100 + dice.below(20_000)) as f64 / 100.0));
        if dice.below(5) == 0 {
            see("utm_source", Text(SOURCES[dice.below(6) as usize]));
        }
    }

    /// The event's JSON as an SDK sends it in a batch.
    pub fn json(&mut self, event: &Event, out: &mut String) {
        let _ = write!(
            out,
            r#"{{"event":"{}","distinct_id":"{}","uuid":"{}","timestamp":"{}","properties":{{"#,
            event.name,
            event.distinct_id,
            uuid_text(event.uuid),
            time_text(event.micros),
        );
        self.properties(event, |key, value| {
            let _ = match value {
                Value::Text(text) => write!(out, r#""{key}":"{text}","#),
                Value::Integer(number) => write!(out, r#""{key}":{number},"#),
                Value::Decimal(number) => write!(out, r#""{key}":{number},"#),
            };
        });
        let ip = of_person(event.person, 18) % 5_000;
        let _ = write!(out, r#""$ip":"{}.{}.{}.7""#, 80 + ip % 16, ip / 16 % 256, ip % 200);
        if let Some(anonymous) = &event.anonymous {
            let _ = write!(out, r#","$anon_distinct_id":"{anonymous}""#);
        }
        if event.sets_properties() {
            let plan = PLANS[of_person(event.person, 15) as usize % PLANS.len()];
            let _ = write!(
                out,
                r#","$set":{{"email":"user_{}@example.com","plan":"{plan}","seats":{}}}"#,
                event.person,
                event.roll >> 8 & 15
            );
        }
        out.push_str("}}");
    }
}

pub fn uuid_text(uuid: u128) -> String {
    let hex = format!("{uuid:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

pub(crate) fn time_text(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // All timestamps are in the first months of 2026.
    let mut day = days - 20_454;
    let mut month = 1;
    for length in [31, 28, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!(
        "2026-{month:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        day + 1,
        second / 3_600,
        second / 60 % 60,
        second % 60,
        micros.rem_euclid(1_000_000)
    )
}
