//! In which buckets each actor was there: one bit each.
//!
//! Actors come in no order, so how much of all this a processor's own memory holds decides how long
//! it takes: few buckets take few bytes.

use crate::Result;
use crate::calendar::Buckets;
use crate::limits::MemoryReservation;
use crate::scan::{Rows, Scan};

#[derive(Debug)]
pub(crate) struct Masks {
    buckets: usize,
    /// Bytes of an actor.
    stride: usize,
    bits: Vec<u8>,
}

impl Masks {
    pub fn new(buckets: usize) -> Self {
        Self { buckets, stride: buckets.div_ceil(8).max(1), bits: Vec::new() }
    }

    /// Who was there when.
    pub fn of(scan: &Scan<'_>, buckets: &Buckets) -> Result<Self> {
        let new = || (Self::new(buckets.len()), scan.limits.reserve());
        let each = |(masks, reservation): &mut (Self, MemoryReservation<'_>), rows: &Rows<'_>| {
            let mut cursor = buckets.cursor();
            for (actor, time) in rows.actors.iter().zip(rows.times) {
                if let Some(bucket) = cursor.of(*time) {
                    masks.set(*actor, bucket);
                }
            }
            reservation.resize(masks.bytes())
        };
        let mut all = Self::new(buckets.len());
        for (masks, _) in scan.fold(new, each)? {
            all.absorb(masks);
        }
        Ok(all)
    }

    /// Who was there often enough, as `passes` says of how often.
    pub fn counted(
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
        for (mut own, _) in scan.fold(new, each)? {
            keys.append(&mut own);
            reservation.resize(keys.capacity() * 8)?;
        }
        keys.sort_unstable();
        let mut masks = Self::new(buckets.len());
        for equal in keys.chunk_by(|a, b| a == b) {
            if passes(equal.len() as u64) {
                masks.set((equal[0] >> 32) as u32, (equal[0] & 0xffff_ffff) as usize);
            }
        }
        Ok(masks)
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

    /// The last bucket in which the actor was there.
    pub fn last(&self, actor: u32) -> Option<usize> {
        let own = self.own(actor)?;
        let at = own.iter().rposition(|bits| *bits != 0)?;
        Some(at * 8 + 7 - own[at].leading_zeros() as usize)
    }

    fn own(&self, actor: u32) -> Option<&[u8]> {
        let start = actor as usize * self.stride;
        self.bits.get(start..start + self.stride)
    }

    /// Everybody who was there at all, with the buckets in ascending order.
    pub fn for_each(&self, mut each: impl FnMut(u32, &[usize])) {
        let mut there = Vec::new();
        for (actor, own) in self.bits.chunks(self.stride).enumerate() {
            there.clear();
            for (at, bits) in own.iter().enumerate() {
                let mut bits = *bits;
                while bits != 0 {
                    there.push(at * 8 + bits.trailing_zeros() as usize);
                    bits &= bits - 1;
                }
            }
            if !there.is_empty() {
                each(actor as u32, &there);
            }
        }
    }

    fn absorb(&mut self, other: Self) {
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
    fn bits_are_kept_for_actors_and_buckets() {
        let mut masks = Masks::new(130);
        for (actor, bucket) in [(2, 0), (2, 64), (2, 129), (0, 63)] {
            masks.set(actor, bucket);
        }
        let mut other = Masks::new(130);
        other.set(5, 7);
        masks.absorb(other);
        let mut found = Vec::new();
        masks.for_each(|actor, there| found.push((actor, there.to_vec())));
        assert_eq!(found, [(0, vec![63]), (2, vec![0, 64, 129]), (5, vec![7])]);
        assert!(masks.has(2, 64) && !masks.has(2, 65) && !masks.has(9, 0) && !masks.has(2, 200));
        assert_eq!((masks.last(2), masks.last(1), masks.last(99)), (Some(129), None, None));
    }
}
