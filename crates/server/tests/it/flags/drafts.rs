//! Dry runs and explanations of flags that are not saved.

use serde_json::{Value, json};

use crate::flags::management::{FLAGS, create, path};
use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    new_flag_is_dry_run_and_explained_without_being_stored,
    draft_of_a_flag_is_explained_as_if_it_were_saved,
}

fn plan(value: &str) -> Value {
    json!({ "properties": [{ "key": "plan", "type": "person", "operator": "exact", "value": value }] })
}

fn started(store: Store) -> Server {
    let server = store.start();
    let person = |n: u32| {
        let plan = if n < 5 { "pro" } else { "free" };
        json!({ "event": "e", "distinct_id": format!("u{n}"), "properties": { "$set": { "plan": plan } } })
    };
    server.ingest(&(0..30).map(person).collect::<Vec<_>>());
    server
}

fn new_flag_is_dry_run_and_explained_without_being_stored(store: Store) {
    let server = started(store);
    let variants = json!({ "variants": [{ "key": "test", "rollout_percentage": 100 }] });
    let draft =
        json!({ "key": "f", "filters": { "groups": [plan("pro")], "multivariate": variants } });
    let counted = server.post(&format!("{FLAGS}dry_run"), draft.clone()).expect(200).json();
    assert_eq!((&counted["changed"], &counted["complete"]), (&json!(5), &json!(true)));
    assert_eq!((&counted["subjects"], &counted["total"]), (&json!(30), &json!(30)));
    let cell = &counted["matrix"][1];
    assert_eq!(
        (&cell["from"], &cell["to"], &cell["count"]),
        (&json!("false"), &json!("test"), &json!(5))
    );
    let explain = |id: &str| {
        let path = format!("{FLAGS}explain?distinct_id={id}");
        server.post(&path, draft.clone()).expect(200).json()
    };
    assert_eq!(explain("u1")["value"], "test");
    let told = explain("u9");
    assert_eq!(
        (&told["value"], &told["evaluation"]["reason"]),
        (&json!(false), &json!("no_condition_match"))
    );
    assert_eq!(told["steps"][1]["found"], "free");
    assert_eq!(server.get(FLAGS).json()["count"], 0);

    create(&server, json!({ "key": "f" }));
    for action in ["dry_run", "explain?distinct_id=u1"] {
        let send = |body: Value| server.post(&format!("{FLAGS}{action}"), body);
        assert_eq!(send(draft.clone()).expect(400).error(), "validation_error unique key");
        assert_eq!(send(json!({})).expect(400).error(), "validation_error required key");
        let reader = server.key(&["feature_flag:read"]);
        let path = format!("{FLAGS}{action}");
        server.call("POST", &path).key(&reader).json(draft.clone()).send().expect(403);
    }
    let hurried = server.post(&format!("{FLAGS}dry_run?ms_max=1"), json!({ "key": "g" }));
    assert_eq!(hurried.expect(400).error(), "validation_error invalid_input ms_max");
}

fn draft_of_a_flag_is_explained_as_if_it_were_saved(store: Store) {
    let server = started(store);
    let flag = create(&server, json!({ "key": "f", "filters": { "groups": [plan("pro")] } }));
    let explain =
        |body: Value| server.post(&format!("{}explain?distinct_id=u9", path(&flag)), body);
    assert_eq!(explain(json!({})).expect(200).json()["value"], false);
    let wider = json!({ "filters": { "groups": [plan("pro"), plan("free")] } });
    let told = explain(wider).expect(200).json();
    assert_eq!((&told["value"], &told["evaluation"]["condition_index"]), (&json!(true), &json!(1)));
    assert_eq!(
        explain(json!({ "active": false })).expect(200).json()["evaluation"]["reason"],
        "disabled"
    );
    let nobody = server.post(&format!("{}explain", path(&flag)), json!({})).expect(400);
    assert_eq!(nobody.error(), "validation_error required distinct_id");
    assert_eq!(server.get(&path(&flag)).json(), flag);
}
