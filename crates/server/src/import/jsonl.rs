//! Reads events from JSON lines, plain or gzip.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use flate2::bufread::MultiGzDecoder;

use super::exported::ExportedEvent;
use super::source::ReadItem;

/// Longer lines exceed the limit of an event.
const LINE_BYTES_MAX: u64 = 4 << 20;
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct JsonLines {
    source: Box<dyn BufRead + Send>,
    /// Bytes read from the file, before decompression.
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

impl JsonLines {
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

    /// Lines read so far.
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

    pub fn next(&mut self) -> Result<ReadItem> {
        let mut line = Vec::new();
        let Some(complete) = self.line(&mut line)? else { return Ok(ReadItem::End) };
        if !complete {
            return Ok(ReadItem::Invalid("it is too long".into()));
        }
        Ok(match event(&line, self.number) {
            Ok(event) => ReadItem::Event(event),
            Err(why) => ReadItem::Invalid(why),
        })
    }

    /// Reads the next line. `None` at the end; `false` if it is longer than [`LINE_BYTES_MAX`].
    fn line(&mut self, line: &mut Vec<u8>) -> Result<Option<bool>> {
        line.clear();
        let mut within = (&mut self.source).take(LINE_BYTES_MAX);
        let read = within.read_until(b'\n', line).context("cannot read the file further")?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let complete = line.ends_with(b"\n") || (read as u64) < LINE_BYTES_MAX;
        if !complete {
            self.source.skip_until(b'\n').context("cannot read the file further")?;
        }
        Ok(Some(complete))
    }
}

fn event(line: &[u8], number: u64) -> Result<String, Cow<'static, str>> {
    let text = str::from_utf8(line).map_err(|_| "it is not valid UTF-8")?.trim();
    if text.is_empty() {
        return Err("it is empty".into());
    }
    let read: ExportedEvent<'_> = serde_json::from_str(text).map_err(|error| fault(&error))?;
    // Line number and content make the derived uuid stable across imports.
    Ok(read.to_json(&format!("{number}:{text}"))?)
}

/// Without the column of the error, so that equal reasons are counted together.
fn fault(error: &serde_json::Error) -> Cow<'static, str> {
    if !error.is_data() {
        return "it is not valid JSON".into();
    }
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    format!("it is not an event: {text}").into()
}
