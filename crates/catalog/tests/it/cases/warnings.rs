//! Ingestion warnings: bounded in number and age, and never in the way.

use model::{ProjectId, Timestamp, Warning, WarningDetails, WarningKind, Window};
use serde_json::json;

use crate::store::{EVERYTHING, Home, Place};

const DAY_SECONDS: i64 = 24 * 3_600;

fn warning(home: &Home, at: Timestamp) -> Warning {
    Warning {
        project: home.project.id,
        kind: WarningKind::MissingEventName,
        timestamp: at,
        details: WarningDetails { distinct_id: Some("u1".into()), ..Default::default() },
    }
}

async fn total(home: &Home) -> i64 {
    home.catalog.warnings().list(home.project.id, None, EVERYTHING).await.unwrap().1
}

pub async fn warnings_of_projects_that_are_there_are_listed_newest_first(place: Place) {
    let home = place.home().await;
    let now = place.clock.now();
    let stray = Warning { project: ProjectId(99), ..warning(&home, now) };
    let large =
        Warning { kind: WarningKind::MessageSizeTooLarge, ..warning(&home, now.plus_seconds(5)) };
    let sent = [warning(&home, now), stray, large];
    assert_eq!(home.catalog.warnings().record("capture", &sent).await.unwrap(), 2);
    assert_eq!(home.catalog.warnings().record("capture", &[]).await.unwrap(), 0);
    let (found, total) =
        home.catalog.warnings().list(home.project.id, None, EVERYTHING).await.unwrap();
    assert_eq!(total, 2);
    let kinds: Vec<&str> = found.iter().map(|warning| warning.kind.as_str()).collect();
    assert_eq!(kinds, ["message_size_too_large", "missing_event_name"]);
    assert_eq!(found[1].details, json!({ "distinctId": "u1" }));
    assert_eq!((found[1].timestamp, found[1].source.as_str()), (now, "capture"));
    let kind = Some("missing_event_name");
    let (found, total) =
        home.catalog.warnings().list(home.project.id, kind, EVERYTHING).await.unwrap();
    assert_eq!((found.len(), total), (1, 1));
    assert_eq!(home.catalog.warnings().list(ProjectId(99), None, EVERYTHING).await.unwrap().1, 0);
}

pub async fn old_warnings_go_and_so_do_the_oldest_of_too_many(place: Place) {
    let home = place.home().await;
    let started = place.clock.now();
    let many: Vec<Warning> = (0..5_001).map(|_| warning(&home, started)).collect();
    assert_eq!(home.catalog.warnings().record("capture", &many).await.unwrap(), 5_000);
    place.clock.advance_seconds(30 * DAY_SECONDS + 1);
    let now = place.clock.now();
    let fresh: Vec<Warning> = (0..5_000).map(|n| warning(&home, now.plus_seconds(n))).collect();
    home.catalog.warnings().record("capture", &fresh).await.unwrap();
    assert_eq!(home.catalog.warnings().prune().await.unwrap(), 5_000);
    assert_eq!(total(&home).await, 5_000);
    assert_eq!(home.catalog.warnings().prune().await.unwrap(), 0);

    home.catalog.warnings().record("capture", &fresh).await.unwrap();
    home.catalog.warnings().record("capture", &fresh[..1_500]).await.unwrap();
    assert_eq!(home.catalog.warnings().prune().await.unwrap(), 1_500);
    let last = Window { limit: 1, offset: 9_999 };
    let (oldest, total) = home.catalog.warnings().list(home.project.id, None, last).await.unwrap();
    assert_eq!(total, 10_000);
    assert_eq!(oldest[0].timestamp, now.plus_seconds(500), "the oldest went first");
}
