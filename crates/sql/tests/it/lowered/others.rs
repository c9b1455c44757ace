//! Retention, lifecycle and stickiness as statements.

use serde_json::{Value as Json, json};

use super::twin::Twin;
use super::words::{
    Lowered, NULL, OTHER, Units, With, actor, date, hides_others, limit, meant, named, runs, value,
};

pub fn stickiness(twin: &Twin, query: &Json) -> Lowered {
    let units = Units::of(twin, query);
    let (own, bucket) = (actor(query), units.bucket("timestamp"));
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
    let mut texts = Vec::new();
    for node in query["series"].as_array().unwrap() {
        let mut with = With::default();
        with.add(
            "active",
            &format!(
                "select {own} as a, {bucket} as b from events where {} and {} and {own} is not \
                 null group by a, b{enough}",
                units.within("timestamp"),
                meant(query, node)
            ),
        );
        with.add("often", "select a, count() as n from active group by a");
        with.add("ks", &format!("select number + 1 as k from numbers({})", units.len));
        with.add(
            "found",
            &format!(
                "select k.k as k, count() as c from ks k cross join often o where o.n {sign} k.k \
                 group by k.k"
            ),
        );
        texts.push(with.then(
            "select k.k, ifNull(f.c, 0), (select count() from often) from ks k left join found f \
             on k.k = f.k order by k.k",
        ));
    }
    let shape = |answers: &[Vec<Json>]| {
        let one = |rows: &Vec<Json>| {
            let data: Vec<Json> = rows.iter().map(|row| row[1].clone()).collect();
            json!({"data": data, "count": rows[0][2]})
        };
        answers.iter().map(one).collect()
    };
    Lowered { texts, shape: Box::new(shape) }
}

pub fn lifecycle(twin: &Twin, query: &Json) -> Lowered {
    let asked = Units::of(twin, query);
    let before = asked.from.yesterday().unwrap();
    let units = Units::new(twin, before, asked.to, &asked.interval);
    let mut with = With::default();
    with.add("units", &units.list());
    with.add(
        "seen",
        &format!(
            "select distinct toString(person_id) as a, {} as b, {} as c from events where {} and {}",
            units.bucket("timestamp"),
            units.bucket("person.created_at"),
            units.within("timestamp"),
            meant(query, &query["series"][0])
        ),
    );
    with.add(
        "active",
        "select s.a as a, u.i as i, ifNull(s.b = s.c, 0) as born from seen s \
         inner join units u on s.b = u.b",
    );
    with.add("firsts", "select a, min(i) as f from active group by a");
    with.add(
        "present",
        "select x.a as a, x.i as i, multiIf(x.born and f.f = x.i, 0, y.a is not null, 1, 2) as s \
         from active x inner join firsts f on x.a = f.a left join active y \
         on x.a = y.a and x.i = y.i + 1",
    );
    with.add(
        "gone",
        "select x.a as a, x.i + 1 as i, 3 as s from active x left join active y \
         on x.a = y.a and x.i + 1 = y.i where y.a is null",
    );
    with.add("states", "select a, i, s from present union all select a, i, s from gone");
    let text = with.then(&format!(
        "select s, i, count() from states where i > 0 and i < {} group by s, i order by s, i",
        units.len
    ));
    let len = units.len - 1;
    let shape = move |answers: &[Vec<Json>]| {
        let mut data = vec![vec![0i64; len]; 4];
        for row in &answers[0] {
            let at = |at: usize| row[at].as_i64().unwrap();
            let sign = if at(0) == 3 { -1 } else { 1 };
            data[at(0) as usize][at(1) as usize - 1] = sign * at(2);
        }
        let words = ["new", "returning", "resurrecting", "dormant"];
        words.iter().zip(data).map(|(word, data)| json!({"status": word, "data": data})).collect()
    };
    Lowered { texts: vec![text], shape: Box::new(shape) }
}

