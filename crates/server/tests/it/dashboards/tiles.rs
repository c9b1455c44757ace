//! Dashboard tiles: change, move, copy, reorder and validation.

use serde_json::{Value, json};

use crate::dashboards::crud::{DASHBOARDS, INSIGHTS, create, insight_on, path, tiles};
use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    text_tiles_are_created_changed_and_replaced,
    tile_patch_changes_only_that_tile,
    tiles_are_ordered_by_layout,
    malformed_tiles_name_their_field_and_change_nothing,
    template_tiles_all_return_results,
    moved_tile_keeps_its_id,
    tile_is_copied_to_another_dashboard,
    tiles_are_reordered,
    links_are_checked,
    copied_insight_tile_has_its_own_insight,
    activity_log_names_the_changed_tile,
}

/// Management 6.8: an insight has a query or old filters, a text has a body.
fn template_tiles_all_return_results(store: Store) {
    let server = store.start();
    let send = |tile: Value| {
        let tiles = json!([{ "type": "TEXT", "body": "" }, tile]);
        let template = json!({ "template_name": "t", "dashboard_description": "",
            "dashboard_filters": {}, "tiles": tiles });
        let at = format!("{DASHBOARDS}create_from_template_json");
        server.post(&at, json!({ "template": template }))
    };
    let long = "x".repeat(16_385);
    let asked = json!({ "kind": "HogQLQuery", "query": "select 1" });
    for (tile, expected) in [
        (json!({ "type": "TEXT" }), "required body"),
        (json!({ "type": "TEXT", "body": null }), "required body"),
        (json!({ "type": "TEXT", "body": "x".repeat(4_001) }), "max_length body"),
        (json!({ "type": "INSIGHT" }), "required query"),
        (json!({ "type": "INSIGHT", "name": "n", "query": null, "filters": {} }), "required query"),
        (json!({ "type": "INSIGHT", "filters": { "events": "zz" } }), "invalid_input filters"),
        (
            json!({ "type": "INSIGHT", "query": asked, "description": long }),
            "max_length description",
        ),
        (json!({ "type": "BUTTON" }), "required button_tile"),
        (json!({ "type": "TEXT", "body": "x", "color": "c".repeat(401) }), "max_length color"),
    ] {
        let (code, field) = expected.split_once(' ').unwrap();
        let refused = send(tile.clone()).expect(400);
        let expected = format!("validation_error {code} template__tiles__1__{field}");
        assert_eq!(refused.error(), expected, "{tile}");
    }
    for listing in [DASHBOARDS, INSIGHTS] {
        assert_eq!(server.get(listing).json()["count"], 0, "nothing is left behind");
    }
    let old = json!({ "insight": "TRENDS", "events": [{ "id": "a" }] });
    for tile in [
        json!({ "type": "INSIGHT", "query": asked }),
        json!({ "type": "INSIGHT", "filters": old }),
        json!({ "type": "BUTTON", "button_tile": { "url": "/x", "text": "x" } }),
    ] {
        assert_eq!(tiles(&send(tile).expect(200).json()).len(), 2);
    }
}

fn patch(server: &Server, dashboard: &Value, tiles: Value) -> Value {
    server.patch(&path(dashboard), json!({ "tiles": tiles })).expect(200).json()
}

fn ids(dashboard: &Value) -> Vec<i64> {
    tiles(dashboard).iter().map(|tile| tile["id"].as_i64().unwrap()).collect()
}

