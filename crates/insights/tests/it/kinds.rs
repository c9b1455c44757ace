//! Retention, lifecycle, stickiness and paths.

use insights::Insight;
use serde_json::{Value as Json, json};

use crate::project::{Project, at, each, limits, with};

fn retention(filter: Json) -> Json {
    let entity = json!({"id": "a", "name": "a", "type": "events"});
    let own = json!({"targetEntity": entity, "returningEntity": entity, "period": "Day", "totalIntervals": 3});
    json!({
        "kind": "RetentionQuery",
        "retentionFilter": with(own, filter),
        "dateRange": {"date_to": "2024-01-03"},
    })
}

fn table(results: &Json) -> Vec<Vec<u64>> {
    let row = |row: &Json| {
        each(&row["values"], "count").iter().map(|count| count.as_u64().unwrap()).collect()
    };
    results.as_array().unwrap().iter().map(row).collect()
}

// contract: query 92, 93, 94
#[test]
fn retention_counts_returning_actors() {
    let project = Project::f1();
    let found = project.run(retention(json!({})));
    assert_eq!(table(&found), [[2, 0, 1], [0, 0, 0], [1, 0, 0]]);
    assert_eq!(each(&found, "label"), ["Day 0", "Day 1", "Day 2"]);
    assert_eq!(each(&found[0]["values"], "label"), ["Day 0", "Day 1", "Day 2"]);
    assert_eq!(
        each(&found, "date"),
        ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z"]
    );
    let first = project.run(retention(json!({"retentionType": "retention_first_time"})));
    assert_eq!(table(&first), [[2, 0, 1], [0, 0, 0], [0, 0, 0]]);
    let cumulative = project.run(retention(json!({"cumulative": true})));
    assert_eq!(table(&cumulative)[0], [2, 1, 1]);
    let often = project.run(retention(json!({"minimumOccurrences": 2})));
    assert_eq!(table(&often)[0], [2, 0, 0]);
}

#[test]
fn retention_has_rows_for_the_range_and_columns_for_the_intervals() {
    let project = Project::f1();
    let range = json!({"dateRange": {"date_from": "2024-01-02", "date_to": "2024-01-03"}});
    assert_eq!(table(&project.run(with(retention(json!({})), range))), [[0, 0, 0], [1, 0, 0]]);
    let week = project.run(retention(json!({"period": "Week", "totalIntervals": 2})));
    assert_eq!(table(&week), [[0, 0], [2, 0]]);
    assert_eq!(week[1]["date"], "2023-12-31T00:00:00Z");
    let hours = project.run(retention(json!({"period": "Hour", "totalIntervals": 31})));
    assert_eq!(hours.as_array().unwrap().len(), 31);
    for intervals in [0, 32] {
        assert!(
            project
                .run_err(retention(json!({ "totalIntervals": intervals })))
                .contains("totalIntervals")
        );
    }
    let mut zoned = Project::f1();
    zoned.zone = "America/New_York";
    assert_eq!(zoned.run(retention(json!({})))[0]["date"], "2024-01-01T00:00:00-05:00");
}

#[test]
fn a_bracket_counts_returns_in_any_of_its_intervals() {
    let mut project = Project::f1();
    project.event("p2", "a", "2024-01-02T10:00:00Z", json!({}));
    let with_brackets = |brackets: Json| retention(json!({ "retentionCustomBrackets": brackets }));
    let found = project.run(with_brackets(json!([1, 3])));
    assert_eq!(table(&found), [[2, 1, 1], [1, 0, 0], [1, 0, 0]]);
    assert_eq!(each(&found[0]["values"], "label"), ["Day 0", "Day 1", "Day 2-4"]);
    assert_eq!(table(&project.run(with_brackets(json!([2]))))[0], [2, 2]);
    // No brackets are as many columns as intervals.
    assert_eq!(table(&project.run(with_brackets(json!([]))))[0], [2, 1, 1]);
    for wrong in [json!([1, 0]), json!([10_001]), json!(vec![1; 31])] {
        assert!(project.run_err(with_brackets(wrong)).contains("retentionCustomBrackets"));
    }
    for wrong in [json!([1.5]), json!([-1]), json!("1"), json!([null])] {
        let refused = project.try_run(&with_brackets(wrong)).unwrap_err();
        assert!(refused.to_string().contains("retentionCustomBrackets"), "{refused}");
    }
}

