//! A random project, in the warehouse and as plain rows.

use std::collections::HashMap;

use jiff::Zoned;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::Timestamp;
use serde_json::{Value as Json, json};
use testing::Rng;
use testing::insights::{Reference, depends_on_order};
use warehouse::{CompactionKind, Settings};

use crate::project::{Project, at};

#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
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
    pub fn random(rng: &mut Rng) -> (Project, Self) {
        let settings = Settings {
            row_group_rows: 32,
            segment_rows_max: 128,
            merge_segments_min: 2,
            ..Settings::default()
        };
        let mut project = Project::with(settings);
        project.zone = rng.pick(&["UTC", "Europe/Berlin", "America/New_York"]);
        project.week_starts_monday = rng.chance(50);
        project.now = "2024-04-10T15:00:00Z";
        let mut history = Self {
            rows: Vec::new(),
            created: HashMap::new(),
            zone: TimeZone::get(project.zone).unwrap(),
            week_starts_monday: project.week_starts_monday,
            apart: rng.chance(70),
        };
        // Some ids are merged into one person, some have none.
        let mut ids: Vec<(String, String, Option<String>)> = Vec::new();
        for person in 0..rng.range(3..9) {
            let own: Vec<String> =
                (0..rng.range(1..4)).map(|at| format!("p{person}-{at}")).collect();
            let plan = rng.pick(&[None, Some("free"), Some("pro")]).map(str::to_owned);
            let created = at("2024-03-26").as_micros() + rng.range(0..10 * DAY);
            let texts: Vec<&str> = own.iter().map(String::as_str).collect();
            let properties = plan.as_ref().map_or(json!({}), |plan| json!({ "plan": plan }));
            let created_at = Timestamp::from_micros(created).to_string();
            project.person(&texts, &created_at, properties);
            history.created.insert(format!("person {person}"), created);
            ids.extend(own.into_iter().map(|id| (id, format!("person {person}"), plan.clone())));
        }
        for id in 0..rng.range(0..4) {
            ids.push((format!("anonymous-{id}"), format!("anonymous-{id}"), None));
        }
        let start = at("2024-03-24").as_micros();
        for _ in 0..rng.range(20..110) {
            let (id, person, plan) = rng.pick(&ids);
            // Bursts, so that paths and short windows have something to find.
            let mut time = match history.rows.last() {
                Some(row) if rng.chance(40) => row.time + rng.range(0..40 * 60_000_000),
                _ => start + rng.range(0..16 * DAY),
            };
            if history.apart {
                while history.rows.iter().any(|row| row.time == time) {
                    time += 1;
                }
            } else {
                time -= time % 600_000_000;
            }
            let row = Row {
                id: id.clone(),
                person,
                event: rng.pick(&["a", "a", "b", "b", "c"]).to_owned(),
                time,
                browser: rng
                    .pick(&[Some("Chrome"), Some("Firefox"), Some("Safari"), None])
                    .map(str::to_owned),
                amount: rng.chance(70).then(|| f64::from(rng.range(0..40)) / 4.0),
                session: rng.chance(70).then(|| format!("s{}", rng.range(0..9))),
                group: rng.chance(60).then(|| format!("g{}", rng.range(0..4))),
                plan,
            };
            let mut properties = json!({});
            if let Some(browser) = &row.browser {
                properties["browser"] = json!(browser);
            }
            match row.amount {
                Some(amount) => properties["amount"] = json!(amount),
                None if rng.chance(50) => properties["amount"] = json!("none"),
                None => {}
            }
            if let Some(session) = &row.session {
                properties["$session_id"] = json!(session);
            }
            let groups = [row.group.clone(), None, None, None, None];
            project.row(&id, &row.event, Timestamp::from_micros(time), properties, groups);
            history.rows.push(row);
            if rng.chance(4) {
                project.warehouse.flush().unwrap();
            }
            if rng.chance(2) {
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
        named && [query, node].iter().all(|of| self.fits_all(row, &of["properties"]))
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

    /// Whether a row passes a list or a group of filters.
    fn fits_all(&self, row: &Row, filters: &Json) -> bool {
        let fits = |filter: &Json| match filter.get("values") {
            Some(_) => self.fits_all(row, filter),
            None => self.fits(row, filter),
        };
        match filters {
            Json::Array(all) => all.iter().all(fits),
            Json::Object(group) => {
                let mut all = group["values"].as_array().unwrap().iter();
                if group["type"] == "OR" { all.any(fits) } else { all.all(fits) }
            }
            _ => true,
        }
    }

    fn fits(&self, row: &Row, filter: &Json) -> bool {
        let key = filter["key"].as_str().unwrap();
        let Some(operator) = filter["operator"].as_str() else {
            return match key {
                "properties.amount > 5" => row.amount.is_some_and(|own| own > 5.0),
                _ => row.id.chars().count() == 4 && self.local(row.time).hour() < 15,
            };
        };
        let value = &filter["value"];
        let texts: Vec<&str> = match value {
            Json::Array(all) => all.iter().filter_map(Json::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        let is_one_of =
            |own: &Option<String>| own.as_deref().is_some_and(|own| texts.contains(&own));
        let contains = |own: &str| own.to_lowercase().contains(texts[0]);
        // The only pattern that is drawn.
        let matches = |own: &String| own.starts_with(['C', 'S']);
        let amount = |test: fn(f64, f64) -> bool| {
            row.amount.is_some_and(|own| test(own, value.as_f64().unwrap()))
        };
        let seconds = || {
            let (first, last) = self.session(row)?;
            Some(last.div_euclid(1_000_000) - first.div_euclid(1_000_000))
        };
        match (key, operator) {
            ("browser", "exact") => is_one_of(&row.browser),
            ("browser", "is_not") => !is_one_of(&row.browser),
            ("browser", "icontains") => row.browser.as_deref().is_some_and(contains),
            ("browser", "not_icontains") => !row.browser.as_deref().is_some_and(contains),
            ("browser", "regex") => row.browser.as_ref().is_some_and(matches),
            ("browser", "not_regex") => !row.browser.as_ref().is_some_and(matches),
            ("browser", "is_set") => row.browser.is_some(),
            ("browser", "is_not_set") => row.browser.is_none(),
            ("plan", "exact") => is_one_of(&row.plan),
            ("plan", "is_not") => !is_one_of(&row.plan),
            ("plan", "is_set") => row.plan.is_some(),
            ("amount", "gt") => amount(|own, value| own > value),
            ("amount", "gte") => amount(|own, value| own >= value),
            ("amount", "lt") => amount(|own, value| own < value),
            ("amount", "lte") => amount(|own, value| own <= value),
            ("amount", "between") => row.amount.is_some_and(|own| {
                (value[0].as_f64().unwrap()..=value[1].as_f64().unwrap()).contains(&own)
            }),
            ("distinct_id", "icontains") => contains(&row.id),
            ("$session_duration", "gt") => {
                seconds().is_some_and(|own| own > value.as_i64().unwrap())
            }
            ("$session_duration", "lte") => {
                seconds().is_some_and(|own| own <= value.as_i64().unwrap())
            }
            ("$session_duration", "is_set") => seconds().is_some(),
            ("$start_timestamp", "is_date_after") => {
                let day: Date = value.as_str().unwrap().parse().unwrap();
                self.session(row).is_some_and(|(first, _)| first > self.midnight(day))
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Reference for History {
    /// Rows have no groups, cohorts or other properties.
    fn computes_filter(&self, filter: &Json) -> bool {
        let kind = filter["type"].as_str().unwrap();
        !matches!(kind, "group" | "cohort") && filter["key"] != "active" && filter["key"] != "age"
    }

    fn computes_node(&self, node: &Json) -> bool {
        node["kind"] == "EventsNode"
            && node["event"] != "$pageview"
            && node["math"] != "hogql"
            && node.get("math_multiplier").is_none()
            && node.get("math_property_type").is_none()
    }

    fn computes_breakdown(&self, filter: &Json) -> bool {
        let known = |part: &Json| matches!(part["property"].as_str(), Some("browser" | "plan"));
        filter["breakdowns"].as_array().is_some_and(|parts| parts.iter().all(known))
    }

    fn computes_query(&self, query: &Json) -> bool {
        (self.apart || !depends_on_order(query))
            && query["dateRange"].get("date_to").is_some()
            && query["trendsFilter"]["display"] != "ActionsTable"
            && query["compareFilter"].get("compare_to").is_none()
            && query["funnelsFilter"].get("hideIncompleteConversionWindowPeriods").is_none()
    }
}
