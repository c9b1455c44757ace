//! Cohorts over HTTP: fields, CSV upload, copies and validation.

use serde_json::{Value, json};

use crate::harness::{Response, Server, Store, on_both_stores};

pub const COHORTS: &str = "/api/projects/1/cohorts/";

on_both_stores! {
    cohort_has_every_field_that_clients_read,
    invalid_cohorts_name_their_field_and_change_nothing,
    static_cohorts_are_read_from_csv,
    cohort_is_soft_deleted_and_restored,
    cohort_list_is_filtered,
    cohort_membership_follows_person_properties,
    cohort_used_indirectly_by_a_flag_cannot_be_deleted,
    static_cohort_is_filled_from_a_query,
    cohort_that_references_a_deleted_one_reports_it,
    static_cohort_counts_only_existing_persons,
    dependent_cohorts_follow_changes_of_a_static_cohort,
}

pub fn create(server: &Server, body: Value) -> Value {
    server.post(COHORTS, body).expect(201).json()
}

pub fn path(cohort: &Value) -> String {
    format!("{COHORTS}{}/", cohort["id"])
}

pub fn filters(leaf: Value) -> Value {
    json!({ "properties": { "type": "OR", "values": [{ "type": "AND", "values": [leaf] }] } })
}

pub fn pro() -> Value {
    filters(
        json!({ "type": "person", "key": "plan", "operator": "exact", "value": "pro", "negation": false }),
    )
}

/// A multipart form as browsers send it.
pub fn form(
    server: &Server,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    csv: &[u8],
) -> Response {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(
            format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
                .bytes(),
        );
    }
    let head = "--x\r\nContent-Disposition: form-data; name=\"csv\"; filename=\"a.csv\"\r\n\
                Content-Type: text/csv\r\n\r\n";
    body.extend(head.bytes());
    body.extend(csv);
    body.extend(b"\r\n--x--\r\n");
    let call = server.call(method, path).header("Content-Type", "multipart/form-data; boundary=x");
    call.bytes(body).send()
}

// contract: management 106
fn cohort_has_every_field_that_clients_read(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "Pro", "filters": pro() }));
    for (field, expected) in [
        ("name", json!("Pro")),
        ("description", json!("")),
        ("groups", json!([])),
        ("filters", pro()),
        ("query", json!(null)),
        ("is_calculating", json!(true)),
        ("errors_calculating", json!(0)),
        ("last_error_message", json!(null)),
        ("is_static", json!(false)),
        ("cohort_type", json!("person_property")),
        ("experiment_set", json!([])),
        ("deleted", json!(false)),
    ] {
        assert_eq!(made.get(field), Some(&expected), "{field}");
    }
    assert_eq!(made["created_by"]["email"], "admin@example.com");
    let done = server.wait_until(&path(&made), |cohort| cohort["is_calculating"] == json!(false));
    assert_eq!((&done["count"], &done["version"]), (&json!(0), &json!(1)));
    assert!(done["last_calculation"].is_string());
    let persons = server.get(&format!("{}persons", path(&made))).expect(200).json();
    assert_eq!(persons, json!({ "results": [], "next": null, "previous": null }));
    assert_eq!(server.delete(&path(&made)).expect(405).text(), "");
    server.delete(&format!("{COHORTS}999999")).expect(405);
    let again = server.post(&format!("{}calculate", path(&made)), json!({})).expect(200).json();
    assert_eq!(again["is_calculating"], json!(true));
    server.wait_until(&path(&made), |cohort| cohort["version"] == json!(2));
    let old = json!({ "groups": [{ "properties": [{ "key": "plan", "value": "pro" }] }] });
    let old = create(&server, old);
    assert_eq!(old["filters"]["properties"]["values"][0]["values"][0]["key"], "plan");
    let copy = server
        .post(&format!("{}duplicate_as_static_cohort", path(&made)), json!({}))
        .expect(201)
        .json();
    assert_eq!((&copy["name"], &copy["is_static"]), (&json!("Pro (static copy)"), &json!(true)));
}

