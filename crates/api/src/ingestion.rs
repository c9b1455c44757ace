//! The write path as management sees it: edits sent through the journal, dead letters, and
//! ingestion warnings.

pub(crate) mod dead_letters;
pub(crate) mod edits;
pub(crate) mod warnings;
