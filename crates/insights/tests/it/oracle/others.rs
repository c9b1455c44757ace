use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use serde_json::{Value as Json, json};

use super::history::{History, NULL, OTHER, Row};
use super::trends::date;

/// The interval that contains a timestamp.
fn unit_of(units: &[i64], time: i64) -> Option<usize> {
    units.windows(2).position(|unit| unit[0] <= time && time < unit[1])
}

/// Rows of a node, with their actor and interval.
fn there<'a>(
    history: &'a History,
    query: &Json,
    node: &Json,
    units: &[i64],
) -> Vec<(String, usize, &'a Row)> {
    let rows = history.rows.iter().filter(|row| history.passes(row, query, node));
    rows.filter_map(|row| Some((history.who(row, query)?, unit_of(units, row.time)?, row)))
        .collect()
}

pub fn stickiness(history: &History, query: &Json) -> Json {
    let (from, to) = (date(query, "date_from"), date(query, "date_to"));
    let mut units = history.units(from, to, query["interval"].as_str().unwrap());
    // Windows of several intervals end with the last one.
    if let Some(count) = query["intervalCount"].as_u64() {
        let last = units.len() - 1;
        let ends: BTreeSet<usize> = (0..=last).rev().step_by(count as usize).chain([0]).collect();
        units = ends.into_iter().map(|at| units[at]).collect();
    }
    let len = units.len() - 1;
    // Nothing counts after the last day, even if its week goes on.
    units[len] = units[len].min(history.end_of(to) + 1);
    let filter = &query["stickinessFilter"];
    let enough = |count: u64| match filter.get("stickinessCriteria") {
        None => count > 0,
        Some(criteria) => {
            let value = criteria["value"].as_u64().unwrap();
            match criteria["operator"].as_str().unwrap() {
                "gte" => count >= value,
                "lte" => count <= value,
                _ => count == value,
            }
        }
    };
    let one = |node: &Json| {
        let mut counts: BTreeMap<(String, usize), u64> = BTreeMap::new();
        for (who, unit, _) in there(history, query, node, &units) {
            *counts.entry((who, unit)).or_default() += 1;
        }
        let mut units: BTreeMap<String, usize> = BTreeMap::new();
        for ((who, _), count) in counts {
            if enough(count) {
                *units.entry(who).or_default() += 1;
            }
        }
        let data: Vec<usize> = (1..=len)
            .map(|wanted| {
                let fits = |own: &&usize| match filter["computedAs"].as_str().unwrap() {
                    "cumulative" => **own >= wanted,
                    _ => **own == wanted,
                };
                units.values().filter(fits).count()
            })
            .collect();
        json!({"data": data, "count": units.len()})
    };
    query["series"].as_array().unwrap().iter().map(one).collect()
}

pub fn lifecycle(history: &History, query: &Json) -> Json {
    let interval = query["interval"].as_str().unwrap();
    let (from, to) = (date(query, "date_from"), date(query, "date_to"));
    let before: Date = history.unit_of(from, interval).yesterday().unwrap();
    let mut units = history.units(before, to, interval);
    let len = units.len() - 1;
    let created = |who: &str| unit_of(&units, *history.created.get(who)?);
    let born: BTreeMap<String, Option<usize>> =
        history.rows.iter().map(|row| (row.person.clone(), created(&row.person))).collect();
    units[len] = units[len].min(history.end_of(to) + 1);
    let mut active: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (who, unit, _) in there(history, query, &query["series"][0], &units) {
        active.entry(who).or_default().insert(unit);
    }
    let mut data = vec![vec![0i64; len - 1]; 4];
    for unit in 1..len {
        for (who, own) in &active {
            let (is, was) = (own.contains(&unit), own.contains(&(unit - 1)));
            let first = own.first() == Some(&unit);
            let status = match (is, was) {
                (true, _) if first && born[who] == Some(unit) => 0,
                (true, true) => 1,
                (true, false) => 2,
                (false, true) => 3,
                (false, false) => continue,
            };
            data[status][unit - 1] += if status == 3 { -1 } else { 1 };
        }
    }
    let words = ["new", "returning", "resurrecting", "dormant"];
    words.iter().zip(data).map(|(word, data)| json!({"status": word, "data": data})).collect()
}

