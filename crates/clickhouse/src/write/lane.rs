//! The position that a lane has reached, as ClickHouse knows it.

use arrow::array::{StringArray, UInt32Array, UInt64Array};
use warehouse::StoredPosition;

use crate::client::{Client, Parameter, Parameters, Statement};
use crate::error::{Error, Result};
use crate::schema::column;
use crate::settings::Topology;
use crate::write::insert_row;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub lane: u16,
    pub generation: u32,
    pub journal: u128,
}

impl Lane {
    /// The lane and its position. One that has never been opened is stored and begins at zero. Fails
    /// if it was filled from another journal.
    pub fn open(client: &Client, lane: u16, journal: u128) -> Result<(Self, u64)> {
        let Some((generation, stored, position)) = stored(client, lane)? else {
            let new = Self { lane, generation: 1, journal };
            new.reach(client, 0)?;
            return Ok((new, 0));
        };
        if stored != journal {
            return Err(Error::Journal { stored, given: journal });
        }
        Ok((Self { lane, generation, journal }, position))
    }

    /// The next generation of the lane, which begins at zero: what it inserts is never taken for what
    /// an earlier one inserted.
    pub fn next_generation(client: &Client, lane: u16, journal: u128) -> Result<Self> {
        let generation = stored(client, lane)?.map_or(1, |(generation, _, _)| generation + 1);
        let lane = Self { lane, generation, journal };
        lane.reach(client, 0)?;
        Ok(lane)
    }

    /// The token of a block with rows of these positions.
    pub fn token(&self, (first, last): (u64, u64)) -> String {
        format!("{}:{}:{first}-{last}", self.lane, self.generation)
    }

    /// Stores the position. All rows before it are stored.
    pub fn reach(&self, client: &Client, position: u64) -> Result<()> {
        let mut parameters = Parameters::default();
        let [lane, generation, position] = [self.lane.into(), self.generation.into(), position]
            .map(|number| parameters.add(Parameter::UInt(number)));
        let journal = format!("{:032x}", self.journal);
        let journal = parameters.add(Parameter::String(&journal));
        let text = format!(
            "INSERT INTO lanes (lane, generation, journal, position) \
             SELECT {lane}, {generation}, {journal}, {position}"
        );
        insert_row(client, text, parameters)
    }
}

/// The journal that a lane was filled from, and how far; none if it was never opened.
pub(super) fn stored_position(client: &Client, lane: u16) -> Result<Option<StoredPosition>> {
    let stored = stored(client, lane)?;
    Ok(stored.map(|(_, journal, position)| StoredPosition { journal, position }))
}

/// Generation, journal and position of a lane.
fn stored(client: &Client, lane: u16) -> Result<Option<(u32, u128, u64)>> {
    let mut parameters = Parameters::default();
    let lane = parameters.add(Parameter::UInt(lane.into()));
    let text = format!(
        "SELECT generation, argMax(journal, position), max(position) FROM lanes \
         WHERE lane = {lane} GROUP BY generation ORDER BY generation DESC LIMIT 1"
    );
    let mut statement = Statement::new(text, parameters);
    if client.settings().topology != Topology::Single {
        // Not what a replica has that lags behind.
        statement.settings.push(("select_sequential_consistency", "1".to_owned()));
    }
    for batch in client.select(&statement)? {
        let batch = batch?;
        let generations = column::<UInt32Array>(client, &batch, 0)?;
        let journals = column::<StringArray>(client, &batch, 1)?;
        let positions = column::<UInt64Array>(client, &batch, 2)?;
        if batch.num_rows() > 0 {
            let journal = u128::from_str_radix(journals.value(0), 16);
            let journal = journal.map_err(|_| Error::Protocol {
                server: client.settings().server.clone(),
                why: "the table lanes has a journal id that is none".to_owned(),
            })?;
            return Ok(Some((generations.value(0), journal, positions.value(0))));
        }
    }
    Ok(None)
}
