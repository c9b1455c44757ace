//! `HogQLAutocomplete`: names that can stand at the cursor.

use std::collections::BTreeMap;

use catalog::{PropertyDefinitionFilter, PropertyDefinitions};
use hogql::functions::functions;
use hogql::tables::{LazyJoin, Table};
use hogql::types::Kind;
use hogql::{Cursor, Place, Project};
use model::definition::PropertyOwner;
use model::{ProjectId, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{Language, table_of};
use crate::Result;
use crate::hogql_query::HogqlFilters;

/// Properties of one answer; a longer list is incomplete, and the editor asks again with more letters.
const PROPERTIES_MAX: i64 = 200;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HogQLAutocompleteFields")]
pub(crate) struct AutocompleteQuery {
    #[serde(rename = "kind")]
    _kind: String,
    language: Language,
    query: String,
    #[serde(default)]
    #[schemars(with = "Option<crate::schema::SourceQuery>")]
    pub(super) source_query: Option<Map<String, Json>>,
    #[serde(default, rename = "globals")]
    #[schemars(with = "Option<BTreeMap<String, model::json_shapes::FilterValue>>")]
    _globals: Option<Map<String, Json>>,
    #[serde(default, rename = "filters")]
    _filters: Option<HogqlFilters>,
    /// Where the word at the cursor starts and ends, in characters counted from 0.
    start_position: usize,
    end_position: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "HogQLCompletions")]
pub struct Completions {
    pub suggestions: Vec<Suggestion>,
    /// Whether more properties match than are listed.
    pub incomplete_list: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HogQLSuggestion")]
pub struct Suggestion {
    pub label: String,
    pub insert_text: String,
    pub kind: SuggestionKind,
    /// The type of a field.
    pub detail: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "HogQLSuggestionKind")]
pub enum SuggestionKind {
    Function,
    Variable,
    Folder,
}

/// Rows whose fields a chain of names reaches.
enum Reached {
    Table(Table),
    Properties(PropertyOwner),
}

impl AutocompleteQuery {
    pub async fn answer(
        &self,
        project: &Project,
        definitions: PropertyDefinitions<'_>,
    ) -> Result<Completions> {
        let (start, end) =
            (byte(&self.query, self.start_position), byte(&self.query, self.end_position));
        let word = self.query.get(start..end).unwrap_or_default().trim_matches(['`', '"']);
        let mut cursor = hogql::cursor_at(&self.query, start);
        if self.language != Language::Statement {
            let table = table_of(self.source_query.as_ref())?;
            cursor.sources = vec![(table.to_owned(), table.to_owned())];
        }
        let mut found = Completions { suggestions: Vec::new(), incomplete_list: false };
        match &cursor.place {
            Place::Literal => {}
            Place::Table => found.suggestions = tables(&cursor),
            Place::Expression => found.suggestions = expressions(&cursor, project),
            Place::Member(chain) => match reached(chain, &cursor, project) {
                None => {}
                Some(Reached::Table(table)) => found.suggestions = fields(table, project),
                Some(Reached::Properties(owner)) => {
                    found = properties(project.id, owner, word, definitions).await?;
                }
            },
        }
        let word = word.to_lowercase();
        found.suggestions.retain(|one| one.label.to_lowercase().contains(&word));
        Ok(found)
    }
}

/// The byte before which there are so many characters.
fn byte(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(byte, _)| byte)
}

fn tables(cursor: &Cursor) -> Vec<Suggestion> {
    let stored = Table::ALL.into_iter().map(|table| table.name().to_owned());
    let names = cursor.ctes.iter().cloned().chain(stored);
    names.map(|name| suggestion(&name, SuggestionKind::Folder, None)).collect()
}

fn expressions(cursor: &Cursor, project: &Project) -> Vec<Suggestion> {
    let mut found: Vec<Suggestion> = Vec::new();
    for (table, name) in &cursor.sources {
        found.push(suggestion(name, SuggestionKind::Folder, Some(table.clone())));
        for field in Table::named(table).map(|table| fields(table, project)).unwrap_or_default() {
            if !found.iter().any(|other| other.label == field.label) {
                found.push(field);
            }
        }
    }
    found.extend(functions().map(|function| Suggestion {
        insert_text: format!("{}()", function.name),
        ..suggestion(function.name, SuggestionKind::Function, None)
    }));
    found
}

