//! The first event of each actor.

use crate::Result;
use crate::limits::MemoryReservation;
use crate::scan::breakdown::{Breakdown, first_by_text};
use crate::scan::{Rows, Scan};

const NEVER: i64 = i64::MAX;

/// Arrays by actor number.
#[derive(Debug, Default)]
pub(crate) struct FirstEvents {
    /// Timestamp of the first event, or [`NEVER`].
    times: Vec<i64>,
    /// Breakdown value of the first event; empty without a breakdown.
    values: Vec<u32>,
}

impl FirstEvents {
    pub fn scan(scan: &Scan<'_>) -> Result<Self> {
        let new = || (Self::default(), scan.limits.reserve());
        let each = |(firsts, reservation): &mut (Self, MemoryReservation<'_>), rows: &Rows<'_>| {
            (0..rows.len()).for_each(|row| {
                let value = rows.values.get(row).copied();
                firsts.add(rows.actor(row), rows.times[row], value, scan.breakdown);
            });
            reservation.resize(firsts.times.capacity() * 8 + firsts.values.capacity() * 4)
        };
        let mut states = scan.fold(new, each)?.into_iter().map(|(firsts, _)| firsts);
        let mut all = states.next().unwrap_or_default();
        for firsts in states {
            for (actor, time) in firsts.times.iter().enumerate().filter(|(_, time)| **time != NEVER)
            {
                let value = firsts.values.get(actor).copied();
                all.add(actor as u32, *time, value, scan.breakdown);
            }
        }
        Ok(all)
    }

    fn add(&mut self, actor: u32, time: i64, value: Option<u32>, breakdown: Option<&Breakdown>) {
        let at = actor as usize;
        if at >= self.times.len() {
            self.times.resize(at + 1, NEVER);
        }
        let current = self.times[at];
        if time > current {
            return;
        }
        self.times[at] = time;
        if let (Some(value), Some(breakdown)) = (value, breakdown) {
            if at >= self.values.len() {
                self.values.resize(at + 1, value);
            }
            // Among events with equal timestamps the smallest string wins, so that the result does
            // not depend on which thread read which part.
            self.values[at] = match time < current {
                true => value,
                false => first_by_text(breakdown, value, std::iter::once(self.values[at])),
            };
        }
    }

    pub fn time(&self, actor: u32) -> Option<i64> {
        self.times.get(actor as usize).copied().filter(|time| *time != NEVER)
    }

    /// Actor, timestamp and breakdown value of each first event.
    pub fn iter(&self) -> impl Iterator<Item = (u32, i64, u32)> {
        let all = self.times.iter().enumerate().filter(|(_, time)| **time != NEVER);
        all.map(|(at, time)| (at as u32, *time, self.values.get(at).copied().unwrap_or(0)))
    }

    pub fn bytes(&self) -> usize {
        self.times.capacity() * 8 + self.values.capacity() * 4
    }
}
