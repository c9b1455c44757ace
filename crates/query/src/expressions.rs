//! Conditions in HogQL among property filters.

use facts::{Error, Expressions, Result, World};
use warehouse::Predicate;

#[derive(Debug)]
pub(crate) struct Hogql;

impl Expressions for Hogql {
    fn condition(&self, _: &World, _: &str) -> Result<Predicate> {
        Err(Error::Refused("Filters of type 'hogql' cannot be used here.".into()))
    }
}
