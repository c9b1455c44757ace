//! Scans of the tables in memory: persons, distinct ids, groups, cohorts and sessions.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::DataType;
use datafusion_physical_plan::ExecutionPlan;
use facts::ReadView;
use hogql::tables::{LazyJoin, Table};
use warehouse::GROUP_TYPES;

use super::dictionary_strings::property;
use super::persons::{PersonField, TIMESTAMP};
use super::{Column, in_memory_table, unsupported};
use crate::error::Result;
use crate::lower::Lowering;
use crate::lower::leaves::Field;

/// A column of rows that each belong to a person.
struct PersonColumn {
    view: Arc<ReadView>,
    field: PersonField,
    actors: Arc<Vec<u32>>,
}

impl Column for PersonColumn {
    fn ty(&self) -> DataType {
        self.field.ty()
    }

    fn rows(&self, range: Range<usize>) -> Result<ArrayRef> {
        self.field.rows(&self.view, &self.actors[range])
    }
}

/// Dictionary-encoded strings are decoded: operators count a dictionary's memory for each batch.
struct ArrayColumn(ArrayRef);

impl Column for ArrayColumn {
    fn ty(&self) -> DataType {
        match self.0.data_type() {
            DataType::Dictionary(_, values) => (**values).clone(),
            ty => ty.clone(),
        }
    }

    fn rows(&self, range: Range<usize>) -> Result<ArrayRef> {
        if let Some(coded) = self.0.as_any_dictionary_opt() {
            let keys = coded.keys().slice(range.start, range.len());
            return Ok(arrow::compute::take(coded.values(), &keys, None)?);
        }
        // A copy: the memory of a slice is measured as that of the whole array.
        let rows = range.start as u64..range.end as u64;
        let rows = arrow::array::UInt64Array::from_iter_values(rows);
        Ok(arrow::compute::take(&self.0, &rows, None)?)
    }
}

impl Lowering {
    pub(super) fn memory_table(
        &self,
        table: Table,
        fields: Vec<Field>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match table {
            Table::Persons => self.persons(fields),
            Table::PersonDistinctIds => {
                let ids = self.view.persons.distinct_ids();
                let ids = ids.filter(|(_, _, actor)| self.view.persons.person(*actor).is_some());
                let (texts, actors) = ids.map(|(_, text, actor)| (text, actor)).unzip();
                self.person_rows(fields, &[LazyJoin::Person], actors, texts, None)
            }
            Table::CohortPeople | Table::StaticCohortPeople => {
                let is_static = table == Table::StaticCohortPeople;
                let (mut actors, mut cohorts) = (Vec::new(), Vec::new());
                for (id, cohort) in self.view.cohorts.iter() {
                    if cohort.is_static == is_static {
                        let members = cohort.members.iter();
                        let persons = members.filter(|no| self.view.persons.person(*no).is_some());
                        actors.extend(persons);
                        cohorts.resize(actors.len(), id.0);
                    }
                }
                self.person_rows(fields, &[LazyJoin::Person], actors, Vec::new(), Some(cohorts))
            }
            Table::Groups => self.groups(fields),
            Table::Sessions | Table::Events => self.session_table(fields),
        }
    }

    fn persons(&self, fields: Vec<Field>) -> Result<Arc<dyn ExecutionPlan>> {
        let persons = self.view.persons.iter().map(|(no, _)| no);
        if !fields.iter().any(|field| field.via.contains(&LazyJoin::DistinctId)) {
            return self.person_rows(fields, &[], persons.collect(), Vec::new(), None);
        }
        // A row for each distinct id.
        let mut ids: HashMap<u32, Vec<&str>> = HashMap::new();
        for (_, text, actor) in self.view.persons.distinct_ids() {
            ids.entry(actor).or_default().push(text);
        }
        let (mut actors, mut texts) = (Vec::new(), Vec::new());
        for person in persons {
            for id in ids.get(&person).into_iter().flatten() {
                actors.push(person);
                texts.push(*id);
            }
        }
        self.person_rows(fields, &[LazyJoin::DistinctId, LazyJoin::Person], actors, texts, None)
    }

