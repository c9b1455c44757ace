//! Remote config, which SDKs fetch at start.

use serde_json::{Value, json};

use crate::harness::{PROJECT_KEY, Server, Store, on_both_stores};

on_both_stores! {
    remote_config_follows_project_settings,
}

fn config(server: &Server) -> Value {
    let path = format!("/array/{PROJECT_KEY}/config");
    server.call("GET", &path).no_key().send().expect(200).json()
}

// contract: ingestion 30, 32
fn remote_config_follows_project_settings(store: Store) {
    let server = store.start();
    let silent = json!({
        "token": PROJECT_KEY,
        "supportedCompression": ["gzip", "gzip-js"],
        "hasFeatureFlags": false,
        "captureDeadClicks": false,
        "capturePerformance": false,
        "autocapture_opt_out": false,
        "autocaptureExceptions": false,
        "analytics": { "endpoint": "/i/v0/e/" },
        "elementsChainAsString": true,
        "sessionRecording": false,
        "heatmaps": false,
        "defaultIdentifiedOnly": true,
        "siteApps": [],
    });
    assert_eq!(config(&server), silent);
    for path in ["/array/bad/config", "/array/bad/config.js", "/array/bad/array.js"] {
        let response = server.call("GET", path).no_key().send().expect(404);
        let error = response.json();
        assert_eq!(error["code"], "not_found", "{path}");
        assert_eq!(error.get("attr"), None, "{path}");
    }

    let change = json!({
        "autocapture_opt_out": true,
        "autocapture_exceptions_opt_in": true,
        "autocapture_web_vitals_opt_in": true,
        "heatmaps_opt_in": true,
        "session_recording_opt_in": true,
        "surveys_opt_in": true,
    });
    server.patch("/api/projects/1/", change).expect(200);
    let mut expected = silent;
    expected["autocapture_opt_out"] = json!(true);
    expected["autocaptureExceptions"] = json!(true);
    expected["capturePerformance"] = json!({ "network_timing": false, "web_vitals": true });
    expected["heatmaps"] = json!(true);
    assert_eq!(config(&server), expected);
}

// contract: ingestion 31
#[test]
fn remote_config_script_sets_the_sdk_global() {
    let server = Store::Sqlite.start();
    let path = format!("/array/{PROJECT_KEY}/config.js");
    let response = server.call("GET", &path).no_key().header("Origin", "https://a.example").send();
    let response = response.expect(200);
    assert!(response.header("content-type").unwrap().starts_with("application/javascript"));
    assert_eq!(response.header("access-control-allow-origin"), Some("https://a.example"));
    let script = response.text();
    assert!(script.contains("window._POSTHOG_REMOTE_CONFIG"), "{script}");
    let (_, rest) = script.split_once(&format!("[\"{PROJECT_KEY}\"] = {{ config: ")).unwrap();
    let (found, _) = rest.split_once(", siteApps: [] }").unwrap();
    assert_eq!(serde_json::from_str::<Value>(found).unwrap(), config(&server));
}

#[test]
fn sdk_polled_lists_are_empty_and_require_a_token() {
    let server = Store::Sqlite.start();
    for (path, expected) in [
        ("/api/surveys", json!({ "surveys": [], "survey_config": null })),
        ("/api/early_access_features", json!({ "earlyAccessFeatures": [] })),
        ("/api/web_experiments", json!({ "experiments": [] })),
        ("/api/product_tours", json!({ "product_tours": [] })),
    ] {
        for path in [path.to_owned(), format!("{path}/")] {
            let get = |query: &str| server.call("GET", &format!("{path}{query}")).no_key().send();
            assert_eq!(get(&format!("?token={PROJECT_KEY}")).expect(200).json(), expected);
            for query in ["", "?token=wrong"] {
                let error = get(query).expect(401).json();
                assert_eq!(error["code"], "invalid_api_key");
                assert_eq!(error.get("attr"), None);
            }
        }
    }
}
