use serde_json::{Value as Json, json};

use crate::project::{Project, at, each, with};

fn series(nodes: Json) -> Json {
    json!({
        "kind": "TrendsQuery",
        "series": nodes,
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
    })
}

fn a(math: &str) -> Json {
    series(json!([{"kind": "EventsNode", "event": "a", "math": math}]))
}

fn by(query: Json, breakdown: Json) -> Json {
    with(query, json!({ "breakdownFilter": breakdown }))
}

fn data(results: &Json) -> Json {
    json!(each(results, "data"))
}

// contract: query 46
#[test]
fn trend_has_a_number_for_each_day() {
    let project = Project::f1();
    let found = project.run(a("total"));
    assert_eq!(found.as_array().unwrap().len(), 1);
    let item = &found[0];
    assert_eq!(item["data"], json!([2, 0, 1]));
    assert_eq!(item["count"], 3);
    assert_eq!(item["days"], json!(["2024-01-01", "2024-01-02", "2024-01-03"]));
    assert_eq!(item["labels"], json!(["1-Jan-2024", "2-Jan-2024", "3-Jan-2024"]));
    assert_eq!(item["label"], "a");
    let action = json!({
        "days": ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z"],
        "id": "a", "type": "events", "order": 0, "name": "a", "custom_name": null,
        "math": "total", "math_property": null, "math_hogql": null,
        "math_group_type_index": null, "properties": {},
    });
    assert_eq!(item["action"], action);
    let filter = json!({
        "insight": "TRENDS", "interval": "day",
        "date_from": "2024-01-01T00:00:00Z", "date_to": "2024-01-03T23:59:59.999999Z",
    });
    assert_eq!(item["filter"], filter);
    assert!(item.get("compare").is_none() && item.get("breakdown_value").is_none());
}

// contract: query 47, 49, 64
#[test]
fn trend_math_counts_persons_and_aggregates_properties() {
    let mut project = Project::f1();
    project.event("p1", "a", "2024-01-01T11:00:00Z", json!({ "amount": "no number" }));
    let math = |math: &str| {
        let node =
            json!({"kind": "EventsNode", "event": "a", "math": math, "math_property": "amount"});
        project.run(series(json!([node])))[0]["data"].clone()
    };
    for (name, expected) in [
        ("dau", json!([2, 0, 1])),
        ("total", json!([3, 0, 1])),
        ("sum", json!([30, 0, 30])),
        ("avg", json!([15, 0, 30])),
        ("min", json!([10, 0, 30])),
        ("max", json!([20, 0, 30])),
        ("median", json!([15, 0, 30])),
        ("p90", json!([19, 0, 30])),
        ("weekly_active", json!([2, 2, 2])),
        ("monthly_active", json!([2, 2, 2])),
        ("avg_count_per_actor", json!([1.5, 0, 1])),
        ("max_count_per_actor", json!([2, 0, 1])),
        ("median_count_per_actor", json!([1.5, 0, 1])),
        ("first_time_for_user", json!([2, 0, 0])),
        ("first_matching_event_for_user", json!([2, 0, 0])),
    ] {
        assert_eq!(math(name), expected, "{name}");
    }
    let mut scaled = a("total");
    scaled["series"][0]["math_multiplier"] = json!(0.5);
    assert_eq!(project.run(scaled)[0]["data"], json!([1.5, 0, 0.5]));
    assert!(project.run_err(a("sum")).contains("math_property"));
}

#[test]
fn weekly_and_monthly_active_windows_start_before_the_range() {
    let project = Project::f1();
    let later = json!({"date_from": "2024-01-06", "date_to": "2024-01-10"});
    let query = with(a("weekly_active"), json!({ "dateRange": later }));
    // January 1 is in the window that ends on January 7, not in the next.
    assert_eq!(project.run(query.clone())[0]["data"], json!([2, 2, 1, 1, 0]));
    let total = with(query.clone(), json!({"trendsFilter": {"display": "BoldNumber"}}));
    assert_eq!(project.run(total)[0]["aggregated_value"], 0);
    let week = with(query, json!({ "interval": "week" }));
    assert_eq!(project.run(week)[0]["data"], json!([2, 0]));
}

