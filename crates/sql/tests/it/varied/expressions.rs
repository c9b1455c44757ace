//! Expressions made up by seed, of one type each.

use crate::made::Made;

const TEXTS: &[&str] = &[
    "event",
    "distinct_id",
    "ifNull(person.properties.plan, '')",
    "coalesce(person.properties.plan, event)",
    "ifNull(group_0.properties.tier, 'none')",
    "$group_0",
    "ifNull(properties.$session_id, '-')",
    "ifNull(path(properties.$current_url), '/')",
    "formatDateTime(timestamp, '%Y-%m-%d %H:%i')",
    "toString(toDate(timestamp))",
    "monthName(timestamp)",
    "'Hello, World'",
    "''",
];

const NATURALS: &[&str] = &[
    "toHour(timestamp)",
    "toMinute(timestamp)",
    "toDayOfWeek(timestamp)",
    "toDayOfMonth(timestamp)",
    "toDayOfYear(timestamp)",
    "toMonth(timestamp)",
    "toQuarter(timestamp)",
    "toISOWeek(timestamp)",
    "toYYYYMM(timestamp)",
    "toYYYYMMDD(timestamp)",
    "toUnixTimestamp(timestamp)",
    "length(event)",
    "length(distinct_id)",
    "7",
    "0",
    "250",
];

const FLOATS: &[&str] = &[
    "ifNull(properties.amount, 0)",
    "ifNull(person.properties.age, 0.5)",
    "ifNull(group_0.properties.size, 1)",
    "ifNull(session.$session_duration, 0) / 60",
    "2.5",
    "-0.125",
];

pub const TIMES: &[&str] = &[
    "timestamp",
    "toStartOfDay(timestamp)",
    "toStartOfHour(timestamp)",
    "toStartOfMinute(timestamp)",
    "toStartOfFiveMinutes(timestamp)",
    "toStartOfFifteenMinutes(timestamp)",
    "toStartOfInterval(timestamp, interval 15 minute)",
    "dateTrunc('hour', timestamp)",
    "toDateTime('2024-03-31 01:30:00')",
    "toDateTime('2024-03-10 12:00:00', 'UTC')",
    "ifNull(person.created_at, timestamp)",
    "ifNull(session.$start_timestamp, timestamp)",
];

const DATES: &[&str] = &[
    "toDate(timestamp)",
    "toStartOfMonth(timestamp)",
    "toStartOfYear(timestamp)",
    "toStartOfQuarter(timestamp)",
    "toMonday(timestamp)",
    "toStartOfWeek(timestamp, 1)",
    "toStartOfWeek(timestamp, 0)",
    "toLastDayOfMonth(timestamp)",
];

const ZONES: &[&str] =
    &["UTC", "Europe/London", "Asia/Tokyo", "America/Los_Angeles", "Asia/Kathmandu"];

pub fn natural(made: &mut Made, depth: u64) -> String {
    if depth == 0 {
        return made.of(NATURALS).to_owned();
    }
    let depth = depth - 1;
    match made.below(17) {
        0 => format!("({} + {})", natural(made, depth), natural(made, depth)),
        1 => format!("({} % 100 * {})", natural(made, depth), 1 + made.below(9)),
        2 => format!("intDiv({}, {})", natural(made, depth), 1 + made.below(9)),
        3 => format!("({} % {})", natural(made, depth), 1 + made.below(9)),
        4 => format!("greatest({}, {})", natural(made, depth), natural(made, depth)),
        5 => format!("least({}, {})", natural(made, depth), natural(made, depth)),
        6 => {
            format!(
                "if({}, {}, {})",
                truth(made, depth),
                natural(made, depth),
                natural(made, depth)
            )
        }
        7 => format!("length({})", text(made, depth)),
        8 => {
            format!("position({}, {})", text(made, depth), made.of(&["'a'", "'-'", "'o'", "event"]))
        }
        9 => format!("length({})", array(made, depth)),
        10 => format!("arraySum({})", array(made, depth)),
        11 => format!("arrayCount(x -> x > {}, {})", made.below(9), array(made, depth)),
        12 => format!("indexOf({}, {})", array(made, depth), made.below(9)),
        13 => format!("toHour(toTimeZone({}, '{}'))", time(made, depth), made.of(ZONES)),
        14 => format!("toUnixTimestamp({})", time(made, depth)),
        15 => format!("toDayOfYear({})", date(made, depth)),
        _ => format!(
            "multiIf({}, {}, {}, {}, {})",
            truth(made, depth),
            natural(made, depth),
            truth(made, depth),
            natural(made, depth),
            made.below(50)
        ),
    }
}

