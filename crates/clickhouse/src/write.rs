//! Writing: blocks of rows, the position of a lane, deletes, and what queries join to events.

mod block;
mod deletes;
mod lane;
mod sink;
mod tell;
mod usage;
mod writer;

use crate::client::{Client, Parameters, Statement};
use crate::error::Result;
use crate::settings::Topology;

pub use tell::{Told, ToldCohortMember, ToldDistinctId, ToldGroup, ToldPerson};
pub use writer::{Writer, WriterSettings};

/// Inserts a row of a small table by a statement. Never deduplicated: a row that is stored again after
/// it was deleted is a new one.
fn insert_row(client: &Client, text: String, parameters: Parameters) -> Result<()> {
    let mut statement = Statement::new(text, parameters);
    statement.settings =
        vec![("async_insert", "0".to_owned()), ("insert_deduplicate", "0".to_owned())];
    if client.settings().topology != Topology::Single {
        statement.settings.push(("insert_quorum", "auto".to_owned()));
    }
    client.execute(&statement)
}
