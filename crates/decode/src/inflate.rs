//! Bounded decompression: gzip, deflate, brotli and zstd.

use std::io::Read;

use brotli_decompressor::BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW;
use libdeflater::{DecompressionError, Decompressor};
use memchr::memmem;

use crate::memory::MemoryTracker;
use crate::{Error, Result};

const GZIP_MAGIC: &[u8] = b"\x1f\x8b\x08";
/// Header and trailer of the smallest gzip member.
const GZIP_FRAME_BYTES: usize = 18;
/// Maximum expansion of deflate; a claimed size beyond it is forged.
const DEFLATE_RATIO_MAX: usize = 1_032;
/// Initial guess for streams that do not record their size.
const RATIO_GUESS: usize = 8;
const BUFFER_BYTES_MIN: usize = 4 * 1_024;
const GROWTH: usize = 4;
/// zstd allocates the window that a frame declares; RFC 9659 allows 8 MiB for a content coding.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// From this output size on, the decoder's window counts as well. Below it the decoder lives too
/// briefly to matter.
const SMALL_OUTPUT_BYTES: usize = 256 * 1_024;
/// Reservation step of larger output.
const OUTPUT_STEP_BYTES: usize = 256 * 1_024;

pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(GZIP_MAGIC)
}

/// The size in the gzip trailer, clamped to what is possible.
pub(crate) fn gzip_bytes_hint(bytes: &[u8], bytes_max: usize) -> usize {
    let claimed = match bytes.last_chunk() {
        Some(size) => u32::from_le_bytes(*size) as usize,
        None => 0,
    };
    claimed.min(bytes.len().saturating_mul(DEFLATE_RATIO_MAX)).min(bytes_max)
}

pub(crate) fn gunzip(bytes: &[u8], memory: &mut MemoryTracker<'_>) -> Result<Vec<u8>> {
    let after_header = bytes.get(GZIP_FRAME_BYTES..).unwrap_or_default();
    if memmem::find(after_header, GZIP_MAGIC).is_some() {
        // Possibly a second member, which libdeflate would silently ignore.
        let reader = flate2::bufread::MultiGzDecoder::new(bytes);
        return read_bounded(reader, 0, "gzip", memory);
    }
    let hint = gzip_bytes_hint(bytes, memory.bytes_max);
    one_shot(hint, "gzip", memory, |out| Decompressor::new().gzip_decompress(bytes, out))
}

/// Deflate with the zlib wrapper, as the standard requires, or raw, as some clients send.
pub(crate) fn inflate(bytes: &[u8], memory: &mut MemoryTracker<'_>) -> Result<Vec<u8>> {
    let guess = bytes.len().saturating_mul(RATIO_GUESS);
    let wrapped =
        one_shot(guess, "deflate", memory, |out| Decompressor::new().zlib_decompress(bytes, out));
    match wrapped {
        Err(Error::Encoding(_)) => one_shot(guess, "deflate", memory, |out| {
            Decompressor::new().deflate_decompress(bytes, out)
        }),
        result => result,
    }
}

pub(crate) fn unbrotli(bytes: &[u8], memory: &mut MemoryTracker<'_>) -> Result<Vec<u8>> {
    let mut reader = brotli_decompressor::Decompressor::new(bytes, BUFFER_BYTES_MIN);
    // Large windows (up to 1 GiB) are not part of the `br` coding.
    reader.set_parameter(BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    read_bounded(reader, brotli_window_bytes(bytes), "brotli", memory)
}

/// The window size in the stream header (RFC 7932, 9.1).
fn brotli_window_bytes(bytes: &[u8]) -> usize {
    let first = bytes.first().copied().unwrap_or_default();
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, _, _) => 16,
        (_, 0, 0) => 17,
        (_, 0, bits) => 8 + bits,
        (_, bits, _) => 17 + bits,
    };
    1 << bits
}

pub(crate) fn unzstd(bytes: &[u8], memory: &mut MemoryTracker<'_>) -> Result<Vec<u8>> {
    let open = || {
        let mut reader = zstd::stream::read::Decoder::with_buffer(bytes)?;
        reader.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Ok::<_, std::io::Error>(reader)
    };
    let reader = open().map_err(|_| Error::Encoding("zstd"))?;
    read_bounded(reader, 1 << ZSTD_WINDOW_LOG_MAX, "zstd", memory)
}

fn one_shot(
    hint: usize,
    encoding: &'static str,
    memory: &mut MemoryTracker<'_>,
    mut decompress: impl FnMut(&mut [u8]) -> Result<usize, DecompressionError>,
) -> Result<Vec<u8>> {
    let bytes_max = memory.bytes_max;
    let mut size = hint.max(BUFFER_BYTES_MIN).min(bytes_max);
    loop {
        memory.take(size)?;
        let mut out = vec![0; size];
        let failed = match decompress(&mut out) {
            Ok(written) => {
                out.truncate(written);
                return Ok(out);
            }
            Err(failed) => failed,
        };
        drop(out);
        memory.release(size);
        match failed {
            DecompressionError::InsufficientSpace if size < bytes_max => {
                size = size.saturating_mul(GROWTH).min(bytes_max);
            }
            DecompressionError::InsufficientSpace => return Err(Error::TooLarge),
            DecompressionError::BadData => return Err(Error::Encoding(encoding)),
        }
    }
}

