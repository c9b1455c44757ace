//! The one thread that writes.
//!
//! It takes what waits, writes it as one group, syncs, shows the new end to readers, then answers.
//! While it syncs, the next group gathers.
//!
//! **After a failure** (write or sync) the bytes behind the last good group are unknown: on disk, in
//! memory only, or both in part; and a sync that failed once may report success later without
//! having written. So the segment is given up: nothing is written to it any more, and the next
//! append starts a new segment, whose header names the end of the one before as it was when the
//! failure happened. An append is refused until that header is durable, so the journal heals by
//! itself when the disk does.
//!
//! **Why history stays one.** Readers see a position only after its group was synced.
//! - A failed group was never seen. Its positions go to other records only in the new segment,
//!   whose durable header cuts the failed group off for good. If the process ends before that
//!   header is durable, the failed group may be found whole and be kept: then it was the first to
//!   be seen at its positions (and is secured before anyone sees it, see `recover`).
//! - A segment given up before it held a record is replaced under its own name by a rename, and
//!   the folder is synced before the first group goes into the new one. Whichever of the two a
//!   crash leaves, nothing at its positions had been seen.
//! - A synced group cannot be lost by cutting: cutting needs a group that fails its checksum and
//!   no proof behind it that it had been synced.
//!
//! So an unacknowledged record may appear (its sender retries, and events are recognised by their
//! uuid), but what stands at a position never changes once someone has read it. Without fsync this
//! holds for a killed process; for a power cut, positions jump ahead instead of coming twice.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tokio::sync::watch;

use crate::files::format::{End, GROUP_BYTES, GroupHeader, HEADER_BYTES, SegmentHeader};
use crate::files::journal::{DirLock, Shared};
use crate::files::queue::{PreviousGroup, Queue, Request};
use crate::files::recover::rewrite;
use crate::files::segment::{self, LogEnd, Segment};
use crate::files::storage::write_all;
use crate::{Durability, Error, FullCause, Position, Result, lock};

/// Zeros that a small group writes ahead of itself. The first sync of a block must also update the
/// file's metadata (unwritten to written extent), which doubles its latency; syncs of prewritten
/// blocks avoid it. Large groups amortize the cost over many records.
const PREALLOCATED_BYTES: u64 = 1 << 20;
const SMALL_GROUP_BYTES: u64 = PREALLOCATED_BYTES / 16;

pub(crate) struct Writer {
    pub shared: Arc<Shared>,
    /// The newest segment, written by this process or an earlier one.
    pub last: Arc<Segment>,
    /// Whether `last` may be appended to. False after a failure, and for a segment of an earlier
    /// process.
    pub usable: bool,
    pub synced_to: u64,
    /// Offset up to which the blocks of `last` were written before, possibly as another segment.
    pub preallocated_to: u64,
    /// Whether a sync of the bytes after `synced_to` has failed.
    pub sync_failed: bool,
    /// Whether the last group failed. Only a change of this is logged.
    pub failing: bool,
    /// Size of the last failed group, 0 after a success: a probe must find space for as much.
    pub failed_group_bytes: u64,
    /// Held while the thread runs. Declared before `log_end` so that the lock is released before
    /// [`crate::Journal::close`] sees the channel close.
    pub _dir_lock: DirLock,
    pub log_end: watch::Sender<LogEnd>,
}

impl Writer {
    pub(crate) fn run(mut self) {
        let shared = self.shared.clone();
        let _abandon = AbandonOnDrop(&shared.queue);
        let (mut group, mut previous) = (Vec::new(), None);
        loop {
            shared.queue.take(self.bytes_left(), previous.as_ref(), &mut group);
            if group.is_empty() {
                break;
            }
            previous = Some(PreviousGroup { requests: group.len(), began: Instant::now() });
            let first = self.log_end.borrow().next;
            // A probe has no records. In a group with appends it gets the group's result.
            let probe = group.iter().all(|request| request.batch.is_empty());
            let written =
                if probe { self.ensure_usable(first) } else { self.write(first, &mut group) };
            if !probe {
                shared.counters.grouped(written.is_ok());
            }
            self.notify(first, written, &mut group);
        }
        self.close();
    }

