//! Calendar intervals in a project's time zone, and time buckets.

use jiff::tz::TimeZone;
use jiff::{Span, ToSpan as _, Zoned};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Error, Result};

/// Time buckets of one query.
pub(crate) const BUCKETS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Interval {
    Second,
    Minute,
    Hour,
    #[default]
    Day,
    Week,
    Month,
}

impl Interval {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    fn span(self, count: i64) -> Span {
        match self {
            Self::Second => count.seconds(),
            Self::Minute => count.minutes(),
            Self::Hour => count.hours(),
            Self::Day => count.days(),
            Self::Week => count.weeks(),
            Self::Month => count.months(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    pub zone: TimeZone,
    pub week_starts_monday: bool,
}

fn too_far() -> Error {
    Error::invalid("The dates are out of range.")
}

fn micros(at: &Zoned) -> i64 {
    at.timestamp().as_microsecond()
}

impl Calendar {
    pub fn local(&self, at: i64) -> Result<Zoned> {
        let at = jiff::Timestamp::from_microsecond(at).map_err(|_| too_far())?;
        Ok(at.to_zoned(self.zone.clone()))
    }

    /// Start of a window of `days` days whose last day contains `at`.
    pub fn window_start(&self, at: i64, days: i64) -> Result<i64> {
        let day = self.start(at, Interval::Day)?;
        self.start(self.plus(day, Interval::Day, 1 - days)?, Interval::Day)
    }

    /// Start of the interval that contains `at`.
    pub fn start(&self, at: i64, interval: Interval) -> Result<i64> {
        let local = self.local(at)?;
        // Subtract from the instant instead of building a local time: when clocks go back, the
        // repeated hour is two different hours.
        let nanos = i64::from(local.subsec_nanosecond()) / 1_000;
        let second = i64::from(local.second()) * 1_000_000;
        let minute = i64::from(local.minute()) * 60_000_000;
        let day = || local.start_of_day();
        let start = match interval {
            Interval::Second => return Ok(at - nanos),
            Interval::Minute => return Ok(at - second - nanos),
            Interval::Hour => return Ok(at - minute - second - nanos),
            Interval::Day => day(),
            Interval::Week => {
                let weekday = local.weekday();
                let days_in = match self.week_starts_monday {
                    true => weekday.to_monday_zero_offset(),
                    false => weekday.to_sunday_zero_offset(),
                };
                let first = local.date().checked_sub(i64::from(days_in).days());
                first.and_then(|date| date.to_zoned(self.zone.clone()))
            }
            Interval::Month => local.date().first_of_month().to_zoned(self.zone.clone()),
        };
        start.map(|start| micros(&start)).map_err(|_| too_far())
    }

    /// `at` plus `count` calendar intervals; `count` may be negative.
    pub fn plus(&self, at: i64, interval: Interval, count: i64) -> Result<i64> {
        self.shift(at, interval.span(count))
    }

    pub fn shift(&self, at: i64, span: Span) -> Result<i64> {
        let shifted = self.local(at)?.checked_add(span).map_err(|_| too_far())?;
        Ok(micros(&shifted))
    }

    /// Last microsecond of the interval that contains `at`.
    pub fn end(&self, at: i64, interval: Interval) -> Result<i64> {
        Ok(self.next(self.start(at, interval)?, interval)? - 1)
    }

    /// Start of the interval after the one that starts at `start`.
    fn next(&self, start: i64, interval: Interval) -> Result<i64> {
        let next = self.plus(start, interval, 1)?;
        match interval {
            Interval::Second | Interval::Minute | Interval::Hour => Ok(next),
            // Where clocks skip midnight a day starts late; align the next one to its own midnight.
            _ => self.start(next, interval),
        }
    }

    pub fn buckets(&self, from: i64, to: i64, interval: Interval) -> Result<Buckets> {
        let mut starts = Vec::new();
        let mut start = self.start(from, interval)?;
        while start <= to {
            if starts.len() == BUCKETS_MAX {
                let detail = format!("The date range has more than {BUCKETS_MAX} intervals.");
                return Err(Error::Invalid(detail));
            }
            starts.push(start);
            start = self.next(start, interval)?;
        }
        Ok(Buckets { interval, starts, end: start })
    }

    /// `2024-01-05`, or `2024-01-05 14:00:00` for less than a day.
    pub fn day_text(&self, at: i64, interval: Interval) -> Result<String> {
        let format = match interval {
            Interval::Second | Interval::Minute | Interval::Hour => "%Y-%m-%d %H:%M:%S",
            _ => "%Y-%m-%d",
        };
        Ok(self.local(at)?.strftime(format).to_string())
    }

    /// `5-Jan-2024`, `5-Jan 14:00` or `Jan 2024`.
    pub fn label(&self, at: i64, interval: Interval) -> Result<String> {
        let format = match interval {
            Interval::Second => "%-d-%b %H:%M:%S",
            Interval::Minute | Interval::Hour => "%-d-%b %H:%M",
            Interval::Day | Interval::Week => "%-d-%b-%Y",
            Interval::Month => "%b %Y",
        };
        Ok(self.local(at)?.strftime(format).to_string())
    }

    /// ISO 8601 with the zone's offset, `Z` for UTC.
    pub fn iso(&self, at: i64) -> Result<String> {
        let local = self.local(at)?;
        let mut text = local.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        match at.rem_euclid(1_000_000) {
            0 => {}
            fraction => text.push_str(&format!(".{fraction:06}")),
        }
        if local.offset().is_zero() {
            text.push('Z');
        } else {
            text.push_str(&local.strftime("%:z").to_string());
        }
        Ok(text)
    }
}

/// Consecutive calendar intervals.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    pub interval: Interval,
    pub starts: Vec<i64>,
    /// Exclusive end of the last bucket.
    pub end: i64,
}

impl Buckets {
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Joins `count` buckets at a time to one, counted back from the last; the first of the result may
    /// be of fewer.
    pub fn merged(self, count: usize) -> Self {
        let len = self.starts.len();
        let is_first = |at: usize| at == 0 || (len - at).is_multiple_of(count);
        let starts = self.starts.into_iter().enumerate();
        let starts = starts.filter(|(at, _)| is_first(*at)).map(|(_, start)| start).collect();
        Self { starts, ..self }
    }

