//! The cohorts that a query references.

use std::collections::HashMap;

use model::CohortId;
use warehouse::DenseIdSet;

#[derive(Clone, Debug, Default)]
pub struct CohortFacts {
    pub name: String,
    pub is_static: bool,
    /// `person_no`s of its members.
    pub members: DenseIdSet,
}

#[derive(Clone, Debug, Default)]
pub struct Cohorts(HashMap<CohortId, CohortFacts>);

impl Cohorts {
    /// None for a cohort that does not exist or that the view did not load.
    pub fn get(&self, id: CohortId) -> Option<&CohortFacts> {
        self.0.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (CohortId, &CohortFacts)> {
        self.0.iter().map(|(id, cohort)| (*id, cohort))
    }
}

impl FromIterator<(CohortId, CohortFacts)> for Cohorts {
    fn from_iter<I: IntoIterator<Item = (CohortId, CohortFacts)>>(cohorts: I) -> Self {
        Self(cohorts.into_iter().collect())
    }
}
