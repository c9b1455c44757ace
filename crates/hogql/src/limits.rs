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
pub const PLAN_NODES_MAX: usize = 128 * 1024;

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
