//! The web interface's page and files. `make test` builds them; other builds without them must name
//! the command that is missing.

use std::io::Read as _;
use std::path::Path;

use crate::harness::{Response, Server, Store};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn open(server: &Server, method: &str, path: &str) -> Response {
    server.call(method, path).no_key().header("Accept", BROWSER).send()
}

/// Whether `tools/build-web` has run.
fn is_built() -> bool {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/web");
    assets.join("checksum").exists()
}

#[test]
fn page_answers_browsers_under_its_own_paths_only() {
    let server = Store::Sqlite.start();
    let status = if is_built() { 200 } else { 404 };
    for path in ["/", "/login", "/setup/", "/project/1/insights/abc?x=1", "/instance/status"] {
        let page = open(&server, "GET", path).expect(status);
        assert!(page.header("content-type").unwrap().starts_with("text/html"), "{path}");
        assert_eq!(page.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(page.header("x-request-id").is_some(), "{path}");
        let head = open(&server, "HEAD", path).expect(status);
        assert_eq!(head.body, b"", "{path}");
        assert!(head.header("content-security-policy").is_some(), "{path}");
    }
    for path in ["/flag", "/captur", "/projects", "/static", "/api/", "/api/projects/1/nothing"] {
        let missing = open(&server, "GET", path);
        assert!([404, 405].contains(&missing.status), "{path}");
        assert!(missing.header("content-type").unwrap().starts_with("application/json"), "{path}");
    }
    let script = server.call("GET", "/").no_key().header("Accept", "*/*").send().expect(404);
    assert_eq!(script.error(), "invalid_request not_found -");
    assert_eq!(open(&server, "POST", "/login").expect(404).error(), "invalid_request not_found -");
}

#[test]
fn page_has_a_fresh_nonce_and_the_theme_of_the_cookie() {
    let server = Store::Sqlite.start();
    let nonce = |page: &Response| {
        let policy = page.header("content-security-policy").unwrap();
        policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned()
    };
    let (first, second) = (open(&server, "GET", "/"), open(&server, "GET", "/"));
    assert_ne!(nonce(&first), nonce(&second));
    assert_eq!(nonce(&first).len(), 32);
    assert!(first.text().contains(&format!("nonce=\"{}\"", nonce(&first))));
    assert!(!first.text().contains("__"), "{}", first.text());
    let policy = first.header("content-security-policy").unwrap().replace(&nonce(&first), "…");
    assert_eq!(
        policy,
        "default-src 'none'; script-src 'self' 'nonce-…'; style-src-elem 'self' 'nonce-…'; \
         style-src-attr 'none'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; \
         worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    for (cookie, theme) in
        [("hedgerow_theme=dark", "dark"), ("hedgerow_theme=light", "light"), ("x=1", "system")]
    {
        let page = server.call("GET", "/").no_key().header("Accept", BROWSER);
        let page = page.header("Cookie", cookie).send().text();
        assert!(page.contains(&format!("data-theme=\"{theme}\"")), "{page}");
    }
}

#[test]
fn files_of_the_page_are_immutable_and_compressed() {
    let server = Store::Sqlite.start();
    let page = open(&server, "GET", "/");
    if !is_built() {
        assert!(page.text().contains("make assets") && page.text().contains("20.19"));
        assert!(server.process().wait_for("this build has no web interface").is_some());
        server.call("GET", "/assets/index.js").no_key().send().expect(404);
        return;
    }
    let page = page.text();
    let linked = page.split('"').filter(|text| text.starts_with("/assets/")).collect::<Vec<_>>();
    assert!(linked.iter().any(|path| path.ends_with(".js")), "{page}");
    assert!(linked.iter().any(|path| path.ends_with(".css")), "{page}");
    let get = |path: &str, encoding: &str| {
        server.call("GET", path).no_key().header("Accept-Encoding", encoding).send()
    };
    for path in linked {
        let plain = get(path, "identity").expect(200);
        let media = plain.header("content-type").unwrap();
        let expected = match path.rsplit('.').next().unwrap() {
            "js" => "text/javascript",
            "css" => "text/css",
            "svg" => "image/svg+xml",
            _ => media,
        };
        assert!(media.starts_with(expected), "{path}: {media}");
        assert_eq!(plain.header("x-content-type-options"), Some("nosniff"));
        assert!(plain.header("cache-control").unwrap().ends_with("immutable"), "{path}");
        let tag = plain.header("etag").unwrap();
        let same = server.call("GET", path).no_key().header("If-None-Match", tag).send();
        assert_eq!(same.expect(304).body, b"");
        if plain.body.len() < 1_000 {
            continue;
        }
        let gzip = get(path, "gzip").expect(200);
        if gzip.header("content-encoding").is_some() {
            let mut inflated = Vec::new();
            flate2::read::GzDecoder::new(&*gzip.body).read_to_end(&mut inflated).unwrap();
            assert_eq!(inflated, plain.body, "{path}");
            let brotli = get(path, "gzip, deflate, br").expect(200);
            assert_eq!(brotli.header("content-encoding"), Some("br"));
            let mut inflated = Vec::new();
            brotli::BrotliDecompress(&mut &*brotli.body, &mut inflated).unwrap();
            assert_eq!(inflated, plain.body, "{path}");
        }
    }
    for absent in ["/assets/", "/assets/nothing.js", "/assets/..%2fapp.html", "/assets/app.html"] {
        get(absent, "").expect(404);
    }
}
