//! Adds the names of cohorts and groups that conditions refer to.

use std::collections::{BTreeSet, HashMap};

use model::ProjectId;
use model::flag::FeatureFlag;
use model::flag::filters::{self, Names};

use crate::{AppState, Result};

/// Adds names to the filters of all flags, with two statements for any number of flags.
pub(super) async fn show(
    app: &AppState,
    project: ProjectId,
    flags: &mut [FeatureFlag],
) -> Result<()> {
    let cohorts: BTreeSet<_> =
        flags.iter().flat_map(|flag| filters::cohorts(&flag.filters)).collect();
    let groups: BTreeSet<_> =
        flags.iter().flat_map(|flag| filters::group_keys(&flag.filters)).collect();
    if cohorts.is_empty() && groups.is_empty() {
        return Ok(());
    }
    let cohorts: Vec<_> = cohorts.into_iter().collect();
    let keys: Vec<(u8, &str)> = groups.iter().map(|(index, key)| (*index, key.as_str())).collect();
    let groups_found = app.catalog.groups().by_key(project, &keys).await?;
    let groups: HashMap<(u8, String), String> = groups_found
        .into_iter()
        .map(|group| ((group.index, group.key.clone()), group.name()))
        .collect();
    let names = Names { cohorts: app.catalog.cohorts().names(project, &cohorts).await?, groups };
    flags.iter_mut().for_each(|flag| filters::add_names(&mut flag.filters, &names));
    Ok(())
}
