//! Generates statements from a seed by nesting any function in any other, over projects in different
//! time zones.
//!
//! It avoids what differs by design: comparisons with null outside of a filter, and functions that
//! count bytes in ClickHouse and characters here.

// Named, because `query` tests with these statements too.
#[path = "generated_statements/empty_aggregates.rs"]
mod empty_aggregates;
#[path = "generated_statements/expressions.rs"]
mod expressions;

use expressions::{TIMES, array, boolean, date, float, natural, text, time};
use testing::Rng;

/// The nesting depth of expressions.
const DEPTH: u64 = 3;

/// A condition of WHERE, where null counts as false.
fn condition(rng: &mut Rng) -> String {
    match rng.range(0..11) {
        0 => format!("properties.amount > {}", rng.range(0..9)),
        1 => "properties.browser in ('Chrome', 'Überfox')".to_owned(),
        2 => "properties.active".to_owned(),
        3 => format!(
            "person_id in (select person_id from cohort_people where cohort_id = {})",
            5 + rng.range(0..2)
        ),
        4 => format!(
            "person_id not in (select id from persons where properties.age > {})",
            20 + rng.range(0..30)
        ),
        5 => format!(
            "distinct_id in (select distinct_id from events group by distinct_id having count() > {})",
            rng.range(0..20)
        ),
        6 => format!("timestamp >= '2024-03-{} 02:30:00'", 10 + rng.range(0..20)),
        7 => format!(
            "{} in (select properties.browser from events where {})",
            rng.pick(&["properties.browser", "ifNull(properties.browser, '') not"]),
            boolean(rng, 1)
        ),
        _ => boolean(rng, DEPTH - 1),
    }
}

fn filter(rng: &mut Rng) -> String {
    match rng.range(0..3) {
        0 => String::new(),
        1 => format!(" where {}", condition(rng)),
        _ => format!(" where {} and {}", condition(rng), condition(rng)),
    }
}

/// A value of any type that can be selected, sorted and grouped by.
fn value(rng: &mut Rng, depth: u64) -> String {
    match rng.range(0..8) {
        0 | 1 => natural(rng, depth),
        2 => format!("round({}, 6)", float(rng, depth)),
        3 | 4 => text(rng, depth),
        5 => format!("formatDateTime({}, '%Y-%m-%d %H:%i:%S')", time(rng, depth)),
        6 => boolean(rng, depth),
        _ => array(rng, depth),
    }
}

fn key(rng: &mut Rng) -> String {
    match rng.range(0..6) {
        0 => "properties.browser".to_owned(),
        1 => "person.properties.plan".to_owned(),
        2 => format!("toString({})", date(rng, 1)),
        3 => format!("toUnixTimestamp({})", rng.pick(&TIMES[1..8])),
        4 => format!("{} % 5", natural(rng, 1)),
        _ => text(rng, 1),
    }
}

fn aggregate(rng: &mut Rng) -> String {
    let (number, other) = (natural(rng, 1), float(rng, 1));
    match rng.range(0..22) {
        0 => "count()".to_owned(),
        1 => "count(properties.amount)".to_owned(),
        2 => format!("countIf({})", boolean(rng, 1)),
        3 => format!("sum({number})"),
        4 => format!("round(sum({other}), 4)"),
        5 => format!("sumIf({number}, {})", boolean(rng, 1)),
        6 => format!("round(avg({other}), 6)"),
        7 => "min(properties.amount)".to_owned(),
        8 => format!("max({})", text(rng, 1)),
        9 => format!("uniq({})", value(rng, 1)),
        10 => "count(distinct person_id)".to_owned(),
        11 => format!("uniqExact({number}, {})", text(rng, 1)),
        12 => format!("argMax({}, toString(uuid))", text(rng, 1)),
        13 => format!("argMin({number}, (toUnixTimestamp(timestamp), toString(uuid)))"),
        14 => format!("arraySort(groupUniqArray({}))", text(rng, 1)),
        15 => format!("arraySort(groupArray({number}))"),
        16 => format!("round(quantile(0.{})({other}), 6)", rng.range(1..=9)),
        17 => format!("median({number})"),
        18 => format!("arrayMap(x -> round(x, 6), quantiles(0.25, 0.9)({other}))"),
        19 => format!("groupBitXor({number})"),
        20 => format!("round(stddevPop({number} % 100), 5)"),
        _ => "max(toString(toStartOfHour(timestamp)))".to_owned(),
    }
}

