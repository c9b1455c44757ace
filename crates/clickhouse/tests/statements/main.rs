//! Printed statements, on tables that the writer fills, against ClickHouse's own reading of the same
//! statements on tables of an independent shape. A binary of its own, because the generator of the
//! plant shop, which `sql` tests with too, fills a `support::Store`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[path = "../../../sql/tests/it/differential/comparison.rs"]
#[allow(dead_code, reason = "sql compares outcomes of its own too")]
mod comparison;
mod corpus;
mod hostile;
#[path = "../../../sql/tests/it/corpus/plant_shop.rs"]
mod plant_shop;
mod support;
