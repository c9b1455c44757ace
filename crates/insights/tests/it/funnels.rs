use serde_json::{Value as Json, json};

use crate::project::{Project, each, with};

fn event(name: &str) -> Json {
    json!({"kind": "EventsNode", "event": name})
}

fn funnel(steps: &[&str], filter: Json) -> Json {
    json!({
        "kind": "FunnelsQuery",
        "series": steps.iter().map(|step| event(step)).collect::<Vec<_>>(),
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
        "funnelsFilter": filter,
    })
}

fn counts(results: &Json) -> Vec<Json> {
    each(results, "count")
}

// contract: query 81, 82
#[test]
fn funnel_steps_have_counts_and_conversion_times() {
    let project = Project::f1();
    let found = project.run(funnel(&["a", "b"], json!({})));
    assert_eq!(counts(&found), [2, 1]);
    assert_eq!(each(&found, "average_conversion_time"), [Json::Null, json!(3600)]);
    assert_eq!(each(&found, "median_conversion_time"), [Json::Null, json!(3600)]);
    assert_eq!((&found[0]["action_id"], &found[0]["name"]), (&json!("a"), &json!("a")));
    assert_eq!((&found[1]["order"], &found[1]["type"]), (&json!(1), &json!("events")));
    assert_eq!((&found[1]["people"], &found[1]["custom_name"]), (&json!([]), &Json::Null));
    let found = project.run(funnel(&["b", "a"], json!({})));
    assert_eq!(counts(&found), [2, 0]);
    assert_eq!(found[1]["average_conversion_time"], Json::Null);
    assert_eq!(counts(&project.run(funnel(&["never", "a"], json!({})))), [0, 0]);
}

// contract: query 83
#[test]
fn unordered_funnels_count_completed_steps() {
    let project = Project::f1();
    let found = project.run(funnel(&["a", "b"], json!({"funnelOrderType": "unordered"})));
    assert_eq!(counts(&found), [3, 1]);
    assert_eq!(each(&found, "name"), ["Completed 1 step", "Completed 2 steps"]);
    assert_eq!(each(&found, "action_id"), [Json::Null, Json::Null]);
}

// contract: query 84
#[test]
fn strict_funnels_allow_no_event_between_steps() {
    let mut project = Project::f1();
    let strict = json!({"funnelOrderType": "strict"});
    assert_eq!(counts(&project.run(funnel(&["a", "b"], strict.clone()))), [2, 1]);
    project.event("p2", "c", "2024-01-01T12:30:00Z", json!({}));
    assert_eq!(counts(&project.run(funnel(&["a", "b"], strict))), [2, 0]);
    assert_eq!(counts(&project.run(funnel(&["a", "b"], json!({})))), [2, 1]);
}

// contract: query 85, 86
#[test]
fn conversion_window_bounds_a_funnel_and_an_event_counts_for_one_step() {
    let project = Project::f1();
    let window = |number: i64, unit: &str| json!({"funnelWindowInterval": number, "funnelWindowIntervalUnit": unit});
    assert_eq!(counts(&project.run(funnel(&["a", "b"], window(30, "minute")))), [2, 0]);
    assert_eq!(counts(&project.run(funnel(&["a", "b"], window(60, "minute")))), [2, 1]);
    assert_eq!(counts(&project.run(funnel(&["a", "a"], window(14, "day")))), [2, 1]);
    assert_eq!(counts(&project.run(funnel(&["a", "a"], window(1, "day")))), [2, 0]);
    project.run_err(funnel(&["a", "b"], window(0, "day")));
}

