//! Tables as subqueries: the leaves that a select reads, and the joins that these need.

use hogql::plan::{Source, Step};
use hogql::tables::{LazyJoin, Table};
use model::ProjectId;

use super::selects::{Demand, Scope};
use super::{Printer, object_json, unsupported};
use crate::client::Parameter;
use crate::error::Result;
use crate::read::property_value;
use crate::schema::column_of;

/// A value that a select reads from a row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    via: Vec<LazyJoin>,
    name: &'static str,
    path: Vec<Step>,
    /// A time in UTC: what compares it can use the table's indexes.
    is_raw_time: bool,
}

impl Scope {
    /// The name of a leaf in the select.
    pub fn leaf(
        &mut self,
        source: usize,
        via: &[LazyJoin],
        name: &'static str,
        path: &[Step],
        is_raw_time: bool,
    ) -> String {
        let source = if self.is_merged { 0 } else { source };
        let leaf = Leaf { via: via.to_vec(), name, path: path.to_vec(), is_raw_time };
        let leaves = &mut self.leaves[source];
        let no = leaves.iter().position(|known| *known == leaf).unwrap_or_else(|| {
            leaves.push(leaf);
            leaves.len() - 1
        });
        format!("s{}_{source}.f{no}", self.id)
    }
}

/// The columns of events apart from those of properties.
const STORED_COLUMNS: &[&str] = &[
    "uuid",
    "event",
    "distinct_no",
    "distinct_id",
    "timestamp",
    "created_at",
    "position",
    "historical",
    "elements_chain",
    "group_0",
    "group_1",
    "group_2",
    "group_3",
    "group_4",
    "rest",
];

/// How long before an event a person must exist for the event's `force_upgrade` mode.
const FORCE_UPGRADE_SECONDS: u32 = 60;

/// The joins of one source, each once.
#[derive(Default)]
struct Joins {
    ids: bool,
    persons: bool,
    groups: Vec<u8>,
    /// What is aggregated of each session; joined if it is there.
    sessions: Option<Vec<String>>,
}

