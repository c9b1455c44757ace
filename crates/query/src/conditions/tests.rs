//! A filter keeps the same rows as a predicate of `facts` and as printed HogQL.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use facts::{
    CohortFacts, Filters, GroupFacts, Groups, PathCleaning, PersonFacts, PersonIndex, QueryContext,
    ReadView, SessionFacts, SessionValue,
};
use hogql::ast::{Body, Column, From, Query, Select, Source, SourceKind};
use hogql::build::name;
use hogql::{Project, Span};
use insights::HogqlCompiler;
use model::definition::{PropertyOwner, PropertyType};
use model::person::{DistinctNo, PersonNo, person_uuid};
use model::{Clock, CohortId, ProjectId, Timestamp, Zone};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use uuid::Uuid;
use warehouse::{EventRow, Settings, Warehouse};

use super::*;

const PROJECT: ProjectId = ProjectId(1);
const ZONE: &str = "America/New_York";
/// Persons with one event each, and as many distinct ids without a person.
const PERSONS: usize = 12;

fn now() -> Timestamp {
    Timestamp::parse("2024-03-14T12:00:00Z").unwrap()
}

/// Strings that operators may take for something else.
const TEXTS: &[&str] = &[
    "",
    "a",
    "A",
    "ab",
    "Pro",
    "pro",
    "KÖLN",
    "köln",
    "ΟΔΟΣ",
    "ΟΔΟΣΑ",
    "\u{212a}",
    "5",
    "5.0",
    " 5 ",
    "\t5",
    "+5",
    "5.",
    ".5",
    "05",
    "10",
    "-3",
    "1e3",
    "1e999",
    "inf",
    "NaN",
    "0x10",
    "true",
    "True",
    "false",
    "null",
    "[1,2]",
    "{\"a\":1}",
    "a\nb",
    "%",
    "_",
    "a'b\\",
    "soon",
    "2024-03-01",
    "20240301",
    "2024-03-01T10:00:00Z",
    "2024-03-01 10:00:00.25",
    "2024-03-01T10:00:00+02:00",
    "2024-03-10T02:30:00",
    "2024-11-03T01:30",
    "2024-13-01",
    "01/03/2024",
    "2024-03-01T1000",
    "1700000000",
    "1700000000000",
    "1709301600.5",
    "/orders/17",
    "/orders/<id>",
    "p3",
    "x4",
    "x30",
];

fn stored_value() -> impl Strategy<Value = Json> {
    let numbers = [json!(5), json!(5.0), json!(-3), json!(0), json!(10), json!(0.5), json!(1e3)];
    let times = [json!(1_700_000_000), json!(20_240_301), json!(1_709_301_600.5)];
    let others = [json!(true), json!(false), json!(null), json!([1, 2]), json!({"a": 1})];
    let other: Vec<Json> = numbers.into_iter().chain(times).chain(others).collect();
    prop_oneof![2 => select(TEXTS).prop_map(|text| json!(text)), 1 => select(other)]
}

/// A property, or none.
fn properties() -> impl Strategy<Value = Json> {
    proptest::option::weighted(0.9, stored_value())
        .prop_map(|value| value.map_or(json!({}), |value| json!({ "k": value })))
}