// contract: management 108
fn invalid_cohorts_name_their_field_and_change_nothing(store: Store) {
    let server = store.start();
    let known = create(&server, json!({ "filters": pro() }));
    let own = json!({ "type": "cohort", "key": "id", "value": known["id"] });
    let refused = server.patch(&path(&known), json!({ "filters": filters(own) })).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input filters");
    assert_eq!(refused.json()["detail"], "Cohorts cannot reference other cohorts in a loop.");
    let did = json!({ "type": "behavioral", "key": "x", "value": "performed_event", "event_type": "events" });
    for (body, expected) in [
        (json!({ "filters": {} }), "invalid_input filters"),
        (json!({ "filters": [] }), "invalid_input filters"),
        (
            json!({ "filters": { "properties": { "type": "OR", "values": [] } } }),
            "invalid_input filters",
        ),
        (json!({ "filters": filters(did) }), "invalid_input filters"),
        (
            json!({ "filters": filters(json!({ "key": "x", "operator": "like", "value": 1 })) }),
            "invalid_input filters",
        ),
        (
            json!({ "filters": filters(json!({ "type": "cohort", "key": "id", "value": 99 })) }),
            "invalid_input filters",
        ),
        (
            json!({ "filters": filters(json!({ "key": "x", "value": "y".repeat(65_536) })) }),
            "max_length filters",
        ),
        (json!({ "filters": pro(), "name": "x".repeat(401) }), "max_length name"),
        (json!({ "filters": pro(), "description": "x".repeat(1_001) }), "max_length description"),
        (json!({ "filters": pro(), "is_static": "maybe" }), "invalid_input is_static"),
    ] {
        for refused in [server.post(COHORTS, body.clone()), server.patch(&path(&known), body)] {
            assert_eq!(refused.expect(400).error(), format!("validation_error {expected}"));
        }
    }
    for (leaf, told) in [
        (
            json!({ "type": "planet", "key": "x" }),
            "Conditions are of type person, cohort or behavioral.",
        ),
        (json!({ "type": "XOR", "values": [] }), "Groups of conditions are AND or OR."),
        (
            json!({ "key": "x", "value": 1, "negation": "x" }),
            "The negation of a condition is true or false.",
        ),
        (
            json!({ "key": "x", "value": {} }),
            "The value of a condition is a word, a number, or a list of them.",
        ),
    ] {
        let refused = server.post(COHORTS, json!({ "filters": filters(leaf) })).expect(400);
        assert_eq!(refused.json()["detail"], told);
    }
    let nothing = server.post(COHORTS, json!({ "name": "x" })).expect(400);
    assert_eq!(nothing.error(), "validation_error required filters");
    let list = create(&server, json!({ "is_static": true }));
    let refused = server.patch(&path(&list), json!({ "is_static": false })).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input is_static");
    let add = |cohort: &Value, body: Value| {
        server.patch(&format!("{}add_persons_to_static_cohort", path(cohort)), body)
    };
    assert_eq!(
        add(&known, json!({ "person_ids": [] })).expect(400).error(),
        "validation_error invalid_input -"
    );
    assert_eq!(
        add(&list, json!({ "person_ids": ["x"] })).expect(400).error(),
        "validation_error invalid_input person_ids__0"
    );
    assert_eq!(server.get(COHORTS).json()["count"], 2);
}

