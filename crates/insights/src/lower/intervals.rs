//! Calendar intervals as expressions in the project's time zone.

use hogql::ast::Expr;
use hogql::build::{call, int, literal, timestamp};
use model::Timestamp;

use crate::Result;
use crate::lower::expression;
use crate::query::calendar::{Buckets, Calendar, Interval};

/// The buckets of one period.
#[derive(Clone, Copy)]
pub(crate) struct Intervals<'a> {
    pub calendar: &'a Calendar,
    pub buckets: &'a Buckets,
}

impl Intervals<'_> {
    /// An instant in the project's time zone, which calendar functions read from its type.
    pub fn local(&self, at: i64) -> Expr {
        let zone = self.calendar.zone.iana_name().unwrap_or("UTC");
        call("toTimeZone", vec![timestamp(Timestamp::from_micros(at)), literal(zone)])
    }

    fn first(&self) -> i64 {
        self.buckets.starts.first().copied().unwrap_or(self.buckets.end)
    }

    /// Start of the first bucket.
    pub fn start(&self) -> Expr {
        self.local(self.first())
    }

    /// Whether the hours of the buckets are those of the clock: a clock change by half an hour shifts
    /// those after it.
    fn is_aligned(&self) -> bool {
        let interval = self.buckets.interval;
        let is_start = |at: &i64| self.calendar.start(*at, interval).is_ok_and(|own| own == *at);
        interval != Interval::Hour || self.buckets.starts.iter().all(is_start)
    }

    /// Start of the bucket that contains a time.
    pub fn bucket(&self, time: Expr) -> Result<Expr> {
        let monday = int(u64::from(self.calendar.week_starts_monday));
        let text = match self.buckets.interval {
            Interval::Second => "toStartOfSecond({time})",
            Interval::Minute => "toStartOfMinute({time})",
            Interval::Hour if !self.is_aligned() => {
                "addHours({start}, intDiv(dateDiff('second', {start}, {time}), 3600))"
            }
            Interval::Hour => "toStartOfHour({time})",
            Interval::Day => "toStartOfDay({time})",
            Interval::Week => "toDateTime(toStartOfWeek({time}, {monday}))",
            Interval::Month => "toDateTime(toStartOfMonth({time}))",
        };
        let start = self.start();
        expression(text, &[("time", time), ("monday", monday), ("start", start)])
    }

    /// The starts of all buckets, as an array.
    pub fn list(&self) -> Result<Expr> {
        let step = match self.buckets.interval {
            Interval::Second => "addSeconds({start}, n)",
            Interval::Minute => "addMinutes({start}, n)",
            Interval::Hour => "addHours({start}, n)",
            Interval::Day => "addDays({start}, n)",
            Interval::Week => "addWeeks({start}, n)",
            Interval::Month => "addMonths({start}, n)",
        };
        // Where clocks skip midnight, a day starts late.
        let start = self.bucket(expression(step, &[("start", self.start())])?)?;
        let count = int(self.buckets.len() as u64);
        expression("arrayMap(n -> {start}, range({count}))", &[("start", start), ("count", count)])
    }

    /// The index of the bucket that contains a time; negative before the first one.
    pub fn index(&self, time: Expr) -> Result<Expr> {
        let text = match self.buckets.interval {
            Interval::Second => "dateDiff('second', {start}, {bucket})",
            Interval::Minute => "intDiv(dateDiff('second', {start}, {bucket}), 60)",
            Interval::Hour => "intDiv(dateDiff('second', {start}, {bucket}), 3600)",
            Interval::Day => "dateDiff('day', {start}, {bucket})",
            Interval::Week => "intDiv(dateDiff('day', {start}, {bucket}), 7)",
            Interval::Month => "dateDiff('month', {start}, {bucket})",
        };
        expression(text, &[("start", self.start()), ("bucket", self.bucket(time)?)])
    }

    /// The last day of a bucket, at most the day of `to`.
    pub fn last_day(&self, bucket: Expr, to: i64) -> Result<Expr> {
        let text = match self.buckets.interval {
            Interval::Second | Interval::Minute | Interval::Hour => "toStartOfDay({bucket})",
            Interval::Day => "{bucket}",
            Interval::Week => "least(toStartOfDay(addDays({bucket}, 6)), toStartOfDay({to}))",
            Interval::Month => {
                "least(toStartOfDay(subtractDays(addMonths({bucket}, 1), 1)), toStartOfDay({to}))"
            }
        };
        expression(text, &[("bucket", bucket), ("to", self.local(to))])
    }
}
