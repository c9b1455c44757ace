//! Whether the journal, the catalog and the warehouse of a data directory belong together.
//!
//! The journal is written first, then the catalog, then the warehouse: each store keeps the id of
//! the journal it was filled from and the first position it lacks. After any crash
//! `oldest of the journal <= warehouse <= catalog <= next of the journal` holds. What breaks it was
//! damaged, or put back from copies of different times; a server that started on it would take new
//! events for old ones.

use std::fmt;

use anyhow::{Context as _, Result, bail};
use catalog::{Catalog, Vault};
use journal::{Journal, JournalId};
use model::Clock;
use warehouse::Stand;

use crate::folder::{self, Folder};
use crate::settings::Settings;

/// Where the three stand. A store that is new, or not there, is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    pub journal: Option<JournalStand>,
    pub catalog: Option<(JournalId, u64)>,
    pub warehouse: Option<(JournalId, u64)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalStand {
    pub id: JournalId,
    pub oldest: u64,
    pub next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Catalog,
    Warehouse,
}

/// How two of them contradict each other.
#[derive(Clone, Debug)]
pub(crate) enum Disagreement {
    NoJournal { store: Store, position: u64 },
    OtherJournal { store: Store, stored: JournalId, given: JournalId },
    TwoJournals { catalog: JournalId, warehouse: JournalId },
    Ahead { store: Store, position: u64, next: u64 },
    JournalBegins { warehouse: u64, oldest: u64 },
    NoWarehouse { catalog: u64 },
    CatalogBehind { catalog: u64, warehouse: u64 },
}

impl Positions {
    /// What both stores say, before the journal is looked at.
    pub(crate) fn new(catalog: Option<(u128, u64)>, warehouse: Option<Stand>) -> Self {
        Self {
            journal: None,
            catalog: catalog.map(|(id, position)| (JournalId::from_u128(id), position)),
            warehouse: warehouse.map(|at| (JournalId::from_u128(at.journal), at.position.max(1))),
        }
    }

    pub(crate) fn disagreements(&self) -> Vec<Disagreement> {
        let stores = [(Store::Catalog, self.catalog), (Store::Warehouse, self.warehouse)];
        let stores = stores.into_iter().filter_map(|(store, at)| at.map(|at| (store, at)));
        if let (Some((catalog, _)), Some((warehouse, _))) = (self.catalog, self.warehouse)
            && catalog != warehouse
        {
            return vec![Disagreement::TwoJournals { catalog, warehouse }];
        }
        let mut found = Vec::new();
        let catalog = self.catalog.map_or(1, |(_, position)| position);
        match self.warehouse {
            Some((_, warehouse)) if warehouse > catalog => {
                found.push(Disagreement::CatalogBehind { catalog, warehouse });
            }
            // The first start makes it, before the catalog applies anything.
            None if catalog > 1 => found.push(Disagreement::NoWarehouse { catalog }),
            _ => {}
        }
        let Some(journal) = self.journal else {
            // An empty warehouse is made together with the first journal.
            let filled = stores.filter(|(_, (_, position))| *position > 1);
            found.extend(
                filled.map(|(store, (_, position))| Disagreement::NoJournal { store, position }),
            );
            return found;
        };
        for (store, (stored, position)) in stores {
            if stored != journal.id {
                found.push(Disagreement::OtherJournal { store, stored, given: journal.id });
            } else if position > journal.next {
                found.push(Disagreement::Ahead { store, position, next: journal.next });
            }
        }
        if let Some((id, warehouse)) = self.warehouse
            && id == journal.id
            && warehouse < journal.oldest
        {
            found.push(Disagreement::JournalBegins { warehouse, oldest: journal.oldest });
        }
        found
    }
}

impl Disagreement {
    /// Whether `hedgerow repair` can make the stores agree. It never changes what the catalog and
    /// the warehouse hold: rows refer to numbers in the catalog.
    pub(crate) const fn is_repairable(&self) -> bool {
        match self {
            Self::NoJournal { .. }
            | Self::OtherJournal { .. }
            | Self::Ahead { .. }
            | Self::JournalBegins { .. } => true,
            Self::TwoJournals { .. } | Self::NoWarehouse { .. } | Self::CatalogBehind { .. } => {
                false
            }
        }
    }

