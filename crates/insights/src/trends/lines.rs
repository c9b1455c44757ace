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

/// Largest first by `weight`.
pub(crate) fn rank<C: Cell>(
    mut tally: Tally<C>,
    breakdown: &Breakdown,
    finish: &dyn Fn(&[&C]) -> Vec<f64>,
    weight: &dyn Fn(&[f64]) -> f64,
) -> Lines {
    let empty = C::default();
    let mut ranked: Vec<(u32, f64)> = Vec::new();
    for value in tally.values() {
        tally.show(value, &empty, |cells| ranked.push((value, weight(&finish(cells)))));
    }
    let binned = breakdown.dimensions.iter().any(|dimension| dimension.bins.is_some());
    let limit = if binned { ranked.len() } else { breakdown.limit.min(ranked.len()) };
    breakdown.sort(&mut ranked, limit);
    let rest = ranked.split_off(limit);
    let more = !rest.is_empty();
    let listed = breakdown.listed;
    let mut lines: Vec<Line> = Vec::with_capacity(ranked.len() + 1);
    for (value, _) in ranked {
        let texts = breakdown.texts(value);
        let share = match value {
            NO_VALUE => Share::Null(texts, listed),
            _ => Share::Values(texts, listed),
        };
        tally.show(value, &empty, |cells| lines.push(Line { share, data: finish(cells) }));
    }
    if more && !breakdown.hide_other {
        let together = tally.take(rest.into_iter().map(|(value, _)| value));
        let cells: Vec<&C> = together.iter().collect();
        let share = Share::Other(breakdown.dimensions.len(), listed);
        lines.push(Line { share, data: finish(&cells) });
    }
    // Stable, so that what is ranked stays so.
    lines.sort_by_key(|line| line.share.rank());
    Lines { lines, more }
}
