//! `system`: tables of the project's objects, and `system.information_schema`, whose rows describe the
//! tables, columns and joins.
//!
//! A statement that reads one is rewritten before its names are resolved: the table becomes a subquery
//! over its rows, which are a constant.

use std::borrow::Cow;
use std::convert::Infallible;

use serde_json::{Value as Json, json};

use crate::ast::{Body, Expr, ExprKind, Name, Query, Source, SourceKind};
use crate::build::{literal, name};
use crate::resolve::Project;
use crate::tables::Table;
use crate::template::statement;
use crate::types::{Kind, Type};
use crate::visit::{exprs_of_expr, exprs_of_query, sources_of_query, table_names};

#[derive(Clone, Copy, Debug)]
pub struct SystemTable {
    pub name: &'static str,
    pub description: &'static str,
    pub columns: &'static [(&'static str, SystemColumn)],
    rows: Rows,
}

/// Where the rows of a system table come from.
#[derive(Clone, Copy, Debug)]
enum Rows {
    /// From the schema.
    Schema(fn(&Project) -> Vec<Json>),
    /// Objects of this kind, by the name of its scope. Whoever runs the statement provides them
    /// ([`Project::objects`]).
    Objects(&'static str),
}

impl SystemTable {
    /// The kind of object that the rows are; none for a table of the schema.
    pub fn object(&self) -> Option<&'static str> {
        match self.rows {
            Rows::Objects(object) => Some(object),
            Rows::Schema(_) => None,
        }
    }

    fn rows(&self, project: &Project) -> Option<Vec<Json>> {
        match self.rows {
            Rows::Schema(rows) => Some(rows(project)),
            Rows::Objects(_) => project.objects.get(self.name).cloned(),
        }
    }
}

