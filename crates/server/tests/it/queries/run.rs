//! The query endpoint: insights, HogQL, events and async queries.

use serde_json::{Value, json};

use crate::harness::{Response, Server, Store};

/// Fixture F1 of the contract.
pub fn f1() -> Server {
    let server = Store::Sqlite.start();
    let event = |id: &str, name: &str, at: &str, properties: Value| {
        let timestamp = format!("2024-01-{at}:00Z");
        json!({ "event": name, "distinct_id": id, "timestamp": timestamp, "properties": properties })
    };
    let with = |browser: &str, amount: i64| json!({ "$browser": browser, "amount": amount });
    server.ingest(&[
        event("p1", "a", "01T10:00", with("Chrome", 10)),
        event("p2", "a", "01T12:00", with("Safari", 20)),
        event("p2", "b", "01T13:00", json!({})),
        event("p3", "b", "02T10:00", json!({})),
        event("p1", "a", "03T09:00", with("Chrome", 30)),
    ]);
    server
}

pub fn ask(server: &Server, body: Value) -> Response {
    server.post("/api/projects/1/query/", body)
}

fn sql(server: &Server, text: &str) -> Value {
    let query = json!({ "kind": "HogQLQuery", "query": text });
    ask(server, json!({ "query": query, "refresh": "force_blocking" })).expect(200).json()
}

pub fn rows(server: &Server, text: &str) -> Value {
    sql(server, text)["results"].clone()
}

fn refused(server: &Server, text: &str) -> String {
    let query = json!({ "kind": "HogQLQuery", "query": text });
    let response = ask(server, json!({ "query": query })).expect(400).json();
    assert_eq!(
        [&response["type"], &response["code"], &response["attr"]],
        [&json!("validation_error"), &json!("invalid_input"), &Value::Null],
        "{text}"
    );
    response["detail"].as_str().unwrap().to_owned()
}

pub fn trends(more: Value) -> Value {
    let mut query = json!({
        "kind": "TrendsQuery",
        "series": [{ "kind": "EventsNode", "event": "a" }],
        "dateRange": { "date_from": "2024-01-01", "date_to": "2024-01-03" },
    });
    query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    query
}

#[test]
fn insights_answer_the_statement_that_computes_them() {
    let server = f1();
    let query = trends(json!({ "filterTestAccounts": true }));
    let insight = ask(&server, json!({ "query": query, "refresh": "force_blocking" }));
    let insight = insight.expect(200).json();
    let text = insight["hogql"].as_str().unwrap();
    let values: Vec<f64> = rows(&server, text)
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[1].as_f64().unwrap())
        .collect();
    assert_eq!(values, [2.0, 1.0], "{text}");
    assert_eq!(insight["results"][0]["data"], json!([2, 0, 1]));
    let metadata = &insight["query_metadata"];
    assert!(metadata["rows_scanned"].as_u64() >= metadata["rows_matched"].as_u64(), "{metadata}");
    assert_eq!(metadata["rows_matched"], 3, "{metadata}");
}

#[test]
fn query_command_prints_rows_or_the_plan() {
    let server = f1();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), server.key(&["query:read"])).unwrap();
    let (address, file) = (server.address().to_string(), file.path().to_str().unwrap());
    let run = |more: &[&str]| {
        let args = ["query", "--listen", &address, "--personal-api-key-file", file];
        server.instance().run(&[&args[..], more].concat())
    };
    let by_event = "select event, count() from events group by event order by event";
    let (ok, printed, stderr) = run(&[by_event]);
    assert!(ok, "{stderr}");
    assert_eq!(printed, "[\"event\",\"count()\"]\n[\"a\",3]\n[\"b\",2]");
    let statement = "select count() from events where event = 'a' and person_id in \
        (select person_id from events where event = 'b')";
    let (ok, plan, stderr) = run(&[statement, "--explain"]);
    assert!(ok, "{stderr}");
    for part in ["subquery of IN:", "result:", "events: 1 rows", "rows_matched: 3"] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
    let peak = plan.lines().find_map(|line| line.strip_prefix("peak_memory_bytes: ")).unwrap();
    assert!(peak.parse::<u64>().unwrap() > 0, "{plan}");
    let (ok, _, stderr) = run(&["select nope from events"]);
    assert!(!ok && stderr.contains("nope"), "{stderr}");
}

