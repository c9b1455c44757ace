//! Ingestion warnings: limits on their number and age.

use model::{ProjectId, Timestamp, Warning, WarningDetails, WarningKind, Window};
use serde_json::json;

use crate::store::{EVERYTHING, Fixture, TestDatabase};

const DAY_SECONDS: i64 = 24 * 3_600;

fn warning(fixture: &Fixture, at: Timestamp) -> Warning {
    Warning {
        project: fixture.project.id,
        kind: WarningKind::MissingEventName,
        timestamp: at,
        details: WarningDetails { distinct_id: Some("u1".into()), ..Default::default() },
    }
}

async fn total(fixture: &Fixture) -> i64 {
    fixture.catalog.warnings().list(fixture.project.id, None, EVERYTHING).await.unwrap().1
}

pub async fn warnings_of_existing_projects_are_listed_newest_first(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let now = database.clock.now();
    let stray = Warning { project: ProjectId(99), ..warning(&fixture, now) };
    let large = Warning {
        kind: WarningKind::MessageSizeTooLarge,
        ..warning(&fixture, now.plus_seconds(5))
    };
    let sent = [warning(&fixture, now), stray, large];
    assert_eq!(fixture.catalog.warnings().record("capture", &sent).await.unwrap(), 2);
    assert_eq!(fixture.catalog.warnings().record("capture", &[]).await.unwrap(), 0);
    let (found, total) =
        fixture.catalog.warnings().list(fixture.project.id, None, EVERYTHING).await.unwrap();
    assert_eq!(total, 2);
    let kinds: Vec<&str> = found.iter().map(|warning| warning.kind.as_str()).collect();
    assert_eq!(kinds, ["message_size_too_large", "missing_event_name"]);
    assert_eq!(found[1].details, json!({ "distinctId": "u1" }));
    assert_eq!((found[1].timestamp, found[1].source.as_str()), (now, "capture"));
    let kind = Some("missing_event_name");
    let (found, total) =
        fixture.catalog.warnings().list(fixture.project.id, kind, EVERYTHING).await.unwrap();
    assert_eq!((found.len(), total), (1, 1));
    assert_eq!(
        fixture.catalog.warnings().list(ProjectId(99), None, EVERYTHING).await.unwrap().1,
        0
    );
}

pub async fn pruning_deletes_old_and_excess_warnings(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let started = database.clock.now();
    let many: Vec<Warning> = (0..5_001).map(|_| warning(&fixture, started)).collect();
    assert_eq!(fixture.catalog.warnings().record("capture", &many).await.unwrap(), 5_000);
    database.clock.advance_seconds(30 * DAY_SECONDS + 1);
    let now = database.clock.now();
    let fresh: Vec<Warning> = (0..5_000).map(|n| warning(&fixture, now.plus_seconds(n))).collect();
    fixture.catalog.warnings().record("capture", &fresh).await.unwrap();
    assert_eq!(fixture.catalog.warnings().prune().await.unwrap(), 5_000);
    assert_eq!(total(&fixture).await, 5_000);
    assert_eq!(fixture.catalog.warnings().prune().await.unwrap(), 0);

    fixture.catalog.warnings().record("capture", &fresh).await.unwrap();
    fixture.catalog.warnings().record("capture", &fresh[..1_500]).await.unwrap();
    assert_eq!(fixture.catalog.warnings().prune().await.unwrap(), 1_500);
    let last = Window { limit: 1, offset: 9_999 };
    let (oldest, total) =
        fixture.catalog.warnings().list(fixture.project.id, None, last).await.unwrap();
    assert_eq!(total, 10_000);
    assert_eq!(oldest[0].timestamp, now.plus_seconds(500), "the oldest went first");
}