    /// The bucket that contains `at`.
    pub fn of(&self, at: i64) -> Option<usize> {
        if at >= self.end {
            return None;
        }
        self.starts.partition_point(|start| *start <= at).checked_sub(1)
    }

    pub fn end_of(&self, bucket: usize) -> i64 {
        self.starts.get(bucket + 1).copied().unwrap_or(self.end)
    }

    /// For lookups of timestamps that are mostly close together.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor { buckets: self, from: 1, to: 0, bucket: 0 }
    }
}

/// Caches the bucket of the last lookup: rows are sorted by time, so the next one is mostly the
/// same.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    buckets: &'a Buckets,
    from: i64,
    to: i64,
    bucket: usize,
}

impl Cursor<'_> {
    /// The bucket of the first timestamp, and how many leading timestamps it contains.
    pub fn run(&mut self, times: &[i64]) -> (Option<usize>, usize) {
        let Some(first) = times.first() else { return (None, 0) };
        match self.of(*first) {
            None => (None, 1),
            Some(bucket) => {
                let within = self.from..self.to;
                let end = times.iter().position(|time| !within.contains(time));
                (Some(bucket), end.unwrap_or(times.len()))
            }
        }
    }

    pub fn of(&mut self, at: i64) -> Option<usize> {
        if self.from <= at && at < self.to {
            return Some(self.bucket);
        }
        let bucket = self.buckets.of(at)?;
        (self.from, self.to) = (self.buckets.starts[bucket], self.buckets.end_of(bucket));
        self.bucket = bucket;
        Some(bucket)
    }
}

#[cfg(test)]
mod tests;
