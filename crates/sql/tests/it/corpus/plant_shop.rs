//! A shop for plants in March 2024: the same events in our store, and as ClickHouse's tables.

use std::path::Path;

use facts::CohortFacts;
use hogql::ActionSchema;
use model::definition::{PropertyOwner, PropertyType};
use model::person::person_uuid;
use model::{ActionId, CohortId, Timestamp};
use serde_json::{Value as Json, json};
use testing::Rng;

use crate::support::{PROJECT, Store, time};

const PERSONS: u64 = 26;
const EVENTS: u64 = 480;
const COMPANIES: [(&str, &str, u64); 3] =
    [("fern-co", "retail", 12), ("moss-ltd", "hotels", 80), ("oak-inc", "retail", 400)];
const PRODUCTS: [(&str, &str, f64); 5] = [
    ("fern", "indoor", 18.0),
    ("monstera", "indoor", 42.5),
    ("lavender", "garden", 9.5),
    ("oak", "garden", 75.0),
    ("spade", "tools", 24.0),
];
const COUNTRIES: [&str; 3] = ["Norway", "Chile", "Japan"];
const PAGES: [&str; 4] = ["/", "/plants", "/plants/fern", "/pricing"];

const PROPERTIES: &str = "Tuple(`$browser` Nullable(String), `$os` Nullable(String), \
    `$current_url` Nullable(String), `$pathname` Nullable(String), \
    `$referring_domain` Nullable(String), `$session_id` Nullable(String), \
    `$el_text` Nullable(String), utm_source Nullable(String), utm_campaign Nullable(String), \
    product Nullable(String), category Nullable(String), price Nullable(Float64), \
    revenue Nullable(Float64), items Nullable(Float64), currency Nullable(String), \
    plan Nullable(String), feature Nullable(String), is_first Nullable(Bool), \
    due Nullable(DateTime64(6, \\'UTC\\')), tags Array(String), \
    address Tuple(city Nullable(String), zip Nullable(String)))";
const PERSON_PROPERTIES: &str = "Tuple(name Nullable(String), email Nullable(String), \
    plan Nullable(String), country Nullable(String), age Nullable(Float64))";
const GROUP_PROPERTIES: &str = "Tuple(name Nullable(String), industry Nullable(String), \
    plan Nullable(String), employees Nullable(Float64))";

/// Rows of ClickHouse's tables.
#[derive(Default)]
struct Tables {
    events: Vec<Json>,
    persons: Vec<Json>,
    ids: Vec<Json>,
    groups: Vec<Json>,
    members: Vec<Json>,
}

pub fn plant_shop(dir: &Path) -> (Store, Vec<String>) {
    let mut rng = Rng::new(28);
    let mut store = Store::new();
    let mut tables = Tables::default();
    define(&mut store);
    for (no, (key, industry, employees)) in COMPANIES.into_iter().enumerate() {
        let plan = if no == 0 { "free" } else { "pro" };
        let properties = json!({
            "name": key.to_uppercase(), "industry": industry, "plan": plan, "employees": employees,
        });
        store.group(0, key, properties.clone());
        tables.groups.push(json!({"index": 0, "key": key, "properties": properties}));
    }
    for no in 0..PERSONS {
        person(&mut store, &mut tables, no);
    }
    cohorts(&mut store, &mut tables);
    let start = time("2024-03-01T00:00:00Z").as_micros();
    let mut rows = Vec::new();
    for no in 0..EVENTS {
        let at = start + (no * 3_600 + rng.range(0..3_000)) as i64 * 1_000_000;
        rows.push(event(&mut store, &mut tables, &mut rng, Timestamp::from_micros(at)));
    }
    store.append(rows);
    let setup = tables.setup(dir);
    (store, setup)
}

fn define(store: &mut Store) {
    let numeric = PropertyType::Numeric;
    for (name, ty) in [
        ("price", numeric),
        ("revenue", numeric),
        ("items", numeric),
        ("is_first", PropertyType::Boolean),
        ("due", PropertyType::DateTime),
    ] {
        store.define(name, ty);
    }
    let properties = &mut store.project.properties;
    properties.insert((PropertyOwner::Person, "age".to_owned()), numeric);
    properties.insert((PropertyOwner::Group(0), "employees".to_owned()), numeric);
    store.project.groups.insert("company".to_owned(), 0);
    let condition = "event = 'order paid' and properties.revenue > 100";
    let condition = hogql::parse_expr(condition).unwrap();
    let large_orders = ActionSchema { name: "large orders".to_owned(), condition };
    store.project.actions.insert(ActionId(7), large_orders);
}

fn plan_of(no: u64) -> &'static str {
    ["free", "pro", "free", "team"][no as usize % 4]
}

