//! The feed of what queries join to events: persons, distinct ids, groups and members of cohorts. Each
//! row says what is so since a journal position, members of cohorts since a change of the feed; telling
//! it again changes nothing, and of two rows of one thing the later position counts.
//!
//! How far the feed was told is stored as the position of a lane of its own.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, Int64Array, StringArray,
    TimestampMicrosecondArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow::error::ArrowError;
use model::{CohortId, ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{StoredPosition, for_each_json_member};

use super::block::{keep_last, map_builder, record_batch};
use super::insert_row;
use super::lane::{Lane, stored_position};
use super::writer::Writer;
use crate::client::{Deduplication, Parameter, Parameters, Statement};
use crate::error::{Error, Result};
use crate::schema::column;
use crate::values::encode;

/// The lane whose position is the last change that ClickHouse was told.
const FEED_LANE: u16 = u16::MAX;
/// Rows of one insert.
const ROWS_PER_INSERT: usize = 20_000;

/// What changed.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub distinct_ids: Vec<ToldDistinctId>,
    pub persons: Vec<ToldPerson>,
    pub groups: Vec<ToldGroup>,
    pub cohort_members: Vec<ToldCohortMember>,
}

#[derive(Clone, Debug)]
pub struct ToldDistinctId {
    pub project: ProjectId,
    pub distinct_no: u32,
    pub distinct_id: String,
    /// None while the id has no person.
    pub person_no: Option<u32>,
    /// Of the person, or `model::person::person_uuid` of the id. A person whose uuid changes brings
    /// its distinct ids again.
    pub person_id: Uuid,
    pub position: u64,
}

#[derive(Clone, Debug)]
pub struct ToldPerson {
    pub project: ProjectId,
    pub person_no: u32,
    pub person_id: Uuid,
    pub created_at: Timestamp,
    pub is_identified: bool,
    pub is_deleted: bool,
    /// A JSON object.
    pub properties: String,
    pub position: u64,
}

#[derive(Clone, Debug)]
pub struct ToldGroup {
    pub project: ProjectId,
    pub group_type: u8,
    pub key: String,
    pub created_at: Timestamp,
    pub is_deleted: bool,
    /// A JSON object.
    pub properties: String,
    pub position: u64,
}

#[derive(Clone, Debug)]
pub struct ToldCohortMember {
    pub project: ProjectId,
    pub cohort: CohortId,
    pub version: i64,
    pub person_no: u32,
    pub is_deleted: bool,
    pub position: u64,
}

type Columns = Vec<(String, ArrayRef)>;

impl Writer {
    /// Makes persons, distinct ids, groups and members of cohorts known. Told before the events that
    /// need them are appended.
    pub fn tell(&self, told: &Told) -> Result<()> {
        self.tell_rows("distinct_ids", &told.distinct_ids, distinct_ids)?;
        self.tell_rows("persons", &told.persons, persons)?;
        self.tell_rows("groups", &told.groups, groups)?;
        self.tell_rows("cohort_members", &told.cohort_members, cohort_members)
    }

    /// The last change of the feed that ClickHouse knows; none if it was never told that it is whole.
    pub fn told(&self) -> Result<Option<u64>> {
        let stored = stored_position(self.client(), FEED_LANE)?;
        let is_ours = |stored: &StoredPosition| stored.journal == self.journal();
        Ok(stored.filter(is_ours).map(|stored| stored.position))
    }

    /// Stores that ClickHouse knows all changes of the feed up to this one.
    pub fn set_told(&self, change: u64) -> Result<()> {
        let (lane, _) = Lane::open(self.client(), FEED_LANE, self.journal())?;
        lane.reach(self.client(), change)
    }

    /// As [`Writer::set_told`], after everything was told anew: changes may have lower numbers than
    /// before.
    pub fn set_told_anew(&self, change: u64) -> Result<()> {
        let lane = Lane::next_generation(self.client(), FEED_LANE, self.journal())?;
        lane.reach(self.client(), change)
    }

