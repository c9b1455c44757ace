//! Frame-of-reference encoding of cached integers: the offset from the minimum, in whole bytes.

use std::ops::Range;

use crate::columns::ABSENT;

/// An integer that maps to a `u64` in the same order.
pub(crate) trait PackedInt: Copy {
    fn to_bits(self) -> u64;
    fn from_bits(word: u64) -> Self;
}

/// [`ABSENT`] maps to zero, so that it needs no more bytes than the codes next to it.
impl PackedInt for u32 {
    fn to_bits(self) -> u64 {
        u64::from(self.wrapping_sub(ABSENT))
    }

    fn from_bits(word: u64) -> Self {
        (word as u32).wrapping_add(ABSENT)
    }
}

const SIGN: u64 = 1 << 63;

impl PackedInt for i64 {
    fn to_bits(self) -> u64 {
        self as u64 ^ SIGN
    }

    fn from_bits(word: u64) -> Self {
        (word ^ SIGN) as i64
    }
}

/// Each value is stored as its offset from the minimum, in `width` bytes.
#[derive(Debug)]
pub(crate) struct PackedInts {
    min: u64,
    width: usize,
    bytes: Box<[u8]>,
    len: usize,
}

impl PackedInts {
    pub fn pack<T: PackedInt>(values: &[T]) -> Self {
        let words = || values.iter().map(|number| number.to_bits());
        let min = words().min().unwrap_or(0);
        let max_offset = words().max().unwrap_or(0) - min;
        let width = (u64::BITS - max_offset.leading_zeros()).div_ceil(8) as usize;
        let mut bytes = Vec::with_capacity(values.len() * width);
        for word in words() {
            bytes.extend_from_slice(&(word - min).to_le_bytes()[..width]);
        }
        Self { min, width, bytes: bytes.into(), len: values.len() }
    }

    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the values of some rows; `None` if they are out of range.
    pub fn read<T: PackedInt>(&self, rows: Range<usize>, out: &mut Vec<T>) -> Option<()> {
        if rows.start > rows.end || rows.end > self.len {
            return None;
        }
        let bytes = &self.bytes[rows.start * self.width..rows.end * self.width];
        match self.width {
            0 => out.extend(std::iter::repeat_n(T::from_bits(self.min), rows.len())),
            1 => self.widen::<1, T>(bytes, out),
            2 => self.widen::<2, T>(bytes, out),
            3 => self.widen::<3, T>(bytes, out),
            4 => self.widen::<4, T>(bytes, out),
            5 => self.widen::<5, T>(bytes, out),
            6 => self.widen::<6, T>(bytes, out),
            7 => self.widen::<7, T>(bytes, out),
            _ => self.widen::<8, T>(bytes, out),
        }
        Some(())
    }

    fn widen<const WIDTH: usize, T: PackedInt>(&self, bytes: &[u8], out: &mut Vec<T>) {
        let (values, _) = bytes.as_chunks::<WIDTH>();
        out.extend(values.iter().map(|number| {
            let mut word = [0; 8];
            word[..WIDTH].copy_from_slice(number);
            T::from_bits(self.min.wrapping_add(u64::from_le_bytes(word)))
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: PackedInt + PartialEq + std::fmt::Debug>(values: &[T], bytes: usize) {
        let narrow = PackedInts::pack(values);
        assert_eq!(narrow.memory_bytes(), bytes, "{values:?}");
        let mut read: Vec<T> = Vec::new();
        narrow.read(0..values.len(), &mut read).unwrap();
        assert_eq!(read, values);
        read.clear();
        narrow.read(1..2, &mut read).unwrap();
        assert_eq!(read, values[1..2]);
        assert_eq!(narrow.read(1..values.len() + 1, &mut read), None);
    }

    #[test]
    fn packed_ints_round_trip_in_the_fewest_whole_bytes() {
        check(&[7u32, 7, 7], 0);
        check(&[0, ABSENT, 3], 3);
        check(&[0, ABSENT, 254], 3);
        check(&[0, ABSENT, 255], 6);
        check(&[ABSENT - 1, ABSENT, 0], 12);
        check(&[70_000u32, 0, 1 << 23], 9);
        for bits in 0..64 {
            let max_offset = i64::MIN.wrapping_add((1u64 << bits) as i64);
            check(&[i64::MIN, max_offset, i64::MIN], 3 * (bits as usize / 8 + 1));
        }
        check(&[i64::MIN, i64::MAX], 16);
        check(&[-5i64, 1_767_225_600_000_000, 0], 21);
        assert_eq!(PackedInts::pack::<u32>(&[]).read::<u32>(0..0, &mut Vec::new()), Some(()));
    }
}
