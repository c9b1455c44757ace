//! Columns of values: their Arrow types, bounded copies, dictionary encoding and hash keys.

pub(crate) mod column;
pub(crate) mod dictionary;
pub(crate) mod gather;
pub(crate) mod keys;
pub(crate) mod types;