// contract: query 1-3, 12, 13
#[test]
fn invalid_queries_are_rejected() {
    let server = f1();
    for body in [
        json!({}),
        json!({ "query": 1 }),
        json!({ "query": {} }),
        json!({ "query": { "kind": "Nope" } }),
        json!({ "query": { "kind": "HogQLQuery" } }),
        json!({ "query": { "kind": "HogQLQuery", "query": "select 1", "strange": 1 } }),
        json!({ "query": { "kind": "HogQLQuery", "query": "select 1" }, "refresh": "sometimes" }),
        json!({ "query": { "kind": "SavedInsightNode" } }),
    ] {
        let response = ask(&server, body.clone()).expect(400).json();
        let told = [&response["type"], &response["code"]];
        assert_eq!(told, [&json!("invalid_request"), &json!("parse_error")], "{body}");
    }
    let query = json!({ "kind": "HogQLQuery", "query": "select 1" });
    let elsewhere = server.post("/api/projects/1/query/TrendsQuery/", json!({ "query": query }));
    elsewhere.expect(400);
    server.post("/api/projects/1/query/HogQLQuery/", json!({ "query": query })).expect(200);

    let key = server.key(&["dashboard:read"]);
    let call = server.call("POST", "/api/projects/1/query/").key(&key);
    let denied = call.json(json!({ "query": query })).send().expect(403).json();
    assert!(denied["detail"].as_str().unwrap().contains("query:read"), "{denied}");

    assert!(refused(&server, "select * from nope").contains("nope"));
    assert!(refused(&server, "select nope from events").contains("nope"));
    assert!(refused(&server, "selec 1").contains("line 1, column 1"));
    refused(&server, "drop table events");
    let unknown = refused(&server, "select frobnicate(1)");
    assert!(unknown.contains("Unsupported function call 'frobnicate(...)'"), "{unknown}");
}

// contract: query 4-6
#[test]
fn query_result_is_cached_until_forced() {
    let server = f1();
    let asked = |refresh: &str| {
        let query = json!({ "kind": "HogQLQuery", "query": "select 1" });
        ask(&server, json!({ "query": query, "refresh": refresh })).expect(200).json()
    };
    let first = asked("blocking");
    assert_eq!(first["results"], json!([[1]]));
    assert_eq!(first["columns"], json!(["1"]));
    assert_eq!(first["types"], json!([["1", "UInt8"]]));
    assert_eq!(first["is_cached"], json!(false));
    for name in ["hogql", "timings", "error", "modifiers", "query_status", "resolved_date_range"] {
        assert!(first.get(name).is_some(), "{name}");
    }
    let again = asked("blocking");
    assert_eq!(again["is_cached"], json!(true));
    for name in ["cache_key", "last_refresh"] {
        assert_eq!(again[name], first[name], "{name}");
    }
    assert_eq!(asked("force_blocking")["is_cached"], json!(false));
    assert_eq!(asked("force_cache")["is_cached"], json!(true));
}