/// Reads a stream of unknown size, reserving each step from `memory` first. `window_bytes` is the
/// decoder's window, which is never larger than its output.
fn read_bounded(
    mut reader: impl Read,
    window_bytes: usize,
    encoding: &'static str,
    memory: &mut MemoryTracker<'_>,
) -> Result<Vec<u8>> {
    let limit = memory.bytes_max.saturating_add(1);
    let mut out = Vec::new();
    while out.len() < limit {
        let small = out.len() < SMALL_OUTPUT_BYTES;
        let step = match small {
            true => out.len().max(BUFFER_BYTES_MIN),
            false => {
                OUTPUT_STEP_BYTES + window_bytes.saturating_sub(out.len()).min(OUTPUT_STEP_BYTES)
            }
        };
        memory.take(step)?;
        let chunk_bytes = match small {
            true => step,
            false => OUTPUT_STEP_BYTES,
        };
        let chunk_bytes = chunk_bytes.min(limit - out.len());
        if out.capacity() - out.len() < chunk_bytes {
            // Larger output is copied once into the maximal buffer, whose pages are only touched as
            // they are filled.
            let additional = if small { chunk_bytes } else { limit - out.len() };
            out.reserve_exact(additional);
        }
        let read = (&mut reader).take(chunk_bytes as u64).read_to_end(&mut out);
        if read.map_err(|_| Error::Encoding(encoding))? < chunk_bytes {
            break;
        }
    }
    if out.len() > memory.bytes_max { Err(Error::TooLarge) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// The peak reservation while `decompress` ran.
    fn peak(
        bytes_max: usize,
        decompress: impl FnOnce(&mut MemoryTracker<'_>) -> Result<Vec<u8>>,
    ) -> (usize, Result<usize>) {
        let mut peak = 0;
        let mut reserve = |bytes: usize| {
            peak = peak.max(bytes);
            true
        };
        let decoded = decompress(&mut MemoryTracker::new(bytes_max, &mut reserve));
        (peak, decoded.map(|out| out.len()))
    }

    fn zstd_of(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).unwrap()
    }

    fn brotli_of(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        // The best quality takes twenty seconds in a debug build.
        let parameters = brotli::enc::BrotliEncoderParams { quality: 3, ..Default::default() };
        brotli::BrotliCompress(&mut &bytes[..], &mut out, &parameters).unwrap();
        out
    }

    #[test]
    fn decompression_bomb_stops_where_its_memory_is_refused() {
        let zeros = vec![b' '; 20 * MIB];
        let (zstd, brotli) = (zstd_of(&zeros), brotli_of(&zeros));
        for refuse_from in [64 << 10, MIB, 5 * MIB] {
            for (name, stopped) in [
                ("zstd", {
                    let mut reserve = |bytes: usize| bytes < refuse_from;
                    unzstd(&zstd, &mut MemoryTracker::new(20 * MIB, &mut reserve))
                }),
                ("brotli", {
                    let mut reserve = |bytes: usize| bytes < refuse_from;
                    unbrotli(&brotli, &mut MemoryTracker::new(20 * MIB, &mut reserve))
                }),
            ] {
                assert_eq!(stopped, Err(Error::OutOfMemory), "{name} at {refuse_from}");
            }
        }
    }

    #[test]
    fn reservation_covers_the_output_and_the_decoder_window() {
        let zeros = vec![b' '; 20 * MIB];
        for (name, window, (asked, decoded)) in [
            ("zstd", 8 * MIB, peak(20 * MIB, |memory| unzstd(&zstd_of(&zeros), memory))),
            ("brotli", 4 * MIB, peak(20 * MIB, |memory| unbrotli(&brotli_of(&zeros), memory))),
        ] {
            assert_eq!(decoded, Ok(20 * MIB), "{name}");
            assert!(asked >= 20 * MIB + window / 2, "{name}: {asked}");
            assert!(asked <= 20 * MIB + window + MIB, "{name}: {asked}");
        }
        // One byte over the limit is rejected without a larger reservation.
        let (asked, decoded) = peak(20 * MIB - 1, |memory| unzstd(&zstd_of(&zeros), memory));
        assert_eq!(decoded, Err(Error::TooLarge));
        assert!(asked <= 29 * MIB, "{asked}");
    }

    #[test]
    fn small_bodies_reserve_little() {
        let text = br#"{"api_key":"phc_x","event":"e","distinct_id":"d"}"#.repeat(20);
        for (name, (asked, decoded)) in [
            ("zstd", peak(20 * MIB, |memory| unzstd(&zstd_of(&text), memory))),
            ("brotli", peak(20 * MIB, |memory| unbrotli(&brotli_of(&text), memory))),
        ] {
            assert_eq!(decoded, Ok(text.len()), "{name}");
            assert!(asked <= 8 << 10, "{name}: {asked}");
        }
    }

    #[test]
    fn brotli_window_is_read_from_the_stream_header() {
        for bits in 16..=24 {
            let parameters =
                brotli::enc::BrotliEncoderParams { quality: 3, lgwin: bits, ..Default::default() };
            let mut out = Vec::new();
            brotli::BrotliCompress(&mut &vec![7_u8; 1 << 20][..], &mut out, &parameters).unwrap();
            assert_eq!(brotli_window_bytes(&out), 1 << bits, "{bits}");
        }
    }
}
