//! Web analytics queries over two visitors.

use serde_json::{Value, json};

use crate::harness::{Server, Store};
use crate::queries::run::ask;

/// On 2 January p1 views two pages for two minutes, clicks a link away and signs up; p2 bounces. On the
/// day before, p1 bounces.
fn visited() -> Server {
    let server = Store::Sqlite.start();
    let event = |id: &str, name: &str, at: &str, session: &str, more: Value| {
        let mut properties = json!({ "$session_id": session, "$browser": "Chrome" });
        properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "event": name, "distinct_id": id, "timestamp": format!("2024-01-{at}Z"),
            "properties": properties })
    };
    let page = |path: &str| {
        json!({ "$pathname": path, "$current_url": format!("https://shop.test{path}?x=1"),
            "$host": "shop.test", "$browser_language": "en-US", "$geoip_country_code": "DE",
            "$geoip_city_name": "Berlin", "$viewport_width": 800, "$viewport_height": 600,
            "$timezone_offset": -60 })
    };
    let left = |path: &str, seconds: f64| {
        json!({ "$prev_pageview_pathname": path, "$prev_pageview_duration": seconds,
            "$prev_pageview_max_scroll_percentage": 0.5,
            "$prev_pageview_max_content_percentage": 0.9 })
    };
    let both = |mut one: Value, other: Value| {
        one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        one
    };
    let utm = json!({ "utm_source": "news", "$referrer": "https://news.test/a?b=c",
        "$referring_domain": "news.test" });
    let old = "018cc251-f400-7000-8000-000000000001";
    let long = "018cc778-5000-7000-8000-000000000002";
    let short = "018cc778-5000-7000-8000-000000000003";
    server.ingest(&[
        event("p1", "$pageview", "01T10:00:00", old, page("/")),
        event("p1", "$pageview", "02T10:00:00", long, both(page("/"), utm)),
        event("p1", "$pageview", "02T10:01:00", long, both(page("/buy"), left("/", 60.0))),
        event("p1", "sign up", "02T10:01:30", long, page("/buy")),
        event("p1", "$rageclick", "02T10:01:40", long, page("/buy")),
        event(
            "p1",
            "$autocapture",
            "02T10:02:00",
            long,
            both(
                page("/buy"),
                json!({ "$event_type": "click", "$external_click_url": "https://pay.test/x?y=z" }),
            ),
        ),
        event("p2", "$pageview", "02T11:00:00", short, page("/")),
        event(
            "p2",
            "$web_vitals",
            "02T11:00:01",
            short,
            both(page("/"), json!({ "$web_vitals_LCP_value": 1000.0 })),
        ),
    ]);
    server
}

fn web(server: &Server, kind: &str, more: Value) -> Value {
    let mut query = json!({ "kind": kind, "properties": [],
        "dateRange": { "date_from": "2024-01-02", "date_to": "2024-01-02" } });
    query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let asked = ask(server, json!({ "query": query, "refresh": "force_blocking" }));
    assert_eq!(asked.status, 200, "{kind} {more}: {}", asked.text());
    asked.json()
}

