//! Lists, single events, values, drill-downs and behavioral filters.

use facts::read_filters;
use insights::HogqlCompiler;
use model::property::{BehavioralFilter, Dialect, Node};
use model::{ActionId, Timestamp};
use serde_json::{Value as Json, json};
use testing::Rng;
use testing::insights::Generator;
use warehouse::{ColumnKey, Cursor, EventRow, Order, Window};

use super::differential::{Everything, each, seeds};
use super::mirror::Twins;
use super::run;
use crate::drill_down::DrillDown;
use crate::store::clickhouse::ClickHouseView;
use crate::store::{EventConditions, Store, ValueSearch, View};

fn conditions(twins: &Twins, rng: &mut Rng) -> EventConditions {
    let context = twins.embedded.context();
    let filters = Generator { rng, reference: &Everything }.filters();
    let filters = read_filters(&filters, context.now, &context.zone).unwrap();
    let mut conditions = EventConditions { filters, ..EventConditions::default() };
    let hours = |rng: &mut Rng| context.now.plus_seconds(-3_600 * rng.range(0..900) as i64);
    if rng.chance(40) {
        conditions.events = Some(["a", "$pageview"].map(str::to_owned).into());
    }
    if rng.chance(40) {
        conditions.after = Some(hours(rng));
    }
    if rng.chance(40) {
        conditions.before = Some(hours(rng));
    }
    if rng.chance(30) {
        conditions.distinct_nos = Some((0..8).filter(|_| rng.chance(50)).collect());
    }
    if rng.chance(30) {
        conditions.action = context.actions.values().next().map(|action| action.events.clone());
    }
    conditions
}

/// What a client sees of events; positions differ, since the twins' journals do.
fn shown(rows: &[EventRow]) -> Vec<String> {
    let one = |row: &EventRow| format!("{:?}", EventRow { position: 0, ..row.clone() });
    rows.iter().map(one).collect()
}

/// All pages of a list.
fn pages(view: &View, conditions: &EventConditions, order: Order, limit: usize) -> Vec<String> {
    let (mut resume, mut all): (Option<Cursor>, _) = (None, Vec::new());
    loop {
        let window = Window { order, limit, offset: 0, resume };
        let list = view.list(conditions.clone(), &window).unwrap();
        all.push(format!("{} events", list.len()));
        all.extend(shown(&list.read(0..list.len()).unwrap()));
        match list.next() {
            Some(next) => resume = Some(next.clone()),
            None => return all,
        }
    }
}

#[test]
fn lists_and_values_agree() {
    let seeds = seeds(6, 300);
    let checked = each(&seeds, super::ZONES, |twins, seed| {
        let mut rng = Rng::new(seed);
        let conditions = conditions(twins, &mut rng);
        let order = rng.pick(&[Order::NewestFirst, Order::OldestFirst]);
        let limit = rng.range(20..70) as usize;
        let [ours, theirs] =
            [&twins.embedded, &twins.clickhouse].map(|view| pages(view, &conditions, order, limit));
        if ours != theirs {
            return Some(format!("{conditions:?}\n{ours:#?}\n{theirs:#?}"));
        }
        let name = rng.pick(&["browser", "amount", "active", "$current_url"]).to_owned();
        let key = rng.pick(&[ColumnKey::Event, ColumnKey::DistinctId, ColumnKey::Property(name)]);
        let containing = rng.pick(&[None, Some("o"), Some("1")]).map(str::to_owned);
        let search = ValueSearch { key, conditions, containing, limit: 5 };
        let [ours, theirs] = [&twins.embedded, &twins.clickhouse]
            .map(|view| format!("{:?}", view.values(search.clone()).unwrap()));
        (ours != theirs).then(|| format!("{search:?}\n{ours}\n{theirs}"))
    });
    super::assert_none(checked);
}

#[test]
fn one_event_is_found_by_its_uuid() {
    let checked = each(&(0..1), super::ZONES, |twins, _| {
        let window = Window { order: Order::NewestFirst, limit: 3, offset: 1, resume: None };
        let list = twins.embedded.list(EventConditions::default(), &window).unwrap();
        let store = Store::ClickHouse(twins.reader.clone());
        for row in list.read(0..3).unwrap() {
            let found = store.get(row.project, row.uuid).unwrap().unwrap();
            assert_eq!(shown(&[found]), shown(std::slice::from_ref(&row)));
            assert!(store.event_count(row.project).unwrap() > 10);
        }
        assert!(store.get(twins.project.id, uuid::Uuid::nil()).unwrap().is_none());
        None
    });
    super::assert_none(checked);
}

