//! What the texts of all kinds share: filters, actors, dates. Nothing here knows the operators.

use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday};
use serde_json::{Value as Json, json};

use super::twin::{NOW, Twin};
use crate::clickhouse::Query;

pub const NULL: &str = "$$_posthog_breakdown_null_$$";
pub const OTHER: &str = "$$_posthog_breakdown_other_$$";
/// Between the parts of a value; sorts before all that parts are made of.
pub const BETWEEN: char = '\t';

/// From the rows of each statement to an answer, as far as they say it.
pub type Shape = dyn Fn(&[Vec<Json>]) -> Json;

/// Statements that together say what a question asks, and what their rows mean.
pub struct Lowered {
    pub texts: Vec<Statement>,
    pub shape: Box<Shape>,
}

pub fn quoted(text: &str) -> String {
    format!("'{text}'")
}

fn literal(value: &Json) -> String {
    match value {
        Json::String(text) => quoted(text),
        other => other.to_string(),
    }
}

pub fn field(kind: &str, name: &str) -> String {
    match kind {
        "person" => format!("person.properties.{name}"),
        "group" => format!("group_0.properties.{name}"),
        "session" => format!("session.{name}"),
        "event_metadata" => name.to_owned(),
        "hogql" => name.to_owned(),
        _ => format!("properties.{name}"),
    }
}

/// A filter, a list or a group of them.
fn condition(filters: &Json) -> String {
    let list = |all: &[Json], word: &str| match all {
        [] => "1".to_owned(),
        all => format!("({})", all.iter().map(condition).collect::<Vec<_>>().join(word)),
    };
    match filters {
        Json::Array(all) => list(all, " and "),
        Json::Object(group) if group.contains_key("values") => {
            let word = if group["type"] == "OR" { " or " } else { " and " };
            list(group["values"].as_array().unwrap(), word)
        }
        Json::Object(_) => one(filters),
        _ => "1".to_owned(),
    }
}

fn one(filter: &Json) -> String {
    let kind = filter["type"].as_str().unwrap_or("event");
    let key = filter["key"].as_str().unwrap();
    if kind == "hogql" {
        return format!("ifNull({key}, 0)");
    }
    let value = &filter["value"];
    let operator = filter["operator"].as_str().unwrap_or("exact");
    if kind == "cohort" {
        let not = if operator == "not_in" { "not " } else { "" };
        return format!(
            "person_id {not}in (select person_id from cohort_people where cohort_id = {value})"
        );
    }
    let own = field(kind, key);
    let number = |sign: &str| format!("ifNull({own} {sign} {value}, 0)");
    // Defined as a truth, it is compared as one.
    let text = if key == "active" { plain(value).to_owned() } else { literal(value) };
    let any = |each: &dyn Fn(&str) -> String| {
        let all: Vec<String> = match value {
            Json::Array(all) => all.iter().map(|one| each(&literal(one))).collect(),
            _ => vec![each(&text)],
        };
        format!("({})", all.join(" or "))
    };
    let equal = || any(&|one| format!("ifNull({own} = {one}, 0)"));
    let holds = || any(&|one| format!("ifNull(positionCaseInsensitive({own}, {one}) > 0, 0)"));
    let matches = || any(&|one| format!("ifNull(match({own}, {one}), 0)"));
    match operator {
        "exact" => equal(),
        "is_not" => format!("not {}", equal()),
        "icontains" => holds(),
        "not_icontains" => format!("not {}", holds()),
        "regex" => matches(),
        "not_regex" => format!("not {}", matches()),
        "gt" => number(">"),
        "gte" => number(">="),
        "lt" => number("<"),
        "lte" => number("<="),
        "between" => format!("ifNull({own} >= {} and {own} <= {}, 0)", value[0], value[1]),
        "is_set" => format!("{own} is not null"),
        "is_not_set" => format!("{own} is null"),
        "is_date_after" => format!("ifNull({own} > toDateTime('{} 00:00:00'), 0)", plain(value)),
        other => panic!("{other}"),
    }
}

fn plain(value: &Json) -> &str {
    value.as_str().unwrap()
}

