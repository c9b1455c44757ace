//! The warehouse: event rows, from the pipeline's hands to every reader's.
//!
//! The pipeline appends rows in the order of the journal with the position they reach; readers take
//! a [`Snapshot`] of one project. The crate never knows persons, definitions or HTTP, and nothing
//! outside names its engine.
//!
//! ```text
//! append -> memory (blocks of codes) -> flush -> segments <- compact
//!               \______ snapshot = segments + memory - dead rows ______/
//! ```
//!
//! - `block`, `memory`: rows in memory, taken apart into dictionary columns when they are appended.
//! - `segment`: one Parquet file; `merge`: the one way in which segments are made.
//! - `manifest`, `change`, `folder`: which files count, changed in one atomic step.
//! - `slab`, `filter`, `tested`, `list`, `scan`, `snapshot`: reading, over codes and dictionaries.
//! - `dedup`: an event is one row for good; `delete`, `compact`, `upkeep`: how rows go.
//! - `verify`, `scrub`: whether files are as they were written; `failing`: projects that are not stored.
//!
//! # Why nothing is lost or counted twice
//!
//! Memory has no log of its own: the journal keeps every record until [`Warehouse::durable_position`]
//! is behind it, and that position changes in the same manifest as the segments that reach it. After
//! a crash the owner replays from there. A row of an event that is already stored is dropped or takes
//! the other's place; the place of the replaced row is marked dead in the manifest that brings the
//! new row, never earlier.
//!
//! A project that cannot be written stays in memory while a flush stores the others. The durable
//! position then stays before its first row: a replay brings rows again that others have stored, and
//! they are dropped as copies.
//!
//! Whole files with names of this crate that no manifest names are moved into the folder `unlisted`
//! when the store is opened, and stay there for a week or within 1 GiB. A folder with files but
//! without a manifest is refused, and nothing in it is touched.
//!
//! # The open format
//!
//! A store is a folder: `manifest`, `lock`, and for every project a folder named by its number with
//! `<partition>-<id>.parquet` segments and `….dead` files. [`Warehouse::files`] lists the files
//! that are a project's events up to a journal position. A bare glob would count replaced files too.
//! Row numbers in a segment's `.dead` file (a portable 32-bit roaring bitmap) must be left out.
//!
//! A partition is a UTC month, `early` (before 2000), `late` (more than a year ahead) or `mixed`. A
//! merge makes segments of at most twelve months; of more, those with few rows go into one mixed
//! segment, and a later merge takes a month out of it that has grown. A project with more than 128
//! small segments has the smallest merged whatever their months. Nothing may rely on the partition:
//! the manifest notes the first and the last time of every segment.
//!
//! Rows of a segment are sorted by event and then timestamp. Columns
//! without values are left out. Row groups have an offset index, page bounds for `uuid`, `timestamp`,
//! `created_at` and `position`, and a bloom filter over `uuid`.
//!
//! | column | type | |
//! |---|---|---|
//! | `uuid` | UUID | |
//! | `timestamp`, `created_at` | timestamp, microseconds, UTC | |
//! | `position` | int64 | place in the journal |
//! | `distinct_no` | uint32 | number of the distinct id in its project |
//! | `historical` | boolean | |
//! | `event`, `distinct_id` | string | |
//! | `elements_chain`, `group_0` … `group_4` | string | null when there is none |
//! | `p.<name>` | see below | null when the event has no such property, or when it is JSON null |
//! | `properties_null` | string | JSON array of the properties that are JSON null |
//! | `properties_rest` | string | JSON object of the rare properties |
//!
//! A property's column is typed by the values that were seen: string when all are texts, boolean,
//! int64, double, and otherwise a string in which every value is JSON (texts in quotes). Numbers are
//! typed only if each literal comes back unchanged. The key `hedgerow` of the footer says which kind
//! each column is, and lists every row group's events with their rows and times.
//!
//! # Checksums
//!
//! Every byte is under a CRC32C that is compared when it is read from the disk, once for everything
//! that is then kept in memory. A segment's blocks of 8 KiB have one each. They stand behind its last
//! row group; there the tail begins, with the page indexes and the footer, whose offset and checksum
//! the manifest holds. The manifest also holds the checksum of every `.dead` file, and its first line
//! that of itself. Segments of older versions have none, are read without, and get them when they are
//! merged. What differs is [`Error::Corrupt`], which names the file; [`verify`] reads everything,
//! [`Warehouse::scrub`] one segment after the other, and [`set_aside`] takes a damaged one out.

mod archive;
mod block;
mod cache;
mod change;
mod compact;
mod dedup;
mod delete;
mod dictionary;
mod error;
mod failing;
mod faults;
mod fields;
mod filter;
mod flush;
mod folder;
mod json;
mod list;
mod manifest;
mod memory;
mod merge;
mod month;
mod narrow;
mod open;
mod places;
mod row;
mod scan;
mod scrub;
mod segment;
mod settings;
mod slab;
mod snapshot;
mod stand;
mod state;
mod tested;
mod upkeep;
mod value;
mod verify;
mod warehouse;

pub use archive::Archive;
pub use cache::{Loan, much_is_freed, when_much_is_freed};
pub use compact::{Compacted, Effort};
pub use delete::Receipt;
pub use dictionary::{ABSENT, Column, Dictionary, Hashing, Interner};
pub use error::{Error, Result};
pub use faults::{Faults, Step};
pub use filter::{Filter, Key, Predicate, Test};
pub use json::{members, with_value};
pub use list::{Cursor, EventSelection, Listing, Order, Window};
pub use manifest::Selection;
/// A set of the numbers of distinct ids.
pub use roaring::RoaringBitmap as Numbers;
pub use row::{EventRow, GROUP_TYPES, NUMBERED_NAMES_MAX, NewRow, Property, PropertySource};
pub use scan::{Batch, Columns, Part, RowTest};
pub use scrub::{Health, Scrubbed};
pub use settings::{Retention, Settings};
pub use snapshot::{Snapshot, Totals, ValueCount};
pub use stand::{Stand, stand};
pub use tested::{Search, Tested};
pub use value::Value;
pub use verify::{Damage, Progress, Report, SetAside, set_aside, verify};
pub use warehouse::{Files, LiveFile, Warehouse};