#[test]
fn drill_downs_agree() {
    let seeds = seeds(5, 200);
    let checked = each(&seeds, super::ZONES, |twins, seed| {
        let mut rng = Rng::new(seed);
        let source = Generator { rng: &mut rng, reference: &Everything }.query();
        let day = rng.pick(&["2024-03-14", "2024-03-20", "2024-04-01"]);
        let kind = source["kind"].as_str().unwrap();
        let point = match kind {
            "FunnelsQuery" => json!({"kind": "FunnelsActorsQuery", "funnelStep": 1}),
            "StickinessQuery" => json!({"kind": "StickinessActorsQuery", "day": 1}),
            "RetentionQuery" => json!({"kind": "InsightActorsQuery", "interval": 0}),
            "LifecycleQuery" => {
                json!({"kind": "InsightActorsQuery", "day": day, "status": "returning"})
            }
            "PathsQuery" => json!({"kind": "InsightActorsQuery"}),
            _ => json!({"kind": "InsightActorsQuery", "day": day, "series": 0}),
        };
        let mut point = point.as_object().unwrap().clone();
        point.insert("source".to_owned(), source.clone());
        let point = DrillDown::parse("ActorsQuery", point).unwrap();
        let compiler = || HogqlCompiler::new(twins.project.clone());
        let actors = |view: &View| {
            let found = run(async |resources| view.actors(&point, compiler(), resources).await);
            found.map(|found| (found.group, found.actors)).map_err(|why| why.to_string())
        };
        let (ours, theirs) = (actors(&twins.embedded), actors(&twins.clickhouse));
        let events = |view: &View| {
            let found =
                run(async |resources| view.counted_events(&point, compiler(), resources).await);
            let counted = found.map_err(|why| why.to_string())?;
            let view = view.restrict_to_events(None, Some(counted)).unwrap();
            let text = "SELECT uuid, event, properties.browser FROM events ORDER BY uuid";
            super::differential::statement(&view, twins, text)
        };
        let (our_events, their_events) = (events(&twins.embedded), events(&twins.clickhouse));
        (ours != theirs || our_events != their_events)
            .then(|| format!("{source}\n{ours:?}\n{theirs:?}\n{our_events:?}\n{their_events:?}"))
    });
    super::assert_none(checked);
}

fn behaviour(rng: &mut Rng) -> (Json, BehavioralFilter) {
    let kinds = ["performed_event", "performed_event_multiple", "performed_event_first_time"];
    let leaf = json!({
        "type": "behavioral",
        "event_type": "events",
        "key": rng.pick(&["a", "b", "c"]),
        "value": rng.pick(&kinds),
        "operator": rng.pick(&["gte", "lte", "gt", "lt", "exact"]),
        "operator_value": rng.range(1..5),
        "time_value": rng.range(1..900),
        "time_interval": "hour",
        "event_filters": Generator { rng, reference: &Everything }.filters(),
    });
    let node = Node::parse(&leaf, &Dialect::default()).unwrap();
    let mut found = Vec::new();
    node.behavioral_filters(&mut found);
    (leaf, found[0].clone())
}

#[test]
fn behavioral_filters_agree() {
    let seeds = seeds(6, 300);
    let checked = each(&seeds, super::ZONES, |twins, seed| {
        let (leaf, behaviour) = behaviour(&mut Rng::new(seed));
        let before = twins.reader.pulls();
        let [ours, theirs] = [&twins.embedded, &twins.clickhouse].map(|view| {
            let of = vec![behaviour.clone()];
            let found = run(async |resources| view.matching_persons(of, resources).await);
            found.map_err(|why| why.to_string()).map(|mut found| found.remove(&behaviour))
        });
        assert_eq!(twins.reader.pulls(), before, "pulled: {leaf}");
        (ours != theirs).then(|| format!("{leaf}\n{ours:?}\n{theirs:?}"))
    });
    super::assert_none(checked);
}

