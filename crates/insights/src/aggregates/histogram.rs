//! Equi-depth histogram bins for breakdowns by number.

use crate::aggregates::function::quantile_of_counts;
use crate::{Error, Result};

const BINS_MAX: usize = 200;

/// Label of the bin for rows without a number.
const NO_NUMBER: &str = r#"["",""]"#;

/// Ascending edges. A bin includes its lower edge and excludes its upper one.
#[derive(Clone, Debug)]
pub(crate) struct Bins(Vec<f64>);

fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

impl Bins {
    /// `numbers` come with their frequencies. Edges are quantiles, rounded to two decimals.
    pub fn new(mut numbers: Vec<(f64, u64)>, count: usize) -> Result<Self> {
        if count == 0 || count > BINS_MAX {
            return Err(Error::Invalid(format!("There can be 1 to {BINS_MAX} bins.")));
        }
        numbers.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let edge = |at: usize| quantile_of_counts(&numbers, at as f64 / count as f64).map(round);
        let mut edges: Vec<f64> = (0..=count).filter_map(edge).collect();
        edges.dedup();
        match edges.as_mut_slice() {
            [] => {}
            [only] => {
                let only = *only;
                edges.push(round(only + 0.01));
            }
            [.., last] => *last = round(*last + 0.01),
        }
        Ok(Self(edges))
    }

    /// Label of the bin that holds a number; the outer bins also hold what lies outside.
    pub fn text(&self, number: Option<f64>) -> String {
        let Some(number) = number.filter(|_| self.0.len() > 1) else { return NO_NUMBER.into() };
        let at = self.0.partition_point(|edge| *edge <= number);
        let at = at.clamp(1, self.0.len() - 1);
        format!("[{},{}]", self.0[at - 1], self.0[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_bins_hold_equal_shares_of_the_values() {
        let bins = Bins::new(vec![(20.0, 1), (10.0, 1), (30.0, 1), (40.125, 1)], 3).unwrap();
        for (number, text) in [
            (10.0, "[10,20]"),
            (19.99, "[10,20]"),
            (20.0, "[20,30]"),
            (30.0, "[30,40.14]"),
            (40.125, "[30,40.14]"),
            (9.0, "[10,20]"),
            (99.0, "[30,40.14]"),
        ] {
            assert_eq!(bins.text(Some(number)), text, "{number}");
        }
        assert_eq!(bins.text(None), r#"["",""]"#);
        assert_eq!(Bins::new(vec![], 3).unwrap().text(Some(1.0)), r#"["",""]"#);
        assert_eq!(Bins::new(vec![(5.0, 9)], 3).unwrap().text(Some(5.0)), "[5,5.01]");
        assert!(Bins::new(vec![], 0).is_err());
    }
}
