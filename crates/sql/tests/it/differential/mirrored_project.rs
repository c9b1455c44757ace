//! A project generated from a seed that exists twice: in our store, and as a log of what was ingested,
//! from which ClickHouse deduplicates, deletes and resolves identities by itself.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use facts::{ActionExpr, ActionMatcher, NamedAction, ReadView};
use insights::{HogqlCompiler, Insight, QueryLimits};
use jiff::tz::TimeZone;
use model::definition::{PropertyOwner, PropertyType};
use model::person::{DistinctNo, IdentityChanges, PersonNo, person_uuid};
use model::{ActionId, Timestamp};
use serde_json::{Value as Json, json};
use testing::Rng;
use warehouse::{CompactionKind, DeleteSelection, EventRow, Settings};

use super::super::support::{PROJECT, Store, time};

/// With and without daylight saving, and with offsets of half an hour.
pub const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Adelaide",
    "America/Sao_Paulo",
    // Last, so that it can be left out: daylight saving is half an hour there, and ClickHouse's hours
    // then begin at half past.
    "Australia/Lord_Howe",
];
pub const NOW: &str = "2024-04-12T15:00:00Z";
/// Clocks change on 10 March in New York, on 31 March in Berlin and on 7 April in Australia.
const START: &str = "2024-03-06T00:00:00Z";
const SPAN_MS: u64 = 34 * 24 * 3_600_000;
const MEMORY_BYTES_MAX: usize = 256 << 20;

/// The project's test account filters.
pub fn test_accounts() -> Json {
    json!([{"key": "plan", "type": "person", "operator": "is_not", "value": "team"}])
}

pub struct MirroredProject {
    pub store: Store,
    pub setup: Vec<String>,
    pub zone: &'static str,
    pub tz: TimeZone,
    pub week_starts_monday: bool,
    /// No two events have the same timestamp.
    pub has_unique_timestamps: bool,
    pub view: ReadView,
}

/// What was ingested, in order: the rows of ClickHouse's tables.
#[derive(Default)]
struct IngestLog {
    events: Vec<Json>,
    ids: Vec<Json>,
    persons: HashMap<u32, Json>,
    deletes: Vec<Json>,
    groups: Vec<Json>,
    cohorts: Vec<Json>,
}

struct Generator {
    rng: Rng,
    store: Store,
    log: IngestLog,
    rows: Vec<EventRow>,
    /// All distinct ids, and the person of each.
    ids: Vec<(String, Option<u32>)>,
    times: HashSet<i64>,
    has_unique_timestamps: bool,
    version: u32,
}

