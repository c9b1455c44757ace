//! Writers side by side.

use std::collections::HashSet;
use std::future::Future;

use catalog::{
    Actor, Error, KeyEditor, NewKey, OrganizationChange, ProjectChange, Result, UserChange,
};
use model::scope::Scopes;
use model::{FlagAccess, MembershipLevel};
use tokio::task::JoinSet;

use crate::store::{EVERYTHING, Home, Place};

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

/// Each change names what it found: without a gap, every one was seen by the next.
pub async fn fifty_writers_of_one_row_lose_nothing(place: Place) {
    let home = place.home().await;
    let (actor, id, first) = (home.actor(), home.project.id, home.project.name.clone());
    let results = at_once(WRITERS, |number| {
        let catalog = home.catalog.clone();
        async move {
            let change = ProjectChange { name: Some(format!("{number}")), ..Default::default() };
            catalog.projects().update(&actor, id, change).await
        }
    })
    .await;
    for result in results {
        result.unwrap();
    }
    let mut details = place.details().await;
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
    assert_eq!(home.catalog.projects().get(id).await.unwrap().name, name);
}

pub async fn fifty_writers_of_different_rows_all_succeed(place: Place) {
    let home = place.home().await;
    let actor = home.actor();
    let results = at_once(WRITERS, |number| {
        let catalog = home.catalog.clone();
        async move { catalog.roles().create(&actor, format!("r{number}"), FlagAccess::Edit).await }
    })
    .await;
    for result in results {
        result.unwrap();
    }
    assert_eq!(home.catalog.roles().list(home.organization, EVERYTHING).await.unwrap().1, 50);
}

pub async fn the_last_key_is_made_once(place: Place) {
    let home = place.home().await;
    let (owner, actor) = (home.owner.user.id, home.actor());
    let results = at_once(WRITERS, |_| {
        let catalog = home.catalog.clone();
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
    assert_eq!(home.catalog.keys().list(owner).await.unwrap().len(), 10);
}

fn new_key() -> NewKey {
    NewKey {
        label: "k".into(),
        scopes: Scopes::all(),
        scoped_teams: None,
        scoped_organizations: None,
    }
}

pub async fn one_of_many_takes_a_role_name(place: Place) {
    let home = place.home().await;
    let actor = home.actor();
    let results = at_once(20, |number| {
        let catalog = home.catalog.clone();
        let name = if number % 2 == 0 { "Ops É" } else { "oPS é" };
        async move { catalog.roles().create(&actor, name.into(), FlagAccess::View).await }
    })
    .await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for refused in results.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, Error::Taken { field: "name", .. }), "{refused}");
    }
}

pub async fn two_owners_who_lower_each_other_leave_one(place: Place) {
    let home = place.home().await;
    let other = home.add("owner2@example.com", MembershipLevel::Owner).await;
    let attempts = [
        (home.actor(), other.user.uuid),
        (home.actor_of(&other), home.owner.user.uuid),
        (home.actor(), home.owner.user.uuid),
        (home.actor_of(&other), other.user.uuid),
    ];
    at_once(attempts.len(), |number| {
        let catalog = home.catalog.clone();
        let (actor, target) = attempts[number];
        async move { catalog.members().set_level(&actor, target, MembershipLevel::Member).await }
    })
    .await;
    assert_eq!(owners(&home).await, 1);
}

async fn owners(home: &Home) -> usize {
    let (members, _) = home.catalog.members().list(home.organization, EVERYTHING).await.unwrap();
    members.iter().filter(|member| member.level == MembershipLevel::Owner).count()
}

pub async fn organizations_of_one_name_have_different_slugs(place: Place) {
    let home = place.home().await;
    let owner = home.owner.user.id;
    let results = at_once(20, |_| {
        let catalog = home.catalog.clone();
        let change = OrganizationChange { name: Some("Ünï ".into()), ..Default::default() };
        async move { catalog.organizations().create(owner, change).await }
    })
    .await;
    let slugs: HashSet<String> = results.into_iter().map(|made| made.unwrap().slug).collect();
    assert_eq!(slugs.len(), 20);
    assert!(slugs.contains("n"), "{slugs:?}");
}

pub async fn writers_of_everything_never_wait_in_a_circle(place: Place) {
    let home = place.home().await;
    let (actor, own, user) = (home.actor(), home.organization, home.owner.user.id);
    let member = home.add("m@example.com", MembershipLevel::Member).await.user;
    let role = home.catalog.roles().create(&actor, "Ops".into(), FlagAccess::Edit).await.unwrap();
    let project = home.project.id;
    let results = at_once(8 * 12, |number| {
        let catalog = home.catalog.clone();
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
