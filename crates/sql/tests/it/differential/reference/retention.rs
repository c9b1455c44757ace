//! Reference lowering of retention, lifecycle and stickiness.

use serde_json::{Value as Json, json};

use super::fragments::{
    CteBuilder, Intervals, NULL, OTHER, ReferencePlan, actor, date, hides_others, limit,
    node_event, runs, selected, value,
};
use crate::differential::mirrored_project::MirroredProject;

pub fn stickiness(project: &MirroredProject, query: &Json) -> ReferencePlan {
    let intervals = Intervals::of(project, query);
    let (own, bucket) = (actor(query), intervals.bucket("timestamp"));
    let filter = &query["stickinessFilter"];
    let enough = match filter.get("stickinessCriteria") {
        None => String::new(),
        Some(criteria) => {
            let sign = match criteria["operator"].as_str().unwrap() {
                "gte" => ">=",
                "lte" => "<=",
                _ => "=",
            };
            format!(" having count() {sign} {}", criteria["value"])
        }
    };
    let sign = if filter["computedAs"] == "cumulative" { ">=" } else { "=" };
    let count = query["intervalCount"].as_u64().unwrap_or(1) as usize;
    let windows = intervals.len.div_ceil(count);
    let mut statements = Vec::new();
    for node in query["series"].as_array().unwrap() {
        let mut ctes = CteBuilder::default();
        ctes.add("intervals", &intervals.list());
        ctes.add(
            "seen",
            &format!(
                "select {own} as a, {bucket} as b from events where {} and {} and {own} is not null",
                intervals.within("timestamp"),
                selected(query, node)
            ),
        );
        ctes.add(
            "active",
            &format!(
                "select s.a as a, intDiv({} - u.i, {count}) as w from seen s inner join intervals \
                 u on s.b = u.b group by s.a, w{enough}",
                intervals.len - 1
            ),
        );
        ctes.add("often", "select a, count() as n from active group by a");
        ctes.add("ks", &format!("select number + 1 as k from numbers({windows})"));
        ctes.add(
            "found",
            &format!(
                "select k.k as k, count() as c from ks k cross join often o where o.n {sign} k.k \
                 group by k.k"
            ),
        );
        statements.push(ctes.finish(
            "select k.k, ifNull(f.c, 0), (select count() from often) from ks k left join found f \
             on k.k = f.k order by k.k",
        ));
    }
    let to_result = |row_sets: &[Vec<Json>]| {
        let one = |rows: &Vec<Json>| {
            let data: Vec<Json> = rows.iter().map(|row| row[1].clone()).collect();
            json!({"data": data, "count": rows[0][2]})
        };
        row_sets.iter().map(one).collect()
    };
    ReferencePlan { statements, to_result: Box::new(to_result) }
}

pub fn lifecycle(project: &MirroredProject, query: &Json) -> ReferencePlan {
    let requested = Intervals::of(project, query);
    let before = requested.from.yesterday().unwrap();
    let intervals = Intervals::new(project, before, requested.to, &requested.interval);
    let mut ctes = CteBuilder::default();
    ctes.add("intervals", &intervals.list());
    ctes.add(
        "seen",
        &format!(
            "select distinct toString(person_id) as a, {} as b, {} as c from events where {} and {}",
            intervals.bucket("timestamp"),
            intervals.bucket("person.created_at"),
            intervals.within("timestamp"),
            selected(query, &query["series"][0])
        ),
    );
    ctes.add(
        "active",
        "select s.a as a, u.i as i, ifNull(s.b = s.c, 0) as born from seen s \
         inner join intervals u on s.b = u.b",
    );
    ctes.add("firsts", "select a, min(i) as f from active group by a");
    ctes.add(
        "present",
        "select x.a as a, x.i as i, multiIf(x.born and f.f = x.i, 0, y.a is not null, 1, 2) as s \
         from active x inner join firsts f on x.a = f.a left join active y \
         on x.a = y.a and x.i = y.i + 1",
    );
    ctes.add(
        "gone",
        "select x.a as a, x.i + 1 as i, 3 as s from active x left join active y \
         on x.a = y.a and x.i + 1 = y.i where y.a is null",
    );
    ctes.add("states", "select a, i, s from present union all select a, i, s from gone");
    let statement = ctes.finish(&format!(
        "select s, i, count() from states where i > 0 and i < {} group by s, i order by s, i",
        intervals.len
    ));
    let len = intervals.len - 1;
    let to_result = move |row_sets: &[Vec<Json>]| {
        let mut data = vec![vec![0i64; len]; 4];
        for row in &row_sets[0] {
            let at = |at: usize| row[at].as_i64().unwrap();
            let sign = if at(0) == 3 { -1 } else { 1 };
            data[at(0) as usize][at(1) as usize - 1] = sign * at(2);
        }
        let words = ["new", "returning", "resurrecting", "dormant"];
        words.iter().zip(data).map(|(word, data)| json!({"status": word, "data": data})).collect()
    };
    ReferencePlan { statements: vec![statement], to_result: Box::new(to_result) }
}

