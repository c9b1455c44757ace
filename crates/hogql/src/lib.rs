//! HogQL, from text to a checked plan.
//!
//! [`parse`] → [`fill`] (placeholders) → [`resolve`] (names, types, the project). Pure: no I/O, no
//! clock, no state; any text ends in a [`plan::Plan`] or in an [`Error`] that says what is wrong
//! and where.
//!
//! A lowering of a plan may rely on this:
//!
//! - Every table it reads carries its project ([`plan::Source::Table`]), which comes from
//!   [`Project::id`] and never from the text. `team_id` is a column to read, not a way to choose.
//! - Every name is found and every expression has its type. Aliases, scalars of `WITH` and named
//!   windows are put in their places; a common table expression is resolved once and read by
//!   number, and reads only those before it.
//! - Subqueries see nothing of the select around them.
//! - Aggregates, window functions and `arrayJoin` stand in lists of their own, each once, and
//!   expressions refer to them by number. Where there is a grouping, `having`, `windows`,
//!   `columns`, `order` and `limit_by` reach rows only through its keys and aggregates.
//!   `ExprKind::AggregateCall`, `WindowCall` and `Unnested` never occur.
//! - Both sides of a comparison, and an element of a list and what is looked up in it, have a
//!   common type ([`types::Type::common`]), to which the lowering brings them. Arguments fit their
//!   function's line of the table ([`functions`]): `fIf(x, c)` is `f` with a filter.
//! - Comparisons and `IN` are never null ([`plan::Comparison`]); logic is three-valued; a filter
//!   keeps rows where it is true.
//! - Numbers before anything runs (limits, parameters, units, zones) are checked constants. Texts
//!   cast to a time with `or_null: false` were written in the query: failing there is the
//!   writer's mistake, and the cast's span says where.
//! - A plan has at most [`limits::PLAN_NODES_MAX`] nodes and nests no deeper than
//!   [`limits::PLAN_NESTING_MAX`] levels and the casts between them.

pub mod ast;
mod error;
mod fill;
pub mod functions;
pub mod limits;
mod parse;
pub mod plan;
mod print;
mod resolve;
pub mod tables;
mod token;
pub mod types;
mod walk;

pub use error::{Error, Position, Reason, Result, Span};
pub use fill::{PlaceholderValues, fill, fill_expr};
pub use parse::{parse, parse_expr};
pub use resolve::{Filters, Project, has_aggregate, resolve};

/// Names and texts of what may be a statement or an expression, as far as it can be read: among
/// them are all names that its meaning depends on.
pub fn identifiers_and_strings(text: &str) -> Vec<String> {
    token::identifiers_and_strings(text)
}

/// All three steps.
pub fn plan(
    text: &str,
    values: &PlaceholderValues,
    project: &Project,
    filters: Option<&Filters>,
) -> Result<plan::Plan> {
    let query = fill(parse(text)?, text, values)?;
    resolve(&query, text, project, filters)
}