#[test]
fn overview_counts_visitors_views_sessions_duration_and_bounces() {
    let server = visited();
    let compared = json!({ "compareFilter": { "compare": true } });
    let told = web(&server, "WebOverviewQuery", compared.clone());
    let numbers: Vec<Value> = told["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| json!([item["key"], item["kind"], item["value"], item["previous"]]))
        .collect();
    assert_eq!(
        json!(numbers),
        json!([
            ["visitors", "unit", 2.0, 1.0],
            ["views", "unit", 3.0, 1.0],
            ["sessions", "unit", 2.0, 1.0],
            ["session duration", "duration_s", 60.5, 0.0],
            ["bounce rate", "percentage", 50.0, 100.0],
        ])
    );
    assert_eq!(told["results"][1]["changeFromPreviousPct"], 200);
    let statement = json!({ "kind": "HogQLQuery", "query": told["hogql"] });
    ask(&server, json!({ "query": statement })).expect(200);
    let mut goal = json!({ "conversionGoal": { "customEventName": "sign up" } });
    let told = web(&server, "WebOverviewQuery", goal.clone());
    let values: Vec<&Value> =
        told["results"].as_array().unwrap().iter().map(|item| &item["value"]).collect();
    assert_eq!(values, [&json!(2.0), &json!(1.0), &json!(1.0), &json!(50.0)]);
    assert_eq!(told["results"][0]["previous"], Value::Null);
    goal["properties"] =
        json!([{ "key": "$entry_utm_source", "type": "session", "value": "news" }]);
    assert_eq!(web(&server, "WebOverviewQuery", goal)["results"][0]["value"], 1.0);
}

#[test]
fn stats_table_breaks_visitors_and_views_down() {
    let server = visited();
    for (by, expected) in [
        ("Page", json!([["/", [2, null], [2, null]], ["/buy", [1, null], [1, null]]])),
        ("InitialPage", json!([["/", [2, null], [3, null]]])),
        ("ExitPage", json!([["/buy", [1, null], [2, null]], ["/", [1, null], [1, null]]])),
        ("ExitClick", json!([["https://pay.test/x?y=z", [1, null], [2, null]]])),
        (
            "PreviousPage",
            json!([["/", [1, null], [1, null]], ["https://news.test/a?b=c", [1, null], [1, null]]]),
        ),
        ("InitialReferringDomain", json!([["news.test", [1, null], [2, null]]])),
        ("InitialReferringURL", json!([["https://news.test/a", [1, null], [2, null]]])),
        ("InitialUTMSource", json!([["news", [1, null], [2, null]], [null, [1, null], [1, null]]])),
        ("InitialUTMCampaign", json!([[null, [2, null], [3, null]]])),
        ("Browser", json!([["Chrome", [2, null], [3, null]]])),
        ("OS", json!([])),
        ("Viewport", json!([[["800", "600"], [2, null], [3, null]]])),
        ("Country", json!([["DE", [2, null], [3, null]]])),
        ("Region", json!([])),
        ("City", json!([[["DE", "Berlin"], [2, null], [3, null]]])),
        ("Timezone", json!([[1.0, [2, null], [3, null]]])),
        ("Language", json!([["en-US", [2, null], [3, null]]])),
        ("DeviceType", json!([])),
        ("ScreenName", json!([])),
    ] {
        let told = web(&server, "WebStatsTableQuery", json!({ "breakdownBy": by }));
        let rows: Vec<Value> = told["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| json!(row.as_array().unwrap()[..3]))
            .collect();
        assert_eq!(json!(rows), expected, "{by}: {told}");
    }
    for by in ["InitialChannelType", "InitialUTMSourceMediumCampaign", "InitialUTMTerm"] {
        let told = web(&server, "WebStatsTableQuery", json!({ "breakdownBy": by }));
        assert!(!told["results"].as_array().unwrap().is_empty(), "{by}: {told}");
    }
}

#[test]
fn stats_table_adds_bounces_scrolling_time_and_conversions() {
    let server = visited();
    let page = |more: Value| {
        let mut query = json!({ "breakdownBy": "Page", "compareFilter": { "compare": true } });
        query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        web(&server, "WebStatsTableQuery", query)
    };
    let bounced = page(json!({ "includeBounceRate": true }));
    assert_eq!(bounced["columns"][3], "context.columns.bounce_rate");
    assert_eq!(bounced["results"][0][3], json!([0.5, 1.0]), "{bounced}");
    assert_eq!(bounced["results"][0][4], json!(2.0 / 3.0));
    let scrolled = page(json!({ "includeBounceRate": true, "includeScrollDepth": true }));
    assert_eq!(scrolled["results"][0][4], json!([0.5, null]), "{scrolled}");
    assert_eq!(scrolled["results"][0][5], json!([1.0, null]), "{scrolled}");
    let stayed = page(json!({ "includeAvgTimeOnPage": true }));
    assert_eq!(stayed["results"][0][3], json!([60.0, null]), "{stayed}");
    let goal = json!({ "conversionGoal": { "customEventName": "sign up" }, "includeHost": true });
    let converted = page(goal);
    let best = &converted["results"][0];
    assert_eq!([&best[0], &best[4]], [&json!("shop.test/buy"), &json!([1.0, null])]);
    assert_eq!([&best[2], &best[3]], [&json!([1, 0]), &json!([1, 0])]);
}

#[test]
fn stats_table_is_ordered_and_paged() {
    let server = visited();
    let table = |more: Value| {
        let mut query = json!({ "breakdownBy": "Page" });
        query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        web(&server, "WebStatsTableQuery", query)
    };
    let ascending = table(json!({ "orderBy": ["Views", "ASC"], "limit": 1 }));
    assert_eq!(
        [&ascending["results"][0][0], &ascending["hasMore"]],
        [&json!("/buy"), &json!(true)]
    );
    let second = table(json!({ "limit": 1, "offset": 1 }));
    assert_eq!([&second["results"][0][0], &second["hasMore"]], [&json!("/buy"), &json!(false)]);
    let clicks = web(&server, "WebStatsTableQuery", json!({ "breakdownBy": "FrustrationMetrics" }));
    assert_eq!(clicks["results"][0], json!(["/buy", [1, null], [0, null], [0, null], ""]));
    assert_eq!(clicks["results"].as_array().unwrap().len(), 1);
}

#[test]
fn goals_clicks_vitals_and_urls_are_counted() {
    let server = visited();
    let action = json!({ "name": "Signs up", "steps": [{ "event": "sign up" }] });
    server.post("/api/projects/1/actions/", action).expect(201);
    let goals = web(&server, "WebGoalsQuery", json!({}));
    assert_eq!(goals["results"], json!([["Signs up", [1, null], [1, null], [0.5, null]]]));
    assert_eq!(goals["columns"][1], "context.columns.converting_users");
    let clicks = web(&server, "WebExternalClicksTableQuery", json!({ "stripQueryParams": true }));
    assert_eq!(clicks["results"], json!([["https://pay.test/x", 1, 1]]));
    let paths = web(
        &server,
        "WebVitalsPathBreakdownQuery",
        json!({ "metric": "LCP", "percentile": "p75", "thresholds": [2500, 4000] }),
    );
    let good = json!([{ "path": "/", "value": 1000.0 }]);
    assert_eq!(paths["results"], json!([{ "good": good, "needs_improvements": [], "poor": [] }]));
    let urls = web(
        &server,
        "WebPageURLSearchQuery",
        json!({ "searchTerm": "/BUY", "stripQueryParams": true }),
    );
    assert_eq!(urls["results"], json!([{ "url": "https://shop.test/buy", "count": 1 }]));
    let vitals = web(
        &server,
        "WebVitalsQuery",
        json!({ "source": { "kind": "TrendsQuery",
            "dateRange": { "date_from": "2024-01-02", "date_to": "2024-01-02" },
            "series": [{ "kind": "EventsNode", "event": "$web_vitals", "math": "p75",
                "math_property": "$web_vitals_LCP_value", "custom_name": "LCP" }] } }),
    );
    assert_eq!(vitals["results"][0]["data"], json!([1000]));
    assert_eq!(vitals["results"][0]["action"]["custom_name"], "LCP");
}

#[test]
fn invalid_web_queries_are_rejected() {
    let server = Store::Sqlite.start();
    for (query, code) in [
        (json!({ "kind": "WebOverviewQuery", "frobnicate": 1 }), "parse_error"),
        (json!({ "kind": "WebStatsTableQuery" }), "parse_error"),
        (json!({ "kind": "WebStatsTableQuery", "breakdownBy": "Frobnicate" }), "parse_error"),
        (json!({ "kind": "WebOverviewQuery", "conversionGoal": {} }), "parse_error"),
        (
            json!({ "kind": "WebOverviewQuery", "conversionGoal": { "actionId": 99 } }),
            "invalid_input",
        ),
        (json!({ "kind": "WebVitalsQuery", "source": { "kind": "HogQLQuery" } }), "parse_error"),
        (
            json!({ "kind": "WebOverviewQuery", "properties": [{ "key": "a", "type": "frob" }] }),
            "invalid_input",
        ),
    ] {
        let refused = ask(&server, json!({ "query": query })).expect(400).json();
        assert_eq!(refused["code"], code, "{query}: {refused}");
    }
}
