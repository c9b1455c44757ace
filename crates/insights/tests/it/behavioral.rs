//! Behavioral filters of cohorts.

use model::property::{Dialect, Node};
use serde_json::{Value as Json, json};

use crate::project::{Project, limits};

fn matching_persons(project: &Project, more: Json) -> Vec<u32> {
    let mut leaf = json!({ "type": "behavioral", "key": "a", "value": "performed_event",
        "event_type": "events", "time_value": "2", "time_interval": "day" });
    leaf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let node = Node::parse(&leaf, &Dialect::default()).unwrap();
    let mut found = Vec::new();
    node.behavioral_filters(&mut found);
    insights::matching_persons(found[0], &project.view(), &limits()).unwrap().iter().collect()
}

// contract: management section 11, the first three kinds of behaviour
#[test]
fn behavioral_filters_match_recent_frequent_and_first_events() {
    let mut project = Project::f1();
    project.event("nobody", "a", "2024-01-03T10:00:00Z", json!({}));
    project.event("p3", "a", "2024-01-03T18:00:01Z", json!({}));
    // Now is the evening of January 3.
    for (more, expected) in [
        (json!({}), vec![0]),
        (json!({ "time_value": 3 }), vec![0, 1]),
        (json!({ "value": "performed_event_first_time" }), vec![]),
        (json!({ "value": "performed_event_first_time", "time_value": 3 }), vec![0, 1]),
        (
            json!({ "value": "performed_event_multiple", "operator_value": 2, "operator": "gte", "time_value": 3 }),
            vec![0],
        ),
        (
            json!({ "value": "performed_event_multiple", "operator_value": 2, "operator": "lt", "time_value": 3 }),
            vec![1],
        ),
        (
            json!({ "value": "performed_event_multiple", "operator_value": 1, "operator": "lt", "time_value": 3 }),
            vec![],
        ),
        (
            json!({ "time_value": 3, "event_filters": [{ "key": "$browser", "value": "Safari" }] }),
            vec![1],
        ),
        (
            json!({ "key": "b", "explicit_datetime": "2024-01-01", "explicit_datetime_to": "2024-01-02" }),
            vec![1],
        ),
    ] {
        assert_eq!(matching_persons(&project, more.clone()), expected, "{more}");
        project.warehouse.flush().unwrap();
    }
}
