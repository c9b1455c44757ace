//! Results as they arrive. After the status, ClickHouse can only report an exception in the middle of
//! the stream: as text between two messages, or by an end that comes too early.

use std::io::{self, Read};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::UInt32Type;
use arrow::ipc::reader::StreamReader;
use ureq::http::Response;
use ureq::{Body, BodyReader};

use crate::error::{Error, Result, exception_in, of_exception};
use crate::settings::Settings;

/// What every message of an Arrow stream begins with.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The end of an Arrow stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// Bytes in which the text of an exception is looked for.
const TAIL_BYTES: usize = 16 << 10;

/// The batches of a result, in order. Ends after the first error.
#[derive(Debug)]
pub struct Batches {
    stream: Option<StreamReader<Watched>>,
    server: String,
    bytes_max: u64,
    schema: arrow::datatypes::SchemaRef,
    rows_read: u64,
}

/// What ClickHouse did for a statement, as JSON.
const SUMMARY: &str = "x-clickhouse-summary";

/// The rows that a statement read, as far as its summary says.
fn rows_read(head: &ureq::http::response::Parts) -> Option<u64> {
    let summary = head.headers.get(SUMMARY)?;
    let summary: serde_json::Value = serde_json::from_slice(summary.as_bytes()).ok()?;
    summary.get("read_rows")?.as_str()?.parse().ok()
}

impl Batches {
    pub(super) fn read(response: Response<Body>, settings: &Settings) -> Result<Self> {
        let (head, body) = response.into_parts();
        let rows_read = rows_read(&head).unwrap_or_default();
        let mut watched = Watched {
            inner: body.into_reader(),
            peeked: Vec::new(),
            tail: Vec::new(),
            left: settings.response_bytes_max,
        };
        let server = settings.server.clone();
        let bytes_max = settings.response_bytes_max;
        let starts = watched.peek::<4>();
        if !matches!(starts, Ok(Some(CONTINUATION))) {
            return Err(watched.fault(&server, bytes_max, "the result has no Arrow stream"));
        }
        // The reader is lost with an error, but its first message follows the peeked bytes.
        match StreamReader::try_new(watched, None) {
            Ok(stream) => {
                let schema = stream.schema();
                Ok(Self { stream: Some(stream), server, bytes_max, schema, rows_read })
            }
            Err(why) => Err(Error::Protocol { server, why: why.to_string() }),
        }
    }

    pub fn schema(&self) -> &arrow::datatypes::SchemaRef {
        &self.schema
    }

    /// The rows of tables that the statement read. Complete if it was sent to wait for its end.
    pub fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// The values of the first column, of type UInt32.
    pub fn numbers(self) -> impl Iterator<Item = Result<Vec<u32>>> {
        let server = self.server.clone();
        self.map(move |batch| {
            let batch = batch?;
            let numbers = batch.column(0).as_primitive_opt::<UInt32Type>();
            let wrong = || Error::Protocol {
                server: server.clone(),
                why: "a column has another type".to_owned(),
            };
            Ok(numbers.ok_or_else(wrong)?.values().to_vec())
        })
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let fault = |stream: &mut StreamReader<Watched>, why: &str| {
            stream.get_mut().fault(&self.server, self.bytes_max, why)
        };
        let starts = stream.get_mut().peek::<4>();
        if !matches!(starts, Ok(Some(CONTINUATION))) {
            return Err(fault(stream, "the result ends before its end"));
        }
        match stream.next() {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(why)) => Err(fault(stream, &why.to_string())),
            None if stream.get_ref().tail.ends_with(&END) => Ok(None),
            None => Err(fault(stream, "the result ends before its end")),
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_)))
            && let Some(mut ended) = self.stream.take()
            && next.is_none()
        {
            // So that the connection can be used again.
            let _ = ended.get_mut().peek::<1>();
        }
        next
    }
}

/// Counts the bytes of a body, keeps the last ones, and shows the next ones before they are read.
struct Watched {
    inner: BodyReader<'static>,
    peeked: Vec<u8>,
    tail: Vec<u8>,
    left: u64,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Watched {
    /// The next bytes; none at the end.
    fn peek<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        while self.peeked.len() < N {
            let mut more = [0; N];
            let wanted = N - self.peeked.len();
            match self.inner.read(&mut more[..wanted])? {
                0 => return Ok(None),
                read => self.peeked.extend_from_slice(&more[..read]),
            }
        }
        Ok(self.peeked.first_chunk().copied())
    }

    /// Why the stream ended: the exception that it ends with, or else `why`.
    fn fault(&mut self, server: &str, bytes_max: u64, why: &str) -> Error {
        if self.left == 0 {
            return Error::TooLarge { bytes_max };
        }
        let mut rest = Vec::new();
        // What cannot be read any more does not matter: the stream is broken already.
        let interrupted = (&mut *self).take(TAIL_BYTES as u64).read_to_end(&mut rest).err();
        let text = String::from_utf8_lossy(&self.tail).into_owned();
        match exception_in(&text) {
            Some((code, text)) => of_exception(server, code, text),
            None => {
                let why = interrupted.map_or(why.to_owned(), |why| why.to_string());
                Error::Away { server: server.to_owned(), why }
            }
        }
    }
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("the answer is too large"));
        }
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..wanted];
        let read = if self.peeked.is_empty() {
            self.inner.read(buffer)?
        } else {
            let read = self.peeked.len().min(buffer.len());
            buffer[..read].copy_from_slice(&self.peeked[..read]);
            self.peeked.drain(..read);
            read
        };
        self.left -= read as u64;
        self.tail.extend_from_slice(&buffer[read.saturating_sub(TAIL_BYTES)..read]);
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
        Ok(read)
    }
}