/// Polls an async query until it has ended.
fn poll_until_ended(server: &Server, path: &str) -> Response {
    loop {
        let told = server.get(path);
        if told.status != 202 {
            return told;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

// contract: query 7-9
#[test]
fn async_query_runs_in_the_background() {
    let server = f1();
    let query = json!({ "kind": "HogQLQuery", "query": "select count() from events" });
    let body = json!({ "query": query, "refresh": "async", "client_query_id": "x1" });
    let started = ask(&server, body).expect(202).json()["query_status"].clone();
    assert_eq!([&started["id"], &started["complete"]], [&json!("x1"), &json!(false)]);
    let path = "/api/projects/1/query/x1/";
    let done = poll_until_ended(&server, path).expect(200).json();
    assert_eq!(done["query_status"]["results"]["results"], json!([[5]]));
    server.get("/api/projects/1/query/unknown/").expect(404);
    assert!(server.delete(path).expect(200).json()["message"].is_string());
    assert!(
        server.delete("/api/projects/1/query/nobody/").expect(200).json()["message"].is_string()
    );

    let bad = json!({ "kind": "HogQLQuery", "query": "select nope from events" });
    let body = json!({ "query": bad, "refresh": "force_async", "client_query_id": "x2" });
    ask(&server, body).expect(202);
    let path = "/api/projects/1/query/x2/";
    let failed = poll_until_ended(&server, path).expect(400).json();
    let told = failed["query_status"]["error_message"].as_str().unwrap();
    assert!(told.contains("nope"), "{told}");
}

// contract: query 17-22, 30, 32, 35, 36, 110
#[test]
fn hogql_statements_return_rows() {
    let server = f1();
    let counted =
        sql(&server, "select event, count() as c from events group by event order by c desc");
    assert_eq!(counted["results"], json!([["a", 3], ["b", 2]]));
    assert_eq!(counted["columns"], json!(["event", "c"]));
    for (text, expected) in [
        (
            "select properties.$browser from events where event = 'a' order by timestamp",
            json!([["Chrome"], ["Safari"], ["Chrome"]]),
        ),
        ("select properties.missing from events limit 1", json!([[null]])),
        ("select count() from events where properties.missing != 'x'", json!([[5]])),
        ("select count() from events where properties.missing = null", json!([[5]])),
        ("select sum(properties.amount) from events", json!([[60.0]])),
        ("select arrayJoin([1, 2])", json!([[1], [2]])),
        ("select [1, 2][1], 'a' || 'b', null ?? 3", json!([[1, "ab", 3]])),
        ("with t as (select event from events) select count() from t", json!([[5]])),
        ("select n from (select 1 as n union all select 2 as n) order by n", json!([[1], [2]])),
        (
            "select dateDiff('day', toDateTime('2024-01-01'), toDateTime('2024-01-03'))",
            json!([[2]]),
        ),
        ("select quantile(0.5)(x) from (select arrayJoin([1, 2, 3, 4]) as x)", json!([[2.5]])),
        ("select 0.0 / 0", json!([[null]])),
        ("select count(distinct person_id) from events", json!([[3]])),
    ] {
        assert_eq!(rows(&server, text), expected, "{text}");
    }
}

// contract: query 14-16
#[test]
fn rows_are_bounded() {
    let server = Store::Sqlite.start();
    let events: Vec<Value> =
        (0..150).map(|n| json!({ "event": "e", "distinct_id": format!("d{n}") })).collect();
    server.ingest(&events);
    let default = sql(&server, "select uuid from events");
    assert_eq!(default["results"].as_array().unwrap().len(), 100);
    assert_eq!([&default["hasMore"], &default["limit"]], [&json!(true), &json!(100)]);
    let chosen = sql(&server, "select uuid from events limit 120");
    assert_eq!(chosen["results"].as_array().unwrap().len(), 120);
    assert_eq!(chosen["hasMore"], Value::Null);
    let most = sql(&server, "select number from numbers(70000) limit 60000");
    assert_eq!(most["results"].as_array().unwrap().len(), 50_000);
}

// contract: query 23, 24, 34, 37
#[test]
fn query_uses_current_persons_and_groups_of_its_project() {
    let server = f1();
    server.ingest(&[
        json!({ "event": "$set", "distinct_id": "p1", "$set": { "email": "p1@example.com" } }),
        json!({ "event": "$groupidentify", "distinct_id": "p1", "properties": {
            "$group_type": "company", "$group_key": "acme", "$group_set": { "plan": "pro" } } }),
    ]);
    let emails = "select person.properties.email from events where event = 'a' order by timestamp";
    let both = json!([["p1@example.com"], [null], ["p1@example.com"]]);
    assert_eq!(rows(&server, emails), both);
    assert_eq!(rows(&server, "select key from groups where index = 0"), json!([["acme"]]));
    let persons = "select count(distinct person_id) from events where event in ('a', 'b')";
    assert_eq!(rows(&server, persons), json!([[3]]));
    server.ingest(&[json!({ "event": "$identify", "distinct_id": "p1",
        "properties": { "$anon_distinct_id": "p2" } })]);
    assert_eq!(rows(&server, persons), json!([[2]]));

    let other = server.post("/api/organizations/@current/projects/", json!({ "name": "Other" }));
    let other = other.expect(201).json();
    let body = json!({ "api_key": other["api_token"], "event": "secret", "distinct_id": "x" });
    server.call("POST", "/capture/").no_key().json(body).send().expect(200);
    server.wait_until_applied();
    let seen = "select count() from events where event = 'secret' or team_id = 2";
    assert_eq!(rows(&server, seen), json!([[0]]));
    let query = json!({ "kind": "HogQLQuery", "query": "select event from events" });
    let path = format!("/api/projects/{}/query/", other["id"]);
    let theirs = server.post(&path, json!({ "query": query })).expect(200).json();
    assert_eq!(theirs["results"], json!([["secret"]]));
}

// contract: query 27-29
#[test]
fn hogql_placeholders_and_filters_are_substituted() {
    let server = f1();
    let hogql = |text: &str, more: Value| {
        let mut query = json!({ "kind": "HogQLQuery", "query": text });
        query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(&server, json!({ "query": query }))
    };
    let given = hogql("select {x}", json!({ "values": { "x": "hi" } })).expect(200).json();
    assert_eq!(given["results"], json!([["hi"]]));
    hogql("select {x}", json!({})).expect(400);
    let variables =
        json!({ "variables": { "id": { "variableId": "id", "code_name": "n", "value": 3 } } });
    let given = hogql("select {variables.n} + 1", variables).expect(200).json();
    assert_eq!(given["results"], json!([[4]]));

    let count = "select count() from events where {filters}";
    let all = hogql(count, json!({})).expect(200).json();
    assert_eq!(all["results"], json!([[5]]));
    let filters = json!({ "dateRange": { "date_from": "2024-01-02" } });
    let some = hogql(count, json!({ "filters": filters })).expect(200).json();
    assert_eq!(some["results"], json!([[2]]));
    for (filter, expected) in [
        (json!({ "key": "$browser", "value": "Chrome", "type": "event" }), 2),
        (json!({ "key": "$browser", "value": ["Chrome", "Safari"] }), 3),
        (json!({ "key": "$browser", "value": "Chrome", "operator": "is_not" }), 3),
        (json!({ "key": "amount", "value": 15, "operator": "gt" }), 2),
        (json!({ "key": "$browser", "value": "SAF", "operator": "icontains" }), 1),
        (json!({ "key": "$browser", "value": "^C", "operator": "regex" }), 2),
        (json!({ "key": "$browser", "operator": "is_not_set" }), 2),
        (json!({ "key": "properties.amount > 15", "type": "hogql" }), 2),
    ] {
        let query = json!({ "kind": "HogQLQuery", "query": count });
        let over = json!({ "properties": [filter] });
        let body = json!({ "query": query, "filters_override": over });
        let told = ask(&server, body).expect(200).json();
        assert_eq!(told["results"], json!([[expected]]), "{over}");
    }
}

// contract: query 31
#[test]
fn cohorts_are_resolved_in_every_query_kind() {
    let server = f1();
    let ids = server.get("/api/projects/1/persons/?distinct_id=p1").expect(200).json();
    let list = json!({ "name": "list", "is_static": true,
        "_create_static_person_ids": [ids["results"][0]["uuid"]] });
    let cohort = server.post("/api/projects/1/cohorts/", list).expect(201).json()["id"].clone();
    let inside = format!("select count() from events where person_id in cohort {cohort}");
    assert_eq!(rows(&server, &inside), json!([[2]]));
    for (operator, expected) in [("in", 2), ("not_in", 3)] {
        let filter =
            json!({ "key": "id", "type": "cohort", "value": cohort, "operator": operator });
        let on_top = json!({ "properties": [filter.clone()] });
        let text = "select count() from events where {filters}";
        let query = json!({ "kind": "HogQLQuery", "query": text });
        let body = json!({ "query": query, "filters_override": on_top });
        assert_eq!(ask(&server, body).expect(200).json()["results"], json!([[expected]]));
        let query = json!({ "kind": "EventsQuery", "select": ["count()"], "after": "all",
            "properties": [filter] });
        let told = ask(&server, json!({ "query": query })).expect(200).json();
        assert_eq!(told["results"], json!([[expected]]), "{operator}");
    }
    let query = json!({ "kind": "HogQLQuery", "query": "select 1" });
    let body = json!({ "query": query, "variables_override": { "a": { "value": 1 } } });
    ask(&server, body).expect(400);
}

// contract: query 25, 26
#[test]
fn query_times_use_the_project_timezone() {
    let server = f1();
    server.patch("/api/projects/1/", json!({ "timezone": "Europe/Berlin" })).expect(200);
    let text = "select toDateTime('2024-01-01 00:00:00')";
    assert_eq!(rows(&server, text), json!([["2024-01-01T00:00:00+01:00"]]));
    let text = "select toStartOfDay(timestamp) from events order by timestamp limit 1";
    assert_eq!(rows(&server, text), json!([["2024-01-01T00:00:00+01:00"]]));
}

// contract: query 38-45
#[test]
fn events_query_selects_columns() {
    let server = f1();
    let events = |more: Value| {
        let mut query = json!({ "kind": "EventsQuery", "after": "all" });
        query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(&server, json!({ "query": query })).expect(200).json()
    };
    let listed = events(json!({ "select": ["event", "timestamp"] }));
    assert_eq!(listed["results"][0], json!(["a", "2024-01-03T09:00:00Z"]));
    assert_eq!(listed["types"][0], json!("String"));
    assert_eq!(listed["hasMore"], json!(false));
    let recent = events(json!({ "select": ["event"], "after": null }));
    assert_eq!(recent["results"], json!([]));
    let counted = events(json!({ "select": ["event", "count()"] }));
    assert_eq!(counted["results"], json!([["a", 3], ["b", 2]]));
    let many = events(json!({ "select": ["event", "count()"], "where": ["count() > 2"] }));
    assert_eq!(many["results"], json!([["a", 3]]));
    let whole = events(json!({ "select": ["*"] }));
    assert_eq!(whole["results"][0][0]["properties"]["$browser"], "Chrome");
    let person = events(json!({ "select": ["person", "timestamp"] }));
    assert_eq!(person["results"][0][0]["distinct_id"], "p1");
    let first = events(json!({ "select": ["event", "timestamp"], "limit": 1 }));
    assert_eq!(first["hasMore"], json!(true));
    assert_eq!(first["nextCursor"], json!("2024-01-03T09:00:00Z"));
    let filter =
        json!({ "key": "$browser", "value": ["Chrome"], "operator": "exact", "type": "event" });
    let chrome = events(json!({ "select": ["event"], "properties": [filter] }));
    assert_eq!(chrome["results"].as_array().unwrap().len(), 2);
}

// contract: query 46, 100-102, 107, 108
#[test]
fn insight_results_agree_alone_on_dashboards_and_on_shared_pages() {
    let server = f1();
    let asked = ask(&server, json!({ "query": trends(json!({})) })).expect(200).json();
    let item = &asked["results"][0];
    assert_eq!(item["data"], json!([2, 0, 1]));
    assert_eq!([&item["count"], &item["label"]], [&json!(3), &json!("a")]);
    assert_eq!(item["labels"][0], "1-Jan-2024");
    let wrapped = json!({ "kind": "InsightVizNode", "source": trends(json!({})) });
    let same = ask(&server, json!({ "query": wrapped.clone() })).expect(200).json();
    assert_eq!(same["results"], asked["results"]);

    let new = json!({ "name": "Visits", "query": wrapped });
    let insight = server.post("/api/projects/1/insights/", new).expect(201).json();
    assert_eq!([&insight["query"], &insight["filters"]], [&wrapped, &json!({})]);
    let path = format!("/api/projects/1/insights/{}/", insight["id"]);
    let fresh = server.get(&format!("{path}?refresh=blocking")).expect(200).json();
    assert_eq!(fresh["result"], asked["results"]);
    let table = server.get(&format!("{path}?format=csv")).expect(200).text();
    let expected = "series,1-Jan-2024,2-Jan-2024,3-Jan-2024\r\na,2,0,1\r\n";
    assert_eq!(table, expected);
    let funnel = json!({ "kind": "FunnelsQuery", "funnelsFilter": { "funnelVizType": "time_to_convert" },
        "series": [{ "kind": "EventsNode", "event": "a" }, { "kind": "EventsNode", "event": "b" }],
        "dateRange": { "date_from": "2024-01-01", "date_to": "2024-01-03" } });
    let funnel = server.post("/api/projects/1/insights/", json!({ "query": funnel })).expect(201);
    let funnel = format!("/api/projects/1/insights/{}/", funnel.json()["id"]);
    let table = server.get(&format!("{funnel}?format=csv&refresh=blocking")).expect(200).text();
    assert_eq!(table, "seconds,actors\r\n3600,1\r\n3660,0\r\n");
    let other =
        json!({ "kind": "InsightVizNode", "source": trends(json!({ "interval": "week" })) });
    let other = server.post("/api/projects/1/insights/", json!({ "query": other })).expect(201);
    assert_eq!(other.json()["result"], Value::Null);
    let bad = json!({ "query": { "kind": "NopeQuery" } });
    server.post("/api/projects/1/insights/", bad).expect(400);

    let dashboard = server.post("/api/projects/1/dashboards/", json!({ "name": "Board" }));
    let dashboard = dashboard.expect(201).json()["id"].clone();
    server.patch(&path, json!({ "dashboards": [dashboard] })).expect(200);
    let board = format!("/api/projects/1/dashboards/{dashboard}/");
    let tile = |path: &str| server.get(path).expect(200).json()["tiles"][0]["insight"].clone();
    assert_eq!(tile(&format!("{board}?refresh=blocking"))["result"], asked["results"]);
    server.patch(&board, json!({ "filters": { "date_from": "2024-01-03" } })).expect(200);
    let narrowed = tile(&format!("{board}?refresh=blocking"));
    assert_eq!(narrowed["result"][0]["data"][0], 1, "{narrowed}");
    let alone = server.get(&format!("{path}?refresh=blocking")).expect(200).json();
    assert_eq!(alone["result"], asked["results"]);

    server.patch(&board, json!({ "filters": {} })).expect(200);
    let shared = server.patch(&format!("{board}sharing/"), json!({ "enabled": true }));
    let token = shared.expect(200).json()["access_token"].as_str().unwrap().to_owned();
    let page = server.call("GET", &format!("/shared/{token}")).no_key().send().expect(200).text();
    assert!(page.contains("<th>1-Jan-2024</th>") && page.contains("<td>2</td>"), "{page}");
    let told = server.call("GET", &format!("/shared/{token}.json")).no_key().send().expect(200);
    let told = told.json();
    assert_eq!(told["dashboard"]["tiles"][0]["insight"]["result"], asked["results"]);
}

#[test]
fn query_past_its_limits_fails_with_an_error() {
    let server = Store::Sqlite.start();
    for text in [
        "select count() from numbers(1000000000) a cross join numbers(1000000000) b",
        "select groupArray(number) from numbers(1000000000)",
        "select arrayMap(x -> x + 1, range(10000000000))",
    ] {
        let query = json!({ "kind": "HogQLQuery", "query": text });
        let response = ask(&server, json!({ "query": query }));
        assert!(
            [400, 504].contains(&response.status),
            "{text}: {} {}",
            response.status,
            response.text()
        );
    }
    server.get("/_readyz").expect(200);
}

// contract: query 109
#[test]
fn legacy_filters_are_converted_to_queries() {
    let server = f1();
    let filters = json!({
        "events": [{ "id": "a" }], "date_from": "2024-01-01", "date_to": "2024-01-03",
    });
    let posted = server.post("/api/projects/1/insights/trend/", filters.clone()).expect(200).json();
    assert_eq!(posted["result"][0]["data"], json!([2, 0, 1]));
    assert_eq!(posted["type"], "Trend");
    let path = "/api/projects/1/insights/trend/?events=%5B%7B%22id%22%3A%22a%22%7D%5D\
                &date_from=2024-01-01&date_to=2024-01-03";
    assert_eq!(server.get(path).expect(200).json()["result"], posted["result"]);
    let kept = server.post("/api/projects/1/insights/", json!({ "filters": filters }));
    let path =
        format!("/api/projects/1/insights/{}/?refresh=blocking", kept.expect(201).json()["id"]);
    assert_eq!(server.get(&path).expect(200).json()["result"], posted["result"]);
    let steps = json!({
        "events": [{ "id": "a", "order": 0 }, { "id": "b", "order": 1 }],
        "date_from": "2024-01-01", "date_to": "2024-01-03",
    });
    let funnel = server.post("/api/projects/1/insights/funnel/", steps).expect(200).json();
    let counts: Vec<&Value> =
        funnel["result"].as_array().unwrap().iter().map(|step| &step["count"]).collect();
    assert_eq!(counts, [&json!(2), &json!(1)]);
}

#[test]
fn events_list_accepts_hogql_expressions() {
    let server = f1();
    let list = |select: &str, conditions: &str| {
        let encode =
            |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
        let path = format!(
            "/api/projects/1/events/?select={}&where={}",
            encode(select),
            encode(conditions)
        );
        server.get(&path)
    };
    let counted = list(r#"["event", "count() as c"]"#, "").expect(200).json();
    assert_eq!(counted["results"], json!([["a", 3], ["b", 2]]));
    assert_eq!(counted["columns"], json!(["event", "c"]));
    let few = list(r#"["event", "count()"]"#, r#"["count() < 3"]"#).expect(200).json();
    assert_eq!(few["results"], json!([["b", 2]]));
    let plain = list("", r#"["properties.amount > 15", "event = 'a'"]"#).expect(200).json();
    let amounts: Vec<&Value> = plain["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["properties"]["amount"])
        .collect();
    assert_eq!(amounts, [&json!(30), &json!(20)]);
    for (select, conditions, location) in
        [(r#"["event, ("]"#, "", "column"), ("", r#"["event ="]"#, "column 8"), ("", "1", "JSON")]
    {
        let refused = list(select, conditions).expect(400).json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(location), "{detail}");
    }
}
