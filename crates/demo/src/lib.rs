//! The demo project: thirty days of events of a made-up plant shop, and the flags, cohorts, actions,
//! annotations and the dashboard that show them.
//!
//! A pure function of the seed, the end of the range and the time zone: equal arguments give equal
//! bytes. It opens no store. `api` sends the events through capture and creates the objects with the
//! validation of its endpoints. Names and addresses are made up; e-mail addresses are at
//! `example.com`.

mod assortment;
mod objects;
mod population;
mod random;
mod story;
mod stream;
mod visit;

pub use objects::ObjectIds;
pub use story::DAYS;
pub use stream::{Days, EVENTS_PER_DAY_MAX};

use jiff::tz::TimeZone;
use model::Timestamp;
use serde_json::{Value, json};
use story::Story;

/// The project's name.
pub const PROJECT_NAME: &str = "Demo shop";
/// Another seed gives other visitors with the same habits.
pub const SEED: u64 = 0x4865_6467_6572_6f77;

/// Hashes `(flag key, identifier, salt)` to a number from 0 to 1. It is a parameter so that events
/// report the flag values that the server evaluates for the same ids.
pub type Bucket = fn(&str, &str, &str) -> f64;

/// The arguments of the generator.
#[derive(Clone)]
pub struct Demo {
    story: Story,
    seed: u64,
    bucket: Bucket,
    ranges: Ranges,
}

/// How insights name their days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Back from the day on which somebody looks.
    Relative,
    /// From date to date, so that pictures of the demo do not change from day to day.
    Absolute,
}

impl Demo {
    /// Events end at `until`, and days are those of `zone`; an unknown zone counts as UTC.
    pub fn new(seed: u64, until: Timestamp, zone: &str, ranges: Ranges, bucket: Bucket) -> Self {
        let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
        Self { story: Story::new(until, zone), seed, bucket, ranges }
    }

    /// The events, day by day, as the JSON objects of a capture batch.
    pub fn days(&self) -> Days {
        Days::new(self)
    }

    /// The last `days` days and the unfinished one, as a query's `dateRange`.
    fn range(&self, days: usize) -> Value {
        match self.ranges {
            Ranges::Relative => json!({ "date_from": format!("-{days}d") }),
            Ranges::Absolute => {
                let date = |day: usize| self.story.date(day).to_string();
                json!({ "date_from": date(DAYS.saturating_sub(days)), "date_to": date(DAYS) })
            }
        }
    }
}

#[cfg(test)]
mod tests;
