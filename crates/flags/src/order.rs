//! Which flag must be answered before which.

/// What a flag's dependencies allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Sound,
    /// Some dependency, however far, does not exist.
    Missing,
    /// It waits for itself, or for flags that do.
    Cyclic,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    Open,
    Done,
}

/// Positions so that each comes after those it depends on, and the standing of each. A dependency
/// that does not exist is `None`.
pub(crate) fn arrange(depends: &[Vec<Option<usize>>]) -> (Vec<usize>, Vec<Standing>) {
    let mut order = Vec::with_capacity(depends.len());
    let mut standing = vec![Standing::Sound; depends.len()];
    let mut marks = vec![Mark::New; depends.len()];
    // Without recursion: a chain may be as long as a project has flags.
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
                Some(None) => standing[flag] = Standing::Missing,
                Some(Some(below)) => match marks[*below] {
                    Mark::New => {
                        marks[*below] = Mark::Open;
                        path.push((*below, 0));
                    }
                    Mark::Open => standing[flag] = Standing::Cyclic,
                    Mark::Done => inherit(&mut standing, flag, *below),
                },
                None => {
                    marks[flag] = Mark::Done;
                    order.push(flag);
                    path.pop();
                    if let Some((above, _)) = path.last() {
                        inherit(&mut standing, *above, flag);
                    }
                }
            }
        }
    }
    spread(depends, &mut standing);
    (order, standing)
}

fn inherit(standing: &mut [Standing], flag: usize, below: usize) {
    if standing[flag] == Standing::Sound {
        standing[flag] = standing[below];
    }
}

/// A member of a cycle may have been left before the cycle was found.
fn spread(depends: &[Vec<Option<usize>>], standing: &mut [Standing]) {
    loop {
        let mut changed = false;
        for (flag, below) in depends.iter().enumerate() {
            if standing[flag] != Standing::Sound {
                continue;
            }
            let broken = below.iter().flatten().find(|below| standing[**below] != Standing::Sound);
            if let Some(broken) = broken {
                standing[flag] = standing[*broken];
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}
