//! Generates statements from a seed, in the subset of SQL that HogQL and ClickHouse share.
//!
//! It avoids what differs by design: comparisons with null outside of a filter, and results that
//! depend on the order of unsorted rows.

use testing::Rng;

const KEYS: &[&str] = &[
    "event",
    "distinct_id",
    "properties.browser",
    "ifNull(properties.browser, 'none')",
    "toHour(timestamp)",
    "toDayOfWeek(timestamp)",
    "toYYYYMMDD(timestamp)",
    "toUnixTimestamp(timestamp) % 7",
    "length(event)",
    "upper(event)",
    "concat(event, '-', substring(distinct_id, 1, 1))",
    "intDiv(toHour(timestamp), 6)",
    "toString(toStartOfDay(timestamp))",
    "toString(toStartOfMonth(timestamp))",
    "toString(person_id)",
    "properties.active",
    "round(ifNull(properties.amount, 0) / 30)",
    "[event, 'x']",
    "(event, toHour(timestamp) > 12)",
    "multiIf(event = 'pay', 'p', event = 'view', 'v', 'o')",
];

const NUMBERS: &[&str] = &[
    "ifNull(properties.amount, 0)",
    "toHour(timestamp)",
    "length(distinct_id)",
    "round(ifNull(properties.amount, 0) / 3, 2)",
    "toHour(timestamp) - 12",
    "toMinute(timestamp) * 2",
];

const NULLABLE_NUMBERS: &[&str] =
    &["properties.amount", "properties.amount * 2", "nullIf(toHour(timestamp), 3)"];

const CONDITIONS: &[&str] = &[
    "event = 'view'",
    "event != 'view'",
    "event in ('click', 'pay')",
    "event not in ('click', 'pay')",
    "properties.amount > 50",
    "properties.amount <= 20",
    "properties.browser = 'Chrome'",
    "properties.browser is null",
    "properties.browser is not null",
    "distinct_id like 'u1%'",
    "distinct_id not like 'v%'",
    "toHour(timestamp) between 6 and 18",
    "timestamp >= '2024-01-05 12:00:00'",
    "timestamp < '2024-01-09 00:00:00'",
    "timestamp > toDateTime('2024-01-03 00:00:00') and timestamp <= toDateTime('2024-01-11 06:30:00')",
    "toDayOfWeek(timestamp) in (1, 2, 3)",
    "length(distinct_id) = 2",
    "properties.active",
    "match(distinct_id, '^u[0-9]$')",
    "person_id in (select id from persons where properties.age > 30)",
    "distinct_id not in (select distinct_id from events where event = 'pay' and properties.amount > 60)",
    "(event, toHour(timestamp)) in (select event, toHour(timestamp) from events where properties.amount > 100)",
    "ifNull(properties.amount, 0) > (select avg(properties.amount) from events)",
];

