//! Cases of the contract (query, section 11) that concern SQL.

use hogql::types::Kind;
use hogql::{Filters, PlaceholderValues};
use model::ProjectId;
use model::definition::PropertyType;
use serde_json::json;

use crate::support::{LIMITS, PROJECT, Store, f1, time};

// contract: query 4
#[test]
fn select_without_from_returns_one_row() {
    let result = f1().run("select 1").unwrap();
    assert_eq!(result.rows, [[json!(1)]]);
    assert_eq!(result.columns, ["1"]);
    assert_eq!(result.types, [Kind::UInt(8).into()]);
    assert!(!result.has_more);
}

// contract: query 10-13
#[test]
fn unknown_names_are_invalid_before_the_statement_runs() {
    let store = f1();
    for text in [
        "select * from nope",
        "select nope from events",
        "drop table events",
        "selec 1",
        "select frobnicate(1)",
    ] {
        assert!(
            hogql::plan(text, &PlaceholderValues::default(), &store.project, None).is_err(),
            "{text}"
        );
    }
}

#[test]
fn stored_string_and_json_type_of_a_property_ignore_its_definition() {
    let mut store = Store::new();
    store.define("amount", PropertyType::Numeric);
    store.person(0, &["p1"], json!({"amount": 1.5}));
    store.group(0, "acme", json!({"amount": [1]}));
    let values = [json!("x"), json!("5"), json!(5.0), json!(true), json!(""), json!(null)];
    for (no, value) in values.into_iter().enumerate() {
        let groups = [Some("acme".to_owned()), None, None, None, None];
        let at = format!("2024-01-01T10:00:0{no}Z");
        store.event_of(PROJECT, "a", "p1", &at, json!({ "amount": value }), groups);
    }
    let both = |properties: &str| {
        format!(
            "nullIf(JSONExtractString({properties}, 'amount'), ''), \
             nullIf(JSONType({properties}, 'amount'), 'Null')"
        )
    };
    store.check(
        &format!("select properties.amount, {} from events order by timestamp", both("properties")),
        json!([
            [null, "x", "String"],
            [5.0, "5", "String"],
            [5.0, "5.0", "Double"],
            [null, "true", "Bool"],
            [null, null, "String"],
            [null, null, null],
        ]),
    );
    let joined = format!(
        "select {}, {} from events limit 1",
        both("person.properties"),
        both("group_0.properties")
    );
    store.check(&joined, json!([["1.5", "Double", "[1]", "Array"]]));
    store.check(&format!("select {} from persons", both("properties")), json!([["1.5", "Double"]]));
    store.check(&format!("select {} from groups", both("properties")), json!([["[1]", "Array"]]));
    let nested =
        "select nullIf(JSONType(p, 'amount'), 'Null') from (select properties as p from persons)";
    store.check(nested, json!([["Double"]]));
    let one_expression = "select concat(JSONExtractString(properties, 'amount'), event, \
                          toString(properties.amount + length(event))) from events \
                          where properties.amount = 5 order by timestamp";
    store.check(one_expression, json!([["5a6"], ["5.0a6"]]));
}

// contract: query 14-16
#[test]
fn default_limit_is_100_rows() {
    let mut store = Store::new();
    for no in 0..150 {
        store.event("a", &format!("p{no}"), "2024-01-01T10:00:00Z", json!({}));
    }
    let result = store.run("select uuid from events").unwrap();
    assert_eq!((result.rows.len(), result.has_more), (100, true));
    let result = store.run("select uuid from events limit 120").unwrap();
    assert_eq!((result.rows.len(), result.has_more), (120, false));
    let result = store.run("select uuid from events limit 60000").unwrap();
    assert_eq!((result.rows.len(), result.has_more), (150, false));
    let result = store.run("select number from numbers(100000) limit 60000").unwrap();
    assert_eq!((result.rows.len(), result.has_more), (50_000, true), "ROWS_MAX capped the limit");
    let result = store.run("select number from numbers(100000) limit 50000").unwrap();
    assert_eq!(
        (result.rows.len(), result.has_more),
        (50_000, false),
        "the limit is exactly ROWS_MAX"
    );
    let result = store.run(
        "select number from numbers(9) union all select number from numbers(60000) limit 60000",
    );
    let result = result.unwrap();
    assert_eq!((result.rows.len(), result.has_more), (50_000, true), "ROWS_MAX capped the limit");
    let result = store.run("select number from numbers(1000) limit 3 offset 10").unwrap();
    assert_eq!(json!(result.rows), json!([[10], [11], [12]]));
}