#[test]
fn first_time_for_user_filters_the_very_first_event() {
    let project = Project::f1();
    let safari_or_second = json!([{"key": "amount", "operator": "gt", "value": 15}]);
    let math = |math: &str| {
        let mut query = a(math);
        query["properties"] = safari_or_second.clone();
        project.run(query)[0]["data"].clone()
    };
    // The first a of p1 has an amount of 10, the second one passes.
    assert_eq!(math("first_time_for_user"), json!([1, 0, 0]));
    assert_eq!(math("first_matching_event_for_user"), json!([1, 0, 1]));
}

// contract: query 48
#[test]
fn node_without_an_event_selects_all_events() {
    let project = Project::f1();
    let found = project.run(series(json!([{"kind": "EventsNode", "event": null}])));
    assert_eq!((&found[0]["label"], &found[0]["data"]), (&json!("All events"), &json!([3, 1, 1])));
}

// contract: query 50, 51
#[test]
fn total_value_displays_give_one_number() {
    let project = Project::f1();
    let bold = |query: Json| {
        project.run(with(query, json!({"trendsFilter": {"display": "BoldNumber"}})))[0].clone()
    };
    let total = bold(a("total"));
    assert_eq!(total["data"], json!([]));
    assert_eq!(total["count"], 0);
    assert_eq!(total["aggregated_value"], 3);
    assert_eq!(total["days"].as_array().unwrap().len(), 3);
    assert!(total.get("labels").is_none());
    assert_eq!(bold(a("dau"))["aggregated_value"], 2);
    assert_eq!(bold(a("weekly_active"))["aggregated_value"], 2);
}

// contract: query 52, 53, 54, 58
#[test]
fn breakdown_gives_a_line_for_each_value() {
    let project = Project::f1();
    let browser = json!({"breakdown": "$browser", "breakdown_type": "event"});
    let found = project.run(by(a("total"), browser.clone()));
    assert_eq!(each(&found, "label"), ["Chrome", "Safari"]);
    assert_eq!(each(&found, "breakdown_value"), ["Chrome", "Safari"]);
    assert_eq!(data(&found), json!([[1, 0, 1], [1, 0, 0]]));
    assert_eq!(each(&found, "count"), [2, 1]);
    let both = json!([{"kind": "EventsNode", "event": "a"}, {"kind": "EventsNode", "event": "b"}]);
    let found = project.run(by(series(both), browser.clone()));
    let null = "$$_posthog_breakdown_null_$$";
    assert_eq!(each(&found, "label"), ["a - Chrome", "a - Safari", &format!("b - {null}")]);
    let found = project.run(by(a("total"), json!({ "breakdown": "missing" })));
    assert_eq!(each(&found, "breakdown_value"), [null]);
    let none = series(json!([{"kind": "EventsNode", "event": "never"}]));
    assert_eq!(project.run(by(none.clone(), browser)), json!([]));
    assert_eq!(data(&project.run(none)), json!([[0, 0, 0]]));
}

// contract: query 55, 56
#[test]
fn breakdown_values_beyond_the_limit_are_merged() {
    let mut project = Project::empty();
    project.person(&["p"], "2024-01-01", json!({}));
    for value in 0..30 {
        for _ in 0..=(30 - value) / 10 {
            let properties = json!({ "value": format!("v{value:02}") });
            project.event("p", "a", "2024-01-02T12:00:00Z", properties);
        }
    }
    project.event("p", "a", "2024-01-02T12:00:00Z", json!({}));
    let ask = |breakdown: Json| {
        let query = by(a("total"), breakdown);
        (project.run(query.clone()), project.try_run(&query).unwrap().has_more)
    };
    let other = json!("$$_posthog_breakdown_other_$$");
    let (found, more) = ask(json!({ "breakdown": "value" }));
    let values = each(&found, "breakdown_value");
    assert_eq!(
        (values.len(), &values[0], &values[25], more),
        (26, &json!("v00"), &other, Some(true))
    );
    // Of the 31 values 25 have lines of their own; those left have one event each.
    assert_eq!(found[25]["count"], 6);
    let (found, more) =
        ask(json!({"breakdown": "value", "breakdown_hide_other_aggregation": true}));
    assert_eq!((found.as_array().unwrap().len(), more), (25, Some(true)));
    let (found, _) = ask(json!({"breakdown": "value", "breakdown_limit": 2}));
    assert_eq!(each(&found, "breakdown_value"), [json!("v00"), json!("v01"), other.clone()]);
    let (found, more) = ask(json!({"breakdown": "value", "breakdown_limit": 31}));
    assert_eq!((found.as_array().unwrap().len(), more), (31, Some(false)));
    assert_eq!(found[30]["breakdown_value"], "$$_posthog_breakdown_null_$$");
    // One person has all values, so the merged rest counts one.
    let query = by(a("dau"), json!({"breakdown": "value", "breakdown_limit": 1}));
    assert_eq!(each(&project.run(query), "count"), [1, 1]);
    for limit in [0, 1_001] {
        let query = by(a("total"), json!({"breakdown": "value", "breakdown_limit": limit}));
        assert!(project.run_err(query).contains("breakdown_limit"));
    }
}

