//! Writes what events report about flags: last calls, and enriched analytics.

use std::collections::{BTreeMap, BTreeSet};

use model::definition::{FlagObservation, ObservedFlag};
use model::{ProjectId, Timestamp};

use crate::Result;
use crate::db::bulk::Rows;
use crate::db::{Tx, args};

/// Writes in key order, which prevents deadlocks. Both engines name the columns of a `VALUES` list
/// `column1`, `column2`, ….
pub(super) async fn write(tx: &mut Tx, observed: &[ObservedFlag]) -> Result<()> {
    let mut called: BTreeMap<(ProjectId, &str), Timestamp> = BTreeMap::new();
    let mut enriched: BTreeSet<(ProjectId, &str)> = BTreeSet::new();
    for flag in observed {
        let name = (flag.project, flag.key.as_str());
        match flag.observation {
            FlagObservation::Called(at) => {
                let last = called.entry(name).or_insert(at);
                *last = at.max(*last);
            }
            FlagObservation::Enriched => drop(enriched.insert(name)),
        }
    }
    let mut rows = Rows::new(3);
    for ((project, key), at) in called {
        rows.push(args![project, key, at]);
    }
    let head = "UPDATE feature_flags SET last_called_at = v.column3 FROM (";
    let tail = ") AS v WHERE project_id = v.column1 AND key = v.column2 AND NOT deleted \
                AND (last_called_at IS NULL OR last_called_at < v.column3)";
    tx.write(head, rows, tail).await?;
    let mut rows = Rows::new(2);
    for (project, key) in enriched {
        rows.push(args![project, key]);
    }
    let head = "UPDATE feature_flags SET has_enriched_analytics = TRUE FROM (";
    let tail = ") AS v WHERE project_id = v.column1 AND key = v.column2 AND NOT deleted \
                AND NOT has_enriched_analytics";
    tx.write(head, rows, tail).await
}
