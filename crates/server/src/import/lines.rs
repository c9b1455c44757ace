//! The lines of a file as events that capture can read.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use flate2::bufread::MultiGzDecoder;

use super::exported::Exported;
use super::source::Next;

/// Longer lines hold no event that could be stored.
const LINE_BYTES_MAX: u64 = 4 << 20;
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Lines {
    source: Box<dyn BufRead + Send>,
    /// Bytes of the file that were read so far.
    read: Arc<AtomicU64>,
    bytes: u64,
    number: u64,
}

struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl std::io::Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Lines {
    pub fn open(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let bytes = file.metadata().with_context(cannot)?.len();
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted { file, read: read.clone() };
        let plain = BufReader::with_capacity(BUFFER_BYTES, counted);
        let source: Box<dyn BufRead + Send> = match path.extension() {
            Some(ending) if ending == "gz" => {
                Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(plain)))
            }
            _ => Box::new(plain),
        };
        Ok(Self { source, read, bytes, number: 0 })
    }

    /// How many lines were read.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn percent(&self) -> u64 {
        100 * self.read.load(Ordering::Relaxed) / self.bytes.max(1)
    }

    pub fn skip(&mut self, lines: u64) -> Result<()> {
        let mut line = Vec::new();
        while self.number < lines && self.line(&mut line)?.is_some() {}
        Ok(())
    }

    pub fn next(&mut self) -> Result<Next> {
        let mut line = Vec::new();
        let Some(whole) = self.line(&mut line)? else { return Ok(Next::End) };
        if !whole {
            return Ok(Next::Refused("it is too long".into()));
        }
        Ok(match event(&line, self.number) {
            Ok(event) => Next::Event(event),
            Err(why) => Next::Refused(why),
        })
    }

    /// Reads the next line; none at the end, false when it is too long to be kept.
    fn line(&mut self, line: &mut Vec<u8>) -> Result<Option<bool>> {
        line.clear();
        let mut within = (&mut self.source).take(LINE_BYTES_MAX);
        let read = within.read_until(b'\n', line).context("the file cannot be read on")?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let whole = line.ends_with(b"\n") || (read as u64) < LINE_BYTES_MAX;
        if !whole {
            self.source.skip_until(b'\n').context("the file cannot be read on")?;
        }
        Ok(Some(whole))
    }
}

fn event(line: &[u8], number: u64) -> Result<String, Cow<'static, str>> {
    let text = str::from_utf8(line).map_err(|_| "it is no UTF-8")?.trim();
    if text.is_empty() {
        return Err("it is empty".into());
    }
    let read: Exported<'_> = serde_json::from_str(text).map_err(|error| fault(&error))?;
    // The same line of the same file always gets the same uuid.
    Ok(read.to_json(&format!("{number}:{text}"))?)
}

/// Without the place in the line, so that equal reasons are counted together.
fn fault(error: &serde_json::Error) -> Cow<'static, str> {
    if !error.is_data() {
        return "it is no JSON".into();
    }
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    format!("it is no event: {text}").into()
}
