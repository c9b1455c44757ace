//! Limits on statements and plans.

/// Bytes of a statement. Longer ones are generated; their values belong into placeholders. Our own
/// limit.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Nesting depth of a syntax tree, including chains such as `a + b + c`: every traversal is recursive,
/// on stacks of 2 MiB.
pub const NESTING_MAX: usize = 64;

/// Tokens of a statement; this also bounds the nodes of its tree.
pub const TOKENS_MAX: usize = 64 * 1024;

/// Items of one list: columns, arguments, elements of an array, operands of an `AND`.
pub const LIST_MAX: usize = 16 * 1024;

/// Nodes of a plan. Aliases are inlined, so a short statement can expand to many nodes.
pub const PLAN_NODES_MAX: usize = 64 * 1024;

/// Nesting depth of a plan: that of the text, plus that of inlined aliases.
pub const PLAN_NESTING_MAX: usize = 80;

/// Keys of `GROUP BY`: every subexpression of a column is compared with every key.
pub const GROUP_KEYS_MAX: usize = 64;

/// Sets of `ROLLUP`, `CUBE` and `GROUPING SETS`: a row is grouped once for each.
pub const GROUPING_SETS_MAX: usize = 64;

/// Distinct aggregates, window functions or `arrayJoin`s of one select.
pub const CALLS_MAX: usize = 512;

/// Columns of one select: name lookup is linear.
pub const COLUMNS_MAX: usize = 2048;

/// Names of one `WITH`.
pub const WITH_MAX: usize = 256;

/// Tables and subqueries of one select.
pub const SOURCES_MAX: usize = 32;

/// Elements of the values of all placeholders, nested ones included.
pub const VALUE_NODES_MAX: usize = 64 * 1024;

/// Bytes of strings in the values of all placeholders, counted per use.
pub const VALUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Nesting depth of lists in one value, in addition to [`NESTING_MAX`] levels of the text.
pub const VALUE_NESTING_MAX: usize = 8;

/// Rows returned by a statement without a limit (contract, 3.1).
pub const ROWS_DEFAULT: u64 = 100;

/// Maximum rows of a result (contract, 3.1).
pub const ROWS_MAX: u64 = 50_000;
