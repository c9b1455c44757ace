//! Actions, and the contents of dashboards.

use catalog::{
    Actor, CheckedInsights, ContentChange, DashboardChange, DashboardContents, NewAction,
    NewContent, NewDashboard, NewTile, TILES_MAX, TileChange,
};
use model::{Access, Button, CreationMode, Restriction, TilePresentation, Viewer, Visibility};

use crate::store::{EVERYTHING, Fixture, TestDatabase};

async fn make(fixture: &Fixture, name: &str) {
    let actor = Actor { project: Some(fixture.project.id), ..fixture.actor() };
    let new = NewAction {
        name: name.into(),
        description: String::new(),
        tags: vec!["x".into(), name.into()],
        post_to_slack: false,
        slack_message_format: String::new(),
        steps: Vec::new(),
        pinned: false,
        deleted: false,
    };
    fixture.catalog.actions().create(&actor, new, &Visibility::Everything).await.unwrap();
}

pub async fn tags_of_a_page_take_one_statement(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let cost = async || {
        let before = fixture.catalog.statements();
        let found = fixture
            .catalog
            .actions()
            .list(fixture.project.id, &Visibility::Everything, EVERYTHING)
            .await;
        let (actions, _) = found.unwrap();
        assert!(actions.iter().all(|action| action.tags.len() == 2));
        fixture.catalog.statements() - before
    };
    make(&fixture, "a").await;
    let few = cost().await;
    assert_eq!(few, 3);
    for number in 0..20 {
        make(&fixture, &number.to_string()).await;
    }
    assert_eq!(cost().await, few);
}

/// Deleted tiles stay restorable; past the limit the oldest are purged with their contents.
pub async fn contents_of_purged_tiles_are_deleted(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let actor = Actor { project: Some(fixture.project.id), ..fixture.actor() };
    let access = Access::default();
    let viewer = Viewer { user: fixture.owner.user.id, is_admin: true, access: &access };
    let shows = |no: usize| match no % 2 {
        0 => NewContent::Note(format!("note {no}")),
        _ => NewContent::Button(Button {
            url: "/x".into(),
            text: "x".into(),
            placement: Default::default(),
            style: Default::default(),
        }),
    };
    let tile =
        |no: usize| NewTile { presentation: TilePresentation::default(), content: shows(no) };
    let new = NewDashboard {
        name: None,
        description: String::new(),
        pinned: false,
        tags: Vec::new(),
        restriction_level: Restriction::Everyone,
        presentation: Default::default(),
        deleted: false,
        creation_mode: CreationMode::Default,
        contents: DashboardContents::Tiles((0..TILES_MAX).map(tile).collect()),
    };
    let board = fixture.catalog.dashboards().create(&actor, viewer, new).await.unwrap();
    let kept = async || {
        let count = async |table: &str| {
            let rows = database.sql(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}")).await;
            rows[0].parse::<usize>().unwrap()
        };
        let (notes, buttons) = (count("dashboard_notes").await, count("dashboard_buttons").await);
        assert_eq!(count("dashboard_tiles").await, notes + buttons);
        (notes, buttons)
    };
    let half = TILES_MAX / 2;
    for expected in [(half + 2, half), (half + 3, half - 1)] {
        database.sql("UPDATE dashboard_tiles SET deleted = TRUE").await;
        let note = |body: &str| TileChange {
            content: ContentChange::NewNote(body.into()),
            ..TileChange::default()
        };
        let change =
            DashboardChange { tiles: vec![note("a"), note("b")], ..DashboardChange::default() };
        let looked = CheckedInsights::default();
        fixture.catalog.dashboards().update(&actor, viewer, board, change, &looked).await.unwrap();
        assert_eq!(kept().await, expected);
    }
}
