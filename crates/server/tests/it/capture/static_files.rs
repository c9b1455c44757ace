//! The browser SDK under `/static`. CI builds always embed it; other builds without it must
//! report that.

use std::io::Read as _;

use crate::harness::{PROJECT_KEY, Response, Server, Store};

fn get(server: &Server, path: &str, encoding: &str) -> Response {
    server.call("GET", path).no_key().header("Accept-Encoding", encoding).send()
}

#[test]
fn static_scripts_are_served_under_every_path_and_encoding() {
    let server = Store::Sqlite.start();
    let plain = get(&server, "/static/array.js", "identity");
    if plain.status == 404 && std::env::var("CI").is_err() {
        let reason = plain.json()["detail"].as_str().unwrap().to_owned();
        assert!(reason.contains("tools/fetch-assets"), "{reason}");
        get(&server, &format!("/array/{PROJECT_KEY}/array.js"), "").expect(404);
        return;
    }
    let plain = plain.expect(200);
    assert!(plain.header("content-type").unwrap().starts_with("application/javascript"));
    assert_eq!(plain.header("content-encoding"), None);
    let version = plain.header("etag").unwrap().split('"').nth(1).unwrap().to_owned();
    assert!(plain.text().contains(&version));

    for path in [format!("/static/{version}/array.js"), "/static/1.0.0/array.js?v=2".into()] {
        assert_eq!(get(&server, &path, "").expect(200).body, plain.body, "{path}");
    }
    let kept = get(&server, &format!("/static/{version}/array.js"), "").expect(200);
    assert!(kept.header("cache-control").unwrap().contains("immutable"));
    assert!(!plain.header("cache-control").unwrap().contains("immutable"));

    let gzip = get(&server, "/static/array.js", "gzip, deflate").expect(200);
    assert_eq!(gzip.header("content-encoding"), Some("gzip"));
    let mut inflated = Vec::new();
    flate2::read::GzDecoder::new(&*gzip.body).read_to_end(&mut inflated).unwrap();
    assert_eq!(inflated, plain.body);
    let brotli = get(&server, "/static/array.js", "gzip, deflate, br, zstd").expect(200);
    assert_eq!(brotli.header("content-encoding"), Some("br"));
    let mut inflated = Vec::new();
    brotli::BrotliDecompress(&mut &*brotli.body, &mut inflated).unwrap();
    assert_eq!(inflated, plain.body);
    assert_eq!(get(&server, "/static/array.js", "br;q=0").header("content-encoding"), None);

    let tag = plain.header("etag").unwrap();
    let same = server.call("GET", "/static/array.js").no_key().header("If-None-Match", tag);
    assert_eq!(same.send().expect(304).body, b"");
    let head = server.call("HEAD", "/static/array.js").no_key().send().expect(200);
    assert_eq!(head.body, b"");
    for lazy in ["surveys", "dead-clicks-autocapture", "web-vitals", "exception-autocapture"] {
        get(&server, &format!("/static/{lazy}.js"), "").expect(200);
    }
    for absent in ["/static/toolbar.js", "/static/../Cargo.toml", "/static/array.js.map"] {
        get(&server, absent, "").expect(404);
    }
    let whole = get(&server, &format!("/array/{PROJECT_KEY}/array.js"), "").expect(200);
    assert!(whole.text().contains("_POSTHOG_REMOTE_CONFIG"));
    assert!(whole.body.ends_with(&plain.body));
}
