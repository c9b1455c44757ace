use std::collections::{BTreeMap, BTreeSet};

use jiff::ToSpan as _;
use jiff::civil::Date;
use serde_json::{Value as Json, json};

use super::history::{History, NULL, Row};
use super::trends::date;

struct Asked<'a> {
    history: &'a History,
    query: &'a Json,
    steps: &'a [Json],
    window: i64,
    order: &'a str,
}

/// Timestamps and rows of the completed steps.
#[derive(Clone, Debug, Default)]
struct Run<'a> {
    /// Up to the last completed step; those of skipped steps mean nothing.
    times: Vec<i64>,
    skipped: BTreeSet<usize>,
    rows: Vec<Option<&'a Row>>,
}

pub fn reference(history: &History, query: &Json) -> Json {
    let asked = Asked::new(history, query);
    if query["compareFilter"]["compare"] != true {
        return match query["funnelsFilter"]["funnelVizType"].as_str().unwrap() {
            "steps" => asked.counts(),
            "trends" => asked.trends(),
            _ => histogram(&asked.seconds(), &asked.seconds()),
        };
    }
    let (from, to) = (date(query, "date_from"), date(query, "date_to"));
    let days = (to - from).get_days() + 1;
    let before = |date: Date| json!(date.checked_sub(days.days()).unwrap().to_string());
    let mut earlier = query.clone();
    earlier["dateRange"] = json!({"date_from": before(from), "date_to": before(to)});
    let previous = Asked::new(history, &earlier);
    let mut sides = match query["funnelsFilter"]["funnelVizType"].as_str().unwrap() {
        "steps" => [asked.counts(), previous.counts()],
        "trends" => [asked.trends(), previous.trends()],
        _ => {
            // Compared periods without any conversion have no bins.
            let both = [asked.seconds(), previous.seconds()];
            let mut all = both.concat();
            all.sort_by(f64::total_cmp);
            both.map(|seconds| {
                let mut own = histogram(&seconds, &all);
                if all.is_empty() {
                    own["bins"] = json!([]);
                }
                json!([own])
            })
        }
    };
    if asked.breakdown().is_some() && query["funnelsFilter"]["funnelVizType"] == "steps" {
        sides = counterparts(&sides);
    }
    for (side, word) in sides.iter_mut().zip(["current", "previous"]) {
        for item in side.as_array_mut().unwrap() {
            match item {
                Json::Array(steps) => {
                    steps.iter_mut().for_each(|step| step["compare_label"] = json!(word));
                }
                item => item["compare_label"] = json!(word),
            }
        }
    }
    let [current, previous] = sides.map(|side| side.as_array().unwrap().clone());
    Json::Array([current, previous].concat())
}

/// Both sides with the funnels of all breakdown values, those of the current one first.
fn counterparts(sides: &[Json; 2]) -> [Json; 2] {
    let funnels = || sides.iter().flat_map(|side| side.as_array().unwrap());
    let mut values: Vec<&Json> = Vec::new();
    for funnel in funnels() {
        if !values.contains(&&funnel[0]["breakdown"]) {
            values.push(&funnel[0]["breakdown"]);
        }
    }
    let empty = |value: &&Json| {
        let mut funnel = funnels().find(|own| own[0]["breakdown"] == **value).unwrap().clone();
        for step in funnel.as_array_mut().unwrap() {
            step["count"] = json!(0);
            step["average_conversion_time"] = Json::Null;
            step["median_conversion_time"] = Json::Null;
        }
        funnel
    };
    [0, 1].map(|side| {
        let own = |value: &&Json| {
            let all = sides[side].as_array().unwrap();
            all.iter().find(|own| own[0]["breakdown"] == **value).cloned()
        };
        values.iter().map(|value| own(value).unwrap_or_else(|| empty(value))).collect()
    })
}

impl<'a> Asked<'a> {
    fn new(history: &'a History, query: &'a Json) -> Self {
        let filter = &query["funnelsFilter"];
        let unit = match filter["funnelWindowIntervalUnit"].as_str().unwrap() {
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            _ => 7 * 86_400,
        };
        Asked {
            history,
            query,
            steps: query["series"].as_array().unwrap(),
            window: filter["funnelWindowInterval"].as_i64().unwrap() * unit * 1_000_000,
            order: filter["funnelOrderType"].as_str().unwrap(),
        }
    }