// contract: management 107
fn static_cohorts_are_read_from_csv(store: Store) {
    let server = store.start();
    let fields = [("name", "Listed"), ("is_static", "true")];
    let made = form(&server, "POST", COHORTS, &fields, b"distinct_id\nnobody\n").expect(201).json();
    assert_eq!(
        (&made["name"], &made["is_static"], &made["count"]),
        (&json!("Listed"), &json!(true), &json!(0))
    );
    assert_eq!((&made["cohort_type"], &made["is_calculating"]), (&json!("static"), &json!(false)));
    form(&server, "PATCH", &path(&made), &[], b"nobody\n").expect(200);
    let open = b"distinct_id,x\n\"u1,2\nu2,3\n";
    for csv in [&b"a,b\n1,2\n"[..], b"", b"\xff\xfe", b"distinct_id\n\0", open] {
        let refused = form(&server, "POST", COHORTS, &fields, csv).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input csv");
    }
    let refused = form(&server, "POST", COHORTS, &[("name", "x")], b"u1").expect(400);
    assert_eq!(refused.error(), "validation_error required filters");
    let dynamic = create(&server, json!({ "filters": pro() }));
    let refused = form(&server, "PATCH", &path(&dynamic), &[], b"u1").expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input csv");
    let text = [("name", "x"), ("is_static", "true"), ("csv", "u1")];
    let refused = form(&server, "POST", COHORTS, &text, b"u1").expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input csv");
    server.put(&path(&made), json!({})).expect(200);
    let refused = server.put(&path(&dynamic), json!({ "name": "x" })).expect(400);
    assert_eq!(refused.error(), "validation_error required filters");
    assert_eq!(server.get(&path(&dynamic)).json()["name"], json!(null));
    server.put(&path(&dynamic), json!({ "filters": pro() })).expect(200);
    let broken =
        server.call("POST", COHORTS).header("Content-Type", "multipart/form-data; boundary=x");
    let refused = broken.bytes(b"--x\r\nnonsense".to_vec()).send().expect(400);
    assert_eq!(refused.error(), "invalid_request parse_error -");
    assert_eq!(server.get(COHORTS).json()["count"], 2, "nothing is left behind");
}

fn cohort_is_soft_deleted_and_restored(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "a", "filters": pro() }));
    let key = json!({ "key": "f", "filters": { "groups": [{ "properties": [
        { "type": "cohort", "key": "id", "value": made["id"] },
    ] }] } });
    let flag = server.post("/api/projects/1/feature_flags/", key).expect(201).json();
    let refused = server.patch(&path(&made), json!({ "deleted": true })).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input deleted");
    assert_eq!(refused.json()["detail"], "This cohort is used by feature flags: f");
    let flag = format!("/api/projects/1/feature_flags/{}/", flag["id"]);
    server.patch(&flag, json!({ "deleted": true })).expect(200);
    server.patch(&path(&made), json!({ "deleted": true })).expect(200);
    server.get(&path(&made)).expect(404);
    server.get(&format!("{}persons", path(&made))).expect(404);
    server.patch(&flag, json!({ "deleted": false, "active": true })).expect(400);
    assert_eq!(server.get(COHORTS).json()["count"], 0);
    let back = server.patch(&path(&made), json!({ "deleted": false })).expect(200).json();
    assert_eq!((&back["name"], &back["is_calculating"]), (&json!("a"), &json!(true)));
    let log = server.get(&format!("{}activity", path(&made))).expect(200).json();
    let told: Vec<&str> = log["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["activity"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["restored", "deleted", "created"]);
    assert_eq!(server.get(&format!("{COHORTS}activity")).expect(200).json()["total_count"], 3);
}

fn cohort_list_is_filtered(store: Store) {
    let server = store.start();
    create(&server, json!({ "name": "one", "filters": pro() }));
    create(&server, json!({ "name": "two", "description": "of ONE", "is_static": true }));
    create(&server, json!({ "name": "three", "is_static": true }));
    for (query, expected) in [
        ("", &["three", "two", "one"][..]),
        ("search=one", &["two", "one"]),
        ("type=static", &["three", "two"]),
        ("type=dynamic", &["one"]),
        ("created_by_id=1", &["three", "two", "one"]),
        ("created_by_id=99", &[]),
        ("limit=1&offset=1", &["two"]),
    ] {
        let listing = server.get(&format!("{COHORTS}?{query}")).expect(200).json();
        let results = listing["results"].as_array().unwrap();
        let names: Vec<&str> = results.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{query}");
    }
    for (query, expected) in
        [("type=x", "invalid_choice type"), ("created_by_id=x", "invalid_input created_by_id")]
    {
        let refused = server.get(&format!("{COHORTS}?{query}")).expect(400);
        assert_eq!(refused.error(), format!("validation_error {expected}"));
    }
}