pub fn retention(history: &History, query: &Json) -> Json {
    let filter = &query["retentionFilter"];
    let interval = filter["period"].as_str().unwrap().to_lowercase();
    let total = filter["totalIntervals"].as_u64().unwrap() as usize;
    let to = date(query, "date_to");
    let mut rows = Vec::new();
    if query["dateRange"].get("date_from").is_some() {
        rows = history.units(date(query, "date_from"), to, &interval);
    } else {
        let mut from = history.unit_of(to, &interval);
        while rows.len() != total + 1 {
            rows = history.units(from, to, &interval);
            from = history.unit_of(from.yesterday().unwrap(), &interval);
        }
    }
    let node = |entity: &str| json!({"event": filter[entity]["id"], "properties": filter[entity]["properties"]});
    let (target, returning) = (node("targetEntity"), node("returningEntity"));
    let rolling = (filter["timeWindowMode"] == "24_hour_windows").then(|| {
        let days = match interval.as_str() {
            "day" => 1,
            "week" => 7,
            _ => 30,
        };
        days * 86_400_000_000
    });
    let kind = filter["retentionType"].as_str().unwrap();
    let mut starts: Vec<(String, usize, &Row)> = Vec::new();
    if kind == "retention_recurring" {
        starts = there(history, query, &target, &rows);
        if rolling.is_some() {
            let mut known = BTreeSet::new();
            starts.retain(|(who, ..)| known.insert(who.clone()));
        }
    } else {
        let mut known = BTreeSet::new();
        for row in &history.rows {
            let passes = history.passes(row, query, &target);
            let counts = match kind {
                "retention_first_time" => passes,
                _ => history.passes(row, &json!({}), &json!({ "event": target["event"] })),
            };
            let Some(who) = history.who(row, query).filter(|_| counts) else { continue };
            // Several events with the first timestamp are all first.
            let again = !known.insert((who.clone(), row.time));
            let first = known.range((who.clone(), i64::MIN)..).next().map(|(_, time)| *time);
            if !again
                && first == Some(row.time)
                && passes
                && let Some(at) = unit_of(&rows, row.time)
            {
                starts.push((who, at, row));
            }
        }
    }
    let began: BTreeMap<&str, i64> =
        starts.iter().map(|(who, _, row)| (who.as_str(), row.time)).collect();
    let mut returns: BTreeMap<(String, usize), u64> = BTreeMap::new();
    for (who, at, row) in there(history, query, &returning, &rows) {
        let at = match rolling {
            None => at,
            Some(window) => match began.get(who.as_str()) {
                Some(start) if *start <= row.time => ((row.time - start) / window) as usize,
                _ => continue,
            },
        };
        *returns.entry((who, at)).or_default() += 1;
    }
    let often = filter["minimumOccurrences"].as_u64().unwrap();
    let is_back = |who: &str, row: usize| {
        returns.get(&(who.to_owned(), row)).is_some_and(|count| *count >= often)
    };
    // The first and last interval after the start, for each column after the first.
    let mut columns: Vec<(usize, usize)> = (1..total).map(|at| (at, at)).collect();
    if let Some(brackets) = filter["retentionCustomBrackets"].as_array() {
        let mut last = 0;
        columns.clear();
        for size in brackets {
            let size = size.as_u64().unwrap() as usize;
            columns.push((last + 1, last + size));
            last += size;
        }
    }
    // The amount of an actor that starts in a row: of its events in the row, and in each later column.
    let amount_of = |who: &str, row: usize, at: usize| -> f64 {
        let amounts = |node: &Json, rows_of: std::ops::RangeInclusive<usize>, after: i64| -> f64 {
            there(history, query, node, &rows)
                .iter()
                .filter(|(own, at, row)| own == who && rows_of.contains(at) && row.time > after)
                .filter(|(_, own, _)| *own == row || is_back(who, *own))
                .filter_map(|(.., row)| row.amount)
                .sum()
        };
        if at > 0 {
            let (first, last) = columns[at - 1];
            return amounts(&returning, row + first..=row + last, i64::MIN);
        }
        if target == returning {
            return amounts(&target, row..=row, i64::MIN);
        }
        let own = there(history, query, &target, &rows);
        let own = own.iter().filter(|(own, at, _)| own == who && *at == row);
        amounts(&returning, row..=row, own.map(|(.., row)| row.time).min().unwrap())
    };
    let aggregation = filter["aggregationType"].as_str();
    let table = |starts: &BTreeSet<(usize, String)>| -> Vec<Json> {
        (0..rows.len() - 1)
            .map(|row| {
                let cohort: Vec<&String> =
                    starts.iter().filter(|(at, _)| *at == row).map(|(_, who)| who).collect();
                let base = if rolling.is_some() { 0 } else { row };
                let returned = |at: usize| -> Vec<&String> {
                    let Some((first, last)) = at.checked_sub(1).map(|at| columns[at]) else {
                        return cohort.clone();
                    };
                    let last = match filter["cumulative"].as_bool().unwrap() {
                        true => rows.len(),
                        false => base + last,
                    };
                    let returned =
                        |who: &&&String| (base + first..=last).any(|at| is_back(who, at));
                    cohort.iter().filter(returned).copied().collect()
                };
                let value = |at: usize| {
                    let actors = returned(at);
                    let mut value = json!({ "count": actors.len() });
                    if let Some(aggregation) = aggregation {
                        let sum: f64 = actors.iter().map(|who| amount_of(who, row, at)).sum();
                        value["aggregation_value"] = json!(match aggregation {
                            "avg" if !actors.is_empty() => sum / actors.len() as f64,
                            _ => sum,
                        });
                    }
                    value
                };
                let values: Vec<Json> = (0..=columns.len()).map(value).collect();
                json!({ "values": values })
            })
            .collect()
    };
    let Some(filter) = query.get("breakdownFilter") else {
        let starts = starts.into_iter().map(|(who, row, _)| (row, who)).collect();
        return Json::Array(table(&starts));
    };
    let mut by_value: BTreeMap<String, BTreeSet<(usize, String)>> = BTreeMap::new();
    for (who, at, row) in starts {
        let value = history.value(row, &filter["breakdowns"][0]);
        by_value.entry(value).or_default().insert((at, who));
    }
    let mut ranked: Vec<(String, BTreeSet<(usize, String)>)> = by_value.into_iter().collect();
    ranked.sort_by_key(|(_, starts)| std::cmp::Reverse(starts.len()));
    let limit = filter["breakdown_limit"].as_u64().unwrap_or(25) as usize;
    let rest = ranked.split_off(limit.min(ranked.len()));
    ranked.sort_by_key(|(value, _)| value == NULL);
    if !rest.is_empty() && filter.get("breakdown_hide_other_aggregation").is_none() {
        ranked.push((OTHER.to_owned(), rest.into_iter().flat_map(|(_, starts)| starts).collect()));
    }
    let mut items = Vec::new();
    for (value, starts) in ranked {
        for mut row in table(&starts) {
            row["breakdown_value"] = json!(value);
            items.push(row);
        }
    }
    Json::Array(items)
}

