//! A project that is filled as the stores of `sql`'s tests are, and then written to ClickHouse.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow::array::{Array, AsArray, FixedSizeBinaryArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use clickhouse::{
    Client, PrintContext, Schema, Settings, Told, ToldCohortMember, ToldDistinctId, ToldGroup,
    ToldPerson, Writer, WriterSettings, print,
};
use facts::CohortFacts;
use hogql::types::Kind;
use hogql::{Filters, PlaceholderValues, Project};
use model::definition::{PropertyOwner, PropertyType};
use model::person::person_uuid;
use model::{Clock, CohortId, ProjectId, Timestamp};
use serde_json::{Value as Json, json};
use testing::clickhouse::Database;
use uuid::Uuid;
use warehouse::EventRow;

pub const PROJECT: ProjectId = ProjectId(1);
/// The version of calculated cohorts.
const VERSION: i64 = 3;

pub struct Store {
    pub project: Project,
    pub cohorts: Vec<(CohortId, CohortFacts)>,
    pub told: Told,
    pub rows: Vec<EventRow>,
    ids: HashMap<String, u32>,
}

impl Store {
    pub fn new() -> Self {
        let project = Project {
            id: PROJECT,
            zone: "UTC".to_owned(),
            groups: BTreeMap::new(),
            properties: HashMap::new(),
            cohorts: BTreeMap::new(),
            actions: BTreeMap::new(),
            objects: BTreeMap::new(),
        };
        Self {
            project,
            cohorts: Vec::new(),
            told: Told::default(),
            rows: Vec::new(),
            ids: HashMap::new(),
        }
    }

    pub fn person_since(&mut self, created_at: Timestamp, no: u32, ids: &[&str], properties: Json) {
        let person_id = person_uuid(PROJECT, ids[0]);
        self.told.persons.push(ToldPerson {
            project: PROJECT,
            person_no: no,
            person_id,
            created_at,
            is_identified: true,
            is_deleted: false,
            properties: properties.to_string(),
            position: 0,
        });
        for id in ids {
            self.distinct_id(id, Some((no, person_id)));
        }
    }

    fn distinct_id(&mut self, id: &str, person: Option<(u32, Uuid)>) -> u32 {
        if let Some(known) = self.ids.get(id) {
            return *known;
        }
        let distinct_no = self.ids.len() as u32;
        self.ids.insert(id.to_owned(), distinct_no);
        self.told.distinct_ids.push(ToldDistinctId {
            project: PROJECT,
            distinct_no,
            distinct_id: id.to_owned(),
            person_no: person.map(|(no, _)| no),
            person_id: person.map_or_else(|| person_uuid(PROJECT, id), |(_, uuid)| uuid),
            position: 0,
        });
        distinct_no
    }

    pub fn row(
        &mut self,
        project: ProjectId,
        name: &str,
        id: &str,
        at: Timestamp,
        properties: Json,
        groups: [Option<String>; 5],
    ) -> EventRow {
        let position = self.rows.len() as u64 + self.ids.len() as u64 * 1_000_000;
        EventRow {
            project,
            uuid: Uuid::new_v5(&Uuid::nil(), format!("{position}{name}{at}{id}").as_bytes()),
            event: name.into(),
            distinct_id: id.into(),
            distinct_no: self.distinct_id(id, None),
            timestamp: at,
            created_at: at.plus_seconds(5),
            elements_chain: String::new(),
            groups,
            properties: properties.to_string(),
            position: 0,
            historical: false,
        }
    }

    pub fn append(&mut self, rows: Vec<EventRow>) {
        self.rows.extend(rows);
    }

    pub fn group(&mut self, index: usize, key: &str, properties: Json) {
        self.told.groups.push(ToldGroup {
            project: PROJECT,
            group_type: index as u8,
            key: key.to_owned(),
            created_at: time("2024-01-01T00:00:00Z"),
            is_deleted: false,
            properties: properties.to_string(),
            position: 0,
        });
    }

    pub fn cohort(&mut self, id: i64, name: &str, members: &[u32]) {
        let members = members.iter().copied().collect();
        self.cohorts
            .push((CohortId(id), CohortFacts { name: name.to_owned(), is_static: false, members }));
        self.project.cohorts.insert(CohortId(id), name.to_owned());
    }

    pub fn define(&mut self, name: &str, ty: PropertyType) {
        self.project.properties.insert((PropertyOwner::Event, name.to_owned()), ty);
    }
}

pub fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// The project in ClickHouse.
pub struct Written {
    /// Dropped last.
    _database: Database,
    pub schema: Schema,
    pub project: Project,
    context: PrintContext,
}