/// Cases that random generation seldom hits.
pub const HANDWRITTEN: &[&str] = &[
    "select k, arraySort(groupArray(x)), uniq(x), argMax(x, t), sum(x), count(distinct i) from (select event as k, \
     toHour(timestamp) as x, timestamp as t, person_id as i from events order by k) group by k order by k",
    "select number % 5000 as k, argMax(number, (number * 7919) % 60013), argMin(number, number), uniq(number % 13), \
     length(groupArray(number)), median(number), uniq(toString(number)) from numbers(60000) group by k order by k limit 50",
    "select k, sum(x), sum(r) from (select number % 7 as k, number as x, row_number() over (partition by number % 7 \
     order by number desc) as r from numbers(30000)) group by k order by k",
    "select sum(a), max(b) from (select sum(number) over (order by number rows between 100 preceding and current row) \
     as a, lagInFrame(number, 9000, 5) over (order by number rows between unbounded preceding and unbounded following) \
     as b from numbers(20000))",
    "select count(), sum(x) from (select arrayJoin(range(number % 50)) as x from numbers(5000))",
    "select count(), sum(a.number + b.number) from numbers(30000) a inner join numbers(20000) b on a.number = b.number * 2",
    "select toString(uuid), event, toUnixTimestamp(timestamp) from events order by timestamp limit 20 offset 1000",
    "select e.event, f.event, count() from events e inner join events f on e.distinct_id = f.distinct_id and \
     e.timestamp < f.timestamp where e.properties.browser = 'Chrome' and f.properties.amount > 50 group by 1, 2 order by 1, 2",
    "select x from (select arrayJoin([1,1,1,2,3]) as x except select arrayJoin([1,3,3])) order by x",
    "select x from (select arrayJoin([1,1,1,2,3]) as x intersect select arrayJoin([1,1,3,3])) order by x",
    "select groupBitAnd(toHour(timestamp)), groupBitOr(toHour(timestamp)), count(), uniq(event), \
     sum(toHour(timestamp)), groupArray(event) from events where event = 'none'",
    "select sumMap(([1, 2], [0, 3]))",
    "select sumMap(([toHour(timestamp), 99], [1, 2])) from events",
    "select event, sumMap(map(distinct_id, 1)) from events group by event order by event",
    "select max(x), min(x) from (select arrayJoin([1.0, nan, 3.0]) as x)",
    "select uniq(x, y) from (select arrayJoin([(null, 1), (2, 2), (3, 3)]) as t, t.1 as x, t.2 as y)",
    "select first_value(x) over (order by y), last_value(x) over (order by y) from \
     (select arrayJoin([(null, 1), (2, 2), (null, 3)]) as t, t.1 as x, t.2 as y) order by y",
    "select topK(1)(event) from events",
    "select topK(2)(event) from events where event in ('view', 'pay')",
    "select quantile(0)(x), quantile(1)(x), quantile(0.25)(x), median(x) from (select arrayJoin([5, 1, 4]) as x)",
    "select number, lagInFrame(number, 2, 100) over (order by number rows between unbounded preceding and unbounded following) \
     from numbers(5) order by number",
    "select number, leadInFrame(number, 1, 7) over (order by number rows between unbounded preceding and unbounded following) as n \
     from numbers(5) order by number",
    "select maxIf(1, event = 'x') + maxIf(1, event = 'y') + maxIf(1, event = 'view') from events",
    "select event, maxIf(1, toHour(timestamp) = 25) + maxIf(1, event = 'pay') + minIf(1, event = 'pay') from events \
     group by event order by event",
    "select number, lagInFrame(number) over (order by number), leadInFrame(number) over (order by number), \
     lagInFrame(toString(number), 2) over (order by number rows between 1 preceding and current row) \
     from numbers(5) order by number",
    "select count(), sum(number) from \
     (select number from numbers(3) union all select number from numbers(400) limit 300)",
    "select count(), sum(number) from \
     (select number from numbers(250) union all select number from numbers(4) limit 3)",
    "select count() from events e left join persons p on e.person_id = p.id and p.properties.age > 30 where p.id is null",
    "select distinct_id, windowFunnel(3600)(toDateTime(timestamp), event = 'click', event = 'pay') as w \
     from events group by distinct_id order by distinct_id",
    "select distinct_id, windowFunnel(86400)(toDateTime(timestamp), event = 'pay', event = 'pay', event != 'pay') as w \
     from events group by distinct_id order by distinct_id",
    "select distinct_id, windowFunnel(86400, 'strict_order')(toDateTime(timestamp), event = 'view', event = 'click', event = 'pay') as w \
     from events group by distinct_id order by distinct_id",
    "select distinct_id, windowFunnel(86400, 'strict_increase')(toDateTime(timestamp), event = 'view', event = 'click', event = 'pay') as w \
     from events group by distinct_id order by distinct_id",
    "select number % 3 as a, number from numbers(20) order by a, number desc limit 1, 2 by a",
    "select number % 3 as a, count() from numbers(20) group by a having a > 0 order by a",
    "select x, count() from (select arrayJoin([null, 1, null, 2]) as x) group by x order by x",
    "select x from (select arrayJoin([null, 1, null, 2]) as x) order by x desc",
    "select x from (select arrayJoin([null, 1, null, 2]) as x) order by x nulls first",
    "select (select count() from events) as c, c + 1, (select max(number) from numbers(5))",
    "select a.number, b.number from numbers(3) a left join numbers(2) b on a.number = b.number + 1 order by 1, 2",
    "select a.number, b.number from numbers(3) a full join numbers(5) b on a.number = b.number and a.number > 0 order by 1, 2",
    "select a.number, b.number from numbers(3) a inner join numbers(3) b on a.number < b.number order by 1, 2",
];

