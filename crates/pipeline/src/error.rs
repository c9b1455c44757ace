//! Errors, by what the caller can do about them.

use journal::JournalId;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Retry the same records later.
    #[error("the catalog did not take a batch")]
    Catalog(#[from] catalog::Error),
    /// Retry the same records later.
    #[error("the warehouse did not take a batch")]
    Warehouse(#[from] warehouse::Error),
    #[error(
        "the catalog was filled from journal {stored}, but the journal here is {given}; \
         their positions do not belong together"
    )]
    OtherJournal { stored: JournalId, given: JournalId },
    #[error(
        "the catalog has applied the journal up to position {catalog}, the warehouse up to \
         {warehouse}: the catalog was restored from an older copy; restore both from the same one"
    )]
    CatalogBehind { catalog: u64, warehouse: u64 },
}
