use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use hogql::Span;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The statement asks for what cannot be done, as its values show.
    #[error("{message}")]
    Invalid { message: String, span: Option<Span> },
    #[error("The query took longer than it may; ask for less time or fewer rows")]
    Timeout,
    #[error("The query needs more memory than it may use; group or filter more")]
    MemoryLimit,
    #[error("The query has too many {0}")]
    TooLarge(&'static str),
    /// By a name such as ClickHouse gives its errors, in lower case.
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

/// What no statement should be able to cause.
pub const UNEXPECTED: &str = "unexpected";

impl From<warehouse::Error> for Error {
    fn from(error: warehouse::Error) -> Self {
        Self::Warehouse(Arc::new(error))
    }
}

/// Through the engine and back: its streams know only its own errors.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        of_engine(&error)
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        of_arrow(&error)
    }
}

fn of_engine(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(source) => of_source(source.as_ref()),
        DataFusionError::ArrowError(source, _) => of_arrow(source),
        DataFusionError::ResourcesExhausted(_) => Error::MemoryLimit,
        DataFusionError::Shared(source) => of_engine(source),
        DataFusionError::Context(_, source) | DataFusionError::Diagnostic(_, source) => {
            of_engine(source)
        }
        DataFusionError::Collection(several) => {
            several.first().map_or_else(|| Error::engine(UNEXPECTED, "no error"), of_engine)
        }
        other => Error::engine(UNEXPECTED, other.strip_backtrace()),
    }
}

fn of_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(source) => of_source(source.as_ref()),
        ArrowError::OffsetOverflowError(_) => Error::MemoryLimit,
        other => Error::engine(UNEXPECTED, other.to_string()),
    }
}

fn of_source(source: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
    if let Some(error) = source.downcast_ref::<Error>() {
        return error.clone();
    }
    if let Some(error) = source.downcast_ref::<DataFusionError>() {
        return of_engine(error);
    }
    if let Some(error) = source.downcast_ref::<ArrowError>() {
        return of_arrow(error);
    }
    Error::engine(UNEXPECTED, source.to_string())
}