pub fn float(made: &mut Made, depth: u64) -> String {
    if depth == 0 {
        return made.of(FLOATS).to_owned();
    }
    let depth = depth - 1;
    match made.below(12) {
        0 => format!("({} + {})", float(made, depth), float(made, depth)),
        1 => format!("({} - {})", float(made, depth), natural(made, depth)),
        2 => format!("({} * {})", float(made, depth), float(made, depth)),
        3 => format!("({} / {})", float(made, depth), 1 + made.below(9)),
        4 => format!("abs({})", float(made, depth)),
        5 => format!("round({}, {})", float(made, depth), made.below(3)),
        6 => format!("floor({})", float(made, depth)),
        7 => format!("ceil({})", float(made, depth)),
        8 => format!("sqrt(abs({}))", float(made, depth)),
        9 => format!("if({}, {}, {})", truth(made, depth), float(made, depth), float(made, depth)),
        10 => format!("arrayAvg(arrayPushBack({}, {}))", array(made, depth), made.below(9)),
        _ => format!("greatest({}, {})", float(made, depth), float(made, depth)),
    }
}

pub fn text(made: &mut Made, depth: u64) -> String {
    if depth == 0 {
        return made.of(TEXTS).to_owned();
    }
    let depth = depth - 1;
    match made.below(19) {
        0 => format!("upper({})", text(made, depth)),
        1 => format!("lower({})", text(made, depth)),
        2 => format!("concat({}, '-', {})", text(made, depth), text(made, depth)),
        3 => format!("substring({}, {}, {})", text(made, depth), 1 + made.below(4), made.below(6)),
        4 => format!("replaceAll({}, 'a', 'xy')", text(made, depth)),
        5 => format!("reverse({})", text(made, depth)),
        6 => format!("left({}, {})", text(made, depth), made.below(5)),
        7 => format!("right({}, {})", text(made, depth), made.below(5)),
        8 => format!("if({}, {}, {})", truth(made, depth), text(made, depth), text(made, depth)),
        9 => format!("leftPad({}, 6, '*')", text(made, depth)),
        10 => format!("splitByChar('-', {})[1]", text(made, depth)),
        11 => format!("toString({})", natural(made, depth)),
        12 => format!("toString({})", date(made, depth)),
        13 => format!("formatDateTime({}, '%Y %m %d %H')", time(made, depth)),
        14 => format!("arrayStringConcat(splitByChar('-', {}), '+')", text(made, depth)),
        15 => format!("extract({}, '[a-z]+')", text(made, depth)),
        16 => format!("replaceRegexpAll({}, '[0-9]', '#')", text(made, depth)),
        17 => format!("arrayStringConcat(arrayMap(x -> toString(x), {}), ',')", array(made, depth)),
        _ => format!("trim(concat(' ', {}, ' '))", text(made, depth)),
    }
}

pub fn time(made: &mut Made, depth: u64) -> String {
    if depth == 0 {
        return made.of(TIMES).to_owned();
    }
    let depth = depth - 1;
    match made.below(8) {
        0 => format!("addDays({}, {})", time(made, depth), made.below(40)),
        1 => format!("subtractHours({}, {})", time(made, depth), made.below(60)),
        2 => format!("addMonths({}, {})", time(made, depth), made.below(5)),
        3 => format!("addMinutes({}, {})", time(made, depth), natural(made, 0) + " % 500"),
        4 => format!("toStartOfDay({})", time(made, depth)),
        5 => format!("subtractWeeks({}, {})", time(made, depth), made.below(3)),
        6 => format!("({} + toIntervalDay({}))", time(made, depth), made.below(9)),
        _ => format!("dateTrunc('day', {})", time(made, depth)),
    }
}

