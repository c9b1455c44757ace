//! What a statement may cost before anything runs.

/// Longer texts are generated, and their values belong into placeholders. Our own bound.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Levels of a syntax tree, also of chains such as `a + b + c`: everything that walks a tree does
/// so by recursion, on stacks of 2 MiB.
pub const NESTING_MAX: usize = 64;

/// Tokens of a statement, which also bounds the nodes of its tree.
pub const TOKENS_MAX: usize = 64 * 1024;

/// Items of one list: columns, arguments, elements of an array, operands of an `AND`.
pub const LIST_MAX: usize = 16 * 1024;

/// Nodes of a plan. Aliases are put in place of their names, so a short text can ask for many.
pub const PLAN_NODES_MAX: usize = 64 * 1024;

/// Levels of a plan: the text's own, and those that aliases bring.
pub const PLAN_NESTING_MAX: usize = 80;

/// Every part of a column is compared with every key.
pub const GROUP_KEYS_MAX: usize = 64;

/// Different aggregates, window functions or `arrayJoin`s of one select.
pub const CALLS_MAX: usize = 512;

/// Columns of one select: names are looked up among them one by one.
pub const COLUMNS_MAX: usize = 2048;

/// Names of one `WITH`.
pub const WITH_MAX: usize = 256;

/// Tables and subqueries of one select.
pub const SOURCES_MAX: usize = 32;

/// Elements of the values of all placeholders, nested ones included.
pub const VALUE_NODES_MAX: usize = 64 * 1024;

/// Text in the values of all placeholders, counted each time it is used.
pub const VALUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Lists within lists of one value. They stand under [`NESTING_MAX`] levels of the text's own.
pub const VALUE_NESTING_MAX: usize = 8;

/// Rows of a statement without a limit (contract, 3.1).
pub const ROWS_DEFAULT: u64 = 100;

/// Rows of any statement (contract, 3.1).
pub const ROWS_MAX: u64 = 50_000;
