//! Generates expressions of a given type from a seed.

use testing::Rng;

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
    // In HogQL a parsed time is nullable.
    "assumeNotNull(toDateTime('2024-03-31 01:30:00'))",
    "assumeNotNull(toDateTime('2024-03-10 12:00:00', 'UTC'))",
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

pub fn natural(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 {
        return rng.pick(NATURALS).to_owned();
    }
    let depth = depth - 1;
    match rng.range(0..17) {
        0 => format!("({} + {})", natural(rng, depth), natural(rng, depth)),
        1 => format!("({} % 100 * {})", natural(rng, depth), rng.range(1..=9)),
        2 => format!("intDiv({}, {})", natural(rng, depth), rng.range(1..=9)),
        3 => format!("({} % {})", natural(rng, depth), rng.range(1..=9)),
        4 => format!("greatest({}, {})", natural(rng, depth), natural(rng, depth)),
        5 => format!("least({}, {})", natural(rng, depth), natural(rng, depth)),
        6 => {
            format!("if({}, {}, {})", boolean(rng, depth), natural(rng, depth), natural(rng, depth))
        }
        7 => format!("length({})", text(rng, depth)),
        8 => {
            format!("position({}, {})", text(rng, depth), rng.pick(&["'a'", "'-'", "'o'", "event"]))
        }
        9 => format!("length({})", array(rng, depth)),
        10 => format!("arraySum({})", array(rng, depth)),
        11 => format!("arrayCount(x -> x > {}, {})", rng.range(0..9), array(rng, depth)),
        12 => format!("indexOf({}, {})", array(rng, depth), rng.range(0..9)),
        13 => format!("toHour(toTimeZone({}, '{}'))", time(rng, depth), rng.pick(ZONES)),
        14 => format!("toUnixTimestamp({})", time(rng, depth)),
        15 => format!("toDayOfYear({})", date(rng, depth)),
        _ => format!(
            "multiIf({}, {}, {}, {}, {})",
            boolean(rng, depth),
            natural(rng, depth),
            boolean(rng, depth),
            natural(rng, depth),
            rng.range(0..50)
        ),
    }
}

pub fn float(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 {
        return rng.pick(FLOATS).to_owned();
    }
    let depth = depth - 1;
    match rng.range(0..12) {
        0 => format!("({} + {})", float(rng, depth), float(rng, depth)),
        1 => format!("({} - {})", float(rng, depth), natural(rng, depth)),
        2 => format!("({} * {})", float(rng, depth), float(rng, depth)),
        3 => format!("({} / {})", float(rng, depth), rng.range(1..=9)),
        4 => format!("abs({})", float(rng, depth)),
        5 => format!("round({}, {})", float(rng, depth), rng.range(0..3)),
        6 => format!("floor({})", float(rng, depth)),
        7 => format!("ceil({})", float(rng, depth)),
        8 => format!("sqrt(abs({}))", float(rng, depth)),
        9 => format!("if({}, {}, {})", boolean(rng, depth), float(rng, depth), float(rng, depth)),
        10 => format!("arrayAvg(arrayPushBack({}, {}))", array(rng, depth), rng.range(0..9)),
        _ => format!("greatest({}, {})", float(rng, depth), float(rng, depth)),
    }
}

pub fn text(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 {
        return rng.pick(TEXTS).to_owned();
    }
    let depth = depth - 1;
    match rng.range(0..19) {
        0 => format!("upper({})", text(rng, depth)),
        1 => format!("lower({})", text(rng, depth)),
        2 => format!("concat({}, '-', {})", text(rng, depth), text(rng, depth)),
        3 => format!("substring({}, {}, {})", text(rng, depth), rng.range(1..=4), rng.range(0..6)),
        4 => format!("replaceAll({}, 'a', 'xy')", text(rng, depth)),
        5 => format!("reverse({})", text(rng, depth)),
        6 => format!("left({}, {})", text(rng, depth), rng.range(0..5)),
        7 => format!("right({}, {})", text(rng, depth), rng.range(0..5)),
        8 => format!("if({}, {}, {})", boolean(rng, depth), text(rng, depth), text(rng, depth)),
        9 => format!("leftPad({}, 6, '*')", text(rng, depth)),
        10 => format!("splitByChar('-', {})[1]", text(rng, depth)),
        11 => format!("toString({})", natural(rng, depth)),
        12 => format!("toString({})", date(rng, depth)),
        13 => format!("formatDateTime({}, '%Y %m %d %H')", time(rng, depth)),
        14 => format!("arrayStringConcat(splitByChar('-', {}), '+')", text(rng, depth)),
        15 => format!("extract({}, '[a-z]+')", text(rng, depth)),
        16 => format!("replaceRegexpAll({}, '[0-9]', '#')", text(rng, depth)),
        17 => format!("arrayStringConcat(arrayMap(x -> toString(x), {}), ',')", array(rng, depth)),
        _ => format!("trim(concat(' ', {}, ' '))", text(rng, depth)),
    }
}