fn condition(rng: &mut Rng) -> String {
    let one = rng.pick(CONDITIONS);
    match rng.range(0..5) {
        0 => format!("({one}) and ({})", rng.pick(CONDITIONS)),
        1 => format!("({one}) or ({})", rng.pick(CONDITIONS)),
        2 => format!("({one}) and ({}) and ({})", rng.pick(CONDITIONS), rng.pick(CONDITIONS)),
        _ => one.to_owned(),
    }
}

fn filter(rng: &mut Rng) -> String {
    match rng.range(0..3) {
        0 => String::new(),
        _ => format!(" where {}", condition(rng)),
    }
}

fn aggregate(rng: &mut Rng) -> String {
    let number = rng.pick(NUMBERS);
    let maybe = rng.pick(NULLABLE_NUMBERS);
    let key = rng.pick(KEYS);
    let condition = rng.pick(&CONDITIONS[..19]);
    match rng.range(0..34) {
        0 => "count()".to_owned(),
        1 => format!("count({maybe})"),
        2 => format!("countIf({condition})"),
        3 => format!("sum({number})"),
        4 => format!("sumIf({number}, {condition})"),
        5 => format!("avg({maybe})"),
        6 => format!("min({maybe})"),
        7 => format!("max({number})"),
        8 => format!("min({key})"),
        9 => format!("max({key})"),
        10 => format!("uniq({key})"),
        11 => format!("uniqExact({key}, {number})"),
        12 => format!("count(distinct {key})"),
        13 => format!("uniqIf({key}, {condition})"),
        14 => format!("argMin({key}, timestamp)"),
        15 => format!("argMax({number}, timestamp)"),
        16 => "argMax(properties.amount, timestamp)".to_owned(),
        17 => format!("quantile(0.3)({number})"),
        18 => format!("median({maybe})"),
        19 => format!("quantiles(0.1, 0.5, 0.95)({number})"),
        20 => format!("round(stddevPop({number}), 6)"),
        21 => format!("round(varPop({number}), 6)"),
        22 => format!("round(stddevSamp({number}), 6)"),
        23 => format!("round(corr({number}, toHour(timestamp)), 6)"),
        24 => format!("arraySort(groupArray({key}))"),
        25 => format!("arraySort(groupUniqArray({key}))"),
        26 => format!("length(groupArray(3)({key}))"),
        27 => "groupBitOr(toHour(timestamp))".to_owned(),
        28 => "groupBitXor(toHour(timestamp))".to_owned(),
        29 => "groupBitAnd(toHour(timestamp))".to_owned(),
        30 => "windowFunnel(86400)(toDateTime(timestamp), event = 'view', event = 'click', event = 'pay')".to_owned(),
        31 => format!("length(topK(2)({key}))"),
        32 => format!("sum(distinct {number})"),
        _ => "sumMap(map(event, toHour(timestamp)))".to_owned(),
    }
}

fn ordered(columns: usize) -> String {
    let columns: Vec<String> = (1..=columns).map(|column| column.to_string()).collect();
    format!(" order by {}", columns.join(", "))
}

fn limit(rng: &mut Rng) -> String {
    match rng.range(0..3) {
        0 => format!(" limit {}", rng.range(1..=30)),
        1 => format!(" limit {} offset {}", rng.range(1..=30), rng.range(0..10)),
        _ => " limit 5000".to_owned(),
    }
}

