//! HogQL, from text to a tree.
//!
//! `parse` → `fill` (placeholders). Pure: no I/O, no clock, no state; any text ends in a tree or
//! in an [`Error`] that says what is wrong and where.

pub mod ast;
mod error;
mod fill;
pub mod limits;
mod parse;
mod print;
mod token;
mod walk;

pub use error::{Error, Position, Reason, Result, Span};
pub use fill::{Values, fill, fill_expr};
pub use parse::{parse, parse_expr};
