//! What people write: actions and annotations.

use catalog::{Actor, NewAction};
use model::Sight;

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
    home.catalog.create_action(&actor, new, &Sight::Everything).await.unwrap();
}

pub async fn a_page_of_tagged_objects_takes_one_more_statement_however_long(place: Place) {
    let home = place.home().await;
    let cost = async || {
        let before = home.catalog.statements();
        let found = home.catalog.actions(home.project.id, &Sight::Everything, EVERYTHING).await;
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
