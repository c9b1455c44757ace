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

use crate::format::{End, GROUP_BYTES, GroupHeader, HEADER_BYTES, SegmentHeader};
use crate::journal::{Owned, Shared};
use crate::queue::{Before, Queue, Request};
use crate::recover::rewrite;
use crate::segment::{self, Extent, Segment, lock};
use crate::storage::write_all;
use crate::{Durability, Error, Position, Result, Room};

/// A sync into blocks that were never written has to record that they are now, which doubles its
/// time. So a small group that comes to such blocks writes zeros over so many behind it, and the
/// syncs to come find them written. Large groups pay that once for many records anyway.
const PAVED_BYTES: u64 = 1 << 20;
const SMALL_GROUP_BYTES: u64 = PAVED_BYTES / 16;

pub(crate) struct Writer {
    pub shared: Arc<Shared>,
    /// The segment appended to last, by this process or one before.
    pub last: Arc<Segment>,
    /// Whether `last` may be appended to: not after a failure, nor if found at the start.
    pub usable: bool,
    pub synced_to: u64,
    /// How far the blocks of `last` have been written, be it by an earlier use.
    pub paved_to: u64,
    /// Whether a sync of what lies behind `synced_to` has failed.
    pub suspect: bool,
    /// Whether the last group failed; the log tells only when that changes.
    pub failing: bool,
    /// Of the group that failed last, until one succeeds: what a probe must find room for.
    pub refused_bytes: u64,
    /// Held for as long as the thread runs. Before `extent`, whose end tells that all is done.
    pub _owned: Owned,
    pub extent: watch::Sender<Extent>,
}

impl Writer {
    pub(crate) fn run(mut self) {
        let shared = self.shared.clone();
        let _abandon = AbandonOnDrop(&shared.queue);
        let (mut group, mut before) = (Vec::new(), None);
        loop {
            shared.queue.take(self.room(), before.as_ref(), &mut group);
            if group.is_empty() {
                break;
            }
            before = Some(Before { requests: group.len(), began: Instant::now() });
            let first = self.extent.borrow().next;
            // Probes carry no records; in a group with others they share its fate.
            let probe = group.iter().all(|request| request.batch.is_empty());
            let written = if probe { self.be_usable(first) } else { self.write(first, &mut group) };
            if !probe {
                self.count(&written);
            }
            self.answer(first, written, &mut group);
        }
        self.close();
    }

    fn room(&self) -> u64 {
        let used = self.last.visible().offset + GROUP_BYTES as u64;
        // A segment to come has room for any group.
        if self.usable { self.last.bytes().saturating_sub(used) } else { u64::MAX }
    }

