//! Pagination: limit and offset of a list request.

/// Items per page; larger limits are capped.
pub const LIMIT_MAX: i64 = 1_000;
pub const LIMIT_DEFAULT: i64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub limit: i64,
    pub offset: i64,
}
