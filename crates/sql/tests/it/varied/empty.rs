//! Aggregates and window functions of no rows: where nothing passes the filter, where the condition
//! of an `If` never holds, in groups, in frames, of values that may be null and of those that may
//! not. What stands for nothing is null or a default by the types, and goes on into expressions.

use super::{key, limit, places, several};
use crate::made::Made;

/// Values that are never null, and what makes them comparable as they are shown.
const FULL: &[&str] = &[
    "event",
    "toHour(timestamp)",
    "length(distinct_id)",
    "ifNull(properties.amount, 0)",
    "toHour(timestamp) - 12",
    "1",
    "'x'",
];

/// Numbers that are never null.
const FULL_NUMBERS: &[&str] =
    &["toHour(timestamp)", "ifNull(properties.amount, 0)", "toMinute(timestamp) - 30", "1", "2.5"];

const NULLABLE: &[&str] = &[
    "properties.amount",
    "properties.browser",
    "person.properties.plan",
    "nullIf(toHour(timestamp), 3)",
    "nullIf(event, event)",
];

const NULLABLE_NUMBERS: &[&str] =
    &["properties.amount", "properties.amount * 2", "nullIf(toHour(timestamp), 3)"];

const NEVER: &[&str] = &[
    "event = 'nothing'",
    "properties.amount > 1000000",
    "properties.browser = 'nothing'",
    "toHour(timestamp) > 30",
    "length(event) = 0 and properties.active",
];

const SOMETIMES: &[&str] = &[
    "properties.active",
    "properties.amount > 5",
    "properties.browser is null",
    "toHour(timestamp) = 3",
    "event like '%a%'",
];

fn value(made: &mut Made) -> &'static str {
    if made.chance(50) { made.of(FULL) } else { made.of(NULLABLE) }
}

fn number(made: &mut Made) -> &'static str {
    if made.chance(50) { made.of(FULL_NUMBERS) } else { made.of(NULLABLE_NUMBERS) }
}

/// Whole numbers, as bits need them.
fn whole(made: &mut Made) -> &'static str {
    made.of(&["toHour(timestamp)", "nullIf(toHour(timestamp), 3)", "length(event)"])
}

/// An aggregate whose result does not hang on the order of rows; `suffix` and `condition` make it
/// conditional.
fn called(made: &mut Made, suffix: &str, condition: &str) -> String {
    let rest = if condition.is_empty() { String::new() } else { format!(", {condition}") };
    let (one, n) = (value(made), number(made));
    match made.below(22) {
        0 | 1 => format!("max{suffix}({one}{rest})"),
        2 | 3 => format!("min{suffix}({one}{rest})"),
        4 => format!("sum{suffix}({n}{rest})"),
        5 => format!("argMax{suffix}({one}, (toUnixTimestamp(timestamp), toString(uuid)){rest})"),
        6 => format!("argMin{suffix}({one}, {}{rest})", made.of(&["uuid", "toString(uuid)"])),
        7 => format!("avg{suffix}({n}{rest})"),
        8 => format!("quantile{suffix}(0.5)({n}{rest})"),
        9 => format!("median{suffix}({n}{rest})"),
        10 => format!("stddevPop{suffix}({n}{rest})"),
        11 => format!("varPop{suffix}({n}{rest})"),
        12 => format!("uniq{suffix}({one}{rest})"),
        13 => format!("uniqExact{suffix}({one}, {n}{rest})"),
        14 => format!("count{suffix}({one}{rest})"),
        15 => format!("groupBitOr{suffix}({}{rest})", whole(made)),
        16 => format!("groupBitAnd{suffix}({}{rest})", whole(made)),
        17 => format!("arraySort(groupUniqArray{suffix}({one}{rest}))"),
        18 => format!("toUnixTimestamp(max{suffix}(timestamp{rest}))"),
        19 => format!("toString(min{suffix}(uuid{rest}))"),
        20 => format!("max{suffix}((event, {n}){rest}).{}", 1 + made.below(2)),
        _ => format!("length(max{suffix}([event]{rest}))"),
    }
}

/// Of no rows at all, or in a group of some.
fn aggregate(made: &mut Made) -> String {
    match made.below(8) {
        0 | 1 => called(made, "", ""),
        2..=4 => {
            let condition = made.of(NEVER);
            called(made, "If", condition)
        }
        // Which row is met first is nobody's business where there is none.
        5 => {
            let (name, one) = (made.of(&["anyIf", "anyLastIf"]), value(made));
            format!("{name}({one}, {})", made.of(NEVER))
        }
        _ => {
            let condition = made.of(SOMETIMES);
            called(made, "If", condition)
        }
    }
}

