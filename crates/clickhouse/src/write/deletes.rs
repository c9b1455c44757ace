//! Deletes. ClickHouse masks rows of parts that it has; rows that a replay brings later are dropped by
//! the writer, which remembers a delete for as long as a replay could reach its rows.

use arrow::array::{Int64Array, StringArray, UInt32Array, UInt64Array};
use model::ProjectId;
use warehouse::{DeleteSelection, NewRow};

use crate::client::{Client, Parameter, Parameters, Statement};
use crate::error::{Error, Result};
use crate::schema::{column, table_of_rows, within_months};
use crate::write::insert_row;

/// Ids in one statement.
const IDS_PER_STATEMENT: usize = 5_000;

/// A delete that rows may still arrive for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mask {
    pub project: ProjectId,
    pub selection: DeleteSelection,
    pub before: u64,
}

impl Mask {
    pub fn matches(&self, row: &NewRow<'_>) -> bool {
        let time = row.timestamp.as_micros();
        self.project == row.project
            && row.position < self.before
            && match &self.selection {
                DeleteSelection::DistinctNos(selected) => selected.contains(&row.distinct_no),
                DeleteSelection::Uuids(uuids) => uuids.contains(&row.uuid),
                DeleteSelection::Time { from, to } => {
                    from.is_none_or(|from| time >= from) && to.is_none_or(|to| time < to)
                }
                DeleteSelection::All => true,
            }
    }

    /// Makes the delete survive a restart.
    pub fn store(&self, client: &Client, lane: u16) -> Result<()> {
        let selection = serde_json::to_string(&self.selection);
        let selection = selection.map_err(|why| malformed(client, &why.to_string()))?;
        let mut parameters = Parameters::default();
        let lane = parameters.add(Parameter::UInt(lane.into()));
        let project = parameters.add(Parameter::Int(self.project.0));
        let selection = parameters.add(Parameter::String(&selection));
        let before = parameters.add(Parameter::UInt(self.before));
        let text = format!(
            "INSERT INTO deletions (lane, project_id, selection, before) \
             SELECT {lane}, {project}, {selection}, {before}"
        );
        insert_row(client, text, parameters)
    }

    /// The stored deletes that reach beyond a position.
    pub fn load(client: &Client, lane: u16, beyond: u64) -> Result<Vec<Self>> {
        let mut parameters = Parameters::default();
        let lane = parameters.add(Parameter::UInt(lane.into()));
        let beyond = parameters.add(Parameter::UInt(beyond));
        let text = format!(
            "SELECT DISTINCT project_id, selection, before FROM deletions WHERE lane = {lane} \
             AND before > {beyond}"
        );
        let mut masks = Vec::new();
        for batch in client.select(&Statement::new(text, parameters))? {
            let batch = batch?;
            let projects = column::<Int64Array>(client, &batch, 0)?;
            let selections = column::<StringArray>(client, &batch, 1)?;
            let befores = column::<UInt64Array>(client, &batch, 2)?;
            for row in 0..batch.num_rows() {
                let selection = serde_json::from_str(selections.value(row));
                let selection = selection.map_err(|why| malformed(client, &why.to_string()))?;
                let project = ProjectId(projects.value(row));
                masks.push(Self { project, selection, before: befores.value(row) });
            }
        }
        Ok(masks)
    }

    /// Forgets stored deletes that no replay can concern.
    pub fn forget(client: &Client, lane: u16, up_to: u64) -> Result<()> {
        let mut parameters = Parameters::default();
        let lane = parameters.add(Parameter::UInt(lane.into()));
        let up_to = parameters.add(Parameter::UInt(up_to));
        let on_cluster = client.on_cluster();
        let text =
            format!("DELETE FROM deletions{on_cluster} WHERE lane = {lane} AND before <= {up_to}");
        client.execute(&Statement::new(text, parameters))
    }

    /// Deletes the matching rows that ClickHouse has, and returns how many events they were.
    pub fn apply(&self, client: &Client) -> Result<u64> {
        let mut events = 0;
        for part in self.parts() {
            let mut parameters = Parameters::default();
            let condition = part.condition(&mut parameters);
            let text = format!("SELECT count() FROM events FINAL WHERE {condition}");
            let mut found = 0;
            for batch in client.select(&Statement::new(text, parameters.clone()))? {
                found += column::<UInt64Array>(client, &batch?, 0)?.values().iter().sum::<u64>();
            }
            if found == 0 {
                continue;
            }
            events += found;
            let (table, on_cluster) =
                (table_of_rows(&client.settings().topology), client.on_cluster());
            // A copy of an event with another time may lie outside of the range: it must not come to
            // light again when the one that replaced it goes.
            let condition = match &part.selection {
                DeleteSelection::Time { .. } => format!(
                    "(project_id, event, distinct_no, uuid) IN (SELECT project_id, event, \
                     distinct_no, uuid FROM {table} FINAL WHERE {condition}) AND position < {}",
                    parameters.add(Parameter::UInt(self.before))
                ),
                _ => condition,
            };
            let text = format!("DELETE FROM {table}{on_cluster} WHERE {condition}");
            let mut statement = Statement::new(text, parameters);
            statement.settings = vec![
                ("lightweight_deletes_sync", "2".to_owned()),
                ("allow_nondeterministic_mutations", "1".to_owned()),
            ];
            client.execute(&statement)?;
        }
        Ok(events)
    }