fn group(rng: &mut Rng) -> String {
    let count = rng.range(0..3);
    let keys = rng.pick_some(KEYS, count);
    let aggregates: Vec<String> = (0..=rng.range(0..4)).map(|_| aggregate(rng)).collect();
    let mut columns: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    columns.extend(aggregates);
    let by = match keys.is_empty() {
        true => String::new(),
        false => format!(" group by {}", keys.join(", ")),
    };
    let having = match rng.range(0..4) {
        0 if !keys.is_empty() => " having count() > 20",
        _ => "",
    };
    let filter = match rng.range(0..6) {
        0 => " where event = 'nothing'".to_owned(),
        _ => filter(rng),
    };
    let order = ordered(columns.len());
    format!("select {} from events{filter}{by}{having}{order}{}", columns.join(", "), limit(rng))
}

fn rows(rng: &mut Rng) -> String {
    let count = rng.range(1..=3);
    let columns =
        [rng.pick_some(KEYS, count), rng.pick_some(NUMBERS, 1), rng.pick_some(NULLABLE_NUMBERS, 1)]
            .concat();
    let distinct = rng.range(0..4) == 0;
    let order = match distinct {
        true => ordered(columns.len()),
        false => {
            let direction = rng.pick(&["", " desc"]);
            format!(
                " order by {} {}, timestamp{direction}",
                rng.pick(NULLABLE_NUMBERS),
                rng.pick(&["asc", "desc"])
            )
        }
    };
    let by = match rng.range(0..4) {
        0 if !distinct => format!(" limit {} by {}", rng.range(1..=3), rng.pick(KEYS)),
        _ => String::new(),
    };
    let distinct = if distinct { "distinct " } else { "" };
    let filter = filter(rng);
    format!("select {distinct}{} from events{filter}{order}{by}{}", columns.join(", "), limit(rng))
}

fn join(rng: &mut Rng) -> String {
    let kind = rng.pick(&["inner join", "left join", "right join", "full join"]);
    match rng.range(0..4) {
        0 => {
            let filter = filter(rng).replace("properties.", "e.properties.");
            // Undoes the prefix within subqueries, where the alias is not in scope.
            let filter =
                filter.replace("select id from persons where e.", "select id from persons where ");
            let filter =
                filter.replace("and e.properties.amount > 60)", "and properties.amount > 60)");
            let filter = filter.replace("from events where e.", "from events where ");
            let filter = filter.replace("avg(e.properties", "avg(properties");
            format!(
                "select p.properties.name, e.event, count(), sum(ifNull(e.properties.amount, 0)), \
                 max(p.properties.age) from events e {} persons p on e.person_id = p.id{filter} \
                 group by 1, 2 order by 1, 2{}",
                rng.pick(&["inner join", "left join"]),
                limit(rng)
            )
        }
        1 => format!(
            "select a.k, a.c, b.k, b.c from (select {0} as k, count() as c from events{1} \
             group by k) a {kind} (select {0} as k, count() as c from events{2} group by k) b \
             on a.k = b.k order by 1, 3, 2, 4{3}",
            rng.pick(&["event", "distinct_id", "toHour(timestamp)", "properties.browser"]),
            filter(rng),
            filter(rng),
            limit(rng)
        ),
        2 => format!(
            "select a.k, count(), sum(b.v) from (select distinct_id as k, toHour(timestamp) as h \
             from events where {}) a inner join (select distinct_id as k, toHour(timestamp) as v \
             from events where event = 'pay') b on a.k = b.k and a.h < b.v group by a.k \
             order by 1{}",
            condition(rng),
            limit(rng)
        ),
        _ => format!(
            "select x.event, y.event, count() from (select event, toHour(timestamp) as h from \
             events where {}) x cross join (select distinct event from events) y \
             where x.event {} y.event group by 1, 2 order by 1, 2",
            condition(rng),
            rng.pick(&["<", "!=", "=", ">="])
        ),
    }
}

