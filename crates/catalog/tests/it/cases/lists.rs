//! Lists: how much they ask, and what their pages hold.

use std::collections::HashSet;

use catalog::OrganizationChange;
use model::{FlagAccess, MembershipLevel, OrganizationId, Window};
use uuid::Uuid;

use crate::store::{EVERYTHING, Home, Place};

pub async fn lists_take_as_many_statements_for_many_as_for_one(place: Place) {
    let home = place.home().await;
    fill(&home, 0..1).await;
    let few = cost(&home, 1).await;
    fill(&home, 1..12).await;
    assert_eq!(cost(&home, 12).await, few);
}

async fn fill(home: &Home, numbers: std::ops::Range<usize>) {
    let actor = home.actor();
    for number in numbers {
        let name = Some(format!("o{number}"));
        let change = OrganizationChange { name: name.clone(), ..Default::default() };
        home.catalog.organizations().create(home.owner.user.id, change).await.unwrap();
        let role =
            home.catalog.roles().create(&actor, format!("r{number}"), FlagAccess::Edit).await;
        let member = home.add(&format!("m{number}@example.com"), MembershipLevel::Member).await;
        home.catalog.roles().add_member(&actor, role.unwrap().id, member.user.uuid).await.unwrap();
    }
}

/// Statements of each list, once its length is right.
async fn cost(home: &Home, made: usize) -> Vec<u64> {
    let catalog = &home.catalog;
    let mut costs = Vec::new();
    let mut last = catalog.statements();
    let mut note = || {
        let now = catalog.statements();
        costs.push(now - last);
        last = now;
    };
    let owner = home.owner.user.id;
    let (organizations, _) =
        catalog.organizations().of_user(owner, Some(&home.key), EVERYTHING).await.unwrap();
    assert_eq!(organizations.len(), made + 1);
    note();
    let ids: Vec<OrganizationId> = organizations.iter().map(|(row, _)| row.id).collect();
    assert_eq!(catalog.users().projects_in(&ids, owner).await.unwrap().len(), made + 1);
    note();
    let counts = catalog.organizations().member_counts(&ids).await.unwrap();
    assert_eq!((counts[&home.organization], counts.len()), (made as i64 + 1, made + 1));
    note();
    assert_eq!(
        catalog.members().list(home.organization, EVERYTHING).await.unwrap().0.len(),
        made + 1
    );
    note();
    let (roles, _) = catalog.roles().list(home.organization, EVERYTHING).await.unwrap();
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

pub async fn pages_cover_a_list_once(place: Place) {
    let home = place.home().await;
    fill(&home, 0..7).await;
    let mut seen: [HashSet<Uuid>; 3] = Default::default();
    for offset in [0, 3, 6, 9] {
        let window = Window { limit: 3, offset };
        let (organizations, total) =
            home.catalog.organizations().of_user(home.owner.user.id, None, window).await.unwrap();
        assert_eq!(total, 8);
        seen[0].extend(organizations.iter().map(|(row, _)| row.id.0));
        let (members, total) =
            home.catalog.members().list(home.organization, window).await.unwrap();
        assert_eq!(total, 8);
        seen[1].extend(members.iter().map(|member| member.id));
        let (roles, total) = home.catalog.roles().list(home.organization, window).await.unwrap();
        assert_eq!(total, 7);
        seen[2].extend(roles.iter().map(|role| role.id));
    }
    assert_eq!(seen.map(|ids| ids.len()), [8, 8, 7]);
    assert!(
        home.catalog
            .roles()
            .list(home.organization, EVERYTHING)
            .await
            .unwrap()
            .0
            .is_sorted_by_key(|role| role.name.clone())
    );
}
