//! A random project, in the warehouse and as plain rows.

use std::collections::HashMap;

use jiff::Zoned;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt as _, seq::IndexedRandom as _};
use serde_json::{Value as Json, json};
use warehouse::{CompactionKind, Settings};

use crate::project::{Project, at};

#[derive(Clone, Debug)]
pub struct Row {
    pub person: String,
    pub event: String,
    pub time: i64,
    pub browser: Option<String>,
    pub amount: Option<f64>,
    pub session: Option<String>,
    pub group: Option<String>,
    /// Of the person, now.
    pub plan: Option<String>,
}

pub struct History {
    /// By time.
    pub rows: Vec<Row>,
    pub created: HashMap<String, i64>,
    pub zone: TimeZone,
    pub week_starts_monday: bool,
    /// No two events have the same timestamp.
    pub apart: bool,
}

const DAY: i64 = 86_400_000_000;

impl History {
    pub fn random(random: &mut StdRng) -> (Project, Self) {
        let settings = Settings {
            row_group_rows: 32,
            segment_rows_max: 128,
            merge_segments_min: 2,
            ..Settings::default()
        };
        let mut project = Project::with(settings);
        project.zone = ["UTC", "Europe/Berlin", "America/New_York"].choose(random).unwrap();
        project.week_starts_monday = random.random();
        project.now = "2024-04-10T15:00:00Z";
        let mut history = Self {
            rows: Vec::new(),
            created: HashMap::new(),
            zone: TimeZone::get(project.zone).unwrap(),
            week_starts_monday: project.week_starts_monday,
            apart: random.random_bool(0.7),
        };
        // Some ids are merged into one person, some have none.
        let mut ids: Vec<(String, String, Option<String>)> = Vec::new();
        for person in 0..random.random_range(3..9) {
            let own: Vec<String> =
                (0..random.random_range(1..4)).map(|at| format!("p{person}-{at}")).collect();
            let plan = [None, Some("free"), Some("pro")].choose(random).unwrap().map(str::to_owned);
            let created = at("2024-03-26").as_micros() + random.random_range(0..10 * DAY);
            let texts: Vec<&str> = own.iter().map(String::as_str).collect();
            let properties = plan.as_ref().map_or(json!({}), |plan| json!({ "plan": plan }));
            let created_at = Timestamp::from_micros(created).to_string();
            project.person(&texts, &created_at, properties);
            history.created.insert(format!("person {person}"), created);
            ids.extend(own.into_iter().map(|id| (id, format!("person {person}"), plan.clone())));
        }
        for id in 0..random.random_range(0..4) {
            ids.push((format!("anonymous-{id}"), format!("anonymous-{id}"), None));
        }
        let start = at("2024-03-24").as_micros();
        for _ in 0..random.random_range(20..110) {
            let (id, person, plan) = ids.choose(random).unwrap().clone();
            // Bursts, so that paths and short windows have something to find.
            let mut time = match history.rows.last() {
                Some(row) if random.random_bool(0.4) => {
                    row.time + random.random_range(0..40 * 60_000_000)
                }
                _ => start + random.random_range(0..16 * DAY),
            };
            if history.apart {
                while history.rows.iter().any(|row| row.time == time) {
                    time += 1;
                }
            } else {
                time -= time % 600_000_000;
            }
            let row = Row {
                person,
                event: (*["a", "a", "b", "b", "c"].choose(random).unwrap()).to_owned(),
                time,
                browser: ["Chrome", "Firefox", "Safari", ""]
                    .choose(random)
                    .filter(|browser| !browser.is_empty())
                    .map(|browser| (*browser).to_owned()),
                amount: random
                    .random_bool(0.7)
                    .then(|| f64::from(random.random_range(0..40)) / 4.0),
                session: random.random_bool(0.7).then(|| format!("s{}", random.random_range(0..9))),
                group: random.random_bool(0.6).then(|| format!("g{}", random.random_range(0..4))),
                plan,
            };
            let mut properties = json!({});
            if let Some(browser) = &row.browser {
                properties["browser"] = json!(browser);
            }
            match row.amount {
                Some(amount) => properties["amount"] = json!(amount),
                None if random.random() => properties["amount"] = json!("none"),
                None => {}
            }
            if let Some(session) = &row.session {
                properties["$session_id"] = json!(session);
            }
            let groups = [row.group.clone(), None, None, None, None];
            project.row(&id, &row.event, Timestamp::from_micros(time), properties, groups);
            history.rows.push(row);
            if random.random_bool(0.04) {
                project.warehouse.flush().unwrap();
            }
            if random.random_bool(0.02) {
                project.warehouse.compact(CompactionKind::Major).unwrap();
            }
        }
        history.rows.sort_by_key(|row| row.time);
        (project, history)
    }

