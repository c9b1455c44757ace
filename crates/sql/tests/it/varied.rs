//! Statements put together out of expressions by seed: any function around any other, over
//! projects in all sorts of time zones.
//!
//! What is meant differently on purpose is left out, as in `made`: nulls compared outside of a
//! filter, functions that count bytes there and characters here.

mod empty;
mod expressions;

use crate::made::Made;
use expressions::{TIMES, array, date, float, natural, text, time, truth};

/// How deep expressions go.
const DEPTH: u64 = 3;

/// A condition of a filter, where nulls are no.
fn condition(made: &mut Made) -> String {
    match made.below(11) {
        0 => format!("properties.amount > {}", made.below(9)),
        1 => "properties.browser in ('Chrome', 'Überfox')".to_owned(),
        2 => "properties.active".to_owned(),
        3 => format!(
            "person_id in (select person_id from cohort_people where cohort_id = {})",
            5 + made.below(2)
        ),
        4 => format!(
            "person_id not in (select id from persons where properties.age > {})",
            20 + made.below(30)
        ),
        5 => format!(
            "distinct_id in (select distinct_id from events group by distinct_id having count() > {})",
            made.below(20)
        ),
        6 => format!("timestamp >= '2024-03-{} 02:30:00'", 10 + made.below(20)),
        7 => format!(
            "{} in (select properties.browser from events where {})",
            made.of(&["properties.browser", "ifNull(properties.browser, '') not"]),
            truth(made, 1)
        ),
        _ => truth(made, DEPTH - 1),
    }
}

fn filter(made: &mut Made) -> String {
    match made.below(3) {
        0 => String::new(),
        1 => format!(" where {}", condition(made)),
        _ => format!(" where {} and {}", condition(made), condition(made)),
    }
}

/// A value of any type that can be shown, sorted and grouped by.
fn value(made: &mut Made, depth: u64) -> String {
    match made.below(8) {
        0 | 1 => natural(made, depth),
        2 => format!("round({}, 6)", float(made, depth)),
        3 | 4 => text(made, depth),
        5 => format!("formatDateTime({}, '%Y-%m-%d %H:%i:%S')", time(made, depth)),
        6 => truth(made, depth),
        _ => array(made, depth),
    }
}

fn key(made: &mut Made) -> String {
    match made.below(6) {
        0 => "properties.browser".to_owned(),
        1 => "person.properties.plan".to_owned(),
        2 => format!("toString({})", date(made, 1)),
        3 => format!("toUnixTimestamp({})", made.of(&TIMES[1..8])),
        4 => format!("{} % 5", natural(made, 1)),
        _ => text(made, 1),
    }
}

fn aggregate(made: &mut Made) -> String {
    let (number, other) = (natural(made, 1), float(made, 1));
    match made.below(22) {
        0 => "count()".to_owned(),
        1 => "count(properties.amount)".to_owned(),
        2 => format!("countIf({})", truth(made, 1)),
        3 => format!("sum({number})"),
        4 => format!("round(sum({other}), 4)"),
        5 => format!("sumIf({number}, {})", truth(made, 1)),
        6 => format!("round(avg({other}), 6)"),
        7 => "min(properties.amount)".to_owned(),
        8 => format!("max({})", text(made, 1)),
        9 => format!("uniq({})", value(made, 1)),
        10 => "count(distinct person_id)".to_owned(),
        11 => format!("uniqExact({number}, {})", text(made, 1)),
        12 => format!("argMax({}, toString(uuid))", text(made, 1)),
        13 => format!("argMin({number}, (toUnixTimestamp(timestamp), toString(uuid)))"),
        14 => format!("arraySort(groupUniqArray({}))", text(made, 1)),
        15 => format!("arraySort(groupArray({number}))"),
        16 => format!("round(quantile(0.{})({other}), 6)", 1 + made.below(9)),
        17 => format!("median({number})"),
        18 => format!("arrayMap(x -> round(x, 6), quantiles(0.25, 0.9)({other}))"),
        19 => format!("groupBitXor({number})"),
        20 => format!("round(stddevPop({number} % 100), 5)"),
        _ => "max(toString(toStartOfHour(timestamp)))".to_owned(),
    }
}

fn several(made: &mut Made, most: u64, of: fn(&mut Made) -> String) -> Vec<String> {
    (0..1 + made.below(most)).map(|_| of(made)).collect()
}

fn places(count: usize) -> String {
    (1..=count).map(|place| place.to_string()).collect::<Vec<_>>().join(", ")
}

fn limit(made: &mut Made) -> String {
    match made.below(3) {
        0 => format!(" limit {}", 1 + made.below(40)),
        1 => format!(" limit {} offset {}", 1 + made.below(40), made.below(9)),
        _ => " limit 9000".to_owned(),
    }
}

fn rows(made: &mut Made) -> String {
    let columns = several(made, 3, |made| value(made, DEPTH));
    let filter = filter(made);
    let by = match made.below(4) {
        0 => format!(" limit {} by {}", 1 + made.below(3), key(made)),
        _ => String::new(),
    };
    let order = match made.below(3) {
        0 => format!("{} desc, toString(uuid)", key(made)),
        1 => format!("{}, toString(uuid) desc", natural(made, 1)),
        _ => "toString(uuid)".to_owned(),
    };
    format!("select {} from events{filter} order by {order}{by}{}", columns.join(", "), limit(made))
}

fn grouped(made: &mut Made) -> String {
    let keys = several(made, 2, key);
    let mut columns = keys.clone();
    columns.extend(several(made, 4, aggregate));
    let having = match made.below(4) {
        0 => format!(" having count() > {}", made.below(9)),
        _ => String::new(),
    };
    format!(
        "select {} from events{} group by {}{having} order by {}{}",
        columns.join(", "),
        filter(made),
        keys.join(", "),
        places(columns.len()),
        limit(made)
    )
}