pub fn date(made: &mut Made, depth: u64) -> String {
    if depth == 0 {
        return made.of(DATES).to_owned();
    }
    let depth = depth - 1;
    match made.below(5) {
        0 => format!("addDays({}, {})", date(made, depth), made.below(60)),
        1 => format!("subtractMonths({}, {})", date(made, depth), made.below(5)),
        2 => format!("toDate({})", time(made, depth)),
        3 => format!("toStartOfMonth({})", time(made, depth)),
        _ => format!("toMonday({})", date(made, depth)),
    }
}

pub fn array(made: &mut Made, depth: u64) -> String {
    if depth == 0 {
        return match made.below(4) {
            0 => format!("[{}, {}]", made.of(NATURALS), made.of(NATURALS)),
            1 => format!("range(toHour(timestamp) % {})", 1 + made.below(6)),
            2 => format!("range(1, {})", 2 + made.below(5)),
            _ => format!("[{}, 3, 1, 3]", made.of(NATURALS)),
        };
    }
    let depth = depth - 1;
    match made.below(12) {
        0 => format!("arrayMap(x -> x + {}, {})", natural(made, depth), array(made, depth)),
        1 => format!("arrayFilter(x -> x % 2 = {}, {})", made.below(2), array(made, depth)),
        2 => format!("arraySort({})", array(made, depth)),
        3 => format!("arrayReverse({})", array(made, depth)),
        4 => format!("arrayDistinct({})", array(made, depth)),
        5 => format!("arrayConcat({}, {})", array(made, depth), array(made, depth)),
        6 => format!("arraySlice({}, {}, 2)", array(made, depth), 1 + made.below(3)),
        7 => format!("arrayPushBack({}, {})", array(made, depth), natural(made, depth)),
        8 => format!("arrayCumSum({})", array(made, depth)),
        9 => format!("arraySort(x -> x % {}, {})", 2 + made.below(4), array(made, 0)),
        10 => format!("arrayMap((x, i) -> x * i, {0}, arrayEnumerate({0}))", array(made, 0)),
        _ => format!("if({}, {}, {})", truth(made, depth), array(made, depth), array(made, depth)),
    }
}

/// Never null.
pub fn truth(made: &mut Made, depth: u64) -> String {
    let depth = depth.saturating_sub(1);
    match made.below(20) {
        0 => format!("({} > {})", natural(made, depth), natural(made, depth)),
        1 => format!("({} % 7 in (1, 3, 5))", natural(made, depth)),
        2 => format!("({} <= {})", float(made, depth), float(made, depth)),
        3 => format!("({} = {})", text(made, depth), text(made, depth)),
        4 => format!("({} like '%a%')", text(made, depth)),
        5 => format!("match({}, '^[a-p]')", text(made, depth)),
        6 => format!("({} and {})", truth(made, depth), truth(made, depth)),
        7 => format!("({} or {})", truth(made, depth), truth(made, depth)),
        8 => format!("(not {})", truth(made, depth)),
        9 => format!("has({}, {})", array(made, depth), made.below(9)),
        10 => format!("arrayExists(x -> x > {}, {})", made.below(20), array(made, depth)),
        11 => format!("({} < {})", time(made, depth), time(made, depth)),
        12 => format!("({} >= toDate('2024-03-20'))", date(made, depth)),
        13 => format!("startsWith({}, 'p')", text(made, depth)),
        14 => "(properties.browser is null)".to_owned(),
        15 => "ifNull(properties.browser = 'Chrome', 0)".to_owned(),
        16 => format!("ifNull(properties.amount > {}, 0)", made.below(9)),
        17 => "(event in ('a', 'c'))".to_owned(),
        18 => format!("({} between {} and 900)", natural(made, depth), made.below(9)),
        _ => "empty($group_0)".to_owned(),
    }
}