fn several(rng: &mut Rng, most: u64, of: fn(&mut Rng) -> String) -> Vec<String> {
    (0..rng.range(1..=most)).map(|_| of(rng)).collect()
}

fn column_numbers(count: usize) -> String {
    (1..=count).map(|column| column.to_string()).collect::<Vec<_>>().join(", ")
}

fn limit(rng: &mut Rng) -> String {
    match rng.range(0..3) {
        0 => format!(" limit {}", rng.range(1..=40)),
        1 => format!(" limit {} offset {}", rng.range(1..=40), rng.range(0..9)),
        _ => " limit 9000".to_owned(),
    }
}

fn rows(rng: &mut Rng) -> String {
    let columns = several(rng, 3, |rng| value(rng, DEPTH));
    let filter = filter(rng);
    let by = match rng.range(0..4) {
        0 => format!(" limit {} by {}", rng.range(1..=3), key(rng)),
        _ => String::new(),
    };
    let order = match rng.range(0..3) {
        0 => format!("{} desc, toString(uuid)", key(rng)),
        1 => format!("{}, toString(uuid) desc", natural(rng, 1)),
        _ => "toString(uuid)".to_owned(),
    };
    format!("select {} from events{filter} order by {order}{by}{}", columns.join(", "), limit(rng))
}

fn grouped(rng: &mut Rng) -> String {
    let keys = several(rng, 2, key);
    let mut columns = keys.clone();
    columns.extend(several(rng, 4, aggregate));
    let having = match rng.range(0..4) {
        0 => format!(" having count() > {}", rng.range(0..9)),
        _ => String::new(),
    };
    let listed = keys.join(", ");
    // ClickHouse keeps the value of a constant key in every set.
    let is_constant = |key: &String| key.contains("toDateTime('");
    let is_repeated = keys.iter().enumerate().any(|(no, key)| keys[..no].contains(key));
    let is_plain = is_repeated || keys.iter().any(is_constant);
    let keys = match rng.range(0..if is_plain { 1 } else { 8 }) {
        5 => format!("rollup({listed})"),
        6 => format!("cube({listed})"),
        7 => format!("grouping sets (({listed}), ({}))", keys[0]),
        _ => listed,
    };
    format!(
        "select {} from events{} group by {keys}{having} order by {}{}",
        columns.join(", "),
        filter(rng),
        column_numbers(columns.len()),
        limit(rng)
    )
}

fn windowed(rng: &mut Rng) -> String {
    let partition = match rng.range(0..3) {
        0 => String::new(),
        _ => format!("partition by {} ", key(rng)),
    };
    let frame = rng.pick(&[
        "",
        " rows between unbounded preceding and current row",
        " rows between 2 preceding and current row",
        " rows between 1 preceding and 2 following",
        " rows between unbounded preceding and unbounded following",
    ]);
    let over = format!("over ({partition}order by toString(uuid){frame})");
    let whole = format!(
        "over ({partition}order by toString(uuid) rows between unbounded preceding and unbounded \
         following)"
    );
    let one = |rng: &mut Rng| match rng.range(0..13) {
        10 => format!("ntile({}) {whole}", rng.range(1..=5)),
        11 => format!("percent_rank() over ({partition}order by toDayOfWeek(timestamp))"),
        12 => format!("cume_dist() over ({partition}order by toHour(timestamp))"),
        0 => format!("row_number() over ({partition}order by toString(uuid))"),
        1 => format!("rank() over ({partition}order by toDayOfWeek(timestamp))"),
        2 => format!("dense_rank() over ({partition}order by toHour(timestamp))"),
        3 => format!("sum({}) {over}", natural(rng, 1)),
        4 => format!("round(avg({}) {over}, 6)", float(rng, 1)),
        5 => format!("count() {over}"),
        6 => format!("lagInFrame({}, 1, 'none') {whole}", text(rng, 1)),
        7 => format!("leadInFrame({}, 2, 0) {whole}", natural(rng, 1)),
        8 => format!("first_value({}) {over}", text(rng, 1)),
        _ => format!("max({}) {over}", natural(rng, 1)),
    };
    let columns: Vec<String> = (0..rng.range(1..=3)).map(|_| one(rng)).collect();
    let filter = filter(rng);
    format!(
        "select toString(uuid), {} from events{filter} order by toString(uuid){}",
        columns.join(", "),
        limit(rng)
    )
}

