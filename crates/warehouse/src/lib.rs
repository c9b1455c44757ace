//! The warehouse: the column store of event rows.
//!
//! The pipeline appends rows in journal order, together with the journal position they reach.
//! Readers take a [`Snapshot`] of one project. The crate knows nothing of persons, definitions or
//! HTTP, and no other crate names its engine.
//!
//! ```text
//! append -> memtable (blocks of dictionary codes) -> flush -> segments <- compact
//!               \______ snapshot = segments + memtable - dead rows ______/
//! ```
//!
//! Each folder may use only those above it:
//!
//! - `columns`: values, dictionary-encoded columns, event rows.
//! - `manifest`: the list of live files, replaced atomically, and the directory they are in.
//! - `segment`: one immutable Parquet file: format, reader, writer, cache of decoded columns.
//! - `memtable`: rows that are not flushed yet, and the index that deduplicates them.
//! - `read`: snapshots, filters, scans and lists over dictionary codes.
//! - `merge`: the k-way merge that writes every segment.
//! - `write`: append, flush, compaction and deletes; each commits one manifest edit.
//! - `maintenance`: retention, scrubbing, verification, reading a store without its lock.
//! - `sink`: the seam: what ingestion needs of any warehouse, as [`Sink`].
//!
//! # Durability and deduplication
//!
//! The memtable has no log of its own. The journal keeps every record until
//! [`Warehouse::durable_position`] has passed it, and that position changes in the same manifest
//! commit as the segments that reach it. After a crash the owner replays the journal from there.
//! Appends are idempotent: a row whose event is already stored is dropped if its content is equal,
//! and replaces the stored row otherwise. The manifest that commits the new row also marks the
//! replaced row dead, so exactly one copy is live at every instant.
//!
//! If a project cannot be flushed, its rows stay in memory and the flush stores the other projects.
//! The durable position then stays before that project's first row. A replay appends rows that other
//! projects have already stored; deduplication drops them.
//!
//! Opening a store moves complete files that match this crate's name patterns, but that no manifest
//! names, into the directory `unlisted`. They are removed after a week, or earlier to keep that
//! directory below 1 GiB. A directory with files but without a manifest is refused unchanged.
//!
//! # The open format
//!
//! A store is a directory with `manifest`, `lock`, and one directory per project, named by the
//! project's id, with segments `<partition>-<id>.parquet` and tombstone files `….dead`.
//! [`Warehouse::files`] lists the files that hold a project's events up to a journal position; a bare
//! glob would also count replaced files. Readers must skip the row numbers in a segment's `.dead`
//! file (a portable 32-bit roaring bitmap).
//!
//! A partition is a UTC month, `early` (before 2000), `late` (more than a year ahead) or `mixed`. A
//! merge writes at most twelve months. If there are more, it puts the months with few rows into one
//! mixed segment; a later merge splits off a month that has grown. A project with more than 128 small
//! segments gets its smallest merged regardless of month. Readers must not rely on the partition:
//! the manifest has the minimum and maximum timestamp of every segment.
//!
//! Rows of a segment are sorted by event, then by timestamp. Columns without values are omitted. Row
//! groups have an offset index, page bounds for `uuid`, `timestamp`, `created_at` and `position`, and
//! a bloom filter over `uuid`.
//!
//! | column | type | |
//! |---|---|---|
//! | `uuid` | UUID | |
//! | `timestamp`, `created_at` | timestamp, microseconds, UTC | |
//! | `position` | int64 | journal position |
//! | `distinct_no` | uint32 | dense id of the distinct id in its project |
//! | `historical` | boolean | |
//! | `event`, `distinct_id` | string | |
//! | `elements_chain`, `group_0` … `group_4` | string | null when there is none |
//! | `p.<name>` | see below | null when the event has no such property, or when it is JSON null |
//! | `properties_null` | string | JSON array of the properties that are JSON null |
//! | `properties_rest` | string | JSON object of the rare properties |
//!
//! The values decide the type of a property's column: string if all are strings, boolean, int64,
//! double, and otherwise a string column of JSON values (strings in quotes). Numbers get a numeric
//! type only if every literal survives the round trip unchanged. The footer key `hedgerow` has the
//! kind of each column and, for each row group, its events with row counts and time ranges.
//!
//! # Checksums
//!
//! A CRC32C covers every byte. The reader compares it when it reads from disk, once for everything
//! that the cache then holds. A segment has one checksum per block of 8 KiB. The list of them follows
//! the last row group and starts the tail, which also has the page indexes and the footer; the
//! manifest holds the tail's offset and checksum. The manifest also holds the checksum of every
//! `.dead` file, and its own checksum is in its first line. Segments of older versions have no
//! checksums; they are read unchecked until a merge rewrites them. A mismatch is [`Error::Corrupt`],
//! which names the file. [`verify`] checks everything, [`Warehouse::scrub`] one segment per call, and
//! [`quarantine_segment`] removes a corrupted segment from the store.

mod columns;
mod error;
mod faults;
mod maintenance;
mod manifest;
mod memtable;
mod merge;
mod read;
mod segment;
mod settings;
mod sink;
mod write;

pub use columns::dictionary::{ABSENT, Column, Dictionary, Interner, MappedEntries, ValueHasher};
pub use columns::json::{for_each_json_member, with_json_value};
pub use columns::row::{
    EventRow, GROUP_TYPES, NewRow, Property, PropertySource, WELL_KNOWN_PROPERTIES_MAX,
};
pub use columns::value::Value;
pub use error::{Error, Result};
pub use faults::{FaultInjector, FaultPoint};
pub use maintenance::read_only::ReadOnlyWarehouse;
pub use maintenance::scrub::{Health, ScrubOutcome};
pub use maintenance::stored_position::{StoredPosition, stored_position};
pub use maintenance::verify::{
    CorruptFile, QuarantinedSegment, VerifyProgress, VerifyReport, quarantine_segment, verify,
};
pub use manifest::DeleteSelection;
pub use read::filter::{ColumnKey, Filter, Predicate, ValueTest};
pub use read::list::{Cursor, EventSelection, Listing, Order, SelectedBatch, Window};
pub use read::memoized_predicate::{MemoizedPredicate, SubstringSearch};
pub use read::scan::{Batch, Projection, RowPredicate, ScanRange, SelectedRows};
pub use read::snapshot::{SegmentSet, Snapshot, Totals, ValueCount};
pub use read::snapshot_builder::SnapshotBuilder;
pub use read::stats::ScanStats;
/// A set of dense ids, of distinct ids or of persons.
pub use roaring::RoaringBitmap as DenseIdSet;
pub use segment::cache::CacheReservation;
pub use settings::{Retention, Settings};
pub use sink::{AppendListener, Sink};
pub use write::compact::{CompactionKind, CompactionOutcome};
pub use write::delete::DeleteOutcome;
pub use write::warehouse::{Files, LiveFile, StoreSize, Warehouse};
