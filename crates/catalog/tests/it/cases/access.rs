//! Access rules: how they are loaded, and how many there may be.

use catalog::{Actor, DashboardFilter, Error, RuleSubject, RuleTarget};
use model::{AccessLevel, MembershipLevel, ObjectKind, Viewer};

use crate::store::{EVERYTHING, Fixture, TestDatabase};

/// The maximum number of rules for everyone, each about one dashboard.
const FULL: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
     INSERT INTO access_controls (project_id, resource, resource_id, access_level, created_at, \
     updated_at) SELECT 1, 'dashboard', i, 'none', 0, 0 FROM n";

pub async fn effective_access_loads_all_rules_in_one_statement(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let member = fixture.add("m@example.com", MembershipLevel::Member).await.user.id;
    let actor = Actor { project: Some(fixture.project.id), ..fixture.actor() };
    let Fixture { catalog, project, .. } = &fixture;
    let cost = async || {
        let before = catalog.statements();
        let standing = catalog.access().effective(member, project.id).await.unwrap().unwrap();
        (catalog.statements() - before, standing)
    };
    let (statements, standing) = cost().await;
    assert_eq!((statements, standing.level), (1, MembershipLevel::Member));
    assert_eq!(standing.access.of_object(ObjectKind::Dashboard, 7), AccessLevel::Editor);

    database.sql(FULL).await;
    let (statements, standing) = cost().await;
    assert_eq!(statements, 1);
    assert_eq!(standing.access.of_object(ObjectKind::Dashboard, 7), AccessLevel::None);
    assert_eq!(standing.access.of_object(ObjectKind::Insight, 7), AccessLevel::Editor);
    // Hiding that many objects takes no further statement.
    let viewer = Viewer { user: member, is_admin: false, access: &standing.access };
    let visibility = viewer.visibility(ObjectKind::Dashboard);
    let before = catalog.statements();
    let filter = DashboardFilter { visibility, ..Default::default() };
    let (found, total) =
        catalog.dashboards().list(project.id, member, &filter, EVERYTHING).await.unwrap();
    let hidden = catalog.statements() - before;
    assert_eq!((found.len(), total), (0, 0));
    let before = catalog.statements();
    let everything = DashboardFilter::default();
    catalog.dashboards().list(project.id, member, &everything, EVERYTHING).await.unwrap();
    assert_eq!(catalog.statements() - before, hidden);

    // At the limit, existing rules can still be changed and deleted.
    let everybody = RuleSubject::Everyone;
    let set =
        async |target, level| catalog.access_rules().set(&actor, target, everybody, level).await;
    let refused = set(RuleTarget::Project, Some("none")).await;
    assert!(matches!(refused, Err(Error::Refused { field: None, .. })), "{refused:?}");
    assert!(catalog.access().effective(member, project.id).await.unwrap().is_some());
    database.sql("DELETE FROM access_controls WHERE resource_id = 7").await;
    set(RuleTarget::Project, Some("none")).await.unwrap().unwrap();
    assert!(catalog.access().effective(member, project.id).await.unwrap().is_none());
    assert!(set(RuleTarget::Project, None).await.unwrap().is_none());
    assert!(catalog.access().effective(member, project.id).await.unwrap().is_some());
}
