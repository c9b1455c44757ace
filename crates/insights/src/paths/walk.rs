//! Splits an actor's events into paths and emits their edges.

use hashbrown::HashSet;

use crate::scan::actor_events::ActorEvent;

/// A longer gap between events ends a path.
pub(super) const SESSION_GAP_MICROS: i64 = 30 * 60 * 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Edge {
    /// Step of the source node, counted from 1.
    pub step: usize,
    pub from: u32,
    pub to: u32,
}

/// Start point, end point and step limit of paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathBounds {
    pub start: Option<u32>,
    pub end: Option<u32>,
    pub steps: usize,
    /// Item that replaces the elided middle of a path.
    pub gap: u32,
}

/// Calls `each` with every edge and the timestamps of its ends. `order` ranks items for ties.
pub(crate) fn walk(
    events: &[ActorEvent],
    order: &[u32],
    bounds: &PathBounds,
    mut each: impl FnMut(Edge, [i64; 2]),
) {
    let mut events = events.to_vec();
    events.sort_unstable_by_key(|event| (event.time, order[event.tag as usize]));
    for session in events.chunk_by(|a, b| b.time - a.time <= SESSION_GAP_MICROS) {
        let mut path: Vec<(u32, i64)> =
            session.iter().map(|event| (event.tag, event.time)).collect();
        path.dedup_by_key(|(item, _)| *item);
        let Some(path) = bounds.apply(&path) else { continue };
        for (at, pair) in path.windows(2).enumerate() {
            let edge = Edge { step: at + 1, from: pair[0].0, to: pair[1].0 };
            each(edge, [pair[0].1, pair[1].1]);
        }
    }
}

impl PathBounds {
    /// The part of a path within the bounds; none if it lacks the start or end point.
    fn apply(&self, path: &[(u32, i64)]) -> Option<Vec<(u32, i64)>> {
        let position = |path: &[(u32, i64)], item: u32| path.iter().position(|(at, _)| *at == item);
        let mut path = path;
        if let Some(start) = self.start {
            path = &path[position(path, start)?..];
        }
        if let Some(end) = self.end {
            path = &path[..=position(path, end)?];
        }
        if path.len() <= self.steps {
            return Some(path.to_vec());
        }
        Some(match (self.start, self.end) {
            (Some(_), Some(_)) => {
                let half = self.steps / 2;
                let (first, rest) = path.split_at(half);
                let last = &rest[rest.len() - half..];
                let middle = rest.first().map(|(_, time)| (self.gap, *time));
                first.iter().copied().chain(middle).chain(last.iter().copied()).collect()
            }
            (None, Some(_)) => path[path.len() - self.steps..].to_vec(),
            _ => path[..self.steps].to_vec(),
        })
    }
}

/// Which edges are reachable from a first step through the other edges.
pub(crate) fn reachable(edges: &[Edge]) -> Vec<bool> {
    let mut known: HashSet<(usize, u32)> = HashSet::new();
    let mut reachable = vec![false; edges.len()];
    let mut by_step: Vec<usize> = (0..edges.len()).collect();
    by_step.sort_unstable_by_key(|at| edges[*at].step);
    for at in by_step {
        let Edge { step, from, to } = edges[at];
        if step == 1 || known.contains(&(step, from)) {
            known.insert((step + 1, to));
            reachable[at] = true;
        }
    }
    reachable
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn edges(minutes: &[(i64, u32)], bounds: &PathBounds) -> Vec<(usize, u32, u32, i64)> {
        let event =
            |(minute, tag): &(i64, u32)| ActorEvent { actor: 0, time: minute * MINUTE, tag: *tag };
        let events: Vec<ActorEvent> = minutes.iter().map(event).collect();
        let order: Vec<u32> = (0..100).collect();
        let mut edges = Vec::new();
        walk(&events, &order, bounds, |edge, [from, to]| {
            edges.push((edge.step, edge.from, edge.to, (to - from) / MINUTE));
        });
        edges
    }

    fn bounds(start: Option<u32>, end: Option<u32>, steps: usize) -> PathBounds {
        PathBounds { start, end, steps, gap: 99 }
    }

    // contract: query 98
    #[test]
    fn session_gap_ends_a_path() {
        let all = bounds(None, None, 5);
        assert_eq!(edges(&[(0, 1), (30, 2)], &all), [(1, 1, 2, 30)]);
        assert_eq!(edges(&[(0, 1), (31, 2)], &all), []);
        assert_eq!(edges(&[(0, 1), (1, 1), (2, 2)], &all), [(1, 1, 2, 2)]);
        assert_eq!(edges(&[(0, 2), (0, 1)], &all), [(1, 1, 2, 0)]);
    }

    #[test]
    fn paths_are_trimmed_to_start_end_and_step_limit() {
        let long: Vec<(i64, u32)> = (1..=8).map(|at| (i64::from(at), at)).collect();
        let steps = |bounds: &PathBounds| -> Vec<(usize, u32, u32)> {
            edges(&long, bounds).into_iter().map(|(step, from, to, _)| (step, from, to)).collect()
        };
        assert_eq!(steps(&bounds(None, None, 3)), [(1, 1, 2), (2, 2, 3)]);
        assert_eq!(steps(&bounds(Some(3), None, 3)), [(1, 3, 4), (2, 4, 5)]);
        assert_eq!(steps(&bounds(None, Some(6), 3)), [(1, 4, 5), (2, 5, 6)]);
        assert_eq!(steps(&bounds(Some(50), None, 3)), []);
        assert_eq!(
            steps(&bounds(Some(2), Some(8), 5)),
            [(1, 2, 3), (2, 3, 99), (3, 99, 7), (4, 7, 8)]
        );
        assert_eq!(steps(&bounds(Some(2), Some(4), 5)), [(1, 2, 3), (2, 3, 4)]);
    }

    #[test]
    fn unreachable_edges_are_dropped() {
        let edge = |step, from, to| Edge { step, from, to };
        let edges = [edge(2, 5, 6), edge(1, 1, 2), edge(2, 2, 3), edge(3, 6, 7)];
        assert_eq!(reachable(&edges), [false, true, true, false]);
    }
}