pub fn time(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 {
        return rng.pick(TIMES).to_owned();
    }
    let depth = depth - 1;
    match rng.range(0..8) {
        0 => format!("addDays({}, {})", time(rng, depth), rng.range(0..40)),
        1 => format!("subtractHours({}, {})", time(rng, depth), rng.range(0..60)),
        2 => format!("addMonths({}, {})", time(rng, depth), rng.range(0..5)),
        3 => format!("addMinutes({}, {})", time(rng, depth), natural(rng, 0) + " % 500"),
        4 => format!("toStartOfDay({})", time(rng, depth)),
        5 => format!("subtractWeeks({}, {})", time(rng, depth), rng.range(0..3)),
        6 => format!("({} + toIntervalDay({}))", time(rng, depth), rng.range(0..9)),
        _ => format!("dateTrunc('day', {})", time(rng, depth)),
    }
}

pub fn date(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 {
        return rng.pick(DATES).to_owned();
    }
    let depth = depth - 1;
    match rng.range(0..5) {
        0 => format!("addDays({}, {})", date(rng, depth), rng.range(0..60)),
        1 => format!("subtractMonths({}, {})", date(rng, depth), rng.range(0..5)),
        2 => format!("toDate({})", time(rng, depth)),
        3 => format!("toStartOfMonth({})", time(rng, depth)),
        _ => format!("toMonday({})", date(rng, depth)),
    }
}

pub fn array(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 {
        return match rng.range(0..4) {
            0 => format!("[{}, {}]", rng.pick(NATURALS), rng.pick(NATURALS)),
            1 => format!("range(toHour(timestamp) % {})", rng.range(1..=6)),
            2 => format!("range(1, {})", 2 + rng.range(0..5)),
            _ => format!("[{}, 3, 1, 3]", rng.pick(NATURALS)),
        };
    }
    let depth = depth - 1;
    match rng.range(0..12) {
        0 => format!("arrayMap(x -> x + {}, {})", natural(rng, depth), array(rng, depth)),
        1 => format!("arrayFilter(x -> x % 2 = {}, {})", rng.range(0..2), array(rng, depth)),
        2 => format!("arraySort({})", array(rng, depth)),
        3 => format!("arrayReverse({})", array(rng, depth)),
        4 => format!("arrayDistinct({})", array(rng, depth)),
        5 => format!("arrayConcat({}, {})", array(rng, depth), array(rng, depth)),
        6 => format!("arraySlice({}, {}, 2)", array(rng, depth), rng.range(1..=3)),
        7 => format!("arrayPushBack({}, {})", array(rng, depth), natural(rng, depth)),
        8 => format!("arrayCumSum({})", array(rng, depth)),
        9 => format!("arraySort(x -> x % {}, {})", 2 + rng.range(0..4), array(rng, 0)),
        10 => format!("arrayMap((x, i) -> x * i, {0}, arrayEnumerate({0}))", array(rng, 0)),
        _ => format!("if({}, {}, {})", boolean(rng, depth), array(rng, depth), array(rng, depth)),
    }
}

/// Never null.
pub fn boolean(rng: &mut Rng, depth: u64) -> String {
    let depth = depth.saturating_sub(1);
    match rng.range(0..20) {
        0 => format!("({} > {})", natural(rng, depth), natural(rng, depth)),
        1 => format!("({} % 7 in (1, 3, 5))", natural(rng, depth)),
        2 => format!("({} <= {})", float(rng, depth), float(rng, depth)),
        3 => format!("({} = {})", text(rng, depth), text(rng, depth)),
        4 => format!("({} like '%a%')", text(rng, depth)),
        5 => format!("match({}, '^[a-p]')", text(rng, depth)),
        6 => format!("({} and {})", boolean(rng, depth), boolean(rng, depth)),
        7 => format!("({} or {})", boolean(rng, depth), boolean(rng, depth)),
        8 => format!("(not {})", boolean(rng, depth)),
        9 => format!("has({}, {})", array(rng, depth), rng.range(0..9)),
        10 => format!("arrayExists(x -> x > {}, {})", rng.range(0..20), array(rng, depth)),
        11 => format!("({} < {})", time(rng, depth), time(rng, depth)),
        12 => format!("({} >= toDate('2024-03-20'))", date(rng, depth)),
        13 => format!("startsWith({}, 'p')", text(rng, depth)),
        14 => "(properties.browser is null)".to_owned(),
        15 => "ifNull(properties.browser = 'Chrome', 0)".to_owned(),
        16 => format!("ifNull(properties.amount > {}, 0)", rng.range(0..9)),
        17 => "(event in ('a', 'c'))".to_owned(),
        18 => format!("({} between {} and 900)", natural(rng, depth), rng.range(0..9)),
        _ => "empty($group_0)".to_owned(),
    }
}
