//! Errors of compiling and running an expression.

use arrow_schema::ArrowError;
use hogql::Span;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The author of the query can fix it.
    #[error("{message}")]
    Invalid { message: String, span: Span },
    /// One call would produce more than its limit.
    #[error("The result is too large: at most {max} {what}")]
    TooLarge { what: &'static str, max: usize, span: Span },
    /// An input array has another type than its expression.
    #[error("expected an input of type {expected}, found {found}")]
    InputType { expected: String, found: String },
    /// The flag was set, or the deadline has passed.
    #[error("The evaluation was cancelled.")]
    Cancelled,
    /// The memory tracker refused an allocation.
    #[error("The evaluation needs more memory than its query may use.")]
    MemoryLimit,
    #[error("arrow: {0}")]
    Arrow(#[from] ArrowError),
}

impl Error {
    pub(crate) fn invalid(message: impl Into<String>, span: Span) -> Self {
        Self::Invalid { message: message.into(), span }
    }

    /// Sets the span, unless the error already has one.
    pub(crate) fn at(mut self, default: Span) -> Self {
        if let Self::Invalid { span, .. } | Self::TooLarge { span, .. } = &mut self
            && span.end == 0
        {
            *span = default;
        }
        self
    }

    /// The part of the query that causes the error.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Invalid { span, .. } | Self::TooLarge { span, .. } => Some(*span),
            Self::InputType { .. } | Self::Cancelled | Self::MemoryLimit | Self::Arrow(_) => None,
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