pub fn retention(project: &MirroredProject, query: &Json) -> ReferencePlan {
    let filter = &query["retentionFilter"];
    let interval = filter["period"].as_str().unwrap().to_lowercase();
    let total = filter["totalIntervals"].as_u64().unwrap() as usize;
    let to = date(project, query, "date_to");
    let intervals = match query["dateRange"].get("date_from") {
        Some(_) => Intervals::new(project, date(project, query, "date_from"), to, &interval),
        None => {
            let mut intervals = Intervals::new(project, to, to, &interval);
            while intervals.len < total {
                intervals =
                    Intervals::new(project, intervals.from.yesterday().unwrap(), to, &interval);
            }
            intervals
        }
    };
    let node = |entity: &str| json!({"event": filter[entity]["id"], "properties": filter[entity]["properties"]});
    let (target, back) = (node("targetEntity"), node("returningEntity"));
    let own = actor(query);
    let bucket = intervals.bucket("timestamp");
    let value = match query.get("breakdownFilter") {
        Some(_) => value(query),
        None => "''".to_owned(),
    };
    let first = match filter["retentionType"].as_str().unwrap() {
        "retention_first_time" => Some(selected(query, &target)),
        "retention_first_ever_occurrence" => Some(node_event(&target)),
        _ => None,
    };
    let first = first.map_or(String::new(), |first| {
        format!(
            " and ({own}, timestamp) in (select {own}, min(timestamp) from events where {first} \
             group by {own})"
        )
    });
    let mut ctes = CteBuilder::default();
    ctes.add("intervals", &intervals.list());
    ctes.add(
        "met",
        &format!(
            "select distinct {value} as v, {own} as a, {bucket} as b from events where {} and \
             {own} is not null{first}",
            selected(query, &target)
        ),
    );
    ctes.add(
        "starts",
        "select m.v as v, m.a as a, u.i as i from met m inner join intervals u on m.b = u.b",
    );
    // What an event adds to the sum of its actor.
    let aggregation = filter["aggregationType"].as_str();
    let amount = match aggregation {
        Some(_) => "ifNull(properties.amount, 0)",
        None => "0",
    };
    ctes.add(
        "again",
        &format!(
            "select {own} as a, {bucket} as b, sum({amount}) as x from events where {} and {own} is \
             not null group by a, b having count() >= {}",
            selected(query, &back),
            filter["minimumOccurrences"]
        ),
    );
    ctes.add(
        "returns",
        "select g.a as a, u.i as i, g.x as x from again g inner join intervals u on g.b = u.b",
    );
    let of = |columns: &str, node: &Json| {
        format!(
            "select {own} as a, {bucket} as b, {columns} from events where {} and {own} is not null",
            selected(query, node)
        )
    };
    let begun = match target == back {
        true => format!("{} group by a, b", of(&format!("sum({amount}) as x"), &target)),
        false => format!(
            "select e.a as a, e.b as b, sum(e.x) as x from ({}) e inner join ({} group by a, b) f on \
             e.a = f.a and e.b = f.b where e.t > f.t group by e.a, e.b",
            of(&format!("timestamp as t, {amount} as x"), &back),
            of("min(timestamp) as t", &target)
        ),
    };
    ctes.add("begun", &begun);
    ctes.add(
        "begins",
        "select g.a as a, u.i as i, g.x as x from begun g inner join intervals u on g.b = u.b",
    );
    ctes.add("weights", "select v, count() as w from starts group by v");
    ctes.add("ranks", "select v, row_number() over (order by w desc, v) as r from weights");
    let most = limit(query);
    let hidden = if hides_others(query) { format!(" where k.r <= {most}") } else { String::new() };
    ctes.add(
        "named",
        &format!(
            "select distinct if(k.r <= {most}, s.v, '{OTHER}') as v, least(k.r, {most} + 1) as r, \
             s.a as a, s.i as i from starts s inner join ranks k on s.v = k.v{hidden}"
        ),
    );
    // The first and last interval after the start, for each column.
    let mut columns: Vec<(u64, u64)> = (0..total as u64).map(|at| (at, at)).collect();
    if let Some(brackets) = filter["retentionCustomBrackets"].as_array() {
        columns.truncate(1);
        for size in brackets {
            let last = columns[columns.len() - 1].1;
            columns.push((last + 1, last + size.as_u64().unwrap()));
        }
    }
    let listed = |bound: fn(&(u64, u64)) -> u64| {
        columns.iter().map(|column| bound(column).to_string()).collect::<Vec<_>>().join(", ")
    };
    ctes.add(
        "ks",
        &format!(
            "select number as k, [{}][number + 1] as f, [{}][number + 1] as l from numbers({})",
            listed(|(first, _)| *first),
            listed(|(_, last)| *last),
            columns.len()
        ),
    );
    // The distance of each return from the start; with `cumulative`, up to that of the last return.
    let gaps = match filter["cumulative"] == true {
        false => {
            "select m.r as r, m.i as i, m.a as a, k.k as k, m.x as x from (select n.r as r, n.i as i, \
                  n.a as a, x.i - n.i as m, x.x as x from named n inner join returns x on n.a = x.a) \
                  m cross join ks k where k.k > 0 and m.m >= k.f and m.m <= k.l"
        }
        true => {
            "select g.r as r, g.i as i, g.a as a, k.k as k, 0 as x from (select n.r as r, n.i as i, \
                 n.a as a, max(x.i) - n.i as m from named n inner join returns x on n.a = x.a \
                 where x.i > n.i group by n.r, n.i, n.a) g cross join ks k \
                 where k.k > 0 and k.f <= g.m"
        }
    };
    let starts = "select n.r as r, n.i as i, n.a as a, 0 as k, ifNull(z.x, 0) as x from named n left \
                  join begins z on n.a = z.a and n.i = z.i";
    ctes.add("gaps", &format!("{gaps} union all {starts}"));
    ctes.add(
        "found",
        "select r, i, k, count(distinct a) as c, sum(x) as x from gaps group by r, i, k",
    );
    let lines = match query.get("breakdownFilter") {
        Some(_) => "select distinct r, v from named",
        None => "select 1 as r, '' as v",
    };
    ctes.add(
        "cells",
        &format!(
            "select l.r as r, l.v as v, u.i as i, k.k as k from ({lines}) l cross join intervals u \
             cross join ks k"
        ),
    );
    let statement = ctes.finish(&format!(
        "select multiIf(c.v = '{NULL}', 1, c.v = '{OTHER}', 2, 0) as p, c.r, c.v, c.i, c.k, \
         ifNull(f.c, 0), ifNull(f.x, 0) from cells c left join found f on c.r = f.r and c.i = f.i and c.k = f.k \
         order by p, c.r, c.i, c.k"
    ));
    let split = query.get("breakdownFilter").is_some();
    let has_amounts = aggregation.is_some();
    let is_average = aggregation == Some("avg");
    let to_result = move |row_sets: &[Vec<Json>]| {
        let value = |row: &Json| {
            let (count, sum) = (row[5].as_f64().unwrap(), row[6].as_f64().unwrap());
            let mut value = json!({"count": row[5]});
            if has_amounts {
                let amount = if is_average && count > 0.0 { sum / count } else { sum };
                value["aggregation_value"] = json!(amount);
            }
            value
        };
        let row = |run: Vec<Json>| {
            let values: Vec<Json> = run.iter().map(value).collect();
            let mut item = json!({ "values": values });
            if split {
                item["breakdown_value"] = run[0][2].clone();
            }
            item
        };
        runs(&row_sets[0], &[1, 2, 3]).into_iter().map(row).collect()
    };
    ReferencePlan { statements: vec![statement], to_result: Box::new(to_result) }
}