impl MirroredProject {
    pub fn new(seed: u64, zones: &[&'static str], dir: &Path) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(7_919));
        let settings = Settings {
            row_group_rows: 32,
            segment_rows_max: 128,
            merge_segments_min: 2,
            ..Settings::default()
        };
        let mut store = Store::with(settings);
        let zone = rng.pick(zones);
        let week_starts_monday = rng.chance(50);
        store.zone(zone);
        for (name, ty) in [("amount", PropertyType::Numeric), ("active", PropertyType::Boolean)] {
            store.define(name, ty);
        }
        let age = (PropertyOwner::Person, "age".to_owned());
        store.project.properties.insert(age, PropertyType::Numeric);
        let size = (PropertyOwner::Group(0), "size".to_owned());
        store.project.properties.insert(size, PropertyType::Numeric);
        let has_unique_timestamps = rng.chance(75);
        let mut generator = Generator {
            rng,
            store,
            log: IngestLog::default(),
            rows: Vec::new(),
            ids: Vec::new(),
            times: HashSet::new(),
            has_unique_timestamps,
            version: 0,
        };
        generator.fill();
        let setup = generator.log.setup(zone, dir);
        let store = generator.store;
        let mut view = (*store.view()).clone();
        let context = Arc::make_mut(&mut view.context);
        context.now = time(NOW);
        context.week_starts_monday = week_starts_monday;
        context.test_account_filters = test_accounts();
        let steps = json!([{"event": "a"}, {"event": "b", "properties": [{"key": "browser",
            "type": "event", "operator": "exact", "value": "Chrome"}]}]);
        let steps: Vec<model::ActionStep> = serde_json::from_value(steps).unwrap();
        let events = ActionExpr::parse(&steps, context.now, &context.zone).unwrap();
        let matcher = ActionMatcher::compile(&events, &context.zone).unwrap();
        let action = NamedAction { name: "act".to_owned(), events };
        context.actions = [(ActionId(7), action)].into();
        view.actions = Arc::new([(ActionId(7), matcher)].into());
        view.expressions = Arc::new(HogqlCompiler::new(store.project.clone()));
        let tz = TimeZone::get(zone).unwrap();
        Self { store, setup, zone, tz, week_starts_monday, has_unique_timestamps, view }
    }

    /// Computes an insight with the operators of `insights`.
    pub fn run_insight(&self, query: &Json) -> Json {
        let insight = Insight::parse(query["kind"].as_str().unwrap(), query).unwrap();
        let insight = insight.unwrap_or_else(|error| panic!("{query}: {error}"));
        let limits = QueryLimits::new(None, Arc::default(), MEMORY_BYTES_MAX);
        let hogql = HogqlCompiler::new(self.store.project.clone());
        let result = insight.run_with(&self.view, &limits, Some(&hogql));
        result.unwrap_or_else(|error| panic!("{query}: {error}")).results
    }
}

impl Generator {
    fn fill(&mut self) {
        for no in 0..4 + self.rng.range(0..7) as u32 {
            self.person(no);
        }
        for no in 0..self.rng.range(0..4) {
            self.id(&format!("anonymous-{no}"), None);
        }
        for (key, tier, size) in [("g0", "free", 3), ("g1", "pro", 40), ("g2", "pro", 7)] {
            let properties = json!({"tier": tier, "size": size});
            self.store.group(0, key, properties.clone());
            self.log.groups.push(json!({"key": key, "properties": properties.to_string()}));
        }
        self.store.project.groups.insert("company".to_owned(), 0);
        let count = 60 + self.rng.range(0..140);
        for no in 0..count {
            match self.rows.is_empty() || !self.rng.chance(5) {
                true => self.event(),
                false => self.duplicate(),
            }
            // Rows end up in memory, in segments and in compacted segments.
            if no == count / 3 || no == count * 2 / 3 {
                self.store.warehouse.flush().unwrap();
                self.delete();
            }
            if no == count * 3 / 4 {
                self.store.warehouse.compact(CompactionKind::Major).unwrap();
            }
            if no == count - 3 {
                self.delete();
            }
            if no == count / 2 || no == count - 5 {
                self.merge();
            }
        }
        if self.rng.chance(30) {
            self.delete_person();
        }
        for id in [5, 6] {
            let mut members: Vec<u32> = self.log.persons.keys().copied().collect();
            members.sort_unstable();
            members.retain(|_| self.rng.chance(50));
            self.store.cohort(id, &format!("cohort {id}"), &members);
            for no in members {
                let person = &self.log.persons[&no]["id"];
                self.log.cohorts.push(json!({"person_id": person, "cohort_id": id}));
            }
        }
    }

    /// A distinct id without a person counts as a person of its own.
    fn id(&mut self, id: &str, person: Option<u32>) {
        let uuid = match person {
            Some(no) => self.log.persons[&no]["id"].clone(),
            None => json!(person_uuid(PROJECT, id)),
        };
        self.version += 1;
        let line = json!({"distinct_id": id, "person_id": uuid, "version": self.version});
        self.log.ids.push(line);
        match self.ids.iter_mut().find(|(known, _)| known == id) {
            Some((_, owner)) => *owner = person,
            None => self.ids.push((id.to_owned(), person)),
        }
    }

