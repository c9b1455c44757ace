use serde_json::{Map, Value as Json, json};

use super::*;

fn all(store: &PropertyStore, count: u32) -> Vec<Option<String>> {
    let mut seen = Vec::new();
    let persons: Vec<u32> = (0..count).collect();
    store.texts(&persons, |text| seen.push(text.map(str::to_owned)));
    seen
}

/// Reference implementation: reads the property from the JSON.
fn expected_column(texts: &[Option<String>], name: &str) -> Vec<Option<String>> {
    let one = |text: &Option<String>| {
        let mut found = None;
        let each = |member: &str, value: Value<'_>| {
            if member == name {
                found = Some(value.to_json());
            }
        };
        warehouse::for_each_json_member(text.as_ref()?, each).ok()?;
        found
    };
    texts.iter().map(one).collect()
}

fn column(store: &PropertyStore, name: &str, count: usize) -> Vec<Option<String>> {
    let mut interner = Interner::default();
    let codes = store.column(name, count, |value| interner.intern(value));
    let value = |code: &u32| (*code != ABSENT).then(|| interner.dictionary.get(*code).to_json());
    codes.iter().map(value).collect()
}

#[track_caller]
fn check(texts: &[Option<String>], names: &[&str]) -> PropertyStore {
    let mut store = PropertyStore::default();
    for (at, text) in texts.iter().enumerate() {
        match text {
            Some(text) => store.set(at, [0; FACTS_BYTES], text),
            None => store.remove(at),
        }
    }
    assert_eq!(all(&store, texts.len() as u32), texts);
    for name in names {
        assert_eq!(column(&store, name, texts.len()), expected_column(texts, name), "{name}");
    }
    store
}

#[test]
fn property_json_round_trips_byte_for_byte() {
    let long = format!(r#"{{"bio":"{}","plan":"free"}}"#, "all the same ".repeat(4_000));
    let texts = [
        r#"{}"#,
        r#"{"plan":"free","n":1}"#,
        r#"{"n":1,"plan":"free"}"#,
        r#"{"plan":"free","n":1.0,"x":1e3,"y":-0,"z":12345678901234567890123}"#,
        r#"{"plan": "free", "n": 1}"#,
        " {\"plan\":\"free\"}\n",
        r#"{"plan":"one","plan":"two"}"#,
        r#"{"pl\u0061n":"escaped","\u001F":1,"\u001f":2}"#,
        r#"{"plan":"\ud800","n":"\ud83d\ude00","a\"b":"\"","":""}"#,
        r#"{"plan":null,"n":true,"o":{"plan":[1, 2,{"n":[]}]},"e":[]}"#,
        "{\"plan\":\"é 日本 🦔\",\"日本\":1}",
        &long,
        r#"{"plan":"cut"#,
        r#"{"plan":"free"} and more"#,
        r#"["plan"]"#,
        "",
    ];
    let mut texts: Vec<Option<String>> = texts.iter().map(|text| Some((*text).into())).collect();
    texts.insert(3, None);
    check(&texts, &["plan", "n", "o", "", "a\"b", "\u{1f}", "日本", "bio", "nobody's"]);
}

#[test]
fn random_persons_and_their_columns_round_trip() {
    let seed = testing::seed_or(3);
    let mut rng = seed.rng();
    let names: Vec<String> = (0..12).map(|name| format!("name {name}")).collect();
    let mut texts = Vec::new();
    for _ in 0..3_000 {
        let mut object = Map::new();
        for name in &names {
            let value = match rng.range(0..10) {
                0 => json!(rng.range(0..10)),
                1 => json!(rng.range(0.0..1.0)),
                2 => json!("x".repeat(rng.range(0..300))),
                3 => json!({ "in": rng.range(0..3) }),
                4 => Json::Null,
                5 => json!(["free", "team"][rng.range(0..2)]),
                _ => continue,
            };
            object.insert(name.clone(), value);
        }
        let text = Json::Object(object).to_string();
        texts.push(rng.chance(95).then_some(text));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut store = check(&texts, &names);

    let before = store.clone();
    let mut changed = texts.clone();
    for _ in 0..2_000 {
        let (at, from) = (rng.range(0..3_000), rng.range(0..3_000));
        changed[at].clone_from(&texts[from]);
        match &changed[at] {
            Some(text) => store.set(at, [0; FACTS_BYTES], text),
            None => store.remove(at),
        }
    }
    store.set(3_000, [0; FACTS_BYTES], r#"{"only here":"new","name 0":"new"}"#);
    changed.push(Some(r#"{"only here":"new","name 0":"new"}"#.into()));
    assert_eq!(all(&store, 3_001), changed);
    assert_eq!(all(&before, 3_000), texts, "a copy stays as it was");
    for name in names.iter().chain(&["only here"]) {
        assert_eq!(column(&store, name, 3_001), expected_column(&changed, name), "{name}");
        assert_eq!(column(&before, name, 3_000), expected_column(&texts, name), "{name}");
    }
}

#[test]
fn names_shapes_and_values_beyond_the_limits_are_stored() {
    let count = VALUES_MAX + 500;
    let mut texts: Vec<Option<String>> = (0..count)
        .map(|at| Some(json!({ "email": format!("user{at}@example.com"), "plan": "free" })))
        .map(|object| object.map(|object| object.to_string()))
        .collect();
    // More distinct shapes than the code book stores.
    texts.extend((0..SHAPES_MAX + 500).map(|at| {
        let (one, other) = (format!("a{}", at / 150), format!("b{}", at % 150));
        Some(json!({ one: at % 7, "plan": "team", other: "y".repeat(at % 50) }).to_string())
    }));
    let store = check(&texts, &["email", "plan", "a7", "b149", "a111"]);
    let code_book = store.code_book();
    assert_eq!(code_book.shapes.len(), SHAPES_MAX);
    assert_eq!(
        code_book.name_entries[code_book.names["email"] as usize].values.dictionary.len(),
        VALUES_MAX
    );
    let last = store.record(texts.len() - 1);
    assert_eq!(u32::from(last[0]), NAMED);
}

#[test]
fn full_code_book_stops_growing() {
    let mut store = PropertyStore::default();
    store.code_book.write().unwrap().bytes = CODE_BOOK_BYTES_MAX;
    store.set(0, [0; FACTS_BYTES], r#"{"plan":"free"}"#);
    assert_eq!(all(&store, 1), [Some(r#"{"plan":"free"}"#.to_owned())]);
    assert_eq!(column(&store, "plan", 1), [Some("\"free\"".to_owned())]);
    assert!(store.code_book().name_entries.is_empty());
}

#[test]
fn similar_persons_take_a_fraction_of_their_json() {
    let seed = testing::seed_or(9);
    let mut rng = seed.rng();
    let mut store = PropertyStore::default();
    let (mut plain, mut cached) = (0, 0);
    for at in 0..2_000 {
        let mut object = Map::new();
        for part in ["$", "$initial_"] {
            for name in ["browser", "os", "device_type", "referrer", "geoip_country_code"] {
                let value = format!("{name} {}", rng.range(0..6));
                object.insert(format!("{part}{name}"), value.into());
            }
            let page = format!("https://app.example.com/docs/{}", rng.range(0..400));
            object.insert(format!("{part}current_url"), page.into());
        }
        object.insert("email".into(), format!("user{at}@example.com").into());
        let text = Json::Object(object).to_string();
        store.set(at, [0; FACTS_BYTES], &text);
        plain += text.len();
        cached += store.record(at).len();
    }
    assert!(cached < plain / 10, "{cached} of {plain}");
}
