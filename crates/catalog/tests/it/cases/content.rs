//! What people write: actions, and what lies on dashboards.

use catalog::{
    Actor, CheckedInsights, ContentChange, DashboardChange, DashboardContents, NewAction,
    NewContent, NewDashboard, NewTile, TILES_MAX, TileChange,
};
use model::{Access, Button, CreationMode, Restriction, TilePresentation, Viewer, Visibility};

use crate::store::{EVERYTHING, Home, Place};

async fn make(home: &Home, name: &str) {
    let actor = Actor { project: Some(home.project.id), ..home.actor() };
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
    home.catalog.actions().create(&actor, new, &Visibility::Everything).await.unwrap();
}

pub async fn a_page_of_tagged_objects_takes_one_more_statement_however_long(place: Place) {
    let home = place.home().await;
    let cost = async || {
        let before = home.catalog.statements();
        let found =
            home.catalog.actions().list(home.project.id, &Visibility::Everything, EVERYTHING).await;
        let (actions, _) = found.unwrap();
        assert!(actions.iter().all(|action| action.tags.len() == 2));
        home.catalog.statements() - before
    };
    make(&home, "a").await;
    let few = cost().await;
    assert_eq!(few, 3);
    for number in 0..20 {
        make(&home, &number.to_string()).await;
    }
    assert_eq!(cost().await, few);
}

/// Deleted tiles are kept for a restore, and of too many the oldest go, with what they showed.
pub async fn what_no_tile_can_show_again_is_gone(place: Place) {
    let home = place.home().await;
    let actor = Actor { project: Some(home.project.id), ..home.actor() };
    let access = Access::default();
    let viewer = Viewer { user: home.owner.user.id, is_admin: true, access: &access };
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
    let board = home.catalog.dashboards().create(&actor, viewer, new).await.unwrap();
    let kept = async || {
        let count = async |table: &str| {
            let rows = place.sql(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}")).await;
            rows[0].parse::<usize>().unwrap()
        };
        let (notes, buttons) = (count("dashboard_notes").await, count("dashboard_buttons").await);
        assert_eq!(count("dashboard_tiles").await, notes + buttons);
        (notes, buttons)
    };
    let half = TILES_MAX / 2;
    for expected in [(half + 2, half), (half + 3, half - 1)] {
        place.sql("UPDATE dashboard_tiles SET deleted = TRUE").await;
        let note = |body: &str| TileChange {
            content: ContentChange::NewNote(body.into()),
            ..TileChange::default()
        };
        let change =
            DashboardChange { tiles: vec![note("a"), note("b")], ..DashboardChange::default() };
        let looked = CheckedInsights::default();
        home.catalog.dashboards().update(&actor, viewer, board, change, &looked).await.unwrap();
        assert_eq!(kept().await, expected);
    }
}
