//! Large limits: a list returns all requested objects or a link to the rest.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::events::list::{EVENTS, TIMEOUT, event, uuid};
use crate::harness::{Response, Server, Store, on_both_stores};

on_both_stores! {
    events_list_returns_up_to_its_limit,
    events_csv_links_to_the_next_page,
    events_list_stops_when_its_client_disconnects,
    every_list_paginates_to_its_end_with_any_limit,
}

/// Enough events that the response is chunked.
const MANY: u32 = 6_000;

fn with_many(store: Store) -> Server {
    let server = store.start();
    let wide = "x".repeat(300);
    let one = |number: u32| {
        let mut one = event(number % 3_600, "a", "ann", json!({ "n": number, "wide": wide }));
        one["uuid"] = json!(uuid(number));
        one
    };
    let all: Vec<Value> = (0..MANY).map(one).collect();
    all.chunks(1_000).for_each(|part| server.ingest(part));
    server
}

fn list(server: &Server, query: &str) -> Response {
    server.get(&format!("{EVENTS}?{query}")).expect(200)
}

fn ids(page: &Value) -> Vec<String> {
    let name = |one: &Value| {
        let id = ["id", "group_key", "name"].into_iter().find(|name| !one[name].is_null());
        one[id.unwrap()].to_string()
    };
    page["results"].as_array().unwrap().iter().map(name).collect()
}

/// The path of a link.
fn path(server: &Server, link: &str) -> String {
    let origin = format!("http://{}", server.address());
    link.strip_prefix(&origin).unwrap().to_owned()
}

// contract: management 90
fn events_list_returns_up_to_its_limit(store: Store) {
    let server = with_many(store);
    let some = list(&server, "limit=5000");
    assert_eq!(some.header("transfer-encoding"), Some("chunked"), "it is sent as it is read");
    assert_eq!(some.header("content-type"), Some("application/json"));
    let some = some.json();
    assert_eq!(ids(&some).len(), 5_000);
    let rest = server.get(&path(&server, some["next"].as_str().unwrap())).expect(200).json();
    assert_eq!((ids(&rest).len(), &rest["next"]), (1_000, &Value::Null));
    let each: BTreeSet<String> = ids(&some).into_iter().chain(ids(&rest)).collect();
    assert_eq!(each.len(), MANY as usize, "each once");
    // As Airbyte reads: by offset, until a short page.
    let (mut seen, mut offset) = (BTreeSet::new(), 0);
    loop {
        let page = ids(&list(&server, &format!("limit=2500&offset={offset}")).json());
        seen.extend(page.iter().cloned());
        offset += 2_500;
        if page.len() < 2_500 {
            break;
        }
    }
    assert_eq!(seen, each);
    for query in ["limit=60000", "limit=50000&orderBy=%5B%22timestamp%22%5D"] {
        let all = list(&server, query).json();
        assert_eq!((ids(&all).len(), &all["next"]), (MANY as usize, &Value::Null), "{query}");
    }
    let few = list(&server, "limit=3");
    assert!(few.header("content-length").is_some(), "a short list has a length");
    // Selected columns have the same limit and a link.
    let chosen = "select=%5B%22uuid%22%5D";
    let page = list(&server, &format!("{chosen}&limit=4000")).json();
    assert_eq!(
        (page["results"].as_array().unwrap().len(), &page["hasMore"]),
        (4_000, &json!(true))
    );
    let rest = server.get(&path(&server, page["next"].as_str().unwrap())).expect(200).json();
    assert_eq!((rest["results"].as_array().unwrap().len(), &rest["next"]), (2_000, &Value::Null));
}

fn events_csv_links_to_the_next_page(store: Store) {
    let server = with_many(store);
    let lines = |response: &Response| response.text().lines().count() - 1;
    let next = |response: &Response| {
        let link = response.header("link")?;
        let link = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
        Some(path(&server, link))
    };
    let first = list(&server, "format=csv");
    assert_eq!(lines(&first), 1_000, "the default of a table");
    let long = list(&server, "format=csv&limit=5500");
    assert_eq!((lines(&long), long.header("transfer-encoding")), (5_500, Some("chunked")));
    let rest = server.get(&next(&long).unwrap()).expect(200);
    assert_eq!((lines(&rest), next(&rest)), (500, None));
    server.ingest(&[event(1, "a", "ben", json!({ "$set": { "a": 1 } }))]);
    let persons = server.get("/api/projects/1/persons/?format=csv&limit=1").expect(200);
    assert_eq!(lines(&persons), 1);
    let rest = server.get(&next(&persons).unwrap()).expect(200);
    assert_eq!((lines(&rest), next(&rest)), (1, None));
}