/// Which events a node means.
pub fn named(node: &Json) -> String {
    if node["kind"] == "ActionsNode" || node["type"] == "actions" {
        return "(event = 'a' or (event = 'b' and ifNull(properties.browser = 'Chrome', 0)))"
            .to_owned();
    }
    match node["event"].as_str() {
        Some(event) => format!("event = {}", quoted(event)),
        None => "1".to_owned(),
    }
}

/// What all events of a question must be.
pub fn asked(query: &Json) -> String {
    let own = condition(&query["properties"]);
    match query["filterTestAccounts"] == true {
        true => format!("({own} and {})", condition(&test_accounts())),
        false => own,
    }
}

/// What the events of everybody but testers are.
pub fn test_accounts() -> Json {
    json!([{"key": "plan", "type": "person", "operator": "is_not", "value": "team"}])
}

/// Which events of a node count for a question.
pub fn meant(query: &Json, node: &Json) -> String {
    let all = [named(node), asked(query), condition(&node["properties"])];
    format!("({})", all.join(" and "))
}

pub fn actor(query: &Json) -> &'static str {
    match query.get("aggregation_group_type_index") {
        Some(_) => "nullIf($group_0, '')",
        None => "toString(person_id)",
    }
}

/// The values of a breakdown as one text.
pub fn value(query: &Json) -> String {
    let filter = &query["breakdownFilter"];
    let part = |kind: &Json, name: &Json| {
        let own = field(kind.as_str().unwrap_or("event"), name.as_str().unwrap());
        format!("ifNull(nullIf(toString({own}), ''), '{NULL}')")
    };
    match filter["breakdowns"].as_array() {
        None if filter["breakdown_normalize_url"] == true => {
            let own = field("event", filter["breakdown"].as_str().unwrap());
            let bare = format!("replaceRegexpOne({own}, '[?#].*', '')");
            format!("ifNull(replaceRegexpOne({bare}, '/$', ''), '{NULL}')")
        }
        None => part(&filter["breakdown_type"], &filter["breakdown"]),
        Some(all) => {
            let parts: Vec<String> =
                all.iter().map(|one| part(&one["type"], &one["property"])).collect();
            match parts.as_slice() {
                [one] => one.clone(),
                all => format!("concat({})", all.join(&format!(", '{BETWEEN}', "))),
            }
        }
    }
}

/// How many values there are of one text.
pub fn dimensions(query: &Json) -> usize {
    query["breakdownFilter"]["breakdowns"].as_array().map_or(1, Vec::len)
}

/// Values first, then those without any, then the rest.
pub fn place(query: &Json, column: &str) -> String {
    let all = |word: &str| vec![word; dimensions(query)].join(&BETWEEN.to_string());
    format!("multiIf({column} = '{}', 1, {column} = '{}', 2, 0)", all(NULL), all(OTHER))
}

pub fn others(query: &Json) -> String {
    vec![OTHER; dimensions(query)].join(&BETWEEN.to_string())
}

pub fn limit(query: &Json) -> u64 {
    query["breakdownFilter"]["breakdown_limit"].as_u64().unwrap_or(25)
}

pub fn hides_others(query: &Json) -> bool {
    query["breakdownFilter"]["breakdown_hide_other_aggregation"] == true
}

/// The units of a question, in the words of its zone.
#[derive(Clone)]
pub struct Units {
    pub interval: String,
    /// The first day of the first unit, and the last day that counts.
    pub from: Date,
    pub to: Date,
    pub len: usize,
    monday: bool,
}

impl Units {
    pub fn new(twin: &Twin, from: Date, to: Date, interval: &str) -> Self {
        let monday = twin.week_starts_monday;
        let mut from = from;
        match interval {
            "week" => {
                let first = if monday { Weekday::Monday } else { Weekday::Sunday };
                while from.weekday() != first {
                    from = from.yesterday().unwrap();
                }
            }
            "month" => from = from.first_of_month(),
            _ => {}
        }
        let seconds = |date: Date| date.to_zoned(twin.tz.clone()).unwrap().timestamp().as_second();
        let mut len = 0;
        let mut next = from;
        while next <= to && interval != "hour" {
            len += 1;
            next = match interval {
                "week" => next.checked_add(1.week()).unwrap(),
                "month" => next.checked_add(1.month()).unwrap(),
                _ => next.tomorrow().unwrap(),
            };
        }
        if interval == "hour" {
            len = ((seconds(to.tomorrow().unwrap()) - seconds(from) + 3_599) / 3_600) as usize;
        }
        Self { interval: interval.to_owned(), from, to, len, monday }
    }

