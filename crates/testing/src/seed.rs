//! Seeds of tests that draw at random.

use std::ops::{Deref, Range};

use rand::distr::uniform::{SampleRange, SampleUniform};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};

/// The environment variable that sets the seed of every test.
pub const SEED: &str = "HEDGEROW_TEST_SEED";

/// The seed of a test. Prints how to run the test again with it when dropped by a panic.
#[must_use = "it prints itself when the test fails"]
#[derive(Debug)]
pub struct Seed(u64);

/// The seed that [`SEED`] sets, or a new one for every run.
pub fn seed() -> Seed {
    seed_or(rand::random())
}

/// The seed that [`SEED`] sets, or `default`: the test draws the same in every run.
pub fn seed_or(default: u64) -> Seed {
    Seed(given_seed().unwrap_or(default))
}

/// The one seed that [`SEED`] sets, or each of `defaults`.
pub fn seeds(defaults: Range<u64>) -> impl Iterator<Item = Seed> {
    let seeds = given_seed().map_or_else(|| defaults.collect(), |seed| vec![seed]);
    seeds.into_iter().map(Seed)
}

/// The seed that [`SEED`] sets, for a test with a seed for each of its cases.
pub fn given_seed() -> Option<u64> {
    let value = std::env::var(SEED).ok()?;
    Some(value.parse().unwrap_or_else(|why| panic!("{SEED}={value}: {why}")))
}

impl Seed {
    pub fn rng(&self) -> Rng {
        Rng::new(self.0)
    }
}

impl Deref for Seed {
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.0
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("rerun with {SEED}={}", self.0);
        }
    }
}

/// A seeded random number generator.
#[derive(Debug)]
pub struct Rng(StdRng);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Another generator, for another thread of the same test.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.random()
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        self.0.random()
    }

    pub fn range<T: SampleUniform>(&mut self, range: impl SampleRange<T>) -> T {
        self.0.random_range(range)
    }

    /// True with a probability of `percent` percent.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.range(0..100) < percent
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items.choose(&mut self.0).expect("there is something to pick").clone()
    }

    /// Up to `count` different items.
    pub fn pick_some<T: Clone>(&mut self, items: &[T], count: usize) -> Vec<T> {
        items.sample(&mut self.0, count).cloned().collect()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        items.shuffle(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(mut rng: Rng) -> Vec<u64> {
        (0..20).map(|_| rng.range(0..1_000_000)).collect()
    }

    #[test]
    fn equal_seeds_draw_equal_numbers() {
        assert_eq!(draws(Rng::new(7)), draws(Rng::new(7)));
        assert_ne!(draws(Rng::new(7)), draws(Rng::new(8)));
        let (mut one, mut other) = (Rng::new(7), Rng::new(7));
        assert_eq!(draws(one.fork()), draws(other.fork()));
        assert_ne!(draws(one.fork()), draws(one.fork()));
    }

    /// Runs itself with a seed in the environment, which must reach the output of the failed test.
    #[test]
    fn failing_test_prints_the_seed_it_was_given() {
        const CHILD: &str = "TESTING_FAILS";
        if std::env::var_os(CHILD).is_some() {
            let given = seed();
            panic!("drew {}", given.rng().range(0..1_000_000));
        }
        let run = || {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "seed::tests::failing_test_prints_the_seed_it_was_given"])
                .env(CHILD, "1")
                .env(SEED, "42")
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let printed = run();
        assert!(printed.contains("rerun with HEDGEROW_TEST_SEED=42"), "{printed}");
        let drew =
            |text: &str| text.lines().find(|line| line.starts_with("drew ")).map(str::to_owned);
        assert!(drew(&printed).is_some(), "{printed}");
        assert_eq!(drew(&printed), drew(&run()));
    }
}
