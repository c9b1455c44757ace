//! The events of the demo, one day at a time.

use crate::Demo;
use crate::population::{Appointment, Company, Visitor, appointments, companies, visitors};
use crate::visit::Visit;

/// No day has more events; what is held at once is bounded by it.
pub const EVENTS_PER_DAY_MAX: usize = 4_000;

/// An iterator over the days, oldest first. Each is a list of events in order of time, each event a
/// JSON object of a capture batch.
pub struct Days {
    demo: Demo,
    visitors: Vec<Visitor>,
    companies: Vec<Company>,
    days: std::vec::IntoIter<Vec<Appointment>>,
}

impl Days {
    pub(crate) fn new(demo: &Demo) -> Self {
        let companies = companies(demo.seed);
        let mut visitors = visitors(demo, &companies);
        let days = appointments(demo, &mut visitors).into_iter();
        Self { demo: demo.clone(), visitors, companies, days }
    }
}

impl Iterator for Days {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        let appointments = self.days.next()?;
        let mut events = Vec::new();
        for Appointment { start_ms, visitor } in appointments {
            let visitor = &mut self.visitors[visitor];
            Visit::new(&self.demo, visitor, &mut self.companies, start_ms, &mut events).run();
        }
        let until_ms = self.demo.story.until_ms;
        events.retain(|(ms, _)| *ms <= until_ms);
        // Stable: events of one visit in the same millisecond keep their order.
        events.sort_by_key(|(ms, _)| *ms);
        events.truncate(EVENTS_PER_DAY_MAX);
        Some(events.into_iter().map(|(_, event)| event).collect())
    }
}
