//! Why an expression cannot be evaluated.

use arrow_schema::ArrowError;
use hogql::Span;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The writer of the query can mend it.
    #[error("{message}")]
    Invalid { message: String, span: Span },
    /// A bound, of what one call may give.
    #[error("The result is too large: at most {max} {what}")]
    TooLarge { what: &'static str, max: usize, span: Span },
    /// An input is not of the type that its expression has.
    #[error("expected an input of type {expected}, found {found}")]
    Input { expected: String, found: String },
    /// Nobody waits for it any more.
    #[error("The evaluation was stopped.")]
    Stopped,
    /// The query's account is full.
    #[error("The evaluation needs more memory than it may use.")]
    Memory,
    #[error("arrow: {0}")]
    Arrow(#[from] ArrowError),
}

impl Error {
    pub(crate) fn invalid(message: impl Into<String>, span: Span) -> Self {
        Self::Invalid { message: message.into(), span }
    }

    /// With a place, if it has none yet.
    pub(crate) fn at(mut self, place: Span) -> Self {
        if let Self::Invalid { span, .. } | Self::TooLarge { span, .. } = &mut self
            && span.end == 0
        {
            *span = place;
        }
        self
    }

    /// Where the writer of the query can mend it.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Invalid { span, .. } | Self::TooLarge { span, .. } => Some(*span),
            Self::Input { .. } | Self::Stopped | Self::Memory | Self::Arrow(_) => None,
        }
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
