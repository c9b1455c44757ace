use std::collections::{BTreeMap, BTreeSet};

use jiff::ToSpan as _;
use jiff::civil::Date;
use serde_json::{Value as Json, json};

use super::history::{History, NULL, OTHER, Row};

pub fn date(query: &Json, which: &str) -> Date {
    query["dateRange"][which].as_str().unwrap().parse().unwrap()
}

/// Restricts rows to those with one of these values.
type Values<'a> = Option<&'a [Vec<String>]>;

struct Period {
    from: i64,
    to: i64,
    units: Vec<i64>,
}

struct Asked<'a> {
    history: &'a History,
    query: &'a Json,
    node: &'a Json,
    period: &'a Period,
    interval: &'a str,
    display: &'a str,
}

/// As `reference`, for one period.
type Line = (Option<Vec<String>>, Vec<f64>);

pub fn reference(history: &History, query: &Json) -> Json {
    let interval = query["interval"].as_str().unwrap();
    let display = query["trendsFilter"]["display"].as_str().unwrap();
    let (from, to) = (date(query, "date_from"), date(query, "date_to"));
    let period = |from: Date, to: Date| {
        let units = history.units(from, to, interval);
        Period { from: units[0], to: history.end_of(to), units }
    };
    let mut periods = vec![(Json::Null, period(from, to))];
    if query["compareFilter"]["compare"] == true {
        let days = (to - from).get_days() + 1;
        let before = |date: Date| date.checked_sub(days.days()).unwrap();
        periods[0].0 = json!("current");
        periods.push((json!("previous"), period(before(from), before(to))));
    }
    let mut items = Vec::new();
    for (label, period) in &periods {
        let nodes = query["series"].as_array().unwrap();
        let lines = |node| Asked { history, query, node, period, interval, display }.lines();
        let all: Vec<Vec<Line>> = nodes.iter().map(lines).collect();
        let all = match query["trendsFilter"].get("formula") {
            None => all,
            Some(formula) => vec![combine(&all, formula.as_str().unwrap(), display)],
        };
        for (value, data) in all.into_iter().flatten() {
            let mut item = match display {
                "BoldNumber" => json!({ "aggregated_value": data[0] }),
                _ => json!({ "data": data, "count": weight(display, &data) }),
            };
            item["compare_label"] = label.clone();
            if let Some(value) = value {
                item["breakdown_value"] = json!(value);
            }
            items.push(item);
        }
    }
    Json::Array(items)
}

fn weight(display: &str, data: &[f64]) -> f64 {
    match display {
        "ActionsLineGraphCumulative" => *data.last().unwrap(),
        _ => data.iter().sum(),
    }
}