impl Printer<'_> {
    pub fn source(&mut self, scope: &Scope, no: usize, source: &Source) -> Result<String> {
        match source {
            Source::Table(table, project) => self.table(*table, *project, &scope.leaves[no]),
            Source::Numbers { start, count } => {
                Ok(format!("SELECT number AS c0 FROM numbers({start}, {count})"))
            }
            Source::Query(relation) => self.relation(relation, Demand::Columns(&scope.outputs[no])),
            Source::Cte(cte) => Ok(format!("SELECT * FROM cte{cte}")),
        }
    }

    fn table(&mut self, table: Table, project: ProjectId, leaves: &[Leaf]) -> Result<String> {
        self.table_with(table, project, leaves, Vec::new())
    }

    /// Events with all of their stored columns, and these leaves.
    pub fn whole_events(&mut self, project: ProjectId, leaves: &[Leaf]) -> Result<String> {
        let own = STORED_COLUMNS.iter().map(|name| format!("e.{name} AS {name}"));
        let promoted = self.promoted.iter().map(|name| column_of(name));
        let promoted = promoted.map(|column| format!("e.{column} AS {column}"));
        let columns = own.chain(promoted).collect();
        self.table_with(Table::Events, project, leaves, columns)
    }

    fn table_with(
        &mut self,
        table: Table,
        project: ProjectId,
        leaves: &[Leaf],
        mut columns: Vec<String>,
    ) -> Result<String> {
        let project = self.parameters.add(Parameter::Int(project.0));
        let mut joins = Joins::default();
        for (no, leaf) in leaves.iter().enumerate() {
            let value = match table {
                Table::Events => self.of_event(leaf, &mut joins, &project)?,
                Table::Persons => self.of_person_table(leaf, &project)?,
                Table::PersonDistinctIds => match leaf.name {
                    "distinct_id" if leaf.via.is_empty() => "d.distinct_id".to_owned(),
                    _ => self.of_person(leaf, &mut joins, &project)?,
                },
                Table::CohortPeople | Table::StaticCohortPeople => match leaf.name {
                    "cohort_id" if leaf.via.is_empty() => "m.cohort_id".to_owned(),
                    _ => self.of_person(leaf, &mut joins, &project)?,
                },
                Table::Groups => self.of_group(leaf, "g", &project)?,
                Table::Sessions => self.of_session(leaf, &mut joins, &project)?,
            };
            columns.push(format!("{value} AS f{no}"));
        }
        if columns.is_empty() {
            columns.push("1 AS nothing".to_owned());
        }
        let columns = columns.join(", ");
        let from = match table {
            Table::Events => self.events(joins, &project),
            Table::Persons => {
                format!("persons AS p FINAL WHERE p.project_id = {project} AND NOT p.is_deleted")
            }
            Table::PersonDistinctIds => format!(
                "(SELECT * FROM distinct_ids FINAL WHERE project_id = {project} AND has_person) \
                 AS d INNER JOIN {} ON p.person_no = d.person_no",
                persons(&project)
            ),
            Table::CohortPeople => {
                let cohorts = self.context.cohorts.clone();
                let mut versions: Vec<_> = cohorts.into_iter().collect();
                versions.sort_unstable();
                let ids: Vec<i64> = versions.iter().map(|(id, _)| id.0).collect();
                let versions: Vec<i64> = versions.iter().map(|(_, version)| *version).collect();
                let ids = self.parameters.add(Parameter::Ints(&ids));
                let versions = self.parameters.add(Parameter::Ints(&versions));
                members(
                    &project,
                    &format!("has(arrayZip({ids}, {versions}), (cohort_id, version))"),
                )
            }
            Table::StaticCohortPeople => {
                let ids: Vec<i64> = self.context.static_cohorts.iter().map(|id| id.0).collect();
                let ids = self.parameters.add(Parameter::Ints(&ids));
                members(&project, &format!("has({ids}, cohort_id)"))
            }
            Table::Groups => {
                format!("groups AS g FINAL WHERE g.project_id = {project} AND NOT g.is_deleted")
            }
            Table::Sessions => self.sessions(&joins.sessions.unwrap_or_default(), &project),
        };
        Ok(format!("SELECT {columns} FROM {from}"))
    }

    fn events(&mut self, joins: Joins, project: &str) -> String {
        let copies = if self.reads_copies { "" } else { " FINAL" };
        let mut from = format!("events AS e{copies}");
        if joins.ids || joins.persons {
            from.push_str(&format!(
                " LEFT ANY JOIN (SELECT distinct_no, has_person, person_no, person_id FROM \
                 distinct_ids FINAL WHERE project_id = {project}) AS d ON d.distinct_no = \
                 e.distinct_no"
            ));
        }
        if joins.persons {
            // An id without a person has no number that a person could have.
            from.push_str(&format!(
                " LEFT ANY JOIN {} ON p.person_no = if(d.has_person, d.person_no, NULL)",
                persons(project)
            ));
        }
        for index in &joins.groups {
            from.push_str(&format!(
                " LEFT ANY JOIN (SELECT * FROM groups FINAL WHERE project_id = {project} AND type = \
                 {index} AND NOT is_deleted) AS g{index} ON g{index}.key = e.group_{index}"
            ));
        }
        if let Some(values) = &joins.sessions {
            let (id, sessions) =
                (self.event_property("$session_id"), self.sessions(values, project));
            from.push_str(&format!(
                " LEFT ANY JOIN {sessions} ON z.session_id = nullIf(substring({id}, 2), '')"
            ));
        }
        format!("{from} WHERE e.project_id = {project}")
    }

    fn of_event(&mut self, leaf: &Leaf, joins: &mut Joins, project: &str) -> Result<String> {
        let via: Vec<LazyJoin> =
            leaf.via.iter().copied().filter(|link| *link != LazyJoin::DistinctId).collect();
        match (&via[..], leaf.name, &leaf.path[..]) {
            ([], "person_id", _) | ([LazyJoin::Person], "id", []) => {
                joins.ids = true;
                Ok("assumeNotNull(d.person_id)".to_owned())
            }
            ([LazyJoin::Person], ..) => {
                let leaf = Leaf { via: Vec::new(), ..leaf.clone() };
                self.of_person(&leaf, joins, project)
            }
            ([LazyJoin::Session], ..) => self.of_session(leaf, joins, project),
            ([LazyJoin::Group(index)], ..) => {
                if !joins.groups.contains(index) {
                    joins.groups.push(*index);
                }
                self.of_group(leaf, &format!("g{index}"), project)
            }
            ([], "properties", [Step::Key(name), within @ ..]) => {
                let value = self.event_property(name);
                self.property(&value, within)
            }
            ([], "properties", []) => {
                let columns = self.promoted.iter().map(|name| (name.as_str(), column_of(name)));
                let columns: Vec<(&str, String)> = columns.collect();
                Ok(object_json::of_event(&columns, &mut self.parameters))
            }
            ([], name @ ("$session_id" | "$window_id"), _) => {
                let value = self.event_property(name);
                self.property(&value, &[])
            }
            ([], name @ ("timestamp" | "created_at"), _) if leaf.is_raw_time => {
                Ok(format!("e.{name}"))
            }
            ([], name @ ("timestamp" | "created_at"), _) => {
                let zone = self.zone();
                Ok(format!("toTimeZone(e.{name}, {zone})"))
            }
            ([], name @ ("uuid" | "distinct_id" | "elements_chain"), _) => Ok(format!("e.{name}")),
            ([], "event", _) => Ok("toString(e.event)".to_owned()),
            ([], "team_id", _) => Ok(project.to_owned()),
            ([], "person_mode", _) => {
                joins.ids = true;
                joins.persons = true;
                let sent = "$process_person_profile";
                let sent = self.event_property(sent);
                Ok(format!(
                    "multiIf({sent} != 'bfalse', 'full', ifNull(e.timestamp > p.created_at + \
                     toIntervalSecond({FORCE_UPGRADE_SECONDS}), false), 'force_upgrade', \
                     'propertyless')"
                ))
            }
            ([], name, _) => match name.strip_prefix("$group_") {
                Some(index @ ("0" | "1" | "2" | "3" | "4")) => Ok(format!("e.group_{index}")),
                _ => Err(unsupported(format!("the field {name} of events"))),
            },
            _ => Err(unsupported(format!("the field {} behind a join", leaf.name))),
        }
    }

    /// The encoded value of a property of the event `e`.
    fn event_property(&mut self, name: &str) -> String {
        format!("e.{}", property_value(self.promoted, name, &mut self.parameters))
    }

    fn of_session(&mut self, leaf: &Leaf, joins: &mut Joins, project: &str) -> Result<String> {
        let values = joins.sessions.get_or_insert_default();
        match leaf.name {
            "session_id" => return Ok("z.session_id".to_owned()),
            "team_id" => return Ok(project.to_owned()),
            _ => {}
        }
        let no = values.len();
        let value = self.session_value(leaf.name)?;
        joins.sessions.get_or_insert_default().push(value);
        Ok(format!("z.x{no}"))
    }

    /// A field of the person that a row belongs to, which `d` or `m` names and `p` is.
    fn of_person(&mut self, leaf: &Leaf, joins: &mut Joins, project: &str) -> Result<String> {
        if !leaf.via.iter().all(|link| *link == LazyJoin::Person) {
            return Err(unsupported(format!("the field {} behind a join", leaf.name)));
        }
        joins.ids = true;
        joins.persons = true;
        let leaf = Leaf { via: Vec::new(), ..leaf.clone() };
        self.of_person_table(&leaf, project)
    }

    fn of_person_table(&mut self, leaf: &Leaf, project: &str) -> Result<String> {
        if !leaf.via.is_empty() {
            return Err(unsupported(format!("the field {} behind a join", leaf.name)));
        }
        match (leaf.name, &leaf.path[..]) {
            ("id" | "person_id", _) => Ok("p.person_id".to_owned()),
            ("properties", [Step::Key(name), within @ ..]) => {
                let name = self.string(name);
                self.property(&format!("p.properties[{name}]"), within)
            }
            ("properties", []) => Ok(format!(
                "if(isNull(p.person_id), NULL, {})",
                object_json::of_map("p.properties")
            )),
            ("created_at", _) => {
                let zone = self.zone();
                Ok(format!("toTimeZone(p.created_at, {zone})"))
            }
            ("is_identified", _) => Ok("p.is_identified".to_owned()),
            ("last_seen_at", _) => Ok("CAST(NULL AS Nullable(DateTime64(6, 'UTC')))".to_owned()),
            ("team_id", _) => Ok(project.to_owned()),
            (name, _) => Err(unsupported(format!("the field {name} of persons"))),
        }
    }

    fn of_group(&mut self, leaf: &Leaf, group: &str, project: &str) -> Result<String> {
        match (leaf.name, &leaf.path[..]) {
            ("index", _) => Ok(format!("toInt64({group}.type)")),
            ("key", _) => Ok(format!("{group}.key")),
            ("created_at" | "updated_at", _) => {
                let zone = self.zone();
                Ok(format!("toTimeZone({group}.created_at, {zone})"))
            }
            ("properties", [Step::Key(name), within @ ..]) => {
                let name = self.string(name);
                self.property(&format!("{group}.properties[{name}]"), within)
            }
            ("properties", []) => {
                let json = object_json::of_map(&format!("{group}.properties"));
                Ok(format!("if(isNull({group}.key), NULL, {json})"))
            }
            ("team_id", _) => Ok(project.to_owned()),
            (name, _) => Err(unsupported(format!("the field {name} of groups"))),
        }
    }

    /// The text of an encoded value, or of what is at a path within it.
    fn property(&mut self, encoded: &str, within: &[Step]) -> Result<String> {
        // A substring counts bytes, and the tag is one.
        let text = format!("substring({encoded}, 2)");
        if within.is_empty() {
            return Ok(format!("nullIf({text}, '')"));
        }
        if let [Step::JsonType] = within {
            return Ok(format!(
                "multiIf({encoded} IN ('', 'z'), NULL, startsWith({encoded}, 't'), 'String', \
                 startsWith({encoded}, 'b'), 'Bool', toString(JSONType({text})))"
            ));
        }
        let json = format!("if(startsWith({encoded}, 'j'), {text}, '')");
        self.json_at(&json, within)
    }

    /// The text at a path of JSON, without quotes; null where there is none.
    pub fn json_at(&mut self, json: &str, path: &[Step]) -> Result<String> {
        let mut steps = String::new();
        for step in path {
            match step {
                Step::Key(key) => steps.push_str(&format!(", {}", self.string(key))),
                Step::Index(index) => steps.push_str(&format!(", {index}")),
                Step::JsonType => return Err(unsupported("the type of a nested property")),
            }
        }
        Ok(format!(
            "multiIf(JSONExtractRaw({json}{steps}) IN ('', 'null'), NULL, \
             startsWith(JSONExtractRaw({json}{steps}), '\"'), \
             nullIf(JSONExtractString({json}{steps}), ''), JSONExtractRaw({json}{steps}))"
        ))
    }
}

fn persons(project: &str) -> String {
    format!("(SELECT * FROM persons FINAL WHERE project_id = {project} AND NOT is_deleted) AS p")
}

fn members(project: &str, condition: &str) -> String {
    format!(
        "(SELECT * FROM cohort_members FINAL WHERE project_id = {project} AND NOT is_deleted AND \
         {condition}) AS m INNER JOIN {} ON p.person_no = m.person_no",
        persons(project)
    )
}
