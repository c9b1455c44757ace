//! Members, their levels and their sessions.

use catalog::{Error, NewPassword, OrganizationChange, UserChange};
use model::{FlagAccess, MembershipLevel};

use crate::store::{EVERYTHING, TestDatabase, person};

pub async fn members_cannot_grant_or_change_levels_above_their_own(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (mut actors, mut targets) = (Vec::new(), Vec::new());
    for (level, name) in [
        (MembershipLevel::Member, "m"),
        (MembershipLevel::Admin, "a"),
        (MembershipLevel::Owner, "o"),
    ] {
        actors.push((fixture.add(&format!("{name}1@example.com"), level).await, level));
        targets.push((fixture.add(&format!("{name}2@example.com"), level).await, level));
    }
    for (actor, own) in &actors {
        let by = fixture.actor_of(actor);
        for (target, level) in &targets {
            for new in [MembershipLevel::Member, MembershipLevel::Admin, MembershipLevel::Owner] {
                let result = fixture.catalog.members().set_level(&by, target.user.uuid, new).await;
                let may = *own > MembershipLevel::Member && own >= level && *own >= new;
                assert_eq!(result.is_ok(), may, "{own:?} sets {level:?} to {new:?}");
                assert!(matches!(result, Ok(_) | Err(Error::Forbidden(_))));
                fixture
                    .catalog
                    .members()
                    .set_level(&fixture.actor(), target.user.uuid, *level)
                    .await
                    .unwrap();
            }
        }
        for new in [MembershipLevel::Member, MembershipLevel::Admin, MembershipLevel::Owner] {
            let result = fixture.catalog.members().set_level(&by, actor.user.uuid, new).await;
            assert_eq!(result.is_ok(), new <= *own, "{own:?} sets itself to {new:?}");
            fixture
                .catalog
                .members()
                .set_level(&fixture.actor(), actor.user.uuid, *own)
                .await
                .unwrap();
            let made =
                fixture.catalog.members().add(&by, person(&format!("{own:?}{new:?}@x")), new).await;
            assert_eq!(
                made.is_ok(),
                *own > MembershipLevel::Member && new <= *own,
                "{own:?} adds {new:?}"
            );
        }
    }
    let [(member, _), (admin, _), (owner, _)] = &actors[..] else { panic!() };
    let remove =
        async |by, target| fixture.catalog.members().remove(&fixture.actor_of(by), target).await;
    assert!(matches!(remove(member, admin.user.uuid).await, Err(Error::Forbidden(_))));
    assert!(matches!(remove(admin, owner.user.uuid).await, Err(Error::Forbidden(_))));
    remove(member, member.user.uuid).await.unwrap();
    remove(owner, admin.user.uuid).await.unwrap();
    assert!(matches!(remove(admin, owner.user.uuid).await, Err(Error::Forbidden(_))));
}

pub async fn the_last_owner_cannot_be_removed_or_demoted(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let own = fixture.owner.user.uuid;
    let refused =
        fixture.catalog.members().set_level(&fixture.actor(), own, MembershipLevel::Admin).await;
    assert!(matches!(refused, Err(Error::Refused { .. })));
    let other = fixture.add("owner2@example.com", MembershipLevel::Owner).await;
    fixture.catalog.users().set_active(other.user.id, false).await.unwrap();
    let refused = fixture.catalog.members().remove(&fixture.actor(), own).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "the other one cannot log in");
    fixture.catalog.users().set_active(other.user.id, true).await.unwrap();
    fixture.catalog.members().remove(&fixture.actor(), own).await.unwrap();
    let (left, total) =
        fixture.catalog.members().list(fixture.organization, EVERYTHING).await.unwrap();
    assert_eq!((left[0].user.uuid, total), (other.user.uuid, 1));
}

