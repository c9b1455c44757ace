//! Which flags a request asks for.

use std::collections::HashSet;

use model::flag::EvaluationRuntime;

use crate::flag::Flag;

/// Survey targeting flags are internal; some requests ask for nothing else.
const SURVEY_PREFIX: &str = "survey-targeting-";

/// Absent filters let everything through.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub keys: Option<Vec<String>>,
    pub contexts: HashSet<String>,
    pub runtime: RequestRuntime,
    pub only_surveys: bool,
}

/// Where a request comes from.
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
    /// Whether a flag is evaluated, apart from being asked for by its key.
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
