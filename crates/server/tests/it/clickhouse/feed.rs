//! Persons, distinct ids, groups and members of cohorts reach ClickHouse.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Fixture, TIMEOUT, capture, wait_for};
use crate::harness::Server;

const PERSONS: &str = "SELECT count() FROM persons FINAL WHERE NOT is_deleted";
/// How many persons the events have, as a query counts them.
const COUNTED: &str = "SELECT uniqExact(d.person_no) FROM events AS e FINAL \
    INNER JOIN (SELECT * FROM distinct_ids FINAL) AS d \
    ON d.project_id = e.project_id AND d.distinct_no = e.distinct_no";

fn identify(anonymous: &str, known: &str) -> Value {
    json!({ "event": "$identify", "distinct_id": known,
        "properties": { "$anon_distinct_id": anonymous, "$set": { "plan": "pro" } } })
}

fn seen(distinct_id: &str) -> Value {
    json!({ "event": "seen", "distinct_id": distinct_id, "properties": {} })
}

fn tell(server: &Server) {
    let group = json!({ "event": "$groupidentify", "distinct_id": "ann", "properties": {
        "$group_type": "company", "$group_key": "acme", "$group_set": { "size": 7 } } });
    capture(server, &[seen("a1"), seen("a2"), seen("b1"), group]);
    capture(server, &[identify("a1", "ann"), identify("a2", "ann"), identify("b1", "bob")]);
}

#[test]
fn persons_groups_and_cohorts_follow_changes_kills_and_lost_tables() {
    let Some(Fixture { database, instance }) = Fixture::new() else { return };
    let server = instance.serve();
    tell(&server);
    wait_for(&database, COUNTED, "2");
    wait_for(&database, PERSONS, "2");
    let plan = "SELECT properties['plan'] FROM persons FINAL WHERE NOT is_deleted";
    wait_for(&database, plan, "tpro\ntpro");
    let groups = "SELECT type, key, properties['size'] FROM groups FINAL FORMAT CSV";
    wait_for(&database, groups, "0,\"acme\",\"n7\"");

    // Static and calculated cohorts.
    let cohort = json!({ "name": "all", "filters": { "properties": { "type": "AND", "values": [
        { "type": "AND", "values": [{ "key": "plan", "type": "person", "value": "pro" }] }] } } });
    server.post("/api/projects/1/cohorts/", cohort).expect(201);
    let list = json!({ "name": "list", "is_static": true });
    let list = server.post("/api/projects/1/cohorts/", list).expect(201).json()["id"].clone();
    let listed = server.get("/api/projects/1/persons/?distinct_id=bob").expect(200).json();
    let bob = listed["results"][0]["uuid"].clone();
    let path = format!("/api/projects/1/cohorts/{list}/add_persons_to_static_cohort/");
    server.patch(&path, json!({ "person_ids": [bob] })).expect(200);
    let members = "SELECT cohort_id, version, count() FROM cohort_members FINAL \
                   WHERE NOT is_deleted GROUP BY ALL ORDER BY ALL FORMAT CSV";
    wait_for(&database, members, "1,1,2\n2,0,1");
    // ClickHouse knows a version before it takes effect.
    let calculates = || {
        let cohort = server.get("/api/projects/1/cohorts/1/").expect(200).json();
        cohort["is_calculating"] == json!(true)
    };
    let deadline = Instant::now() + TIMEOUT;
    while calculates() {
        assert!(Instant::now() < deadline, "the cohort is still calculated");
        std::thread::sleep(Duration::from_millis(20));
    }

    // A kill between the catalog's commit and the insert loses nothing.
    capture(&server, &[identify("b1", "ann"), identify("c1", "cora"), seen("c1")]);
    server.wait_until_applied();
    let server = server.kill().serve();
    wait_for(&database, PERSONS, "3");
    wait_for(&database, COUNTED, "3");

    // A deleted person, with its events.
    let body = json!({ "ids": [bob], "delete_events": true });
    server.post("/api/projects/1/persons/bulk_delete/", body).expect(202);
    wait_for(&database, PERSONS, "2");
    wait_for(&database, COUNTED, "2");
    wait_for(&database, members, "1,1,2");

    // Tables that were lost are filled again.
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");
    for table in ["persons", "distinct_ids", "groups", "cohort_members"] {
        database.sql(&format!("TRUNCATE TABLE {table}"));
    }
    database.sql("ALTER TABLE lanes DELETE WHERE lane = 65535 SETTINGS mutations_sync = 2");
    let server = instance.serve();
    wait_for(&database, PERSONS, "2");
    wait_for(&database, COUNTED, "2");
    wait_for(&database, groups, "0,\"acme\",\"n7\"");
    capture(&server, &[seen("dora")]);
    wait_for(&database, PERSONS, "3");
}
