//! Resolving: plans in their printed form, and errors with their positions.

use std::collections::{BTreeMap, HashMap};

use hogql::plan::Plan;
use hogql::{
    ActionSchema, Filters, PlaceholderValues, Project, has_aggregate, parse, parse_expr, resolve,
};
use model::definition::{PropertyOwner, PropertyType};
use model::{ActionId, CohortId, ProjectId, Timestamp};

fn action() -> ActionSchema {
    let condition = hogql::parse_expr("event = 'paid' and properties.amount > 5").expect("valid");
    ActionSchema { name: "large order".to_owned(), condition }
}

pub(crate) fn project() -> Project {
    let property = |owner, name: &str, kind| ((owner, name.to_owned()), kind);
    Project {
        id: ProjectId(7),
        zone: "Europe/Berlin".to_owned(),
        groups: BTreeMap::from([("company".to_owned(), 0), ("event".to_owned(), 1)]),
        properties: HashMap::from([
            property(PropertyOwner::Event, "amount", PropertyType::Numeric),
            property(PropertyOwner::Event, "paid", PropertyType::Boolean),
            property(PropertyOwner::Event, "due", PropertyType::DateTime),
            property(PropertyOwner::Person, "age", PropertyType::Numeric),
            property(PropertyOwner::Group(0), "seats", PropertyType::Numeric),
        ]),
        cohorts: BTreeMap::from([(CohortId(5), "beta users".to_owned())]),
        actions: BTreeMap::from([(ActionId(1), action())]),
        objects: BTreeMap::new(),
    }
}

fn plan(text: &str) -> hogql::Result<Plan> {
    hogql::plan(text, &PlaceholderValues::default(), &project(), None)
}

