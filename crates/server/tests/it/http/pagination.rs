//! Pagination of lists.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    pagination_reads_a_long_list_page_by_page,
    invalid_limit_or_offset_falls_back_to_the_default,
    pagination_links_keep_the_query_and_host,
    pagination_visits_each_of_five_thousand_dashboards_once,
}

fn with_notes(store: Store, count: usize) -> Server {
    let server = store.start();
    for number in 0..count {
        let body = json!({ "content": format!("note {number}") });
        server.post("/api/projects/1/annotations", body).expect(201);
    }
    server
}

fn ids(page: &Value) -> Vec<i64> {
    page["results"].as_array().unwrap().iter().map(|note| note["id"].as_i64().unwrap()).collect()
}

// contract: management 29, 30
fn pagination_reads_a_long_list_page_by_page(store: Store) {
    let server = with_notes(store, 150);
    let origin = format!("http://{}", server.address());
    let path = "/api/projects/1/annotations/";
    let first = server.get(path).expect(200).json();
    assert_eq!((&first["count"], &first["previous"]), (&json!(150), &Value::Null));
    assert_eq!(first["next"], format!("{origin}{path}?limit=100&offset=100"));
    let next = first["next"].as_str().unwrap().strip_prefix(&origin).unwrap();
    let second = server.get(next).expect(200).json();
    assert_eq!((&second["count"], &second["next"]), (&json!(150), &Value::Null));
    assert_eq!(second["previous"], format!("{origin}{path}?limit=100"));
    let mut seen = [ids(&first), ids(&second)].concat();
    assert_eq!((ids(&first).len(), seen.len()), (100, 150));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 150, "each once");
    let all = server.get(&format!("{path}?limit=5000")).expect(200).json();
    assert_eq!((ids(&all).len(), &all["next"]), (150, &Value::Null));
}

// contract: management 31
fn invalid_limit_or_offset_falls_back_to_the_default(store: Store) {
    let server = with_notes(store, 3);
    for (query, shown, next, previous) in [
        ("limit=0", 3, false, false),
        ("limit=x", 3, false, false),
        ("limit=-1", 3, false, false),
        ("limit=1.5", 3, false, false),
        ("limit=", 3, false, false),
        ("limit=99999999999999999999", 3, false, false),
        ("offset=x", 3, false, false),
        ("offset=-1", 3, false, false),
        ("limit=2", 2, true, false),
        ("limit=3", 3, false, false),
        ("limit=1&limit=2", 2, true, false),
        ("limit=1&offset=1", 1, true, true),
        ("offset=3", 0, false, true),
        ("offset=9223372036854775807&limit=1000", 0, false, true),
    ] {
        let page = server.get(&format!("/api/projects/1/annotations?{query}")).expect(200).json();
        let links = (!page["next"].is_null(), !page["previous"].is_null());
        assert_eq!((ids(&page).len(), links), (shown, (next, previous)), "{query}");
        assert_eq!(page["count"], 3, "{query}");
    }
}

fn pagination_links_keep_the_query_and_host(store: Store) {
    let server = with_notes(store, 4);
    for (path, expected) in [
        ("/api/projects/1/annotations?limit=2", "/api/projects/1/annotations?limit=2&offset=2"),
        (
            "/api/environments/1/annotations/?limit=2",
            "/api/environments/1/annotations/?limit=2&offset=2",
        ),
        ("/api/annotation/?limit=2", "/api/annotation/?limit=2&offset=2"),
        (
            "/api/projects/@current/annotations?scope=project&limit=2&search=note%20&a=%26",
            "/api/projects/@current/annotations?a=%26&limit=2&offset=2&scope=project&search=note+",
        ),
    ] {
        let page = server.get(path).expect(200).json();
        assert_eq!(page["next"], format!("http://{}{expected}", server.address()));
    }
    let ask = |offset: i64, proto: &str, host: &str| {
        let path = format!("/api/annotation?limit=1&offset={offset}");
        let call = server.call("GET", &path).header("X-Forwarded-Proto", proto);
        call.header("X-Forwarded-Host", host).header("Host", "inside").send().expect(200).json()
    };
    let page = ask(2, "https", "hedge.example, inner");
    assert_eq!(page["next"], "https://hedge.example/api/annotation?limit=1&offset=3");
    assert_eq!(page["previous"], "https://hedge.example/api/annotation?limit=1&offset=1");
    let page = ask(1, "gopher", "");
    assert_eq!(page["next"], "http://inside/api/annotation?limit=1&offset=2");
    assert_eq!(page["previous"], "http://inside/api/annotation?limit=1");
}

fn pagination_visits_each_of_five_thousand_dashboards_once(store: Store) {
    let server = store.start();
    // Few distinct names, so that page boundaries fall between equal keys.
    server.instance().write(
        "INSERT INTO dashboards (project_id, name, description, pinned, creation_mode, \
         restriction_level, filters, breakdown_colors, quick_filter_ids, created_at, deleted) \
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) \
         SELECT 1, 'd' || CAST(i % 7 AS TEXT), '', i % 11 = 0, 'default', 21, '{}', '[]', '[]', 0, \
         FALSE FROM n",
    );
    let origin = format!("http://{}", server.address());
    let mut seen = Vec::new();
    let mut next = Some("/api/projects/1/dashboards/?limit=300".to_owned());
    while let Some(path) = next {
        let page = server.get(&path).expect(200).json();
        assert_eq!(page["count"], 5_000);
        seen.extend(ids(&page));
        let link = page["next"].as_str().map(|link| link.strip_prefix(&origin).unwrap());
        next = link.map(str::to_owned);
    }
    assert_eq!(seen.len(), 5_000);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 5_000, "each once");
}