#[test]
fn windows_of_24_hours_begin_with_the_first_start_of_an_actor() {
    let mut project = Project::f1();
    project.event("p2", "a", "2024-01-02T11:59:59Z", json!({}));
    project.event("p2", "a", "2024-01-03T12:00:00Z", json!({}));
    let rolling =
        |filter: Json| retention(with(json!({"timeWindowMode": "24_hour_windows"}), filter));
    // Of p1 the second event is 47 hours after the first, of p2 the last one 48.
    assert_eq!(table(&project.run(rolling(json!({})))), [[2, 1, 1], [0, 0, 0], [0, 0, 0]]);
    assert_eq!(table(&project.run(retention(json!({}))))[0], [2, 1, 2]);
    let hours = project.run(rolling(json!({"period": "Hour", "totalIntervals": 31})));
    assert_eq!(hours.as_array().unwrap().len(), 31);
    let bracketed = project.run(rolling(json!({"retentionCustomBrackets": [2]})));
    assert_eq!(table(&bracketed)[0], [2, 2]);
    let twice = project.run(rolling(json!({"minimumOccurrences": 2})));
    assert_eq!(table(&twice)[0], [2, 0, 0]);
    let refused = project.run_err(rolling(json!({"cumulative": true})));
    assert_eq!(refused, "Cumulative retention is not supported for 24 hour windows.");
}

