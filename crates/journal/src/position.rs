//! Positions of records and the id of the journal that assigned them.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The sequence number of a record in its journal. Positions increase and are never reused. They are
/// mostly dense, but readers must not rely on it: a replicated log may skip numbers, and this one
/// skips after an unclean stop without fsync.
///
/// Consumers store the first position that they have *not* applied; [`crate::Journal::reader`] and
/// [`crate::Journal::release`] take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// The first position of a journal. No record has position zero.
    pub const START: Position = Position(1);

    pub const fn from_u64(value: u64) -> Position {
        Position(value)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The following position; saturates.
    pub const fn next(self) -> Position {
        self.plus(1)
    }

    pub(crate) const fn plus(self, records: u64) -> Position {
        Position(self.0.saturating_add(records))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies the journal that a position belongs to, so that a store that was filled from another
/// journal is detected.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JournalId(u128);

impl JournalId {
    pub(crate) fn random() -> JournalId {
        JournalId(rand::random())
    }

    pub const fn from_u128(value: u128) -> JournalId {
        JournalId(value)
    }

    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for JournalId {
    type Err = Error;

    fn from_str(text: &str) -> Result<JournalId, Error> {
        let hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u128::from_str_radix(text, 16).ok().filter(|_| hex);
        value.map(JournalId).ok_or(Error::Id)
    }
}
