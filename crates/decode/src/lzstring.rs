//! Decompresses LZ-String in base64 (`compression=lz64`), which old SDKs send.
//!
//! An LZ78 code over UTF-16 units. Codes have 2, then 3 bits, and one more each time the dictionary
//! doubles. Code 0 introduces an 8-bit unit, 1 a 16-bit unit, 2 ends the stream.

use crate::memory::MemoryTracker;
use crate::{Error, Result};

const BITS_PER_DIGIT: u32 = 6;
const NEW_BYTE: u32 = 0;
const NEW_UNIT: u32 = 1;
const END: u32 = 2;
/// The first code that refers to a dictionary entry.
const FIRST_ENTRY: usize = 3;
const ENTRIES_PER_CODE: usize = 2;

/// Decompresses to at most `memory.bytes_max` bytes of UTF-8. The dictionary can be larger than input
/// and output, and is reserved as well.
pub(crate) fn decompress(base64: &[u8], memory: &mut MemoryTracker<'_>) -> Result<Vec<u8>> {
    let bytes_max = memory.bytes_max;
    let mut bits = Bits { digits: base64, used: 0 };
    let mut out: Vec<u16> = Vec::new();
    // Start and length of each entry in the output: the previous entry and the unit after it.
    let mut entries: Vec<(usize, usize)> = Vec::new();

    match bits.read(2)? {
        NEW_BYTE => out.push(bits.read(8)? as u16),
        NEW_UNIT => out.push(bits.read(16)? as u16),
        END => return Ok(Vec::new()),
        _ => return Err(Error::Encoding("lz-string")),
    }
    entries.push((0, 1));
    let mut last = (0, 1);
    let (mut width, mut until_wider) = (3, 4usize);
    loop {
        if out.len() > bytes_max {
            return Err(Error::TooLarge);
        }
        let start = out.len();
        memory.reserve(&mut entries, ENTRIES_PER_CODE)?;
        memory.reserve(&mut out, last.1 + 1)?;
        let code = bits.read(width)?;
        match code {
            NEW_BYTE | NEW_UNIT => {
                out.push(bits.read(if code == NEW_BYTE { 8 } else { 16 })? as u16);
                entries.push((start, 1));
                until_wider -= 1;
                widen(&mut width, &mut until_wider)?;
            }
            END => return to_utf8(&out, memory),
            _ => match entries.get(code as usize - FIRST_ENTRY) {
                Some(&(from, length)) => {
                    memory.reserve(&mut out, length)?;
                    out.extend_from_within(from..from + length);
                }
                None if code as usize - FIRST_ENTRY == entries.len() => {
                    out.extend_from_within(last.0..last.0 + last.1);
                    out.push(out[last.0]);
                }
                None => return Err(Error::Encoding("lz-string")),
            },
        }
        entries.push((last.0, last.1 + 1));
        last = (start, out.len() - start);
        until_wider -= 1;
        widen(&mut width, &mut until_wider)?;
    }
}

fn widen(width: &mut u32, until_wider: &mut usize) -> Result<()> {
    if *until_wider == 0 {
        *until_wider = 1 << *width;
        *width += 1;
        // No body within the limits can fill 2^24 entries.
        if *width > 24 {
            return Err(Error::TooLarge);
        }
    }
    Ok(())
}

fn to_utf8(units: &[u16], memory: &mut MemoryTracker<'_>) -> Result<Vec<u8>> {
    let letters = || {
        let units = char::decode_utf16(units.iter().copied());
        units.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
    };
    let bytes = letters().map(char::len_utf8).sum();
    if bytes > memory.bytes_max {
        return Err(Error::TooLarge);
    }
    memory.take(bytes)?;
    let mut text = String::with_capacity(bytes);
    text.extend(letters());
    Ok(text.into_bytes())
}

struct Bits<'a> {
    digits: &'a [u8],
    used: usize,
}

impl Bits<'_> {
    /// Reads `count` bits, least significant first; each digit yields its bits from the top.
    fn read(&mut self, count: u32) -> Result<u32> {
        let mut value = 0;
        for power in 0..count {
            let digit = self.digits.get(self.used / BITS_PER_DIGIT as usize);
            let digit = digit.and_then(|digit| digit_value(*digit));
            let digit = digit.ok_or(Error::Encoding("lz-string"))?;
            let shift = BITS_PER_DIGIT - 1 - (self.used % BITS_PER_DIGIT as usize) as u32;
            value |= (digit >> shift & 1) << power;
            self.used += 1;
        }
        Ok(value)
    }
}

fn digit_value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_lzstring_streams_are_errors() {
        let bad = Err(Error::Encoding("lz-string"));
        for (digits, expected) in [
            ("", bad.clone()),
            ("N4Ig", bad.clone()),
            ("////", bad.clone()),
            ("Q===", Ok(Vec::new())),
            ("{}", bad),
        ] {
            let mut reserve = |_| true;
            let memory = &mut MemoryTracker::new(100, &mut reserve);
            assert_eq!(decompress(digits.as_bytes(), memory), expected, "{digits}");
        }
    }
}
