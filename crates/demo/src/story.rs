//! What happens in the thirty days, which the events show and the annotations name.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{ToSpan as _, Zoned};
use model::Timestamp;

/// Days of events before the one that `until` is in.
pub const DAYS: usize = 30;
/// Days before the last one.
const PRODUCT_PAGE_TEST: usize = 24;
const NEWSLETTER: usize = 20;
const CHECKOUT_RELEASE: usize = 12;
const OUTAGE: usize = 5;
const OUTAGE_HOURS: std::ops::Range<i64> = 14..17;
const HOUR_MS: i64 = 3_600_000;

/// Visits by weekday, Monday first.
const WEEKDAYS: [f64; 7] = [1.0, 1.06, 1.04, 1.0, 0.86, 0.48, 0.52];
/// Visits by hour: office hours, and an evening on the sofa.
const HOURS: [f64; 24] = [
    0.6, 0.3, 0.2, 0.15, 0.15, 0.3, 0.8, 1.8, 3.4, 5.0, 6.0, 6.2, 5.2, 5.6, 6.0, 5.6, 4.8, 3.8,
    3.2, 3.6, 4.2, 3.8, 2.4, 1.2,
];
/// Growth of new visitors a day, in parts of the first day's.
const GROWTH: f64 = 0.012;
const NEWSLETTER_BOOST: f64 = 1.9;

/// The calendar of the demo: day 0 is the first, day [`DAYS`] the unfinished one.
#[derive(Clone)]
pub(crate) struct Story {
    pub until_ms: i64,
    first: Date,
    /// When each day begins.
    midnights_ms: Vec<i64>,
}

impl Story {
    pub fn new(until: Timestamp, zone: TimeZone) -> Self {
        let until_ms = until.as_micros().div_euclid(1_000);
        let last = at(until_ms, &zone).date();
        let mut story = Self { until_ms, first: last, midnights_ms: Vec::new() };
        // A day before the first of the calendar does not exist.
        story.first = last.checked_sub((DAYS as i64).days()).unwrap_or(last);
        let midnight = |day: usize| {
            let midnight = story.date(day).to_zoned(zone.clone());
            midnight.map_or(until_ms, |zoned| zoned.timestamp().as_millisecond())
        };
        story.midnights_ms = (0..=DAYS).map(midnight).collect();
        story
    }

    pub fn date(&self, day: usize) -> Date {
        self.first.checked_add((day as i64).days()).unwrap_or(self.first)
    }

    /// Milliseconds of an hour of a day.
    pub fn ms(&self, day: usize, hour: i64) -> i64 {
        self.midnights_ms[day] + hour * HOUR_MS
    }

    pub fn timestamp(&self, day: usize, hour: i64) -> Timestamp {
        Timestamp::from_millis(self.ms(day, hour))
    }

    /// How busy a day is: its weekday, and a newsletter.
    pub fn traffic(&self, day: usize) -> f64 {
        let weekday = WEEKDAYS[self.date(day).weekday().to_monday_zero_offset() as usize];
        let news = if day == Self::newsletter() { NEWSLETTER_BOOST } else { 1.0 };
        weekday * news
    }

    /// The weight of new visitors.
    pub fn arrivals(&self, day: usize) -> f64 {
        self.traffic(day) * (1.0 + GROWTH * day as f64)
    }

    pub const fn hours() -> [f64; 24] {
        HOURS
    }

    pub const fn product_page_test() -> usize {
        DAYS - PRODUCT_PAGE_TEST
    }

    pub const fn newsletter() -> usize {
        DAYS - NEWSLETTER
    }

    pub const fn checkout_release() -> usize {
        DAYS - CHECKOUT_RELEASE
    }

    pub const fn outage() -> usize {
        DAYS - OUTAGE
    }

    /// Whether the payment provider is down.
    pub fn is_outage(&self, ms: i64) -> bool {
        let from = self.ms(Self::outage(), OUTAGE_HOURS.start);
        ms >= from && ms < self.ms(Self::outage(), OUTAGE_HOURS.end)
    }

    pub fn has_product_page_test(&self, ms: i64) -> bool {
        ms >= self.ms(Self::product_page_test(), 9)
    }

    pub fn has_new_checkout(&self, ms: i64) -> bool {
        ms >= self.ms(Self::checkout_release(), 10)
    }
}

fn at(ms: i64, zone: &TimeZone) -> Zoned {
    let instant = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    instant.to_zoned(zone.clone())
}
