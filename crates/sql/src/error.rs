//! Why a statement fails, also while its error travels through DataFusion.

use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use hogql::Span;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The statement is invalid for the values it was run on.
    #[error("{message}")]
    Invalid { message: String, span: Option<Span> },
    #[error("The query ran longer than its time limit; narrow the date range or filter more")]
    Timeout,
    #[error("The query has reached its memory limit; group or filter more")]
    MemoryLimit,
    #[error("The query has too many {0}")]
    TooLarge(&'static str),
    /// With ClickHouse's name for the error, in lower case.
    #[error("{message}")]
    Engine { code: &'static str, message: String },
    #[error("the warehouse cannot be read")]
    Warehouse(#[source] Arc<warehouse::Error>),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn invalid(message: impl Into<String>, span: Span) -> Self {
        Self::Invalid { message: message.into(), span: Some(span) }
    }

    pub(crate) fn engine(code: &'static str, message: impl Into<String>) -> Self {
        Self::Engine { code, message: message.into() }
    }
}

/// The code of an internal error, which no statement should be able to cause.
pub const UNEXPECTED: &str = "unexpected";

impl From<warehouse::Error> for Error {
    fn from(error: warehouse::Error) -> Self {
        Self::Warehouse(Arc::new(error))
    }
}

/// DataFusion's streams carry its own error type only; this wraps ours, and [`Error::from`] unwraps it.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        from_datafusion(&error)
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        from_arrow(&error)
    }
}

fn from_datafusion(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(source) => from_source(source.as_ref()),
        DataFusionError::ArrowError(source, _) => from_arrow(source),
        DataFusionError::ResourcesExhausted(_) => Error::MemoryLimit,
        DataFusionError::Shared(source) => from_datafusion(source),
        DataFusionError::Context(_, source) | DataFusionError::Diagnostic(_, source) => {
            from_datafusion(source)
        }
        DataFusionError::Collection(several) => {
            several.first().map_or_else(|| Error::engine(UNEXPECTED, "no error"), from_datafusion)
        }
        other => Error::engine(UNEXPECTED, other.strip_backtrace()),
    }
}

fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(source) => from_source(source.as_ref()),
        ArrowError::OffsetOverflowError(_) => Error::MemoryLimit,
        other => Error::engine(UNEXPECTED, other.to_string()),
    }
}

fn from_source(source: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
    if let Some(error) = source.downcast_ref::<Error>() {
        return error.clone();
    }
    if let Some(error) = source.downcast_ref::<DataFusionError>() {
        return from_datafusion(error);
    }
    if let Some(error) = source.downcast_ref::<ArrowError>() {
        return from_arrow(error);
    }
    Error::engine(UNEXPECTED, source.to_string())
}
