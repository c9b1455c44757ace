//! Many texts that are much alike, such as the properties of persons: each one is small beside a
//! sample of them.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use zstd::bulk::{Compressor, Decompressor};

const LEVEL: i32 = 1;
/// What the others are compared with.
pub(crate) const SAMPLE_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) enum Packed {
    Plain(Box<str>),
    Small { bytes: Box<[u8]>, length: u32 },
}

/// Packs texts like its sample.
#[derive(Clone)]
pub(crate) struct Packing {
    sample: Arc<[u8]>,
    compressor: Arc<Mutex<Compressor<'static>>>,
}

impl fmt::Debug for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packing").field("sample", &self.sample.len()).finish()
    }
}

impl Packing {
    pub fn like(sample: &[u8]) -> io::Result<Self> {
        let compressor = Compressor::with_dictionary(LEVEL, sample)?;
        Ok(Self { sample: sample.into(), compressor: Arc::new(Mutex::new(compressor)) })
    }

    /// One that does not get smaller stays as it is.
    pub fn pack(&self, text: &str) -> Packed {
        let mut compressor = self.compressor.lock().unwrap_or_else(PoisonError::into_inner);
        match (compressor.compress(text.as_bytes()), u32::try_from(text.len())) {
            (Ok(bytes), Ok(length)) if bytes.len() < text.len() => {
                Packed::Small { bytes: bytes.into(), length }
            }
            _ => Packed::Plain(text.into()),
        }
    }
}

/// Reads texts one after the other.
pub(crate) struct Unpacking {
    decompressor: Option<Decompressor<'static>>,
    buffer: Vec<u8>,
}

impl Unpacking {
    pub fn of(packing: Option<&Packing>) -> io::Result<Self> {
        let decompressor =
            packing.map(|packing| Decompressor::with_dictionary(&packing.sample)).transpose()?;
        Ok(Self { decompressor, buffer: Vec::new() })
    }

    /// None for what another packing made.
    pub fn text<'t>(&'t mut self, packed: &'t Packed) -> Option<&'t str> {
        let (bytes, length) = match packed {
            Packed::Plain(text) => return Some(text),
            Packed::Small { bytes, length } => (bytes, *length as usize),
        };
        self.buffer.clear();
        self.buffer.reserve(length);
        self.decompressor.as_mut()?.decompress_to_buffer(bytes, &mut self.buffer).ok()?;
        std::str::from_utf8(&self.buffer).ok()
    }
}