    fn is_optional(&self, step: usize) -> bool {
        self.steps[step]["optionalInFunnel"] == true
    }

    fn has_optional(&self) -> bool {
        (0..self.steps.len()).any(|step| self.is_optional(step))
    }

    /// The steps that can be the last completed one before a step, the nearest first.
    fn before(&self, step: usize) -> Vec<usize> {
        let required = (0..step).rev().find(|before| !self.is_optional(*before)).unwrap();
        (required..step).rev().collect()
    }

    /// With optional steps, events have timestamps of their own. Reads them one after the other: `reached`
    /// has for each step the conversion that got to it first.
    fn run_optional(&self, rows: &[&'a Row], first: usize) -> Run<'a> {
        let mut reached: Vec<Option<Vec<(usize, &'a Row)>>> = vec![None; self.steps.len()];
        reached[0] = Some(vec![(0, rows[first])]);
        let mut furthest = reached[0].clone().unwrap();
        for row in &rows[first + 1..] {
            if self.order == "strict" && !self.history.passes(row, self.query, &json!({})) {
                continue;
            }
            if row.time - rows[first].time > self.window {
                break;
            }
            let earlier = reached.clone();
            if self.order == "strict" {
                reached = vec![None; self.steps.len()];
            }
            for step in (1..self.steps.len()).filter(|step| self.is_step(row, *step)) {
                let before = self.before(step).into_iter().find_map(|at| earlier[at].clone());
                if let (None, Some(mut path)) = (&reached[step], before) {
                    path.push((step, row));
                    if step > furthest.last().unwrap().0 {
                        furthest = path.clone();
                    }
                    reached[step] = Some(path);
                }
            }
        }
        let level = furthest.last().unwrap().0 + 1;
        let mut run = Run {
            times: vec![i64::MIN; level],
            skipped: (0..level).collect(),
            rows: vec![None; self.steps.len()],
        };
        for (step, row) in furthest {
            run.times[step] = row.time;
            run.skipped.remove(&step);
            run.rows[step] = Some(row);
        }
        run
    }

    fn is_step(&self, row: &Row, step: usize) -> bool {
        self.history.passes(row, self.query, &self.steps[step])
    }

    fn any_step(&self, row: &Row) -> bool {
        (0..self.steps.len()).any(|step| self.is_step(row, step))
    }

    fn is_exclusion(&self, row: &Row) -> bool {
        self.history.passes(row, self.query, &json!({"event": "c"}))
    }

    /// Steps that may select the same event need different timestamps.
    fn overlap(&self, a: usize, b: usize) -> bool {
        match (self.steps[a]["event"].as_str(), self.steps[b]["event"].as_str()) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }

    fn period(&self) -> (i64, i64, Vec<i64>) {
        let (from, to) = (date(self.query, "date_from"), date(self.query, "date_to"));
        let units = self.history.units(from, to, self.query["interval"].as_str().unwrap());
        (units[0], self.history.end_of(to), units)
    }

    fn sequences(&self) -> Vec<Vec<&'a Row>> {
        let (from, to, _) = self.period();
        let mut sequences: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
        for row in self.history.rows.iter().filter(|row| from <= row.time && row.time <= to) {
            if let Some(who) = self.history.who(row, self.query) {
                sequences.entry(who).or_default().push(row);
            }
        }
        sequences.into_values().collect()
    }

    /// The run that starts with a row, if it can start one.
    fn run(&self, rows: &[&'a Row], first: usize) -> Option<Run<'a>> {
        let done = vec![None; self.steps.len()];
        match self.order {
            "unordered" => self.any_step(rows[first]).then(|| self.unordered(rows, first)),
            _ if !self.is_step(rows[first], 0) => None,
            _ if self.has_optional() => Some(self.run_optional(rows, first)),
            "strict" => {
                let mut run = Run { rows: done, ..Run::default() };
                // Filters decide which events can lie between.
                let seen = rows[first..]
                    .iter()
                    .filter(|row| self.history.passes(row, self.query, &json!({})));
                for (step, row) in seen.take(self.steps.len()).enumerate() {
                    if !self.is_step(row, step) || row.time - rows[first].time > self.window {
                        break;
                    }
                    run.times.push(row.time);
                    run.rows[step] = Some(row);
                }
                Some(run)
            }
            _ => {
                let times = vec![rows[first].time];
                let mut start = Run { times, rows: done, ..Run::default() };
                start.rows[0] = Some(rows[first]);
                Some(self.longest(rows, start))
            }
        }
    }

    /// Tries every next step; the longest, and of those the earliest.
    fn longest(&self, rows: &[&'a Row], run: Run<'a>) -> Run<'a> {
        let step = run.times.len();
        let mut best = run.clone();
        if step == self.steps.len() {
            return best;
        }
        for row in rows.iter().filter(|row| self.is_step(row, step)) {
            let fits = (0..step).all(|before| match self.overlap(before, step) {
                true => row.time > run.times[before],
                false => row.time >= run.times[before],
            });
            if !fits || row.time - run.times[0] > self.window {
                continue;
            }
            let mut next = run.clone();
            next.times.push(row.time);
            next.rows[step] = Some(row);
            let found = self.longest(rows, next);
            let better = found.times.len() > best.times.len()
                || (found.times.len() == best.times.len() && found.times < best.times);
            if better {
                best = found;
            }
        }
        best
    }

    fn unordered(&self, rows: &[&'a Row], first: usize) -> Run<'a> {
        let start = rows[first].time;
        let within: Vec<&Row> = rows
            .iter()
            .filter(|row| row.time >= start && row.time - start <= self.window)
            .copied()
            .collect();
        let mut run = Run { rows: vec![None; self.steps.len()], ..Run::default() };
        for end in 0..within.len() {
            let done = self.assign(&within[..=end], 0, &mut Vec::new());
            while run.times.len() < done {
                run.times.push(within[end].time);
            }
        }
        run
    }

    /// How many steps can have timestamps of their own.
    fn assign(&self, rows: &[&Row], step: usize, taken: &mut Vec<(usize, i64)>) -> usize {
        if step == self.steps.len() {
            return taken.len();
        }
        let mut best = self.assign(rows, step + 1, taken);
        let mut tried = BTreeSet::new();
        for row in rows.iter().filter(|row| self.is_step(row, step)) {
            let free = taken
                .iter()
                .all(|(other, time)| *time != row.time || !self.connected(*other, step));
            if free && tried.insert(row.time) && best < self.steps.len() {
                taken.push((step, row.time));
                best = best.max(self.assign(rows, step + 1, taken));
                taken.pop();
            }
        }
        best
    }

    /// Whether steps overlap, directly or over others.
    fn connected(&self, a: usize, b: usize) -> bool {
        let mut known = BTreeSet::from([a]);
        loop {
            let more: BTreeSet<usize> = (0..self.steps.len())
                .filter(|step| known.iter().any(|known| self.overlap(*known, *step)))
                .collect();
            if more.is_subset(&known) {
                return known.contains(&b);
            }
            known.extend(more);
        }
    }

    fn runs(&self, rows: &[&'a Row]) -> Vec<Run<'a>> {
        let mut runs: Vec<Run<'a>> = Vec::new();
        for first in 0..rows.len() {
            if let Some(run) = self.run(rows, first) {
                runs.push(run);
            }
        }
        runs
    }

    /// The longest of some runs, of those the earliest.
    fn best(&self, runs: &[Run<'a>]) -> Option<Run<'a>> {
        let mut best: Option<&Run<'a>> = None;
        for run in runs {
            let longer = |best: &Run<'a>| {
                run.times.len() > best.times.len()
                    || (run.times.len() == best.times.len() && run.times[0] < best.times[0])
            };
            if best.is_none_or(longer) {
                best = Some(run);
            }
        }
        best.cloned()
    }

    fn excluded(&self, run: &Run<'_>, rows: &[&Row]) -> bool {
        let none = Vec::new();
        let exclusions = self.query["funnelsFilter"]["exclusions"].as_array().unwrap_or(&none);
        exclusions.iter().any(|exclusion| {
            let step = |key: &str| exclusion[key].as_u64().unwrap() as usize;
            let (from, to) = (step("funnelFromStep"), step("funnelToStep"));
            if run.times.len() <= to {
                return false;
            }
            let from = (0..=from).rev().find(|step| run.completed(*step)).unwrap();
            let to = (to..run.times.len()).find(|step| run.completed(*step)).unwrap();
            rows.iter().any(|row| {
                self.is_exclusion(row) && run.times[from] < row.time && row.time < run.times[to]
            })
        })
    }

    fn breakdown(&self) -> Option<&Json> {
        Some(&self.query.get("breakdownFilter")?["breakdowns"][0])
    }

    /// Event sequences to count, each with its value if all events must share one.
    fn split(&self) -> Vec<(Option<String>, Vec<&'a Row>)> {
        let every = self.query["funnelsFilter"]["breakdownAttributionType"] == "all_events";
        let Some(breakdown) = self.breakdown().filter(|_| every) else {
            return self.sequences().into_iter().map(|rows| (None, rows)).collect();
        };
        let mut split = Vec::new();
        for rows in self.sequences() {
            let values: BTreeSet<String> = rows
                .iter()
                .filter(|row| self.any_step(row))
                .map(|row| self.history.value(row, breakdown))
                .collect();
            for value in values {
                let own = |row: &&&Row| {
                    self.history.value(row, breakdown) == value
                        || (self.is_exclusion(row)
                            && self.query["funnelsFilter"].get("exclusions").is_some())
                };
                split.push((Some(value.clone()), rows.iter().filter(own).copied().collect()));
            }
        }
        split
    }

    fn value(&self, run: &Run<'_>, rows: &[&Row]) -> String {
        let Some(breakdown) = self.breakdown() else { return String::new() };
        let filter = &self.query["funnelsFilter"];
        let mut touched = rows
            .iter()
            .filter(|row| self.any_step(row))
            .map(|row| self.history.value(row, breakdown))
            .filter(|value| value != NULL);
        let found = match filter["breakdownAttributionType"].as_str().unwrap() {
            "first_touch" => touched.next(),
            "last_touch" => touched.next_back(),
            _ => {
                let step = filter["breakdownAttributionValue"].as_u64().unwrap() as usize;
                run.rows[step].map(|row| self.history.value(row, breakdown))
            }
        };
        found.unwrap_or_else(|| NULL.to_owned())
    }

    /// Funnels by value, the largest first; values beyond the limit are merged.
    fn ranked<T>(
        &self,
        by_value: BTreeMap<String, T>,
        size: impl Fn(&T) -> u64,
        join: impl Fn(&mut T, T),
    ) -> Vec<(Json, T)> {
        let mut ranked: Vec<(String, T)> = by_value.into_iter().collect();
        ranked.sort_by_key(|(_, own)| std::cmp::Reverse(size(own)));
        let filter = &self.query["breakdownFilter"];
        let limit = filter["breakdown_limit"].as_u64().unwrap_or(25) as usize;
        let rest = ranked.split_off(limit.min(ranked.len()));
        let name = |value: String| if value == NULL { json!([""]) } else { json!([value]) };
        let mut all: Vec<(Json, T)> =
            ranked.into_iter().map(|(value, own)| (name(value), own)).collect();
        let mut rest = rest.into_iter().map(|(_, own)| own);
        if filter.get("breakdown_hide_other_aggregation").is_none()
            && let Some(mut other) = rest.next()
        {
            rest.for_each(|own| join(&mut other, own));
            all.push((json!(["Other"]), other));
        }
        all
    }

    fn counts(&self) -> Json {
        let mut by_value: BTreeMap<String, Vec<Run<'_>>> = BTreeMap::new();
        for (value, rows) in self.split() {
            let Some(run) = self.best(&self.runs(&rows)) else { continue };
            if !self.excluded(&run, &rows) {
                let value = value.unwrap_or_else(|| self.value(&run, &rows));
                by_value.entry(value).or_default().push(run);
            }
        }
        let funnel = |runs: &[Run<'_>], breakdown: Option<Json>| -> Json {
            let step = |step: usize| {
                let reached: Vec<&Run<'_>> =
                    runs.iter().filter(|run| run.completed(step)).collect();
                let seconds: Vec<f64> = match step {
                    0 => Vec::new(),
                    step => {
                        let required = *self.before(step).last().unwrap();
                        let seconds =
                            |run: &&Run<'_>| (run.times[step] - run.times[required]) as f64 / 1e6;
                        reached.iter().map(seconds).collect()
                    }
                };
                let mut item = json!({
                    "count": reached.len(), "order": step,
                    "average_conversion_time": mean(&seconds),
                    "median_conversion_time": median(&seconds),
                });
                if let Some(breakdown) = &breakdown {
                    item["breakdown"] = breakdown.clone();
                }
                item
            };
            (0..self.steps.len()).map(step).collect()
        };
        if self.breakdown().is_none() {
            return funnel(&by_value.into_values().next().unwrap_or_default(), None);
        }
        let all = self.ranked(by_value, |runs| runs.len() as u64, |own, other| own.extend(other));
        all.into_iter().map(|(value, runs)| funnel(&runs, Some(value))).collect()
    }

    fn trends(&self) -> Json {
        let (_, _, units) = self.period();
        let buckets = units.len() - 1;
        let mut by_value: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        for (value, rows) in self.split() {
            let runs = self.runs(&rows);
            for (bucket, unit) in units.windows(2).enumerate() {
                let own: Vec<Run<'_>> = runs
                    .iter()
                    .filter(|run| unit[0] <= run.times[0] && run.times[0] < unit[1])
                    .cloned()
                    .collect();
                let Some(run) = self.best(&own) else { continue };
                if self.excluded(&run, &rows) {
                    continue;
                }
                let value = value.clone().unwrap_or_else(|| self.value(&run, &rows));
                let counts = by_value.entry(value).or_insert_with(|| vec![(0, 0); buckets]);
                counts[bucket].0 += 1;
                counts[bucket].1 += u64::from(run.times.len() == self.steps.len());
            }
        }
        let data = |counts: &[(u64, u64)]| -> Vec<f64> {
            let percent = |(entered, converted): &(u64, u64)| match entered {
                0 => 0.0,
                _ => (*converted as f64 / *entered as f64 * 10_000.0).round() / 100.0,
            };
            counts.iter().map(percent).collect()
        };
        if self.breakdown().is_none() {
            let whole = by_value.into_values().next().unwrap_or_else(|| vec![(0, 0); buckets]);
            return json!([{ "data": data(&whole) }]);
        }
        let size = |counts: &Vec<(u64, u64)>| counts.iter().map(|(entered, _)| entered).sum();
        let join = |own: &mut Vec<(u64, u64)>, other: Vec<(u64, u64)>| {
            for (own, other) in own.iter_mut().zip(other) {
                *own = (own.0 + other.0, own.1 + other.1);
            }
        };
        let all = self.ranked(by_value, size, join);
        all.into_iter()
            .map(|(value, counts)| json!({"data": data(&counts), "breakdown_value": value}))
            .collect()
    }

    /// Conversion times, sorted.
    fn seconds(&self) -> Vec<f64> {
        let mut seconds = Vec::new();
        for rows in self.sequences() {
            let Some(run) = self.best(&self.runs(&rows)) else { continue };
            if run.times.len() == self.steps.len() && !self.excluded(&run, &rows) {
                seconds.push((run.times[self.steps.len() - 1] - run.times[0]) as f64 / 1e6);
            }
        }
        seconds.sort_by(f64::total_cmp);
        seconds
    }
}

impl Run<'_> {
    fn completed(&self, step: usize) -> bool {
        step < self.times.len() && !self.skipped.contains(&step)
    }
}

/// The histogram of conversion times, with the bins of all that are compared.
fn histogram(seconds: &[f64], all: &[f64]) -> Json {
    let bins = match (all.first(), all.last()) {
        (Some(low), Some(high)) => {
            let (low, high) = (low.floor(), high.ceil());
            let count = (all.len() as f64).cbrt().ceil();
            let width = ((high - low) / count).ceil();
            let width = if width == 0.0 { 60.0 } else { width };
            let bin = |at: usize| {
                let (from, to) = (low + at as f64 * width, low + (at + 1) as f64 * width);
                let own = seconds.iter().filter(|own| from <= **own && **own < to);
                json!([from, own.count()])
            };
            (0..=count as usize).map(bin).collect()
        }
        _ => json!([[0, 0], [1, 0]]),
    };
    json!({
        "average_conversion_time": mean(seconds),
        "median_conversion_time": median(seconds),
        "bins": bins,
    })
}

fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}
