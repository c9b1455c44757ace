//! Labels of the parts of a broken-down result.

use hashbrown::HashSet;
use serde_json::{Value as Json, json};

use super::{Breakdown, OTHER};

/// The part of a broken-down result that one line or table describes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BreakdownSegment {
    /// The result is not broken down.
    Whole,
    /// One string per dimension, and whether the client gets them as a list.
    Values(Vec<String>, bool),
    /// No value in any dimension.
    Null(Vec<String>, bool),
    /// All values beyond the limit: the number of dimensions, and whether they are a list.
    Other(usize, bool),
    /// A cohort, or all users.
    Cohort(Option<i64>, String),
}

impl BreakdownSegment {
    fn texts(&self) -> Vec<String> {
        match self {
            Self::Whole => Vec::new(),
            Self::Values(texts, _) | Self::Null(texts, _) => texts.clone(),
            Self::Other(dimensions, _) => vec![OTHER.to_owned(); *dimensions],
            Self::Cohort(_, name) => vec![name.clone()],
        }
    }

    pub fn label(&self) -> String {
        self.texts().join("::")
    }

    /// As `breakdown_value` in results.
    pub fn json(&self) -> Json {
        match self {
            Self::Cohort(None, _) => json!("all"),
            Self::Cohort(Some(id), _) => json!(id),
            Self::Values(_, true) | Self::Null(_, true) | Self::Other(_, true) => {
                json!(self.texts())
            }
            _ => json!(self.label()),
        }
    }

    /// Sort key: values in their order, then the absent value, then the rest.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Null(..) => 1,
            Self::Other(..) => 2,
            _ => 0,
        }
    }
}

/// Ids of breakdown values.
#[derive(Clone, Debug)]
pub(crate) enum ValueSet {
    All,
    Only(HashSet<u32>),
    AllBut(HashSet<u32>),
}

impl ValueSet {
    pub fn contains(&self, value: u32) -> bool {
        match self {
            Self::All => true,
            Self::Only(values) => values.contains(&value),
            Self::AllBut(values) => !values.contains(&value),
        }
    }
}

impl Breakdown {
    /// The values that a segment of a result describes. `all` are the result's segments.
    pub fn values_in<'s>(
        &self,
        segment: &BreakdownSegment,
        all: impl Iterator<Item = &'s BreakdownSegment>,
    ) -> ValueSet {
        let own = |segment: &BreakdownSegment| match segment {
            BreakdownSegment::Values(texts, _) | BreakdownSegment::Null(texts, _) => {
                self.values_of(texts)
            }
            _ => Vec::new(),
        };
        match segment {
            BreakdownSegment::Values(..) | BreakdownSegment::Null(..) => {
                ValueSet::Only(own(segment).into_iter().collect())
            }
            _ => ValueSet::AllBut(all.flat_map(own).collect()),
        }
    }
}
