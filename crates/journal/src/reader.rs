//! Readers: batches of durable records, in order.

use std::ops::Range;

use crate::{Position, Result, files, jetstream};

/// Reads durable records in order. Readers run concurrently and never block appends.
pub struct Reader {
    engine: Engine,
}

enum Engine {
    Files(files::Reader),
    JetStream(Box<jetstream::Reader>),
}

/// Records read together, in order.
#[derive(Debug, Default)]
pub struct Records {
    /// May be longer than what was read.
    pub(crate) bytes: Vec<u8>,
    pub(crate) index: Vec<(Position, Range<usize>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub position: Position,
    pub bytes: &'a [u8],
}

impl Records {
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        self.index.iter().map(|(position, range)| Record {
            position: *position,
            bytes: &self.bytes[range.clone()],
        })
    }
}

impl Reader {
    pub(crate) fn files(reader: files::Reader) -> Reader {
        Reader { engine: Engine::Files(reader) }
    }

    pub(crate) fn jetstream(reader: jetstream::Reader) -> Reader {
        Reader { engine: Engine::JetStream(Box::new(reader)) }
    }

    /// The position of the next record to read. A consumer that has applied everything stores it.
    pub fn position(&self) -> Position {
        match &self.engine {
            Engine::Files(reader) => reader.position(),
            Engine::JetStream(reader) => reader.position(),
        }
    }

    /// The high-water mark: the first position that is not readable yet.
    pub fn end(&self) -> Position {
        match &self.engine {
            Engine::Files(reader) => reader.end(),
            Engine::JetStream(reader) => reader.end(),
        }
    }

    /// How many records it has not read yet, as [`crate::Journal::waiting`] counts them.
    pub fn waiting(&self) -> u64 {
        match &self.engine {
            // Saturates: the writer publishes records slightly before it publishes the new end.
            Engine::Files(reader) => {
                reader.end().as_u64().saturating_sub(reader.position().as_u64())
            }
            Engine::JetStream(reader) => reader.waiting(),
        }
    }

    /// The next records: at least one, at most `records_max`, and at most `bytes_max` bytes in total
    /// (a larger record is returned alone). Waits until there is one. Cancel-safe.
    pub async fn next_batch(&mut self, records_max: usize, bytes_max: usize) -> Result<Records> {
        match &mut self.engine {
            Engine::Files(reader) => reader.next_batch(records_max, bytes_max).await,
            Engine::JetStream(reader) => reader.next_batch(records_max, bytes_max).await,
        }
    }

    /// Recycles the memory of processed records: allocating it anew costs as much as reading them.
    pub fn reuse(&mut self, records: Records) {
        match &mut self.engine {
            Engine::Files(reader) => reader.reuse(records),
            Engine::JetStream(reader) => reader.reuse(records),
        }
    }
}
