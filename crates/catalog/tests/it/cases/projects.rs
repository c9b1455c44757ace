//! Project numbers, secrets, and what goes with an organization.

use std::sync::mpsc;

use catalog::{Error, NewProject, OrganizationChange, Secret};

use crate::store::{EVERYTHING, Home, Place};

fn new(token: &str) -> NewProject {
    NewProject {
        name: "P".into(),
        timezone: "UTC".into(),
        api_token: Secret::given(token),
        settings: Default::default(),
    }
}

pub async fn project_numbers_are_never_reused(place: Place) {
    let home = place.home().await;
    let second = home.catalog.projects().create(&home.actor(), new("phc_2")).await.unwrap();
    home.catalog.projects().delete(&home.actor(), second.id).await.unwrap();
    assert!(matches!(home.catalog.projects().get(second.id).await, Err(Error::NotFound)));
    assert!(home.catalog.projects().by_token("phc_2").await.unwrap().is_none());
    let actor = home.actor();
    home.catalog.close().await;
    let catalog = place.open().await.unwrap();
    let third = catalog.projects().create(&actor, new("phc_2")).await.unwrap();
    assert!(third.id > second.id);
    let twice = catalog.projects().create(&actor, new("phc_2")).await;
    assert!(matches!(twice, Err(Error::Refused { field: Some("api_token"), .. })));
}

pub async fn secret_tokens_are_sealed_and_found_by_hash(place: Place) {
    let Home { catalog, project, .. } = &place.home().await;
    let actor = catalog::Actor { user: None, organization: project.organization, project: None };
    let first = catalog.projects().rotate_secret(&actor, project.id).await.unwrap();
    let (secret, backup) = catalog.projects().secrets(&first).unwrap();
    let secret = secret.unwrap();
    assert!(secret.reveal().starts_with("phs_") && backup.is_none());
    let second = catalog.projects().rotate_secret(&actor, project.id).await.unwrap();
    let (newer, backup) = catalog.projects().secrets(&second).unwrap();
    let newer = newer.unwrap();
    assert_eq!(backup.as_ref(), Some(&secret));
    for known in [&secret, &newer] {
        let owner = catalog.projects().by_secret(known.reveal()).await.unwrap().unwrap();
        assert_eq!(owner.project, project.id);
    }

    let column =
        if place.is_postgres() { "encode(secret_sealed, 'hex')" } else { "hex(secret_sealed)" };
    let stored = place.sql(&format!("SELECT {column} || secret_hash FROM projects")).await;
    let clear: String = newer.reveal().bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(!stored[0].to_lowercase().contains(&clear));
    assert!(stored[0].contains("sha256$"));

    catalog.projects().delete_secret_backup(&actor, project.id).await.unwrap();
    assert!(catalog.projects().by_secret(secret.reveal()).await.unwrap().is_none());
    catalog.close().await;
    let other = place.open_with("another secret key").await.err().unwrap();
    assert!(matches!(other, Error::WrongSecretKey), "{other}");
    let same = place.open().await.unwrap();
    let sealed = same.projects().get(project.id).await.unwrap();
    assert_eq!(same.projects().secrets(&sealed).unwrap(), (Some(newer), None));
}

pub async fn a_deleted_organization_takes_its_projects_and_people_along(place: Place) {
    let home = place.home().await;
    let change = OrganizationChange { name: Some("Second".into()), ..Default::default() };
    let owner = home.owner.user.id;
    let second = home.catalog.organizations().create(owner, change).await.unwrap();
    let projects = home.catalog.users().projects_in(&[second.id], owner).await.unwrap();
    let user = home.catalog.users().get(owner).await.unwrap();
    assert_eq!(user.current_organization, Some(second.id));
    assert_eq!(user.current_project, Some(projects[0].id));

    let (told, heard) = mpsc::sync_channel(10);
    home.catalog.projects().on_change(move |project| told.send(project).unwrap());
    let actor = catalog::Actor { organization: second.id, ..home.actor() };
    home.catalog.organizations().delete(&actor).await.unwrap();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [projects[0].id]);
    assert!(matches!(home.catalog.organizations().get(second.id).await, Err(Error::NotFound)));
    assert!(matches!(home.catalog.projects().get(projects[0].id).await, Err(Error::NotFound)));
    let token = &projects[0].api_token;
    assert!(home.catalog.projects().by_token(token).await.unwrap().is_none());
    assert!(home.catalog.members().access(owner, second.id).await.unwrap().is_none());
    let (left, total) =
        home.catalog.organizations().of_user(owner, None, EVERYTHING).await.unwrap();
    assert_eq!((left[0].0.id, total), (home.organization, 1));
    let user = home.catalog.users().get(owner).await.unwrap();
    assert_eq!(user.current_organization, Some(home.organization));
    assert_eq!(user.current_project, Some(home.project.id));
    assert!(home.catalog.projects().by_token("phc_test").await.unwrap().is_some());
    assert_eq!(home.catalog.organizations().first().await.unwrap(), home.organization);
    let again = home.catalog.organizations().delete(&actor).await;
    assert!(matches!(again, Err(Error::NotFound)));
}