// contract: management 42-44
fn text_tiles_are_created_changed_and_replaced(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let first = patch(&server, &made, json!([{ "text": { "body": "hi" } }]));
    let tile = &first["tiles"][0];
    for (field, expected) in [
        ("insight", json!(null)),
        ("button_tile", json!(null)),
        ("layouts", json!({})),
        ("color", json!(null)),
        ("filters_overrides", json!({})),
        ("show_description", json!(null)),
        ("transparent_background", json!(null)),
        ("order", json!(0)),
        ("last_refresh", json!(null)),
        ("is_cached", json!(false)),
    ] {
        assert_eq!(tile.get(field), Some(&expected), "{field}");
    }
    assert_eq!((&tile["text"]["body"], &tile["text"]["team"]), (&json!("hi"), &json!(1)));
    assert_eq!(tile["text"]["created_by"]["email"], "admin@example.com");
    let expected = json!([{ "id": tile["id"], "dashboard_id": made["id"], "deleted": false }]);
    assert_eq!(tile["text"]["dashboard_tiles"], expected);

    let replaced = patch(&server, &made, json!([{ "id": tile["id"], "text": { "body": "new" } }]));
    assert_eq!(
        (ids(&replaced), &replaced["tiles"][0]["text"]["body"]),
        (ids(&first), &json!("new"))
    );
    let text = &replaced["tiles"][0]["text"]["id"];
    assert_ne!(text, &tile["text"]["id"]);
    let edited = patch(
        &server,
        &made,
        json!([{ "text": { "id": text, "body": "newer" }, "color": "blue" }]),
    );
    let tile = &edited["tiles"][0];
    assert_eq!((ids(&edited), &tile["text"]["id"]), (ids(&first), text));
    assert_eq!((&tile["text"]["body"], &tile["color"]), (&json!("newer"), &json!("blue")));

    let long = json!({ "tiles": [{ "text": { "body": "x".repeat(4_001) } }] });
    let refused = server.patch(&path(&made), long).expect(400);
    assert_eq!(refused.error(), "validation_error max_length tiles__0__text__body");
    assert_eq!(refused.json()["detail"], "Text body cannot exceed 4000 characters");
    let other = create(&server, json!({}));
    for tiles in
        [json!([{ "text": { "id": text, "body": "x" } }]), json!([{ "text": { "id": 999 } }])]
    {
        let refused = server.patch(&path(&other), json!({ "tiles": tiles })).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input text");
    }
}

// contract: management 45-47
fn tile_patch_changes_only_that_tile(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let before =
        patch(&server, &made, json!([{ "text": { "body": "a" } }, { "text": { "body": "b" } }]));
    let [tile, other] = ids(&before)[..] else { panic!("two tiles") };
    let layouts = json!({ "sm": { "x": 0, "y": 0, "w": 6, "h": 5, "i": "7", "static": false } });
    let change = json!([{
        "id": tile, "color": "blue", "layouts": layouts, "show_description": true,
        "filters_overrides": { "date_from": "-1d" }, "insight": { "id": 5 }, "order": 9,
    }]);
    let after = patch(&server, &made, change);
    let shown = &after["tiles"][0];
    assert_eq!(
        (&shown["id"], &shown["color"], &shown["layouts"]),
        (&json!(tile), &json!("blue"), &layouts)
    );
    assert_eq!((&shown["show_description"], &shown["insight"]), (&json!(true), &json!(null)));
    assert_eq!(shown["filters_overrides"], json!({ "date_from": "-1d" }));
    assert_eq!(after["tiles"][1]["text"], before["tiles"][1]["text"]);
    let cleared =
        patch(&server, &made, json!([{ "id": tile, "show_description": null, "color": null }]));
    assert_eq!(cleared["tiles"][0]["show_description"], json!(null));
    assert_eq!(
        (&cleared["tiles"][0]["color"], &cleared["tiles"][0]["layouts"]),
        (&json!(null), &layouts)
    );
    let left = patch(&server, &made, json!([{ "id": tile, "deleted": true }]));
    assert_eq!(ids(&left), [other]);
    let back = patch(&server, &made, json!([{ "id": tile, "deleted": false }]));
    assert_eq!(ids(&back), [tile, other]);
    let body = json!({ "duplicate_tiles": [{ "id": tile, "layouts": {} }] });
    let more = server.patch(&path(&made), body).expect(200).json();
    assert_eq!(tiles(&more).len(), 3);
    assert_ne!(tiles(&more)[2]["text"]["id"], tiles(&more)[0]["text"]["id"]);
}

