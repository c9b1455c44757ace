//! Partitions: UTC months, so that old rows are compacted and dropped separately, and three others
//! that bound the number of small partitions.

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) const MICROS_PER_DAY: i64 = 86_400_000_000;

/// 2000-01-01T00:00:00Z
const EARLY_BEFORE: i64 = 946_684_800_000_000;
/// A year and a day, so that timestamps up to a year ahead get a month.
const LATE_AFTER: i64 = 366 * MICROS_PER_DAY;

/// Months since year 0, or a negative number for a partition that is not a month. Months before year
/// 0 do not occur: those rows are `early`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Partition(i64);

impl Partition {
    /// Timestamps before the year 2000.
    pub const EARLY: Partition = Partition(-1);
    /// Timestamps more than a year after the time of the merge.
    pub const LATE: Partition = Partition(-2);
    /// Rows of several months with few rows each.
    pub const MIXED: Partition = Partition(-3);

    /// The partition of a timestamp in a merge at `now`, both in microseconds.
    pub fn of(micros: i64, now: i64) -> Partition {
        match micros {
            ..EARLY_BEFORE => Partition::EARLY,
            _ if micros > now.saturating_add(LATE_AFTER) => Partition::LATE,
            _ => Partition::month_of(micros),
        }
    }

    /// Whether it is a month.
    pub fn is_month(self) -> bool {
        ![Partition::EARLY, Partition::LATE, Partition::MIXED].contains(&self)
    }

    /// Whether a segment's file name may start with `name`.
    pub fn is_name(name: &str) -> bool {
        let is_month = || {
            let (year, month) = name.trim_start_matches('-').split_once('-')?;
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            (year.len() >= 3 && month.len() == 2 && digits(year) && digits(month)).then_some(())
        };
        ["early", "late", "mixed"].contains(&name) || is_month().is_some()
    }

    fn month_of(micros: i64) -> Partition {
        // The civil-from-days algorithm: days since 1 March of year 0, in eras of 400 years, so that
        // leap days come last.
        let days = micros.div_euclid(MICROS_PER_DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let day = days.rem_euclid(146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        Partition((era * 400 + year) * 12 + from_march + 2)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Partition::EARLY => return f.write_str("early"),
            Partition::LATE => return f.write_str("late"),
            Partition::MIXED => return f.write_str("mixed"),
            Partition(_) => {}
        }
        write!(f, "{:04}-{:02}", self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_before_2000_are_early_and_far_future_ones_late() {
        let now = 1_773_100_800_000_000;
        for (micros, expected) in [
            (i64::MIN, "early"),
            (EARLY_BEFORE - 1, "early"),
            (EARLY_BEFORE, "2000-01"),
            (now + LATE_AFTER, "2027-03"),
            (now + LATE_AFTER + 1, "late"),
            (i64::MAX, "late"),
        ] {
            let name = Partition::of(micros, now).to_string();
            assert_eq!(name, expected);
            assert!(Partition::is_name(&name));
        }
        // Names of older versions.
        for name in ["1899-12", "-001-12", "12000-01", "mixed"] {
            assert!(Partition::is_name(name), "{name}");
        }
        for name in ["", "mine", "2026", "2026-3", "2026-03-x", "20x6-03"] {
            assert!(!Partition::is_name(name), "{name}");
        }
    }

    #[test]
    fn month_partitions_begin_and_end_at_midnight_utc() {
        for (micros, expected) in [
            (0, "1970-01"),
            (-1, "1969-12"),
            (1_709_251_199_999_999, "2024-02"),
            (1_709_251_200_000_000, "2024-03"),
            (1_735_689_599_999_999, "2024-12"),
            (1_735_689_600_000_000, "2025-01"),
            (951_782_400_000_000, "2000-02"),
            (951_868_800_000_000, "2000-03"),
            (-2_208_988_800_000_001, "1899-12"),
        ] {
            assert_eq!(Partition::month_of(micros).to_string(), expected);
        }
    }
}
