use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Map, Value as Json, json};

use super::*;

fn all(profiles: &Profiles, count: u32) -> Vec<Option<String>> {
    let mut seen = Vec::new();
    let persons: Vec<u32> = (0..count).collect();
    profiles.texts(&persons, |text| seen.push(text.map(str::to_owned)));
    seen
}

/// As it would be read from the texts.
fn plainly(texts: &[Option<String>], name: &str) -> Vec<Option<String>> {
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

fn column(profiles: &Profiles, name: &str, count: usize) -> Vec<Option<String>> {
    let mut interner = Interner::default();
    let codes = profiles.column(name, count, &mut interner);
    let value = |code: &u32| (*code != ABSENT).then(|| interner.dictionary.get(*code).to_json());
    codes.iter().map(value).collect()
}

#[track_caller]
fn check(texts: &[Option<String>], names: &[&str]) -> Profiles {
    let mut profiles = Profiles::default();
    for (at, text) in texts.iter().enumerate() {
        match text {
            Some(text) => profiles.set(at, text),
            None => profiles.remove(at),
        }
    }
    assert_eq!(all(&profiles, texts.len() as u32), texts);
    for name in names {
        assert_eq!(column(&profiles, name, texts.len()), plainly(texts, name), "{name}");
    }
    profiles
}

#[test]
fn any_text_comes_back_word_for_word() {
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
fn persons_by_chance_come_back_and_so_do_their_columns() {
    let mut random = StdRng::seed_from_u64(3);
    let names: Vec<String> = (0..12).map(|name| format!("name {name}")).collect();
    let mut texts = Vec::new();
    for _ in 0..3_000 {
        let mut object = Map::new();
        for name in &names {
            let value = match random.random_range(0..10) {
                0 => json!(random.random_range(0..10)),
                1 => json!(random.random::<f64>()),
                2 => json!("x".repeat(random.random_range(0..300))),
                3 => json!({ "in": random.random_range(0..3) }),
                4 => Json::Null,
                5 => json!(["free", "team"][random.random_range(0..2)]),
                _ => continue,
            };
            object.insert(name.clone(), value);
        }
        let text = Json::Object(object).to_string();
        texts.push(random.random_bool(0.95).then_some(text));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut profiles = check(&texts, &names);

    let before = profiles.clone();
    let mut changed = texts.clone();
    for _ in 0..2_000 {
        let (at, from) = (random.random_range(0..3_000), random.random_range(0..3_000));
        changed[at].clone_from(&texts[from]);
        match &changed[at] {
            Some(text) => profiles.set(at, text),
            None => profiles.remove(at),
        }
    }
    profiles.set(3_000, r#"{"only here":"new","name 0":"new"}"#);
    changed.push(Some(r#"{"only here":"new","name 0":"new"}"#.into()));
    assert_eq!(all(&profiles, 3_001), changed);
    assert_eq!(all(&before, 3_000), texts, "a copy stays as it was");
    for name in names.iter().chain(&["only here"]) {
        assert_eq!(column(&profiles, name, 3_001), plainly(&changed, name), "{name}");
        assert_eq!(column(&before, name, 3_000), plainly(&texts, name), "{name}");
    }
}

#[test]
fn more_than_has_codes_is_kept_all_the_same() {
    let own = VALUES_MAX + 500;
    let mut texts: Vec<Option<String>> = (0..own)
        .map(|at| Some(json!({ "email": format!("user{at}@example.com"), "plan": "free" })))
        .map(|object| object.map(|object| object.to_string()))
        .collect();
    // Lists of names that nobody else has, beyond what are kept.
    texts.extend((0..LISTS_MAX + 500).map(|at| {
        let (one, other) = (format!("a{}", at / 150), format!("b{}", at % 150));
        Some(json!({ one: at % 7, "plan": "team", other: "y".repeat(at % 50) }).to_string())
    }));
    let profiles = check(&texts, &["email", "plan", "a7", "b149", "a111"]);
    let book = profiles.book();
    assert_eq!(book.listed.len(), LISTS_MAX);
    assert_eq!(book.named[book.names["email"] as usize].values.dictionary.len(), VALUES_MAX);
    let last = profiles.records.get(texts.len() - 1);
    assert_eq!(u32::from(last[0]), SPELLED);
}

#[test]
fn a_full_book_takes_no_more() {
    let mut profiles = Profiles::default();
    profiles.book.write().unwrap().bytes = BOOK_BYTES_MAX;
    profiles.set(0, r#"{"plan":"free"}"#);
    assert_eq!(all(&profiles, 1), [Some(r#"{"plan":"free"}"#.to_owned())]);
    assert_eq!(column(&profiles, "plan", 1), [Some("\"free\"".to_owned())]);
    assert!(profiles.book().named.is_empty());
}

#[test]
fn persons_of_a_web_product_take_a_fraction_of_their_texts() {
    let mut random = StdRng::seed_from_u64(9);
    let mut profiles = Profiles::default();
    let (mut plain, mut kept) = (0, 0);
    for at in 0..2_000 {
        let mut object = Map::new();
        for part in ["$", "$initial_"] {
            for name in ["browser", "os", "device_type", "referrer", "geoip_country_code"] {
                let value = format!("{name} {}", random.random_range(0..6));
                object.insert(format!("{part}{name}"), value.into());
            }
            let page = format!("https://app.example.com/docs/{}", random.random_range(0..400));
            object.insert(format!("{part}current_url"), page.into());
        }
        object.insert("email".into(), format!("user{at}@example.com").into());
        let text = Json::Object(object).to_string();
        profiles.set(at, &text);
        plain += text.len();
        kept += profiles.records.get(at).len();
    }
    assert!(kept < plain / 10, "{kept} of {plain}");
}
