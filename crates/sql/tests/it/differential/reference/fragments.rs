//! Fragments of HogQL that the reference lowering of all kinds shares: filters, actors, dates.

use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday};
use serde_json::Value as Json;
use testing::clickhouse::Query;

use crate::differential::mirrored_project::{MirroredProject, NOW, test_accounts};

pub const NULL: &str = "$$_posthog_breakdown_null_$$";
pub const OTHER: &str = "$$_posthog_breakdown_other_$$";
/// Separates the values of several breakdowns; sorts before every character that occurs in one.
pub const SEPARATOR: char = '\t';

/// Builds an insight's result, or the part that is compared, from the rows of each statement.
pub type ToResult = dyn Fn(&[Vec<Json>]) -> Json;

/// The statements that compute an insight, and how its result follows from their rows.
pub struct ReferencePlan {
    pub statements: Vec<Statement>,
    pub to_result: Box<ToResult>,
}

impl ReferencePlan {
    /// The statements in HogQL.
    pub fn texts(&self) -> Vec<&str> {
        self.statements.iter().map(|statement| statement.text.as_str()).collect()
    }
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

/// A filter, a list of filters or a filter group.
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
        Json::Object(_) => property_filter(filters),
        _ => "1".to_owned(),
    }
}

fn property_filter(filter: &Json) -> String {
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
    let column = field(kind, key);
    let number = |sign: &str| format!("ifNull({column} {sign} {value}, 0)");
    // The property is defined as boolean, so it is compared as one.
    let text = if key == "active" { plain(value).to_owned() } else { literal(value) };
    let any = |each: &dyn Fn(&str) -> String| {
        let all: Vec<String> = match value {
            Json::Array(all) => all.iter().map(|one| each(&literal(one))).collect(),
            _ => vec![each(&text)],
        };
        format!("({})", all.join(" or "))
    };
    let equal = || any(&|one| format!("ifNull({column} = {one}, 0)"));
    let holds = || any(&|one| format!("ifNull(positionCaseInsensitive({column}, {one}) > 0, 0)"));
    let matches = || any(&|one| format!("ifNull(match({column}, {one}), 0)"));
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
        "between" => format!("ifNull({column} >= {} and {column} <= {}, 0)", value[0], value[1]),
        "is_set" => format!("{column} is not null"),
        "is_not_set" => format!("{column} is null"),
        "is_date_after" => format!("ifNull({column} > toDateTime('{} 00:00:00'), 0)", plain(value)),
        other => panic!("{other}"),
    }
}

fn plain(value: &Json) -> &str {
    value.as_str().unwrap()
}

/// The condition for the event or action of a node.
pub fn node_event(node: &Json) -> String {
    if node["kind"] == "ActionsNode" || node["type"] == "actions" {
        return "(event = 'a' or (event = 'b' and ifNull(properties.browser = 'Chrome', 0)))"
            .to_owned();
    }
    match node["event"].as_str() {
        Some(event) => format!("event = {}", quoted(event)),
        None => "1".to_owned(),
    }
}

/// The query's own filters and, where requested, the test account filters.
pub fn query_filter(query: &Json) -> String {
    let filters = condition(&query["properties"]);
    match query["filterTestAccounts"] == true {
        true => format!("({filters} and {})", condition(&test_accounts())),
        false => filters,
    }
}

/// The condition for the events of a node, with all filters.
pub fn selected(query: &Json, node: &Json) -> String {
    let all = [node_event(node), query_filter(query), condition(&node["properties"])];
    format!("({})", all.join(" and "))
}

pub fn actor(query: &Json) -> &'static str {
    match query.get("aggregation_group_type_index") {
        Some(_) => "nullIf($group_0, '')",
        None => "toString(person_id)",
    }
}