fn combine(all: &[Vec<Line>], formula: &str, display: &str) -> Vec<Line> {
    let mut values: Vec<Option<Vec<String>>> = Vec::new();
    for (value, _) in all.iter().flatten() {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    let len = all.iter().flatten().map(|(_, data)| data.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for value in values {
        let of = |series: usize, at: usize| {
            let line = all[series].iter().find(|(own, _)| *own == value);
            line.map_or(0.0, |(_, data)| data[at])
        };
        let at = |at: usize| {
            let (a, b) = (of(0, at), of(1, at));
            match formula {
                "(A - B) / (A + B)" if a + b == 0.0 => 0.0,
                "(A - B) / (A + B)" => (a - b) / (a + b),
                "A / B" if b == 0.0 => 0.0,
                "A / B" => a / b,
                "A - B" => a - b,
                _ => a + b * 2.0,
            }
        };
        let data: Vec<f64> = (0..len).map(at).collect();
        lines.push((value, data));
    }
    lines.sort_by(|a, b| {
        place(&a.0).cmp(&place(&b.0)).then(weight(display, &b.1).total_cmp(&weight(display, &a.1)))
    });
    lines
}

/// Sort key: values, then the absent value, then the rest.
fn place(value: &Option<Vec<String>>) -> u8 {
    match value {
        Some(all) if all.iter().all(|text| text == NULL) => 1,
        Some(all) if all.iter().all(|text| text == OTHER) => 2,
        _ => 0,
    }
}

impl Asked<'_> {
    fn lines(&self) -> Vec<Line> {
        let mut lines = self.unsmoothed();
        if let Some(intervals) = self.query["trendsFilter"]["smoothingIntervals"].as_u64()
            && self.display != "BoldNumber"
        {
            for (_, data) in &mut lines {
                let old = data.clone();
                for at in 0..old.len() {
                    let window = &old[(at + 1).saturating_sub(intervals as usize)..=at];
                    data[at] = (window.iter().sum::<f64>() / window.len() as f64).floor();
                }
            }
        }
        lines
    }

    fn unsmoothed(&self) -> Vec<Line> {
        let Some(filter) = self.query.get("breakdownFilter") else {
            return vec![(None, self.data(None))];
        };
        let mut values: BTreeSet<Vec<String>> = BTreeSet::new();
        for row in self.counted(None) {
            values.insert(self.value(row));
        }
        let mut ranked: Vec<(Vec<String>, f64, Vec<f64>)> = Vec::new();
        for value in values {
            let data = self.data(Some(std::slice::from_ref(&value)));
            ranked.push((value, weight(self.display, &data), data));
        }
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let limit = filter["breakdown_limit"].as_u64().unwrap_or(25) as usize;
        let rest = ranked.split_off(limit.min(ranked.len()));
        let rest: Vec<Vec<String>> = rest.into_iter().map(|(value, ..)| value).collect();
        let mut lines: Vec<Line> =
            ranked.into_iter().map(|(value, _, data)| (Some(value), data)).collect();
        if !rest.is_empty() && filter.get("breakdown_hide_other_aggregation").is_none() {
            let dimensions = filter["breakdowns"].as_array().unwrap().len();
            lines.push((Some(vec![OTHER.to_owned(); dimensions]), self.data(Some(&rest))));
        }
        lines.sort_by_key(|(value, _)| place(value));
        lines
    }

    fn value(&self, row: &Row) -> Vec<String> {
        let breakdowns = self.query["breakdownFilter"]["breakdowns"].as_array().unwrap();
        breakdowns.iter().map(|breakdown| self.history.value(row, breakdown)).collect()
    }

    fn math(&self) -> &str {
        self.node["math"].as_str().unwrap()
    }

    /// Window length of a rolling count, in days.
    fn rolling(&self) -> Option<i64> {
        match self.math() {
            "weekly_active" => Some(7),
            "monthly_active" => Some(30),
            _ => None,
        }
    }

    fn days_before(&self, time: i64, days: i64) -> i64 {
        let date = self.history.local(time).date();
        self.history.end_of(date.checked_sub(days.days()).unwrap()) + 1
    }

    /// Rows that contribute to the line.
    fn counted(&self, values: Values<'_>) -> Vec<&Row> {
        let from = match self.rolling() {
            None => self.period.from,
            Some(days) if self.display == "BoldNumber" => {
                self.period.from.min(self.days_before(self.period.to, days))
            }
            Some(days) => self.period.from.min(self.days_before(self.period.units[0], days)),
        };
        let within = |row: &&&Row| row.time >= from && row.time <= self.period.to;
        let passing: Vec<&Row> = match self.math() {
            "first_time_for_user" => {
                let named = json!({ "event": self.node["event"] });
                let firsts = self.firsts(|row| self.history.passes(row, &json!({}), &named));
                firsts
                    .into_iter()
                    .filter(|row| self.history.passes(row, self.query, self.node))
                    .collect()
            }
            "first_matching_event_for_user" => {
                self.firsts(|row| self.history.passes(row, self.query, self.node))
            }
            _ => {
                let rows = self.history.rows.iter();
                rows.filter(|row| self.history.passes(row, self.query, self.node)).collect()
            }
        };
        let needs_actor = !matches!(
            self.math(),
            "total" | "sum" | "avg" | "min" | "max" | "median" | "p75" | "p90" | "p95" | "p99"
        );
        let counts = |row: &&&Row| match self.math() {
            "unique_session" => row.session.is_some(),
            "unique_group" => row.group.is_some(),
            _ => !needs_actor || self.history.who(row, self.query).is_some(),
        };
        let fits = |row: &&&Row| values.is_none_or(|values| values.contains(&self.value(row)));
        passing.iter().filter(within).filter(counts).filter(fits).copied().collect()
    }

    fn firsts(&self, passes: impl Fn(&Row) -> bool) -> Vec<&Row> {
        let mut firsts: BTreeMap<String, &Row> = BTreeMap::new();
        for row in self.history.rows.iter().filter(|row| passes(row)) {
            if let Some(who) = self.history.who(row, self.query) {
                firsts.entry(who).or_insert(row);
            }
        }
        firsts.into_values().collect()
    }

    fn data(&self, values: Values<'_>) -> Vec<f64> {
        let rows = self.counted(values);
        if self.display == "BoldNumber" {
            return vec![self.number(&rows)];
        }
        let cumulative = self.display == "ActionsLineGraphCumulative";
        let mut sum = 0.0;
        let mut data = Vec::new();
        for unit in self.period.units.windows(2) {
            let (mut from, mut behind) = (unit[0], unit[1]);
            if let Some(days) = self.rolling() {
                let last = match self.interval {
                    "hour" | "day" => unit[0],
                    _ => (unit[1] - 1).min(self.period.to),
                };
                from = self.days_before(last, days);
                behind = self.history.end_of(self.history.local(last).date()) + 1;
            }
            if cumulative && self.math() == "dau" {
                from = self.period.from;
            }
            let own: Vec<&Row> =
                rows.iter().filter(|row| from <= row.time && row.time < behind).copied().collect();
            let number = self.number(&own);
            sum += number;
            data.push(if cumulative && self.math() != "dau" { sum } else { number });
        }
        data
    }

    fn number(&self, rows: &[&Row]) -> f64 {
        let distinct = |of: &dyn Fn(&Row) -> Option<String>| {
            rows.iter().filter_map(|row| of(row)).collect::<BTreeSet<String>>().len() as f64
        };
        let who = |row: &Row| self.history.who(row, self.query);
        match self.math() {
            "total" | "first_time_for_user" | "first_matching_event_for_user" => rows.len() as f64,
            "dau" | "weekly_active" | "monthly_active" => distinct(&who),
            "unique_session" => distinct(&|row| row.session.clone()),
            "unique_group" => distinct(&|row| row.group.clone()),
            math => match math.strip_suffix("_count_per_actor") {
                Some(math) => {
                    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
                    rows.iter().filter_map(|row| who(row)).for_each(|who| {
                        *counts.entry(who).or_default() += 1.0;
                    });
                    aggregate(math, counts.into_values().collect())
                }
                None => aggregate(math, rows.iter().filter_map(|row| row.amount).collect()),
            },
        }
    }
}

fn aggregate(math: &str, mut numbers: Vec<f64>) -> f64 {
    if numbers.is_empty() {
        return 0.0;
    }
    numbers.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        let place = part * (numbers.len() - 1) as f64;
        let (low, high) = (numbers[place.floor() as usize], numbers[place.ceil() as usize]);
        low + (high - low) * place.fract()
    };
    match math {
        "sum" => numbers.iter().sum(),
        "avg" => numbers.iter().sum::<f64>() / numbers.len() as f64,
        "min" => numbers[0],
        "max" => numbers[numbers.len() - 1],
        "median" => quantile(0.5),
        percent => quantile(percent.trim_start_matches('p').parse::<f64>().unwrap() / 100.0),
    }
}