/// Management 6.6: `duplicate_tiles` clones tiles in place.
fn copied_insight_tile_has_its_own_insight(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let insight = insight_on(&server, "i", &[&made]);
    let tile = server.get(&path(&made)).json()["tiles"][0]["id"].clone();
    let coloured =
        json!([{ "id": tile, "color": "blue", "layouts": { "sm": { "x": 0, "y": 0 } } }]);
    patch(&server, &made, coloured);
    let layout = json!({ "sm": { "x": 6, "y": 0 } });
    let body = json!({ "duplicate_tiles": [{ "id": tile, "layouts": layout }, { "id": tile }] });
    let copied = server.patch(&path(&made), body).expect(200).json();
    let all = tiles(&copied);
    assert_eq!(all.len(), 3);
    assert_eq!(all[0]["insight"]["id"], insight["id"]);
    let copies: Vec<&Value> =
        all.iter().filter(|tile| tile["insight"]["id"] != insight["id"]).collect();
    assert_ne!(copies[0]["insight"]["id"], copies[1]["insight"]["id"]);
    for copy in &copies {
        assert_eq!(
            (&copy["color"], &copy["insight"]["name"]),
            (&json!("blue"), &json!("i (Copy)"))
        );
        assert_eq!(copy["insight"]["query"], insight["query"]);
        assert_eq!(copy["insight"]["dashboards"], json!([made["id"]]));
    }
    assert!(copies.iter().any(|copy| copy["layouts"] == layout));
    let unknown = json!({ "duplicate_tiles": [{ "id": 999_999 }], "name": "changed" });
    let refused = server.patch(&path(&made), unknown).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input tiles");
    assert_eq!(server.get(&path(&made)).json()["name"], json!(null));
}

