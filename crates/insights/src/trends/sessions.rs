//! How long sessions were.

use crate::Result;
use crate::question::{Meant, Question};
use crate::range::Period;
use crate::scan::{Actors, Rows, Scan};
use crate::stop::Held;

/// Sessions are looked at this far around the period: SDKs end them after a day.
const AROUND_MICROS: i64 = 86_400_000_000;

/// Seconds from the first to the last event, by the number `actors` gives a session.
pub(crate) fn durations(
    question: &Question<'_>,
    period: &Period,
    actors: &Actors,
) -> Result<Vec<f64>> {
    let from = period.from.saturating_sub(AROUND_MICROS);
    let to = period.to.saturating_add(AROUND_MICROS);
    let scan = question.scan(Meant::everything().filter(from, to));
    let scan = Scan { actors: Some(actors), ..scan };
    type Bounds = Vec<(i64, i64)>;
    fn widen(bounds: &mut Bounds, at: usize, from: i64, to: i64) {
        if at >= bounds.len() {
            bounds.resize(at + 1, (i64::MAX, i64::MIN));
        }
        let own = &mut bounds[at];
        *own = (own.0.min(from), own.1.max(to));
    }
    let new = || (Bounds::new(), question.stop.hold());
    let each = |(bounds, held): &mut (Bounds, Held<'_>), rows: &Rows<'_>| {
        for (session, time) in rows.actors.iter().zip(rows.times) {
            widen(bounds, *session as usize, *time, *time);
        }
        held.set(bounds.capacity() * size_of::<(i64, i64)>())
    };
    let mut all = Bounds::new();
    for (bounds, _) in scan.fold(new, each)? {
        for (at, (from, to)) in bounds.into_iter().enumerate() {
            widen(&mut all, at, from, to);
        }
    }
    let seconds = |(from, to): (i64, i64)| (to.saturating_sub(from).max(0) / 1_000_000) as f64;
    Ok(all.into_iter().map(seconds).collect())
}
