//! Parquet's RLE/bit-packing hybrid, for dictionary codes and definition levels.
//!
//! A run is a varint header and then either one value (`header = length << 1`) or groups of eight
//! bit-packed values (`header = groups << 1 | 1`), least significant bits first.

use std::ops::Range;

/// Shorter runs are smaller bit-packed.
const RUN_MIN: usize = 8;

pub(crate) fn width_of(largest: u32) -> u32 {
    u32::BITS - largest.leading_zeros()
}

/// Appends the encoding of `values`, each below `1 << width`.
pub(crate) fn encode(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let mut packed_from = 0;
    let mut at = 0;
    while at < values.len() {
        let length = run_length(&values[at..]);
        // A bit-packed run has whole groups of eight values, so a repeated run can start only after one.
        let ragged = (8 - (at - packed_from) % 8) % 8;
        if length < RUN_MIN + ragged {
            at += length;
            continue;
        }
        let run_from = at + ragged;
        pack(&values[packed_from..run_from], width, out);
        varint(((length - ragged) as u64) << 1, out);
        out.extend_from_slice(&values[at].to_le_bytes()[..width.div_ceil(8) as usize]);
        at += length;
        packed_from = at;
    }
    pack(&values[packed_from..], width, out);
}

fn run_length(values: &[u32]) -> usize {
    values.iter().take_while(|value| **value == values[0]).count()
}

fn pack(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let (mut window, mut filled) = (0u64, 0u32);
    let padding = groups * 8 - values.len();
    for value in values.iter().copied().chain(std::iter::repeat_n(0, padding)) {
        window |= u64::from(value) << filled;
        filled += width;
        if filled >= 32 {
            out.extend_from_slice(&(window as u32).to_le_bytes());
            window >>= 32;
            filled -= 32;
        }
    }
    // Eight values of any width are whole bytes.
    out.extend_from_slice(&window.to_le_bytes()[..(filled / 8) as usize]);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Decodes `count` values; `None` when the bytes end before.
pub(crate) fn decode(mut bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    let mut out = Vec::with_capacity(count);
    while out.len() < count {
        let left = count - out.len();
        match Run::take_some(&mut bytes, width)? {
            Run::Same { length, value } => out.resize(out.len() + length.min(left), value),
            Run::Packed { values, packed } => {
                let taken = values.min(left);
                let needed = (taken * width as usize).div_ceil(8);
                unpack(packed.get(..needed)?, width, taken, &mut out);
            }
        }
    }
    Some(out)
}

/// Reads single values at ascending indexes, without decoding the others.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    width: u32,
    run: Run<'a>,
    /// Index of the current run's first value.
    start: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], width: u32) -> Self {
        Self { rest: bytes, width, run: Run::Same { length: 0, value: 0 }, start: 0 }
    }

    /// The value at `index`, which is not below that of the call before.
    pub fn get(&mut self, index: usize) -> Option<u32> {
        while self.run.len() <= index.checked_sub(self.start)? {
            self.start += self.run.len();
            self.run = Run::take_some(&mut self.rest, self.width)?;
        }
        match self.run {
            Run::Same { value, .. } => Some(value),
            Run::Packed { packed, .. } => unpack_one(packed, self.width, index - self.start),
        }
    }
}

/// For width 1: counts set bits up to ascending indexes.
pub(crate) struct RankCursor<'a> {
    bits: Cursor<'a>,
    /// The next index, and the number of set bits before it.
    next: usize,
    before: usize,
}

impl<'a> RankCursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bits: Cursor::new(bytes, 1), next: 0, before: 0 }
    }

    /// The bit at `index`, which is not below that of the call before, and the number of set bits
    /// before it.
    pub fn get(&mut self, index: usize) -> Option<(bool, usize)> {
        while self.next < index {
            self.bits.get(self.next)?;
            let Cursor { run, start, .. } = &self.bits;
            let end = index.min(start + run.len());
            self.before += run.ones(self.next - start..end - start)?;
            self.next = end;
        }
        Some((self.bits.get(index)? == 1, self.before))
    }
}

enum Run<'a> {
    Same {
        length: usize,
        value: u32,
    },
    /// The last bit-packed run may be truncated after the last value.
    Packed {
        values: usize,
        packed: &'a [u8],
    },
}

impl<'a> Run<'a> {
    const fn len(&self) -> usize {
        match self {
            Run::Same { length, .. } => *length,
            Run::Packed { values, .. } => *values,
        }
    }

