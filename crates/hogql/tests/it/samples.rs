//! Realistic statements, with the columns of their results.

use hogql::PlaceholderValues;

use crate::resolve::project;

const SAMPLES: &[(&str, &str)] = &[
    ("select 1", "1 UInt8"),
    ("select 'a' || 'b'", "'a' || 'b' String"),
    ("select null ?? 3", "NULL ?? 3 UInt8"),
    ("select arrayJoin([1,2])", "arrayJoin([1, 2]) UInt8"),
    (
        "select event, count() as c from events group by event order by c desc",
        "event String, c UInt64",
    ),
    (
        "select properties.$browser from events where event='a' order by timestamp",
        "properties.$browser Nullable(String)",
    ),
    ("select sum(properties.amount) from events", "sum(properties.amount) Nullable(Float64)"),
    (
        "SELECT toStartOfDay(timestamp) AS day, count() FROM events WHERE event = '$pageview' AND \
         timestamp >= now() - INTERVAL 7 DAY GROUP BY day ORDER BY day ASC NULLS LAST",
        "day DateTime, count() UInt64",
    ),
    (
        "select properties.$lib as lib, count(*) from events where lib is not null group by lib \
         having countIf(event = 'a') > 0 and countIf(event = 'b') = 0 order by count() desc",
        "lib Nullable(String), count(*) UInt64",
    ),
    (
        "select person.properties.email, max(timestamp) from events group by 1 order by 2 desc",
        "person.properties.email Nullable(String), max(timestamp) DateTime64(6, 'Europe/Berlin')",
    ),
    (
        "with firsts as (select person_id, min(timestamp) as t from events group by person_id) \
         select dateDiff('day', f.t, e.timestamp) as d, uniq(e.person_id) from events e \
         join firsts f on e.person_id = f.person_id group by d",
        "d Int64, uniq(e.person_id) UInt64",
    ),
    (
        "select 100.0 * countIf(event = 'a') / nullIf(count(), 0) as rate from events",
        "rate Nullable(Float64)",
    ),
    ("select splitByChar('/', properties.$pathname)[2] as part from events", "part String"),
    ("select round(avg(toFloat(properties.price)), 2) as p from events", "p Nullable(Float64)"),
    ("select JSONExtractString(properties, 'a', 'b') as j from events", "j String"),
    (
        "select multiIf(properties.amount > 30, 'big', properties.amount > 20, 'mid', 'small') as \
         size, count() from events group by size",
        "size String, count() UInt64",
    ),
    (
        "select event from events where timestamp between '2024-01-01' and '2024-02-01' and \
         properties.x is not null and properties.x != ''",
        "event String",
    ),
    (
        "select argMax(properties.plan, timestamp) as plan from events group by person_id",
        "plan Nullable(String)",
    ),
    (
        "select arraySort(x -> x.1, groupArray((timestamp, event))) as path from events \
         group by person_id",
        "path Array(Tuple(DateTime64(6, 'Europe/Berlin'), String))",
    ),
    (
        "select count() from events where toHour(timestamp) > 9 and person_id in \
         (select person_id from cohort_people where cohort_id = 5) and person_id in cohort 5",
        "count() UInt64",
    ),
    ("select avg(session.$session_duration) as d from events", "d Nullable(Float64)"),
    (
        "select timestamp - lagInFrame(timestamp) over (partition by person_id order by timestamp) \
         as gap from events",
        "gap Int64",
    ),
    (
        "select event, row_number() over (order by count() desc) as n from events group by event",
        "event String, n UInt64",
    ),
    ("select coalesce(properties.amount, 0) as a from events", "a Float64"),
    ("select timestamp > now() - toIntervalDay(7) as fresh from events", "fresh UInt8"),
    ("select toDate(timestamp) = today() as t from events", "t UInt8"),
    ("select minus(today(), 7) as d, subtractDays(now(), 7) as t", "d Date, t DateTime"),
    (
        "select extract(properties.$current_url, 'utm=([^&]+)') as utm from events",
        "utm Nullable(String)",
    ),
    ("select key from groups where index = 0", "key String"),
    (
        "select windowFunnel(86400)(timestamp, event = 'a', event = 'b') as steps from events \
         group by person_id",
        "steps UInt8",
    ),
    (
        "select quantiles(0.5, 0.9)(properties.amount) as q from events where {filters}",
        "q Array(Float64)",
    ),
    (
        "select p.properties.email from persons p left join person_distinct_ids d \
         on d.person_id = p.id where d.distinct_id ilike '%x%' limit 10",
        "p.properties.email Nullable(String)",
    ),
    (
        "select event from events where event in (select event from (select event, count() as c \
         from events group by event order by c desc limit 5))",
        "event String",
    ),
    (
        "select arrayStringConcat(arrayMap(x -> concat(x, '!'), extractAll(event, '[a-z]+')), ',') \
         as s from events",
        "s String",
    ),
];

#[test]
fn realistic_statements_resolve() {
    let mut wrong = Vec::new();
    for (text, columns) in SAMPLES {
        let actual = match hogql::plan(text, &PlaceholderValues::default(), &project(), None) {
            Ok(plan) => {
                let columns = plan.root.columns.iter();
                let columns: Vec<String> = columns
                    .map(|column| format!("{} {}", column.name, column.ty.name(&plan.zone)))
                    .collect();
                columns.join(", ")
            }
            Err(error) => error.to_string(),
        };
        if actual != *columns {
            wrong.push(format!("{text}: {actual}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
