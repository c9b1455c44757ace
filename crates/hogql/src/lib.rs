//! The HogQL query language, from text to a checked plan.
//!
//! [`parse()`] → [`fill`] (placeholders) → [`resolve()`] (names, types, the project). Pure: no I/O, no
//! clock, no state; any text ends in a [`plan::Plan`] or in an [`Error`] that says what is wrong
//! and where.
//!
//! A lowering of a plan may rely on this:
//!
//! - Every table it reads carries its project ([`plan::Source::Table`]), which comes from
//!   [`Project::id`] and never from the text. `team_id` is a column to read, not a way to choose.
//! - Every name is resolved and every expression has its type. Aliases, scalars of `WITH` and named
//!   windows are inlined; a common table expression is resolved once, referenced by index, and reads
//!   only those before it.
//! - Subqueries are uncorrelated.
//! - Aggregates, window functions and `arrayJoin` are extracted into lists, each once, and
//!   expressions refer to them by index. If there is a grouping, `having`, `windows`, `columns`,
//!   `order` and `limit_by` reach rows only through its keys and aggregates.
//!   `ExprKind::AggregateCall`, `WindowCall` and `Unnested` never occur.
//! - Both sides of a comparison, and the two sides of `IN`, have a common type
//!   ([`types::Type::common`]), to which the lowering casts them. Arguments match the signature of
//!   their function ([`functions`]): `fIf(x, c)` is `f` with a filter.
//! - Comparisons and `IN` are never null ([`plan::Comparison`]); logic is three-valued; a filter
//!   keeps rows where it is true.
//! - Limits, parameters, units and zones are validated constants. A string cast to a time with
//!   `or_null: false` is a literal of the query: if the cast fails, it is the author's error, and the
//!   cast's span locates it.
//! - A plan has at most [`limits::PLAN_NODES_MAX`] nodes and nests no deeper than
//!   [`limits::PLAN_NESTING_MAX`] levels and the casts between them.

pub mod ast;
pub mod build;
pub mod clauses;
mod completion;
mod error;
pub mod filter;
pub mod functions;
pub mod limits;
mod parse;
mod placeholders;
pub mod plan;
mod print;
mod resolve;
pub mod system;
pub mod tables;
pub mod template;
mod token;
pub mod types;
mod visit;

pub use completion::{Cursor, Place, cursor_at};
pub use error::{Error, Position, Reason, Result, Span};
pub use parse::{parse, parse_expr};
pub use placeholders::{PlaceholderValues, fill, fill_expr};
pub use resolve::{ActionSchema, Filters, Project, has_aggregate, resolve};
pub use visit::table_names;

/// All identifiers and string literals of a statement or an expression, up to the first lexical error:
/// a superset of the names that its meaning depends on.
pub fn identifiers_and_strings(text: &str) -> Vec<String> {
    token::identifiers_and_strings(text)
}

/// How a statement names an action.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionName {
    Id(i64),
    Name(String),
}

/// The actions that a statement or an expression names in `matchesAction()`, up to the first lexical
/// error.
pub fn called_actions(text: &str) -> Vec<ActionName> {
    token::called_actions(text)
}

/// Parses, fills placeholders and resolves.
pub fn plan(
    text: &str,
    values: &PlaceholderValues,
    project: &Project,
    filters: Option<&Filters>,
) -> Result<plan::Plan> {
    let query = fill(parse(text)?, text, values)?;
    resolve(&query, text, project, filters)
}