    fn person(&mut self, no: u32) {
        let ids: Vec<String> =
            (0..1 + self.rng.range(0..3)).map(|at| format!("p{no}-{at}")).collect();
        let mut properties = json!({});
        let plan = self.rng.pick(&["", "free", "pro", "team"]);
        if !plan.is_empty() {
            properties["plan"] = json!(plan);
        }
        if self.rng.chance(70) {
            properties["age"] = json!(18 + self.rng.range(0..50));
        }
        let created = time(START).as_micros() + self.rng.range(0..SPAN_MS) as i64 * 1_000;
        let texts: Vec<&str> = ids.iter().map(String::as_str).collect();
        let since = Timestamp::from_micros(created);
        self.store.person_since(since, no, &texts, properties.clone());
        let uuid = person_uuid(PROJECT, texts[0]);
        let line = json!({"id": uuid, "created_at": created, "properties": properties.to_string()});
        self.log.persons.insert(no, line);
        ids.iter().for_each(|id| self.id(id, Some(no)));
    }

    fn timestamp(&mut self) -> Timestamp {
        let start = time(START).as_micros() / 1_000;
        loop {
            // Bursts, so that paths and short funnel windows match something.
            let mut at = match self.rows.last() {
                Some(row) if self.rng.chance(40) => {
                    row.timestamp.as_micros() / 1_000 + self.rng.range(0..40 * 60_000) as i64
                }
                _ => start + self.rng.range(0..SPAN_MS) as i64,
            };
            if !self.has_unique_timestamps {
                at -= at % 600_000;
            }
            if self.times.insert(at) || !self.has_unique_timestamps {
                return Timestamp::from_micros(at * 1_000);
            }
        }
    }

    fn properties(&mut self, event: &str, at: Timestamp) -> Json {
        let rng = &mut self.rng;
        let mut properties = json!({});
        let quarters = rng.range(0..48) as f64 / 4.0;
        properties["amount"] = match rng.range(0..14) {
            0 => json!("none"),
            1 => json!(""),
            2 => json!(null),
            3 => json!(format!("{quarters}")),
            4 => json!(-quarters),
            5 => json!(true),
            6 | 7 => json!(rng.range(0..9)),
            _ => json!(quarters),
        };
        properties["browser"] = match rng.range(0..12) {
            0 => json!(""),
            1 => json!(null),
            2 => json!("chrome"),
            3 => json!("Überfox"),
            4 => json!(rng.range(0..3)),
            _ => json!(rng.pick(&["Chrome", "Firefox", "Safari"])),
        };
        properties["active"] = json!(rng.chance(50));
        properties["$session_id"] = match rng.range(0..12) {
            0 => json!(""),
            // As with SDKs, a session lasts a day at most.
            _ => json!(format!("s{}-{}", at.as_micros() / 86_400_000_000, rng.range(0..3))),
        };
        for name in ["amount", "browser", "active", "$session_id"] {
            if rng.chance(20) {
                properties.as_object_mut().unwrap().remove(name);
            }
        }
        if event == "$pageview" {
            let path = rng.pick(&["/home", "/pricing/", "/docs?x=1", "/docs"]);
            properties["$current_url"] = json!(format!("https://example.com{path}"));
        }
        properties
    }

    fn event(&mut self) {
        let event = self.rng.pick(&["a", "a", "a", "b", "b", "c", "$pageview"]);
        let no = self.rng.range(0..self.ids.len());
        let id = self.ids[no].0.clone();
        let at = self.timestamp();
        let properties = self.properties(event, at);
        let group = self.rng.pick(&["", "g0", "g1", "g2", "g3"]);
        let mut groups = [const { None }; 5];
        groups[0] = (!group.is_empty()).then(|| group.to_owned());
        let row = self.store.row(PROJECT, event, &id, at, properties, groups);
        self.ingest(row);
    }

