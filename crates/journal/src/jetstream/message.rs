//! The format of a message: a header, then frames as [`Batch`](crate::Batch) makes them.
//!
//! ```text
//!   0  magic "HJM1"      8  records   u32     16  series   u64     32  settled  u64
//!   4  compression u32  12  raw bytes u32     24  counter  u64     40  checksum u32   44  body
//! ```
//! Little endian. The checksum covers everything but itself. The body is frames, plain or compressed;
//! a frame is the record's length, the checksum of the record, the record.

use bytes::Bytes;

use crate::files::format::{FRAME_BYTES, u32_at};
use crate::{Error, Position, Result};

const MAGIC: [u8; 4] = *b"HJM1";
const HEADER_BYTES: usize = 44;
const CHECKSUM_AT: usize = 40;

const PLAIN: u32 = 0;
const ZSTD: u32 = 1;
const ZSTD_LEVEL: i32 = 1;
/// Smaller bodies gain nothing from compression.
const COMPRESSED_BYTES_MIN: usize = 256;

/// What a message takes beyond its largest record: header, frame, subject and NATS headers.
pub(crate) const OVERHEAD_BYTES: usize = 1 << 10;

/// A message unpacks to at most this: what it holds fits into a message of its server uncompressed, and
/// no server takes larger ones.
pub(crate) const RAW_BYTES_MAX: usize = 64 << 20;

/// Bits of a position below the sequence: a message has at most this many records, as a power of two.
const INDEX_BITS: u32 = 20;
pub(crate) const RECORDS_MAX: usize = 1 << INDEX_BITS;

/// The sequence of a message in its stream.
///
/// The *last* record of message `s` has the last position below `(s + 1) << 20`. So the position after a
/// message's records is where the next message begins: a store that has applied everything stands at
/// the end of the stream, and the end is known from the sequence alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sequence(pub u64);

impl Sequence {
    /// The message that holds the first record at or after `position`, if the stream has one.
    pub(crate) fn of(position: Position) -> Sequence {
        Sequence((position.as_u64() >> INDEX_BITS).max(1))
    }

    pub(crate) fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }

    /// Positions of the message's records are at or after this.
    pub(crate) fn start(self) -> Position {
        Position::from_u64((self.0 << INDEX_BITS).max(Position::START.as_u64()))
    }

    /// The position of record `index` of `records`.
    pub(crate) fn position(self, index: usize, records: usize) -> Position {
        Position::from_u64((self.next().0 << INDEX_BITS) - (records - index) as u64)
    }

    /// How many records of this message are at or after `position`, if it is inside of it.
    pub(crate) fn rest(self, position: Position) -> Option<u64> {
        let inside = position > self.start() && position < self.next().start();
        inside.then(|| self.next().start().as_u64() - position.as_u64())
    }
}

/// Which message of its publisher this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Chosen at random by a publisher when it starts, and after it gave up a message.
    pub series: u64,
    /// Counts the messages of the series.
    pub counter: u64,
    /// All messages of the series with a lower counter were acknowledged.
    pub settled: u64,
}

/// Packs frames into a message.
pub(crate) fn pack(frames: &[&[u8]], records: usize, origin: Origin) -> Bytes {
    debug_assert!((1..=RECORDS_MAX).contains(&records));
    let raw = frames.concat();
    let compressed = if raw.len() < COMPRESSED_BYTES_MIN {
        None
    } else {
        // Fails only for lack of memory; plain is as good.
        zstd::bulk::compress(&raw, ZSTD_LEVEL).ok().filter(|packed| packed.len() < raw.len())
    };
    let (compression, body) = match &compressed {
        Some(packed) => (ZSTD, packed),
        None => (PLAIN, &raw),
    };
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend_from_slice(&MAGIC);
    // Both fit: a message has at most a million records, and `RAW_BYTES_MAX` bytes.
    for number in [compression, records as u32, raw.len() as u32] {
        message.extend_from_slice(&number.to_le_bytes());
    }
    for number in [origin.series, origin.counter, origin.settled] {
        message.extend_from_slice(&number.to_le_bytes());
    }
    let checksum = checksum(&message, body);
    message.extend_from_slice(&checksum.to_le_bytes());
    message.extend_from_slice(body);
    message.into()
}

fn checksum(header: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..CHECKSUM_AT]), body)
}

/// The records of a message, whose checksums were verified.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub origin: Origin,
    pub records: usize,
    frames: Vec<u8>,
}

impl Unpacked {
    /// Verifies and unpacks a message of at most `raw_bytes_max` bytes of frames. The error says what
    /// is wrong.
    pub(crate) fn new(message: &[u8], raw_bytes_max: usize) -> Result<Unpacked, String> {
        if message.len() < HEADER_BYTES || message[..4] != MAGIC {
            return Err("it is no message of a Hedgerow journal".to_owned());
        }
        let (header, body) = message.split_at(HEADER_BYTES);
        let found = checksum(header, body);
        if found != u32_at(header, CHECKSUM_AT) {
            return Err("its checksum does not match".to_owned());
        }
        let records = u32_at(header, 8) as usize;
        let raw_bytes = u32_at(header, 12) as usize;
        if raw_bytes > raw_bytes_max {
            return Err(format!("it unpacks to {raw_bytes} bytes, more than {raw_bytes_max}"));
        }
        let frames = match u32_at(header, 4) {
            PLAIN => body.to_vec(),
            ZSTD => zstd::bulk::decompress(body, raw_bytes)
                .map_err(|error| format!("it cannot be decompressed: {error}"))?,
            other => return Err(format!("its compression is {other}, which this version lacks")),
        };
        let number =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let origin = Origin { series: number(16), counter: number(24), settled: number(32) };
        let unpacked = Unpacked { origin, records, frames };
        if unpacked.frames.len() != raw_bytes || records == 0 || records > RECORDS_MAX {
            return Err("its lengths contradict each other".to_owned());
        }
        unpacked.check()?;
        Ok(unpacked)
    }

