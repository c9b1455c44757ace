//! Personal keys.

use catalog::{Error, KeyChange, KeyEditor, NewKey, PersonalKey};
use model::ProjectId;
use model::scope::Scopes;

use crate::store::{Home, KEY, Place};

fn new(scopes: &[&str], teams: Option<&[i64]>) -> NewKey {
    let words = scopes.iter().map(|word| (*word).to_owned()).collect();
    NewKey {
        label: "k".into(),
        scopes: Scopes::parse(words).unwrap(),
        scoped_teams: teams.map(|ids| ids.iter().map(|id| ProjectId(*id)).collect()),
        scoped_organizations: None,
    }
}

fn keeper<'a>(home: &Home, key: Option<&'a PersonalKey>) -> KeyEditor<'a> {
    KeyEditor { owner: home.owner.user.id, key, actor: Some(home.actor()) }
}

pub async fn a_key_is_stored_hashed_and_found_by_its_value(place: Place) {
    let home = place.home().await;
    let by = keeper(&home, None);
    let made = home.catalog.keys().create(&by, new(&["user:write"], None)).await.unwrap();
    let value = made.value.clone().unwrap();
    let stored = place.sql("SELECT hash || mask || label FROM personal_api_keys").await.join(" ");
    assert!(!stored.contains(&value) && stored.contains("sha256$"));
    assert_eq!(made.mask_value, format!("phx_...{}", &value[value.len() - 4..]));
    let (found, _) = home.catalog.keys().authenticate(&value).await.unwrap().unwrap();
    assert_eq!((found.id.as_str(), found.value), (made.id.as_str(), None));

    let rolled = home.catalog.keys().roll(&by, &made.id).await.unwrap();
    assert_eq!((rolled.id.as_str(), &rolled.scopes), (made.id.as_str(), &made.scopes));
    assert!(home.catalog.keys().authenticate(&value).await.unwrap().is_none());
    let value = rolled.value.unwrap();
    assert!(home.catalog.keys().authenticate(&value).await.unwrap().is_some());
    home.catalog.users().set_active(home.owner.user.id, false).await.unwrap();
    assert!(home.catalog.keys().authenticate(&value).await.unwrap().is_none());
    home.catalog.users().set_active(home.owner.user.id, true).await.unwrap();
    home.catalog.keys().delete(&by, &made.id).await.unwrap();
    assert!(home.catalog.keys().authenticate(&value).await.unwrap().is_none());
}

pub async fn its_use_is_noted_once_an_hour(place: Place) {
    let home = place.home().await;
    let used = async || {
        home.catalog.keys().authenticate(KEY).await.unwrap().unwrap();
        home.catalog.keys().get(home.owner.user.id, &home.key.id).await.unwrap().last_used_at
    };
    let first = used().await.unwrap();
    place.clock.advance_seconds(3_599);
    assert_eq!(used().await, Some(first));
    place.clock.advance_seconds(1);
    assert_eq!(used().await, Some(first.plus_seconds(3_600)));
}

pub async fn a_key_manages_only_what_is_within_itself(place: Place) {
    let home = place.home().await;
    let by_owner = keeper(&home, None);
    let narrow = new(&["user:write", "insight:read"], Some(&[1]));
    let narrow = home.catalog.keys().create(&by_owner, narrow).await.unwrap();
    let twin = home.catalog.keys().create(&by_owner, new(&["insight:read"], Some(&[1])));
    let twin = twin.await.unwrap();
    let by = keeper(&home, Some(&narrow));

    for (scopes, teams, within) in [
        (&["insight:read"][..], Some(&[1][..]), true),
        (&["user:read"], Some(&[1]), true),
        (&["insight:write"], Some(&[1]), false),
        (&["*"], Some(&[1]), false),
        (&["insight:read"], None, false),
        (&["insight:read"], Some(&[1, 2]), false),
    ] {
        let made = home.catalog.keys().create(&by, new(scopes, teams)).await;
        assert_eq!(made.is_ok(), within, "{scopes:?} {teams:?}");
        assert!(matches!(made, Ok(_) | Err(Error::Forbidden(_))));
        let new = new(scopes, teams);
        let change = KeyChange {
            scopes: Some(new.scopes),
            scoped_teams: Some(new.scoped_teams),
            ..Default::default()
        };
        let changed = home.catalog.keys().update(&by, &twin.id, change).await;
        assert_eq!(changed.is_ok(), within, "{scopes:?} {teams:?}");
    }
    // The first key may do everything, so the narrow one must not get at it in any way.
    let wide = &home.key.id;
    let label = KeyChange { label: Some("x".into()), ..Default::default() };
    assert!(matches!(home.catalog.keys().roll(&by, wide).await, Err(Error::Forbidden(_))));
    assert!(matches!(home.catalog.keys().update(&by, wide, label).await, Err(Error::Forbidden(_))));
    assert!(matches!(home.catalog.keys().delete(&by, wide).await, Err(Error::Forbidden(_))));
    assert!(home.catalog.keys().authenticate(KEY).await.unwrap().is_some());
    home.catalog.keys().roll(&by, &narrow.id).await.unwrap();
    home.catalog.keys().delete(&by, &twin.id).await.unwrap();
}

pub async fn somebody_without_an_organization_still_keeps_keys(place: Place) {
    let home = place.home().await;
    let owner = home.owner.user.id;
    let by = KeyEditor { owner, key: None, actor: None };
    let before = place.log().await;
    let made = home.catalog.keys().create(&by, new(&["*"], None)).await.unwrap();
    home.catalog.keys().roll(&by, &made.id).await.unwrap();
    home.catalog.keys().delete(&by, &made.id).await.unwrap();
    assert_eq!(place.log().await, before);
}