// contract: management 106, 107
fn cohort_membership_follows_person_properties(store: Store) {
    let server = store.start();
    let identify = |id: &str, plan: &str| {
        let set = json!({ "plan": plan, "email": format!("{id}@example.com") });
        json!({ "event": "$identify", "distinct_id": id, "properties": { "$set": set } })
    };
    server.ingest(&[identify("u1", "pro"), identify("u2", "free"), identify("u3", "pro")]);
    let emails = |cohort: &Value, query: &str| -> Vec<String> {
        let persons = server.get(&format!("{}persons?{query}", path(cohort))).expect(200).json();
        let named = |person: &Value| person["name"].as_str().unwrap().to_owned();
        persons["results"].as_array().unwrap().iter().map(named).collect()
    };
    let made = create(&server, json!({ "filters": pro() }));
    let calculated = |cohort: &Value| {
        server.wait_until(&path(cohort), |cohort| cohort["is_calculating"] == json!(false))
    };
    assert_eq!(calculated(&made)["count"], 2);
    assert_eq!(emails(&made, ""), ["u1@example.com", "u3@example.com"]);
    assert_eq!(emails(&made, "search=u3"), ["u3@example.com"]);
    assert_eq!(emails(&made, "limit=1&offset=1"), ["u3@example.com"]);
    let person = server.get(&format!("{}persons?limit=1", path(&made))).expect(200).json();
    assert!(person["next"].as_str().unwrap().ends_with("limit=1&offset=1"));
    let person = &person["results"][0];
    assert_eq!((&person["type"], &person["distinct_ids"]), (&json!("person"), &json!(["u1"])));
    assert_eq!(person["id"], person["uuid"]);

    let copy = server.post(&format!("{}duplicate_as_static_cohort", path(&made)), json!({}));
    let copy = copy.expect(201).json();
    assert_eq!(copy["count"], 2);
    server.ingest(&[identify("u1", "free")]);
    server.post(&format!("{}calculate", path(&made)), json!({})).expect(200);
    assert_eq!(calculated(&made)["count"], 1);
    assert_eq!(emails(&copy, ""), ["u1@example.com", "u3@example.com"], "a list stays");

    let fields = [("name", "Listed"), ("is_static", "true")];
    let csv = b"Email,Distinct_ID\nx,u2\ny,unknown\n";
    let list = form(&server, "POST", COHORTS, &fields, csv).expect(201).json();
    assert_eq!(list["count"], 1);
    let more = form(&server, "PATCH", &path(&list), &[], b"email\nu3@example.com\n").expect(200);
    assert_eq!(more.json()["count"], 2);
    assert_eq!(emails(&list, ""), ["u2@example.com", "u3@example.com"]);
    let send = |action: &str, body: Value| server.patch(&format!("{}{action}", path(&list)), body);
    let one = json!({ "person_ids": [person["uuid"], "0192f0c1-2345-7000-8000-000000000000"] });
    assert_eq!(send("add_persons_to_static_cohort", one).expect(200).json()["count"], 3);
    let gone = json!({ "person_id": person["uuid"] });
    let removed = send("remove_person_from_static_cohort", gone.clone()).expect(200).json();
    assert_eq!(removed, json!({ "success": true }));
    send("remove_person_from_static_cohort", gone).expect(404);
    let none = json!({ "person_ids": [] });
    send("add_persons_to_static_cohort", none).expect(200);
    let log = server.get(&format!("{}activity", path(&list))).expect(200).json();
    let told: Vec<Value> = log["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let change = &entry["detail"]["changes"][0];
            json!([entry["activity"], change["field"], change["before"], change["after"]])
        })
        .collect();
    let expected = json!([
        ["updated", "count", 3, 2],
        ["updated", "count", 2, 3],
        ["updated", "count", 1, 2],
        ["updated", "count", 0, 1],
        ["created", null, null, null],
    ]);
    assert_eq!(json!(told), expected);
    // Flags reference both kinds.
    for (key, cohort) in [("listed", &list), ("pro", &made)] {
        let asks = json!([{ "type": "cohort", "key": "id", "value": cohort["id"] }]);
        let filters = json!({ "groups": [{ "properties": asks, "rollout_percentage": 100 }] });
        let body = json!({ "key": key, "filters": filters });
        server.post("/api/projects/1/feature_flags/", body).expect(201);
    }
    for (id, listed, pro) in [("u1", false, false), ("u2", true, false), ("u3", true, true)] {
        let body = json!({ "api_key": crate::harness::PROJECT_KEY, "distinct_id": id });
        let call = server.call("POST", "/decide?v=3").no_key();
        let flags = call.json(body).send().expect(200).json()["featureFlags"].clone();
        let is_on = |key: &str| flags.get(key) == Some(&json!(true));
        assert_eq!((is_on("listed"), is_on("pro")), (listed, pro), "{id}: {flags}");
    }
    // A merged person stays in the cohort as the merge target.
    let merge =
        json!({ "event": "$create_alias", "distinct_id": "u4", "properties": { "alias": "u9" } });
    server.ingest(&[identify("u9", "free"), merge]);
    let nine = form(&server, "POST", COHORTS, &fields, b"u9\n").expect(201).json();
    assert_eq!(nine["count"], 1);
}