fn person_properties(no: u64) -> Json {
    let mut properties = json!({
        "name": format!("Ann {no:02}"), "email": format!("ann{no}@{}.example",
            if no.is_multiple_of(3) { "plants" } else { "mail" }),
        "plan": plan_of(no), "country": COUNTRIES[no as usize % 3],
    });
    if no % 5 != 4 {
        properties["age"] = json!(20 + no * 2);
    }
    properties
}

fn created_at(no: u64) -> Timestamp {
    Timestamp::from_micros(time("2024-02-01T08:00:00Z").as_micros() + no as i64 * 43_200_000_000)
}

fn person(store: &mut Store, tables: &mut Tables, no: u64) {
    let mut ids = vec![format!("p{no}-web")];
    if no.is_multiple_of(3) {
        ids.push(format!("p{no}-app"));
    }
    let texts: Vec<&str> = ids.iter().map(String::as_str).collect();
    let properties = person_properties(no);
    store.person_since(created_at(no), no as u32, &texts, properties.clone());
    let id = person_uuid(PROJECT, texts[0]);
    tables.persons.push(json!({
        "id": id, "created_at": created_at(no).as_micros(), "properties": properties,
        "distinct_ids": ids, "is_identified": true, "is_deleted": 0, "version": 0,
    }));
    for id in texts {
        let person_id = person_uuid(PROJECT, &format!("p{no}-web"));
        tables.ids.push(json!({"distinct_id": id, "person_id": person_id, "is_deleted": 0}));
    }
}

fn cohorts(store: &mut Store, tables: &mut Tables) {
    store.cohort(5, "gardeners", &[1, 2, 3, 5, 8, 13, 21]);
    let members = [4, 8, 15, 16, 23];
    let facts = CohortFacts {
        name: "fair visitors".to_owned(),
        is_static: true,
        members: members.into_iter().collect(),
    };
    store.cohorts.push((CohortId(6), facts));
    store.project.cohorts.insert(CohortId(6), "fair visitors".to_owned());
    for no in [1, 2, 3, 5, 8, 13, 21] {
        let person_id = person_uuid(PROJECT, &format!("p{no}-web"));
        tables.members.push(json!({"person_id": person_id, "cohort_id": 5, "sign": 1}));
    }
}

fn event(
    store: &mut Store,
    tables: &mut Tables,
    rng: &mut Rng,
    at: Timestamp,
) -> warehouse::EventRow {
    let person = rng.range(0..PERSONS);
    let id = match person.is_multiple_of(3) && rng.chance(30) {
        true => format!("p{person}-app"),
        false => format!("p{person}-web"),
    };
    let name = rng.pick(&[
        "$pageview",
        "$pageview",
        "$pageview",
        "product viewed",
        "product viewed",
        "added to cart",
        "checkout started",
        "order paid",
        "order paid",
        "signed up",
        "feature used",
        "$autocapture",
    ]);
    let properties = properties(rng, name, person, at);
    let company = COMPANIES[person as usize % 3].0;
    let mut groups = [const { None }; 5];
    groups[0] = (!person.is_multiple_of(4)).then(|| company.to_owned());
    let row = store.row(PROJECT, name, &id, at, properties.clone(), groups.clone());
    tables.events.push(json!({
        "uuid": row.uuid, "event": name, "timestamp": at.as_micros(),
        "created_at": row.created_at.as_micros(), "distinct_id": id,
        "person_id": person_uuid(PROJECT, &format!("p{person}-web")),
        "group": groups[0].clone().unwrap_or_default(), "properties": properties,
    }));
    row
}

fn properties(rng: &mut Rng, event: &str, person: u64, at: Timestamp) -> Json {
    let day = at.as_micros() / 86_400_000_000;
    let mut properties = json!({
        "$browser": rng.pick(&["Firefox", "Chrome", "Safari"]), "$os": rng.pick(&["Linux", "iOS"]),
    });
    if rng.chance(85) {
        properties["$session_id"] = json!(format!("s{person}-{day}"));
    }
    if rng.chance(40) {
        properties["utm_source"] = json!(rng.pick(&["news", "search"]));
        properties["utm_campaign"] = json!("spring");
    }
    let (product, category, price) = PRODUCTS[rng.range(0..5) as usize];
    match event {
        "$pageview" => {
            let page = rng.pick(&PAGES);
            properties["$pathname"] = json!(page);
            properties["$current_url"] = json!(format!("https://plants.example{page}?ref=1"));
            properties["$referring_domain"] = json!(rng.pick(&["google.com", "$direct"]));
        }
        "product viewed" | "added to cart" => {
            properties["product"] = json!(product);
            properties["category"] = json!(category);
            properties["price"] = json!(price);
            properties["tags"] =
                json!(if price > 20.0 { vec!["sale", "new"] } else { vec!["new"] });
        }
        "order paid" => {
            let items = 1 + rng.range(0..4);
            properties["product"] = json!(product);
            properties["category"] = json!(category);
            properties["items"] = json!(items);
            properties["revenue"] = json!(price * items as f64);
            properties["currency"] = json!("EUR");
            properties["is_first"] = json!(rng.chance(40));
            properties["due"] = json!(format!("2024-0{}-15T12:00:00Z", 3 + rng.range(0..2)));
            properties["address"] = json!({"city": rng.pick(&["Oslo", "Kyoto"]), "zip": "0150"});
        }
        "signed up" => properties["plan"] = json!(plan_of(person)),
        "feature used" => properties["feature"] = json!(rng.pick(&["saved list", "calendar"])),
        "$autocapture" => properties["$el_text"] = json!("Start free"),
        _ => {}
    }
    properties
}