pub fn retention(twin: &Twin, query: &Json) -> Lowered {
    let filter = &query["retentionFilter"];
    let interval = filter["period"].as_str().unwrap().to_lowercase();
    let total = filter["totalIntervals"].as_u64().unwrap() as usize;
    let to = date(twin, query, "date_to");
    let units = match query["dateRange"].get("date_from") {
        Some(_) => Units::new(twin, date(twin, query, "date_from"), to, &interval),
        None => {
            let mut units = Units::new(twin, to, to, &interval);
            while units.len < total {
                units = Units::new(twin, units.from.yesterday().unwrap(), to, &interval);
            }
            units
        }
    };
    let node = |entity: &str| json!({"event": filter[entity]["id"], "properties": filter[entity]["properties"]});
    let (target, back) = (node("targetEntity"), node("returningEntity"));
    let own = actor(query);
    let bucket = units.bucket("timestamp");
    let value = match query.get("breakdownFilter") {
        Some(_) => value(query),
        None => "''".to_owned(),
    };
    let first = match filter["retentionType"].as_str().unwrap() {
        "retention_first_time" => Some(meant(query, &target)),
        "retention_first_ever_occurrence" => Some(named(&target)),
        _ => None,
    };
    let first = first.map_or(String::new(), |first| {
        format!(
            " and ({own}, timestamp) in (select {own}, min(timestamp) from events where {first} \
             group by {own})"
        )
    });
    let mut with = With::default();
    with.add("units", &units.list());
    with.add(
        "met",
        &format!(
            "select distinct {value} as v, {own} as a, {bucket} as b from events where {} and \
             {own} is not null{first}",
            meant(query, &target)
        ),
    );
    with.add(
        "starts",
        "select m.v as v, m.a as a, u.i as i from met m inner join units u on m.b = u.b",
    );
    with.add(
        "again",
        &format!(
            "select {own} as a, {bucket} as b from events where {} and {own} is not null \
             group by a, b having count() >= {}",
            meant(query, &back),
            filter["minimumOccurrences"]
        ),
    );
    with.add("returns", "select g.a as a, u.i as i from again g inner join units u on g.b = u.b");
    with.add("weights", "select v, count() as w from starts group by v");
    with.add("ranks", "select v, row_number() over (order by w desc, v) as r from weights");
    let most = limit(query);
    let hidden = if hides_others(query) { format!(" where k.r <= {most}") } else { String::new() };
    with.add(
        "named",
        &format!(
            "select distinct if(k.r <= {most}, s.v, '{OTHER}') as v, least(k.r, {most} + 1) as r, \
             s.a as a, s.i as i from starts s inner join ranks k on s.v = k.v{hidden}"
        ),
    );
    with.add("ks", &format!("select number as k from numbers({total})"));
    // How far behind the start each return is, or the last of them.
    let gaps = match filter["cumulative"] == true {
        false => {
            "select m.r as r, m.i as i, m.a as a, m.k as k from (select n.r as r, n.i as i, \
                  n.a as a, k.k as k, n.i + k.k as j from named n cross join ks k) m inner join \
                  returns x on m.a = x.a and m.j = x.i where m.k > 0"
        }
        true => {
            "select g.r as r, g.i as i, g.a as a, k.k as k from (select n.r as r, n.i as i, \
                 n.a as a, max(x.i) - n.i as m from named n inner join returns x on n.a = x.a \
                 where x.i > n.i group by n.r, n.i, n.a) g cross join ks k \
                 where k.k > 0 and k.k <= g.m"
        }
    };
    with.add("gaps", &format!("{gaps} union all select r, i, a, 0 as k from named"));
    with.add("found", "select r, i, k, count(distinct a) as c from gaps group by r, i, k");
    let lines = match query.get("breakdownFilter") {
        Some(_) => "select distinct r, v from named",
        None => "select 1 as r, '' as v",
    };
    with.add(
        "cells",
        &format!(
            "select l.r as r, l.v as v, u.i as i, k.k as k from ({lines}) l cross join units u \
             cross join ks k"
        ),
    );
    let text = with.then(&format!(
        "select multiIf(c.v = '{NULL}', 1, c.v = '{OTHER}', 2, 0) as p, c.r, c.v, c.i, c.k, \
         ifNull(f.c, 0) from cells c left join found f on c.r = f.r and c.i = f.i and c.k = f.k \
         order by p, c.r, c.i, c.k"
    ));
    let split = query.get("breakdownFilter").is_some();
    let shape = move |answers: &[Vec<Json>]| {
        let row = |run: Vec<Json>| {
            let values: Vec<Json> = run.iter().map(|row| json!({"count": row[5]})).collect();
            let mut item = json!({ "values": values });
            if split {
                item["breakdown_value"] = run[0][2].clone();
            }
            item
        };
        runs(&answers[0], &[1, 2, 3]).into_iter().map(row).collect()
    };
    Lowered { texts: vec![text], shape: Box::new(shape) }
}