// contract: query 87, 88
#[test]
fn exclusions_remove_actors_from_funnels() {
    let mut project = Project::f1();
    project.event("p2", "c", "2024-01-01T12:30:00Z", json!({}));
    let exclude = |name: &str, from: i64, to: i64| {
        let mut node = event(name);
        node["funnelFromStep"] = json!(from);
        node["funnelToStep"] = json!(to);
        funnel(&["a", "b"], json!({ "exclusions": [node] }))
    };
    assert_eq!(counts(&project.run(exclude("c", 0, 1))), [1, 0]);
    assert_eq!(counts(&project.run(exclude("d", 0, 1))), [2, 1]);
    for (name, from, to) in [("c", 1, 1), ("c", 1, 0), ("c", 0, 2), ("c", -1, 1), ("a", 0, 1)] {
        assert!(project.run_err(exclude(name, from, to)).starts_with("Exclusion event"));
    }
    let one = project.run_err(funnel(&["a"], json!({})));
    assert_eq!(one, "Funnels require at least two steps before calculating.");
    let many: Vec<String> = (0..21).map(|step| step.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(project.run_err(funnel(&many, json!({}))).contains("at most 20"));
    let gone = with(
        funnel(&["a", "b"], json!({})),
        json!({"series": [event("a"), {"kind": "ActionsNode", "id": 9}]}),
    );
    assert!(project.run_err(gone).contains("no action 9"));
}

// contract: query 89
#[test]
fn funnel_breakdowns_follow_the_attribution_type() {
    let mut project = Project::f1();
    for (id, browser) in [("p4", "Chrome"), ("p5", "Firefox"), ("p6", "")] {
        project.event(id, "a", "2024-01-02T10:00:00Z", json!({ "$browser": browser }));
    }
    project.event("p4", "a", "2024-01-02T11:00:00Z", json!({"$browser": "Safari"}));
    project.event("p4", "b", "2024-01-02T12:00:00Z", json!({"$browser": "Opera"}));
    let ask = |filter: Json, breakdown: Json| {
        let query = with(funnel(&["a", "b"], filter), json!({ "breakdownFilter": breakdown }));
        let found = project.run(query);
        let one = |funnel: &Json| {
            assert_eq!(funnel[0]["breakdown"], funnel[1]["breakdown_value"]);
            (funnel[0]["breakdown"][0].as_str().unwrap().to_owned(), counts(funnel))
        };
        let found: Vec<(String, Vec<Json>)> = found.as_array().unwrap().iter().map(one).collect();
        found
    };
    let expect = |values: &[(&str, u64, u64)]| -> Vec<(String, Vec<Json>)> {
        let one =
            |(value, a, b): &(&str, u64, u64)| ((*value).to_owned(), vec![json!(a), json!(b)]);
        values.iter().map(one).collect()
    };
    let browser = json!({ "breakdown": "$browser" });
    assert_eq!(
        ask(json!({}), browser.clone()),
        expect(&[("Chrome", 2, 1), ("", 1, 0), ("Firefox", 1, 0), ("Safari", 1, 1)])
    );
    assert_eq!(
        ask(json!({"breakdownAttributionType": "last_touch"}), browser.clone()),
        expect(&[
            ("", 1, 0),
            ("Chrome", 1, 0),
            ("Firefox", 1, 0),
            ("Opera", 1, 1),
            ("Safari", 1, 1)
        ])
    );
    // Each value has a funnel of its own, so no actor reaches b.
    assert_eq!(
        ask(json!({"breakdownAttributionType": "all_events"}), browser.clone()),
        expect(&[("Chrome", 2, 0), ("Safari", 2, 0), ("", 1, 0), ("Firefox", 1, 0)])
    );
    let step = json!({"breakdownAttributionType": "step", "breakdownAttributionValue": 1});
    assert_eq!(ask(step, browser), expect(&[("", 4, 1), ("Opera", 1, 1)]));
    let two = json!({"breakdown": "$browser", "breakdown_limit": 2});
    assert_eq!(ask(json!({}), two), expect(&[("Chrome", 2, 1), ("", 1, 0), ("Other", 2, 1)]));
    let none = with(
        funnel(&["never", "b"], json!({})),
        json!({"breakdownFilter": {"breakdown": "$browser"}}),
    );
    assert_eq!(project.run(none), json!([]));
    project.cohort(5, "Friends", &[0]);
    let cohort = json!({"breakdown": [5], "breakdown_type": "cohort"});
    let found =
        project.run(with(funnel(&["a", "b"], json!({})), json!({ "breakdownFilter": cohort })));
    assert_eq!(
        (&found[0][0]["breakdown"], &found[0][0]["breakdown_value"]),
        (&json!("Friends"), &json!(5))
    );
    assert_eq!(counts(&found[0]), [1, 0]);
}

// contract: query 90
#[test]
fn time_to_convert_is_a_histogram() {
    let mut project = Project::f1();
    let times = |filter: Json| {
        funnel(&["a", "b"], with(filter, json!({"funnelVizType": "time_to_convert"})))
    };
    let found = project.run(times(json!({})));
    assert_eq!(found["average_conversion_time"], 3600);
    assert_eq!(found["bins"], json!([[3600, 1], [3660, 0]]));
    let none = project
        .run(times(json!({"funnelWindowInterval": 1, "funnelWindowIntervalUnit": "second"})));
    let nobody = json!({"average_conversion_time": null, "median_conversion_time": null, "bins": [[0, 0], [1, 0]]});
    assert_eq!(none, nobody);
    for (id, minutes) in [("x", 10), ("y", 20), ("z", 60)] {
        project.event(id, "a", "2024-01-02T10:00:00Z", json!({}));
        project.event(
            id,
            "b",
            &format!("2024-01-02T{:02}:{:02}:00Z", 10 + minutes / 60, minutes % 60),
            json!({}),
        );
    }
    let found = project.run(times(json!({"binCount": 3})));
    assert_eq!(found["bins"], json!([[600, 2], [1600, 0], [2600, 0], [3600, 2]]));
    assert_eq!(
        (&found["average_conversion_time"], &found["median_conversion_time"]),
        (&json!(2250), &json!(2400))
    );
    for step in [0, 2] {
        assert!(project.run_err(times(json!({ "funnelToStep": step }))).contains("funnelToStep"));
    }
}

// contract: query 91
#[test]
fn funnel_trends_count_by_day_of_entry() {
    let project = Project::f1();
    let found = project.run(funnel(&["a", "b"], json!({"funnelVizType": "trends"})));
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_eq!(found[0]["data"], json!([50, 0, 0]));
    assert_eq!((&found[0]["count"], &found[0]["days"][2]), (&json!(3), &json!("2024-01-03")));
    assert_eq!(found[0]["labels"][0], "1-Jan-2024");
    let browser = json!({"breakdownFilter": {"breakdown": "$browser"}});
    let found = project.run(with(funnel(&["a", "b"], json!({"funnelVizType": "trends"})), browser));
    assert_eq!(each(&found, "breakdown_value"), [json!(["Chrome"]), json!(["Safari"])]);
    assert_eq!(each(&found, "data"), [json!([0, 0, 0]), json!([100, 0, 0])]);
}

#[test]
fn funnels_can_aggregate_by_session_or_group() {
    let mut project = Project::empty();
    for (session, event, time) in [
        ("s1", "a", "2024-01-01T10:00:00Z"),
        ("s1", "b", "2024-01-01T10:01:00Z"),
        ("s2", "a", "2024-01-01T11:00:00Z"),
        ("", "a", "2024-01-01T12:00:00Z"),
    ] {
        project.event("p", event, time, json!({"$session_id": session}));
    }
    let by = |text: &str| funnel(&["a", "b"], json!({"funnelAggregateByHogQL": text}));
    assert_eq!(counts(&project.run(by("properties.$session_id"))), [2, 1]);
    assert_eq!(counts(&project.run(by("person_id"))), [1, 1]);
    assert_eq!(counts(&project.run(by("concat(event, distinct_id)"))), [1, 0]);
}

#[test]
fn compared_funnels_have_the_steps_of_both_periods() {
    let project = Project::f1();
    let compare = |filter: Json| {
        let more = json!({"dateRange": {"date_from": "2024-01-03", "date_to": "2024-01-03"},
            "compareFilter": {"compare": true, "compare_to": "-2d"}});
        with(funnel(&["a", "b"], filter), more)
    };
    let found = project.run(compare(json!({})));
    assert_eq!(counts(&found), [1, 0, 2, 1]);
    assert_eq!(each(&found, "compare_label"), ["current", "current", "previous", "previous"]);
    let listed = |point: Json| project.actors(&compare(json!({})), &point).unwrap().actors.len();
    assert_eq!(listed(json!({"funnelStep": 1, "compare": "previous"})), 2);
    assert_eq!(listed(json!({"funnelStep": 1})), 1);
    let plain = funnel(&["a", "b"], json!({}));
    assert!(project.actors(&plain, &json!({"compare": "previous"})).is_err());

    // Every value has a funnel in both periods.
    let by_browser = json!({"breakdownFilter": {"breakdown": "$browser"}});
    let found = project.run(with(compare(json!({})), by_browser));
    let funnels: Vec<_> = found.as_array().unwrap().iter().map(counts).collect();
    assert_eq!(funnels, [[1, 0], [0, 0], [1, 0], [1, 1]]);
    let of = |at: usize| (&found[at][0]["breakdown_value"][0], &found[at][0]["compare_label"]);
    assert_eq!(
        (of(1), of(3)),
        ((&json!("Safari"), &json!("current")), (&json!("Safari"), &json!("previous")))
    );

    let found = project.run(compare(json!({"funnelVizType": "trends"})));
    assert_eq!(each(&found, "data"), [json!([0]), json!([50])]);
    assert_eq!(each(&found, "days"), [json!(["2024-01-03"]), json!(["2024-01-01"])]);

    let found = project.run(compare(json!({"funnelVizType": "time_to_convert"})));
    assert_eq!(
        each(&found, "bins"),
        [json!([[3600, 0], [3660, 0]]), json!([[3600, 1], [3660, 0]])]
    );
    assert_eq!(each(&found, "average_conversion_time"), [Json::Null, json!(3600)]);
    let never = with(
        compare(json!({"funnelVizType": "time_to_convert"})),
        json!({"series": [event("b"), event("a")]}),
    );
    assert_eq!(each(&project.run(never), "bins"), [json!([]), json!([])]);
}

#[test]
fn optional_steps_count_where_they_lie_between_required_ones() {
    let mut project = Project::f1();
    project.event("p1", "c", "2024-01-01T11:00:00Z", json!({}));
    project.event("p2", "c", "2024-01-01T14:00:00Z", json!({}));
    let optional = |steps: &[&str], optional: &[usize], filter: Json| {
        let mut query = funnel(steps, filter);
        optional.iter().for_each(|step| query["series"][*step]["optionalInFunnel"] = json!(true));
        query
    };
    let query = optional(&["a", "b", "c"], &[1], json!({}));
    let found = project.run(query.clone());
    assert_eq!(counts(&found), [2, 1, 2]);
    // Both from the required step before.
    assert_eq!(each(&found, "average_conversion_time"), [Json::Null, json!(3600), json!(5400)]);
    let listed =
        |step: i64| project.actors(&query, &json!({ "funnelStep": step })).unwrap().actors.len();
    assert_eq!((listed(2), listed(3), listed(-2), listed(-3)), (1, 2, 1, 0));
    let strict = optional(&["a", "b", "c"], &[1], json!({"funnelOrderType": "strict"}));
    assert_eq!(counts(&project.run(strict)), [2, 1, 2]);
    // The furthest step counts, so of two optional ones the later.
    assert_eq!(counts(&project.run(optional(&["a", "c", "b"], &[1, 2], json!({})))), [2, 1, 1]);

    for (query, why) in [
        (optional(&["a", "b"], &[0], json!({})), "The first step"),
        (optional(&["a", "b", "b"], &[1], json!({})), "the same as the following"),
        (
            optional(&["a", "b"], &[1], json!({"funnelOrderType": "unordered"})),
            "Optional steps need",
        ),
        (optional(&["a", "b"], &[1], json!({"funnelVizType": "trends"})), "Optional steps need"),
    ] {
        assert!(project.run_err(query).contains(why));
    }
    project.run(optional(&["a", "b", "b"], &[1, 2], json!({})));
}

#[test]
fn conversion_over_time_can_end_with_the_last_window_that_has_passed() {
    let project = Project::f1();
    let trends = |days: i64| {
        let filter = json!({"funnelVizType": "trends", "funnelWindowInterval": days,
            "hideIncompleteConversionWindowPeriods": true});
        project.run(funnel(&["a", "b"], filter))[0].clone()
    };
    assert_eq!(trends(1)["days"], json!(["2024-01-01"]));
    assert_eq!((&trends(1)["data"], &trends(1)["count"]), (&json!([50]), &json!(1)));
    assert_eq!(trends(14)["days"], json!([]));
}