/// What becomes of it in an expression.
fn used(made: &mut Made) -> String {
    let one = aggregate(made);
    match made.below(9) {
        0..=2 => one,
        3 => format!("isNull({one})"),
        4 => format!("({one}) is not null"),
        5 => format!("ifNull(toString({one}), 'null')"),
        6 => {
            let part = |made: &mut Made| {
                let condition = if made.chance(60) { made.of(NEVER) } else { made.of(SOMETIMES) };
                format!("{}({}, {condition})", made.of(&["maxIf", "minIf", "sumIf"]), number(made))
            };
            format!("{} + {} + {}", part(made), part(made), part(made))
        }
        7 => format!("coalesce(maxIf({}, {}), {})", number(made), made.of(NEVER), 77),
        _ => format!("if(count() > 3, maxIf({}, {}), 5)", number(made), made.of(NEVER)),
    }
}

fn whole_table(made: &mut Made) -> String {
    let columns = several(made, 5, used);
    format!("select {} from events where {}", columns.join(", "), made.of(NEVER))
}

fn grouped(made: &mut Made) -> String {
    let keys = several(made, 2, key);
    let mut columns = keys.clone();
    columns.extend(several(made, 4, used));
    let filter = match made.below(4) {
        0 => format!(" where {}", made.of(NEVER)),
        1 => format!(" where {}", made.of(SOMETIMES)),
        _ => String::new(),
    };
    format!(
        "select {} from events{filter} group by {} order by {}{}",
        columns.join(", "),
        keys.join(", "),
        places(columns.len()),
        limit(made)
    )
}

fn framed(made: &mut Made) -> String {
    let partition = match made.below(3) {
        0 => String::new(),
        _ => format!("partition by {} ", key(made)),
    };
    let frame = made.of(&[
        "",
        " rows between 3 preceding and 2 preceding",
        " rows between 2 following and 3 following",
        " rows between 1 preceding and current row",
        " rows between unbounded preceding and unbounded following",
    ]);
    let over = format!("over ({partition}order by toString(uuid){frame})");
    let one = |made: &mut Made| match made.below(9) {
        0 => format!("lagInFrame({}, {}) {over}", value(made), 1 + made.below(3)),
        1 => format!("leadInFrame({}) {over}", value(made)),
        2 => format!("first_value({}) {over}", value(made)),
        3 => format!("last_value({}) {over}", value(made)),
        4 => format!("nth_value({}, {}) {over}", value(made), 1 + made.below(3)),
        5 => format!("isNull(lagInFrame({}) {over})", value(made)),
        6 => format!("lagInFrame({}, 2, {}) {over}", made.of(FULL_NUMBERS), 0),
        _ => {
            let name = made.of(&["max", "min", "sum", "avg", "median"]);
            format!("{name}({}) {over}", number(made))
        }
    };
    let columns: Vec<String> = (0..1 + made.below(3)).map(|_| one(made)).collect();
    format!(
        "select toString(uuid), {} from events order by toString(uuid){}",
        columns.join(", "),
        limit(made)
    )
}

/// Through a subquery, a join that finds no row, and arrays of nothing.
fn nested(made: &mut Made) -> String {
    let (inner, never) = (aggregate(made), made.of(NEVER));
    match made.below(4) {
        0 => format!(
            "select isNull(m), count(), toString(max(m)) from (select {inner} as m from events where {never}) group by 1 order by 1"
        ),
        1 => {
            let key = key(made);
            format!(
                "select l.k, r.m from (select {key} as k from events group by k) l left join (select {key} as \
                 k, {inner} as m from events where {} group by k) r on l.k = r.k order by 1, 2{}",
                made.of(SOMETIMES),
                limit(made)
            )
        }
        2 => format!(
            "select (select {} from events where {never}) as m, isNull(m)",
            called(made, "", "")
        ),
        _ => {
            let number = made.of(FULL_NUMBERS);
            format!(
                "select {}(groupArray({number})), arraySum(groupArrayIf({number}, {never})), \
                 length(arrayMap(x -> x + 1, groupArray({number}))) from events where {never}",
                made.of(&["arrayMax", "arrayMin", "arraySum", "arrayAvg", "length"]),
            )
        }
    }
}

pub fn statement(made: &mut Made) -> String {
    match made.below(10) {
        0..=2 => whole_table(made),
        3..=5 => grouped(made),
        6 | 7 => framed(made),
        _ => nested(made),
    }
}
