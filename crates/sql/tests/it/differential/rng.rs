//! The random number generator of the differential tests.

/// Pseudo-random numbers from a seed (splitmix64).
pub struct Rng(u64);

impl Rng {
    /// Mixes the seed first: neighboring seeds would otherwise give the same sequence, shifted by one.
    pub fn new(seed: u64) -> Self {
        Self(mixed(seed.wrapping_add(1)))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % end
    }

    /// True with a probability of `percent` percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len() as u64) as usize]
    }

    /// Up to `count` different items.
    pub fn pick_some<'a>(&mut self, items: &[&'a str], count: u64) -> Vec<&'a str> {
        let mut left = items.to_vec();
        let count = count.min(left.len() as u64);
        (0..count).map(|_| left.swap_remove(self.below(left.len() as u64) as usize)).collect()
    }
}

fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