    /// A table with a row for each of `actors`. `links` are the lazy joins that lead back to the row's
    /// own person or distinct id, and need no lookup.
    fn person_rows(
        &self,
        fields: Vec<Field>,
        links: &[LazyJoin],
        actors: Vec<u32>,
        texts: Vec<&str>,
        cohorts: Option<Vec<i64>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = actors.len();
        let actors = Arc::new(actors);
        let columns = fields.iter().map(|field| -> Result<Box<dyn Column>> {
            if !field.via.iter().all(|link| links.contains(link)) {
                return Err(unsupported(field));
            }
            match field.name {
                "distinct_id" => {
                    let texts = StringArray::from_iter_values(texts.iter());
                    return Ok(Box::new(ArrayColumn(Arc::new(texts))));
                }
                "cohort_id" => {
                    let cohorts = Int64Array::from(cohorts.clone().unwrap_or_default());
                    return Ok(Box::new(ArrayColumn(Arc::new(cohorts))));
                }
                _ => {}
            }
            let field = PersonField::new(field, &self.view).ok_or_else(|| unsupported(field))?;
            let (view, actors) = (self.view.clone(), actors.clone());
            Ok(Box::new(PersonColumn { view, field, actors }))
        });
        Ok(in_memory_table(columns.collect::<Result<_>>()?, rows))
    }

    fn groups(&self, fields: Vec<Field>) -> Result<Arc<dyn ExecutionPlan>> {
        let groups = &self.view.groups;
        let all = (0..GROUP_TYPES)
            .flat_map(|index| groups.of_type(index).map(move |group| (index, group)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(index, group)| (*index, group.key()));
        let columns = fields.iter().map(|field| -> Result<Box<dyn Column>> {
            let all = all.iter();
            let array: ArrayRef = match (field.name, &field.path[..]) {
                _ if !field.via.is_empty() => return Err(unsupported(field)),
                ("properties", path @ [_, ..]) => {
                    let texts = all.map(|(_, group)| property(group, path));
                    Arc::new(texts.collect::<StringArray>())
                }
                ("properties", []) => {
                    let texts = all.map(|(_, group)| object(&group.properties()));
                    Arc::new(StringArray::from_iter_values(texts))
                }
                ("index", _) => {
                    Arc::new(Int64Array::from_iter_values(all.map(|(index, _)| *index as i64)))
                }
                ("key", _) => {
                    Arc::new(StringArray::from_iter_values(all.map(|(_, group)| group.key())))
                }
                // Groups have no update time.
                ("created_at" | "updated_at", _) => {
                    let times = all.map(|(_, group)| group.created_at().as_micros());
                    Arc::new(TimestampMicrosecondArray::from_iter_values(times))
                }
                ("team_id", _) => {
                    Arc::new(Int64Array::from(vec![self.view.context.project.0; all.len()]))
                }
                _ => return Err(unsupported(field)),
            };
            debug_assert!(field.name != "created_at" || *array.data_type() == TIMESTAMP);
            Ok(Box::new(ArrayColumn(array)))
        });
        Ok(in_memory_table(columns.collect::<Result<_>>()?, all.len()))
    }

    fn session_table(&self, fields: Vec<Field>) -> Result<Arc<dyn ExecutionPlan>> {
        let sessions = self.sessions()?;
        let columns = fields.iter().map(|field| -> Result<Box<dyn Column>> {
            match sessions.column(field.name, &self.view)? {
                Some(array) if field.via.is_empty() => Ok(Box::new(ArrayColumn(array))),
                _ => Err(unsupported(field)),
            }
        });
        Ok(in_memory_table(columns.collect::<Result<_>>()?, sessions.rows()))
    }
}

pub(super) fn object(properties: &serde_json::Map<String, serde_json::Value>) -> String {
    serde_json::to_string(properties).unwrap_or_default()
}