    fn write(&mut self, first: Position, group: &mut [Request]) -> Result<()> {
        let bytes: u64 = group.iter().map(|request| request.batch.bytes() as u64).sum();
        self.refused_bytes = bytes;
        if !self.usable || bytes > self.room() {
            self.roll(first, bytes + GROUP_BYTES as u64)?;
        }
        let records = group.iter().map(|request| request.batch.len() as u64).sum::<u64>();
        let salt = self.last.header.salt();
        let start = self.last.visible();
        let mut place = first;
        for request in group.iter_mut() {
            request.batch.place(salt, place);
            place = place.plus(request.batch.len() as u64);
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

        let end = End { offset: start.offset + GROUP_BYTES as u64 + bytes, position: place };
        let zeros = self.zeros_behind(start, end);
        slices.push(IoSlice::new(&zeros));
        self.commit(&mut slices, start, end).inspect_err(|_| self.usable = false)?;
        self.refused_bytes = 0;
        self.shared.counters.records.fetch_add(records, Relaxed);
        self.shared.counters.record_bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Starts a segment unless one can be appended to, as the append that failed last would.
    fn be_usable(&mut self, first: Position) -> Result<()> {
        let bytes = self.refused_bytes;
        if self.usable && bytes <= self.room() {
            return Ok(());
        }
        self.roll(first, bytes + GROUP_BYTES as u64)?;
        self.refused_bytes = 0;
        Ok(())
    }

    fn zeros_behind(&mut self, start: End, end: End) -> Vec<u8> {
        if end.offset <= self.paved_to {
            return Vec::new();
        }
        let synced = self.shared.settings.durability == Durability::Fsync;
        let small = end.offset - start.offset <= SMALL_GROUP_BYTES;
        let room = self.last.bytes().saturating_sub(end.offset);
        let bytes = if synced && small { PAVED_BYTES.min(room) } else { 0 };
        self.paved_to = end.offset + bytes;
        vec![0; bytes as usize]
    }

    fn commit(&mut self, slices: &mut [IoSlice<'_>], start: End, end: End) -> Result<()> {
        write_all(&*self.shared.storage, &self.last.file, slices, start.offset)
            .map_err(Error::io("write to the journal"))?;
        if self.shared.settings.durability == Durability::Fsync {
            self.sync(end.offset)?;
        }
        self.last.show(end);
        self.extent.send_replace(Extent { end: end.position, next: end.position });
        Ok(())
    }

    fn sync(&mut self, end: u64) -> Result<()> {
        let began = Instant::now();
        self.shared.storage.sync(&self.last.file).map_err(Error::io("sync the journal"))?;
        self.shared.counters.synced(began.elapsed());
        self.synced_to = end;
        Ok(())
    }

    fn count(&self, written: &Result<()>) {
        let counters = &self.shared.counters;
        let count = if written.is_ok() { &counters.groups } else { &counters.groups_failed };
        count.fetch_add(1, Relaxed);
    }

    fn answer(&mut self, first: Position, written: Result<()>, group: &mut Vec<Request>) {
        match &written {
            Err(error) if !self.failing => tracing::error!(%error, "journal refuses appends"),
            Ok(()) if self.failing => tracing::info!("journal accepts appends again"),
            _ => {}
        }
        if self.failing || written.is_err() {
            *lock(&self.shared.refusal) = written.as_ref().err().cloned();
        }
        self.failing = written.is_err();
        let mut behind = first.as_u64();
        for Request { batch, done, room } in group.drain(..) {
            behind += batch.len() as u64;
            // Room first: whoever is told that it is durable may append again at once.
            drop((batch, room));
            let _ = done.send(written.clone().map(|()| Position::from_u64(behind - 1)));
        }
    }

    /// Starts a segment with room for `group_bytes` and makes it the last.
    fn roll(&mut self, first: Position, group_bytes: u64) -> Result<()> {
        self.secure()?;
        let shared = &*self.shared;
        let capacity = shared.settings.segment_bytes.max(HEADER_BYTES + group_bytes);
        let spare = {
            let mut segments = lock(&shared.segments);
            if segments.bytes() + capacity > shared.settings.disk_bytes_max {
                return Err(Error::Full(Room::Bound));
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
        let (storage, folder) = (&*shared.storage, &shared.folder);
        let (file, paved_to) = segment::prepare(storage, folder, &header, capacity, spare)?;
        self.usable = false;
        let new = Arc::new(segment::publish(storage, folder, header, file, capacity)?);

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
        self.paved_to = paved_to;
        Ok(())
    }

    /// Syncs what the next header is going to declare complete. There is something to sync only
    /// without fsync on every group. A sync that failed is no longer to be had for these pages, so
    /// they are written again.
    fn secure(&mut self) -> Result<()> {
        let end = self.last.visible().offset;
        if self.synced_to == end {
            return Ok(());
        }
        if self.suspect {
            rewrite(&*self.shared.storage, &self.last, self.synced_to, end)?;
            self.synced_to = end;
        } else {
            self.suspect = true;
            self.sync(end)?;
        }
        self.suspect = false;
        Ok(())
    }

    /// Marks the end of a segment that is complete, and returns the space behind it.
    fn close(&mut self) {
        if !self.usable {
            return;
        }
        let start = self.last.visible();
        if let Err(error) = self.mark(start) {
            tracing::warn!(%error, "could not mark the journal's end");
        }
    }

    fn mark(&mut self, start: End) -> Result<()> {
        // Room for the mark is not set aside: a segment so full that it does not fit grows.
        self.secure()?;
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
        self.last.show(End { offset: end, ..start });
        self.last.trim();
        Ok(())
    }
}

/// Nobody may wait for a thread that is gone, even if it panicked.
struct AbandonOnDrop<'a>(&'a Queue);

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