fn cohort_used_indirectly_by_a_flag_cannot_be_deleted(store: Store) {
    let server = store.start();
    let inner = create(&server, json!({ "name": "inner", "filters": pro() }));
    let leaf = json!({ "key": "id", "type": "cohort", "value": inner["id"] });
    let outer = create(&server, json!({ "name": "outer", "filters": filters(leaf) }));
    let condition = json!({ "key": "id", "type": "cohort", "value": outer["id"] });
    let flag = json!({ "key": "far", "name": "far", "active": true, "filters": {
        "groups": [{ "properties": [condition], "rollout_percentage": 100 }] } });
    server.post("/api/projects/1/feature_flags/", flag).expect(201);
    let refused = server.patch(&path(&inner), json!({ "deleted": true })).expect(400).json();
    assert_eq!(refused["detail"], "This cohort is used by feature flags: far");
}

fn static_cohort_is_filled_from_a_query(store: Store) {
    let server = store.start();
    let set = |id: &str, plan: &str| json!({ "event": "$set", "distinct_id": id, "$set": { "plan": plan } });
    server.ingest(&[set("a", "pro"), set("b", "free"), set("c", "pro")]);
    let text = "select id from persons where properties.plan = 'pro'";
    let query = json!({ "kind": "HogQLQuery", "query": text });
    let made = create(&server, json!({ "name": "q", "is_static": true, "query": query.clone() }));
    assert_eq!(made["count"], 2);
    let of = |query: Value| json!({ "name": "q", "is_static": true, "query": query });
    let hogql = |text: &str| json!({ "kind": "HogQLQuery", "query": text });
    for (query, expected) in [
        (json!({ "kind": "ActorsQuery" }), 3),
        (json!({ "kind": "ActorsQuery", "select": ["person"] }), 3),
        (json!({ "kind": "ActorsQuery", "select": ["actor"], "limit": 2 }), 2),
        (json!({ "kind": "ActorsQuery", "select": ["id", "created_at"] }), 3),
        (json!({ "kind": "EventsQuery", "select": ["person_id"] }), 3),
        (hogql("select '0192f0c1-2345-7000-8000-000000000000'"), 0),
        (hogql("select person_id from events where event = 'never'"), 0),
    ] {
        assert_eq!(create(&server, of(query.clone()))["count"], expected, "{query}");
    }
    let count = server.get(COHORTS).json()["count"].clone();
    for query in [
        hogql("select event, person_id from events"),
        hogql("select distinct_id from events"),
        hogql("select 1"),
        hogql("select null"),
        json!({ "kind": "EventsQuery", "select": ["*"] }),
        json!({ "kind": "TrendsQuery", "series": [{ "kind": "EventsNode", "event": "$set" }] }),
    ] {
        let refused = server.post(COHORTS, of(query.clone())).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input query", "{query}");
        let told = "The query must give rows, with persons' ids in the first column.";
        assert_eq!(refused.json()["detail"], told);
    }
    assert_eq!(server.get(COHORTS).json()["count"], count, "nothing is left behind");
    let bad = json!({ "name": "q", "is_static": true, "query": { "kind": "Nope" } });
    server.post(COHORTS, bad).expect(400);
    let dynamic = json!({ "name": "q", "filters": pro(), "query": query });
    let refused = server.post(COHORTS, dynamic).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input query");
}