impl Tables {
    fn setup(&self, dir: &Path) -> Vec<String> {
        let mut setup = Vec::new();
        let mut table = |name: &str, columns: String, select: &str, rows: &[Json]| {
            let path = dir.join(name);
            let lines: Vec<String> = rows.iter().map(Json::to_string).collect();
            std::fs::write(&path, lines.join("\n")).unwrap();
            setup.push(format!(
                "create or replace table {name} engine = Memory as select {select} from \
                 file('{}', JSONEachRow, '{columns}') settings date_time_input_format = \
                 'best_effort', input_format_null_as_default = 1",
                path.display()
            ));
        };
        let micros =
            |column: &str| format!("fromUnixTimestamp64Micro({column}, 'UTC') as {column}");
        let created = micros("created_at");
        table(
            "persons",
            format!(
                "id UUID, created_at Int64, properties {PERSON_PROPERTIES}, \
                 distinct_ids Array(String), is_identified Bool, is_deleted UInt8, version UInt8"
            ),
            "* replace (fromUnixTimestamp64Micro(created_at, 'UTC') as created_at)",
            &self.persons,
        );
        table(
            "person_distinct_ids",
            "distinct_id String, person_id UUID, is_deleted UInt8".to_owned(),
            "*",
            &self.ids,
        );
        table(
            "groups",
            format!("index Int64, key String, properties {GROUP_PROPERTIES}"),
            "*",
            &self.groups,
        );
        table(
            "cohort_people",
            "person_id UUID, cohort_id Int64, sign Int8".to_owned(),
            "*",
            &self.members,
        );
        table(
            "raw_events",
            format!(
                "uuid UUID, event String, timestamp Int64, created_at Int64, distinct_id String, \
                 person_id UUID, group String, properties {PROPERTIES}"
            ),
            &format!(
                "uuid, event, {}, {created}, distinct_id, person_id, group as `$group_0`, \
                 properties, properties.`$session_id` as `$session_id`, 1 as team_id",
                micros("timestamp")
            ),
            &self.events,
        );
        setup.push(format!(
            "create or replace table events engine = Memory as select e.uuid as uuid, e.event as event, \
             e.timestamp as timestamp, e.created_at as created_at, e.distinct_id as distinct_id, \
             e.person_id as person_id, e.`$group_0` as `$group_0`, e.properties as properties, \
             e.`$session_id` as `$session_id`, e.team_id as team_id, cast((p.id, p.created_at, p.properties), 'Tuple(id UUID, created_at DateTime64(6), properties \
             {PERSON_PROPERTIES})') as person, cast((g.key, g.properties), 'Tuple(key \
             Nullable(String), properties {GROUP_PROPERTIES})') as company from raw_events e join \
             persons p on p.id = e.person_id left join groups g on g.key = e.`$group_0`"
        ));
        setup.push(
            "create or replace table raw_persons engine = Memory as select * from persons"
                .to_owned(),
        );
        setup.push(
            "create or replace table raw_groups engine = Memory as select * from groups".to_owned(),
        );
        setup.push(
            "create or replace table raw_person_distinct_ids engine = Memory as select * from \
             person_distinct_ids"
                .to_owned(),
        );
        setup.push(
            "create or replace table raw_cohort_people engine = Memory as select * from \
             cohort_people"
                .to_owned(),
        );
        setup.push(
            "create or replace table sessions engine = Memory as select `$session_id` as \
             session_id, session_id as id, argMin(distinct_id, timestamp) as distinct_id, \
             min(timestamp) as `$start_timestamp`, max(timestamp) as `$end_timestamp`, \
             dateDiff('second', min(timestamp), max(timestamp)) as `$session_duration`, \
             `$session_duration` as duration, countIf(event = '$pageview') as `$pageview_count` \
             from raw_events where `$session_id` is not null group by `$session_id`"
                .to_owned(),
        );
        setup
    }
}