fn check(cases: &[(&str, &str)]) {
    for (text, printed) in cases {
        let plan = plan(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(plan.to_string(), *printed, "{text}");
    }
}

/// The type and expression of the only column.
fn check_exprs(from: &str, cases: &[(&str, &str)]) {
    for (expr, printed) in cases {
        let text = format!("select {expr} as x{from}");
        let plan = plan(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let whole = plan.to_string();
        let step = whole.split(" | ").find(|step| step.starts_with("x "));
        assert_eq!(step.unwrap_or(&whole), format!("x {printed}"), "{text}");
    }
}

#[test]
fn every_table_scan_is_bound_to_the_project() {
    check(&[
        ("select event from events", "events@7 | event String = #0.event | page 100"),
        (
            "select count() from events where team_id = 8",
            "events@7 | where (#0.team_id = 8) | group [] [count()] | count() UInt64 = agg0 \
             | page 100",
        ),
        (
            "select e.event from events e left join persons p on e.person_id = p.id",
            "events@7 Left persons@7 on (#0.person_id = #1.id) | event String = #0.event \
             | page 100",
        ),
        (
            "select 1 where 1 in (select index from groups union all select 2)",
            "where (1 in ((groups@7 | index Int64 = #0.index) UnionAll (2 UInt8 = 2))) \
             | 1 UInt8 = 1 | page 100",
        ),
        (
            "with t as (select key from groups) select count() from t, t as u",
            "cte0 = (groups@7 | key String = #0.key); cte0 Cross cte0 | group [] [count()] \
             | count() UInt64 = agg0 | page 100",
        ),
        (
            "select * from cohort_people",
            "cohort_people@7 | person_id UUID = #0.person_id, cohort_id Int64 = #0.cohort_id \
             | page 100",
        ),
    ]);
}

#[test]
fn the_outermost_limit_is_the_page() {
    check(&[
        ("select 1", "1 UInt8 = 1 | page 100"),
        ("select 1 limit 120", "1 UInt8 = 1 | page 120!"),
        ("select 1 limit 60000 offset 5", "1 UInt8 = 1 | page 50000+5!"),
        (
            "select x from (select 1 as x limit 3 offset 1)",
            "(x UInt8 = 1 | limit 3+1) | x UInt8 = #0[0] | page 100",
        ),
        (
            "select event from events limit 2 by person_id limit 9",
            "events@7 | event String = #0.event | limit 2+0 by #0.person_id | page 9!",
        ),
    ]);
}

#[test]
fn clauses_resolve_to_steps_of_the_plan() {
    check(&[
        (
            "with 2 as n select number from numbers(3, 2 + 4) order by number limit n * 2 with ties",
            "numbers 3+6 | number UInt64 = #0[0] | order #0[0] | limit 4+0 with ties | page 50000!",
        ),
        (
            "select event, row_number() over () as n from events qualify n < 3",
            "events@7 | window row_number() over [] [] | event String = #0.event, n UInt64 = win0 \
             | qualify (win0 < 3) | page 100",
        ),
        (
            "select (count() as c) * 2, c from events",
            "events@7 | group [] [count()] | (count() AS c) * 2 UInt64 = multiply(agg0, 2), \
             c UInt64 = agg0 | page 100",
        ),
        (
            "select event, count() from events group by rollup(event)",
            "events@7 | unnest array(0, 1) | group [assumeNotNull(if((element0.0 in [0]), #0.event, \
             null)), element0.0] [count()] | event String = key0, count() UInt64 = agg0 | page 100",
        ),
        (
            "select event, count() as c, c + 1 as d from events group by all",
            "events@7 | group [#0.event] [count()] | event String = key0, c UInt64 = agg0, \
             d UInt64 = plus(agg0, 1) | page 100",
        ),
        (
            "with t(a) as (select 1) select * from t semi join t u on t.a = u.a",
            "cte0 = (a UInt8 = 1); cte0 Semi Left cte0 on (#0[0] = #1[0]) | a UInt8 = #0[0], \
             a UInt8 = #1[0] | page 100",
        ),
        (
            "select * exclude (a) replace (b + 1 as b) from (select 1 as a, 2 as b, 3) as t(a, b, c) \
             order by 2",
            "(a UInt8 = 1, b UInt8 = 2, 3 UInt8 = 3) | b UInt16 = plus(#0[1], 1), c UInt8 = #0[2] \
             | order #0[2] | page 100",
        ),
        (
            "select is_deleted from raw_persons union select 1",
            "(persons@7 | is_deleted UInt8 = 0) UnionDistinct (1 UInt8 = 1) | page 100",
        ),
    ]);
}

#[test]
fn date_bounds_are_times_or_make_their_comparison_true() {
    let text = "select count() from events where timestamp >= toDateTime({filters.dateRange.from}) \
                and timestamp < {filters.dateRange.to} and event = 'a'";
    let from = Timestamp::from_micros(5_000_000);
    let filters = Filters { from: Some(from), ..Filters::default() };
    let plan = |filters: Option<&Filters>| {
        hogql::plan(text, &PlaceholderValues::default(), &project(), filters).unwrap().to_string()
    };
    let with_from = plan(Some(&filters));
    assert!(
        with_from.contains("where ((#0.timestamp >= toDateTime(@5000000)) and true and (#0.event"),
        "{with_from}"
    );
    assert!(plan(None).contains("where (true and true and (#0.event"), "{}", plan(None));
    let bare = "select {filters.dateRange.to} from events";
    let error = hogql::plan(bare, &PlaceholderValues::default(), &project(), None).unwrap_err();
    assert!(error.to_string().contains("no such bound"), "{error}");
}

#[test]
fn fields_resolve_through_lazy_joins_and_into_properties() {
    check_exprs(
        " from events",
        &[
            ("properties", "String = #0.properties"),
            ("properties.$browser", "Nullable(String) = #0.properties->$browser"),
            ("properties['$feature/a b']", "Nullable(String) = #0.properties->$feature/a b"),
            ("properties.cart.items.1.id", "Nullable(String) = #0.properties->cart->items->1->id"),
            ("properties.items[2]", "Nullable(String) = #0.properties->items->2"),
            ("properties.amount", "Nullable(Float64) = #0.properties->amount:Nullable(Float64)"),
            ("properties.amount.x", "Nullable(String) = #0.properties->amount->x"),
            (
                "nullIf(JSONExtractString(properties, 'amount'), '')",
                "Nullable(String) = #0.properties->amount",
            ),
            (
                "nullIf(JSONType(person.properties, 'age'), 'Null')",
                "Nullable(String) = #0.person.properties->age->type()",
            ),
            ("properties.paid", "Nullable(Bool) = #0.properties->paid:Nullable(Bool)"),
            (
                "events.person.properties.age",
                "Nullable(Float64) = #0.person.properties->age:Nullable(Float64)",
            ),
            ("person.id", "UUID = #0.person.id"),
            ("poe.properties.email", "Nullable(String) = #0.person.properties->email"),
            ("pdi.person.properties.x", "Nullable(String) = #0.pdi.person.properties->x"),
            ("session.$session_duration", "Nullable(UInt64) = #0.session.$session_duration"),
            (
                "company.properties.seats",
                "Nullable(Float64) = #0.group_0.properties->seats:Nullable(Float64)",
            ),
            ("group_3.key", "Nullable(String) = #0.group_3.key"),
            ("$group_1", "String = #0.$group_1"),
            ("timestamp", "DateTime64(6, 'project') = #0.timestamp"),
        ],
    );
    check_exprs(
        " from (select properties from events) as t",
        &[("t.properties.amount", "Nullable(Float64) = #0[0]->amount:Nullable(Float64)")],
    );
    check_exprs(" from persons", &[("pdi.distinct_id", "String = #0.pdi.distinct_id")]);
    check_exprs(" from sessions", &[("$is_bounce", "Bool = #0.$is_bounce")]);
    check_exprs(" from numbers(3)", &[("number + 1", "UInt64 = plus(#0[0], 1)")]);
}

#[test]
fn comparisons_cast_implicitly_and_handle_nulls() {
    check_exprs(
        " from events",
        &[
            ("properties.a = null", "UInt8 = (#0.properties->a is null)"),
            ("properties.a != 'x'", "UInt8 = (#0.properties->a != \"x\")"),
            (
                "properties.a not in ('x', 3)",
                "UInt8 = (#0.properties->a not in [\"x\", cast(3, String)])",
            ),
            ("properties.a > 3", "UInt8 = (try(#0.properties->a, Nullable(Float64)) > 3)"),
            ("properties.a = true", "UInt8 = (#0.properties->a = cast(true, String))"),
            (
                "properties.paid = 'true'",
                "UInt8 = (#0.properties->paid:Nullable(Bool) = try(\"true\", Nullable(Bool)))",
            ),
            (
                "timestamp > '2024-01-01'",
                "UInt8 = (#0.timestamp > cast(\"2024-01-01\", DateTime64(6, 'project')))",
            ),
            ("person_id = 'x'", "UInt8 = (#0.person_id = try(\"x\", Nullable(UUID)))"),
            ("event not like 'a%'", "UInt8 = (#0.event not like \"a%\")"),
            ("event =~* 'a'", "UInt8 = (#0.event =~* \"a\")"),
            ("person_id in cohort 5", "UInt8 = (#0.person_id in cohort 5)"),
            ("person_id not in cohort 'beta users'", "UInt8 = (#0.person_id not in cohort 5)"),
            ("not properties.paid", "Nullable(Bool) = not #0.properties->paid:Nullable(Bool)"),
            ("event between 'a' and 'b'", "UInt8 = ((#0.event >= \"a\") and (#0.event <= \"b\"))"),
            ("1 = 2 or event = 'x'", "UInt8 = ((1 = 2) or (#0.event = \"x\"))"),
        ],
    );
}

#[test]
fn expressions_have_clickhouse_types() {
    check_exprs(
        "",
        &[
            ("1", "UInt8 = 1"),
            ("1000", "UInt16 = 1000"),
            ("-1", "Int8 = -1"),
            ("1 + 1", "UInt16 = plus(1, 1)"),
            ("1 - 2", "Int16 = minus(1, 2)"),
            ("1 / 2", "Float64 = divide(1, 2)"),
            ("'a' || 1", "String = concat(\"a\", 1)"),
            ("'a' + 'b'", "String = concat(\"a\", \"b\")"),
            ("null ?? 3", "UInt8 = ifNull(null, 3)"),
            ("[1, -2]", "Array(Int16) = array(1, -2)"),
            ("[1, null]", "Array(Nullable(UInt8)) = array(1, null)"),
            ("[1, 2][1]", "UInt8 = arrayElement(array(1, 2), 1)"),
            ("(1, 'a').2", "String = tupleElement(tuple(1, \"a\"), 2)"),
            ("1 = 1 ? 'a' : null", "Nullable(String) = if((1 = 1), \"a\", null)"),
            ("case 1 when 2 then 'a' end", "Nullable(String) = multiIf((1 = 2), \"a\", null)"),
            ("'3'::Nullable(Float64)", "Nullable(Float64) = cast(\"3\", Nullable(Float64))"),
            (
                "toDateTime('2024-01-01', 'UTC')",
                "Nullable(DateTime('UTC')) = toDateTime(\"2024-01-01\", \"UTC\")",
            ),
            ("toDateTime64(now(), 3)", "DateTime64(3, 'project') = toDateTime64(now(), 3)"),
            ("now() - interval 7 day", "DateTime = minus(now(), interval(7, day))"),
            ("today() + interval 1 hour", "DateTime = plus(today(), interval(1, hour))"),
            (
                "dateDiff('day', toDateTime('2024-01-01'), now())",
                "Nullable(Int64) = dateDiff(\"day\", toDateTime(\"2024-01-01\"), now())",
            ),
            ("dateAdd(hour, 1, today())", "DateTime = dateAdd(\"hour\", 1, today())"),
            ("dateTrunc('month', now())", "Date = dateTrunc(\"month\", now())"),
            ("true and not false", "Bool = (true and not false)"),
            ("dateAdd(day, 1, now())", "DateTime = dateAdd(\"day\", 1, now())"),
            (
                "toStartOfMonth('2024-01-05')",
                "Date = toStartOfMonth(cast(\"2024-01-05\", DateTime64(6, 'project')))",
            ),
            (
                "JSONExtract('{}', 'a', 'Array(Int64)')",
                "Array(Int64) = JSONExtract(\"{}\", \"a\", \"Array(Int64)\")",
            ),
            ("map('a', 1)['a']", "UInt8 = arrayElement(map(\"a\", 1), \"a\")"),
            (
                "arrayMap(x -> x * 2, [1, 2])",
                "Array(UInt16) = arrayMap((p0 => multiply(p0, 2)), array(1, 2))",
            ),
            (
                "arrayFilter((x, y) -> y > 1, ['a'], [2])",
                "Array(String) = arrayFilter((p0, p1 => (p1 > 1)), array(\"a\"), array(2))",
            ),
            ("arraySum([1, 2])", "UInt64 = arraySum(array(1, 2))"),
            ("arraySum(x -> -x, [1])", "Int64 = arraySum((p0 => negate(p0)), array(1))"),
            (
                "arrayMap(x -> arrayMap(y -> x + y, [1]), [2])",
                "Array(Array(UInt16)) = arrayMap((p0 => arrayMap((p1 => plus(p0, p1)), array(1))), array(2))",
            ),
            ("SUBSTRING('abc', 2)", "String = substring(\"abc\", 2)"),
            ("(select 1)", "Nullable(UInt8) = (1 UInt8 = 1)"),
            ("arrayConcat([], [1])", "Array(UInt8) = arrayConcat(array(), array(1))"),
            ("[]", "Array(Nothing) = array()"),
        ],
    );
}

#[test]
fn aggregates_windows_and_unnests_are_extracted_into_lists() {
    check(&[
        (
            "select event, count() as c from events group by event having c > 1 order by c desc",
            "events@7 | group [#0.event] [count()] | having (agg0 > 1) \
             | event String = key0, c UInt64 = agg0 | order agg0 desc | page 100",
        ),
        (
            "select toDate(timestamp) as timestamp, sumIf(properties.amount, event = 'a') + sum(1) \
             from events where timestamp > '2024-01-01' group by 1",
            "events@7 | where (toDate(#0.timestamp) > cast(\"2024-01-01\", DateTime64(6, 'project'))) \
             | group [toDate(#0.timestamp)] \
             [sum(#0.properties->amount:Nullable(Float64)) if (#0.event = \"a\"), sum(1)] \
             | timestamp Date = key0, sumIf(properties.amount, event = 'a') + sum(1) Nullable(Float64) = \
             plus(agg0, agg1) | page 100",
        ),
        (
            "select count(distinct person_id), countDistinctIf(event, 1), count(*) from events",
            "events@7 | group [] [count(distinct #0.person_id), uniqExact(#0.event) if 1, count()] \
             | count(DISTINCT person_id) UInt64 = agg0, countDistinctIf(event, 1) UInt64 = agg1, \
             count(*) UInt64 = agg2 | page 100",
        ),
        (
            "select quantile(0.5)(x) from (select arrayJoin([1,2,3,4]) as x)",
            "(unnest array(1, 2, 3, 4) | x UInt8 = element0.0) | group [] [quantile(0.5)(#0[0])] \
             | quantile(0.5)(x) Float64 = agg0 | page 100",
        ),
        (
            "select arrayJoin(groupArray(event)) as e, arrayJoin(['a']) as f from events group by f",
            "events@7 | unnest array(\"a\") | group [element0.0] [groupArray(#0.event)] \
             | unnest agg0 | e String = element1.0, f String = key0 | page 100",
        ),
        (
            "select x, y from events left array join elements_chain_ids as x, [1] as y",
            "events@7 | unnest #0.elements_chain_ids, array(1) or default \
             | x String = element0.0, y UInt8 = element0.1 | page 100",
        ),
        (
            "select row_number() over w, sum(count()) over (partition by event), lag(event) over w \
             from events group by event window w as (order by event desc rows 1 preceding)",
            "events@7 | group [#0.event] [count()] | window \
             row_number() over [] [key0 desc] Rows 1 PRECEDING to CURRENT ROW, \
             sum(agg0) over [key0] [], \
             lag(key0) over [] [key0 desc] Rows 1 PRECEDING to CURRENT ROW \
             | row_number() OVER w UInt64 = win0, \
             sum(count()) OVER (PARTITION BY event) UInt64 = win1, \
             lag(event) OVER w Nullable(String) = win2 | page 100",
        ),
        (
            "with 2 as two, two + 1 as three select three * number as n, n from numbers(4)",
            "numbers 4 | n UInt64 = multiply(plus(2, 1), #0[0]), \
             n UInt64 = multiply(plus(2, 1), #0[0]) | page 100",
        ),
        (
            "select 1 as x union all select -1 except select null",
            "(x UInt8 = 1) UnionAll (-1 Int8 = -1) Except (NULL Nullable(Nothing) = null) \
             | page 100",
        ),
        (
            "select min(event), minIf(event, 1), max($session_id) from events group by uuid",
            "events@7 | group [#0.uuid] [min(#0.event), min(#0.event) if 1, max(#0.$session_id)] \
             | min(event) String = agg0, minIf(event, 1) String = agg1, \
             max($session_id) Nullable(String) = agg2 | page 100",
        ),
        (
            "select arrayMap(x -> x || 'a', elements_chain_ids) as ids, count() from events \
             group by ids",
            "events@7 | group [arrayMap((p0 => concat(p0, \"a\")), #0.elements_chain_ids)] \
             [count()] | ids Array(String) = key0, count() UInt64 = agg0 | page 100",
        ),
        (
            "select key from groups g left join groups u using (key, index)",
            "groups@7 Left groups@7 on ((#0.key = #1.key) and (#0.index = #1.index)) \
             | key String = #0.key | page 100",
        ),
        (
            "select event as e, e.uuid from events e where (event, uuid) in (('a', uuid))",
            "events@7 | where (tuple(#0.event, #0.uuid) in [tuple(\"a\", #0.uuid)]) \
             | e String = #0.event, uuid UUID = #0.uuid | page 100",
        ),
        (
            "select u.key from groups g full join groups u using key",
            "groups@7 Full groups@7 on (#0.key = #1.key) | key Nullable(String) = #1.key \
             | page 100",
        ),
    ]);
}

// contract: query 10, 11, 13
#[test]
fn semantic_errors_have_positions() {
    let mut wrong = Vec::new();
    for (text, message, byte) in [
        ("select * from nope", "Unknown table 'nope'", 14),
        ("select 1 from event", "Unknown table 'event'. Did you mean 'events'?", 14),
        ("select 1 from file('/etc/passwd')", "Unknown table function 'file'", 14),
        ("select nope from events", "Unknown field 'nope'", 7),
        ("select timestmap from events", "Did you mean 'timestamp'?", 7),
        ("select e.evnt from events e", "Did you mean 'event'?", 9),
        ("select person.nme from events", "Unknown field 'nme'", 14),
        ("select Event from events", "Unknown field 'Event'. Did you mean 'event'?", 7),
        ("select 1 + frobnicate(1)", "Unsupported function call 'frobnicate(...)'", 11),
        ("select toStrin(1)", "Did you mean 'toString'?", 7),
        ("select person from events", "'person' is a table", 7),
        ("select event.x from events", "String has no member 'x'", 13),
        ("select properties.a[0] from events", "counted from 1", 20),
        ("select properties.items.0 from events", "counted from 1", 7),
        ("select (1, 2).3", "The tuple has 2 elements", 7),
        ("select lower(1)", "Expected a text, found UInt8", 13),
        ("select lower('a', 'b')", "lower takes 1 argument(s), found 2", 7),
        ("select substring('a')", "substring takes 2 to 3 argument(s), found 1", 7),
        ("select 'a' - 1", "Expected a number, found String", 7),
        ("select 1 = 'a'", "UInt8 cannot be compared with String", 7),
        ("select 1 where 'a'", "Expected a condition, found String", 15),
        ("select [1, 'a']", "array cannot take UInt8 and String together", 7),
        ("select x -> 1", "A lambda can only be", 7),
        ("select arrayMap(1, [1])", "takes a lambda first", 7),
        ("select arrayMap((x, y) -> 1, [1])", "takes 2 parameter(s) for 1 array(s)", 16),
        ("select arrayMap(x -> sum(x), [1])", "Unknown field 'x'", 25),
        ("select x from (select arrayMap(x -> x, [1]) as y)", "Unknown field 'x'", 7),
        ("select 1 from events where count() > 1", "rows are not grouped yet", 27),
        ("select sum(count()) from events", "cannot stand inside an aggregate", 11),
        ("select event, count() from events", "'event' must be in GROUP BY", 7),
        ("select rank()", "rank needs OVER", 7),
        ("select lower('a') over ()", "lower takes no OVER", 7),
        ("select lower(distinct 'a')", "lower takes no DISTINCT", 7),
        ("select sum(1) over w", "Unknown window 'w'", 19),
        (
            "select sum(1) over (order by 1 rows between 1 following and 1 preceding)",
            "ends before",
            29,
        ),
        ("select quantile(2)(1)", "between 0 and 1", 16),
        ("select topK(1)", "topK takes 1 to 1 parameter(s)", 7),
        ("select sum(1)(2)", "takes no parameters", 7),
        ("select event as team_id from events", "'team_id' cannot be an alias", 16),
        ("with 8 as team_id select 1 from events", "'team_id' cannot be an alias", 10),
        ("select 1 as a, 2 as a", "Two columns have the alias 'a'", 20),
        ("select 1 from events, events", "Two tables are named 'events'", 22),
        ("select event from events a, events b", "'event' is in more than one table", 7),
        ("select 1 limit -1", "LIMIT takes a whole number", 15),
        ("select number from numbers(3) limit number", "LIMIT takes a whole number", 36),
        ("with n as n select 1 limit n", "LIMIT takes a whole number", 27),
        ("select 1 limit 1 with ties", "WITH TIES needs ORDER BY", 0),
        ("select 1 from numbers(18446744073709551615, 2)", "past the largest number", 14),
        ("select count() as a, (1 as a)", "Two expressions have the alias 'a'", 27),
        ("select * exclude (b) from (select 1 as a)", "Unknown field 'b'", 18),
        ("select columns('[') from events", "valid regular expression", 7),
        ("select columns('zzz') from events", "selects no column", 7),
        ("with t(a, b) as (select 1) select 1 from t", "2 names for 1 columns", 7),
        ("select 1 from events as e(a)", "Only the columns of a subquery", 26),
        ("select * from events group by all", "GROUP BY ALL needs columns", 7),
        ("select 1 from system.tables", "Unknown table 'system.tables'", 14),
        ("select 1 order by 2", "There is no column 2", 18),
        ("select 1 having 1", "HAVING needs GROUP BY", 16),
        ("select *", "'*' needs a table", 7),
        ("select t.* from events", "Unknown table 't'", 7),
        ("select 1 union all select 1, 2", "equally many columns: 1 and 2", 19),
        ("select 1 union all select 'a'", "cannot be both UInt8 and String", 19),
        ("select 1 in (select 1, 2)", "needs 1 column(s)", 12),
        ("select (select 1, 2)", "has one column", 7),
        ("select 1 from events where person_id in cohort 6", "Unknown cohort '6'", 47),
        (
            "select 1 from events where person_id in cohort 'beta user'",
            "Did you mean 'beta users'?",
            47,
        ),
        ("select now('Mars/Olympus')", "Unknown time zone", 11),
        ("select dateDiff('eon', now(), now())", "Expected a unit of time", 16),
        ("select 1::Strang", "Unknown type 'Strang'", 10),
        (
            "select event from events where uuid in (select p.uuid from persons p)",
            "Unknown field 'uuid'",
            49,
        ),
        ("select (select event) from events", "Unknown field 'event'", 15),
        ("select a + 1 as b, b + 1 as a", "Unknown field 'b' (at", 19),
        ("select [1]::Float64", "Array(UInt8) cannot be cast to Float64", 7),
        ("select 1 from events where event in cohort 5", "the id of a person", 27),
        ("select 'a' in (select 1)", "String cannot be in a list of UInt8", 14),
        ("select has(['a'], 1)", "has cannot take Array(String) and UInt8", 7),
        ("select 1 from events a join events b on arrayJoin([1])", "a window or a join", 40),
        ("select 1 from events array join arrayJoin([[1]]) as x", "a window or a join", 32),
        ("select 1 having arrayJoin(groupArray(1)) = 1", "come after HAVING", 16),
        ("select 1 from events where row_number() over () = 1", "rows are not grouped yet", 27),
    ] {
        let error = plan(text).expect_err(text);
        let as_expected =
            error.to_string().contains(message) && error.at.map(|at| at.byte) == Some(byte);
        if !as_expected {
            wrong.push(format!("{text}: {error}, {:?}", error.at));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn filters_placeholder_binds_to_the_time_column_of_the_first_table() {
    let condition = parse_expr("properties.$browser = 'Chrome'").unwrap();
    let filters = Filters {
        from: Some(Timestamp::from_micros(10)),
        to: Some(Timestamp::from_micros(20)),
        condition: Some(condition),
    };
    let plan = |text: &str, filters: Option<&Filters>| {
        resolve(&parse(text).unwrap(), text, &project(), filters).map(|plan| plan.to_string())
    };
    let text = "select count() from events as e, persons as p where {filters} and 1";
    assert_eq!(
        plan(text, Some(&filters)).unwrap(),
        "events@7 Cross persons@7 | where (((#0.timestamp >= @10) and (#0.timestamp <= @20) and \
         (#0.properties->$browser = \"Chrome\")) and 1) | group [] [count()] \
         | count() UInt64 = agg0 | page 100"
    );
    let range = Filters { condition: None, ..filters.clone() };
    for (table, time) in
        [("sessions", "$start_timestamp"), ("persons", "created_at"), ("groups", "created_at")]
    {
        let text = format!("select count() from {table} where {{filters}}");
        let printed = plan(&text, Some(&range)).unwrap();
        assert!(printed.contains(&format!("(#0.{time} >= @10)")), "{printed}");
    }
    let printed = plan("select 1 from numbers(2) where {filters}", None).unwrap();
    assert!(printed.contains("where true"), "{printed}");
    for text in [
        "select 1 from numbers(2) where {filters}",
        "select 1 from cohort_people where {filters}",
        "select 1 where {filters}",
        "with events as (select 1) select 1 from events where {filters}",
    ] {
        let error = plan(text, Some(&filters)).expect_err(text);
        assert_eq!(error.at.map(|at| at.byte), text.find("{filters}"), "{text}: {error}");
    }
    // `persons` have no `$browser`, yet any name is a property; an unknown field is not.
    let unknown = Filters { condition: Some(parse_expr("nope = 1").unwrap()), ..filters };
    let text = "select 1 from events where {filters}";
    let error = plan(text, Some(&unknown)).expect_err(text);
    assert_eq!(error.at.map(|at| at.byte), Some(27), "{error}");
}

#[test]
fn has_aggregate_detects_aggregates_in_syntax_trees() {
    for (text, aggregates) in [
        ("count() > 2", true),
        ("event = 'a' and sumIf(1, 2) > 3", true),
        ("arrayMap(x -> x, groupArray(event))", true),
        ("event = 'a'", false),
        ("sum(1) over ()", false),
        ("sum(count()) over ()", true),
        ("1 in (select count() from events)", false),
        ("nope(1)", false),
    ] {
        assert_eq!(has_aggregate(&parse_expr(text).unwrap()), aggregates, "{text}");
    }
}

#[test]
fn type_names_contain_the_project_time_zone() {
    let plan = plan("select timestamp, properties.due, toDate(timestamp) from events").unwrap();
    let names: Vec<String> =
        plan.root.columns.iter().map(|column| column.ty.name(&plan.zone)).collect();
    let moment = "DateTime64(6, 'Europe/Berlin')";
    assert_eq!(names, [moment.to_owned(), format!("Nullable({moment})"), "Date".to_owned()]);
}