    /// Of a question's dates.
    pub fn of(twin: &Twin, query: &Json) -> Self {
        let interval = query["interval"].as_str().unwrap_or("day");
        Self::new(twin, date(twin, query, "date_from"), date(twin, query, "date_to"), interval)
    }

    pub fn start(&self) -> String {
        midnight(self.from)
    }

    pub fn end(&self) -> String {
        midnight(self.to.tomorrow().unwrap())
    }

    pub fn within(&self, column: &str) -> String {
        format!("{column} >= {} and {column} < {}", self.start(), self.end())
    }

    pub fn bucket(&self, column: &str) -> String {
        match self.interval.as_str() {
            "hour" => format!("toStartOfHour({column})"),
            "week" => format!("toDateTime(toStartOfWeek({column}, {}))", u8::from(self.monday)),
            "month" => format!("toDateTime(toStartOfMonth({column}))"),
            _ => format!("toStartOfDay({column})"),
        }
    }

    pub fn plus(&self, column: &str, count: &str) -> String {
        let word = match self.interval.as_str() {
            "hour" => "addHours",
            "week" => "addWeeks",
            "month" => "addMonths",
            _ => "addDays",
        };
        format!("{word}({column}, {count})")
    }

    /// The first moment `b` of each unit, and its number `i`.
    pub fn list(&self) -> String {
        let start = self.plus(&self.start(), "number");
        format!("select {start} as b, number as i from numbers({})", self.len)
    }
}

pub fn midnight(date: Date) -> String {
    format!("toDateTime('{date} 00:00:00')")
}

/// A date of a question: as it stands, days before now, or now.
pub fn date(twin: &Twin, query: &Json, which: &str) -> Date {
    let now: jiff::Timestamp = NOW.parse().unwrap();
    let today = now.to_zoned(twin.tz.clone()).date();
    match query["dateRange"][which].as_str() {
        None => today,
        Some(text) => match text.strip_prefix('-').and_then(|text| text.strip_suffix('d')) {
            Some(days) => today.checked_sub(days.parse::<i64>().unwrap().days()).unwrap(),
            None => text.parse().unwrap(),
        },
    }
}

/// Splits rows where their values change.
pub fn runs(rows: &[Json], columns: &[usize]) -> Vec<Vec<Json>> {
    let mut runs: Vec<Vec<Json>> = Vec::new();
    for row in rows {
        match runs.last_mut() {
            Some(run) if columns.iter().all(|at| run[0][at] == row[at]) => run.push(row.clone()),
            _ => runs.push(vec![row.clone()]),
        }
    }
    runs
}

/// Statements under names, for one `with`.
#[derive(Default)]
pub struct With(Vec<(String, String)>);

/// A statement in both spellings.
pub struct Statement {
    pub text: String,
    pub theirs: Query,
}

impl With {
    pub fn add(&mut self, name: &str, text: &str) {
        self.0.push((name.to_owned(), text.to_owned()));
    }

    pub fn then(&self, text: &str) -> Statement {
        let last = format!("{text} limit 50000");
        let under = |parts: &[&(String, String)], last: &str| {
            let parts: Vec<String> =
                parts.iter().map(|(name, text)| format!("{name} as ({text})")).collect();
            match parts.is_empty() {
                true => last.to_owned(),
                false => format!("with {} {last}", parts.join(", ")),
            }
        };
        let uses = |name: &str| {
            let texts = self.0.iter().map(|(_, text)| text).chain([&last]);
            let word = |c: char| !c.is_alphanumeric() && c != '_';
            texts.flat_map(|text| text.split(word)).filter(|word| *word == name).count()
        };
        let (mut once, mut tables) = (Vec::new(), Vec::new());
        for part in &self.0 {
            match uses(&part.0) > 1 {
                true => tables.push((part.0.clone(), under(&once, &part.1))),
                false => once.push(part),
            }
        }
        let theirs = Query { tables, text: under(&once, &last) };
        Statement { text: under(&self.0.iter().collect::<Vec<_>>(), &last), theirs }
    }
}