/// The breakdown values of an event as one string.
pub fn value(query: &Json) -> String {
    let filter = &query["breakdownFilter"];
    let part = |kind: &Json, name: &Json| {
        let column = field(kind.as_str().unwrap_or("event"), name.as_str().unwrap());
        format!("ifNull(nullIf(toString({column}), ''), '{NULL}')")
    };
    match filter["breakdowns"].as_array() {
        None if filter["breakdown_normalize_url"] == true => {
            let column = field("event", filter["breakdown"].as_str().unwrap());
            let bare = format!("replaceRegexpOne({column}, '[?#].*', '')");
            format!("ifNull(replaceRegexpOne({bare}, '/$', ''), '{NULL}')")
        }
        None => part(&filter["breakdown_type"], &filter["breakdown"]),
        Some(all) => {
            let parts: Vec<String> =
                all.iter().map(|one| part(&one["type"], &one["property"])).collect();
            match parts.as_slice() {
                [one] => one.clone(),
                all => format!("concat({})", all.join(&format!(", '{SEPARATOR}', "))),
            }
        }
    }
}

/// The number of breakdowns.
pub fn dimensions(query: &Json) -> usize {
    query["breakdownFilter"]["breakdowns"].as_array().map_or(1, Vec::len)
}

/// The sort key of a breakdown value: values first, then missing ones, then "other".
pub fn rank_class(query: &Json, column: &str) -> String {
    let all = |word: &str| vec![word; dimensions(query)].join(&SEPARATOR.to_string());
    format!("multiIf({column} = '{}', 1, {column} = '{}', 2, 0)", all(NULL), all(OTHER))
}

pub fn others(query: &Json) -> String {
    vec![OTHER; dimensions(query)].join(&SEPARATOR.to_string())
}

pub fn limit(query: &Json) -> u64 {
    query["breakdownFilter"]["breakdown_limit"].as_u64().unwrap_or(25)
}

pub fn hides_others(query: &Json) -> bool {
    query["breakdownFilter"]["breakdown_hide_other_aggregation"] == true
}

/// The intervals of a query's date range, in the project's time zone.
#[derive(Clone)]
pub struct Intervals {
    pub interval: String,
    /// The first day of the first interval, and the last day of the range.
    pub from: Date,
    pub to: Date,
    pub len: usize,
    monday: bool,
}

impl Intervals {
    pub fn new(project: &MirroredProject, from: Date, to: Date, interval: &str) -> Self {
        let monday = project.week_starts_monday;
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
        let seconds =
            |date: Date| date.to_zoned(project.tz.clone()).unwrap().timestamp().as_second();
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

    /// The intervals of a query's date range.
    pub fn of(project: &MirroredProject, query: &Json) -> Self {
        let interval = query["interval"].as_str().unwrap_or("day");
        Self::new(
            project,
            date(project, query, "date_from"),
            date(project, query, "date_to"),
            interval,
        )
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

    /// A statement that lists the start `b` of each interval and its index `i`.
    pub fn list(&self) -> String {
        let start = self.plus(&self.start(), "number");
        format!("select {start} as b, number as i from numbers({})", self.len)
    }
}

pub fn midnight(date: Date) -> String {
    format!("toDateTime('{date} 00:00:00')")
}

/// A date of the query's range: absolute, days before now, or today.
pub fn date(project: &MirroredProject, query: &Json, which: &str) -> Date {
    let now: jiff::Timestamp = NOW.parse().unwrap();
    let today = now.to_zoned(project.tz.clone()).date();
    match query["dateRange"][which].as_str() {
        None => today,
        Some(text) => match text.strip_prefix('-').and_then(|text| text.strip_suffix('d')) {
            Some(days) => today.checked_sub(days.parse::<i64>().unwrap().days()).unwrap(),
            None => text.parse().unwrap(),
        },
    }
}

/// Splits sorted rows where the values of the columns change.
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

/// Collects the CTEs of a statement.
#[derive(Default)]
pub struct CteBuilder(Vec<(String, String)>);

/// A statement in HogQL, and as ClickHouse runs it.
pub struct Statement {
    pub text: String,
    pub clickhouse: Query,
}

impl CteBuilder {
    pub fn add(&mut self, name: &str, text: &str) {
        self.0.push((name.to_owned(), text.to_owned()));
    }

    /// Adds the final SELECT. For ClickHouse, CTEs that are read more than once become tables.
    pub fn finish(&self, text: &str) -> Statement {
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
        let clickhouse = Query { tables, text: under(&once, &last) };
        Statement { text: under(&self.0.iter().collect::<Vec<_>>(), &last), clickhouse }
    }
}