    /// Ingests an event again, sometimes with another timestamp and other properties.
    fn duplicate(&mut self) {
        let no = self.rng.range(0..self.rows.len());
        let mut row = self.rows[no].clone();
        if self.rng.chance(50) {
            row.timestamp = self.timestamp();
            row.properties = self.properties(&row.event.clone(), row.timestamp).to_string();
        }
        self.ingest(row);
    }

    fn ingest(&mut self, mut row: EventRow) {
        row.position = self.store.warehouse.applied_position();
        self.log.events.push(json!({
            "position": row.position,
            "uuid": row.uuid,
            "event": &*row.event,
            "timestamp": row.timestamp.as_micros(),
            "distinct_id": &*row.distinct_id,
            "company": row.groups[0].as_deref().unwrap_or_default(),
            "properties": row.properties,
        }));
        self.store.warehouse.append(&[row.as_new().unwrap()], row.position + 1).unwrap();
        self.rows.push(row);
    }

    fn delete(&mut self) {
        let before = self.store.warehouse.applied_position();
        let no = self.rng.range(0..self.rows.len());
        let row = &self.rows[no];
        let (id, uuid) = (row.distinct_id.to_string(), row.uuid);
        let selection = match self.rng.chance(30) {
            true => DeleteSelection::DistinctNos(BTreeSet::from([row.distinct_no])),
            false => DeleteSelection::Uuids(BTreeSet::from([uuid])),
        };
        self.store.warehouse.delete(PROJECT, &selection, before).unwrap();
        let line = match selection {
            DeleteSelection::Uuids(_) => json!({"id": uuid, "before": before}),
            _ => json!({"id": id, "before": before}),
        };
        self.log.deletes.push(line);
    }

    fn random_person(&mut self) -> u32 {
        let mut all: Vec<u32> = self.log.persons.keys().copied().collect();
        all.sort_unstable();
        all[self.rng.range(0..all.len())]
    }

    /// Merges a person into another.
    fn merge(&mut self) {
        let (from, to) = (self.random_person(), self.random_person());
        if from == to {
            return;
        }
        let moves = vec![(PersonNo(from), PersonNo(to))];
        self.store.persons.apply(&IdentityChanges { merges: moves, ..Default::default() });
        for (id, _) in self.ids.clone().iter().filter(|(_, owner)| *owner == Some(from)) {
            self.id(id, Some(to));
        }
        self.log.persons.remove(&from);
    }