pub fn paths(history: &History, query: &Json) -> Json {
    let filter = &query["pathsFilter"];
    let (from, to) = (date(query, "date_from"), date(query, "date_to"));
    let (from, to) = (history.units(from, to, "day")[0], history.end_of(to));
    let excluded = |row: &Row| filter.get("excludeEvents").is_some() && row.event == "c";
    let mut sessions: BTreeMap<String, Vec<Vec<(String, i64)>>> = BTreeMap::new();
    for row in history.rows.iter().filter(|row| from <= row.time && row.time <= to) {
        let counts = history.passes(row, query, &json!({})) && !excluded(row);
        let Some(who) = history.who(row, query).filter(|_| counts) else { continue };
        let own = sessions.entry(who).or_default();
        let item = (row.event.clone(), row.time);
        match own.last_mut() {
            Some(session) if row.time - session[session.len() - 1].1 <= 1_800_000_000 => {
                session.push(item)
            }
            _ => own.push(vec![item]),
        }
    }
    let limit = filter["stepLimit"].as_u64().unwrap() as usize;
    let (start, end) = (filter["startPoint"].as_str(), filter["endPoint"].as_str());
    let mut edges: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    'sessions: for session in sessions.into_values().flatten() {
        let mut path: Vec<(String, i64)> = Vec::new();
        for (item, time) in session {
            if path.last().is_none_or(|(last, _)| *last != item) {
                path.push((item, time));
            }
        }
        if let Some(start) = start {
            while path.first().is_some_and(|(item, _)| item != start) {
                path.remove(0);
            }
        }
        if let Some(end) = end {
            match path.iter().position(|(item, _)| item == end) {
                Some(place) => path.truncate(place + 1),
                None => continue 'sessions,
            }
        }
        if path.len() > limit {
            path = match (start, end) {
                (Some(_), Some(_)) => {
                    let half = limit / 2;
                    let mut cut = path[..half].to_vec();
                    cut.push(("...".to_owned(), path[half].1));
                    cut.extend_from_slice(&path[path.len() - half..]);
                    cut
                }
                (None, Some(_)) => path[path.len() - limit..].to_vec(),
                _ => path[..limit].to_vec(),
            };
        }
        for (at, pair) in path.windows(2).enumerate() {
            let source = format!("{}_{}", at + 1, pair[0].0);
            let target = format!("{}_{}", at + 2, pair[1].0);
            edges.entry((source, target)).or_default().push((pair[1].1 - pair[0].1) as f64 / 1e3);
        }
    }
    let least = filter["minEdgeWeight"].as_u64().unwrap_or(0) as usize;
    let mut edges: Vec<((String, String), Vec<f64>)> =
        edges.into_iter().filter(|(_, times)| times.len() >= least).collect();
    edges.sort_by_key(|(_, times)| std::cmp::Reverse(times.len()));
    edges.truncate(filter["edgeLimit"].as_u64().unwrap() as usize);
    let mut reached: BTreeSet<String> = edges
        .iter()
        .map(|((source, _), _)| source.clone())
        .filter(|node| node.starts_with("1_"))
        .collect();
    for _ in 0..limit {
        for ((source, target), _) in &edges {
            if reached.contains(source) {
                reached.insert(target.clone());
            }
        }
    }
    let kept = edges.into_iter().filter(|((source, _), _)| reached.contains(source));
    kept.map(|((source, target), times)| {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        json!({"source": source, "target": target, "value": times.len(), "average_conversion_time": mean})
    })
    .collect()
}