fn fields(table: Table, project: &Project) -> Vec<Suggestion> {
    let columns = table.columns().iter().filter_map(|(name, _)| table.column(name));
    let columns = columns
        .map(|(name, ty)| suggestion(name, SuggestionKind::Variable, Some(ty.name(&project.zone))));
    let links = table.links().iter().map(|(name, join)| {
        suggestion(name, SuggestionKind::Folder, Some(join.table().name().to_owned()))
    });
    let groups = project.groups.keys().filter(|_| table == Table::Events);
    let groups = groups.map(|name| {
        suggestion(name, SuggestionKind::Folder, Some(Table::Groups.name().to_owned()))
    });
    columns.chain(links).chain(groups).collect()
}

/// What the names before the dot mean; none for anything but tables, lazy joins and properties.
fn reached(chain: &[String], cursor: &Cursor, project: &Project) -> Option<Reached> {
    let (first, rest) = chain.split_first()?;
    let known = |name: &String| cursor.sources.iter().find(|(_, known)| known == name);
    let (mut at, rest) = match known(first) {
        Some((table, _)) => ((Table::named(table)?, None), rest),
        // A field of the only table, or of the first that has it.
        None => {
            let mut tables = cursor.sources.iter().filter_map(|(table, _)| Table::named(table));
            let has = |table: &Table| step(*table, None, first, project).is_some();
            ((tables.find(has)?, None), chain)
        }
    };
    for name in rest {
        match step(at.0, at.1, name, project)? {
            (table, owner, false) => at = (table, owner),
            (_, owner, true) => return owner.map(Reached::Properties),
        }
    }
    Some(Reached::Table(at.0))
}

/// The rows or, if the flag is set, the properties that a field of a table refers to.
fn step(
    table: Table,
    group: Option<PropertyOwner>,
    name: &str,
    project: &Project,
) -> Option<(Table, Option<PropertyOwner>, bool)> {
    if let Some((_, ty)) = table.column(name) {
        let Kind::Json(owner) = ty.kind else { return None };
        return Some((table, group.or(owner), true));
    }
    let by_name = || project.groups.get(name).map(|index| LazyJoin::Group(*index));
    let join = table.link(name).or_else(|| by_name().filter(|_| table == Table::Events))?;
    let owner = match join {
        LazyJoin::Group(index) => Some(PropertyOwner::Group(index)),
        _ => None,
    };
    Some((join.table(), owner, false))
}

async fn properties(
    project: ProjectId,
    owner: PropertyOwner,
    word: &str,
    definitions: PropertyDefinitions<'_>,
) -> Result<Completions> {
    let filter = PropertyDefinitionFilter {
        owner,
        terms: if word.is_empty() { Vec::new() } else { vec![word.to_owned()] },
        names: Vec::new(),
        excluded: Vec::new(),
        events: Vec::new(),
        only_seen_on_events: false,
        only_numerical: false,
        feature_flag: None,
        exclude_hidden: true,
        exclude_built_in: false,
    };
    let window = Window { limit: PROPERTIES_MAX, offset: 0 };
    let (stored, total) = definitions.list(project, &filter, window).await?;
    let incomplete_list = total > stored.len() as i64;
    let suggestions = stored.into_iter().map(|property| {
        let detail = property.property_type.map(|ty| ty.as_str().to_owned());
        suggestion(&property.name, SuggestionKind::Variable, detail)
    });
    Ok(Completions { suggestions: suggestions.collect(), incomplete_list })
}

fn suggestion(name: &str, kind: SuggestionKind, detail: Option<String>) -> Suggestion {
    let insert_text = hogql::build::field(&[name]).to_string();
    Suggestion { label: name.to_owned(), insert_text, kind, detail }
}
