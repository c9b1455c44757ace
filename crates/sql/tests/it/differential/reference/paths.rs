//! Reference lowering of paths: events by session, the steps of each session, and the edges.

use serde_json::{Value as Json, json};

use super::fragments::{CteBuilder, Intervals, ReferencePlan, actor, query_filter};
use crate::differential::mirrored_project::MirroredProject;

const GAP_MS: u64 = 30 * 60_000;

pub fn lower(project: &MirroredProject, query: &Json) -> ReferencePlan {
    let filter = &query["pathsFilter"];
    let intervals = Intervals::of(project, query);
    let own = actor(query);
    let excluded: String = match filter["excludeEvents"].as_array() {
        None => String::new(),
        Some(_) => " and event != 'c'".to_owned(),
    };
    let limit = filter["stepLimit"].as_u64().unwrap();
    let all = "rows between unbounded preceding and unbounded following";
    let mut ctes = CteBuilder::default();
    ctes.add(
        "e",
        &format!(
            "select {own} as a, toUnixTimestamp64Milli(timestamp) as t, if(event = '$pageview', \
             replaceRegexpOne(path(ifNull(properties.$current_url, '')), '/$', ''), event) as item \
             from events where {} and {} and {own} is not null{excluded}",
            intervals.within("timestamp"),
            query_filter(query),
        ),
    );
    ctes.add(
        "gaps",
        &format!(
            "select a, t, item, t - lagInFrame(t, 1, 0) over (partition by a order by t {all}) as \
             gap from e"
        ),
    );
    ctes.add(
        "sessions",
        &format!(
            "select a, t, item, sum(if(gap > {GAP_MS}, 1, 0)) over (partition by a order by t rows \
             between unbounded preceding and current row) as s from gaps"
        ),
    );
    ctes.add(
        "lagged",
        &format!(
            "select a, t, item, s, lagInFrame(item, 1, '') over (partition by a, s order by t {all}) \
             as before from sessions"
        ),
    );
    ctes.add(
        "walked",
        "select a, s, t, item, row_number() over (partition by a, s order by t) as n from lagged \
         where item != before",
    );
    let (start, end) = (filter["startPoint"].as_str(), filter["endPoint"].as_str());
    match start {
        None => ctes.add("begun", "select a, s, t, item, cast(n as Int64) as n from walked"),
        Some(start) => ctes.add(
            "begun",
            &format!(
                "select w.a as a, w.s as s, w.t as t, w.item as item, cast(w.n - f.f + 1 as Int64) as n from \
                 walked w inner join (select a, s, min(n) as f from walked where item = '{start}' \
                 group by a, s) f on w.a = f.a and w.s = f.s where w.n >= f.f"
            ),
        ),
    }
    match end {
        None => ctes.add("ended", "select a, s, t, item, n from begun"),
        Some(end) => ctes.add(
            "ended",
            &format!(
                "select w.a as a, w.s as s, w.t as t, w.item as item, w.n as n from begun w inner \
                 join (select a, s, min(n) as f from begun where item = '{end}' group by a, s) f \
                 on w.a = f.a and w.s = f.s where w.n <= f.f"
            ),
        ),
    }
    ctes.add("lengths", "select a, s, max(n) as len from ended group by a, s");
    let half = limit / 2;
    // Position and label of a step in the path, and which steps the step limit keeps.
    let (position, item, kept) = match (start, end) {
        (Some(_), Some(_)) => (
            format!(
                "if(l.len > {limit} and w.n > l.len - {half}, w.n + {} - l.len, w.n)",
                2 * half + 1
            ),
            format!(
                "if(l.len > {limit} and w.n = {half} + 1 and w.n <= l.len - {half}, '...', w.item)"
            ),
            format!("(l.len <= {limit} or w.n <= {half} + 1 or w.n > l.len - {half})"),
        ),
        (None, Some(_)) => (
            format!("if(l.len > {limit}, w.n + {limit} - l.len, w.n)"),
            "w.item".to_owned(),
            format!("(l.len <= {limit} or w.n > l.len - {limit})"),
        ),
        _ => ("w.n".to_owned(), "w.item".to_owned(), format!("w.n <= {limit}")),
    };
    ctes.add(
        "shown",
        &format!(
            "select w.a as a, w.s as s, w.t as t, {item} as item, {position} as n from ended w \
             inner join lengths l on w.a = l.a and w.s = l.s where {kept}"
        ),
    );
    let least = filter["minEdgeWeight"].as_u64().unwrap_or(0);
    ctes.add(
        "edges",
        &format!(
            "select x.n as n, concat(toString(x.n), '_', x.item) as source, \
             concat(toString(y.n), '_', y.item) as target, count() as c, avg(y.t - x.t) as m from \
             shown x inner join shown y on x.a = y.a and x.s = y.s and x.n + 1 = y.n \
             group by x.n, source, target having count() >= {least}"
        ),
    );
    ctes.add(
        "heavy",
        &format!(
            "select n, source, target, c, m from edges order by c desc, source, target limit {}",
            filter["edgeLimit"]
        ),
    );
    ctes.add("k1", "select n, source, target, c, m from heavy where n = 1");
    let mut reached = vec!["select source, target, c, m from k1".to_owned()];
    for step in 2..=limit {
        ctes.add(
            &format!("k{step}"),
            &format!(
                "select n, source, target, c, m from heavy where n = {step} and source in (select \
                 target from k{})",
                step - 1
            ),
        );
        reached.push(format!("select source, target, c, m from k{step}"));
    }
    ctes.add("reached", &reached.join(" union all "));
    let statement =
        ctes.finish("select source, target, c, m from reached order by c desc, source, target");
    let to_result = |row_sets: &[Vec<Json>]| {
        let edge = |row: &Json| json!({"source": row[0], "target": row[1], "value": row[2], "average_conversion_time": row[3]});
        row_sets[0].iter().map(edge).collect()
    };
    ReferencePlan { statements: vec![statement], to_result: Box::new(to_result) }
}