pub async fn new_members_get_the_default_role(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (catalog, actor) = (&fixture.catalog, fixture.actor());
    let role = catalog.roles().create(&actor, "Ops".into(), FlagAccess::Edit).await.unwrap();
    fixture.add("before@example.com", MembershipLevel::Member).await;
    let set = |role| OrganizationChange { default_role_id: Some(role), ..Default::default() };
    let changed = catalog.organizations().update(&actor, set(Some(role.id))).await.unwrap();
    assert_eq!(changed.default_role_id, Some(role.id));
    assert!(catalog.roles().get(fixture.organization, role.id).await.unwrap().is_default);
    let after = fixture.add("after@example.com", MembershipLevel::Member).await;
    let (members, total) = catalog.roles().memberships(role.id, EVERYTHING).await.unwrap();
    assert_eq!((members[0].user.uuid, total), (after.user.uuid, 1));

    catalog.members().remove(&actor, after.user.uuid).await.unwrap();
    assert_eq!(catalog.roles().memberships(role.id, EVERYTHING).await.unwrap().1, 0);
    catalog.roles().delete(&actor, role.id).await.unwrap();
    assert_eq!(
        catalog.organizations().get(fixture.organization).await.unwrap().default_role_id,
        None
    );
}

pub async fn sessions_end_by_expiry_password_change_and_deactivation(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (catalog, user) = (&fixture.catalog, fixture.owner.user.id);
    let session = catalog.sessions().create(user, 100).await.unwrap();
    assert_eq!(catalog.sessions().user(&session).await.unwrap().unwrap().user.id, user);
    let stored = database.sql("SELECT hash FROM sessions").await;
    assert_eq!(stored, [session.hash()]);
    database.clock.advance_seconds(99);
    assert!(catalog.sessions().user(&session).await.unwrap().is_some());
    database.clock.advance_seconds(1);
    assert!(catalog.sessions().user(&session).await.unwrap().is_none());

    let session = catalog.sessions().create(user, 100).await.unwrap();
    assert_eq!(database.sql("SELECT hash FROM sessions").await, [session.hash()]);
    catalog.sessions().delete(&session).await.unwrap();
    assert!(catalog.sessions().user(&session).await.unwrap().is_none());

    for kept in [0, 1] {
        let sessions = [
            catalog.sessions().create(user, 100).await.unwrap(),
            catalog.sessions().create(user, 100).await.unwrap(),
        ];
        let keep = (kept == 1).then(|| sessions[0].clone());
        let password = Some(NewPassword { hash: "x".into(), keep_session: keep });
        let change = UserChange { password, ..Default::default() };
        catalog.users().update(user, change).await.unwrap();
        let first = catalog.sessions().user(&sessions[0]).await.unwrap();
        assert_eq!(first.is_some(), kept == 1);
        assert!(catalog.sessions().user(&sessions[1]).await.unwrap().is_none());
    }

    let session = catalog.sessions().create(user, 100).await.unwrap();
    catalog.users().set_active(user, false).await.unwrap();
    assert!(catalog.sessions().user(&session).await.unwrap().is_none());
    catalog.users().set_active(user, true).await.unwrap();
    assert!(catalog.sessions().user(&session).await.unwrap().is_none());
}

pub async fn the_session_limit_ends_the_oldest_session(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (catalog, user) = (&fixture.catalog, fixture.owner.user.id);
    let oldest = catalog.sessions().create(user, 10_000).await.unwrap();
    database.clock.advance_seconds(1);
    let second = catalog.sessions().create(user, 10_000).await.unwrap();
    database.clock.advance_seconds(1);
    let newest = catalog.sessions().create(user, 10_000).await.unwrap();
    for _ in 3..100 {
        catalog.sessions().create(user, 10_000).await.unwrap();
    }
    assert!(catalog.sessions().user(&oldest).await.unwrap().is_some());
    catalog.sessions().create(user, 10_000).await.unwrap();
    assert!(catalog.sessions().user(&oldest).await.unwrap().is_none());
    for kept in [second, newest] {
        assert!(catalog.sessions().user(&kept).await.unwrap().is_some());
    }
}

pub async fn email_addresses_are_unique_ignoring_case(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let new = person("ADMIN@example.com");
    let refused =
        fixture.catalog.members().add(&fixture.actor(), new, MembershipLevel::Member).await;
    assert!(matches!(refused, Err(Error::Taken { field: "email", .. })));
    let found = fixture.catalog.users().by_email("Admin@Example.com").await.unwrap().unwrap();
    assert_eq!(found.user.id, fixture.owner.user.id);
}
