//! The period of a web analytics query, and the one that it is compared with.

use facts::QueryContext;
use hogql::ast::{BinaryOp, Expr};
use hogql::build::{all, any, binary, boolean, field, timestamp};
use model::Timestamp;

use crate::Result;
use crate::query::calendar::Interval;
use crate::query::date_range::{DateResolver, Period};
use crate::query::spec::{CompareFilter, DateRange};

pub(super) struct Periods<'a> {
    dates: DateResolver,
    current: Period,
    previous: Option<Period>,
    range: &'a DateRange,
}

impl<'a> Periods<'a> {
    pub fn new(
        context: &QueryContext,
        range: &'a DateRange,
        compare: &CompareFilter,
    ) -> Result<Self> {
        let dates = DateResolver::new(context);
        let current = dates.period(range, Interval::Day)?;
        // Naming a period to compare with is enough.
        let compare_to = compare.compare_to.clone();
        let compare = compare.compare || compare_to.as_ref().is_some_and(|text| !text.is_empty());
        let compare = CompareFilter { compare, compare_to };
        let previous = dates.previous(&current, range, &compare)?;
        Ok(Self { dates, current, previous, range })
    }

    pub fn compares(&self) -> bool {
        self.previous.is_some()
    }

    /// Whether the query names no dates.
    pub fn is_unbounded(&self) -> bool {
        let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        !given(&self.range.date_from) && !given(&self.range.date_to)
    }

    /// Whether a time lies in the period.
    pub fn current(&self, time: &str) -> Expr {
        within(time, &self.current)
    }

    /// Whether a time lies in the period that is compared with; false without one.
    pub fn previous(&self, time: &str) -> Expr {
        self.previous.as_ref().map_or_else(|| boolean(false), |period| within(time, period))
    }

    pub fn any(&self, time: &str) -> Expr {
        match self.compares() {
            true => any(vec![self.current(time), self.previous(time)]),
            false => self.current(time),
        }
    }

    pub fn resolved(&self) -> Result<(String, String)> {
        let calendar = &self.dates.calendar;
        Ok((calendar.iso(self.current.from)?, calendar.iso(self.current.to)?))
    }
}

fn within(time: &str, period: &Period) -> Expr {
    let at = |micros: i64| timestamp(Timestamp::from_micros(micros));
    all(vec![
        binary(BinaryOp::GreaterOrEqual, field(&[time]), at(period.from)),
        binary(BinaryOp::LessOrEqual, field(&[time]), at(period.to)),
    ])
}