fn operator_and_value() -> impl Strategy<Value = (&'static str, Json)> {
    let value = || stored_value().prop_filter("null is no value", |value| !value.is_null());
    let one_or_more = || prop_oneof![value(), vec(value(), 0..4).prop_map(Json::Array)].boxed();
    let lists = select(&[
        "exact",
        "is_not",
        "in",
        "not_in",
        "icontains",
        "not_icontains",
        "icontains_multi",
        "not_icontains_multi",
        "is_cleaned_path_exact",
    ]);
    let singles = select(&[
        "gt",
        "gte",
        "lt",
        "lte",
        "min",
        "max",
        "starts_with",
        "not_starts_with",
        "ends_with",
        "not_ends_with",
    ]);
    let patterns = select(&["a", "^a.b$", "[A-Z]", "(?i)pro", "^-?[0-9.]+$", "\\s", "ö|Ö", "$"]);
    let dates = select(&[
        "-7d",
        "-1mStart",
        "2024-03-01",
        "2024-03-01T10:00:00Z",
        "2024-03-01T15:00:00.25Z",
        "2024-03-10T06:30:00Z",
        "2024-11-03T05:30:00Z",
        "1970-01-01T00:00:05Z",
        "2023-11-14T22:13:20Z",
        "2024-03-01T14:00:00.5Z",
    ]);
    prop_oneof![
        4 => (lists, one_or_more()),
        3 => (singles, value().prop_filter("one value", |value| !value.is_array())),
        2 => (select(&["regex", "not_regex"]), vec(patterns, 0..3)).prop_map(|(operator, all)| (operator, json!(all))),
        1 => (select(&["between", "not_between"]), (-5..6, 0..12))
            .prop_map(|(operator, (low, more))| (operator, json!([low, low + more]))),
        1 => select(&["is_set", "is_not_set"]).prop_map(|operator| (operator, json!(null))),
        2 => (select(&["is_date_exact", "is_date_before", "is_date_after"]), dates)
            .prop_map(|(operator, date)| (operator, json!(date))),
    ]
}

/// One filter of a type.
fn filter_of(kinds: &'static [&'static str]) -> impl Strategy<Value = Json> {
    (select(kinds), operator_and_value(), any::<bool>()).prop_map(
        |(kind, (operator, value), negated)| {
            let (kind, key) = kind.split_once('.').unwrap();
            match kind {
                "cohort" => {
                    json!({"type": kind, "key": key, "value": 5,
                           "operator": if negated { "not_in" } else { "in" }})
                }
                "hogql" => json!({"type": kind, "key": "event = 'b'"}),
                _ => json!({"type": kind, "key": key, "operator": operator, "value": value,
                            "group_type_index": 0}),
            }
        },
    )
}

const EVENT_KINDS: &[&str] = &[
    "event.k",
    "event.k",
    "event.k",
    "event.k",
    "feature.k",
    "event_metadata.distinct_id",
    "event_metadata.event",
    "event_metadata.$group_0",
    "event_metadata.$session_id",
    "event_metadata.person_id",
    "person.k",
    "person.k",
    "person.distinct_id",
    "group.k",
    "group.k",
    "cohort.id",
    "hogql.event",
];
const PERSON_KINDS: &[&str] = &["person.k", "person.k", "person.distinct_id", "cohort.id"];
const GROUP_KINDS: &[&str] = &["group.k"];

/// A list of filters and groups of them.
fn filters_of(kinds: &'static [&'static str]) -> impl Strategy<Value = Json> {
    let group = (select(&["AND", "OR"]), vec(filter_of(kinds), 0..4))
        .prop_map(|(word, values)| json!({"type": word, "values": values}));
    vec(prop_oneof![4 => filter_of(kinds), 1 => group], 1..3).prop_map(Json::Array)
}

#[derive(Clone, Debug)]
struct Case {
    /// Of each event.
    events: Vec<Json>,
    persons: Vec<Json>,
    groups: Vec<Json>,
    defined_as: Option<PropertyType>,
    members: Vec<usize>,
    of_events: Vec<Json>,
    of_persons: Vec<Json>,
    of_groups: Vec<Json>,
}

fn case() -> impl Strategy<Value = Case> {
    let types = [
        None,
        Some(PropertyType::String),
        Some(PropertyType::Numeric),
        Some(PropertyType::Boolean),
        Some(PropertyType::DateTime),
    ];
    let data = (
        vec(properties(), 2 * PERSONS),
        vec(properties(), PERSONS),
        vec(properties(), PERSONS),
        select(types.to_vec()),
        subsequence((0..PERSONS).collect::<Vec<_>>(), 3),
    );
    let filters = (
        vec(filters_of(EVENT_KINDS), 12),
        vec(filters_of(PERSON_KINDS), 3),
        vec(filters_of(GROUP_KINDS), 3),
    );
    (data, filters).prop_map(|(data, (of_events, of_persons, of_groups))| {
        let (events, persons, groups, defined_as, members) = data;
        Case { events, persons, groups, defined_as, members, of_events, of_persons, of_groups }
    })
}

struct Store {
    _dir: TempDir,
    project: Project,
    view: ReadView,
    runtime: tokio::runtime::Runtime,
}

