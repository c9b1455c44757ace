//! Encoders as SDKs have them, the inverse of `encodings`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libdeflater::{CompressionLvl, Compressor};

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let written = compressor.gzip_compress(bytes, &mut out).unwrap();
    out.truncate(written);
    out
}

pub fn two_gzip_members(bytes: &[u8]) -> Vec<u8> {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    [gzip(first), gzip(second)].concat()
}

pub fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut out = vec![0; compressor.zlib_compress_bound(bytes.len())];
    let written = compressor.zlib_compress(bytes, &mut out).unwrap();
    out.truncate(written);
    out
}

pub fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut out = vec![0; compressor.deflate_compress_bound(bytes.len())];
    let written = compressor.deflate_compress(bytes, &mut out).unwrap();
    out.truncate(written);
    out
}

pub fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 4_096, 5, 22);
    writer.write_all(bytes).unwrap();
    writer.into_inner()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

pub fn base64(bytes: &[u8]) -> Vec<u8> {
    STANDARD.encode(bytes).into_bytes()
}

pub fn percent(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("%{byte:02X}").into_bytes()).collect()
}

pub fn form(data: &[u8]) -> Vec<u8> {
    [b"data=", data].concat()
}

/// LZ-String's base64 form, written from the description in `lzstring.rs`.
pub fn lz64(text: &str) -> Vec<u8> {
    let mut bits = Vec::new();
    let mut put = |value: u32, width: u32| bits.extend((0..width).map(|bit| value >> bit & 1 == 1));
    let mut codes: HashMap<Vec<u16>, u32> = HashMap::new();
    let mut fresh = Vec::new();
    let (mut next_code, mut width, mut until_wider) = (3, 2, 2u32);
    let mut word: Vec<u16> = Vec::new();

    let mut tick = |width: &mut u32| {
        until_wider -= 1;
        if until_wider == 0 {
            until_wider = 1 << *width;
            *width += 1;
        }
    };
    let mut emit =
        |word: &[u16], codes: &HashMap<Vec<u16>, u32>, fresh: &mut Vec<u16>, width: &mut u32| {
            match fresh.iter().position(|unit| word == [*unit]) {
                Some(at) => {
                    let unit = u32::from(fresh.swap_remove(at));
                    let (code, bits) = if unit < 256 { (0, 8) } else { (1, 16) };
                    put(code, *width);
                    put(unit, bits);
                    tick(width);
                }
                None => put(codes[word], *width),
            }
            tick(width);
        };
    for unit in text.encode_utf16() {
        if let Entry::Vacant(entry) = codes.entry(vec![unit]) {
            entry.insert(next_code);
            next_code += 1;
            fresh.push(unit);
        }
        let longer = [&word[..], &[unit]].concat();
        if codes.contains_key(&longer) {
            word = longer;
            continue;
        }
        emit(&word, &codes, &mut fresh, &mut width);
        codes.insert(longer, next_code);
        next_code += 1;
        word = vec![unit];
    }
    if !word.is_empty() {
        emit(&word, &codes, &mut fresh, &mut width);
    }
    bits.extend((0..width).map(|bit| 2 >> bit & 1 == 1));
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bits.chunks(6)
        .map(|six| {
            let value =
                (0..6).fold(0, |value, at| value << 1 | usize::from(six.get(at) == Some(&true)));
            DIGITS[value]
        })
        .collect()
}
