pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The question makes no sense; the text says why, for whoever asked.
    #[error("{0}")]
    Invalid(String),
    #[error("events cannot be read")]
    Warehouse(#[from] warehouse::Error),
}