    pub(crate) const fn remedy(&self) -> &'static str {
        if self.is_repairable() {
            "`hedgerow repair` says what it would do"
        } else {
            "restore catalog, warehouse and journal from one backup (`hedgerow restore`)"
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Catalog => "catalog",
            Self::Warehouse => "warehouse",
        })
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJournal { store, position } => write!(
                f,
                "the {store} has applied a journal up to position {position}, but there is no \
                 journal here"
            ),
            Self::OtherJournal { store, stored, given } => write!(
                f,
                "the {store} was filled from journal {stored}, but the journal here is {given}"
            ),
            Self::TwoJournals { catalog, warehouse } => write!(
                f,
                "the catalog was filled from journal {catalog}, the warehouse from {warehouse}: \
                 they belong to different servers, and rows refer to the catalog by number"
            ),
            Self::Ahead { store, position, next } => write!(
                f,
                "the {store} has applied the journal up to position {position}, but the journal \
                 ends at position {next}: it was cut or restored from an older copy, and new \
                 events would be taken for old ones"
            ),
            Self::JournalBegins { warehouse, oldest } => write!(
                f,
                "the warehouse has the journal up to position {warehouse}, but the journal begins \
                 at position {oldest}: the warehouse was restored from an older copy, or files of \
                 the journal are gone"
            ),
            Self::NoWarehouse { catalog } => write!(
                f,
                "the catalog has applied the journal up to position {catalog}, but there is no \
                 warehouse here (no manifest)"
            ),
            Self::CatalogBehind { catalog, warehouse } => write!(
                f,
                "the catalog has applied the journal up to position {catalog}, the warehouse up to \
                 {warehouse}: the catalog was restored from an older copy, and rows refer to \
                 numbers that it has not given yet"
            ),
        }
    }
}

/// Refuses a directory that a newer release wrote, before anything in it is changed. The catalog
/// says so itself when it is opened.
pub(crate) fn check_versions(folder: &Folder) -> Result<()> {
    let newer = || folder.newer("a newer release wrote it");
    journal::check_version(&folder.journal()).with_context(newer)?;
    match warehouse::stand(&folder.warehouse()) {
        Err(error @ warehouse::Error::Version { .. }) => Err(error).with_context(newer),
        // Whoever opens the warehouse says what else is wrong with it.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Opens or makes the catalog, and migrates it.
pub(crate) async fn open_catalog(
    folder: &Folder,
    settings: &Settings,
    vault: Vault,
    clock: Clock,
) -> Result<Catalog> {
    let file = folder.catalog_file();
    match Catalog::open(folder::location(settings, &file), vault, clock).await {
        Err(error @ catalog::Error::NewerSchema { .. }) => {
            Err(error).with_context(|| folder.newer("a newer release migrated its catalog"))
        }
        opened => opened.context("cannot open the catalog"),
    }
}

/// A catalog is not made anew where events refer to the one that was there.
pub(crate) fn check_catalog_may_be_new(folder: &Folder) -> Result<()> {
    let warehouse = warehouse::stand(&folder.warehouse());
    if let Some(at) = warehouse.context("cannot open the warehouse of events")?
        && at.position > 1
    {
        bail!(
            "there is no {}, but a warehouse with the journal up to position {}: rows refer to the \
             catalog by number; restore both from one backup (`hedgerow restore`)",
            folder.catalog_file().display(),
            at.position
        );
    }
    Ok(())
}

/// Before a journal is made where one is missing, and before a warehouse is opened.
pub(crate) async fn check_journal_is_here(folder: &Folder, catalog: &Catalog) -> Result<()> {
    if !journal::is_present(&folder.journal())? {
        agree(&stored(folder, catalog).await?)?;
    }
    Ok(())
}

/// Refuses to start on stores that contradict each other.
pub(crate) async fn check(folder: &Folder, catalog: &Catalog, journal: &Journal) -> Result<()> {
    let stand = JournalStand {
        id: journal.id(),
        oldest: journal.stats().oldest.as_u64(),
        next: journal.next_position().as_u64(),
    };
    agree(&Positions { journal: Some(stand), ..stored(folder, catalog).await? })
}

async fn stored(folder: &Folder, catalog: &Catalog) -> Result<Positions> {
    let warehouse =
        warehouse::stand(&folder.warehouse()).context("cannot open the warehouse of events")?;
    Ok(Positions::new(catalog.ingest_offset().await?, warehouse))
}

fn agree(positions: &Positions) -> Result<()> {
    match positions.disagreements().first() {
        Some(found) => bail!("the stores do not fit together: {found}; {}", found.remedy()),
        None => Ok(()),
    }
}

/// A journal's error, with what helps.
pub(crate) fn with_remedy(error: journal::Error) -> anyhow::Error {
    let damaged = error.is_damage();
    let error = anyhow::Error::new(error);
    if damaged {
        return error
            .context("the journal of events is damaged; `hedgerow repair` says what can be saved");
    }
    error.context("cannot open the journal of events")
}

/// Positions of records in words: `from` up to, not including, `to`.
pub(crate) fn span(from: u64, to: u64) -> String {
    match to.saturating_sub(from) {
        1 => format!("position {from}"),
        _ => format!("positions {from} to {}", to.saturating_sub(1)),
    }
}
