//! Selection of the flags that a request evaluates.

use std::collections::HashSet;

use model::flag::EvaluationRuntime;

use crate::flag::Flag;

/// Key prefix of survey targeting flags, which some requests select exclusively.
const SURVEY_PREFIX: &str = "survey-targeting-";

/// Filters on flags; an absent filter selects all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub keys: Option<Vec<String>>,
    pub contexts: HashSet<String>,
    pub runtime: RequestRuntime,
    pub only_surveys: bool,
}

/// The runtime that a request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestRuntime {
    Client,
    Server,
    #[default]
    All,
    Unknown,
}

impl RequestRuntime {
    const fn admits(self, flag: Option<EvaluationRuntime>) -> bool {
        match flag {
            None | Some(EvaluationRuntime::All) => true,
            Some(EvaluationRuntime::Client) => matches!(self, Self::Client | Self::All),
            Some(EvaluationRuntime::Server) => matches!(self, Self::Server | Self::All),
        }
    }
}

impl Selection {
    /// Whether a flag passes all filters but `keys`.
    pub(crate) fn admits(&self, flag: &Flag) -> bool {
        flag.active
            && !flag.encrypted
            && self.runtime.admits(flag.runtime)
            && (!self.only_surveys || flag.key.starts_with(SURVEY_PREFIX))
            && (self.contexts.is_empty()
                || flag.contexts.is_empty()
                || flag.contexts.iter().any(|context| self.contexts.contains(context)))
    }
}
