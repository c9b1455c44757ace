//! Personal API keys.

use catalog::{Error, KeyChange, KeyEditor, NewKey, PersonalKey};
use model::ProjectId;
use model::scope::Scopes;

use crate::store::{Fixture, KEY, TestDatabase};

fn new(scopes: &[&str], teams: Option<&[i64]>) -> NewKey {
    let words = scopes.iter().map(|word| (*word).to_owned()).collect();
    NewKey {
        label: "k".into(),
        scopes: Scopes::parse(words).unwrap(),
        scoped_teams: teams.map(|ids| ids.iter().map(|id| ProjectId(*id)).collect()),
        scoped_organizations: None,
    }
}

fn keeper<'a>(fixture: &Fixture, key: Option<&'a PersonalKey>) -> KeyEditor<'a> {
    KeyEditor { owner: fixture.owner.user.id, key, actor: Some(fixture.actor()) }
}

pub async fn api_keys_are_stored_hashed_and_found_by_value(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let by = keeper(&fixture, None);
    let made = fixture.catalog.keys().create(&by, new(&["user:write"], None)).await.unwrap();
    let value = made.value.clone().unwrap();
    let stored =
        database.sql("SELECT hash || mask || label FROM personal_api_keys").await.join(" ");
    assert!(!stored.contains(&value) && stored.contains("sha256$"));
    assert_eq!(made.mask_value, format!("phx_...{}", &value[value.len() - 4..]));
    let (found, _) = fixture.catalog.keys().authenticate(&value).await.unwrap().unwrap();
    assert_eq!((found.id.as_str(), found.value), (made.id.as_str(), None));

    let rolled = fixture.catalog.keys().roll(&by, &made.id).await.unwrap();
    assert_eq!((rolled.id.as_str(), &rolled.scopes), (made.id.as_str(), &made.scopes));
    assert!(fixture.catalog.keys().authenticate(&value).await.unwrap().is_none());
    let value = rolled.value.unwrap();
    assert!(fixture.catalog.keys().authenticate(&value).await.unwrap().is_some());
    fixture.catalog.users().set_active(fixture.owner.user.id, false).await.unwrap();
    assert!(fixture.catalog.keys().authenticate(&value).await.unwrap().is_none());
    fixture.catalog.users().set_active(fixture.owner.user.id, true).await.unwrap();
    fixture.catalog.keys().delete(&by, &made.id).await.unwrap();
    assert!(fixture.catalog.keys().authenticate(&value).await.unwrap().is_none());
}

pub async fn last_used_at_is_updated_once_an_hour(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let used = async || {
        fixture.catalog.keys().authenticate(KEY).await.unwrap().unwrap();
        fixture
            .catalog
            .keys()
            .get(fixture.owner.user.id, &fixture.key.id)
            .await
            .unwrap()
            .last_used_at
    };
    let first = used().await.unwrap();
    database.clock.advance_seconds(3_599);
    assert_eq!(used().await, Some(first));
    database.clock.advance_seconds(1);
    assert_eq!(used().await, Some(first.plus_seconds(3_600)));
}

pub async fn a_key_edits_only_keys_within_its_own_scopes(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let by_owner = keeper(&fixture, None);
    let narrow = new(&["user:write", "insight:read"], Some(&[1]));
    let narrow = fixture.catalog.keys().create(&by_owner, narrow).await.unwrap();
    let twin = fixture.catalog.keys().create(&by_owner, new(&["insight:read"], Some(&[1])));
    let twin = twin.await.unwrap();
    let by = keeper(&fixture, Some(&narrow));

    for (scopes, teams, within) in [
        (&["insight:read"][..], Some(&[1][..]), true),
        (&["user:read"], Some(&[1]), true),
        (&["insight:write"], Some(&[1]), false),
        (&["*"], Some(&[1]), false),
        (&["insight:read"], None, false),
        (&["insight:read"], Some(&[1, 2]), false),
    ] {
        let made = fixture.catalog.keys().create(&by, new(scopes, teams)).await;
        assert_eq!(made.is_ok(), within, "{scopes:?} {teams:?}");
        assert!(matches!(made, Ok(_) | Err(Error::Forbidden(_))));
        let new = new(scopes, teams);
        let change = KeyChange {
            scopes: Some(new.scopes),
            scoped_teams: Some(new.scoped_teams),
            ..Default::default()
        };
        let changed = fixture.catalog.keys().update(&by, &twin.id, change).await;
        assert_eq!(changed.is_ok(), within, "{scopes:?} {teams:?}");
    }
    // The first key has all scopes, so the narrow one must not edit it in any way.
    let wide = &fixture.key.id;
    let label = KeyChange { label: Some("x".into()), ..Default::default() };
    assert!(matches!(fixture.catalog.keys().roll(&by, wide).await, Err(Error::Forbidden(_))));
    assert!(matches!(
        fixture.catalog.keys().update(&by, wide, label).await,
        Err(Error::Forbidden(_))
    ));
    assert!(matches!(fixture.catalog.keys().delete(&by, wide).await, Err(Error::Forbidden(_))));
    assert!(fixture.catalog.keys().authenticate(KEY).await.unwrap().is_some());
    fixture.catalog.keys().roll(&by, &narrow.id).await.unwrap();
    fixture.catalog.keys().delete(&by, &twin.id).await.unwrap();
}

pub async fn a_user_without_organization_manages_keys(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let owner = fixture.owner.user.id;
    let by = KeyEditor { owner, key: None, actor: None };
    let before = database.log().await;
    let made = fixture.catalog.keys().create(&by, new(&["*"], None)).await.unwrap();
    fixture.catalog.keys().roll(&by, &made.id).await.unwrap();
    fixture.catalog.keys().delete(&by, &made.id).await.unwrap();
    assert_eq!(database.log().await, before);
}
