//! UTC months: a segment never spans two, so that old ones are dropped and compacted apart.

use std::fmt;

use serde::{Deserialize, Serialize};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Months since year 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Month(i64);

impl Month {
    pub fn of(micros: i64) -> Month {
        // Days are counted from 1 March of year 0 in eras of 400 years: leap days then come last.
        let days = micros.div_euclid(MICROS_PER_DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let day = days.rem_euclid(146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        Month((era * 400 + year) * 12 + from_march + 2)
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_begins_and_ends_at_midnight_utc() {
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
            assert_eq!(Month::of(micros).to_string(), expected);
        }
    }
}