// contract: query 57
#[test]
fn breakdown_by_several_properties_combines_values() {
    let mut project = Project::f1();
    let mac = json!({"$browser": "Chrome", "os": "Mac"});
    project.event("p1", "a", "2024-01-02T10:00:00Z", mac.clone());
    project.event("p1", "a", "2024-01-02T11:00:00Z", mac.clone());
    project.event("p1", "a", "2024-01-02T11:00:00Z", mac);
    let properties = ["$browser", "os"].map(|name| json!({"type": "event", "property": name}));
    let found = project.run(by(a("total"), json!({ "breakdowns": properties })));
    assert_eq!(found[0]["breakdown_value"], json!(["Chrome", "Mac"]));
    assert_eq!(found[0]["label"], "Chrome::Mac");
    let null = "$$_posthog_breakdown_null_$$";
    assert_eq!(found[1]["breakdown_value"], json!(["Chrome", (null)]));
    let four = ["a", "b", "c", "d"].map(|name| json!({ "property": name }));
    let four = json!({ "breakdowns": four });
    assert!(project.run_err(by(a("total"), four)).contains("At most 3"));
}

#[test]
fn breakdown_by_person_group_cohort_and_histogram() {
    let mut project = Project::f1();
    project.cohort(5, "Friends", &[0]);
    project.group(0, "acme", json!({"plan": "pro", "seats": 5}));
    let mut groups = [const { None }; 5];
    groups[0] = Some("acme".to_owned());
    project.row("p3", "a", at("2024-01-02T10:00:00Z"), json!({"amount": 40}), groups);
    let values = |breakdown: Json| {
        let found = project.run(by(a("total"), breakdown));
        each(&found, "breakdown_value").into_iter().zip(each(&found, "count")).collect::<Vec<_>>()
    };
    let pairs = |pairs: &[(&str, u64)]| -> Vec<(Json, Json)> {
        pairs.iter().map(|(value, count)| (json!(value), json!(count))).collect()
    };
    assert_eq!(
        values(json!({"breakdown": "email", "breakdown_type": "person"})),
        pairs(&[("p1@me.com", 2), ("p2@me.com", 1), ("p3@me.com", 1)])
    );
    let plan =
        json!({"breakdown": "plan", "breakdown_type": "group", "breakdown_group_type_index": 0});
    assert_eq!(values(plan), pairs(&[("pro", 1), ("$$_posthog_breakdown_null_$$", 3)]));
    assert_eq!(
        values(json!({"breakdown": "distinct_id", "breakdown_type": "event_metadata"})),
        pairs(&[("p1", 2), ("p2", 1), ("p3", 1)])
    );
    let cohorts = json!({"breakdown": [5, "all"], "breakdown_type": "cohort"});
    assert_eq!(values(cohorts.clone()), [(json!("all"), json!(4)), (json!(5), json!(2))]);
    let found = project.run(by(a("total"), cohorts));
    assert_eq!(each(&found, "label"), ["all users", "Friends"]);
    assert_eq!(
        values(json!({"breakdown": "amount", "breakdown_histogram_bin_count": 2})),
        pairs(&[("[10,25]", 2), ("[25,40.01]", 2)])
    );
    let missing = by(a("total"), json!({"breakdown": 99, "breakdown_type": "cohort"}));
    assert!(project.run_err(missing).contains("no cohort 99"));
}