    pub fn local(&self, time: i64) -> Zoned {
        jiff::Timestamp::from_microsecond(time).unwrap().to_zoned(self.zone.clone())
    }

    fn midnight(&self, date: Date) -> i64 {
        date.to_zoned(self.zone.clone()).unwrap().timestamp().as_microsecond()
    }

    /// Start timestamps of the intervals from one date to another, and the end of the last.
    pub fn units(&self, from: Date, to: Date, interval: &str) -> Vec<i64> {
        let behind = self.midnight(to.tomorrow().unwrap());
        let mut starts = Vec::new();
        let mut date = self.unit_of(from, interval);
        match interval {
            "hour" => {
                let mut time = self.midnight(date);
                while time < behind {
                    starts.push(time);
                    time += 3_600_000_000;
                }
                starts.push(time);
            }
            _ => {
                while self.midnight(date) < behind {
                    starts.push(self.midnight(date));
                    date = next(date, interval);
                }
                starts.push(self.midnight(date));
            }
        }
        starts
    }

    /// The first date of the interval that contains a date.
    pub fn unit_of(&self, date: Date, interval: &str) -> Date {
        let mut date = date;
        match interval {
            "week" => {
                let first = if self.week_starts_monday {
                    jiff::civil::Weekday::Monday
                } else {
                    jiff::civil::Weekday::Sunday
                };
                while date.weekday() != first {
                    date = date.yesterday().unwrap();
                }
            }
            "month" => date = date.first_of_month(),
            _ => {}
        }
        date
    }

    /// The last microsecond of a date.
    pub fn end_of(&self, date: Date) -> i64 {
        self.midnight(date.tomorrow().unwrap()) - 1
    }

    /// The actor of a row.
    pub fn who(&self, row: &Row, query: &Json) -> Option<String> {
        match query.get("aggregation_group_type_index") {
            Some(_) => row.group.clone(),
            None => Some(row.person.clone()),
        }
    }

    /// Whether a row passes the filters of a query and is of the event of a node.
    pub fn passes(&self, row: &Row, query: &Json, node: &Json) -> bool {
        let named = node["event"].as_str().is_none_or(|event| event == row.event);
        let none = Vec::new();
        let filters = |json: &Json| json.as_array().unwrap_or(&none).clone();
        let filters = filters(&query["properties"]).into_iter().chain(filters(&node["properties"]));
        named && filters.into_iter().all(|filter| self.fits(row, &filter))
    }

    pub fn value(&self, row: &Row, breakdown: &Json) -> String {
        let value = match breakdown["property"].as_str().unwrap() {
            "browser" => row.browser.clone(),
            "plan" => row.plan.clone(),
            other => panic!("{other}"),
        };
        value.unwrap_or_else(|| NULL.to_owned())
    }
}

pub const NULL: &str = "$$_posthog_breakdown_null_$$";
pub const OTHER: &str = "$$_posthog_breakdown_other_$$";

fn next(date: Date, interval: &str) -> Date {
    use jiff::ToSpan as _;
    match interval {
        "week" => date.checked_add(1.week()).unwrap(),
        "month" => date.checked_add(1.month()).unwrap(),
        _ => date.tomorrow().unwrap(),
    }
}

impl History {
    /// First and last timestamp of a row's session.
    fn session(&self, row: &Row) -> Option<(i64, i64)> {
        let own = self.rows.iter().filter(|other| other.session == row.session);
        row.session.as_ref()?;
        let times: Vec<i64> = own.map(|row| row.time).collect();
        Some((*times.first()?, *times.last()?))
    }

    fn fits(&self, row: &Row, filter: &Json) -> bool {
        let is_it = |own: &Option<String>| own.as_deref() == filter["value"].as_str();
        let seconds = || {
            let (first, last) = self.session(row)?;
            Some(last.div_euclid(1_000_000) - first.div_euclid(1_000_000))
        };
        let wanted = || filter["value"].as_i64().unwrap();
        match (filter["key"].as_str().unwrap(), filter["operator"].as_str().unwrap()) {
            ("browser", "exact") => is_it(&row.browser),
            ("browser", "is_not") => !is_it(&row.browser),
            ("plan", "exact") => is_it(&row.plan),
            ("amount", "gt") => {
                row.amount.is_some_and(|own| own > filter["value"].as_f64().unwrap())
            }
            ("$session_duration", "gt") => seconds().is_some_and(|own| own > wanted()),
            ("$session_duration", "lte") => seconds().is_some_and(|own| own <= wanted()),
            ("$session_duration", "is_set") => seconds().is_some(),
            ("$start_timestamp", "is_date_after") => {
                let day: Date = filter["value"].as_str().unwrap().parse().unwrap();
                self.session(row).is_some_and(|(first, _)| first > self.midnight(day))
            }
            other => panic!("{other:?}"),
        }
    }
}