    fn check(&self) -> Result<(), String> {
        let mut at = 0;
        for index in 0..self.records {
            let Some(record) = self.record(at) else {
                return Err(format!("record {index} is cut off"));
            };
            if crc32c::crc32c(record) != u32_at(&self.frames, at + 4) {
                return Err(format!("the checksum of record {index} does not match"));
            }
            at += FRAME_BYTES + record.len();
        }
        if at != self.frames.len() {
            return Err("it has more bytes than its records".to_owned());
        }
        Ok(())
    }

    /// The record whose frame begins at `at`; the next begins after its bytes.
    pub(crate) fn record(&self, at: usize) -> Option<&[u8]> {
        let start = at.checked_add(FRAME_BYTES).filter(|start| *start <= self.frames.len())?;
        let len = u32_at(&self.frames, at) as usize;
        self.frames.get(start..start.checked_add(len)?)
    }
}

/// Splits frames into messages of at most `bytes_max` bytes, at least one record each. Yields the
/// bytes and the number of records.
pub(crate) fn split(frames: &[u8], bytes_max: usize) -> impl Iterator<Item = (&[u8], usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, mut records) = (at, 0);
        while at < frames.len() {
            let end = at + FRAME_BYTES + u32_at(frames, at) as usize;
            if records > 0 && (end - start > bytes_max || records == RECORDS_MAX) {
                break;
            }
            (at, records) = (end, records + 1);
        }
        (records > 0).then(|| (&frames[start..at], records))
    })
}

/// The largest record that fits into a message of a server with this `max_payload`.
pub(crate) fn record_bytes_max(max_payload: usize) -> usize {
    max_payload.min(RAW_BYTES_MAX).saturating_sub(OVERHEAD_BYTES)
}

pub(crate) fn lost(stream: &str, what: impl Into<String>) -> Error {
    Error::Lost { stream: stream.to_owned(), what: what.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Batch;

    const ORIGIN: Origin = Origin { series: 7, counter: 8, settled: 5 };

    fn batch(records: &[Vec<u8>]) -> Batch {
        let mut batch = Batch::new();
        records.iter().for_each(|record| batch.push(record));
        batch
    }

    fn records(unpacked: &Unpacked) -> Vec<Vec<u8>> {
        let mut at = 0;
        (0..unpacked.records)
            .map(|_| {
                let record = unpacked.record(at).unwrap().to_vec();
                at += FRAME_BYTES + record.len();
                record
            })
            .collect()
    }

    proptest! {
        #[test]
        fn records_come_back_from_messages(
            wanted in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..40),
            bytes_max in 0usize..4_000,
        ) {
            let batch = batch(&wanted);
            let mut found = Vec::new();
            for (frames, count) in split(batch.frames(), bytes_max) {
                prop_assert!(count == 1 || frames.len() <= bytes_max);
                let message = pack(&[frames], count, ORIGIN);
                let unpacked = Unpacked::new(&message, 1 << 20).unwrap();
                prop_assert_eq!(unpacked.origin, ORIGIN);
                found.extend(records(&unpacked));
            }
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn changed_messages_are_refused(at in 0usize..1_000, bit in 0u8..8, cut in 0usize..1_000) {
            let batch = batch(&[vec![1; 300], b"abc".repeat(200)]);
            let message = pack(&[batch.frames()], 2, ORIGIN);
            let mut changed = message.to_vec();
            let at = at % changed.len();
            changed[at] ^= 1 << bit;
            prop_assert!(Unpacked::new(&changed, 1 << 20).is_err());
            let cut = cut % message.len();
            prop_assert!(Unpacked::new(&message[..cut], 1 << 20).is_err());
        }
    }

    #[test]
    fn message_that_unpacks_to_more_than_the_bound_is_refused_before_it_is_unpacked() {
        let batch = batch(&[vec![0; 100_000]]);
        let message = pack(&[batch.frames()], 1, ORIGIN);
        assert!(message.len() < 1_000);
        let refused = Unpacked::new(&message, 99_999).unwrap_err();
        assert_eq!(refused, "it unpacks to 100008 bytes, more than 99999");
    }

    #[test]
    fn position_after_a_message_is_where_the_next_begins() {
        let sequence = Sequence(5);
        assert_eq!(sequence.position(2, 3).next(), Sequence(6).start());
        assert_eq!(Sequence::of(sequence.position(0, 3)), sequence);
        assert_eq!(Sequence::of(Sequence(6).start()), Sequence(6));
        assert_eq!(Sequence::of(Position::START), Sequence(1));
        assert_eq!(sequence.rest(sequence.position(1, 3)), Some(2));
        assert_eq!(sequence.rest(sequence.start()), None);
        assert!(sequence.position(0, RECORDS_MAX) == sequence.start());
    }
}