fn cohort_that_references_a_deleted_one_reports_it(store: Store) {
    let server = store.start();
    server.ingest(&[
        json!({ "event": "e", "distinct_id": "u", "properties": { "$set": { "plan": "pro" } } }),
    ]);
    let inner = create(&server, json!({ "name": "inner", "filters": pro() }));
    let asks = |id: &Value| filters(json!({ "type": "cohort", "key": "id", "value": id }));
    let middle = create(&server, json!({ "name": "middle", "filters": asks(&inner["id"]) }));
    let outer = create(&server, json!({ "name": "outer", "filters": asks(&middle["id"]) }));
    let is_done = |cohort: &Value| cohort["is_calculating"] == json!(false);
    assert_eq!(server.wait_until(&path(&outer), is_done)["count"], 1);
    server.patch(&path(&inner), json!({ "deleted": true })).expect(200);
    for cohort in [&middle, &outer] {
        let failed = server.wait_until(&path(cohort), is_done);
        assert_eq!(failed["errors_calculating"], 1, "{failed}");
        let why = failed["last_error_message"].as_str().unwrap();
        assert!(why.contains(&format!("cohort {}", inner["id"])), "{why}");
        assert_eq!(failed["count"], 1, "as it was last known");
    }
    server.patch(&path(&inner), json!({ "deleted": false })).expect(200);
    let whole = server.wait_until(&path(&outer), is_done);
    assert_eq!((&whole["errors_calculating"], &whole["count"]), (&json!(0), &json!(1)));
    assert_eq!(whole["last_error_message"], json!(null));
    // Changing a cohort changes the cohorts that reference it.
    let free = json!({ "type": "person", "key": "plan", "value": "free" });
    server.patch(&path(&inner), json!({ "filters": filters(free) })).expect(200);
    server.wait_until(&path(&outer), |cohort| cohort["count"] == json!(0));
}

fn static_cohort_counts_only_existing_persons(store: Store) {
    let server = store.start();
    let identify = |id: &str| json!({ "event": "$identify", "distinct_id": id, "properties": {} });
    server.ingest(&["a", "b", "c", "d"].map(identify));
    let fields = [("name", "Listed"), ("is_static", "true")];
    let list = form(&server, "POST", COHORTS, &fields, b"a\nb\nc\n").expect(201).json();
    let other = form(&server, "POST", COHORTS, &fields, b"d\n").expect(201).json();
    let counts = || {
        let count = |cohort: &Value| server.get(&path(cohort)).json()["count"].clone();
        (count(&list), count(&other))
    };
    assert_eq!(counts(), (json!(3), json!(1)));
    let found = server.get("/api/projects/1/persons/?distinct_id=a").expect(200).json();
    let uuid = found["results"][0]["uuid"].as_str().unwrap();
    server.delete(&format!("/api/projects/1/persons/{uuid}/")).expect(202);
    server.wait_until_applied();
    assert_eq!(counts(), (json!(2), json!(1)));
    let merge = json!({ "event": "$merge_dangerously", "distinct_id": "b", "properties": { "alias": "c" } });
    server.ingest(&[merge]);
    assert_eq!(counts(), (json!(1), json!(1)));
    // A deleted person's distinct id creates a new person.
    server.ingest(&[identify("a")]);
    assert_eq!(counts(), (json!(1), json!(1)));
}

fn dependent_cohorts_follow_changes_of_a_static_cohort(store: Store) {
    let server = store.start();
    server.ingest(&[json!({ "event": "e", "distinct_id": "a" })]);
    let list = create(&server, json!({ "is_static": true }));
    let asks = |id: &Value| filters(json!({ "type": "cohort", "key": "id", "value": id }));
    let middle = create(&server, json!({ "filters": asks(&list["id"]) }));
    let outer = create(&server, json!({ "filters": asks(&middle["id"]) }));
    let is = |count: i64| {
        for cohort in [&middle, &outer] {
            server.wait_until(&path(cohort), |cohort| {
                (&cohort["count"], &cohort["is_calculating"]) == (&json!(count), &json!(false))
            });
        }
    };
    is(0);
    form(&server, "PATCH", &path(&list), &[], b"a\n").expect(200);
    is(1);
    let persons = server.get(&format!("{}persons", path(&outer))).expect(200).json();
    let gone = json!({ "person_id": persons["results"][0]["uuid"] });
    let gone_at = format!("{}remove_person_from_static_cohort", path(&list));
    server.patch(&gone_at, gone).expect(200);
    is(0);
}