    /// Persons and groups that were last told before this position do not exist any more.
    pub fn drop_untold(&self, before: u64) -> Result<()> {
        for (table, columns) in [
            ("persons", "project_id, person_no, person_id, created_at, is_identified, properties"),
            ("groups", "project_id, type, key, created_at, properties"),
        ] {
            let mut parameters = Parameters::default();
            let before = parameters.add(Parameter::UInt(before));
            let text = format!(
                "INSERT INTO {table} ({columns}, is_deleted, position) SELECT {columns}, true, \
                 {before} FROM {table} FINAL WHERE NOT is_deleted AND position < {before}"
            );
            insert_row(self.client(), text, parameters)?;
        }
        Ok(())
    }

    /// Members of a version of a cohort that were last told before this change are none any more.
    pub fn drop_members(
        &self,
        project: ProjectId,
        (cohort, version): (CohortId, i64),
        before: u64,
    ) -> Result<()> {
        let mut parameters = Parameters::default();
        let [project, cohort, version] =
            [project.0, cohort.0, version].map(|number| parameters.add(Parameter::Int(number)));
        let before = parameters.add(Parameter::UInt(before));
        let text = format!(
            "INSERT INTO cohort_members (project_id, cohort_id, version, person_no, is_deleted, \
             position) SELECT project_id, cohort_id, version, person_no, true, {before} \
             FROM cohort_members FINAL WHERE project_id = {project} AND cohort_id = {cohort} AND \
             version = {version} AND NOT is_deleted AND position < {before}"
        );
        insert_row(self.client(), text, parameters)
    }

    /// Deletes the members of a cohort's calculations before this one.
    pub fn drop_versions(&self, project: ProjectId, cohort: CohortId, before: i64) -> Result<()> {
        let mut parameters = Parameters::default();
        let [project, cohort, before] =
            [project.0, cohort.0, before].map(|number| parameters.add(Parameter::Int(number)));
        let old = format!("project_id = {project} AND cohort_id = {cohort} AND version < {before}");
        let text = format!("SELECT count() FROM cohort_members WHERE {old}");
        let mut found = 0;
        for batch in self.client().select(&Statement::new(text, parameters.clone()))? {
            found += column::<UInt64Array>(self.client(), &batch?, 0)?.values().iter().sum::<u64>();
        }
        if found == 0 {
            return Ok(());
        }
        let on_cluster = self.client().on_cluster();
        let text = format!("DELETE FROM cohort_members{on_cluster} WHERE {old}");
        self.client().execute(&Statement::new(text, parameters))
    }

    fn tell_rows<T>(
        &self,
        table: &'static str,
        rows: &[T],
        columns: fn(&[T]) -> Result<Columns, ArrowError>,
    ) -> Result<()> {
        for rows in rows.chunks(ROWS_PER_INSERT) {
            let batch = columns(rows).and_then(record_batch);
            let batch = batch.map_err(|why| Error::Protocol {
                server: self.client().settings().server.clone(),
                why: format!("rows of {table} cannot be encoded: {why}"),
            })?;
            let encoded = self.client().encode(&batch)?;
            self.client().insert(table, &encoded, Deduplication::None)?;
        }
        Ok(())
    }
}

fn distinct_ids(rows: &[ToldDistinctId]) -> Result<Columns, ArrowError> {
    let has_person: Vec<bool> = rows.iter().map(|row| row.person_no.is_some()).collect();
    let person_nos = rows.iter().map(|row| row.person_no.unwrap_or_default());
    Ok(vec![
        ("project_id".to_owned(), projects(rows.iter().map(|row| row.project))),
        (
            "distinct_no".to_owned(),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.distinct_no))),
        ),
        (
            "distinct_id".to_owned(),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.distinct_id))),
        ),
        ("has_person".to_owned(), Arc::new(BooleanArray::from(has_person))),
        ("person_no".to_owned(), Arc::new(UInt32Array::from_iter_values(person_nos))),
        ("person_id".to_owned(), uuids(rows.iter().map(|row| row.person_id))?),
        ("position".to_owned(), positions(rows.iter().map(|row| row.position))),
    ])
}

