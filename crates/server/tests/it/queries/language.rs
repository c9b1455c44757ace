//! Queries about HogQL, for editors: checks, the schema, completion.

use serde_json::{Value, json};

use crate::harness::{Server, Store};
use crate::queries::run::ask;

fn answer(server: &Server, query: Value) -> Value {
    ask(server, json!({ "query": query })).expect(200).json()
}

fn check(server: &Server, language: &str, text: &str) -> Value {
    let query = json!({ "kind": "HogQLMetadata", "language": language, "query": text });
    answer(server, query)
}

#[test]
fn metadata_locates_errors_and_suggests_fixes() {
    let server = Store::Sqlite.start();
    for (language, text, marked, fix) in [
        ("hogQL", "select 'é', evnt from events", "evnt", Some("event")),
        ("hogQL", "select event from event", "event", Some("events")),
        ("hogQL", "select cuont() from events", "cuont", Some("count")),
        ("hogQL", "select event from events where", "", None),
        ("hogQL", "select {variables.n}", "{variables.n}", None),
        ("hogQLExpr", "properties.a = evnt", "evnt", Some("event")),
        ("hogTemplate", "Hello {person.} you", "}", None),
        ("hogTemplate", "Hello {'}'", "{", None),
    ] {
        let told = check(&server, language, text);
        assert_eq!(told["isValid"], false, "{text}: {told}");
        let error = &told["errors"][0];
        let at = |key: &str| error[key].as_u64().unwrap() as usize;
        let part: String = text.chars().skip(at("start")).take(at("end") - at("start")).collect();
        assert!(marked.starts_with(&part), "{text}: {part}, {error}");
        assert_eq!(error["fix"].as_str(), fix, "{text}: {error}");
    }
}

#[test]
fn metadata_accepts_valid_texts_and_lists_their_tables() {
    let server = Store::Sqlite.start();
    let told = check(
        &server,
        "hogQL",
        "with t as (select person_id from events) select count() from t \
         where person_id in (select id from persons) and {filters}",
    );
    assert_eq!([&told["isValid"], &told["errors"]], [&json!(true), &json!([])], "{told}");
    assert_eq!(told["table_names"], json!(["events", "persons"]));
    assert_eq!(told["results"], json!([]));
    assert_eq!(check(&server, "hogQLExpr", "event = 'a'")["table_names"], json!(["events"]));
    assert_eq!(check(&server, "hogTemplate", r"\{a} {upper(person.name)}")["isValid"], true);
    let of_persons = json!({ "kind": "HogQLMetadata", "language": "hogQLExpr",
        "query": "is_identified", "sourceQuery": { "kind": "ActorsQuery" } });
    assert_eq!(answer(&server, of_persons)["table_names"], json!(["persons"]));
    let given = json!({ "kind": "HogQLMetadata", "language": "hogQL", "query": "select {variables.n}",
        "variables": { "id": { "variableId": "id", "code_name": "n", "value": 3 } } });
    assert_eq!(answer(&server, given)["isValid"], true);
    let variable = json!({ "name": "Known", "type": "Number", "default_value": 3 });
    server.post("/api/projects/1/insight_variables/", variable).expect(201);
    assert_eq!(check(&server, "hogQL", "select {variables.known} + 1")["isValid"], true);
    for query in [
        json!({ "kind": "HogQLMetadata", "language": "hog", "query": "return 1" }),
        json!({ "kind": "HogQLMetadata", "query": "select 1" }),
        json!({ "kind": "HogQLMetadata", "language": "hogQL", "query": "select 1", "frobnicate": 1 }),
    ] {
        let refused = ask(&server, json!({ "query": query })).expect(400).json();
        assert_eq!(refused["code"], "parse_error", "{refused}");
    }
}

#[test]
fn schema_lists_what_statements_can_read_and_call() {
    let server = Store::Sqlite.start();
    server.ingest(&[json!({ "event": "$groupidentify", "distinct_id": "p1", "properties": {
        "$group_type": "company", "$group_key": "acme" } })]);
    let schema = answer(&server, json!({ "kind": "DatabaseSchemaQuery" }));
    let field = |table: &str, name: &str| schema["tables"][table]["fields"][name].clone();
    assert_eq!(field("events", "timestamp")["type"], "datetime");
    assert_eq!(field("events", "person")["table"], "persons");
    assert_eq!(field("events", "company")["chain"], json!(["group_0"]));
    assert_eq!(field("sessions", "$is_bounce")["type"], "boolean");
    assert_eq!(schema["tables"]["events"]["type"], "posthog");
    let functions = schema["functions"].as_array().unwrap();
    let count = functions.iter().find(|function| function["name"] == "count").unwrap();
    assert_eq!([&count["kind"], &count["returns"]], [&json!("aggregate"), &json!("UInt64")]);
}

#[test]
fn autocomplete_suggests_what_can_stand_at_the_cursor() {
    let server = Store::Sqlite.start();
    server.ingest(&[json!({ "event": "a", "distinct_id": "p1",
        "properties": { "amount": 1, "my plan": "x", "$set": { "email": "a@b.c" } } })]);
    for (text, expected) in [
        ("select | from events", vec!["event", "count", "person"]),
        ("select even| from events", vec!["event"]),
        ("select event from pers|", vec!["persons", "person_distinct_ids"]),
        ("select properties.am| from events", vec!["amount"]),
        ("select e.person.properties.| from events e", vec!["email"]),
        ("select 'even|' from events", vec![]),
    ] {
        let at = text.find('|').unwrap();
        let text = text.replacen('|', "", 1);
        let start = text[..at].rfind([' ', '.', '\'']).map_or(0, |before| before + 1);
        let told = answer(
            &server,
            json!({ "kind": "HogQLAutocomplete", "language": "hogQL", "query": text,
                "startPosition": start, "endPosition": at }),
        );
        let labels: Vec<&str> = told["suggestions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|suggestion| suggestion["label"].as_str().unwrap())
            .collect();
        assert!(expected.iter().all(|name| labels.contains(name)), "{text}: {labels:?}");
        assert_eq!(labels.is_empty(), expected.is_empty(), "{text}: {labels:?}");
        assert_eq!(told["incomplete_list"], false);
    }
}