fn joined(rng: &mut Rng) -> String {
    let kind = rng.pick(&["inner join", "left join", "right join", "full join"]);
    match rng.range(0..5) {
        0 => format!(
            "select p.properties.plan, e.event, count(), count(distinct e.distinct_id), \
             max(p.properties.age) from events e {} persons p on e.person_id = p.id group by 1, 2 \
             order by 1, 2{}",
            rng.pick(&["inner join", "left join"]),
            limit(rng)
        ),
        1 => {
            let key = key(rng);
            format!(
                "select l.k, l.c, r.k, r.c from (select {key} as k, {} as c from events{} group by \
                 k) l {kind} (select {key} as k, {} as c from events{} group by k) r on l.k = r.k \
                 order by 1, 3, 2, 4{}",
                aggregate(rng),
                filter(rng),
                aggregate(rng),
                filter(rng),
                limit(rng)
            )
        }
        2 => format!(
            "select e.event, c.cohort_id, count(), count(distinct c.person_id) from events e {} \
             cohort_people c on e.person_id = c.person_id group by 1, 2 order by 1, 2",
            rng.pick(&["inner join", "left join"])
        ),
        3 => format!(
            "select n.number, count(), sum(e.h) from numbers({}) n inner join (select {} as h from \
             events{}) e on n.number = e.h % {} group by 1 order by 1",
            2 + rng.range(0..9),
            natural(rng, 1),
            filter(rng),
            2 + rng.range(0..9)
        ),
        _ => format!(
            "select x.event, y.event, count(), min(y.t - x.t) from (select event, person_id, \
             toUnixTimestamp64Milli(timestamp) as t from events{}) x inner join (select event, \
             person_id, toUnixTimestamp64Milli(timestamp) as t from events{}) y on \
             x.person_id = y.person_id where x.t < y.t and y.t - x.t < {} group by 1, 2 order by 1, 2",
            filter(rng),
            filter(rng),
            3_600_000 * (rng.range(1..=200))
        ),
    }
}

fn nested(rng: &mut Rng) -> String {
    let (inner, outer) = (key(rng), rng.pick(&["sum(c)", "max(c)", "count()", "median(c)"]));
    match rng.range(0..6) {
        0 => format!(
            "select ifNull(toString(k) < 'd', 0) as g, {outer} from (select {inner} as k, \
             count() as c from events{} group by k) group by g order by g",
            filter(rng)
        ),
        1 => format!(
            "with one as (select {inner} as k, {} as c from events{} group by k), two as (select \
             k, c, row_number() over (order by k) as n from one) select k, c, n from two where n <= \
             {} order by n",
            aggregate(rng),
            filter(rng),
            rng.range(1..=12)
        ),
        2 => format!(
            "select {inner} as k, count() from events where {} > (select avg({}) from events) \
             group by k order by k{}",
            natural(rng, 1),
            natural(rng, 1),
            limit(rng)
        ),
        3 => format!(
            "select x, count(), sum(length(event)) from (select event, arrayJoin({}) as x from \
             events{}) group by x order by x{}",
            array(rng, 1),
            filter(rng),
            limit(rng)
        ),
        4 => format!(
            "select event, x, i from (select event, toString(uuid) as u, {} as xs from events{}) \
             {}array join xs as x, arrayEnumerate(xs) as i order by u, i{}",
            array(rng, 1),
            filter(rng),
            rng.pick(&["", "left "]),
            limit(rng)
        ),
        _ => format!(
            "select k, n from (select {inner} as k, count() as n from events{} group by k) where \
             (k, n) in (select {inner} as k, count() from events{} group by k) order by k, n{}",
            filter(rng),
            filter(rng),
            limit(rng)
        ),
    }
}

fn sets(rng: &mut Rng) -> String {
    let key = match rng.chance(50) {
        true => text(rng, 1),
        false => natural(rng, 1),
    };
    let (one, two) = (filter(rng), filter(rng));
    let word = rng.pick(&["union all", "union distinct", "intersect", "except"]);
    format!(
        "select k, count() > 0 from (select {key} as k from events{one} {word} select {key} as k \
         from events{two}) group by k order by k{}",
        limit(rng)
    )
}

pub fn statement(rng: &mut Rng) -> String {
    match rng.range(0..20) {
        0..=4 => rows(rng),
        5..=8 => grouped(rng),
        9 | 10 => windowed(rng),
        11 | 12 => joined(rng),
        13 | 14 => nested(rng),
        15 => sets(rng),
        _ => empty_aggregates::statement(rng),
    }
}