fn persons(rows: &[ToldPerson]) -> Result<Columns, ArrowError> {
    let is_identified: Vec<bool> = rows.iter().map(|row| row.is_identified).collect();
    let is_deleted: Vec<bool> = rows.iter().map(|row| row.is_deleted).collect();
    Ok(vec![
        ("project_id".to_owned(), projects(rows.iter().map(|row| row.project))),
        (
            "person_no".to_owned(),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.person_no))),
        ),
        ("person_id".to_owned(), uuids(rows.iter().map(|row| row.person_id))?),
        ("created_at".to_owned(), timestamps(rows.iter().map(|row| row.created_at))),
        ("is_identified".to_owned(), Arc::new(BooleanArray::from(is_identified))),
        ("is_deleted".to_owned(), Arc::new(BooleanArray::from(is_deleted))),
        ("properties".to_owned(), maps(rows.iter().map(|row| row.properties.as_str()))?),
        ("position".to_owned(), positions(rows.iter().map(|row| row.position))),
    ])
}

fn groups(rows: &[ToldGroup]) -> Result<Columns, ArrowError> {
    let is_deleted: Vec<bool> = rows.iter().map(|row| row.is_deleted).collect();
    Ok(vec![
        ("project_id".to_owned(), projects(rows.iter().map(|row| row.project))),
        (
            "type".to_owned(),
            Arc::new(UInt8Array::from_iter_values(rows.iter().map(|row| row.group_type))),
        ),
        (
            "key".to_owned(),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.key))),
        ),
        ("created_at".to_owned(), timestamps(rows.iter().map(|row| row.created_at))),
        ("is_deleted".to_owned(), Arc::new(BooleanArray::from(is_deleted))),
        ("properties".to_owned(), maps(rows.iter().map(|row| row.properties.as_str()))?),
        ("position".to_owned(), positions(rows.iter().map(|row| row.position))),
    ])
}

fn cohort_members(rows: &[ToldCohortMember]) -> Result<Columns, ArrowError> {
    let is_deleted: Vec<bool> = rows.iter().map(|row| row.is_deleted).collect();
    Ok(vec![
        ("project_id".to_owned(), projects(rows.iter().map(|row| row.project))),
        (
            "cohort_id".to_owned(),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.cohort.0))),
        ),
        (
            "version".to_owned(),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.version))),
        ),
        (
            "person_no".to_owned(),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.person_no))),
        ),
        ("is_deleted".to_owned(), Arc::new(BooleanArray::from(is_deleted))),
        ("position".to_owned(), positions(rows.iter().map(|row| row.position))),
    ])
}

fn projects(ids: impl Iterator<Item = ProjectId>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(ids.map(|id| id.0)))
}

fn positions(positions: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(positions))
}

fn timestamps(times: impl Iterator<Item = Timestamp>) -> ArrayRef {
    let times = TimestampMicrosecondArray::from_iter_values(times.map(Timestamp::as_micros));
    Arc::new(times.with_timezone("UTC"))
}

fn uuids(uuids: impl Iterator<Item = Uuid>) -> Result<ArrayRef, ArrowError> {
    let bytes = uuids.map(Uuid::into_bytes);
    Ok(Arc::new(FixedSizeBinaryArray::try_from_iter(bytes)?))
}

/// What is no JSON object has the properties before the fault.
fn maps<'j>(objects: impl Iterator<Item = &'j str>) -> Result<ArrayRef, ArrowError> {
    let mut maps = map_builder();
    for object in objects {
        let mut members = Vec::new();
        let read = for_each_json_member(object, |name, value| {
            let mut encoded = String::new();
            encode(value, &mut encoded);
            members.push((name.to_owned(), encoded));
        });
        if let Err(why) = read {
            tracing::warn!(error = ?why, "properties are no JSON object");
        }
        keep_last(&mut members);
        for (name, value) in members {
            maps.keys().append_value(name);
            maps.values().append_value(value);
        }
        maps.append(true)?;
    }
    Ok(Arc::new(maps.finish()))
}