fn window(rng: &mut Rng) -> String {
    let partition = rng.pick(&[
        "",
        "partition by event ",
        "partition by distinct_id ",
        "partition by properties.browser, event ",
        "partition by toHour(timestamp) ",
    ]);
    let frame = rng.pick(&[
        "",
        " rows between unbounded preceding and current row",
        " rows between 2 preceding and current row",
        " rows between 1 preceding and 1 following",
        " rows between current row and unbounded following",
        " rows between unbounded preceding and unbounded following",
        " rows between 3 preceding and 1 preceding",
    ]);
    let over = format!("over ({partition}order by timestamp{frame})");
    let number = rng.pick(NUMBERS);
    let function = match rng.range(0..11) {
        0 => format!("row_number() over ({partition}order by timestamp)"),
        1 => format!("rank() over ({partition}order by toHour(timestamp))"),
        2 => format!("dense_rank() over ({partition}order by toHour(timestamp))"),
        3 => format!("sum({number}) {over}"),
        4 => format!("count() {over}"),
        5 => format!("max({number}) {over}"),
        6 => format!("round(avg({number}) {over}, 6)"),
        7 => format!("first_value({number}) over ({partition}order by timestamp)"),
        8 => format!("last_value(event) over ({partition}order by timestamp)"),
        9 => format!("length(groupArray(event) {over})"),
        _ => format!("sum({number}) over ({partition}order by toHour(timestamp))"),
    };
    let other = format!(
        "count() over ({partition}order by toHour(timestamp) range between 2 preceding and current row)"
    );
    let filter = filter(rng);
    format!(
        "select event, distinct_id, {function}, {other} from events{filter} order by timestamp{}",
        limit(rng)
    )
}

fn arrays(rng: &mut Rng) -> String {
    match rng.range(0..5) {
        0 => format!(
            "select arrayJoin([event, {}]) as x, count() from events{} group by x order by 1{}",
            rng.pick(&["'a'", "upper(event)", "distinct_id"]),
            filter(rng),
            limit(rng)
        ),
        1 => format!(
            "select distinct_id, x, i from (select distinct_id, arraySort(groupUniqArray({})) as xs \
             from events{} group by distinct_id) {}array join xs as x, arrayEnumerate(xs) as i \
             order by 1, 2, 3{}",
            rng.pick(&["event", "toHour(timestamp)", "ifNull(properties.browser, 'none')"]),
            filter(rng),
            rng.pick(&["", "left "]),
            limit(rng)
        ),
        2 => format!(
            "select event, arrayMap(x -> x * 2, arrayFilter(x -> x % 2 = {}, \
             arraySort(groupUniqArray(toHour(timestamp))))) from events{} group by event order by 1",
            rng.range(0..2),
            filter(rng)
        ),
        3 => format!(
            "select number % {0} as k, sum(number), groupArray(number) from numbers({1}) \
             group by k order by k{2}",
            2 + rng.range(0..5),
            20 + rng.range(0..100),
            limit(rng)
        ),
        _ => format!(
            "select arrayJoin(range(toHour(timestamp) % 4)) as h, event, count() from \
             events{} group by h, event order by 1, 2",
            filter(rng)
        ),
    }
}

fn sets(rng: &mut Rng) -> String {
    let key = rng.pick(&["event", "distinct_id", "toHour(timestamp)"]);
    let (one, two) = (filter(rng), filter(rng));
    match rng.range(0..6) {
        0 => format!(
            "select k, sum(c) from (select {key} as k, count() as c from events{one} group by k \
             union all select {key}, count() from events{two} group by {key}) group by k order by k"
        ),
        1 => format!(
            "select * from (select {key} as k from events{one} union distinct \
             select {key} from events{two}) order by k"
        ),
        2 => format!(
            "select distinct k from (select {key} as k from events{one} intersect \
             select {key} from events{two}) order by k"
        ),
        3 => format!(
            "select k, count() from (select {key} as k from events{one} except \
             select {key} from events where {}) group by k order by k",
            condition(rng)
        ),
        4 => format!(
            "with t as (select {key} as k, count() as c from events{one} group by k) \
             select a.k, a.c, b.c from t a inner join t b on a.k = b.k order by 1"
        ),
        _ => format!(
            "with t as (select {key} as k, count() as c from events{one} group by k) \
             select k, c from t where c >= (select avg(c) from t) order by k"
        ),
    }
}

pub fn statement(rng: &mut Rng) -> String {
    match rng.range(0..12) {
        0..=3 => group(rng),
        4 | 5 => rows(rng),
        6 | 7 => join(rng),
        8 | 9 => window(rng),
        10 => arrays(rng),
        _ => sets(rng),
    }
}
