//! Decompression into buffers that never outgrow a bound.

use std::io::Read;

use brotli_decompressor::BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW;
use libdeflater::{DecompressionError, Decompressor};
use memchr::memmem;

use crate::{Error, Result};

const GZIP_MAGIC: &[u8] = b"\x1f\x8b\x08";
/// Header and trailer of the smallest gzip member.
const GZIP_FRAME_BYTES: usize = 18;
/// Deflate cannot expand further than this, so a size beyond it is a lie.
const DEFLATE_RATIO_MAX: usize = 1_032;
/// A first guess for streams that do not say their size.
const RATIO_GUESS: usize = 8;
const BUFFER_BYTES_MIN: usize = 4 * 1_024;
const GROWTH: usize = 4;
/// 16 MiB: zstd allocates the window that a frame asks for.
const ZSTD_WINDOW_LOG_MAX: u32 = 24;

pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(GZIP_MAGIC)
}

/// The size that the last four bytes of a gzip stream claim, as far as it is believable.
pub(crate) fn gzip_bytes_hint(bytes: &[u8], bytes_max: usize) -> usize {
    let claimed = match bytes.last_chunk() {
        Some(size) => u32::from_le_bytes(*size) as usize,
        None => 0,
    };
    claimed.min(bytes.len().saturating_mul(DEFLATE_RATIO_MAX)).min(bytes_max)
}

pub(crate) fn gunzip(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let after_header = bytes.get(GZIP_FRAME_BYTES..).unwrap_or_default();
    if memmem::find(after_header, GZIP_MAGIC).is_some() {
        // Perhaps a second member, which libdeflate would pass over in silence.
        let reader = flate2::bufread::MultiGzDecoder::new(bytes);
        return read_bounded(reader, bytes_max, "gzip");
    }
    let hint = gzip_bytes_hint(bytes, bytes_max);
    one_shot(hint, bytes_max, "gzip", |out| Decompressor::new().gzip_decompress(bytes, out))
}

/// With the zlib wrapper, as the standard says, or without it, as some senders do.
pub(crate) fn inflate(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let guess = bytes.len().saturating_mul(RATIO_GUESS);
    let wrapped = one_shot(guess, bytes_max, "deflate", |out| {
        Decompressor::new().zlib_decompress(bytes, out)
    });
    match wrapped {
        Err(Error::Encoding(_)) => one_shot(guess, bytes_max, "deflate", |out| {
            Decompressor::new().deflate_decompress(bytes, out)
        }),
        result => result,
    }
}

pub(crate) fn unbrotli(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let mut reader = brotli_decompressor::Decompressor::new(bytes, BUFFER_BYTES_MIN);
    // Large windows are no part of the `br` coding, and reach 1 GiB.
    reader.set_parameter(BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    read_bounded(reader, bytes_max, "brotli")
}

pub(crate) fn unzstd(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let open = || {
        let mut reader = zstd::stream::read::Decoder::with_buffer(bytes)?;
        reader.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Ok::<_, std::io::Error>(reader)
    };
    let reader = open().map_err(|_| Error::Encoding("zstd"))?;
    read_bounded(reader, bytes_max, "zstd")
}

fn one_shot(
    hint: usize,
    bytes_max: usize,
    what: &'static str,
    mut decompress: impl FnMut(&mut [u8]) -> Result<usize, DecompressionError>,
) -> Result<Vec<u8>> {
    let mut size = hint.max(BUFFER_BYTES_MIN).min(bytes_max);
    loop {
        let mut out = vec![0; size];
        match decompress(&mut out) {
            Ok(written) => {
                out.truncate(written);
                return Ok(out);
            }
            Err(DecompressionError::InsufficientSpace) if size < bytes_max => {
                size = size.saturating_mul(GROWTH).min(bytes_max);
            }
            Err(DecompressionError::InsufficientSpace) => return Err(Error::TooLarge),
            Err(DecompressionError::BadData) => return Err(Error::Encoding(what)),
        }
    }
}

fn read_bounded(reader: impl Read, bytes_max: usize, what: &'static str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let limit = bytes_max as u64 + 1;
    reader.take(limit).read_to_end(&mut out).map_err(|_| Error::Encoding(what))?;
    if out.len() > bytes_max { Err(Error::TooLarge) } else { Ok(out) }
}
