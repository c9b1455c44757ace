//! SplitMix64. The generators of `rand` may change with a release, and so would the demo.

/// Odd constants of SplitMix64: its increment and its two multipliers.
const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;
const MULTIPLIERS: [u64; 2] = [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB];

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// An independent stream for each `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(INCREMENT));
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(INCREMENT);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(MULTIPLIERS[0]);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(MULTIPLIERS[1]);
        mixed ^ (mixed >> 31)
    }

    /// From 0 inclusive to 1 exclusive.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// From 0 to `end`, exclusive; 0 for 0.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.unit() * end as f64) as u64
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// The index of a weight, chosen in proportion to it.
    pub fn weighted(&mut self, weights: impl Iterator<Item = f64> + Clone) -> usize {
        let mut left = self.unit() * weights.clone().sum::<f64>();
        let mut last = 0;
        for (index, weight) in weights.enumerate() {
            last = index;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }

    /// Sixteen random bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes()
    }
}
