//! Errors in a statement. Every message addresses the author of the statement.

use std::fmt;

/// A byte range of the text, `start..end`.
///
/// All spans compare equal, so that comparing trees ignores positions.
#[derive(Clone, Copy, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        // `TEXT_BYTES_MAX` is far below u32::MAX.
        Self { start: start as u32, end: end as u32 }
    }

    /// From the start of this span to the end of `other`.
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }
}

impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Span {}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A position in the text: line and column (in characters) count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub byte: usize,
    pub line: usize,
    pub column: usize,
}

impl Position {
    pub fn of(text: &str, byte: usize) -> Self {
        let byte = text.floor_char_boundary(byte);
        let before = &text[..byte];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            byte,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The cause of an error, without its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("Syntax error: expected {expected}, found {found}")]
    Syntax { expected: String, found: String },
    #[error("Syntax error: {0}")]
    Token(&'static str),
    #[error("The query is too large: at most {max} {what}")]
    TooLarge { what: &'static str, max: usize },
    #[error("{0} is not supported")]
    Unsupported(String),
    #[error("Unknown placeholder {{{0}}}")]
    Placeholder(String),
    #[error("Unknown {what} '{name}'{}", hint(.suggestion))]
    Unknown { what: &'static str, name: String, suggestion: Option<String> },
    /// The contract fixes this wording (query 5.6).
    #[error("Unsupported function call '{name}(...)'{}", hint(.suggestion))]
    UnknownFunction { name: String, suggestion: Option<String> },
    #[error("{0}")]
    Invalid(String),
}

impl Reason {
    /// The unknown name.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Unknown { name, .. } | Self::UnknownFunction { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The name that the author probably meant.
    pub fn suggestion(&self) -> Option<&str> {
        match self {
            Self::Unknown { suggestion, .. } | Self::UnknownFunction { suggestion, .. } => {
                suggestion.as_deref()
            }
            _ => None,
        }
    }
}

fn hint(suggestion: &Option<String>) -> String {
    suggestion
        .as_ref()
        .map_or_else(String::new, |suggestion| format!(". Did you mean '{suggestion}'?"))
}

/// An error and its position.
///
/// There is no position if the cause is not in the text: a value, or a tree built in code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}{}", at.map_or_else(String::new, |at| format!(" (at {at})")))]
pub struct Error {
    pub reason: Reason,
    pub at: Option<Position>,
    /// The faulty part of the text, if there is a position.
    pub span: Option<Span>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with a span, as used within this crate; [`Self::in_text`] turns it into an [`Error`].
///
/// Boxed, because every recursive function returns it: it keeps stack frames small.
#[derive(Clone, Debug)]
pub(crate) struct Fault(Box<(Reason, Span)>);

impl Fault {
    pub fn new(reason: Reason, span: Span) -> Self {
        Self(Box::new((reason, span)))
    }

    pub fn invalid(message: impl Into<String>, span: Span) -> Self {
        Self::new(Reason::Invalid(message.into()), span)
    }

    pub fn too_large(what: &'static str, max: usize, span: Span) -> Self {
        Self::new(Reason::TooLarge { what, max }, span)
    }

    pub fn unsupported(what: impl Into<String>, span: Span) -> Self {
        Self::new(Reason::Unsupported(what.into()), span)
    }

    pub fn at(self, span: Span) -> Self {
        Self::new(self.0.0, span)
    }

    pub fn in_text(self, text: &str) -> Error {
        let (reason, span) = *self.0;
        let at = (!text.is_empty()).then(|| Position::of(text, span.start as usize));
        Error { reason, at, span: at.map(|_| span) }
    }
}

pub(crate) type Checked<T> = std::result::Result<T, Fault>;
