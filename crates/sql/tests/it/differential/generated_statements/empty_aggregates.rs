//! Generates aggregates and window functions over no rows: no row passes the filter, the condition of
//! an `If` never holds, a frame is empty. The result is null or a default, depending on the types,
//! and is used in further expressions.

use testing::Rng;

use super::{column_numbers, key, limit, several};

/// Values that are never null.
const NOT_NULL: &[&str] = &[
    "event",
    "toHour(timestamp)",
    "length(distinct_id)",
    "ifNull(properties.amount, 0)",
    "toHour(timestamp) - 12",
    "1",
    "'x'",
];

/// Numbers that are never null.
const NOT_NULL_NUMBERS: &[&str] =
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

fn value(rng: &mut Rng) -> &'static str {
    if rng.chance(50) { rng.pick(NOT_NULL) } else { rng.pick(NULLABLE) }
}

fn number(rng: &mut Rng) -> &'static str {
    if rng.chance(50) { rng.pick(NOT_NULL_NUMBERS) } else { rng.pick(NULLABLE_NUMBERS) }
}

/// Integers, for bitwise aggregates.
fn integer(rng: &mut Rng) -> &'static str {
    rng.pick(&["toHour(timestamp)", "nullIf(toHour(timestamp), 3)", "length(event)"])
}

/// An aggregate whose result does not depend on the order of rows; `suffix` and `condition` make it
/// conditional.
fn called(rng: &mut Rng, suffix: &str, condition: &str) -> String {
    let rest = if condition.is_empty() { String::new() } else { format!(", {condition}") };
    let (one, n) = (value(rng), number(rng));
    match rng.range(0..22) {
        0 | 1 => format!("max{suffix}({one}{rest})"),
        2 | 3 => format!("min{suffix}({one}{rest})"),
        4 => format!("sum{suffix}({n}{rest})"),
        5 => format!("argMax{suffix}({one}, (toUnixTimestamp(timestamp), toString(uuid)){rest})"),
        6 => format!("argMin{suffix}({one}, {}{rest})", rng.pick(&["uuid", "toString(uuid)"])),
        7 => format!("avg{suffix}({n}{rest})"),
        8 => format!("quantile{suffix}(0.5)({n}{rest})"),
        9 => format!("median{suffix}({n}{rest})"),
        10 => format!("stddevPop{suffix}({n}{rest})"),
        11 => format!("varPop{suffix}({n}{rest})"),
        12 => format!("uniq{suffix}({one}{rest})"),
        13 => format!("uniqExact{suffix}({one}, {n}{rest})"),
        14 => format!("count{suffix}({one}{rest})"),
        15 => format!("groupBitOr{suffix}({}{rest})", integer(rng)),
        16 => format!("groupBitAnd{suffix}({}{rest})", integer(rng)),
        17 => format!("arraySort(groupUniqArray{suffix}({one}{rest}))"),
        18 => format!("toUnixTimestamp(max{suffix}(timestamp{rest}))"),
        19 => format!("toString(min{suffix}(uuid{rest}))"),
        20 => format!("max{suffix}((event, {n}){rest}).{}", rng.range(1..=2)),
        _ => format!("length(max{suffix}([event]{rest}))"),
    }
}

/// An aggregate that is empty always, in some groups, or not at all.
fn aggregate(rng: &mut Rng) -> String {
    match rng.range(0..8) {
        0 | 1 => called(rng, "", ""),
        2..=4 => {
            let condition = rng.pick(NEVER);
            called(rng, "If", condition)
        }
        // Without rows, the order of rows does not matter to `any`.
        5 => {
            let (name, one) = (rng.pick(&["anyIf", "anyLastIf"]), value(rng));
            format!("{name}({one}, {})", rng.pick(NEVER))
        }
        _ => {
            let condition = rng.pick(SOMETIMES);
            called(rng, "If", condition)
        }
    }
}