#[test]
fn events_of_an_action_are_printed() {
    let checked = each(&(0..3), super::ZONES, |twins, _| {
        let before = twins.reader.pulls();
        let text =
            "SELECT uuid, event, person_id FROM events WHERE properties.active ORDER BY uuid";
        let [ours, theirs] = [&twins.embedded, &twins.clickhouse].map(|view| {
            let view = view.restrict_to_events(Some(ActionId(7)), None).unwrap();
            super::differential::statement(&view, twins, text).unwrap()
        });
        assert_eq!(twins.reader.pulls(), before);
        (ours != theirs).then(|| format!("{ours}\n{theirs}"))
    });
    super::assert_none(checked);
}

#[test]
fn conditions_that_clickhouse_cannot_read_are_met_here() {
    let checked = each(&(0..1), super::ZONES, |twins, _| {
        for condition in [
            "elements_chain_href = 'x' AND event != 'a'",
            "has(elements_chain_texts, 'x') OR event = 'a'",
            "event != 'a' AND empty(elements_chain_ids)",
            "NOT has(elements_chain_elements, 'button') AND properties.active",
            // RE2 repeats nothing a thousand times.
            "match(event, '^.{0,1001}$') AND event != 'a'",
            "event =~ '^\\\\w+$'",
            "NOT match(event, '[a-z&&[^a]]')",
        ] {
            let text = format!("SELECT uuid, event FROM events WHERE {condition} ORDER BY uuid");
            let before = twins.reader.pulls();
            let [ours, theirs] = [&twins.embedded, &twins.clickhouse]
                .map(|view| super::differential::statement(view, twins, &text).unwrap());
            assert!(twins.reader.pulls() > before, "{text}");
            if ours != theirs {
                return Some(format!("{text}\n{ours}\n{theirs}"));
            }
        }
        None
    });
    super::assert_none(checked);
}

#[test]
fn lists_and_values_by_what_clickhouse_refuses_are_found_here() {
    let checked = each(&(0..1), super::ZONES, |twins, _| {
        let pattern = json!([{"key": "browser", "operator": "regex", "value": "^.{0,1001}$"}]);
        let context = twins.embedded.context();
        let filters = read_filters(&pattern, context.now, &context.zone).unwrap();
        let conditions = EventConditions { filters, ..EventConditions::default() };
        let [ours, theirs] = [&twins.embedded, &twins.clickhouse]
            .map(|view| pages(view, &conditions, Order::NewestFirst, 50));
        let key = ColumnKey::Property("browser".to_owned());
        let search = ValueSearch { key, conditions, containing: None, limit: 5 };
        let [our_values, their_values] = [&twins.embedded, &twins.clickhouse]
            .map(|view| format!("{:?}", view.values(search.clone()).unwrap()));
        (ours != theirs || our_values != their_values || our_values == "[]")
            .then(|| format!("{ours:#?}\n{theirs:#?}\n{our_values}\n{their_values}"))
    });
    super::assert_none(checked);
}

/// Not before the first of two times: the bounds of a list are exclusive.
#[test]
fn bounds_of_a_list_are_exclusive() {
    let checked = each(&(0..1), super::ZONES, |twins, _| {
        let window = Window { order: Order::OldestFirst, limit: 1, offset: 0, resume: None };
        let first = twins.embedded.list(EventConditions::default(), &window).unwrap();
        let at: Timestamp = first.read(0..1).unwrap()[0].timestamp;
        let conditions = EventConditions { after: Some(at), ..EventConditions::default() };
        let [ours, theirs] = [&twins.embedded, &twins.clickhouse]
            .map(|view| pages(view, &conditions, Order::OldestFirst, 10_000));
        (ours != theirs).then(|| "after a time".to_owned())
    });
    super::assert_none(checked);
}

#[test]
fn events_beyond_the_bound_are_not_read_into_memory() {
    let checked = each(&(0..1), super::ZONES, |twins, _| {
        let View::ClickHouse(view) = &twins.clickhouse else { return None };
        let view = View::ClickHouse(ClickHouseView { pull_rows_max: 10, ..view.clone() });
        let found = |text: &str| super::differential::statement(&view, twins, text);
        let before = twins.reader.pulls();
        let why = found("SELECT count(), toTypeName(any(event)) FROM events").unwrap_err();
        assert!(why.contains("than 10 rows. Narrow its date range"), "{why}");
        assert_eq!(twins.reader.pulls(), before);
        // Only the events that the conditions select count.
        let some = "SELECT count(), toTypeName(any(event)) FROM events WHERE event = 'none'";
        assert_eq!(found(some).unwrap()[2], json!([[0, "String"]]));
        assert_eq!(twins.reader.pulls(), before + 1);
        None
    });
    super::assert_none(checked);
}
