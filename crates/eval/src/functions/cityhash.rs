//! CityHash64 version 1.0.2, which ClickHouse uses; later versions return other hashes.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K3: u64 = 0xc949_d7c7_509e_6557;
const MULTIPLIER: u64 = 0x9ddf_ea08_eb38_2d69;

/// Combines two hashes.
pub(super) fn combine(low: u64, high: u64) -> u64 {
    let first = shift_mix((low ^ high).wrapping_mul(MULTIPLIER));
    shift_mix((high ^ first).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER)
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    match bytes.len() {
        0..=16 => up_to_16(bytes),
        17..=32 => up_to_32(bytes),
        33..=64 => up_to_64(bytes),
        _ => longer(bytes),
    }
}

fn shift_mix(value: u64) -> u64 {
    value ^ (value >> 47)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn half(bytes: &[u8], at: usize) -> u64 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(half))
}

fn up_to_16(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if length > 8 {
        let (first, last) = (word(bytes, 0), word(bytes, length - 8));
        let turned = last.wrapping_add(length as u64).rotate_right(length as u32);
        return combine(first, turned) ^ last;
    }
    if length >= 4 {
        let first = half(bytes, 0);
        return combine((length as u64).wrapping_add(first << 3), half(bytes, length - 4));
    }
    if length > 0 {
        let (first, middle, last) = (bytes[0], bytes[length >> 1], bytes[length - 1]);
        let y = u32::from(first).wrapping_add(u32::from(middle) << 8);
        let z = (length as u32).wrapping_add(u32::from(last) << 2);
        let mixed = u64::from(y).wrapping_mul(K2) ^ u64::from(z).wrapping_mul(K3);
        return shift_mix(mixed).wrapping_mul(K2);
    }
    K2
}

fn up_to_32(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let a = word(bytes, 0).wrapping_mul(K1);
    let b = word(bytes, 8);
    let c = word(bytes, length - 8).wrapping_mul(K2);
    let d = word(bytes, length - 16).wrapping_mul(K0);
    combine(
        a.wrapping_sub(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d),
        a.wrapping_add((b ^ K3).rotate_right(20)).wrapping_sub(c).wrapping_add(length as u64),
    )
}

fn up_to_64(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let end = |back: usize| word(bytes, length - back);
    let tail = (length as u64).wrapping_add(end(16)).wrapping_mul(K0);
    let start = word(bytes, 0).wrapping_add(tail);
    let v = quarter(start, [word(bytes, 8), word(bytes, 16)], word(bytes, 24));
    let start = word(bytes, 16).wrapping_add(end(32));
    let w = quarter(start, [end(24), end(16)], end(8));
    let sums =
        v.0.wrapping_add(w.1).wrapping_mul(K2).wrapping_add(w.0.wrapping_add(v.1).wrapping_mul(K0));
    shift_mix(shift_mix(sums).wrapping_mul(K0).wrapping_add(v.1)).wrapping_mul(K2)
}

fn quarter(start: u64, next: [u64; 2], last: u64) -> (u64, u64) {
    let mut a = start;
    let b = a.wrapping_add(last).rotate_right(52);
    let mut c = a.rotate_right(37);
    a = a.wrapping_add(next[0]);
    c = c.wrapping_add(a.rotate_right(7));
    a = a.wrapping_add(next[1]);
    (a.wrapping_add(last), b.wrapping_add(a.rotate_right(31)).wrapping_add(c))
}

fn weak(bytes: &[u8], seeds: (u64, u64)) -> (u64, u64) {
    let (mut a, mut b) = seeds;
    a = a.wrapping_add(word(bytes, 0));
    b = b.wrapping_add(a).wrapping_add(word(bytes, 24)).rotate_right(21);
    let c = a;
    a = a.wrapping_add(word(bytes, 8)).wrapping_add(word(bytes, 16));
    b = b.wrapping_add(a.rotate_right(44));
    (a.wrapping_add(word(bytes, 24)), b.wrapping_add(c))
}

/// Inputs longer than 64 bytes: mixes in the last 64 bytes, then blocks of 64 from the start.
fn longer(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let size = length as u64;
    let mut x = word(bytes, 0);
    let mut y = word(bytes, length - 16) ^ K1;
    let mut z = word(bytes, length - 56) ^ K0;
    let mut v = weak(&bytes[length - 64..], (size, y));
    let mut w = weak(&bytes[length - 32..], (size.wrapping_mul(K1), K0));
    z = z.wrapping_add(shift_mix(v.1).wrapping_mul(K1));
    x = z.wrapping_add(x).rotate_right(39).wrapping_mul(K1);
    y = y.rotate_right(33).wrapping_mul(K1);
    for piece in bytes[..(length - 1) & !63].chunks_exact(64) {
        x = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(word(piece, 16));
        x = x.rotate_right(37).wrapping_mul(K1);
        y = y.wrapping_add(v.1).wrapping_add(word(piece, 48)).rotate_right(42).wrapping_mul(K1);
        x ^= w.1;
        y ^= v.0;
        z = (z ^ w.0).rotate_right(33);
        v = weak(piece, (v.1.wrapping_mul(K1), x.wrapping_add(w.0)));
        w = weak(&piece[32..], (z.wrapping_add(w.1), y));
        std::mem::swap(&mut z, &mut x);
    }
    combine(
        combine(v.0, w.0).wrapping_add(shift_mix(y).wrapping_mul(K1)).wrapping_add(z),
        combine(v.1, w.1).wrapping_add(x),
    )
}
