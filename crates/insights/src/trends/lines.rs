//! A table of cells becomes lines: ranked, cut at the limit, the rest put together.

use serde_json::{Value as Json, json};

use crate::breakdown::{Breakdown, NO_VALUE, OTHER};
use crate::tally::{Cell, Tally};

/// What of an answer a line is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    Whole,
    /// Texts, one for each dimension, and whether they are shown as a list.
    Values(Vec<String>, bool),
    /// No value in any dimension.
    Null(Vec<String>, bool),
    /// What is beyond the limit.
    Other(usize, bool),
    /// A cohort, or everybody.
    Cohort(Option<i64>, String),
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub share: Share,
    pub data: Vec<f64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    pub lines: Vec<Line>,
    /// Some values are beyond the limit.
    pub more: bool,
}

impl Share {
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

    /// As `breakdown_value`.
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

    /// Values as ranked, then none, then the rest.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Null(..) => 1,
            Self::Other(..) => 2,
            _ => 0,
        }
    }
}

/// Numbers by breakdown value.
pub(crate) trait Table {
    /// Every value that was met, with what it is ranked by; only those that may come before the
    /// limit if [`Table::has_more`].
    fn weights(&self) -> Vec<(u32, f64)>;
    /// Whether there are values that come behind the limit for sure.
    fn has_more(&self) -> bool {
        false
    }
    fn data(&self, value: u32) -> Vec<f64>;
    /// Of several values, and all behind, as if they were one; nothing is asked of those any more.
    fn together(&mut self, values: Vec<u32>) -> Vec<f64>;
}

/// Cells, and how they come to numbers.
pub(crate) struct Cells<C, F, W> {
    pub tally: Tally<C>,
    pub finish: F,
    pub weight: W,
}

impl<C: Cell, F: Fn(&[&C]) -> Vec<f64>, W: Fn(&[f64]) -> f64> Table for Cells<C, F, W> {
    fn weights(&self) -> Vec<(u32, f64)> {
        let weigh = |value| (value, (self.weight)(&self.data(value)));
        self.tally.values().map(weigh).collect()
    }

    fn data(&self, value: u32) -> Vec<f64> {
        let empty = C::default();
        let mut data = Vec::new();
        self.tally.show(value, &empty, |cells| data = (self.finish)(cells));
        data
    }

    fn together(&mut self, values: Vec<u32>) -> Vec<f64> {
        let together = self.tally.take(values);
        (self.finish)(&together.iter().collect::<Vec<&C>>())
    }
}

/// Largest first by weight.
pub(crate) fn rank(mut table: impl Table, breakdown: &Breakdown) -> Lines {
    let mut ranked = table.weights();
    let binned = breakdown.dimensions.iter().any(|dimension| dimension.bins.is_some());
    let limit = if binned { ranked.len() } else { breakdown.limit.min(ranked.len()) };
    breakdown.sort(&mut ranked, limit);
    let rest = ranked.split_off(limit);
    let more = !rest.is_empty() || table.has_more();
    let listed = breakdown.listed;
    let mut lines: Vec<Line> = Vec::with_capacity(ranked.len() + 1);
    for (value, _) in ranked {
        let texts = breakdown.texts(value);
        let share = match value {
            NO_VALUE => Share::Null(texts, listed),
            _ => Share::Values(texts, listed),
        };
        lines.push(Line { share, data: table.data(value) });
    }
    if more && !breakdown.hide_other {
        let data = table.together(rest.into_iter().map(|(value, _)| value).collect());
        let share = Share::Other(breakdown.dimensions.len(), listed);
        lines.push(Line { share, data });
    }
    // Stable, so that what is ranked stays so.
    lines.sort_by_key(|line| line.share.rank());
    Lines { lines, more }
}