// contract: management 48
fn tiles_are_ordered_by_layout(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let at = |body: &str, x: i64, y: i64| json!({ "text": { "body": body }, "layouts": { "sm": { "x": x, "y": y }, "xs": { "y": 9 - y } } });
    let sent = json!([{ "text": { "body": "nowhere" } }, at("low", 0, 5), at("right", 6, 0), at("first", 0, 0)]);
    let shown = patch(&server, &made, sent);
    let bodies = |dashboard: &Value| -> Vec<String> {
        tiles(dashboard)
            .iter()
            .map(|tile| tile["text"]["body"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(bodies(&shown), ["first", "right", "low", "nowhere"]);
    let orders: Vec<&Value> = tiles(&shown).iter().map(|tile| &tile["order"]).collect();
    assert_eq!(orders, [0, 1, 2, 3]);
    let narrow = server.get(&format!("{}?layoutSize=xs", path(&made))).expect(200).json();
    assert_eq!(bodies(&narrow)[0], "low");
}

fn malformed_tiles_name_their_field_and_change_nothing(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let insight = insight_on(&server, "i", &[&made]);
    let full = patch(&server, &made, json!([{ "text": { "body": "a" } }]));
    let tile = tiles(&full).iter().find(|tile| !tile["insight"].is_null()).unwrap()["id"].clone();
    let layouts = |layouts: Value| json!([{ "id": tile, "layouts": layouts }]);
    for (tiles, expected) in [
        (json!("x"), "not_a_list tiles"),
        (json!(null), "null tiles"),
        (json!([5]), "invalid_input tiles__0"),
        (json!([{}, { "id": "x" }]), "invalid_input tiles__1__id"),
        (json!([{ "color": "blue" }]), "required tiles__0__id"),
        (json!([{ "id": tile, "color": 5 }]), "invalid_input tiles__0__color"),
        (json!([{ "id": tile, "deleted": "maybe" }]), "invalid_input tiles__0__deleted"),
        (
            json!([{ "id": tile, "show_description": 5 }]),
            "invalid_input tiles__0__show_description",
        ),
        (json!([{ "id": 999_999, "color": "blue" }]), "invalid_input tiles"),
        (json!([{ "id": tile, "text": { "body": "x" } }]), "invalid_input text"),
        (json!([{ "text": 5 }]), "invalid_input tiles__0__text"),
        (json!([{ "text": { "bdy": "x" } }]), "required tiles__0__text__body"),
        (json!([{ "text": { "id": null }, "color": "x" }]), "required tiles__0__text__body"),
        (json!([{ "text": { "body": null } }]), "null tiles__0__text__body"),
        (json!([{ "text": { "id": "x" } }]), "invalid_input tiles__0__text__id"),
        (json!([{ "text": [] }]), "invalid_input tiles__0__text"),
        (json!([{ "button_tile": 5 }]), "invalid_input tiles__0__button_tile"),
        (json!([{ "button_tile": { "style": "primary" } }]), "required tiles__0__button_tile__url"),
        (json!([{ "button_tile": { "odd": 1 } }]), "required tiles__0__button_tile__url"),
        (json!([{ "text": { "body": 5 } }]), "invalid_input tiles__0__text__body"),
        (layouts(json!(null)), "null tiles__0__layouts"),
        (layouts(json!([])), "invalid_input tiles__0__layouts"),
        (layouts(json!({ "sm": 5 })), "invalid_input tiles__0__layouts__sm"),
        (layouts(json!({ "sm": { "y": "top" } })), "invalid_input tiles__0__layouts__sm__y"),
        (layouts(json!({ "sm": { "w": -1 } })), "invalid_input tiles__0__layouts__sm__w"),
        (layouts(json!({ "sm": { "i": "x".repeat(5_000) } })), "max_length tiles__0__layouts"),
        (json!(vec![json!({}); 1_001]), "max_length tiles"),
    ] {
        let body = json!({ "tiles": tiles, "name": "changed" });
        let refused = server.patch(&path(&made), body).expect(400);
        assert_eq!(refused.error(), format!("validation_error {expected}"));
    }
    // A list with one invalid tile changes nothing.
    let half =
        json!({ "tiles": [{ "text": { "body": "half" } }, { "id": 999_999, "color": "x" }] });
    server.patch(&path(&made), half).expect(400);
    let many = json!({ "tiles": vec![json!({ "text": { "body": "x" } }); 600] });
    let refused = server.patch(&path(&made), many).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input tiles");
    let body = json!({ "duplicate_tiles": [{ "id": tile, "layouts": { "sm": 5 } }] });
    let refused = server.patch(&path(&made), body).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input duplicate_tiles__0__layouts__sm");
    let mut read = server.get(&path(&made)).json();
    read["last_accessed_at"] = json!(null);
    assert_eq!(read, full);
    assert_eq!(insight["dashboards"], json!([made["id"]]));
}

// contract: management 49-52
fn moved_tile_keeps_its_id(store: Store) {
    let server = store.start();
    let (from, to) = (create(&server, json!({})), create(&server, json!({})));
    insight_on(&server, "both", &[&from, &to]);
    insight_on(&server, "one", &[&from]);
    let full = server.get(&path(&from)).json();
    let [both, one] = ids(&full)[..] else { panic!("two tiles") };
    let send = |dashboard: &Value, body: Value| {
        server.patch(&format!("{}move_tile", path(dashboard)), body)
    };
    let moving = |tile: i64, to: &Value| json!({ "tile": { "id": tile }, "toDashboard": to, "name": "ignored" });
    for (body, expected) in [
        (json!({}), "required tile"),
        (json!({ "tile": {} }), "required tile__id"),
        (json!({ "tile": { "id": one } }), "required toDashboard"),
        (json!({ "tile": { "id": one }, "toDashboard": "x" }), "invalid_input toDashboard"),
        (moving(both, &to["id"]), "invalid_input -"),
        (moving(one, &from["id"]), "invalid_input -"),
    ] {
        assert_eq!(send(&from, body).expect(400).error(), format!("validation_error {expected}"));
    }
    send(&to, moving(one, &from["id"])).expect(404);
    send(&from, moving(one, &json!(999_999))).expect(404);
    assert_eq!(ids(&server.get(&path(&from)).json()), [both, one], "nothing moved");

    let left = send(&from, moving(one, &to["id"])).expect(200).json();
    assert_eq!((&left["id"], ids(&left)), (&from["id"], vec![both]));
    assert_eq!((&left["name"], &from["name"]), (&json!(null), &json!(null)));
    assert!(ids(&server.get(&path(&to)).json()).contains(&one));
    // Moved back: a deleted tile of the same insight is no conflict.
    let back = send(&to, moving(one, &from["id"])).expect(200).json();
    assert!(!ids(&back).contains(&one));
    patch(&server, &from, json!([{ "id": both, "deleted": true }]));
    let there = ids(&server.get(&path(&to)).json())[0];
    send(&to, moving(there, &from["id"])).expect(200);
    assert_eq!(ids(&server.get(&path(&from)).json()), [there, one]);
}

fn tile_is_copied_to_another_dashboard(store: Store) {
    let server = store.start();
    let (from, to) = (create(&server, json!({})), create(&server, json!({})));
    let insight = insight_on(&server, "i", &[&from]);
    let tile = ids(&server.get(&path(&from)).json())[0];
    let body = json!({ "fromDashboardId": from["id"], "tileId": tile });
    let send =
        |to: &Value, body: &Value| server.post(&format!("{}copy_tile", path(to)), body.clone());
    let copied = send(&to, &body).expect(200).json();
    assert_eq!((&copied["id"], &copied["tiles"][0]["insight"]["id"]), (&to["id"], &insight["id"]));
    assert_ne!(ids(&copied), [tile]);
    assert_eq!(send(&to, &body).expect(400).error(), "validation_error invalid_input -");
    assert_eq!(send(&from, &body).expect(400).error(), "validation_error invalid_input -");
    let unknown = json!({ "fromDashboardId": from["id"], "tileId": 999_999 });
    send(&to, &unknown).expect(404);

    // A copy has its own text and sharing link.
    let link = |text: &str| json!({ "url": "/x", "text": text });
    let said = json!([{ "text": { "body": "first" } }, { "button_tile": link("first") }]);
    patch(&server, &from, said);
    let before = server.get(&path(&from)).json()["tiles"].clone();
    let mut copied = json!({});
    for tile in &before.as_array().unwrap()[1..] {
        let body = json!({ "fromDashboardId": from["id"], "tileId": tile["id"] });
        copied = send(&to, &body).expect(200).json();
    }
    let [_, note, button] = &tiles(&copied)[..] else { panic!("three tiles: {copied}") };
    assert_eq!(
        (&note["text"]["body"], &button["button_tile"]["text"]),
        (&json!("first"), &json!("first"))
    );
    let changed = json!([
        { "id": note["id"], "text": { "id": note["text"]["id"], "body": "second" } },
        { "id": button["id"], "button_tile": link("second") },
    ]);
    let changed = patch(&server, &to, changed);
    assert_eq!(tiles(&changed)[1]["text"]["body"], "second");
    assert_eq!(tiles(&changed)[2]["button_tile"]["text"], "second");
    assert_eq!(server.get(&path(&from)).json()["tiles"], before);
    assert_eq!(
        send(&to, &json!({})).expect(400).error(),
        "validation_error required fromDashboardId"
    );
}

// contract: management 56
fn tiles_are_reordered(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let texts = json!(["a", "b", "c"].map(|body| json!({ "text": { "body": body } })));
    let [a, b, c] = ids(&patch(&server, &made, texts))[..] else { panic!("three tiles") };
    let send = |order: Value| {
        server.post(&format!("{}reorder_tiles", path(&made)), json!({ "tile_order": order }))
    };
    for (order, status) in [(json!([a, a]), 400), (json!([a, 999_999]), 404)] {
        let refused = send(order).expect(status).json();
        assert_eq!(refused.as_object().unwrap().keys().collect::<Vec<_>>(), ["detail"]);
    }
    let shown = send(json!([c, a, b])).expect(200).json();
    assert_eq!(ids(&shown), [c, a, b]);
    assert_eq!(tiles(&shown)[1]["layouts"]["sm"], json!({ "x": 6, "y": 0, "w": 6, "h": 5 }));
    assert_eq!(tiles(&shown)[2]["layouts"]["xs"], json!({ "x": 0, "y": 10, "w": 1, "h": 5 }));
}

fn links_are_checked(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let button = |url: &str| json!({ "tiles": [{ "button_tile": { "url": url, "text": "Go", "placement": "right" } }] });
    for url in [
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "http\n://x",
        "x",
        "",
    ] {
        let refused = server.patch(&path(&made), button(url)).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input tiles__0__button_tile__url");
    }
    let odd =
        json!({ "tiles": [{ "button_tile": { "url": "/x", "text": "Go", "placement": "up" } }] });
    let refused = server.patch(&path(&made), odd).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_choice tiles__0__button_tile__placement");
    let shown = server.patch(&path(&made), button("https://example.com")).expect(200).json();
    let link = &shown["tiles"][0]["button_tile"];
    assert_eq!(
        (&link["url"], &link["placement"]),
        (&json!("https://example.com"), &json!("right"))
    );
    let change =
        json!([{ "id": shown["tiles"][0]["id"], "button_tile": { "url": "/a", "text": "A" } }]);
    let changed = patch(&server, &made, change);
    assert_eq!(
        (ids(&changed), &changed["tiles"][0]["button_tile"]["url"]),
        (ids(&shown), &json!("/a"))
    );
}

// contract: management 112
fn activity_log_names_the_changed_tile(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let change = || {
        let log = server.get(&format!("{}activity", path(&made))).expect(200).json();
        log["results"][0]["detail"]["changes"][0].clone()
    };
    insight_on(&server, "i", &[&made]);
    let notes = json!([{ "text": { "body": "a" } }, { "text": { "body": "b" }, "color": "blue" }]);
    let shown = patch(&server, &made, notes);
    let told = change();
    assert_eq!(told["before"], json!([]));
    let numbers: Vec<i64> = ids(&shown)[1..].to_vec();
    let texts: Vec<(&Value, &Value)> =
        told["after"].as_array().unwrap().iter().map(|tile| (&tile["id"], &tile["text"])).collect();
    let expected = [(json!(numbers[0]), json!("a")), (json!(numbers[1]), json!("b"))];
    assert_eq!(texts, [(&expected[0].0, &expected[0].1), (&expected[1].0, &expected[1].1)]);
    let tile = ids(&shown)[0];
    for (field, value) in [
        ("filters_overrides", json!({ "date_from": "-1d" })),
        ("show_description", json!(true)),
        ("transparent_background", json!(false)),
        ("color", json!("green")),
    ] {
        let was = server.get(&path(&made)).json()["tiles"][0][field].clone();
        patch(&server, &made, json!([{ "id": tile, field: value }]));
        let told = change();
        assert_eq!(told["before"][0][field], was);
        assert_eq!((&told["after"][0]["id"], &told["after"][0][field]), (&json!(tile), &value));
    }
    let body = json!({ "duplicate_tiles": [{ "id": tile }] });
    let copied = server.patch(&path(&made), body).expect(200).json();
    let copy = tiles(&copied).last().unwrap();
    let told = change();
    assert_eq!(told["after"][0]["id"], copy["id"]);
    assert_eq!(told["after"][0]["insight"], copy["insight"]["id"]);
}
