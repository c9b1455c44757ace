//! Aggregate functions over numbers.

use crate::aggregates::table::Summary;
use crate::query::spec::Math;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AggregateFn {
    Sum,
    Avg,
    Min,
    Max,
    /// Interpolates linearly between ranks.
    Quantile(f64),
}

impl AggregateFn {
    /// The function of a `math` over a property.
    pub fn for_property(math: Math) -> Option<Self> {
        Some(match math {
            Math::Sum => Self::Sum,
            Math::Avg => Self::Avg,
            Math::Min => Self::Min,
            Math::Max => Self::Max,
            Math::Median => Self::Quantile(0.5),
            Math::P25 => Self::Quantile(0.25),
            Math::P75 => Self::Quantile(0.75),
            Math::P90 => Self::Quantile(0.9),
            Math::P95 => Self::Quantile(0.95),
            Math::P99 => Self::Quantile(0.99),
            _ => return None,
        })
    }

    /// The function of a `math` over the number of events per actor.
    pub fn for_count_per_actor(math: Math) -> Option<Self> {
        Some(match math {
            Math::AvgCountPerActor => Self::Avg,
            Math::MinCountPerActor => Self::Min,
            Math::MaxCountPerActor => Self::Max,
            Math::MedianCountPerActor => Self::Quantile(0.5),
            Math::P75CountPerActor => Self::Quantile(0.75),
            Math::P90CountPerActor => Self::Quantile(0.9),
            Math::P95CountPerActor => Self::Quantile(0.95),
            Math::P99CountPerActor => Self::Quantile(0.99),
            _ => return None,
        })
    }

    /// 0 without data, and for quantiles, which need all values.
    pub fn of_summary(self, summary: &Summary) -> f64 {
        if summary.count == 0 {
            return 0.0;
        }
        match self {
            Self::Sum => summary.sum,
            Self::Avg => summary.sum / summary.count as f64,
            Self::Min => summary.min,
            Self::Max => summary.max,
            Self::Quantile(_) => 0.0,
        }
    }

    /// 0 without data.
    pub fn of_values(self, mut numbers: Vec<f64>) -> f64 {
        match self {
            Self::Quantile(part) => {
                numbers.sort_unstable_by(f64::total_cmp);
                quantile(&numbers, part).unwrap_or(0.0)
            }
            other => {
                let mut summary = Summary::default();
                numbers.into_iter().for_each(|number| summary.add(number));
                other.of_summary(&summary)
            }
        }
    }
}

/// Quantile `part` (0 to 1) of sorted numbers; none without numbers.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = part * last as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    Some(sorted[low] + (sorted[high.min(last)] - sorted[low]) * (rank - low as f64))
}

/// As [`quantile`], of sorted numbers with their frequencies.
pub(crate) fn quantile_of_counts(sorted: &[(f64, u64)], part: f64) -> Option<f64> {
    let all: u64 = sorted.iter().map(|(_, count)| count).sum();
    let rank = part * all.checked_sub(1)? as f64;
    let at = |rank: u64| {
        let mut cumulative = 0;
        let entry = sorted.iter().find(|(_, count)| {
            cumulative += count;
            cumulative > rank
        });
        entry.or(sorted.last()).map(|(number, _)| *number)
    };
    let (low, high) = (at(rank.floor() as u64)?, at(rank.ceil() as u64)?);
    Some(low + (high - low) * (rank - rank.floor()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_ranks() {
        for (numbers, part, expected) in [
            (&[1.0, 2.0, 3.0, 4.0][..], 0.5, Some(2.5)),
            (&[1.0, 2.0, 3.0, 4.0], 0.75, Some(3.25)),
            (&[1.0, 2.0, 3.0, 4.0], 1.0, Some(4.0)),
            (&[7.0], 0.99, Some(7.0)),
            (&[], 0.5, None),
        ] {
            assert_eq!(quantile(numbers, part), expected);
            let counted: Vec<(f64, u64)> = numbers.iter().map(|number| (*number, 1)).collect();
            assert_eq!(quantile_of_counts(&counted, part), expected);
        }
        assert_eq!(quantile_of_counts(&[(1.0, 3), (5.0, 1)], 0.5), Some(1.0));
        assert_eq!(AggregateFn::Quantile(0.5).of_values(vec![3.0, 1.0]), 2.0);
        assert_eq!(AggregateFn::Avg.of_values(vec![]), 0.0);
    }
}
