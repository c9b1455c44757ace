//! The order in which objects are created: each after those that it refers to.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::kind::Key;

/// An object and what it refers to.
#[derive(Clone, Debug)]
pub struct Node {
    pub key: Key,
    pub references: BTreeSet<Key>,
}

/// Indexes of the nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Those that can be created, each after its references. The given order decides between equals.
    pub sorted: Vec<usize>,
    /// Those that refer to themselves, directly or through others: none of them can be the first.
    pub cyclic: Vec<usize>,
}

/// References to objects that are no nodes do not order anything.
pub fn order(nodes: &[Node]) -> Order {
    let by_key: HashMap<&Key, usize> =
        nodes.iter().enumerate().map(|(at, node)| (&node.key, at)).collect();
    let edges: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| node.references.iter().filter_map(|key| by_key.get(key).copied()).collect())
        .collect();
    let all = vec![true; nodes.len()];
    let (sorted, remaining) = sort(&edges, &all);
    if sorted.len() == nodes.len() {
        return Order { sorted, cyclic: Vec::new() };
    }
    let cyclic: Vec<usize> =
        (0..nodes.len()).filter(|at| remaining[*at] && reaches_itself(&edges, *at)).collect();
    // Without the cycles the rest can be sorted: what refers to them is refused for that reason.
    let mut acyclic = all;
    cyclic.iter().for_each(|at| acyclic[*at] = false);
    Order { sorted: sort(&edges, &acyclic).0, cyclic }
}

/// Kahn's algorithm on the nodes of `among`; also returns which of them have no place.
fn sort(edges: &[Vec<usize>], among: &[bool]) -> (Vec<usize>, Vec<bool>) {
    let mut awaited = vec![0_usize; edges.len()];
    let mut referrers: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    for (at, references) in edges.iter().enumerate().filter(|(at, _)| among[*at]) {
        for reference in references.iter().filter(|reference| among[**reference]) {
            awaited[at] += 1;
            referrers[*reference].push(at);
        }
    }
    let mut ready: BTreeSet<usize> =
        (0..edges.len()).filter(|at| among[*at] && awaited[*at] == 0).collect();
    let (mut sorted, mut remaining) = (Vec::new(), among.to_vec());
    while let Some(at) = ready.pop_first() {
        sorted.push(at);
        remaining[at] = false;
        for referrer in &referrers[at] {
            awaited[*referrer] -= 1;
            if awaited[*referrer] == 0 {
                ready.insert(*referrer);
            }
        }
    }
    (sorted, remaining)
}

fn reaches_itself(edges: &[Vec<usize>], start: usize) -> bool {
    let mut seen = vec![false; edges.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for reference in &edges[at] {
            if *reference == start {
                return true;
            }
            if !std::mem::replace(&mut seen[*reference], true) {
                queue.push_back(*reference);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    /// `graph` lists nodes with their references, as in `a:bc b c`.
    fn ordered(graph: &str) -> (String, String) {
        let key = |id: char| Key::new(Kind::Cohort, id);
        let nodes: Vec<Node> = graph
            .split(' ')
            .map(|node| {
                let mut ids = node.chars().filter(|id| *id != ':').map(key);
                Node { key: ids.next().unwrap(), references: ids.collect() }
            })
            .collect();
        let order = order(&nodes);
        let names =
            |indexes: &[usize]| indexes.iter().map(|at| nodes[*at].key.id.as_str()).collect();
        (names(&order.sorted), names(&order.cyclic))
    }

    #[test]
    fn objects_follow_what_they_refer_to() {
        for (graph, sorted, cyclic) in [
            ("a:b b:c c", "cba", ""),
            ("a b c", "abc", ""),
            ("a:z b:a", "ab", ""),
            ("a:a b", "b", "a"),
            // `d` refers to a cycle, `e` is referred to by one.
            ("a:be b:a d:a e", "de", "ab"),
            ("a:bc b:d c:d d", "dbca", ""),
        ] {
            assert_eq!(ordered(graph), (sorted.into(), cyclic.into()), "{graph}");
        }
    }

    #[test]
    fn long_chains_need_no_stack() {
        let nodes: Vec<Node> = (0..20_000)
            .map(|at| Node {
                key: Key::new(Kind::Cohort, at.to_string()),
                references: BTreeSet::from([Key::new(Kind::Cohort, (at + 1).to_string())]),
            })
            .collect();
        assert_eq!(order(&nodes).sorted.len(), nodes.len());
    }
}
