//! Conditions on the elements that autocapture records.

use hogql::types::Kind;
use model::ActionStep;
use model::elements::{self, ElementMatcher};

use super::{CallSite, CompiledCall, predicate};
use crate::error::Result;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    if site.name != "matchesElements" {
        return Ok(None);
    }
    let step = site.string(1).and_then(|text| serde_json::from_str::<ActionStep>(&text).ok());
    let Some(step) = step else {
        return Err(
            site.invalid("matchesElements takes the conditions of an action's step as JSON")
        );
    };
    let matcher = ElementMatcher::new(&step).map_err(|why| site.invalid(why.0))?;
    site.args.truncate(1);
    site.cast(0, &Kind::String)?;
    Ok(Some(predicate(move |args| {
        let chains = args.strings(0);
        Ok(args.map_bools(|row| match &matcher {
            Some(matcher) => {
                !args.is_null(0, row) && matcher.matches(&elements::parse(chains.at(row)))
            }
            None => true,
        }))
    })))
}
