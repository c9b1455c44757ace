//! Evaluation order of flags that depend on other flags.

/// Whether a flag's dependencies can be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyState {
    Resolved,
    /// A direct or transitive dependency does not exist.
    Missing,
    /// It is part of a dependency cycle, or depends on one.
    Cyclic,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

/// Topological order by depth-first search, and the state of each flag. `depends` holds indexes;
/// `None` is a dependency that does not exist.
pub(crate) fn topological_order(
    depends: &[Vec<Option<usize>>],
) -> (Vec<usize>, Vec<DependencyState>) {
    let mut order = Vec::with_capacity(depends.len());
    let mut states = vec![DependencyState::Resolved; depends.len()];
    let mut marks = vec![Mark::New; depends.len()];
    // Iterative, as a chain may be as long as the project has flags.
    let mut path: Vec<(usize, usize)> = Vec::new();
    for start in 0..depends.len() {
        if marks[start] == Mark::New {
            marks[start] = Mark::Open;
            path.push((start, 0));
        }
        while let Some((at, next)) = path.last_mut() {
            let (flag, step) = (*at, *next);
            *next += 1;
            match depends[flag].get(step) {
                Some(None) => states[flag] = DependencyState::Missing,
                Some(Some(below)) => match marks[*below] {
                    Mark::New => {
                        marks[*below] = Mark::Open;
                        path.push((*below, 0));
                    }
                    Mark::Open => states[flag] = DependencyState::Cyclic,
                    Mark::Done => inherit(&mut states, flag, *below),
                },
                None => {
                    marks[flag] = Mark::Done;
                    order.push(flag);
                    path.pop();
                    if let Some((above, _)) = path.last() {
                        inherit(&mut states, *above, flag);
                    }
                }
            }
        }
    }
    spread(depends, &mut states);
    (order, states)
}

fn inherit(states: &mut [DependencyState], flag: usize, below: usize) {
    if states[flag] == DependencyState::Resolved {
        states[flag] = states[below];
    }
}

/// Propagates the states once more: the search may finish a flag before it finds its cycle.
fn spread(depends: &[Vec<Option<usize>>], states: &mut [DependencyState]) {
    loop {
        let mut changed = false;
        for (flag, below) in depends.iter().enumerate() {
            if states[flag] != DependencyState::Resolved {
                continue;
            }
            let broken =
                below.iter().flatten().find(|below| states[**below] != DependencyState::Resolved);
            if let Some(broken) = broken {
                states[flag] = states[*broken];
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}
