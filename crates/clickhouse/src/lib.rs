//! ClickHouse as the warehouse: events, and what queries join to them, in tables of a server or a
//! cluster.
//!
//! ```text
//! append -> block -> one insert with a token -> events --\
//! tell   -> persons, distinct_ids, groups, … ------------+-> SELECT … FINAL
//!                                 then -> lanes (durable position)
//! ```
//!
//! - `client`: HTTP, parameters, Arrow streams, exceptions by what one can do about them.
//! - `schema`: the tables, their topologies and changes, and which properties have columns.
//! - `values`: how a property's value is stored.
//! - `write`: blocks of rows, the durable position of a lane, deletes, persons and groups.
//! - `read`: events as they were appended.
//! - `print`: a checked HogQL plan as a statement of ClickHouse.
//!
//! Every name in a statement is from a closed set, every value is a parameter.
//!
//! # Exactly once
//!
//! A lane is one sequence of journal positions with one writer. It inserts a block of rows, and then
//! the position that they reach. What it repeats after a crash or a lost answer carries the token of
//! its first and last position, so that ClickHouse drops it; a block that it cuts otherwise brings the
//! same rows at the same positions, of which reads see one. A token never names two contents: a lane
//! that is filled anew gets the next generation.

mod client;
mod error;
mod print;
mod read;
mod schema;
mod settings;
mod values;
mod write;

pub use client::{Batches, Client, Deduplication, EncodedRows, Parameter, Parameters, Statement};
pub use error::{Error, Password, Result};
pub use print::{
    EventColumns, Narrowing, PrintContext, Printed, PrintedEvents, event_reads, print,
    print_matching, print_reads,
};
pub use read::{EventFilter, EventKey, KeyOf, ReadLimits, Reader, ValuesOf};
pub use schema::{PROMOTED_MAX, Schema};
pub use settings::{Compression, Settings, Topology};
pub use write::{
    Told, ToldCohortMember, ToldDistinctId, ToldGroup, ToldPerson, Writer, WriterSettings,
};
