//! `DatabaseSchemaQuery`: the tables that statements can read, and the functions that they can call.

use std::collections::BTreeMap;

use hogql::Project;
use hogql::functions::functions;
use hogql::tables::{LazyJoin, Table};
use hogql::types::{Kind, Type};
use model::json_shapes::EmptyList;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::function_signature::FunctionSignature;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DatabaseSchemaQuery {
    #[serde(rename = "kind")]
    _kind: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DatabaseSchema {
    pub tables: BTreeMap<&'static str, SchemaTable>,
    /// There are no joins that users define.
    pub joins: EmptyList,
    pub functions: Vec<FunctionSignature>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SchemaTable {
    #[serde(rename = "type")]
    pub kind: TableKind,
    pub id: &'static str,
    pub name: &'static str,
    pub fields: BTreeMap<String, SchemaField>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SchemaTableKind")]
pub enum TableKind {
    Posthog,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SchemaField {
    pub name: String,
    /// The name as a statement writes it, quoted where it must be.
    pub hogql_value: String,
    #[serde(rename = "type")]
    pub kind: FieldKind,
    pub schema_valid: bool,
    /// Of a field that refers to rows of another table.
    pub table: Option<&'static str>,
    /// The fields of those rows.
    pub fields: Option<Vec<String>>,
    /// The fields that this one stands for.
    pub chain: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SchemaFieldKind")]
pub enum FieldKind {
    String,
    Integer,
    Float,
    Decimal,
    Boolean,
    Date,
    Datetime,
    Uuid,
    Array,
    Json,
    Unknown,
    LazyTable,
    FieldTraverser,
}

impl DatabaseSchema {
    pub fn new(project: &Project) -> Self {
        let tables = Table::ALL.into_iter().map(|table| (table.name(), of_table(table, project)));
        let mut functions: Vec<_> = functions().map(FunctionSignature::new).collect();
        functions.sort_by_key(|function| function.name);
        Self { tables: tables.collect(), joins: [(); 0], functions }
    }
}

fn of_table(table: Table, project: &Project) -> SchemaTable {
    let columns = table.columns().iter().filter_map(|(name, _)| table.column(name));
    let columns = columns.map(|(name, ty)| field(name, kind_of(&ty)));
    let joins = table.links().iter().map(|(name, join)| lazy_table(name, *join));
    let groups = project.groups.iter().filter(|_| table == Table::Events);
    let groups = groups.map(|(name, index)| traverser(name, vec![format!("group_{index}")]));
    let further = table.star_fields().iter();
    let further = further.map(|(name, chain)| traverser(name, chain.map(str::to_owned).to_vec()));
    let fields = columns.chain(joins).chain(groups).chain(further);
    let (id, name) = (table.name(), table.name());
    let fields = fields.map(|field| (field.name.clone(), field)).collect();
    SchemaTable { kind: TableKind::Posthog, id, name, fields }
}

fn field(name: &str, kind: FieldKind) -> SchemaField {
    SchemaField {
        name: name.to_owned(),
        hogql_value: hogql::build::field(&[name]).to_string(),
        kind,
        schema_valid: true,
        table: None,
        fields: None,
        chain: None,
    }
}

fn lazy_table(name: &str, join: LazyJoin) -> SchemaField {
    let of = join.table();
    let columns = of.columns().iter().map(|(name, _)| (*name).to_owned());
    let joined = of.links().iter().map(|(name, _)| (*name).to_owned());
    SchemaField {
        table: Some(of.name()),
        fields: Some(columns.chain(joined).collect()),
        ..field(name, FieldKind::LazyTable)
    }
}

fn traverser(name: &str, chain: Vec<String>) -> SchemaField {
    SchemaField { chain: Some(chain), ..field(name, FieldKind::FieldTraverser) }
}

pub(super) fn kind_of(ty: &Type) -> FieldKind {
    match &ty.kind {
        Kind::String => FieldKind::String,
        Kind::Json(_) | Kind::Map(_) => FieldKind::Json,
        Kind::Uuid => FieldKind::Uuid,
        Kind::Bool => FieldKind::Boolean,
        Kind::UInt(_) | Kind::Int(_) => FieldKind::Integer,
        Kind::Float => FieldKind::Float,
        Kind::Decimal(_) => FieldKind::Decimal,
        Kind::Date => FieldKind::Date,
        Kind::DateTime(_) => FieldKind::Datetime,
        Kind::Array(_) => FieldKind::Array,
        Kind::Null | Kind::Interval(_) | Kind::Tuple(_) => FieldKind::Unknown,
    }
}
