//! Running a compiled expression: nodes, the scope that evaluates them, comparisons and
//! higher-order functions.

mod chunks;
pub(crate) mod compare;
mod fold;
pub(crate) mod higher_order;
pub(crate) mod node;
pub(crate) mod scope;
