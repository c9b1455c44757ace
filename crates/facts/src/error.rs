//! Errors of reading views and filters.

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The query is invalid; the message is meant for the client.
    #[error("{0}")]
    Invalid(String),
    #[error("events cannot be read")]
    Warehouse(#[from] warehouse::Error),
}

impl From<model::filter_expr::InvalidFilter> for Error {
    fn from(invalid: model::filter_expr::InvalidFilter) -> Self {
        Self::Invalid(invalid.0)
    }
}
