use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

use super::*;

const UNTIL: &str = "2026-03-18T15:20:00Z";
/// The prime of FNV-1a.
const PRIME: u64 = 0x0100_0000_01b3;
const ZONE: &str = "Europe/Berlin";
/// Most tests read the same days.
static ALL: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| demo(SEED, ZONE).days().collect());

fn demo(seed: u64, zone: &str) -> Demo {
    let until = Timestamp::parse(UNTIL).unwrap();
    Demo::new(seed, until, zone, Ranges::Relative, |key, id, salt| {
        let bytes = [key, id, salt].into_iter().flat_map(str::bytes);
        let hash = bytes.fold(SEED, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        (hash >> 11) as f64 / (1_u64 << 53) as f64
    })
}

fn events() -> Vec<Value> {
    ALL.iter().flatten().map(|event| serde_json::from_str(event).unwrap()).collect()
}

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap()
}

#[test]
fn equal_arguments_give_equal_bytes() {
    let first_week = |seed| demo(seed, ZONE).days().take(7).collect::<Vec<_>>();
    assert_eq!(first_week(SEED), ALL[..7]);
    assert_ne!(first_week(7), ALL[..7]);
}

#[test]
fn every_kind_of_event_is_there_in_believable_numbers() {
    let events = events();
    let mut counts = BTreeMap::<&str, usize>::new();
    for event in &events {
        *counts.entry(text(event, "event")).or_default() += 1;
    }
    println!("{} events: {counts:#?}", events.len());
    assert!((20_000..=30_000).contains(&events.len()), "{}", events.len());
    let funnel = ["product viewed", "added to cart", "checkout started", "order paid"];
    assert!(funnel.map(|name| counts[name]).is_sorted_by(|more, less| more > less), "{counts:?}");
    for (name, least) in [
        ("$pageview", 10_000),
        ("order paid", 300),
        ("signed up", 250),
        ("$identify", 400),
        ("$groupidentify", 25),
        ("feature used", 500),
        ("invited teammate", 20),
        ("$feature_flag_called", 1_500),
        ("$exception", 20),
        ("$web_vitals", 300),
        ("$autocapture", 100),
    ] {
        assert!(counts.get(name).is_some_and(|count| *count >= least), "{name}: {counts:?}");
    }
}

#[test]
fn events_are_in_order_within_the_thirty_days_and_have_ids_of_their_own() {
    let demo = demo(SEED, ZONE);
    let (first, until) = (demo.story.timestamp(0, 0), Timestamp::parse(UNTIL).unwrap());
    let mut uuids = BTreeSet::new();
    for day in ALL.iter() {
        assert!(!day.is_empty() && day.len() < EVENTS_PER_DAY_MAX);
        let events: Vec<Value> =
            day.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let times = events.iter().map(|event| Timestamp::parse(text(event, "timestamp")).unwrap());
        assert!(times.clone().is_sorted());
        assert!(times.clone().all(|at| at >= first && at <= until));
        uuids.extend(events.iter().map(|event| text(event, "uuid").to_owned()));
    }
    assert_eq!(uuids.len(), ALL.iter().map(Vec::len).sum::<usize>());
    assert_eq!(ALL.len(), DAYS + 1);
}

#[test]
fn weekends_are_quieter_and_visits_grow() {
    let sizes: Vec<usize> = ALL.iter().map(Vec::len).collect();
    println!("{sizes:?}");
    // 2026-03-18 is a Wednesday, and so is every seventh day before it.
    let sum = |days: &[usize]| days.iter().map(|day| sizes[DAYS - day]).sum::<usize>();
    assert!(sum(&[1, 2, 8, 9]) > sum(&[3, 4, 10, 11]) * 5 / 4);
    assert!(sum(&[1, 7, 8, 9]) > sum(&[28, 29, 30, 22]));
}

#[test]
fn a_variant_of_the_checkout_converts_better() {
    let events = events();
    let property = format!("$feature/{}", objects::CHECKOUT);
    let mut paid = BTreeMap::<&str, [usize; 2]>::new();
    for event in &events {
        let Some(variant) = event["properties"][&property].as_str() else { continue };
        match text(event, "event") {
            "checkout started" => paid.entry(variant).or_default()[0] += 1,
            "order paid" => paid.entry(variant).or_default()[1] += 1,
            _ => {}
        }
    }
    println!("{paid:?}");
    let rate = |variant: &str| paid[variant][1] as f64 / paid[variant][0] as f64;
    assert!(rate("one-page") > rate("control") * 1.1, "{paid:?}");
}

#[test]
fn an_unknown_zone_and_a_date_at_the_end_of_the_calendar_are_no_panic() {
    for until in [i64::MIN, 0, i64::MAX] {
        let until = Timestamp::from_micros(until);
        let demo = Demo::new(1, until, "Nowhere/Else", Ranges::Absolute, |_, _, _| 0.5);
        assert_eq!(demo.days().take(3).count(), 3);
    }
}

#[test]
fn absolute_ranges_end_at_the_last_day() {
    let until = Timestamp::parse(UNTIL).unwrap();
    let absolute = Demo::new(SEED, until, "UTC", Ranges::Absolute, |_, _, _| 0.5);
    assert_eq!(absolute.range(30), json!({ "date_from": "2026-02-16", "date_to": "2026-03-18" }));
    assert_eq!(demo(SEED, "UTC").range(14), json!({ "date_from": "-14d" }));
}