    /// Deletes a person, but not the events.
    fn delete_person(&mut self) {
        let gone = self.random_person();
        let deleted = vec![PersonNo(gone)];
        self.store.persons.apply(&IdentityChanges { deleted, ..Default::default() });
        let ids: Vec<(u32, String)> =
            self.store.persons.distinct_ids().map(|(no, text, _)| (no, text.to_owned())).collect();
        for (id, _) in self.ids.clone().iter().filter(|(_, owner)| *owner == Some(gone)) {
            let (no, _) = ids.iter().find(|(_, text)| text == id).unwrap();
            self.store.persons.set_distinct_id(DistinctNo(*no), id, None);
            self.id(id, None);
        }
        self.log.persons.remove(&gone);
    }
}

/// How PostHog reads a property in ClickHouse.
fn property(column: &str, name: &str) -> String {
    format!(
        "nullIf(nullIf(replaceRegexpAll(JSONExtractRaw({column}, '{name}'), '^\"|\"$', ''), ''), 'null')"
    )
}

impl IngestLog {
    fn setup(&self, zone: &str, dir: &Path) -> Vec<String> {
        let mut setup = Vec::new();
        let mut persons: Vec<&Json> = self.persons.values().collect();
        persons.sort_by_key(|line| line.to_string());
        let persons: Vec<Json> = persons.into_iter().cloned().collect();
        let mut table = |name: &str, columns: &str, lines: &[Json]| {
            let path = dir.join(name);
            let lines: Vec<String> = lines.iter().map(Json::to_string).collect();
            std::fs::write(&path, lines.join("\n")).unwrap();
            let path = path.display();
            setup.push(format!("create or replace table {name} ({columns}) engine = Memory"));
            setup.push(format!(
                "insert into {name} select * from file('{path}', JSONEachRow, '{columns}')"
            ));
        };
        table(
            "arrived",
            "position UInt64, uuid UUID, event String, timestamp Int64, distinct_id String, \
             company String, properties String",
            &self.events,
        );
        table("ids", "distinct_id String, person_id UUID, version UInt32", &self.ids);
        table("people", "id UUID, created_at Int64, properties String", &persons);
        table("deletes", "id String, before UInt64", &self.deletes);
        table("companies", "key String, properties String", &self.groups);
        table("cohort_people", "person_id UUID, cohort_id Int64", &self.cohorts);
        setup.push(
            "create or replace table live engine = Memory as select e.* from (select * from \
             arrived order by position desc limit 1 by uuid, event, distinct_id) e left join \
             (select id, max(before) as before from deletes group by id) u on u.id = toString(e.uuid) \
             left join (select id, max(before) as before from deletes group by id) d \
             on d.id = e.distinct_id where e.position >= u.before and e.position >= d.before"
                .to_owned(),
        );
        let p = |name: &str| property("e.properties", name);
        let person = |name: &str| property("p.properties", name);
        let company = |name: &str| property("c.properties", name);
        let moment = format!(r"DateTime64(6, \'{zone}\')");
        setup.push(format!(
            "create or replace table events engine = Memory as select e.uuid as uuid, \
             e.event as event, fromUnixTimestamp64Micro(e.timestamp, '{zone}') as timestamp, \
             e.distinct_id as distinct_id, o.person_id as person_id, \
             {session} as `$session_id`, e.company as `$group_0`, \
             cast((toFloat64OrNull({amount}), {browser}, transform({active}, ['true', 'false'], \
             [true, false], null), {session}, {url}), 'Tuple(amount Nullable(Float64), \
             browser Nullable(String), active Nullable(Bool), `$session_id` Nullable(String), \
             `$current_url` Nullable(String))') as properties, \
             cast((o.person_id, if(p.created_at = 0, null, fromUnixTimestamp64Micro(p.created_at, \
             '{zone}')), ({plan}, toFloat64OrNull({age}))), 'Tuple(id UUID, created_at \
             Nullable({moment}), properties Tuple(plan Nullable(String), age Nullable(Float64)))') \
             as person, \
             cast(tuple(({tier}, toFloat64OrNull({size}))), 'Tuple(properties Tuple(\
             tier Nullable(String), size Nullable(Float64)))') as group_0, \
             cast((if(s.id is null, null, dateDiff('second', s.first, s.last)), \
             if(s.id is null, null, s.first)), 'Tuple(`$session_duration` Nullable(Int64), \
             `$start_timestamp` Nullable({moment}))') as session \
             from live e inner join (select distinct_id, argMax(person_id, version) as person_id \
             from ids group by distinct_id) o on o.distinct_id = e.distinct_id \
             left join people p on p.id = o.person_id left join companies c on c.key = e.company \
             left join (select {own} as id, fromUnixTimestamp64Micro(min(e.timestamp), '{zone}') as \
             first, fromUnixTimestamp64Micro(max(e.timestamp), '{zone}') as last from live e \
             where id is not null group by id) s on s.id = {session}",
            session = p("$session_id"),
            own = p("$session_id"),
            amount = p("amount"),
            browser = p("browser"),
            active = p("active"),
            url = p("$current_url"),
            plan = person("plan"),
            age = person("age"),
            tier = company("tier"),
            size = company("size"),
        ));
        setup.push(format!(
            "create or replace table persons engine = Memory as select id, \
             fromUnixTimestamp64Micro(created_at, '{zone}') as created_at, \
             cast(({plan}, toFloat64OrNull({age})), 'Tuple(plan Nullable(String), \
             age Nullable(Float64))') as properties from people p",
            plan = person("plan"),
            age = person("age"),
        ));
        setup
    }
}