/// An aggregate within an expression.
fn used(rng: &mut Rng) -> String {
    let one = aggregate(rng);
    match rng.range(0..9) {
        0..=2 => one,
        3 => format!("isNull({one})"),
        4 => format!("({one}) is not null"),
        5 => format!("ifNull(toString({one}), 'null')"),
        6 => {
            let part = |rng: &mut Rng| {
                let condition = if rng.chance(60) { rng.pick(NEVER) } else { rng.pick(SOMETIMES) };
                format!("{}({}, {condition})", rng.pick(&["maxIf", "minIf", "sumIf"]), number(rng))
            };
            format!("{} + {} + {}", part(rng), part(rng), part(rng))
        }
        7 => format!("coalesce(maxIf({}, {}), {})", number(rng), rng.pick(NEVER), 77),
        _ => format!("if(count() > 3, maxIf({}, {}), 5)", number(rng), rng.pick(NEVER)),
    }
}

fn whole_table(rng: &mut Rng) -> String {
    let columns = several(rng, 5, used);
    format!("select {} from events where {}", columns.join(", "), rng.pick(NEVER))
}

fn grouped(rng: &mut Rng) -> String {
    let keys = several(rng, 2, key);
    let mut columns = keys.clone();
    columns.extend(several(rng, 4, used));
    let filter = match rng.range(0..4) {
        0 => format!(" where {}", rng.pick(NEVER)),
        1 => format!(" where {}", rng.pick(SOMETIMES)),
        _ => String::new(),
    };
    format!(
        "select {} from events{filter} group by {} order by {}{}",
        columns.join(", "),
        keys.join(", "),
        column_numbers(columns.len()),
        limit(rng)
    )
}

fn framed(rng: &mut Rng) -> String {
    let partition = match rng.range(0..3) {
        0 => String::new(),
        _ => format!("partition by {} ", key(rng)),
    };
    let frame = rng.pick(&[
        "",
        " rows between 3 preceding and 2 preceding",
        " rows between 2 following and 3 following",
        " rows between 1 preceding and current row",
        " rows between unbounded preceding and unbounded following",
    ]);
    let over = format!("over ({partition}order by toString(uuid){frame})");
    let one = |rng: &mut Rng| match rng.range(0..9) {
        0 => format!("lagInFrame({}, {}) {over}", value(rng), rng.range(1..=3)),
        1 => format!("leadInFrame({}) {over}", value(rng)),
        2 => format!("first_value({}) {over}", value(rng)),
        3 => format!("last_value({}) {over}", value(rng)),
        4 => format!("nth_value({}, {}) {over}", value(rng), rng.range(1..=3)),
        5 => format!("isNull(lagInFrame({}) {over})", value(rng)),
        6 => format!("lagInFrame({}, 2, {}) {over}", rng.pick(NOT_NULL_NUMBERS), 0),
        _ => {
            let name = rng.pick(&["max", "min", "sum", "avg", "median"]);
            format!("{name}({}) {over}", number(rng))
        }
    };
    let columns: Vec<String> = (0..rng.range(1..=3)).map(|_| one(rng)).collect();
    format!(
        "select toString(uuid), {} from events order by toString(uuid){}",
        columns.join(", "),
        limit(rng)
    )
}

/// Empty aggregates through a subquery, a join without matches, and empty arrays.
fn nested(rng: &mut Rng) -> String {
    let (inner, never) = (aggregate(rng), rng.pick(NEVER));
    match rng.range(0..4) {
        0 => format!(
            "select isNull(m), count(), toString(max(m)) from (select {inner} as m from events where {never}) group by 1 order by 1"
        ),
        1 => {
            let key = key(rng);
            format!(
                "select l.k, r.m from (select {key} as k from events group by k) l left join (select {key} as \
                 k, {inner} as m from events where {} group by k) r on l.k = r.k order by 1, 2{}",
                rng.pick(SOMETIMES),
                limit(rng)
            )
        }
        2 => format!(
            "select (select {} from events where {never}) as m, isNull(m)",
            called(rng, "", "")
        ),
        _ => {
            let number = rng.pick(NOT_NULL_NUMBERS);
            format!(
                "select {}(groupArray({number})), arraySum(groupArrayIf({number}, {never})), \
                 length(arrayMap(x -> x + 1, groupArray({number}))) from events where {never}",
                rng.pick(&["arrayMax", "arrayMin", "arraySum", "arrayAvg", "length"]),
            )
        }
    }
}

pub fn statement(rng: &mut Rng) -> String {
    match rng.range(0..10) {
        0..=2 => whole_table(rng),
        3..=5 => grouped(rng),
        6 | 7 => framed(rng),
        _ => nested(rng),
    }
}
