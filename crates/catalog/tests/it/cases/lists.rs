//! Lists: their number of statements, and their pages.

use std::collections::HashSet;

use catalog::OrganizationChange;
use model::{FlagAccess, MembershipLevel, OrganizationId, Window};
use uuid::Uuid;

use crate::store::{EVERYTHING, Fixture, TestDatabase};

pub async fn lists_take_a_constant_number_of_statements(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    fill(&fixture, 0..1).await;
    let few = cost(&fixture, 1).await;
    fill(&fixture, 1..12).await;
    assert_eq!(cost(&fixture, 12).await, few);
}

async fn fill(fixture: &Fixture, numbers: std::ops::Range<usize>) {
    let actor = fixture.actor();
    for number in numbers {
        let name = Some(format!("o{number}"));
        let change = OrganizationChange { name: name.clone(), ..Default::default() };
        fixture.catalog.organizations().create(fixture.owner.user.id, change).await.unwrap();
        let role =
            fixture.catalog.roles().create(&actor, format!("r{number}"), FlagAccess::Edit).await;
        let member = fixture.add(&format!("m{number}@example.com"), MembershipLevel::Member).await;
        fixture
            .catalog
            .roles()
            .add_member(&actor, role.unwrap().id, member.user.uuid)
            .await
            .unwrap();
    }
}

/// Statements of each list, after a check of its length.
async fn cost(fixture: &Fixture, made: usize) -> Vec<u64> {
    let catalog = &fixture.catalog;
    let mut costs = Vec::new();
    let mut last = catalog.statements();
    let mut note = || {
        let now = catalog.statements();
        costs.push(now - last);
        last = now;
    };
    let owner = fixture.owner.user.id;
    let (organizations, _) =
        catalog.organizations().of_user(owner, Some(&fixture.key), EVERYTHING).await.unwrap();
    assert_eq!(organizations.len(), made + 1);
    note();
    let ids: Vec<OrganizationId> = organizations.iter().map(|(row, _)| row.id).collect();
    assert_eq!(catalog.users().projects_in(&ids, owner).await.unwrap().len(), made + 1);
    note();
    let counts = catalog.organizations().member_counts(&ids).await.unwrap();
    assert_eq!((counts[&fixture.organization], counts.len()), (made as i64 + 1, made + 1));
    note();
    assert_eq!(
        catalog.members().list(fixture.organization, EVERYTHING).await.unwrap().0.len(),
        made + 1
    );
    note();
    let (roles, _) = catalog.roles().list(fixture.organization, EVERYTHING).await.unwrap();
    assert_eq!(roles.len(), made);
    note();
    let ids: Vec<Uuid> = roles.iter().map(|role| role.id).collect();
    assert_eq!(catalog.roles().members_of(&ids).await.unwrap().len(), made);
    note();
    assert_eq!(catalog.roles().memberships(ids[0], EVERYTHING).await.unwrap().1, 1);
    note();
    assert_eq!(catalog.keys().list(owner).await.unwrap().len(), 1);
    note();
    costs
}

pub async fn pages_cover_a_list_without_overlap(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    fill(&fixture, 0..7).await;
    let mut seen: [HashSet<Uuid>; 3] = Default::default();
    for offset in [0, 3, 6, 9] {
        let window = Window { limit: 3, offset };
        let (organizations, total) = fixture
            .catalog
            .organizations()
            .of_user(fixture.owner.user.id, None, window)
            .await
            .unwrap();
        assert_eq!(total, 8);
        seen[0].extend(organizations.iter().map(|(row, _)| row.id.0));
        let (members, total) =
            fixture.catalog.members().list(fixture.organization, window).await.unwrap();
        assert_eq!(total, 8);
        seen[1].extend(members.iter().map(|member| member.id));
        let (roles, total) =
            fixture.catalog.roles().list(fixture.organization, window).await.unwrap();
        assert_eq!(total, 7);
        seen[2].extend(roles.iter().map(|role| role.id));
    }
    assert_eq!(seen.map(|ids| ids.len()), [8, 8, 7]);
    assert!(
        fixture
            .catalog
            .roles()
            .list(fixture.organization, EVERYTHING)
            .await
            .unwrap()
            .0
            .is_sorted_by_key(|role| role.name.clone())
    );
}
