//! First start and restart.

use crate::harness::{Server, Store, both};

both! {
    an_empty_store_becomes_project_one_with_its_keys,
}

fn an_empty_store_becomes_project_one_with_its_keys(store: Store) {
    let server = Server::start(store);
    server.get("/api/personal_api_keys/@current/").expect(200);
    server.call("GET", "/api/personal_api_keys/").no_key().send().expect(401);
    let key = server.key(&["dashboard:read"]);
    server.call("GET", "/api/personal_api_keys/").key(&key).send().expect(403);
}