const fn objects(
    name: &'static str,
    object: &'static str,
    description: &'static str,
    columns: &'static [(&'static str, SystemColumn)],
) -> SystemTable {
    SystemTable { name, description, columns, rows: Rows::Objects(object) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemColumn {
    String,
    NullableString,
    Int,
    NullableInt,
    NullableFloat,
    Bool,
    /// 0 or 1.
    Flag,
    Json,
    Time,
}

use SystemColumn::{
    Bool, Flag, Int, Json as Object, NullableFloat, NullableInt, NullableString, String as Text,
    Time,
};

pub const SYSTEM_TABLES: &[SystemTable] = &[
    objects(
        "system.actions",
        "action",
        "Actions",
        &[
            ("id", Int),
            ("team_id", Int),
            ("name", Text),
            ("description", Text),
            ("deleted", Flag),
            ("created_at", Time),
            ("updated_at", Time),
            ("steps_json", Object),
        ],
    ),
    objects(
        "system.annotations",
        "annotation",
        "Notes on charts",
        &[
            ("id", Int),
            ("team_id", Int),
            ("content", NullableString),
            ("scope", Text),
            ("creation_type", Text),
            ("date_marker", Time),
            ("deleted", Flag),
            ("dashboard_item_id", NullableInt),
            ("dashboard_id", NullableInt),
            ("created_by_id", NullableInt),
            ("created_at", Time),
            ("updated_at", Time),
        ],
    ),
    objects(
        "system.cohorts",
        "cohort",
        "Cohorts",
        &[
            ("id", Int),
            ("team_id", Int),
            ("name", Text),
            ("description", Text),
            ("deleted", Flag),
            ("filters", Object),
            ("groups", Object),
            ("query", Object),
            ("created_at", Time),
            ("last_calculation", Time),
            ("version", NullableInt),
            ("count", NullableInt),
            ("is_static", Flag),
            ("cohort_type", NullableString),
        ],
    ),
    objects(
        "system.dashboards",
        "dashboard",
        "Dashboards",
        &[
            ("id", Int),
            ("team_id", Int),
            ("name", Text),
            ("description", Text),
            ("created_at", Time),
            ("deleted", Flag),
            ("pinned", Flag),
            ("created_by_id", NullableInt),
            ("last_accessed_at", Time),
        ],
    ),
    objects(
        "system.dashboard_tiles",
        "insight",
        "Tiles that show an insight",
        &[
            ("id", Int),
            ("team_id", Int),
            ("dashboard_id", Int),
            ("insight_id", NullableInt),
            ("deleted", Flag),
        ],
    ),
    objects(
        "system.feature_flags",
        "feature_flag",
        "Feature flags",
        &[
            ("id", Int),
            ("team_id", Int),
            ("key", Text),
            ("name", Text),
            ("filters", Object),
            ("rollout_percentage", NullableFloat),
            ("active", Flag),
            ("created_at", Time),
            ("updated_at", Time),
            ("deleted", Flag),
            ("version", NullableInt),
        ],
    ),
    objects(
        "system.group_type_mappings",
        "group",
        "Group types",
        &[
            ("id", Int),
            ("team_id", Int),
            ("group_type", Text),
            ("group_type_index", Int),
            ("name_singular", NullableString),
            ("name_plural", NullableString),
        ],
    ),
    objects(
        "system.insights",
        "insight",
        "Insights",
        &[
            ("id", Int),
            ("short_id", Text),
            ("team_id", Int),
            ("name", Text),
            ("derived_name", NullableString),
            ("description", Text),
            ("filters", Object),
            ("query", Object),
            ("deleted", Flag),
            ("saved", Flag),
            ("favorited", Flag),
            ("created_at", Time),
            ("created_by_id", NullableInt),
            ("last_modified_at", Time),
            ("last_modified_by_id", NullableInt),
            ("updated_at", Time),
        ],
    ),
    objects(
        "system.insight_variables",
        "insight_variable",
        "Variables of statements",
        &[
            ("id", Text),
            ("team_id", Int),
            ("name", Text),
            ("type", Text),
            ("code_name", Text),
            ("values", Object),
            ("default_value", Object),
        ],
    ),
    objects(
        "system.teams",
        "project",
        "The project",
        &[
            ("id", Int),
            ("team_id", Int),
            ("name", Text),
            ("timezone", Text),
            ("created_at", Time),
            ("updated_at", Time),
        ],
    ),
    SystemTable {
        name: "system.information_schema.tables",
        description: "The tables that statements can read",
        columns: &[
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("table_type", Text),
            ("description", NullableString),
            ("row_count", NullableInt),
            ("certification", NullableString),
        ],
        rows: Rows::Schema(tables),
    },
    SystemTable {
        name: "system.information_schema.columns",
        description: "The columns of the tables",
        columns: &[
            ("table_schema", Text),
            ("table_name", Text),
            ("column_name", Text),
            ("ordinal_position", Int),
            ("data_type", Text),
            ("is_nullable", Bool),
            ("is_array", Bool),
            ("field_kind", Text),
            ("description", NullableString),
            ("null_fraction", NullableFloat),
            ("min_value", NullableString),
            ("max_value", NullableString),
        ],
        rows: Rows::Schema(columns),
    },
    SystemTable {
        name: "system.information_schema.relationships",
        description: "Fields that lead to rows of another table",
        columns: &[
            ("source_table", Text),
            ("source_column", Text),
            ("target_table", Text),
            ("target_column", NullableString),
            ("relationship_kind", Text),
            ("via", NullableString),
            ("confidence", NullableFloat),
            ("reasoning", NullableString),
        ],
        rows: Rows::Schema(relationships),
    },
    SystemTable {
        name: "system.information_schema.data_types",
        description: "The types of columns",
        columns: &[("type_name", Text), ("description", Text)],
        rows: Rows::Schema(data_types),
    },
];

/// The statement with its system tables as subqueries.
pub(crate) fn expanded<'a>(query: &'a Query, project: &Project) -> Cow<'a, Query> {
    if table_names(query).iter().all(|table| find(table).is_none()) {
        return Cow::Borrowed(query);
    }
    let mut query = query.clone();
    expand(&mut query, project);
    Cow::Owned(query)
}

fn find(name: &str) -> Option<&'static SystemTable> {
    SYSTEM_TABLES.iter().find(|table| table.name.eq_ignore_ascii_case(name))
}

/// The tables of objects that a statement or an expression reads, up to the first lexical error.
pub fn object_tables(text: &str) -> impl Iterator<Item = &'static SystemTable> {
    let names = crate::token::qualified_names(text);
    let named = names.into_iter().filter_map(|name| find(&name));
    named.filter(|table| table.object().is_some())
}

fn expand(query: &mut Query, project: &Project) {
    sources_of_query(query, &mut |source| expand_source(source, project));
    let Ok(()) = exprs_of_query(query, &mut |expr| expand_in_expr(expr, project));
}

fn expand_in_expr(expr: &mut Expr, project: &Project) -> Result<(), Infallible> {
    if let ExprKind::Query(query) = &mut expr.kind {
        expand(query, project);
        return Ok(());
    }
    exprs_of_expr(expr, &mut |inner| expand_in_expr(inner, project))
}

fn expand_source(source: &mut Source, project: &Project) {
    let SourceKind::Table(table) = &source.kind else { return };
    let Some(table) = find(&table.text) else { return };
    // Without its objects, the table is unknown.
    let Some(rows) = table.rows(project) else { return };
    let columns: Vec<String> =
        table.columns.iter().map(|(name, kind)| field(name, *kind)).collect();
    let text = format!(
        "select {} from (select arrayJoin(JSONExtractArrayRaw({{rows}})) as row)",
        columns.join(", ")
    );
    let query = statement(&text, &[("rows", literal(&json!(rows).to_string()))]);
    let mut query = query.expect("the text of every table is fixed");
    if let Body::Select(select) = &mut query.body {
        let aliases = select.columns.iter_mut().filter_map(|column| column.alias.as_mut());
        aliases.for_each(Name::set_generated);
    }
    source.kind = SourceKind::Query(Box::new(query));
    if source.alias.is_none() {
        let last = table.name.rsplit('.').next().unwrap_or(table.name);
        source.alias = Some(name(last));
    }
}