impl Store {
    fn new(case: &Case) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let warehouse =
            Warehouse::open(dir.path(), 7, Settings::default(), Clock::at(now())).unwrap();
        let mut persons = PersonIndex::new(PROJECT);
        let mut groups = Groups::default();
        let mut rows = Vec::new();
        for (no, properties) in case.events.iter().enumerate() {
            let (person, id) = match no < PERSONS {
                true => (Some(no), format!("p{no}")),
                false => (None, format!("x{}", no - PERSONS)),
            };
            if let Some(person) = person {
                let facts = PersonFacts {
                    uuid: person_uuid(PROJECT, &id),
                    created_at: now(),
                    is_identified: true,
                };
                persons.set_person(PersonNo(no as u32), facts, &case.persons[person].to_string());
                // A second distinct id, without events.
                let second = DistinctNo((case.events.len() + no) as u32);
                persons.set_distinct_id(second, &format!("x{no}0"), Some(PersonNo(no as u32)));
            }
            persons.set_distinct_id(
                DistinctNo(no as u32),
                &id,
                person.map(|no| PersonNo(no as u32)),
            );
            let mut keys = [const { None }; 5];
            if let Some(group) = case.groups.get(no) {
                let properties = group.as_object().unwrap().clone();
                groups.set(0, &format!("g{no}"), &GroupFacts { created_at: now(), properties });
                keys[0] = Some(format!("g{no}"));
            }
            let mut properties = properties.clone();
            if let Some(value) = properties.get("k").cloned() {
                properties["$feature/k"] = value.clone();
                properties["$session_id"] = value;
            }
            rows.push(EventRow {
                project: PROJECT,
                uuid: Uuid::from_u128(no as u128 + 1),
                event: if no % 3 == 0 { "a" } else { "b" }.into(),
                distinct_id: id.into(),
                distinct_no: no as u32,
                timestamp: now(),
                created_at: now(),
                elements_chain: String::new(),
                groups: keys,
                properties: properties.to_string(),
                position: no as u64,
                historical: false,
            });
        }
        let new: Vec<_> = rows.iter().map(|row| row.as_new().unwrap()).collect();
        warehouse.append(&new, rows.len() as u64).unwrap();
        let members = case.members.iter().map(|no| *no as u32).collect();
        let cohort = CohortFacts { name: "five".into(), is_static: false, members };
        let owners = [PropertyOwner::Event, PropertyOwner::Person];
        let properties: HashMap<_, _> = case
            .defined_as
            .iter()
            .flat_map(|ty| owners.map(|owner| ((owner, "k".to_owned()), *ty)))
            .collect();
        let project = Project {
            id: PROJECT,
            zone: ZONE.into(),
            groups: Default::default(),
            properties,
            cohorts: [(CohortId(5), "five".to_owned())].into_iter().collect(),
            actions: Default::default(),
            objects: Default::default(),
        };
        let rules =
            json!([{"alias": "/<$1>", "regex": "/([0-9])[0-9]+"}, {"alias": "id", "regex": "<.>"}]);
        let context = QueryContext {
            path_cleaning: Arc::new(PathCleaning::read(&rules)),
            cohorts: project.cohorts.clone(),
            ..QueryContext::new(PROJECT, Zone::named(ZONE), now())
        };
        let view = ReadView {
            context: Arc::new(context),
            events: warehouse.snapshot(PROJECT),
            persons: Arc::new(persons),
            groups: Arc::new(groups),
            cohorts: Arc::new([(CohortId(5), cohort)].into_iter().collect()),
            sessions: Arc::default(),
            event_filter: None,
            actions: Arc::default(),
            expressions: Arc::new(HogqlCompiler::new(project.clone())),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { _dir: dir, project, view, runtime }
    }