// contract: query 59, 60
#[test]
fn trends_compare_periods() {
    let mut project = Project::f1();
    project.event("p1", "a", "2023-12-30T10:00:00Z", json!({}));
    let found = project.run(with(a("total"), json!({"compareFilter": {"compare": true}})));
    assert_eq!(each(&found, "compare_label"), ["current", "previous"]);
    assert_eq!(each(&found, "compare"), [true, true]);
    assert_eq!(data(&found), json!([[2, 0, 1], [0, 1, 0]]));
    assert_eq!(found[1]["days"], json!(["2023-12-29", "2023-12-30", "2023-12-31"]));
    let week = json!({"dateRange": {"date_from": "-7d"}, "compareFilter": {"compare": true}});
    let found = project.run(with(a("total"), week));
    let days = each(&found, "days");
    assert_eq!((days[0].as_array().unwrap().len(), days[1].as_array().unwrap().len()), (8, 8));
    assert_eq!((&days[0][0], &days[1][0]), (&json!("2023-12-27"), &json!("2023-12-20")));
    let all = json!({"dateRange": {"date_from": "all"}, "compareFilter": {"compare": true}});
    assert_eq!(each(&project.run(with(a("total"), all)), "compare"), [Json::Null]);
}

// contract: query 61, 62
#[test]
fn formulas_combine_series() {
    let project = Project::f1();
    let both =
        series(json!([{"kind": "EventsNode", "event": "a"}, {"kind": "EventsNode", "event": "b"}]));
    let ask = |filter: Json| project.run(with(both.clone(), json!({ "trendsFilter": filter })));
    let found = ask(json!({ "formula": "A/B" }));
    assert_eq!(data(&found), json!([[2, 0, 0]]));
    assert_eq!((&found[0]["label"], &found[0]["action"]), (&json!("Formula (A/B)"), &Json::Null));
    assert_eq!(found[0]["count"], 2);
    let found = ask(json!({"formula": "A/B", "display": "BoldNumber"}));
    assert_eq!(found[0]["aggregated_value"], 1.5);
    assert_eq!((&found[0]["data"], &found[0]["count"]), (&Json::Null, &json!(0)));
    let nodes =
        json!({"formulaNodes": [{"formula": "a+b", "custom_name": "Sum"}, {"formula": "a-b"}]});
    let found = ask(nodes);
    assert_eq!(each(&found, "label"), ["Sum", "Formula (a-b)"]);
    assert_eq!(data(&found), json!([[3, 1, 1], [1, -1, 1]]));
    let broken = with(both.clone(), json!({"trendsFilter": {"formula": "A/C"}}));
    assert!(project.run_err(broken).contains("no series 'C'"));
    let browser =
        json!({"breakdownFilter": {"breakdown": "$browser"}, "trendsFilter": {"formula": "A+B"}});
    let found = project.run(with(both, browser));
    let null = "$$_posthog_breakdown_null_$$";
    assert_eq!(each(&found, "breakdown_value"), ["Chrome", "Safari", null]);
    assert_eq!(each(&found, "count"), [2, 1, 2]);
}

// contract: query 63, 72
#[test]
fn trends_are_smoothed_and_accumulated() {
    let project = Project::f1();
    let ask = |query: Json, filter: Json| {
        project.run(with(query, json!({ "trendsFilter": filter })))[0].clone()
    };
    assert_eq!(ask(a("total"), json!({"smoothingIntervals": 3}))["data"], json!([2, 1, 1]));
    let cumulative = json!({"display": "ActionsLineGraphCumulative"});
    let found = ask(a("total"), cumulative.clone());
    assert_eq!((&found["data"], &found["count"]), (&json!([2, 2, 3]), &json!(3)));
    // The only person of the third day was active before.
    assert_eq!(ask(a("dau"), cumulative)["data"], json!([2, 2, 2]));
}

