//! Turns a table of aggregates into result lines: ranks values, applies the breakdown limit and merges
//! the rest.

use crate::aggregates::table::{AggregateTable, Cell};
use crate::scan::breakdown::{Breakdown, BreakdownSegment, NO_VALUE};

/// One line of a chart: a number per bucket, or one total.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub segment: BreakdownSegment,
    pub data: Vec<f64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    pub lines: Vec<Line>,
    /// Whether values beyond the breakdown limit exist.
    pub has_more: bool,
}

/// Numbers by breakdown value.
pub(crate) trait Table {
    /// Every value with its ranking weight. If [`Table::has_more`], values that cannot reach the limit
    /// are missing.
    fn weights(&self) -> Vec<(u32, f64)>;
    /// Whether values were pruned because they cannot reach the limit.
    fn has_more(&self) -> bool {
        false
    }
    fn data(&self, value: u32) -> Vec<f64>;
    /// Merges several values, and all pruned ones, into one. The values must not be read again.
    fn merge_values(&mut self, values: Vec<u32>) -> Vec<f64>;
}

/// An aggregate table with the functions that turn cells into numbers and numbers into a weight.
pub(crate) struct Cells<C, F, W> {
    pub table: AggregateTable<C>,
    pub finish: F,
    pub weight: W,
}

impl<C: Cell, F: Fn(&[&C]) -> Vec<f64>, W: Fn(&[f64]) -> f64> Table for Cells<C, F, W> {
    fn weights(&self) -> Vec<(u32, f64)> {
        let weigh = |value| (value, (self.weight)(&self.data(value)));
        self.table.values().map(weigh).collect()
    }

    fn data(&self, value: u32) -> Vec<f64> {
        let empty = C::default();
        let mut data = Vec::new();
        self.table.show(value, &empty, |cells| data = (self.finish)(cells));
        data
    }

    fn merge_values(&mut self, values: Vec<u32>) -> Vec<f64> {
        let merged = self.table.take(values);
        (self.finish)(&merged.iter().collect::<Vec<&C>>())
    }
}

/// Ranks values by weight, descending, and merges those beyond the breakdown limit.
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
        let segment = match value {
            NO_VALUE => BreakdownSegment::Null(texts, listed),
            _ => BreakdownSegment::Values(texts, listed),
        };
        lines.push(Line { segment, data: table.data(value) });
    }
    if more && !breakdown.hide_other {
        let data = table.merge_values(rest.into_iter().map(|(value, _)| value).collect());
        let segment = BreakdownSegment::Other(breakdown.dimensions.len(), listed);
        lines.push(Line { segment, data });
    }
    // The sort is stable and keeps the ranking.
    lines.sort_by_key(|line| line.segment.rank());
    Lines { lines, has_more: more }
}
