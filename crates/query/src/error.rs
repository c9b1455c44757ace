pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The question makes no sense; the text says why, for whoever asked.
    #[error("{0}")]
    Refused(String),
    /// Too many questions at once: ask again in a moment.
    #[error("too many reads of events at once")]
    Busy,
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error("events cannot be read")]
    Warehouse(#[from] warehouse::Error),
    #[error("a read of events ended half-way")]
    Broken(#[from] tokio::task::JoinError),
}

impl From<facts::Error> for Error {
    fn from(error: facts::Error) -> Self {
        match error {
            facts::Error::Refused(why) => Self::Refused(why),
            facts::Error::Warehouse(error) => Self::Warehouse(error),
        }
    }
}