impl Written {
    /// None if there is no ClickHouse.
    pub fn new(mut store: Store) -> Option<Self> {
        let database = Database::new()?;
        let client = Client::new(Settings::from_url(&database.url).unwrap()).unwrap();
        let schema = Schema::open(client).unwrap();
        let clock = Clock::at(time("2024-01-04T00:00:00Z"));
        let writer =
            Writer::open(schema.clone(), 0, 7, WriterSettings::default(), clock.clone()).unwrap();
        let static_cohorts = store.cohorts.iter().filter(|(_, cohort)| cohort.is_static);
        let static_cohorts: BTreeSet<CohortId> = static_cohorts.map(|(id, _)| *id).collect();
        let calculated = store.cohorts.iter().filter(|(_, cohort)| !cohort.is_static);
        let context = PrintContext {
            now: clock.now(),
            week_starts_monday: false,
            cohorts: calculated.map(|(id, _)| (*id, VERSION)).collect(),
            static_cohorts,
        };
        for (cohort, facts) in &store.cohorts {
            let version = if facts.is_static { 0 } else { VERSION };
            for person_no in facts.members.iter() {
                let (project, cohort) = (PROJECT, *cohort);
                // An older version of a calculated cohort has other members.
                for (version, person_no) in [(version, person_no), (VERSION - 1, 0)] {
                    if version >= 0 && (!facts.is_static || version == 0) {
                        let (is_deleted, position) = (false, 0);
                        let member = ToldCohortMember {
                            project,
                            cohort,
                            version,
                            person_no,
                            is_deleted,
                            position,
                        };
                        store.told.cohort_members.push(member);
                    }
                }
            }
        }
        writer.tell(&store.told).unwrap();
        for (position, row) in (0..).zip(&mut store.rows) {
            row.position = position;
        }
        let rows: Vec<_> = store.rows.iter().map(|row| row.as_new().unwrap()).collect();
        writer.append(&rows, rows.len() as u64).unwrap();
        writer.flush().unwrap();
        Some(Self { _database: database, schema, project: store.project, context })
    }

    /// The rows of a statement, or why there are none.
    pub fn run(
        &self,
        text: &str,
        values: &PlaceholderValues,
        filters: Option<&Filters>,
    ) -> Result<Vec<Json>, String> {
        let plan = hogql::plan(text, values, &self.project, filters);
        let plan = plan.map_err(|error| format!("{error:?}"))?;
        let printed = print(&plan, &self.schema.promoted(), &self.context);
        let printed = printed.map_err(|error| error.to_string())?;
        let statement = printed.statement;
        let mut rows = Vec::new();
        let sql = statement.text.clone();
        let fault = |error: clickhouse::Error| format!("{error}\n{sql}");
        for batch in self.schema.client().select(&statement).map_err(fault)? {
            let batch = batch.map_err(fault)?;
            for row in 0..batch.num_rows() {
                let columns = batch.columns().iter().zip(&plan.root.columns);
                let values = columns.map(|(column, output)| {
                    let value = to_json(column.as_ref(), row);
                    if matches!(output.ty.kind, Kind::Map(_)) { object(&value) } else { value }
                });
                rows.push(values.collect::<Json>());
            }
        }
        rows.truncate(plan.page.limit as usize);
        Ok(rows)
    }
}

/// A map, which leaves ClickHouse as the list of its entries.
fn object(entries: &Json) -> Json {
    let entries = entries.as_array().unwrap().iter();
    let member = |entry: &Json| {
        let key = entry[0].as_str().map_or_else(|| entry[0].to_string(), str::to_owned);
        (key, entry[1].clone())
    };
    Json::Object(entries.map(member).collect())
}

fn to_json(array: &dyn Array, row: usize) -> Json {
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::UInt8 => json!(array.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt16 => json!(array.as_primitive::<UInt16Type>().value(row)),
        DataType::UInt32 => json!(array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => json!(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Int8 => json!(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => json!(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => json!(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => {
            let value = array.as_primitive::<Decimal128Type>().value(row) as f64;
            json!(value / 10f64.powi(i32::from(*scale)))
        }
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::FixedSizeBinary(16) => {
            let uuids = array.as_any().downcast_ref::<FixedSizeBinaryArray>().unwrap();
            json!(Uuid::from_slice(uuids.value(row)).unwrap())
        }
        DataType::Date32 => {
            let day = i64::from(array.as_primitive::<Date32Type>().value(row));
            let at = Timestamp::from_micros(day * 86_400_000_000).to_string();
            json!(at.split('T').next().unwrap())
        }
        DataType::Timestamp(..) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            json!(Timestamp::from_micros(micros).to_string())
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|at| to_json(items.as_ref(), at)).collect()
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|part| to_json(part.as_ref(), row)).collect()
        }
        other => panic!("a result has the type {other}"),
    }
}