    /// Parts whose statements are of bounded length.
    fn parts(&self) -> Vec<Self> {
        let part = |selection| Self { selection, ..self.clone() };
        match &self.selection {
            DeleteSelection::DistinctNos(all) => {
                let all: Vec<u32> = all.iter().copied().collect();
                let chunks = all.chunks(IDS_PER_STATEMENT);
                let selection =
                    |ids: &[u32]| DeleteSelection::DistinctNos(ids.iter().copied().collect());
                chunks.map(|ids| part(selection(ids))).collect()
            }
            DeleteSelection::Uuids(all) => {
                let all: Vec<_> = all.iter().copied().collect();
                let chunks = all.chunks(IDS_PER_STATEMENT);
                chunks
                    .map(|ids| part(DeleteSelection::Uuids(ids.iter().copied().collect())))
                    .collect()
            }
            DeleteSelection::Time { .. } | DeleteSelection::All => vec![self.clone()],
        }
    }

    fn condition(&self, parameters: &mut Parameters) -> String {
        let project = parameters.add(Parameter::Int(self.project.0));
        let before = parameters.add(Parameter::UInt(self.before));
        let mut condition = format!("project_id = {project} AND position < {before}");
        match &self.selection {
            DeleteSelection::DistinctNos(selected) => {
                let selected: Vec<i64> = selected.iter().map(|no| i64::from(*no)).collect();
                let selected = parameters.add(Parameter::Ints(&selected));
                condition.push_str(&format!(" AND distinct_no IN {selected}"));
            }
            DeleteSelection::Uuids(uuids) => {
                let uuids: Vec<_> = uuids.iter().copied().collect();
                let uuids = parameters.add(Parameter::Uuids(&uuids));
                condition.push_str(&format!(" AND uuid IN {uuids}"));
            }
            DeleteSelection::Time { from, to } => {
                for (bound, operator) in [(from, ">="), (to, "<")] {
                    if let Some(micros) = bound {
                        let time = parameters.add(Parameter::Timestamp(*micros));
                        condition.push_str(&format!(" AND timestamp {operator} {time}"));
                    }
                }
            }
            DeleteSelection::All => {}
        }
        condition
    }
}

/// Deletes the events of all projects before a time, in microseconds since 1970, and returns how many
/// they were. Months that are over are dropped as a whole.
pub(super) fn delete_before(client: &Client, micros: i64) -> Result<u64> {
    let mut parameters = Parameters::default();
    let time = parameters.add(Parameter::Timestamp(micros));
    let text = format!("SELECT count() FROM events FINAL WHERE timestamp < {time}");
    let mut events = 0;
    for batch in client.select(&Statement::new(text, parameters.clone()))? {
        events += column::<UInt64Array>(client, &batch?, 0)?.values().iter().sum::<u64>();
    }
    if events == 0 {
        return Ok(0);
    }
    let (table, on_cluster) = (table_of_rows(&client.settings().topology), client.on_cluster());
    let text = format!(
        "SELECT DISTINCT toUInt32OrZero(partition_id) AS month FROM system.parts WHERE active AND \
         database = currentDatabase() AND table = '{table}' AND month < toYYYYMM({})",
        within_months(&time)
    );
    for batch in client.select(&Statement::new(text, parameters.clone()))? {
        let batch = batch?;
        for month in column::<UInt32Array>(client, &batch, 0)?.values() {
            let text = format!("ALTER TABLE {table}{on_cluster} DROP PARTITION ID '{month}'");
            client.execute(&text.into())?;
            tracing::info!(month, "dropped a month of events from ClickHouse");
        }
    }
    let text = format!("DELETE FROM {table}{on_cluster} WHERE timestamp < {time}");
    let mut statement = Statement::new(text, parameters);
    statement.settings = vec![("lightweight_deletes_sync", "2".to_owned())];
    client.execute(&statement)?;
    Ok(events)
}

fn malformed(client: &Client, why: &str) -> Error {
    let why = format!("the table deletions has a selection that cannot be read: {why}");
    Error::Protocol { server: client.settings().server.clone(), why }
}