#[test]
fn dictionary_entries_without_rows_are_no_group() {
    let mut store = Store::new();
    for (event, person, k) in [
        ("a", "p1", json!({ "k": "x" })),
        ("a", "p2", json!({ "k": null })),
        ("b", "p2", json!({ "k": "y" })),
        ("a", "p2", json!({ "k": { "deep": 1 } })),
        ("a", "p3", json!({ "k": "x" })),
        ("a", "p3", json!({})),
    ] {
        store.event(event, person, "2024-01-01T10:00:00Z", k);
    }
    let text =
        "select properties.k as k, uniqExact(person_id) as c, countIf(person_id is null) as n
        from events where event = 'a' group by k order by k nulls last";
    let rows = store.run(text).unwrap().rows;
    assert_eq!(json!(rows), json!([["x", 2, 0], [r#"{"deep":1}"#, 1, 0], [null, 2, 0]]));
}

// contract: query 17
#[test]
fn group_by_event_counts_events() {
    let store = f1();
    let text = "select event, count() as c from events group by event order by c desc";
    let result = store.run(text).unwrap();
    assert_eq!(json!(result.rows), json!([["a", 3], ["b", 2]]));
    assert_eq!(result.columns, ["event", "c"]);
}

// contract: query 18-22
#[test]
fn properties_are_strings_or_of_their_defined_type() {
    let store = f1();
    store.check(
        "select properties.$browser from events where event='a' order by timestamp",
        json!([["Chrome"], ["Safari"], ["Chrome"]]),
    );
    store.check("select properties.missing from events limit 1", json!([[null]]));
    store.check("select count() from events where properties.missing != 'x'", json!([[5]]));
    store.check("select count() from events where properties.missing = null", json!([[5]]));
    store.check("select sum(properties.amount) from events", json!([[60.0]]));
    store.check(
        "select properties.cart.total, properties.cart.items.1.id, properties.cart.items \
         from events where timestamp > '2024-01-02' and event = 'b'",
        json!([["7", "x", "[{\"id\":\"x\"}]"]]),
    );
}

// contract: query 23, 24
#[test]
fn events_resolve_to_the_current_person_after_a_merge() {
    let mut store = f1();
    store.check(
        "select person.properties.email, person.properties.plan.name from events order by timestamp",
        json!([
            ["ann@example.com", null],
            ["bob@example.com", "pro"],
            ["bob@example.com", "pro"],
            [null, null],
            ["ann@example.com", null],
        ]),
    );
    store.check("select count(distinct person_id) from events", json!([[3]]));
    let moves = vec![(model::person::PersonNo(1), model::person::PersonNo(0))];
    store.persons.apply(&model::person::IdentityChanges { merges: moves, ..Default::default() });
    store.check("select count(distinct person_id) from events", json!([[2]]));
    store.check(
        "select uniq(person_id), uniq(distinct_id), uniq(pdi.person_id) from events",
        json!([[2, 3, 2]]),
    );
    store.check("select count() from persons", json!([[2]]));
    store.check(
        "select distinct_id, person.properties.email from person_distinct_ids order by 1",
        json!([["p1", "ann@example.com"], ["p2", "ann@example.com"], ["p3", null]]),
    );
}

// contract: ingestion 92
#[test]
fn distinct_id_without_a_person_counts_as_one_person() {
    let mut store = f1();
    let off = json!({"$process_person_profile": false});
    store.event("c", "ghost", "2024-01-03T10:00:00Z", off.clone());
    store.check("select count(distinct person_id) from events", json!([[4]]));
    store.event("d", "p1", "2024-01-03T10:00:00Z", off);
    store.check(
        "select person_mode, person_id = (select person_id from events where distinct_id = 'p1' \
         and event != 'd' limit 1) from events where event = 'd'",
        json!([["force_upgrade", 1]]),
    );
    store.check(
        "select person_mode, person.properties, person.created_at from events where event = 'c'",
        json!([["propertyless", null, null]]),
    );
}

// contract: query 25, 26, 35
#[test]
fn timestamps_use_the_projects_time_zone() {
    let mut store = f1();
    store.check(
        "select dateDiff('day', toDateTime('2024-01-01'), toDateTime('2024-01-03'))",
        json!([[2]]),
    );
    store.zone("Europe/Berlin");
    store.check("select toDateTime('2024-01-01 00:00:00')", json!([["2024-01-01T00:00:00+01:00"]]));
    store.check(
        "select toStartOfDay(timestamp), count() from events group by 1 order by 1",
        json!([
            ["2024-01-01T00:00:00+01:00", 3],
            ["2024-01-02T00:00:00+01:00", 1],
            ["2024-01-03T00:00:00+01:00", 1],
        ]),
    );
    store
        .check("select count() from events where timestamp >= '2024-01-03 10:00:00'", json!([[1]]));
    store.check("select count() from events where timestamp > '2024-01-03 10:00:00'", json!([[0]]));
    store
        .check("select count() from events where timestamp <= '2024-01-01 11:00:00'", json!([[1]]));
    store.check("select count() from events where '2024-01-01 11:00:00' > timestamp", json!([[0]]));
    store.check("select count() from events where timestamp >= toDate('2024-01-02')", json!([[2]]));
}

// contract: query 27
#[test]
fn placeholders_are_replaced_with_their_values() {
    let store = f1();
    let mut values = PlaceholderValues::default();
    values.values.insert("x".to_owned(), json!("hi"));
    let result = store.run_with("select {x}", &values, None, &LIMITS).unwrap();
    assert_eq!(json!(result.rows), json!([["hi"]]));
}

// contract: query 28, 29
#[test]
fn filters_placeholder_applies_date_range_and_condition() {
    let store = f1();
    let text = "select count() from events where {filters}";
    store.check(text, json!([[5]]));
    let filters = Filters {
        from: Some(time("2024-01-01T12:00:00Z")),
        to: Some(time("2024-01-02T08:00:00Z")),
        condition: None,
    };
    let result =
        store.run_with(text, &PlaceholderValues::default(), Some(&filters), &LIMITS).unwrap();
    assert_eq!(json!(result.rows), json!([[3]]));
    let condition = Some(hogql::parse_expr("properties.$browser = 'Safari'").unwrap());
    let filters = Filters { condition, ..filters };
    let result =
        store.run_with(text, &PlaceholderValues::default(), Some(&filters), &LIMITS).unwrap();
    assert_eq!(json!(result.rows), json!([[1]]));
}

// contract: query 30
#[test]
fn array_functions_and_operators_evaluate() {
    let store = f1();
    store.check("select arrayJoin([1,2])", json!([[1], [2]]));
    store.check("select [1,2][1]", json!([[1]]));
    store.check("select 'a' || 'b'", json!([["ab"]]));
    store.check("select null ?? 3", json!([[3]]));
    store.check(
        "select x, y from (select 1 as one) array join [1, 2] as x, ['a', 'b'] as y",
        json!([[1, "a"], [2, "b"]]),
    );
    store.check("select x from (select 1 as one) left array join [] as x", json!([[null]]));
    store.check(
        "select a, arrayJoin([1, 2]) as b from (select arrayJoin(['x', 'y']) as a) order by a, b",
        json!([["x", 1], ["x", 2], ["y", 1], ["y", 2]]),
    );
}

// contract: query 31
#[test]
fn in_cohort_and_cohort_people_select_members() {
    let mut store = f1();
    store.cohort(5, "paying", &[1]);
    store.check("select count() from events where person_id in cohort 5", json!([[2]]));
    store.check("select count() from events where person_id not in cohort 'paying'", json!([[3]]));
    store.check(
        "select cohort_id, person.properties.email from cohort_people",
        json!([[5, "bob@example.com"]]),
    );
}

// contract: query 32
#[test]
fn common_table_expressions_and_unions_evaluate() {
    let store = f1();
    store.check("with t as (select event from events) select count() from t", json!([[5]]));
    store.check(
        "with t as (select event from events) select * from (select event, count() as c from t \
         group by event union all select 'all', count() from t) order by c",
        json!([["b", 2], ["a", 3], ["all", 5]]),
    );
    store.check(
        "select x from (select 1 as x union distinct select 1 union all select 2) order by x",
        json!([[1], [2]]),
    );
    store.check(
        "select number from numbers(5) intersect select number + 3 from numbers(5)",
        json!([[3], [4]]),
    );
    store.check("select number from numbers(3) except select 1", json!([[0], [2]]));
}

#[test]
fn keys_that_follow_from_others_group_as_these_do() {
    let store = f1();
    store.check(
        "select 1 as one, properties.$browser as b, upper(b) as c, concat(c, b) as d, count() \
         from events group by one, d, c, b having b is not null order by c desc, one",
        json!([
            [1, "Safari", "SAFARI", "SAFARISafari", 1],
            [1, "Chrome", "CHROME", "CHROMEChrome", 2],
        ]),
    );
    store.check("select 1 as one, count() from events where event = 'c' group by one", json!([]));
    store.check(
        "select event as x, event as y, 2 as two from events group by x, y, two order by y",
        json!([["a", "a", 2], ["b", "b", 2]]),
    );
}

// contract: query 33
#[test]
fn session_columns_follow_from_its_events() {
    let mut store = Store::new();
    let page = |url: &str, more: &str| json!({"$session_id": "s1", "$current_url": url, "utm_source": more, "$referring_domain": "google.com"});
    store.event("$pageview", "p1", "2024-01-01T10:00:30Z", page("https://x.example/b?q=1", ""));
    store.event("$pageview", "p1", "2024-01-01T10:00:00Z", page("https://x.example/a", "news"));
    store.event("other", "p1", "2024-01-01T10:01:30Z", json!({"$session_id": "s1"}));
    store.event("$pageview", "p2", "2024-01-01T11:00:00Z", json!({"$session_id": "s2"}));
    store.event("none", "p3", "2024-01-01T12:00:00Z", json!({}));
    store.check(
        "select event, session.$session_duration, session.$entry_utm_source from events \
         order by timestamp",
        json!([
            ["$pageview", 90, "news"],
            ["$pageview", 90, "news"],
            ["other", 90, "news"],
            ["$pageview", 0, null],
            ["none", null, null],
        ]),
    );
    store.check(
        "select session_id, distinct_id, $start_timestamp, $end_timestamp, $num_uniq_urls, $urls, \
         $entry_pathname, $exit_pathname, $entry_hostname, $pageview_count, $is_bounce, \
         $channel_type from sessions order by session_id",
        json!([
            [
                "s1",
                "p1",
                "2024-01-01T10:00:00Z",
                "2024-01-01T10:01:30Z",
                2,
                ["https://x.example/b?q=1", "https://x.example/a"],
                "/a",
                "/b",
                "x.example",
                2,
                false,
                "Organic Search"
            ],
            [
                "s2",
                "p2",
                "2024-01-01T11:00:00Z",
                "2024-01-01T11:00:00Z",
                0,
                [],
                null,
                null,
                null,
                1,
                true,
                "Direct"
            ],
        ]),
    );
}

// contract: query 34
#[test]
fn groups_are_a_table_and_a_lazy_join() {
    let mut store = f1();
    store.group(0, "acme", json!({"size": 10}));
    store.group(0, "umbrella", json!({}));
    store.project.groups.insert("company".to_owned(), 0);
    let acme = [Some("acme".to_owned()), None, None, None, None];
    store.event_of(ProjectId(1), "c", "p1", "2024-01-03T10:00:00Z", json!({}), acme);
    store.check(
        "select key from groups where index = 0 order by key",
        json!([["acme"], ["umbrella"]]),
    );
    store.check(
        "select $group_0, group_0.properties.size, company.key from events where event = 'c'",
        json!([["acme", "10", "acme"]]),
    );
    store.check("select count() from events where group_0.key is null", json!([[5]]));
}

// contract: query 36
#[test]
fn quantiles_interpolate_linearly() {
    let store = f1();
    store.check("select quantile(0.5)(x) from (select arrayJoin([1,2,3,4]) as x)", json!([[2.5]]));
}

// contract: query 37
#[test]
fn events_of_other_projects_are_not_visible() {
    let mut store = f1();
    store.event_of(
        ProjectId(2),
        "secret",
        "p1",
        "2024-01-01T10:00:00Z",
        json!({}),
        Default::default(),
    );
    store.check("select count() from events", json!([[5]]));
    store.check("select count() from events where event = 'secret'", json!([[0]]));
    store.check("select distinct team_id from events", json!([[1]]));
    store.check("select count() from events where team_id = 2", json!([[0]]));
    store.check("select count() from events where person.team_id = 1", json!([[5]]));
    store.check(
        "select count() from events a cross join events b where b.event = 'secret'",
        json!([[0]]),
    );
}

// contract: query 5.1, the columns of `*`
#[test]
fn star_selects_every_column_of_the_table() {
    let mut store = f1();
    let result = store.run("select * from events order by timestamp limit 1").unwrap();
    let row: serde_json::Map<String, serde_json::Value> =
        result.columns.iter().cloned().zip(result.rows[0].clone()).collect();
    assert_eq!(row["uuid"], json!("00000000-0000-0000-0000-000000000002"));
    assert_eq!(row["event"], json!("a"));
    assert_eq!(row["timestamp"], json!("2024-01-01T10:00:00Z"));
    assert_eq!(row["created_at"], json!("2024-01-01T10:00:05Z"));
    assert_eq!(row["distinct_id"], json!("p1"));
    assert_eq!((&row["$session_id"], &row["$group_0"]), (&json!(null), &json!("")));
    assert_eq!(row["elements_chain_texts"], json!([]));
    assert_eq!(row["person_created_at"], json!("2024-01-01T00:00:00Z"));
    let properties: serde_json::Value =
        serde_json::from_str(row["properties"].as_str().unwrap()).unwrap();
    assert_eq!(properties, json!({"$browser": "Chrome", "amount": 10}));
    store.cohort(5, "paying", &[1]);
    store.group(0, "acme", json!({"size": 10}));
    for table in ["persons", "person_distinct_ids", "groups", "cohort_people", "sessions"] {
        store.run(&format!("select * from {table}")).unwrap();
    }
    store.check(
        "select properties.email, distinct_ids, pdi.distinct_id, is_identified from persons \
         where properties.email is not null order by 1",
        json!([["ann@example.com", ["p1"], "p1", true], ["bob@example.com", ["p2"], "p2", true]]),
    );
}

#[test]
fn elements_chain_columns_are_parsed_from_the_chain() {
    let mut store = Store::new();
    let mut row = store.row(
        ProjectId(1),
        "$autocapture",
        "p1",
        time("2024-01-01T10:00:00Z"),
        json!({}),
        Default::default(),
    );
    row.elements_chain = "a.link:attr_id=\"go\"href=\"/x\"text=\"Go\";div:text=\"Go\"".to_owned();
    store.append(vec![row]);
    store.check(
        "select elements_chain_href, elements_chain_texts, elements_chain_ids, \
         elements_chain_elements from events",
        json!([["/x", ["Go"], ["go"], ["a", "div"]]]),
    );
}

#[test]
fn empty_aggregates_are_null_for_nullable_arguments_and_a_default_otherwise() {
    let store = f1();
    store.check(
        "select count(), uniq(event), sum(properties.amount), avg(properties.amount), \
         min(event), toUnixTimestamp(max(timestamp)), any(event), argMin(event, timestamp), \
         groupArray(event), median(properties.amount), stddevPop(properties.amount), topK(3)(event) \
         from events where event = 'none'",
        json!([[0, 0, null, null, "", 0, "", "", [], null, null, []]]),
    );
    store.check(
        "select sum(1), max(1), sum(properties.amount) is null, max(properties.amount) is null, \
         isNull(avg(1)), isNaN(avg(1)), isNull(avg(properties.amount)) from events where event = 'none'",
        json!([[0, 0, 1, 1, 0, 1, 1]]),
    );
    store.check(
        "select maxIf(1, event = 'x') + maxIf(1, event = 'y') + maxIf(1, event != 'x') from events",
        json!([[1]]),
    );
    store.check(
        "select lagInFrame(number) over (order by number), lag(number) over (order by number) \
         from numbers(2) order by number",
        json!([[0, null], [0, 0]]),
    );
}

#[test]
fn limit_after_a_union_belongs_to_the_last_select() {
    let store = f1();
    let rows = |text: &str| {
        let result = store.run(text).unwrap();
        (result.rows.len(), result.has_more)
    };
    let two = "select number from numbers(200) union all select number from numbers(400)";
    assert_eq!(rows(two), (100, true));
    assert_eq!(rows(&format!("{two} limit 300")), (500, false));
    assert_eq!(rows(&format!("select * from ({two}) limit 300")), (300, false));
    assert_eq!(rows("(select 1 as a limit 1) union all select number from numbers(200)").0, 100);
}

// contract: query 110
#[test]
fn numeric_property_that_is_no_number_is_null() {
    f1().check("select 0/0, 1/0, -1/0", json!([[null, null, null]]));
}

#[test]
fn tuple_with_a_null_is_in_no_list_and_no_subquery() {
    let store = f1();
    store.check("select count() from events where (properties.amount, event) in (select properties.amount, event from events)", json!([[3]]));
    store.check("select count() from events where (properties.amount, event) not in (select properties.amount, event from events)", json!([[2]]));
    store.check(
        "select (null, 1) in ((null, 1), (2, 3)), (null, 1) not in ((null, 1), (2, 3))",
        json!([[0, 1]]),
    );
}