fn field(name: &str, kind: SystemColumn) -> String {
    let value = match kind {
        Text => format!("JSONExtractString(row, '{name}')"),
        Int => format!("JSONExtractInt(row, '{name}')"),
        Bool => format!("JSONExtractBool(row, '{name}')"),
        NullableString => format!("JSONExtract(row, '{name}', 'Nullable(String)')"),
        NullableInt => format!("JSONExtract(row, '{name}', 'Nullable(Int64)')"),
        NullableFloat => format!("JSONExtract(row, '{name}', 'Nullable(Float64)')"),
        Flag => format!("toUInt8(JSONExtractBool(row, '{name}'))"),
        Object => format!("JSONExtractRaw(row, '{name}')"),
        Time => format!("parseDateTime64BestEffort(JSONExtractString(row, '{name}'), 6)"),
    };
    format!("{value} as {name}")
}

fn tables(_: &Project) -> Vec<Json> {
    let posthog = Table::ALL.into_iter().map(|table| {
        json!({ "table_schema": "public", "table_type": "posthog", "table_name": table.name() })
    });
    let own = SYSTEM_TABLES.iter().map(|table| {
        json!({
            "table_schema": schema_of(table), "table_type": schema_of(table),
            "table_name": table.name, "description": table.description,
        })
    });
    posthog.chain(own).collect()
}

fn schema_of(table: &SystemTable) -> &'static str {
    if table.object().is_some() { "system" } else { "information_schema" }
}

fn columns(_: &Project) -> Vec<Json> {
    let mut rows = Vec::new();
    for table in Table::ALL {
        let stored = table.columns().iter().filter_map(|(name, _)| table.column(name));
        for (no, (column, ty)) in stored.enumerate() {
            rows.push(json!({
                "table_schema": "public", "table_name": table.name(), "column_name": column,
                "ordinal_position": no + 1, "data_type": data_type(&ty),
                "is_nullable": ty.nullable, "is_array": ty.element().is_some(),
                "field_kind": "column",
            }));
        }
    }
    for table in SYSTEM_TABLES {
        for (no, (column, kind)) in table.columns.iter().enumerate() {
            let (data_type, is_nullable) = match kind {
                Text => ("String", false),
                NullableString => ("String", true),
                Int => ("Integer", false),
                NullableInt => ("Integer", true),
                NullableFloat => ("Float", true),
                Bool => ("Boolean", false),
                Flag => ("Integer", false),
                Object => ("JSON", false),
                Time => ("DateTime", true),
            };
            rows.push(json!({
                "table_schema": schema_of(table), "table_name": table.name,
                "column_name": column, "ordinal_position": no + 1, "data_type": data_type,
                "is_nullable": is_nullable, "field_kind": "column",
            }));
        }
    }
    rows
}

fn relationships(project: &Project) -> Vec<Json> {
    let mut rows = Vec::new();
    for table in Table::ALL {
        for (field, join) in table.links() {
            rows.push(json!({
                "source_table": table.name(), "source_column": field,
                "target_table": join.table().name(), "relationship_kind": "lazy_join",
            }));
        }
    }
    for (kind, index) in &project.groups {
        rows.push(json!({
            "source_table": Table::Events.name(), "source_column": kind,
            "target_table": Table::Events.name(), "target_column": format!("group_{index}"),
            "relationship_kind": "field_traverser",
        }));
    }
    rows
}

const DATA_TYPES: &[(&str, &str)] = &[
    ("String", "Text"),
    ("Integer", "A whole number"),
    ("Float", "A number with fractions"),
    ("Boolean", "True or false"),
    ("DateTime", "A point in time, shown in the project's time zone"),
    ("UUID", "An identifier of 128 bits"),
    ("JSON", "An object; its members are read with a dot or brackets"),
    ("Array", "A list of values of one type"),
];

fn data_types(_: &Project) -> Vec<Json> {
    let row = |(name, description): &(&str, &str)| json!({ "type_name": name, "description": description });
    DATA_TYPES.iter().map(row).collect()
}

fn data_type(ty: &Type) -> &'static str {
    match ty.kind {
        Kind::UInt(_) | Kind::Int(_) => "Integer",
        Kind::Float => "Float",
        Kind::Bool => "Boolean",
        Kind::DateTime(_) => "DateTime",
        Kind::Uuid => "UUID",
        Kind::Json(_) => "JSON",
        Kind::Array(_) => "Array",
        _ => "String",
    }
}