    /// The strings of a column of the rows that the condition keeps.
    fn select(
        &self,
        view: &ReadView,
        column: &str,
        table: &str,
        condition: Option<Expr>,
    ) -> Result<BTreeSet<String>, String> {
        let table = SourceKind::Table(name(table));
        let first = Source { kind: table, alias: None, columns: Vec::new(), span: Span::default() };
        let column = call("toString", vec![field(&[column])]);
        let select = Select {
            columns: vec![Column { expr: column, alias: None }],
            from: Some(From { first, joins: Vec::new() }),
            filter: condition,
            ..Select::default()
        };
        let query = Query { with: Vec::new(), body: Body::Select(Box::new(select)) };
        let plan = hogql::resolve(&query, "", &self.project, None);
        let plan = plan.map_err(|error| error.to_string())?;
        let limits = sql::Limits {
            timeout: Duration::from_secs(60),
            memory_bytes: 64 << 20,
            threads: 1,
            paths: sql::Paths::ALL,
            explain: false,
        };
        let result = self.runtime.block_on(sql::run(&plan, &Arc::new(view.clone()), &limits));
        let rows = result.map_err(|error| format!("{error:?}"))?.rows;
        Ok(rows.into_iter().map(|row| row[0].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// A column of the events that the predicate keeps.
    fn evaluated(&self, filters: &Json, column: &str) -> Result<BTreeSet<String>, String> {
        let filters = Filters::read(filters, now(), &self.view.context.zone);
        let filters = filters.map_err(|error| error.to_string())?;
        let event_filter = filters.predicate(&self.view).map_err(|error| error.to_string())?;
        self.select(&ReadView { event_filter, ..self.view.clone() }, column, "events", None)
    }

    fn printed(&self, filters: &Json, rows: Rows) -> Result<BTreeSet<String>, String> {
        let condition = Conditions::new(&self.view.context, rows).read(filters);
        let condition = condition.map_err(|error| error.to_string())?;
        let (column, table) = match rows {
            Rows::Events => ("uuid", "events"),
            Rows::Persons => ("id", "persons"),
            Rows::Groups => ("key", "groups"),
        };
        self.select(&self.view, column, table, condition)
    }
}

fn agrees(case: &Case) -> Result<(), TestCaseError> {
    let store = Store::new(case);
    for filters in &case.of_events {
        let evaluated = store.evaluated(filters, "uuid");
        prop_assert!(evaluated.is_ok(), "{filters}: {evaluated:?}");
        prop_assert_eq!(evaluated, store.printed(filters, Rows::Events), "{}", filters);
    }
    let persons = store.select(&store.view, "id", "persons", None).unwrap();
    for filters in &case.of_persons {
        let evaluated = store.evaluated(filters, "person_id");
        let evaluated = evaluated.map(|ids| ids.intersection(&persons).cloned().collect());
        prop_assert_eq!(evaluated, store.printed(filters, Rows::Persons), "{}", filters);
    }
    for filters in &case.of_groups {
        let mut evaluated = store.evaluated(filters, "$group_0");
        evaluated.iter_mut().for_each(|keys| keys.retain(|key| !key.is_empty()));
        prop_assert_eq!(evaluated, store.printed(filters, Rows::Groups), "{}", filters);
    }
    Ok(())
}

// contract: query section 2.5
#[test]
fn printed_filters_keep_the_rows_of_the_contract() {
    let values = [
        json!(5),
        json!("5.0"),
        json!("10"),
        json!("abc"),
        json!("2024-03-01T10:00:00Z"),
        json!("a\nb"),
        json!(null),
    ];
    let events: Vec<Json> = (0..2 * PERSONS)
        .map(|no| values.get(no).map_or(json!({}), |value| json!({"k": value, "7": value})))
        .collect();
    let empty = vec![json!({}); PERSONS];
    let case = Case {
        events,
        persons: empty.clone(),
        groups: empty,
        defined_as: Some(PropertyType::Numeric),
        members: vec![0, 1],
        of_events: Vec::new(),
        of_persons: Vec::new(),
        of_groups: Vec::new(),
    };
    let mut store = Store::new(&case);
    // Each session has one event.
    let mut sessions = SessionFacts::default();
    for (name, value) in [
        ("$session_duration", SessionValue::Number(0.0)),
        ("$is_bounce", SessionValue::Bool(true)),
        ("$start_timestamp", SessionValue::Text(now().to_string())),
    ] {
        sessions.insert(name, Arc::new(move |_| Some(value.clone())));
    }
    store.view.sessions = Arc::new(sessions);
    let all: Vec<usize> = (0..2 * PERSONS).collect();
    let without = |none: &[usize]| -> Vec<usize> {
        all.iter().copied().filter(|no| !none.contains(no)).collect()
    };
    for (kind, key, operator, value, expected) in [
        ("event", json!("k"), "exact", json!("5"), vec![0]),
        ("event", json!("k"), "exact", json!(5), vec![0, 1]),
        ("event", json!("k"), "gt", json!("5"), vec![1, 3, 5]),
        ("event", json!("k"), "gt", json!(5), vec![2]),
        ("event", json!("k"), "is_not", json!(5), without(&[0, 1])),
        ("event", json!("k"), "is_set", json!(null), vec![0, 1, 2, 3, 4, 5]),
        ("event", json!("k"), "icontains", json!("t10:"), vec![4]),
        ("event", json!("k"), "regex", json!("^a.b$"), vec![5]),
        ("event", json!("k"), "is_date_after", json!("2024-01-01"), vec![4]),
        ("event", json!(7), "exact", json!("abc"), vec![3]),
        ("person", json!("distinct_id"), "exact", json!(["x30", "x4"]), vec![3, 16]),
        ("person", json!("distinct_id"), "is_not", json!("x30"), without(&[3])),
        ("event_metadata", json!("person_id"), "is_set", json!(null), all.clone()),
        ("event", json!("k"), "in", json!(vec!["abc"; 1_000]), vec![3]),
        ("session", json!("$session_duration"), "exact", json!("0.0"), vec![0, 1, 2, 3, 4, 5]),
        ("session", json!("$session_duration"), "gt", json!("-1"), vec![0, 1, 2, 3, 4, 5]),
        ("session", json!("$session_duration"), "is_not", json!(0), without(&[0, 1, 2, 3, 4, 5])),
        ("session", json!("$is_bounce"), "exact", json!(["true"]), vec![0, 1, 2, 3, 4, 5]),
        ("session", json!("$is_bounce"), "gt", json!(0), vec![]),
        (
            "session",
            json!("$start_timestamp"),
            "is_date_exact",
            json!("2024-03-14T12:00:00Z"),
            vec![0, 1, 2, 3, 4, 5],
        ),
        (
            "session",
            json!("$start_timestamp"),
            "exact",
            json!("2024-03-14T12:00:00Z"),
            vec![0, 1, 2, 3, 4, 5],
        ),
    ] {
        let filters = json!([{"type": kind, "key": key, "operator": operator, "value": value}]);
        let expected: BTreeSet<String> =
            expected.into_iter().map(|no| Uuid::from_u128(no as u128 + 1).to_string()).collect();
        assert_eq!(store.printed(&filters, Rows::Events), Ok(expected.clone()), "{filters}");
        assert_eq!(store.evaluated(&filters, "uuid"), Ok(expected), "{filters}");
    }
    // Only statements can filter by these.
    for (operator, value, count) in [
        ("is_date_exact", "2024-03-14T12:00:00Z", 2 * PERSONS),
        ("is_date_before", "2024-03-14T12:00:00Z", 0),
        ("exact", "2024-03-14T12:00:00Z", 2 * PERSONS),
    ] {
        let filters = json!([{"type": "event_metadata", "key": "timestamp", "operator": operator,
                              "value": value}]);
        let printed = store.printed(&filters, Rows::Events).unwrap();
        assert_eq!(printed.len(), count, "{filters}");
    }
    for (operator, value, why) in [
        ("between", json!([]), "the lower one first"),
        ("between", json!(["x", 1, 2]), "the lower one first"),
        ("exact", json!(vec![1; 1_001]), "at most 1000 values"),
        ("semver_gt", json!("1.2.3"), "cannot be used here"),
    ] {
        let filters = json!([{"key": "k", "operator": operator, "value": value}]);
        let refused = store.printed(&filters, Rows::Events).unwrap_err();
        assert!(refused.contains(why), "{filters}: {refused}");
    }
}

#[test]
fn filters_keep_the_same_rows_evaluated_and_printed() {
    let seed = testing::seed();
    let config =
        ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed.to_le_bytes().repeat(4));
    let outcome = TestRunner::new_with_rng(config, rng).run(&case(), |case| agrees(&case));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