    /// For width 1: the number of set bits in a range.
    fn ones(&self, range: Range<usize>) -> Option<usize> {
        let packed = match self {
            Run::Same { value, .. } => return Some(range.len() * *value as usize),
            Run::Packed { packed, .. } => *packed,
        };
        let below = |index: usize| {
            let byte = packed.get(index / 8).copied().unwrap_or_default();
            (byte & ((1u8 << (index % 8)) - 1)).count_ones() as usize
        };
        let whole = packed.get(range.start / 8..range.end / 8)?;
        let whole: usize = whole.iter().map(|byte| byte.count_ones() as usize).sum();
        Some(whole + below(range.end) - below(range.start))
    }

    /// The next run; `None` if it is empty, or the bytes end.
    fn take_some(bytes: &mut &'a [u8], width: u32) -> Option<Run<'a>> {
        Run::take(bytes, width).filter(|run| run.len() > 0)
    }

    fn take(bytes: &mut &'a [u8], width: u32) -> Option<Run<'a>> {
        let header = take_varint(bytes)?;
        let count = usize::try_from(header >> 1).ok()?;
        if header & 1 == 0 {
            let size = width.div_ceil(8) as usize;
            let mut value = [0; 4];
            value[..size].copy_from_slice(bytes.get(..size)?);
            *bytes = &bytes[size..];
            return Some(Run::Same { length: count, value: u32::from_le_bytes(value) });
        }
        let size = count.checked_mul(width as usize)?.min(bytes.len());
        let (packed, rest) = bytes.split_at(size);
        *bytes = rest;
        Some(Run::Packed { values: count.checked_mul(8)?, packed })
    }
}

fn unpack_one(packed: &[u8], width: u32, index: usize) -> Option<u32> {
    let bit = index * width as usize;
    let from = bit / 8;
    let mut window = [0; 8];
    let size = packed.len().saturating_sub(from).min(8);
    window[..size].copy_from_slice(packed.get(from..from + size)?);
    let mask = (1u64 << width) - 1;
    Some(((u64::from_le_bytes(window) >> (bit % 8)) & mask) as u32)
}

fn unpack(bytes: &[u8], width: u32, count: usize, out: &mut Vec<u32>) {
    let mask = (1u64 << width) - 1;
    let whole = bytes.len().saturating_sub(8);
    let value = |index: usize| {
        let bit = index * width as usize;
        let byte = bit / 8;
        let mut window = [0; 8];
        if byte <= whole && bytes.len() >= 8 {
            window.copy_from_slice(&bytes[byte..byte + 8]);
        } else {
            let rest = &bytes[byte..];
            let size = rest.len().min(8);
            window[..size].copy_from_slice(&rest[..size]);
        }
        ((u64::from_le_bytes(window) >> (bit % 8)) & mask) as u32
    };
    out.extend((0..count).map(value));
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runs() -> impl Strategy<Value = (u32, Vec<u32>)> {
        (0u32..=32).prop_flat_map(|width| {
            let largest = ((1u64 << width) - 1) as u32;
            let run = (0..=largest, 1usize..40).prop_map(|(value, n)| vec![value; n]);
            let mixed = prop::collection::vec(0..=largest, 0..20);
            let part = prop_oneof![run, mixed];
            (Just(width), prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat()))
        })
    }

    proptest! {
        #[test]
        fn rle_round_trips((width, values) in runs()) {
            let mut bytes = Vec::new();
            encode(&values, width, &mut bytes);
            for step in [1, 3, 50] {
                let mut cursor = Cursor::new(&bytes, width);
                let mut rank = RankCursor::new(&bytes);
                for (index, value) in values.iter().enumerate().step_by(step) {
                    prop_assert_eq!(cursor.get(index), Some(*value));
                    prop_assert_eq!(cursor.get(index), Some(*value));
                    if width == 1 {
                        let before = values[..index].iter().sum::<u32>() as usize;
                        prop_assert_eq!(rank.get(index), Some((*value == 1, before)));
                    }
                }
            }
            prop_assert_eq!(decode(&bytes, width, values.len()), Some(values));
        }

        #[test]
        fn rle_decodes_arbitrary_bytes_without_panic(bytes: Vec<u8>, width in 0u32..=32) {
            if let Some(values) = decode(&bytes, width, 100) {
                prop_assert_eq!(values.len(), 100);
                prop_assert_eq!(Cursor::new(&bytes, width).get(99), Some(values[99]));
            }
            let mut rank = RankCursor::new(&bytes);
            let _ = (rank.get(50), rank.get(99));
        }
    }
}