    fn bytes_left(&self) -> u64 {
        let used = self.last.visible().offset + GROUP_BYTES as u64;
        // A new segment is made large enough for any group.
        if self.usable { self.last.bytes().saturating_sub(used) } else { u64::MAX }
    }

    fn write(&mut self, first: Position, group: &mut [Request]) -> Result<()> {
        let bytes: u64 = group.iter().map(|request| request.batch.bytes() as u64).sum();
        self.failed_group_bytes = bytes;
        if !self.usable || bytes > self.bytes_left() {
            self.roll(first, bytes + GROUP_BYTES as u64)?;
        }
        let records = group.iter().map(|request| request.batch.len() as u64).sum::<u64>();
        let salt = self.last.header.salt();
        let start = self.last.visible();
        let mut position = first;
        for request in group.iter_mut() {
            request.batch.assign_positions(salt, position);
            position = position.plus(request.batch.len() as u64);
        }
        let header = GroupHeader {
            bytes: bytes as u32,
            records: records as u32,
            first,
            synced_to: self.synced_to,
        };
        let header = header.encode(salt, start.offset);
        let mut slices = Vec::with_capacity(group.len() + 2);
        slices.push(IoSlice::new(&header));
        slices.extend(group.iter().map(|request| IoSlice::new(request.batch.frames())));

        let end = End { offset: start.offset + GROUP_BYTES as u64 + bytes, position };
        let zeros = self.zeros_after(start, end);
        slices.push(IoSlice::new(&zeros));
        self.commit(&mut slices, start, end).inspect_err(|_| self.usable = false)?;
        self.failed_group_bytes = 0;
        self.shared.counters.records.fetch_add(records, Relaxed);
        self.shared.counters.record_bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Starts a segment with space for the group that failed last, unless the current one has it.
    fn ensure_usable(&mut self, first: Position) -> Result<()> {
        let bytes = self.failed_group_bytes;
        if self.usable && bytes <= self.bytes_left() {
            return Ok(());
        }
        self.roll(first, bytes + GROUP_BYTES as u64)?;
        self.failed_group_bytes = 0;
        Ok(())
    }

    fn zeros_after(&mut self, start: End, end: End) -> Vec<u8> {
        if end.offset <= self.preallocated_to {
            return Vec::new();
        }
        let synced = self.shared.settings.durability == Durability::Fsync;
        let small = end.offset - start.offset <= SMALL_GROUP_BYTES;
        let left = self.last.bytes().saturating_sub(end.offset);
        let bytes = if synced && small { PREALLOCATED_BYTES.min(left) } else { 0 };
        self.preallocated_to = end.offset + bytes;
        vec![0; bytes as usize]
    }

    fn commit(&mut self, slices: &mut [IoSlice<'_>], start: End, end: End) -> Result<()> {
        write_all(&*self.shared.storage, &self.last.file, slices, start.offset)
            .map_err(Error::io("write to the journal"))?;
        if self.shared.settings.durability == Durability::Fsync {
            self.sync(end.offset)?;
        }
        self.last.set_visible(end);
        self.log_end.send_replace(LogEnd { end: end.position, next: end.position });
        Ok(())
    }

    fn sync(&mut self, end: u64) -> Result<()> {
        let began = Instant::now();
        self.shared.storage.sync(&self.last.file).map_err(Error::io("sync the journal"))?;
        self.shared.counters.synced(began.elapsed());
        self.synced_to = end;
        Ok(())
    }

    fn notify(&mut self, first: Position, written: Result<()>, group: &mut Vec<Request>) {
        match &written {
            Err(error) if !self.failing => tracing::error!(%error, "journal refuses appends"),
            Ok(()) if self.failing => tracing::info!("journal accepts appends again"),
            _ => {}
        }
        if self.failing || written.is_err() {
            *lock(&self.shared.refusal) = written.as_ref().err().cloned();
        }
        self.failing = written.is_err();
        let mut next = first.as_u64();
        for Request { batch, done, permit } in group.drain(..) {
            next += batch.len() as u64;
            // Release the queue's capacity first: a notified caller may append again at once.
            drop((batch, permit));
            let _ = done.send(written.clone().map(|()| Position::from_u64(next - 1)));
        }
    }

    /// Starts a segment with space for `group_bytes` and makes it the newest.
    fn roll(&mut self, first: Position, group_bytes: u64) -> Result<()> {
        self.sync_tail()?;
        let shared = &*self.shared;
        let capacity = shared.settings.segment_bytes.max(HEADER_BYTES + group_bytes);
        let spare = {
            let mut segments = lock(&shared.segments);
            if segments.bytes() + capacity > shared.settings.disk_bytes_max {
                return Err(Error::Full(FullCause::Limit));
            }
            segments.spare.take()
        };
        let old = &self.last;
        let (number, previous) = match old.is_empty() {
            true => (old.header.number, old.header.previous),
            false => (old.header.number + 1, old.visible()),
        };
        let durability = shared.settings.durability;
        let header = SegmentHeader {
            journal: shared.id,
            number,
            first,
            previous,
            durability,
            allocated: capacity,
        };
        let (storage, dir) = (&*shared.storage, &shared.dir);
        let (file, preallocated_to) = segment::prepare(storage, dir, &header, capacity, spare)?;
        self.usable = false;
        let new = Arc::new(segment::publish(storage, dir, header, file, capacity)?);

        let mut segments = lock(&shared.segments);
        if old.is_empty() {
            segments.list.pop_back();
        }
        segments.list.push_back(new.clone());
        drop(segments);
        if !old.is_empty() {
            old.trim();
        }
        self.last = new;
        self.usable = true;
        self.synced_to = HEADER_BYTES;
        self.preallocated_to = preallocated_to;
        Ok(())
    }

    /// Syncs everything that the next segment's header will declare complete. Only
    /// [`Durability::Os`] leaves anything to sync. After a failed sync the kernel may have marked the
    /// pages clean, so they are written again.
    fn sync_tail(&mut self) -> Result<()> {
        let end = self.last.visible().offset;
        if self.synced_to == end {
            return Ok(());
        }
        if self.sync_failed {
            rewrite(&*self.shared.storage, &self.last, self.synced_to, end)?;
            self.synced_to = end;
        } else {
            self.sync_failed = true;
            self.sync(end)?;
        }
        self.sync_failed = false;
        Ok(())
    }

    /// Writes the marker of a clean close and truncates the unused space.
    fn close(&mut self) {
        if !self.usable {
            return;
        }
        let start = self.last.visible();
        if let Err(error) = self.write_close_marker(start) {
            tracing::warn!(%error, "could not write the journal's close marker");
        }
    }

    fn write_close_marker(&mut self, start: End) -> Result<()> {
        // No space is reserved for the marker: a full segment grows by it.
        self.sync_tail()?;
        let header =
            GroupHeader { bytes: 0, records: 0, first: start.position, synced_to: start.offset };
        let block = header.encode(self.last.header.salt(), start.offset);
        write_all(
            &*self.shared.storage,
            &self.last.file,
            &mut [IoSlice::new(&block)],
            start.offset,
        )
        .map_err(Error::io("write to the journal"))?;
        let end = start.offset + GROUP_BYTES as u64;
        self.sync(end)?;
        self.last.set_visible(End { offset: end, ..start });
        self.last.trim();
        Ok(())
    }
}

/// Fails all waiting appends when the thread ends, even by a panic.
struct AbandonOnDrop<'a>(&'a Queue);

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
