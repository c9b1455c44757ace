//! The response of the local evaluation endpoint.

use std::collections::{BTreeMap, HashSet};

use model::CohortId;
use model::flag::filters;
use model::flag::{CohortKind, FlagDefinition};
use serde::Serialize;
use serde_json::Value;
use sha1::{Digest, Sha1};

use super::ProjectFlags;
use crate::compile::Cohort;

/// A response body and its entity tag.
#[derive(Clone, Debug)]
pub struct LocalEvaluation {
    pub body: String,
    /// Without quotes.
    pub tag: String,
}

#[derive(Serialize)]
struct Body<'a> {
    flags: Vec<FlagDefinition>,
    group_type_mapping: BTreeMap<String, &'a str>,
    cohorts: BTreeMap<String, &'a Value>,
    minimal_flag_called_events: bool,
    property_matching_version: u8,
}

impl ProjectFlags {
    /// Built on first use, and cached with the compiled flags.
    pub fn local_evaluation(&self) -> &LocalEvaluation {
        self.local.get_or_init(|| {
            let body = serde_json::to_string(&self.body()).unwrap_or_default();
            let digest = Sha1::digest(body.as_bytes());
            let tag = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            LocalEvaluation { body, tag }
        })
    }

    /// Flags are sorted by key, so that equal flags give the same tag.
    fn body(&self) -> Body<'_> {
        let shared = || self.definitions.iter().filter(|flag| !flag.has_encrypted_payloads);
        let reached = self.reached(shared());
        Body {
            flags: shared().map(|flag| self.set.for_local_evaluation(flag)).collect(),
            group_type_mapping: self
                .group_types
                .iter()
                .enumerate()
                .filter_map(|(index, name)| Some((index.to_string(), name.as_deref()?)))
                .collect(),
            // Static cohorts are not sent: the SDK falls back to the server for them.
            cohorts: self
                .cohorts
                .iter()
                .filter(|cohort| reached.contains(&cohort.id))
                .filter_map(|cohort| match &cohort.kind {
                    CohortKind::Dynamic(tree) => Some((cohort.id.to_string(), tree)),
                    CohortKind::Static => None,
                })
                .collect(),
            minimal_flag_called_events: false,
            property_matching_version: 1,
        }
    }
    /// The cohorts that flags reference, directly or through other cohorts.
    fn reached<'d>(
        &self,
        definitions: impl Iterator<Item = &'d FlagDefinition>,
    ) -> HashSet<CohortId> {
        let mut open: Vec<CohortId> =
            definitions.flat_map(|flag| filters::cohorts(&flag.filters)).collect();
        let mut reached = HashSet::new();
        while let Some(id) = open.pop() {
            if reached.insert(id)
                && let Some(Cohort::Dynamic(tree)) = self.set.cohorts.get(&id)
            {
                tree.cohorts(&mut open);
            }
        }
        reached
    }
}