/// Starts and aborts more lists than may be open concurrently.
fn events_list_stops_when_its_client_disconnects(store: Store) {
    let server = with_many(store);
    for _ in 0..40 {
        let call = server.call("GET", &format!("{EVENTS}?limit=6000"));
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&call.to_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
    }
    let deadline = Instant::now() + TIMEOUT;
    while server.get(&format!("{EVENTS}?limit=6000")).status != 200 {
        assert!(Instant::now() < deadline, "lists that nobody reads are still open");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn every_list_paginates_to_its_end_with_any_limit(store: Store) {
    const PEOPLE: u32 = 1_050;
    let server = store.start();
    let one = |number: u32| {
        let properties = json!({ format!("p{number}"): 1, "$set": { "n": number } });
        let mut one =
            event(number % 3_600, &format!("e{number}"), &format!("u{number}"), properties);
        one["uuid"] = json!(uuid(number));
        one
    };
    let all: Vec<Value> = (0..PEOPLE).map(one).collect();
    all.chunks(350).for_each(|part| server.ingest(part));
    let group = |number: u32| {
        let mut one = event(
            number,
            "$groupidentify",
            "u1",
            json!({
                "$group_type": "company", "$group_key": format!("g{number}"), "$group_set": {},
            }),
        );
        one["uuid"] = json!(uuid(2_000 + number));
        one
    };
    server.ingest(&(0..120).map(group).collect::<Vec<_>>());
    let project = "/api/projects/1";
    for number in 0..5 {
        for (list, body) in [
            ("annotations", json!({ "content": format!("{number}") })),
            ("dashboards", json!({ "name": format!("{number}") })),
            ("insights", json!({ "name": format!("{number}"), "saved": true })),
            (
                "feature_flags",
                json!({ "key": format!("f{number}"), "filters": { "groups": [{}] } }),
            ),
            ("actions", json!({ "name": format!("{number}") })),
            ("cohorts", json!({ "name": format!("{number}"), "is_static": true })),
        ] {
            server.post(&format!("{project}/{list}/"), body).expect(201);
        }
    }
    let cohorts = server.get(&format!("{project}/cohorts/")).json();
    let cohort = cohorts["results"][0]["id"].clone();
    let persons = server.get(&format!("{project}/persons/?limit=5")).json();
    let members: Vec<&Value> =
        persons["results"].as_array().unwrap().iter().map(|person| &person["uuid"]).collect();
    let add = format!("{project}/cohorts/{cohort}/add_persons_to_static_cohort/");
    server.patch(&add, json!({ "person_ids": members })).expect(200);
    let (people, many) = (PEOPLE as usize, PEOPLE as usize + 1);
    for (list, count) in [
        ("annotations/?".to_owned(), 5),
        ("dashboards/?".to_owned(), 5),
        ("insights/?".to_owned(), 5),
        ("feature_flags/?".to_owned(), 5),
        ("actions/?".to_owned(), 5),
        ("cohorts/?".to_owned(), 5),
        (format!("cohorts/{cohort}/persons/?"), 5),
        ("persons/?".to_owned(), people),
        ("event_definitions/?".to_owned(), many),
        ("property_definitions/?".to_owned(), people),
        ("events/?".to_owned(), people + 120),
        ("groups/?group_type_index=0&".to_owned(), 120),
        ("dashboards/activity/?".to_owned(), 5),
        ("activity_log/?".to_owned(), 5),
    ] {
        for limit in [3, 400, 1_000_000] {
            if limit == 3 && count > 200 {
                continue;
            }
            let mut next = Some(format!("{project}/{list}limit={limit}"));
            let (mut seen, mut pages) = (BTreeSet::new(), 0);
            while let Some(path_of_page) = next {
                let page = server.get(&path_of_page).expect(200).json();
                let found = ids(&page);
                assert!(pages == 0 || !found.is_empty(), "{path_of_page} leads to nothing");
                pages += 1;
                seen.extend(found);
                next = page["next"].as_str().map(|link| path(&server, link));
            }
            assert!(seen.len() >= count, "{list} limit {limit}: {} of {count}", seen.len());
        }
    }
}
