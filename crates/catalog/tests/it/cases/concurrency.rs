//! Concurrent writers.

use std::collections::HashSet;
use std::future::Future;

use catalog::{
    Actor, Error, KeyEditor, NewKey, OrganizationChange, ProjectChange, Result, UserChange,
};
use model::scope::Scopes;
use model::{FlagAccess, MembershipLevel};
use tokio::task::JoinSet;

use crate::store::{EVERYTHING, Fixture, TestDatabase};

const WRITERS: usize = 50;

async fn at_once<T, F>(count: usize, task: impl Fn(usize) -> F) -> Vec<Result<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for number in 0..count {
        tasks.spawn(task(number));
    }
    tasks.join_all().await
}

/// Each update contains the value it read: without a gap, no update was lost.
pub async fn concurrent_updates_of_one_row_lose_none(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (actor, id, first) = (fixture.actor(), fixture.project.id, fixture.project.name.clone());
    let results = at_once(WRITERS, |number| {
        let catalog = fixture.catalog.clone();
        async move {
            let change = ProjectChange { name: Some(format!("{number}")), ..Default::default() };
            catalog.projects().update(&actor, id, change).await
        }
    })
    .await;
    for result in results {
        result.unwrap();
    }
    let mut details = database.details().await;
    details.truncate(WRITERS);
    let mut steps: Vec<(String, String)> = details
        .iter()
        .map(|detail| &detail["changes"][0])
        .map(|change| {
            let text = |side: &str| change[side].as_str().unwrap().to_owned();
            (text("before"), text("after"))
        })
        .collect();
    let mut name = first;
    for _ in 0..WRITERS {
        let next = steps.iter().position(|(before, _)| *before == name).unwrap();
        name = steps.swap_remove(next).1;
    }
    assert_eq!(fixture.catalog.projects().get(id).await.unwrap().name, name);
}

pub async fn concurrent_updates_of_different_rows_all_succeed(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let actor = fixture.actor();
    let results = at_once(WRITERS, |number| {
        let catalog = fixture.catalog.clone();
        async move { catalog.roles().create(&actor, format!("r{number}"), FlagAccess::Edit).await }
    })
    .await;
    for result in results {
        result.unwrap();
    }
    assert_eq!(fixture.catalog.roles().list(fixture.organization, EVERYTHING).await.unwrap().1, 50);
}

pub async fn concurrent_requests_create_the_last_allowed_key_once(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (owner, actor) = (fixture.owner.user.id, fixture.actor());
    let results = at_once(WRITERS, |_| {
        let catalog = fixture.catalog.clone();
        async move {
            let by = KeyEditor { owner, key: None, actor: Some(actor) };
            catalog.keys().create(&by, new_key()).await
        }
    })
    .await;
    let made = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(made, 9, "one of ten was there already");
    for refused in results.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, Error::Refused { field: None, .. }), "{refused}");
    }
    assert_eq!(fixture.catalog.keys().list(owner).await.unwrap().len(), 10);
}

fn new_key() -> NewKey {
    NewKey {
        label: "k".into(),
        scopes: Scopes::all(),
        scoped_teams: None,
        scoped_organizations: None,
    }
}

pub async fn concurrent_creation_of_a_role_name_succeeds_once(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let actor = fixture.actor();
    let results = at_once(20, |number| {
        let catalog = fixture.catalog.clone();
        let name = if number % 2 == 0 { "Ops É" } else { "oPS é" };
        async move { catalog.roles().create(&actor, name.into(), FlagAccess::View).await }
    })
    .await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for refused in results.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, Error::Taken { field: "name", .. }), "{refused}");
    }
}

pub async fn concurrent_demotions_leave_one_owner(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let other = fixture.add("owner2@example.com", MembershipLevel::Owner).await;
    let attempts = [
        (fixture.actor(), other.user.uuid),
        (fixture.actor_of(&other), fixture.owner.user.uuid),
        (fixture.actor(), fixture.owner.user.uuid),
        (fixture.actor_of(&other), other.user.uuid),
    ];
    at_once(attempts.len(), |number| {
        let catalog = fixture.catalog.clone();
        let (actor, target) = attempts[number];
        async move { catalog.members().set_level(&actor, target, MembershipLevel::Member).await }
    })
    .await;
    assert_eq!(owners(&fixture).await, 1);
}

async fn owners(fixture: &Fixture) -> usize {
    let (members, _) =
        fixture.catalog.members().list(fixture.organization, EVERYTHING).await.unwrap();
    members.iter().filter(|member| member.level == MembershipLevel::Owner).count()
}

pub async fn organizations_of_one_name_get_different_slugs(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let owner = fixture.owner.user.id;
    let results = at_once(20, |_| {
        let catalog = fixture.catalog.clone();
        let change = OrganizationChange { name: Some("Ünï ".into()), ..Default::default() };
        async move { catalog.organizations().create(owner, change).await }
    })
    .await;
    let slugs: HashSet<String> = results.into_iter().map(|made| made.unwrap().slug).collect();
    assert_eq!(slugs.len(), 20);
    assert!(slugs.contains("n"), "{slugs:?}");
}

pub async fn concurrent_writers_of_all_objects_never_deadlock(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (actor, own, user) = (fixture.actor(), fixture.organization, fixture.owner.user.id);
    let member = fixture.add("m@example.com", MembershipLevel::Member).await.user;
    let role =
        fixture.catalog.roles().create(&actor, "Ops".into(), FlagAccess::Edit).await.unwrap();
    let project = fixture.project.id;
    let results = at_once(8 * 12, |number| {
        let catalog = fixture.catalog.clone();
        async move {
            let name = || Some(format!("n{number}"));
            match number % 8 {
                0 => {
                    let change = OrganizationChange { name: name(), ..Default::default() };
                    catalog.organizations().update(&actor, change).await.map(drop)
                }
                1 => catalog
                    .members()
                    .set_level(&actor, member.uuid, MembershipLevel::Admin)
                    .await
                    .map(drop),
                2 => {
                    let joined = catalog.roles().add_member(&actor, role.id, member.uuid).await?;
                    catalog.roles().remove_member(&actor, role.id, joined.id).await
                }
                3 => {
                    let workplace = Some((own, Some(project)));
                    let change = UserChange { current_project: workplace, ..Default::default() };
                    catalog.users().update(user, change).await.map(drop)
                }
                4 => {
                    let change = ProjectChange { name: name(), ..Default::default() };
                    catalog.projects().update(&actor, project, change).await.map(drop)
                }
                5 => {
                    let change = OrganizationChange { name: name(), ..Default::default() };
                    let made = catalog.organizations().create(user, change).await?;
                    catalog.organizations().delete(&Actor { organization: made.id, ..actor }).await
                }
                6 => catalog.sessions().create(member.id, 60).await.map(drop),
                _ => {
                    let by = KeyEditor { owner: user, key: None, actor: Some(actor) };
                    let made = catalog.keys().create(&by, new_key()).await?;
                    catalog.keys().delete(&by, &made.id).await
                }
            }
        }
    })
    .await;
    for result in results {
        assert!(matches!(result, Ok(()) | Err(Error::Refused { .. })), "{result:?}");
    }
}
