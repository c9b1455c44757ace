//! Breakdown by cohorts.

use facts::ReadView;
use model::CohortId;
use serde_json::Value as Json;
use warehouse::Predicate;

use super::list;
use crate::query::spec::BreakdownFilter;
use crate::{Error, Result};

const COHORTS_MAX: usize = 100;

/// All users, or the members of a cohort.
#[derive(Clone, Debug)]
pub(crate) struct CohortSlice {
    pub id: Option<CohortId>,
    pub name: String,
    /// Selects the events of the members; none for all users.
    pub predicate: Option<Predicate>,
}

pub(super) fn cohort_slices(json: &Json, view: &ReadView) -> Result<Vec<CohortSlice>> {
    let cohorts = list(json);
    if cohorts.len() > COHORTS_MAX {
        return Err(Error::Invalid(format!("At most {COHORTS_MAX} cohorts can be compared.")));
    }
    let slice = |json: &&Json| match json {
        Json::String(all) if all == "all" => {
            Ok(CohortSlice { id: None, name: "all users".into(), predicate: None })
        }
        json => {
            let id = CohortId::from_json(json)
                .ok_or_else(|| Error::invalid(format!("{json} is no cohort.")))?;
            let cohort = view.cohorts.get(id);
            let cohort =
                cohort.ok_or_else(|| Error::invalid(format!("There is no cohort {}.", id.0)))?;
            let ids = view.persons.distinct_nos_of(|actor| cohort.members.contains(actor));
            let predicate = Some(Predicate::DistinctNos(ids));
            Ok(CohortSlice { id: Some(id), name: cohort.name.clone(), predicate })
        }
    };
    cohorts.iter().map(slice).collect()
}

/// Ids of the cohorts that a breakdown references.
pub(crate) fn cohorts(filter: &BreakdownFilter) -> Vec<i64> {
    let mut ids = Vec::new();
    if filter.breakdown_type.as_deref() == Some("cohort") {
        ids.extend(list(&filter.breakdown));
    }
    for one in &filter.breakdowns {
        if one.kind.as_deref() == Some("cohort") {
            ids.extend(list(&one.property));
        }
    }
    ids.into_iter().filter_map(CohortId::from_json).map(|id| id.0).collect()
}
