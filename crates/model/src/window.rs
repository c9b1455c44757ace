//! Which slice of a list is asked for.

/// A list never answers more at once, whatever the caller asks.
pub const LIMIT_MAX: i64 = 1_000;
pub const LIMIT_DEFAULT: i64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub limit: i64,
    pub offset: i64,
}
