//! One number out of many.

use crate::spec::Math;
use crate::tally::Stat;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AggregateFn {
    Sum,
    Avg,
    Min,
    Max,
    /// Interpolated linearly between ranks.
    Quantile(f64),
}

impl AggregateFn {
    pub fn of_property(math: Math) -> Option<Self> {
        Some(match math {
            Math::Sum => Self::Sum,
            Math::Avg => Self::Avg,
            Math::Min => Self::Min,
            Math::Max => Self::Max,
            Math::Median => Self::Quantile(0.5),
            Math::P75 => Self::Quantile(0.75),
            Math::P90 => Self::Quantile(0.9),
            Math::P95 => Self::Quantile(0.95),
            Math::P99 => Self::Quantile(0.99),
            _ => return None,
        })
    }

    pub fn of_count_per_actor(math: Math) -> Option<Self> {
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

    /// No data is 0.
    pub fn of_stat(self, stat: &Stat) -> f64 {
        if stat.count == 0 {
            return 0.0;
        }
        match self {
            Self::Sum => stat.sum,
            Self::Avg => stat.sum / stat.count as f64,
            Self::Min => stat.min,
            Self::Max => stat.max,
            // Quantiles need all numbers.
            Self::Quantile(_) => 0.0,
        }
    }

    /// No data is 0.
    pub fn of(self, mut numbers: Vec<f64>) -> f64 {
        match self {
            Self::Quantile(part) => {
                numbers.sort_unstable_by(f64::total_cmp);
                quantile(&numbers, part).unwrap_or(0.0)
            }
            other => {
                let mut stat = Stat::default();
                numbers.into_iter().for_each(|number| stat.add(number));
                other.of_stat(&stat)
            }
        }
    }
}

/// Of sorted numbers.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = part * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[low] + (sorted[high.min(last)] - sorted[low]) * (place - low as f64))
}

/// Of sorted numbers with how often each is there.
pub(crate) fn quantile_of_counts(sorted: &[(f64, u64)], part: f64) -> Option<f64> {
    let all: u64 = sorted.iter().map(|(_, count)| count).sum();
    let place = part * all.checked_sub(1)? as f64;
    let at = |rank: u64| {
        let mut seen = 0;
        let found = sorted.iter().find(|(_, count)| {
            seen += count;
            seen > rank
        });
        found.or(sorted.last()).map(|(number, _)| *number)
    };
    let (low, high) = (at(place.floor() as u64)?, at(place.ceil() as u64)?);
    Some(low + (high - low) * (place - place.floor()))
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
        assert_eq!(AggregateFn::Quantile(0.5).of(vec![3.0, 1.0]), 2.0);
        assert_eq!(AggregateFn::Avg.of(vec![]), 0.0);
    }
}
