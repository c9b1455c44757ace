//! Activity bitmap: one bit per actor and time bucket.
//!
//! Actors arrive in random order, so the time depends on how much of the bitmap fits into the CPU
//! cache. Rows are therefore packed to whole bytes, not words.

use crate::Result;
use crate::limits::MemoryReservation;
use crate::query::calendar::Buckets;
use crate::scan::{Rows, Scan};

#[derive(Debug)]
pub(crate) struct ActivityBitmap {
    buckets: usize,
    /// Bytes per actor.
    stride: usize,
    bits: Vec<u8>,
}

impl ActivityBitmap {
    pub fn new(buckets: usize) -> Self {
        Self { buckets, stride: buckets.div_ceil(8).max(1), bits: Vec::new() }
    }

    /// Sets a bit for every actor and bucket with at least one event.
    pub fn scan(scan: &Scan<'_>, buckets: &Buckets) -> Result<Self> {
        let new = || (Self::new(buckets.len()), scan.limits.reserve());
        let each = |(activity, reservation): &mut (Self, MemoryReservation<'_>),
                    rows: &Rows<'_>| {
            let mut cursor = buckets.cursor();
            for (actor, time) in rows.actors.iter().zip(rows.times) {
                if let Some(bucket) = cursor.of(*time) {
                    activity.set(*actor, bucket);
                }
            }
            reservation.resize(activity.bytes())
        };
        let mut all = Self::new(buckets.len());
        for (activity, _) in scan.fold(new, each)? {
            all.merge(activity);
        }
        Ok(all)
    }

    /// Sets a bit for every actor and bucket whose number of events `passes` accepts.
    pub fn scan_with_count(
        scan: &Scan<'_>,
        buckets: &Buckets,
        passes: impl Fn(u64) -> bool,
    ) -> Result<Self> {
        let new = || (Vec::new(), scan.limits.reserve());
        let each = |(keys, reservation): &mut (Vec<u64>, MemoryReservation<'_>),
                    rows: &Rows<'_>| {
            let mut cursor = buckets.cursor();
            for (actor, time) in rows.actors.iter().zip(rows.times) {
                if let Some(bucket) = cursor.of(*time) {
                    keys.push(u64::from(*actor) << 32 | bucket as u64);
                }
            }
            reservation.resize(keys.capacity() * 8)
        };
        let mut reservation = scan.limits.reserve();
        let mut keys: Vec<u64> = Vec::new();
        for (mut thread_keys, _) in scan.fold(new, each)? {
            keys.append(&mut thread_keys);
            reservation.resize(keys.capacity() * 8)?;
        }
        let mut activity = Self::new(buckets.len());
        activity.set_frequent(keys, passes);
        Ok(activity)
    }

    /// Sets a bit for every actor and bucket with at least `least` events. `bucket_of` places the event
    /// of an actor in one of the buckets, if it counts.
    pub fn scan_placed(
        scan: &Scan<'_>,
        buckets: usize,
        least: u64,
        bucket_of: impl Fn(u32, i64) -> Option<usize> + Sync,
    ) -> Result<Self> {
        type State<'a> = (ActivityBitmap, Vec<u64>, MemoryReservation<'a>);
        let new = || (Self::new(buckets), Vec::new(), scan.limits.reserve());
        let each = |(activity, keys, reservation): &mut State<'_>, rows: &Rows<'_>| {
            for (actor, time) in rows.actors.iter().zip(rows.times) {
                match bucket_of(*actor, *time) {
                    None => {}
                    Some(bucket) if least <= 1 => activity.set(*actor, bucket),
                    Some(bucket) => keys.push(u64::from(*actor) << 32 | bucket as u64),
                }
            }
            reservation.resize(activity.bytes() + keys.capacity() * 8)
        };
        let mut reservation = scan.limits.reserve();
        let (mut all, mut keys) = (Self::new(buckets), Vec::new());
        for (activity, mut thread_keys, _) in scan.fold(new, each)? {
            all.merge(activity);
            keys.append(&mut thread_keys);
            reservation.resize(all.bytes() + keys.capacity() * 8)?;
        }
        all.set_frequent(keys, |count| count >= least);
        Ok(all)
    }

    /// Sets a bit for each distinct key, an actor and a bucket, whose number `passes` accepts.
    fn set_frequent(&mut self, mut keys: Vec<u64>, passes: impl Fn(u64) -> bool) {
        keys.sort_unstable();
        for equal in keys.chunk_by(|a, b| a == b) {
            if passes(equal.len() as u64) {
                self.set((equal[0] >> 32) as u32, (equal[0] & 0xffff_ffff) as usize);
            }
        }
    }

    pub fn set(&mut self, actor: u32, bucket: usize) {
        let at = actor as usize * self.stride + bucket / 8;
        if at >= self.bits.len() {
            self.bits.resize((actor as usize + 1) * self.stride, 0);
        }
        self.bits[at] |= 1 << (bucket % 8);
    }

    pub fn has(&self, actor: u32, bucket: usize) -> bool {
        let at = actor as usize * self.stride + bucket / 8;
        bucket < self.buckets && self.bits.get(at).is_some_and(|bits| bits >> (bucket % 8) & 1 == 1)
    }

    /// The last bucket in which the actor was active.
    pub fn last(&self, actor: u32) -> Option<usize> {
        let row = self.row(actor)?;
        let at = row.iter().rposition(|bits| *bits != 0)?;
        Some(at * 8 + 7 - row[at].leading_zeros() as usize)
    }

    fn row(&self, actor: u32) -> Option<&[u8]> {
        let start = actor as usize * self.stride;
        self.bits.get(start..start + self.stride)
    }

    /// Calls `each` with every active actor and its buckets in ascending order.
    pub fn for_each(&self, mut each: impl FnMut(u32, &[usize])) {
        let mut active = Vec::new();
        for (actor, row) in self.bits.chunks(self.stride).enumerate() {
            active.clear();
            for (at, bits) in row.iter().enumerate() {
                let mut bits = *bits;
                while bits != 0 {
                    active.push(at * 8 + bits.trailing_zeros() as usize);
                    bits &= bits - 1;
                }
            }
            if !active.is_empty() {
                each(actor as u32, &active);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        if self.bits.len() < other.bits.len() {
            let (own, other) = (std::mem::replace(&mut self.bits, other.bits), &mut self.bits);
            other.iter_mut().zip(own).for_each(|(bits, own)| *bits |= own);
        } else {
            self.bits.iter_mut().zip(other.bits).for_each(|(own, bits)| *own |= bits);
        }
    }

    pub fn bytes(&self) -> usize {
        self.bits.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_bitmap_stores_merges_and_iterates_buckets() {
        let mut activity = ActivityBitmap::new(130);
        for (actor, bucket) in [(2, 0), (2, 64), (2, 129), (0, 63)] {
            activity.set(actor, bucket);
        }
        let mut other = ActivityBitmap::new(130);
        other.set(5, 7);
        activity.merge(other);
        let mut active = Vec::new();
        activity.for_each(|actor, there| active.push((actor, there.to_vec())));
        assert_eq!(active, [(0, vec![63]), (2, vec![0, 64, 129]), (5, vec![7])]);
        assert!(
            activity.has(2, 64)
                && !activity.has(2, 65)
                && !activity.has(9, 0)
                && !activity.has(2, 200)
        );
        assert_eq!(
            (activity.last(2), activity.last(1), activity.last(99)),
            (Some(129), None, None)
        );
    }
}
