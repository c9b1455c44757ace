//! Log entries are written in the transaction of their change.

use catalog::{
    ActivityFilter, Error, KeyChange, KeyEditor, OrganizationChange, ProjectChange, RoleChange,
};
use model::{
    FlagAccess, MembershipLevel, OrganizationSettingsChange, ProjectSettingsChange, Window,
};
use serde_json::json;

use crate::store::TestDatabase;

fn settings(sent: serde_json::Value) -> OrganizationSettingsChange {
    OrganizationSettingsChange::read(sent.as_object().unwrap()).unwrap()
}

pub async fn a_change_and_its_log_entry_are_one_transaction(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (catalog, actor) = (&fixture.catalog, fixture.actor());
    let started = database.log().await;
    assert_eq!(started, ["Team created", "PersonalAPIKey created"]);

    let role = catalog.roles().create(&actor, "Ops".into(), FlagAccess::Edit).await.unwrap();
    let renamed = RoleChange { name: Some("Dev".into()), ..Default::default() };
    catalog.roles().update(&actor, role.id, renamed).await.unwrap();
    let joined =
        catalog.roles().add_member(&actor, role.id, fixture.owner.user.uuid).await.unwrap();
    let details = database.details().await;
    assert_eq!(
        details[1]["changes"],
        json!([{ "type": "Role", "action": "changed", "field": "name", "before": "Ops", "after": "Dev" }])
    );
    assert_eq!(
        details[0]["changes"],
        json!([{ "type": "Role", "action": "created", "field": "members", "before": null, "after": "admin@example.com" }])
    );
    catalog.roles().remove_member(&actor, role.id, joined.id).await.unwrap();
    catalog.roles().delete(&actor, role.id).await.unwrap();
    let change = OrganizationChange {
        settings: settings(json!({ "members_can_invite": false })),
        ..Default::default()
    };
    catalog.organizations().update(&actor, change).await.unwrap();
    let member = fixture.add("m@example.com", MembershipLevel::Member).await;
    catalog.members().set_level(&actor, member.user.uuid, MembershipLevel::Admin).await.unwrap();
    catalog.members().remove(&actor, member.user.uuid).await.unwrap();
    let by = KeyEditor { owner: fixture.owner.user.id, key: None, actor: Some(actor) };
    catalog.keys().roll(&by, &fixture.key.id).await.unwrap();
    let text = database.details().await[0].to_string();
    assert!(text.contains("mask_value") && !text.contains("sha256"));
    catalog.keys().delete(&by, &fixture.key.id).await.unwrap();
    assert_eq!(
        database.log().await[started.len()..],
        [
            "Role created",
            "Role updated",
            "Role updated",
            "Role updated",
            "Role deleted",
            "Organization updated",
            "OrganizationMembership created",
            "OrganizationMembership updated",
            "OrganizationMembership deleted",
            "PersonalAPIKey updated",
            "PersonalAPIKey deleted",
        ]
    );
}

pub async fn a_refused_change_logs_nothing(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (catalog, actor) = (&fixture.catalog, fixture.actor());
    catalog.roles().create(&actor, "Ops".into(), FlagAccess::Edit).await.unwrap();
    let other = catalog.roles().create(&actor, "Dev".into(), FlagAccess::Edit).await.unwrap();
    let before = database.log().await;

    let taken = RoleChange { name: Some("OPS".into()), ..Default::default() };
    let refused = catalog.roles().update(&actor, other.id, taken).await;
    assert!(matches!(refused, Err(Error::Taken { field: "name", .. })));
    catalog.members().remove(&actor, fixture.owner.user.uuid).await.unwrap_err();
    let nobody = uuid::Uuid::new_v4();
    catalog.roles().add_member(&actor, other.id, nobody).await.unwrap_err();
    let missing = OrganizationChange { default_role_id: Some(Some(nobody)), ..Default::default() };
    catalog.organizations().update(&actor, missing).await.unwrap_err();
    assert_eq!(database.log().await, before);
    assert_eq!(catalog.roles().get(fixture.organization, other.id).await.unwrap().name, "Dev");
}

pub async fn an_update_without_effect_logs_nothing(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (catalog, actor) = (&fixture.catalog, fixture.actor());
    let role = catalog.roles().create(&actor, "Ops".into(), FlagAccess::Edit).await.unwrap();
    let before = database.log().await;
    database.clock.advance_seconds(60);

    let same = OrganizationChange {
        name: Some("My organization".into()),
        default_role_id: Some(None),
        settings: settings(json!({ "members_can_invite": true, "enforce_2fa": null })),
    };
    catalog.organizations().update(&actor, same).await.unwrap();
    let same =
        RoleChange { name: Some("Ops".into()), feature_flags_access_level: Some(FlagAccess::Edit) };
    catalog.roles().update(&actor, role.id, same).await.unwrap();
    catalog
        .members()
        .set_level(&actor, fixture.owner.user.uuid, MembershipLevel::Owner)
        .await
        .unwrap();
    let same = ProjectChange { name: Some(fixture.project.name.clone()), ..Default::default() };
    catalog.projects().update(&actor, fixture.project.id, same).await.unwrap();
    let by = KeyEditor { owner: fixture.owner.user.id, key: None, actor: Some(actor) };
    catalog.keys().update(&by, &fixture.key.id, KeyChange::default()).await.unwrap();
    assert_eq!(database.log().await, before);
}

/// Entries from before the limit on nesting are too deep to be parsed as values.
pub async fn deeply_nested_log_details_stay_readable(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (catalog, actor) = (&fixture.catalog, fixture.actor());
    let deep = (0..125).fold(json!({}), |inner, _| json!({ "a": inner }));
    let sent = json!({ "extra_settings": deep });
    let settings = ProjectSettingsChange::read(sent.as_object().unwrap()).unwrap();
    let change = ProjectChange { settings, ..Default::default() };
    catalog.projects().update(&actor, fixture.project.id, change).await.unwrap();
    let filter = ActivityFilter {
        organization: fixture.organization,
        project: fixture.project.id,
        scopes: vec!["Team".into()],
        item_ids: Vec::new(),
        users: Vec::new(),
        activities: Vec::new(),
        period: (None, None),
        visibility: Default::default(),
    };
    let window = Window { limit: 10, offset: 0 };
    let (page, _) = catalog.activity().page(&filter, window).await.unwrap();
    assert!(page[0].detail.get().contains(&deep.to_string()));
    let newest = catalog.activity().from_cursor(&filter, None, 1).await.unwrap();
    assert_eq!(newest[0].detail.get(), page[0].detail.get());
}