// contract: query 65, 66, 67
#[test]
fn interval_buckets_cover_the_range() {
    let mut project = Project::f1();
    let ask = |project: &Project, from: &str, to: &str, interval: &str| {
        let range = json!({"date_from": from, "date_to": to});
        project.run(with(a("total"), json!({"dateRange": range, "interval": interval})))[0].clone()
    };
    let hours = ask(&project, "2024-01-01", "2024-01-01", "hour");
    assert_eq!(hours["days"].as_array().unwrap().len(), 24);
    assert_eq!(
        (&hours["days"][0], &hours["labels"][13]),
        (&json!("2024-01-01 00:00:00"), &json!("1-Jan 13:00"))
    );
    assert_eq!(
        (&hours["data"][10], &hours["data"][12], &hours["count"]),
        (&json!(1), &json!(1), &json!(2))
    );
    assert_eq!(ask(&project, "2024-01-03", "2024-01-03", "week")["days"], json!(["2023-12-31"]));
    project.week_starts_monday = true;
    assert_eq!(ask(&project, "2024-01-03", "2024-01-03", "week")["days"], json!(["2024-01-01"]));
    let months = ask(&project, "2023-12-15", "2024-01-03", "month");
    assert_eq!(
        (&months["labels"], &months["data"]),
        (&json!(["Dec 2023", "Jan 2024"]), &json!([0, 3]))
    );
    let many = json!({"date_from": "2014-01-01", "date_to": "2024-01-01"});
    let many = with(a("total"), json!({"dateRange": many, "interval": "minute"}));
    assert!(project.run_err(many).contains("10000"));
}

// contract: query 68, 69, 70
#[test]
fn relative_date_ranges_resolve_against_now() {
    let project = Project::f1();
    let ask = |range: Json, interval: &str| {
        project.run(with(a("total"), json!({"dateRange": range, "interval": interval})))[0].clone()
    };
    let week = ask(json!({}), "day");
    assert_eq!(week["days"].as_array().unwrap().len(), 8);
    assert_eq!(week["days"][7], "2024-01-03");
    let today = ask(json!({"date_from": "dStart"}), "hour");
    assert_eq!(
        (&today["days"][0], today["days"].as_array().unwrap().len()),
        (&json!("2024-01-03 00:00:00"), 19)
    );
    assert_eq!(ask(json!({"date_from": "all"}), "day")["days"][0], "2024-01-01");
}

// contract: query 71
#[test]
fn day_buckets_use_the_projects_time_zone() {
    let mut project = Project::empty();
    project.event("p", "a", "2024-01-02T03:00:00Z", json!({}));
    project.zone = "America/New_York";
    let found = project.run(a("total"));
    assert_eq!(found[0]["data"], json!([1, 0, 0]));
    assert_eq!(found[0]["action"]["days"][0], "2024-01-01T00:00:00-05:00");
}

#[test]
fn daylight_saving_days_are_one_bucket() {
    let mut project = Project::empty();
    project.zone = "Europe/Berlin";
    for time in [
        "2024-03-30T22:59:59Z",
        "2024-03-30T23:00:00Z",
        "2024-03-31T21:59:59Z",
        "2024-03-31T22:00:00Z",
    ] {
        project.event("p", "a", time, json!({}));
    }
    for time in [
        "2024-10-26T21:59:59Z",
        "2024-10-26T22:00:00Z",
        "2024-10-27T00:30:00Z",
        "2024-10-27T01:30:00Z",
        "2024-10-27T22:59:59Z",
        "2024-10-27T23:00:00Z",
    ] {
        project.event("p", "a", time, json!({}));
    }
    let ask = |from: &str, to: &str, interval: &str| {
        let range = json!({"date_from": from, "date_to": to});
        project.run(with(a("total"), json!({"dateRange": range, "interval": interval})))[0].clone()
    };
    assert_eq!(ask("2024-03-30", "2024-04-01", "day")["data"], json!([1, 2, 1]));
    assert_eq!(ask("2024-10-26", "2024-10-28", "day")["data"], json!([1, 4, 1]));
    let hours = ask("2024-10-27", "2024-10-27", "hour");
    assert_eq!(hours["data"].as_array().unwrap().len(), 25);
    // The hour from 2 to 3 occurs twice.
    assert_eq!((&hours["data"][2], &hours["data"][3]), (&json!(1), &json!(1)));
    assert_eq!(
        (&hours["days"][2], &hours["days"][3]),
        (&json!("2024-10-27 02:00:00"), &json!("2024-10-27 02:00:00"))
    );
    assert_eq!(ask("2024-03-31", "2024-03-31", "hour")["data"].as_array().unwrap().len(), 23);
}
