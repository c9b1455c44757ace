//! Project ids, secrets, and deletion of organizations.

use std::sync::mpsc;

use catalog::{Error, NewProject, OrganizationChange, Secret};

use crate::store::{EVERYTHING, Fixture, TestDatabase};

fn new(token: &str) -> NewProject {
    NewProject {
        name: "P".into(),
        timezone: "UTC".into(),
        api_token: Secret::given(token),
        settings: Default::default(),
    }
}

pub async fn project_ids_are_never_reused(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let second = fixture.catalog.projects().create(&fixture.actor(), new("phc_2")).await.unwrap();
    fixture.catalog.projects().delete(&fixture.actor(), second.id).await.unwrap();
    assert!(matches!(fixture.catalog.projects().get(second.id).await, Err(Error::NotFound)));
    assert!(fixture.catalog.projects().by_token("phc_2").await.unwrap().is_none());
    let actor = fixture.actor();
    fixture.catalog.close().await;
    let catalog = database.open().await.unwrap();
    let third = catalog.projects().create(&actor, new("phc_2")).await.unwrap();
    assert!(third.id > second.id);
    let twice = catalog.projects().create(&actor, new("phc_2")).await;
    assert!(matches!(twice, Err(Error::Refused { field: Some("api_token"), .. })));
}

pub async fn secret_tokens_are_encrypted_and_looked_up_by_hash(database: TestDatabase) {
    let Fixture { catalog, project, .. } = &database.bootstrapped().await;
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
        if database.is_postgres() { "encode(secret_sealed, 'hex')" } else { "hex(secret_sealed)" };
    let stored = database.sql(&format!("SELECT {column} || secret_hash FROM projects")).await;
    let clear: String = newer.reveal().bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(!stored[0].to_lowercase().contains(&clear));
    assert!(stored[0].contains("sha256$"));

    catalog.projects().delete_secret_backup(&actor, project.id).await.unwrap();
    assert!(catalog.projects().by_secret(secret.reveal()).await.unwrap().is_none());
    catalog.close().await;
    let other = database.open_with("another secret key").await.err().unwrap();
    assert!(matches!(other, Error::WrongSecretKey), "{other}");
    let same = database.open().await.unwrap();
    let sealed = same.projects().get(project.id).await.unwrap();
    assert_eq!(same.projects().secrets(&sealed).unwrap(), (Some(newer), None));
}

pub async fn deleting_an_organization_deletes_projects_and_memberships(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let change = OrganizationChange { name: Some("Second".into()), ..Default::default() };
    let owner = fixture.owner.user.id;
    let second = fixture.catalog.organizations().create(owner, change).await.unwrap();
    let projects = fixture.catalog.users().projects_in(&[second.id], owner).await.unwrap();
    let user = fixture.catalog.users().get(owner).await.unwrap();
    assert_eq!(user.current_organization, Some(second.id));
    assert_eq!(user.current_project, Some(projects[0].id));

    let (told, heard) = mpsc::sync_channel(10);
    fixture.catalog.projects().on_change(move |project| told.send(project).unwrap());
    let actor = catalog::Actor { organization: second.id, ..fixture.actor() };
    fixture.catalog.organizations().delete(&actor).await.unwrap();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [projects[0].id]);
    assert!(matches!(fixture.catalog.organizations().get(second.id).await, Err(Error::NotFound)));
    assert!(matches!(fixture.catalog.projects().get(projects[0].id).await, Err(Error::NotFound)));
    let token = &projects[0].api_token;
    assert!(fixture.catalog.projects().by_token(token).await.unwrap().is_none());
    assert!(fixture.catalog.members().access(owner, second.id).await.unwrap().is_none());
    let (left, total) =
        fixture.catalog.organizations().of_user(owner, None, EVERYTHING).await.unwrap();
    assert_eq!((left[0].0.id, total), (fixture.organization, 1));
    let user = fixture.catalog.users().get(owner).await.unwrap();
    assert_eq!(user.current_organization, Some(fixture.organization));
    assert_eq!(user.current_project, Some(fixture.project.id));
    assert!(fixture.catalog.projects().by_token("phc_test").await.unwrap().is_some());
    assert_eq!(fixture.catalog.organizations().first().await.unwrap(), fixture.organization);
    let again = fixture.catalog.organizations().delete(&actor).await;
    assert!(matches!(again, Err(Error::NotFound)));
}
