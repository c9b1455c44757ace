//! Sessions of stored events are cached with their segments. Whatever is written in between, they are
//! those of the events.

use serde_json::json;
use sql::{Limits, Paths};
use testing::{Rng, seed};
use warehouse::{CompactionKind, DeleteSelection};

use crate::support::{LIMITS, PROJECT, Store, time};

const STATEMENTS: [&str; 5] = [
    "select session_id, $session_duration, $pageview_count, $is_bounce, max_inserted_at from sessions \
     order by session_id",
    "select $entry_pathname as path, count(), sum($session_duration) from sessions group by path \
     order by path",
    "select session_id, distinct_id, $exit_pathname, arraySort($urls), $channel_type from sessions \
     order by session_id",
    "select session.$entry_utm_source as source, session.$start_timestamp as start, count(), \
     uniqExact(properties.$session_id) from events group by source, start order by source, start",
    "select event, count() from events where session.$session_duration > 100000 \
     and session.$exit_current_url like '%/1%' group by event order by event",
];

fn add(store: &mut Store, rng: &mut Rng, second: &mut i64) {
    let rows = (0..rng.range(1..200)).map(|_| {
        // Each at another time, so that there is one first and one last event.
        *second += 1;
        let at = time("2024-01-01T00:00:00Z").plus_seconds((*second * 7_919) % 200_000);
        let name = ["$pageview", "$autocapture", "$screen", "other"][rng.range(0..4)];
        let id = match rng.range(0..5) {
            0 => json!(null),
            1 => json!(rng.range(0..400)),
            _ => json!(format!("s{}", rng.range(0..40))),
        };
        let source = ["google", "news", ""][rng.range(0..3)];
        let properties = json!({
            "$session_id": id,
            "$current_url": format!("https://x.example/{}?q", rng.range(0..30)),
            "utm_source": source,
        });
        let person = format!("p{}", rng.range(0..20));
        store.row(PROJECT, name, &person, at, properties, Default::default())
    });
    let rows: Vec<_> = rows.collect();
    store.append(rows);
}

#[test]
fn cached_sessions_are_those_of_the_events() {
    let seed = seed();
    let (mut rng, mut store, mut second) = (seed.rng(), Store::new(), 0);
    let uncached = Paths { sessions: false, ..Paths::ALL };
    for _ in 0..20 {
        match rng.range(0..6) {
            0..=2 => add(&mut store, &mut rng, &mut second),
            3 => store.warehouse.flush().unwrap(),
            4 => drop(store.warehouse.compact(CompactionKind::Major).unwrap()),
            _ => {
                let person = DeleteSelection::DistinctNos([rng.range(0..20)].into());
                let before = store.warehouse.applied_position();
                store.warehouse.delete(PROJECT, &person, before).unwrap();
            }
        }
        for _ in 0..2 {
            let text = STATEMENTS[rng.range(0..STATEMENTS.len())];
            let [cached, computed] = [Paths::ALL, uncached].map(|paths| {
                let limits = Limits { paths, ..LIMITS };
                store.run_with(text, &Default::default(), None, &limits).unwrap()
            });
            assert_eq!(cached, computed, "{text}");
        }
    }
}