fn windowed(made: &mut Made) -> String {
    let partition = match made.below(3) {
        0 => String::new(),
        _ => format!("partition by {} ", key(made)),
    };
    let frame = made.of(&[
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
    let one = |made: &mut Made| match made.below(10) {
        0 => format!("row_number() over ({partition}order by toString(uuid))"),
        1 => format!("rank() over ({partition}order by toDayOfWeek(timestamp))"),
        2 => format!("dense_rank() over ({partition}order by toHour(timestamp))"),
        3 => format!("sum({}) {over}", natural(made, 1)),
        4 => format!("round(avg({}) {over}, 6)", float(made, 1)),
        5 => format!("count() {over}"),
        6 => format!("lagInFrame({}, 1, 'none') {whole}", text(made, 1)),
        7 => format!("leadInFrame({}, 2, 0) {whole}", natural(made, 1)),
        8 => format!("first_value({}) {over}", text(made, 1)),
        _ => format!("max({}) {over}", natural(made, 1)),
    };
    let columns: Vec<String> = (0..1 + made.below(3)).map(|_| one(made)).collect();
    let filter = filter(made);
    format!(
        "select toString(uuid), {} from events{filter} order by toString(uuid){}",
        columns.join(", "),
        limit(made)
    )
}

fn joined(made: &mut Made) -> String {
    let kind = made.of(&["inner join", "left join", "right join", "full join"]);
    match made.below(5) {
        0 => format!(
            "select p.properties.plan, e.event, count(), count(distinct e.distinct_id), \
             max(p.properties.age) from events e {} persons p on e.person_id = p.id group by 1, 2 \
             order by 1, 2{}",
            made.of(&["inner join", "left join"]),
            limit(made)
        ),
        1 => {
            let key = key(made);
            format!(
                "select l.k, l.c, r.k, r.c from (select {key} as k, {} as c from events{} group by \
                 k) l {kind} (select {key} as k, {} as c from events{} group by k) r on l.k = r.k \
                 order by 1, 3, 2, 4{}",
                aggregate(made),
                filter(made),
                aggregate(made),
                filter(made),
                limit(made)
            )
        }
        2 => format!(
            "select e.event, c.cohort_id, count(), count(distinct c.person_id) from events e {} \
             cohort_people c on e.person_id = c.person_id group by 1, 2 order by 1, 2",
            made.of(&["inner join", "left join"])
        ),
        3 => format!(
            "select n.number, count(), sum(e.h) from numbers({}) n inner join (select {} as h from \
             events{}) e on n.number = e.h % {} group by 1 order by 1",
            2 + made.below(9),
            natural(made, 1),
            filter(made),
            2 + made.below(9)
        ),
        _ => format!(
            "select x.event, y.event, count(), min(y.t - x.t) from (select event, person_id, \
             toUnixTimestamp64Milli(timestamp) as t from events{}) x inner join (select event, \
             person_id, toUnixTimestamp64Milli(timestamp) as t from events{}) y on \
             x.person_id = y.person_id where x.t < y.t and y.t - x.t < {} group by 1, 2 order by 1, 2",
            filter(made),
            filter(made),
            3_600_000 * (1 + made.below(200))
        ),
    }
}

fn nested(made: &mut Made) -> String {
    let (inner, outer) = (key(made), made.of(&["sum(c)", "max(c)", "count()", "median(c)"]));
    match made.below(6) {
        0 => format!(
            "select ifNull(toString(k) < 'd', 0) as g, {outer} from (select {inner} as k, \
             count() as c from events{} group by k) group by g order by g",
            filter(made)
        ),
        1 => format!(
            "with one as (select {inner} as k, {} as c from events{} group by k), two as (select \
             k, c, row_number() over (order by k) as n from one) select k, c, n from two where n <= \
             {} order by n",
            aggregate(made),
            filter(made),
            1 + made.below(12)
        ),
        2 => format!(
            "select {inner} as k, count() from events where {} > (select avg({}) from events) \
             group by k order by k{}",
            natural(made, 1),
            natural(made, 1),
            limit(made)
        ),
        3 => format!(
            "select x, count(), sum(length(event)) from (select event, arrayJoin({}) as x from \
             events{}) group by x order by x{}",
            array(made, 1),
            filter(made),
            limit(made)
        ),
        4 => format!(
            "select event, x, i from (select event, toString(uuid) as u, {} as xs from events{}) \
             {}array join xs as x, arrayEnumerate(xs) as i order by u, i{}",
            array(made, 1),
            filter(made),
            made.of(&["", "left "]),
            limit(made)
        ),
        _ => format!(
            "select k, n from (select {inner} as k, count() as n from events{} group by k) where \
             (k, n) in (select {inner} as k, count() from events{} group by k) order by k, n{}",
            filter(made),
            filter(made),
            limit(made)
        ),
    }
}

fn sets(made: &mut Made) -> String {
    let key = match made.chance(50) {
        true => text(made, 1),
        false => natural(made, 1),
    };
    let (one, two) = (filter(made), filter(made));
    let word = made.of(&["union all", "union distinct", "intersect", "except"]);
    format!(
        "select k, count() > 0 from (select {key} as k from events{one} {word} select {key} as k \
         from events{two}) group by k order by k{}",
        limit(made)
    )
}

pub fn statement(made: &mut Made) -> String {
    match made.below(20) {
        0..=4 => rows(made),
        5..=8 => grouped(made),
        9 | 10 => windowed(made),
        11 | 12 => joined(made),
        13 | 14 => nested(made),
        15 => sets(made),
        _ => empty::statement(made),
    }
}