#[test]
fn retention_sums_and_averages_a_property_of_the_events_by_which_actors_return() {
    let mut project = Project::f1();
    let amount = |amount: Json| json!({ "amount": amount });
    project.event("p1", "pay", "2024-01-01T09:59:00Z", amount(json!(1000)));
    project.event("p1", "pay", "2024-01-01T11:00:00Z", amount(json!("4.5")));
    project.event("p2", "pay", "2024-01-01T12:30:00Z", amount(json!("free")));
    project.event("p1", "pay", "2024-01-03T09:00:00Z", amount(json!(2)));
    project.event("p2", "pay", "2024-01-03T09:00:00Z", amount(json!(-1)));
    let of = |kind: &str, filter: Json| {
        let own = json!({"aggregationType": kind, "aggregationProperty": "amount"});
        retention(with(own, filter))
    };
    let amounts = |project: &Project, query: Json| {
        let results = project.run(query);
        let row = |row: &Json| each(&row["values"], "aggregation_value");
        results.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    // The same event: what actors start with, then what they return with.
    assert_eq!(amounts(&project, of("sum", json!({})))[0], [30, 0, 30]);
    assert_eq!(amounts(&project, of("avg", json!({})))[0], [15, 0, 30]);
    // Another event: only what follows the start counts on its day.
    let paid = json!({"returningEntity": {"id": "pay", "type": "events"}});
    let sums = project.run(of("sum", paid.clone()));
    assert_eq!(table(&sums)[0], [2, 0, 2]);
    assert_eq!(amounts(&project, of("sum", paid.clone()))[0], [json!(4.5), json!(0), json!(1)]);
    assert_eq!(amounts(&project, of("avg", paid.clone()))[0], [json!(2.25), json!(0), json!(0.5)]);
    let bracket = with(paid.clone(), json!({"retentionCustomBrackets": [2]}));
    assert_eq!(amounts(&project, of("sum", bracket))[0], [json!(4.5), json!(1)]);
    let often = with(paid, json!({"minimumOccurrences": 2}));
    assert_eq!(amounts(&project, of("sum", often))[0], [json!(4.5), json!(0), json!(0)]);
    // Of persons, once for each event.
    project.person(&["p4"], "2024-01-01T08:00:00Z", json!({ "age": 40 }));
    project.event("p4", "a", "2024-01-02T10:00:00Z", json!({}));
    let of_person = json!({"aggregationProperty": "age", "aggregationPropertyType": "person"});
    let results = project.run(of("sum", of_person));
    assert_eq!(each(&results[1]["values"], "aggregation_value"), [40, 0, 0]);
    // As PostHog, a count has no amounts, whatever else is set.
    assert_eq!(
        project.run(of("count", json!({})))[0]["values"][0]["aggregation_value"],
        Json::Null
    );
    for (filter, why) in [
        (json!({"aggregationProperty": ""}), "needs an aggregationProperty"),
        (json!({"timeWindowMode": "24_hour_windows"}), "not supported for 24 hour windows"),
        (json!({"cumulative": true}), "not supported for cumulative retention"),
    ] {
        let query = of("sum", filter);
        assert!(project.run_err(query.clone()).contains(why));
        let stored = Insight::parse("RetentionQuery", &query).unwrap().unwrap();
        assert!(stored.check().unwrap_err().to_string().contains(why));
    }
}

#[test]
fn first_ever_occurrence_must_pass_the_filters() {
    let project = Project::f1();
    let large = json!([{"key": "amount", "operator": "gt", "value": 15}]);
    let ask = |kind: &str| {
        let entity = json!({"id": "a", "type": "events", "properties": large});
        table(&project.run(retention(json!({"targetEntity": entity, "retentionType": kind}))))
    };
    assert_eq!(ask("retention_first_time"), [[1, 0, 0], [0, 0, 0], [1, 0, 0]]);
    assert_eq!(ask("retention_first_ever_occurrence"), [[1, 0, 0], [0, 0, 0], [0, 0, 0]]);
}

#[test]
fn retention_breakdown_uses_the_start_event() {
    let project = Project::f1();
    let by = |breakdown: Json| with(retention(json!({})), json!({ "breakdownFilter": breakdown }));
    let found = project.run(by(json!({"breakdown": "$browser"})));
    assert_eq!(
        each(&found, "breakdown_value"),
        ["Chrome", "Chrome", "Chrome", "Safari", "Safari", "Safari"]
    );
    assert_eq!(table(&found)[..3], [[1, 0, 1], [0, 0, 0], [1, 0, 0]]);
    assert_eq!(table(&found)[3], [1, 0, 0]);
    let found = project.run(by(json!({"breakdown": "$browser", "breakdown_limit": 1})));
    assert_eq!(found[3]["breakdown_value"], "$$_posthog_breakdown_other_$$");
    let two = json!({"breakdowns": [{"property": "a"}, {"property": "b"}]});
    assert!(project.run_err(by(two)).contains("At most 1"));
}

// contract: query 95
#[test]
fn lifecycle_classifies_new_returning_resurrecting_and_dormant() {
    let project = Project::f1();
    let query = json!({
        "kind": "LifecycleQuery",
        "series": [{"kind": "EventsNode", "event": "a"}],
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
        "lifecycleFilter": {"toggledLifecycles": ["new"], "showLegend": true},
    });
    let found = project.run(query.clone());
    assert_eq!(each(&found, "status"), ["new", "returning", "resurrecting", "dormant"]);
    assert_eq!(
        each(&found, "data"),
        [json!([2, 0, 0]), json!([0, 0, 0]), json!([0, 0, 1]), json!([0, -2, 0])]
    );
    assert_eq!(each(&found, "count"), [2, 0, 1, -2]);
    assert_eq!(
        (&found[3]["label"], &found[0]["labels"][0]),
        (&json!("a - dormant"), &json!("1-Jan-2024"))
    );
    // Actors of the day before are returning, or dormant on the first day.
    let later = json!({"dateRange": {"date_from": "2024-01-02", "date_to": "2024-01-04"}});
    let found = project.run(with(query.clone(), later));
    assert_eq!(each(&found, "data")[2..], [json!([0, 1, 0]), json!([-2, 0, -1])]);
    let two = json!({"series": [{"kind": "EventsNode"}, {"kind": "EventsNode"}]});
    assert!(project.run_err(with(query, two)).contains("one series"));
}

// contract: query 96, 97
#[test]
fn stickiness_counts_active_days() {
    let mut project = Project::f1();
    let stickiness = |filter: Json| {
        json!({
            "kind": "StickinessQuery",
            "series": [{"kind": "EventsNode", "event": "a"}],
            "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
            "stickinessFilter": filter,
        })
    };
    let found = project.run(stickiness(json!({})));
    assert_eq!((&found[0]["data"], &found[0]["count"]), (&json!([1, 1, 0]), &json!(2)));
    assert_eq!(found[0]["labels"], json!(["1 day", "2 days", "3 days"]));
    assert_eq!((&found[0]["days"], &found[0]["label"]), (&json!([1, 2, 3]), &json!("a")));
    let found = project.run(stickiness(json!({"computedAs": "cumulative"})));
    assert_eq!(
        (&found[0]["data"], &found[0]["labels"][1]),
        (&json!([2, 1, 0]), &json!("2 days or more"))
    );
    project.event("p1", "a", "2024-01-03T10:00:00Z", json!({}));
    let often = |operator: &str, value: u64| {
        let criteria = json!({"stickinessCriteria": {"operator": operator, "value": value}});
        project.run(stickiness(criteria))[0]["data"].clone()
    };
    assert_eq!(often("gte", 1), json!([1, 1, 0]));
    assert_eq!(often("gte", 2), json!([1, 0, 0]));
    assert_eq!(often("lte", 1), json!([2, 0, 0]));
    assert_eq!(often("exact", 2), json!([1, 0, 0]));
    let compared =
        project.run(with(stickiness(json!({})), json!({"compareFilter": {"compare": true}})));
    assert_eq!(each(&compared, "compare_label"), ["current", "previous"]);
    assert_eq!(each(&compared, "count"), [2, 0]);
    // Windows of two days end with the last day; the first is of one.
    let windows = |count: Json| with(stickiness(json!({})), json!({ "intervalCount": count }));
    let found = project.run(windows(json!(2)));
    assert_eq!(
        (&found[0]["data"], &found[0]["labels"]),
        (&json!([1, 1]), &json!(["1 day", "2 days"]))
    );
    assert_eq!(project.run(windows(json!(5)))[0]["data"], json!([2]));
    for wrong in [json!(0), json!(10_001), json!(1.5), json!("2")] {
        let refused = project.try_run(&windows(wrong)).unwrap_err();
        assert!(refused.to_string().contains("intervalCount"), "{refused}");
    }
}

fn paths(filter: Json) -> Json {
    json!({
        "kind": "PathsQuery",
        "pathsFilter": filter,
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
    })
}

// contract: query 98, 99
#[test]
fn paths_are_edges_between_consecutive_events() {
    let mut project = Project::f1();
    let custom = json!({"includeEventTypes": ["custom_event"]});
    assert_eq!(project.run(paths(custom.clone())), json!([]));
    project.event("p2", "b", "2024-01-01T12:20:00Z", json!({}));
    let found = project.run(paths(custom.clone()));
    let edge =
        json!({"source": "1_a", "target": "2_b", "value": 1, "average_conversion_time": 1_200_000});
    assert_eq!(found, json!([edge]));
    for (event, time) in [
        ("c", "2024-01-01T12:21:00Z"),
        ("$hidden", "2024-01-01T12:22:00Z"),
        ("d", "2024-01-01T12:23:00Z"),
    ] {
        project.event("p2", event, time, json!({}));
    }
    let edges = |filter: Json| {
        let found = project.run(paths(filter));
        let text = |edge: &Json| {
            format!("{} {}", edge["source"].as_str().unwrap(), edge["target"].as_str().unwrap())
        };
        found.as_array().unwrap().iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(edges(with(custom.clone(), json!({"startPoint": "b"}))), ["1_b 2_c", "2_c 3_d"]);
    assert_eq!(edges(with(custom.clone(), json!({"edgeLimit": 1}))), ["1_a 2_b"]);
    assert_eq!(edges(with(custom.clone(), json!({"endPoint": "c"}))), ["1_a 2_b", "2_b 3_c"]);
    assert_eq!(
        edges(with(custom.clone(), json!({"excludeEvents": ["b"], "stepLimit": 2}))),
        ["1_a 2_c"]
    );
    assert_eq!(edges(json!({})), ["1_a 2_b", "2_b 3_c", "3_c 4_$hidden", "4_$hidden 5_d"]);
    assert_eq!(edges(with(custom.clone(), json!({"minEdgeWeight": 2}))), Vec::<String>::new());
    for (key, value) in [("stepLimit", 21), ("stepLimit", 0), ("edgeLimit", 0)] {
        assert!(
            project.run_err(paths(with(custom.clone(), json!({ (key): value })))).contains(key)
        );
    }
}

#[test]
fn path_items_are_url_paths_and_screen_names() {
    let mut project = Project::empty();
    let page = |url: &str| json!({ "$current_url": url });
    for (event, properties, time) in [
        ("$pageview", page("https://x.com/home/?a=1"), "10:00:00"),
        ("$pageview", page("https://x.com/home"), "10:01:00"),
        ("$pageview", page("https://x.com/user/17"), "10:02:00"),
        ("$screen", json!({"$screen_name": "Cart"}), "10:03:00"),
        ("$pageview", json!({}), "10:04:00"),
        ("bought", json!({}), "10:05:00"),
    ] {
        project.row(
            "p",
            event,
            at(&format!("2024-01-01T{time}Z")),
            properties,
            [const { None }; 5],
        );
    }
    let targets = |filter: Json| {
        let found = project.run(paths(filter));
        let mut all = vec![found[0]["source"].as_str().unwrap().to_owned()];
        all.extend(each(&found, "target").iter().map(|target| target.as_str().unwrap().to_owned()));
        all
    };
    assert_eq!(targets(json!({})), ["1_/home", "2_/user/17", "3_Cart", "4_bought"]);
    let pages = json!({"includeEventTypes": ["$pageview"], "showFullUrls": true});
    assert_eq!(
        targets(pages),
        ["1_https://x.com/home/?a=1", "2_https://x.com/home", "3_https://x.com/user/17"]
    );
    let grouped = json!({"pathGroupings": ["/user/*"], "includeEventTypes": ["$pageview"]});
    assert_eq!(targets(grouped), ["1_/home", "2_/user/*"]);
    let cleaned = json!({
        "localPathCleaningFilters": [{"alias": "/:id", "regex": "/\\d+$"}],
        "includeEventTypes": ["$pageview", "$screen"],
    });
    assert_eq!(targets(cleaned), ["1_/home", "2_/user/:id", "3_Cart"]);
    let replaced = paths(json!({"includeEventTypes": ["$pageview"], "pathReplacements": true}));
    assert!(project.run_err(replaced.clone()).contains("rules"));
    let mut insight = Insight::parse("PathsQuery", &replaced).unwrap().unwrap();
    insight.set_path_cleaning(&json!([{"alias": "/:user", "regex": "/user/.*"}, 17]));
    let found = insight.run(&project.view(), &limits()).unwrap().results;
    assert_eq!(found[0]["target"], "2_/:user");
    let named = json!({"includeEventTypes": ["hogql"], "pathsHogQLExpression": "event"});
    assert_eq!(targets(named), ["1_$pageview", "2_$screen", "3_$pageview", "4_bought"]);
}
