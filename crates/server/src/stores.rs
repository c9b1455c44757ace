//! Checks that the journal, the catalog and the warehouse of a data directory are consistent.
//!
//! Events reach the journal first, then the catalog, then the warehouse. Each store records the id of
//! the journal it was filled from and the first position it has not applied. After any crash
//! `oldest of the journal <= warehouse <= catalog <= next of the journal` holds. Only corruption or
//! a restore from backups of different times violates it; a server that started on such stores
//! would skip new events as already applied.

use std::fmt;

use anyhow::{Context as _, Result, bail};
use catalog::{Catalog, Vault};
use journal::{Journal, JournalId, Location};
use model::Clock;
use warehouse::StoredPosition;

use crate::data_dir::{self, DataDir};
use crate::settings::Settings;

/// The positions of the three stores; `None` for a store that is new or missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    pub journal: Option<JournalBounds>,
    pub catalog: Option<(JournalId, u64)>,
    pub warehouse: Option<(JournalId, u64)>,
    /// The warehouse is ClickHouse, which has not been asked.
    pub is_warehouse_unknown: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalBounds {
    pub id: JournalId,
    pub oldest: u64,
    pub next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Catalog,
    Warehouse,
}

/// A violation of the invariant between two stores.
#[derive(Clone, Debug)]
pub(crate) enum Inconsistency {
    JournalMissing { store: Store, position: u64 },
    JournalMismatch { store: Store, stored: JournalId, given: JournalId },
    StoresDiffer { catalog: JournalId, warehouse: JournalId },
    StoreAhead { store: Store, position: u64, next: u64 },
    JournalStartsLate { warehouse: u64, oldest: u64 },
    WarehouseMissing { catalog: u64 },
    CatalogBehind { catalog: u64, warehouse: u64 },
}

impl Positions {
    /// The positions of the catalog and the warehouse; the caller adds the journal's.
    pub(crate) fn new(catalog: Option<(u128, u64)>, warehouse: Option<StoredPosition>) -> Self {
        Self {
            is_warehouse_unknown: false,
            journal: None,
            catalog: catalog.map(|(id, position)| (JournalId::from_u128(id), position)),
            warehouse: warehouse.map(|at| (JournalId::from_u128(at.journal), at.position.max(1))),
        }
    }

    pub(crate) fn inconsistencies(&self) -> Vec<Inconsistency> {
        let stores = [(Store::Catalog, self.catalog), (Store::Warehouse, self.warehouse)];
        let stores = stores.into_iter().filter_map(|(store, at)| at.map(|at| (store, at)));
        if let (Some((catalog, _)), Some((warehouse, _))) = (self.catalog, self.warehouse)
            && catalog != warehouse
        {
            return vec![Inconsistency::StoresDiffer { catalog, warehouse }];
        }
        let mut inconsistencies = Vec::new();
        let catalog = self.catalog.map_or(1, |(_, position)| position);
        match self.warehouse {
            Some((_, warehouse)) if warehouse > catalog => {
                inconsistencies.push(Inconsistency::CatalogBehind { catalog, warehouse });
            }
            // The first start creates the warehouse before the catalog applies anything.
            None if catalog > 1 && !self.is_warehouse_unknown => {
                inconsistencies.push(Inconsistency::WarehouseMissing { catalog })
            }
            _ => {}
        }
        let Some(journal) = self.journal else {
            // The first start creates an empty warehouse together with the journal.
            let filled = stores.filter(|(_, (_, position))| *position > 1);
            inconsistencies.extend(
                filled.map(|(store, (_, position))| Inconsistency::JournalMissing {
                    store,
                    position,
                }),
            );
            return inconsistencies;
        };
        for (store, (stored, position)) in stores {
            if stored != journal.id {
                inconsistencies.push(Inconsistency::JournalMismatch {
                    store,
                    stored,
                    given: journal.id,
                });
            } else if position > journal.next {
                inconsistencies.push(Inconsistency::StoreAhead {
                    store,
                    position,
                    next: journal.next,
                });
            }
        }
        if let Some((id, warehouse)) = self.warehouse
            && id == journal.id
            && warehouse < journal.oldest
        {
            inconsistencies
                .push(Inconsistency::JournalStartsLate { warehouse, oldest: journal.oldest });
        }
        inconsistencies
    }
}

impl Inconsistency {
    /// Whether `hedgerow repair` can fix it. Repair only rewrites the journal: the rows of the
    /// warehouse refer to dense ids in the catalog, so neither can be rebuilt alone.
    pub(crate) const fn is_repairable(&self) -> bool {
        match self {
            Self::JournalMissing { .. }
            | Self::JournalMismatch { .. }
            | Self::StoreAhead { .. }
            | Self::JournalStartsLate { .. } => true,
            Self::StoresDiffer { .. }
            | Self::WarehouseMissing { .. }
            | Self::CatalogBehind { .. } => false,
        }
    }

    pub(crate) const fn remedy(&self) -> &'static str {
        if self.is_repairable() {
            "`hedgerow repair` prints what it would do"
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

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JournalMissing { store, position } => write!(
                f,
                "the {store} has applied a journal up to position {position}, but the journal is \
                 missing"
            ),
            Self::JournalMismatch { store, stored, given } => write!(
                f,
                "the {store} was filled from journal {stored}, but the journal here is {given}"
            ),
            Self::StoresDiffer { catalog, warehouse } => write!(
                f,
                "the catalog was filled from journal {catalog}, the warehouse from {warehouse}: \
                 they belong to different servers, and rows refer to ids of their own catalog"
            ),
            Self::StoreAhead { store, position, next } => write!(
                f,
                "the {store} has applied the journal up to position {position}, but the journal \
                 ends at position {next}: it was truncated or restored from an older backup, and \
                 new events would be skipped as already applied"
            ),
            Self::JournalStartsLate { warehouse, oldest } => write!(
                f,
                "the warehouse has the journal up to position {warehouse}, but the journal begins \
                 at position {oldest}: the warehouse was restored from an older backup, or journal \
                 segments are missing"
            ),
            Self::WarehouseMissing { catalog } => write!(
                f,
                "the catalog has applied the journal up to position {catalog}, but the warehouse \
                 is missing (no manifest in the data directory, or no lane in ClickHouse if \
                 warehouse_url is set)"
            ),
            Self::CatalogBehind { catalog, warehouse } => write!(
                f,
                "the catalog has applied the journal up to position {catalog}, the warehouse up to \
                 {warehouse}: the catalog was restored from an older backup, and rows refer to ids \
                 that it has not assigned yet"
            ),
        }
    }
}

/// Fails if a newer release wrote the journal or the warehouse, before anything is changed. Opening
/// the catalog checks its own schema version.
pub(crate) fn check_versions(data_dir: &DataDir) -> Result<()> {
    let newer = || data_dir.newer_release_message("a newer release wrote it");
    journal::check_version(&data_dir.journal()).with_context(newer)?;
    match warehouse::stored_position(&data_dir.warehouse()) {
        Err(error @ warehouse::Error::Version { .. }) => Err(error).with_context(newer),
        // Other errors are reported when the warehouse is opened.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Opens or creates the catalog and runs its migrations.
pub(crate) async fn open_catalog(
    data_dir: &DataDir,
    settings: &Settings,
    vault: Vault,
    clock: Clock,
) -> Result<Catalog> {
    let file = data_dir.catalog_file();
    match Catalog::open(data_dir::catalog_location(settings, &file), vault, clock).await {
        Err(error @ catalog::Error::NewerSchema { .. }) => Err(error).with_context(|| {
            data_dir.newer_release_message("a newer release migrated its catalog")
        }),
        opened => opened.context("cannot open the catalog"),
    }
}

/// Fails if the warehouse has events: their rows refer to ids of the catalog that is missing.
pub(crate) fn check_new_catalog_allowed(data_dir: &DataDir) -> Result<()> {
    let warehouse = warehouse::stored_position(&data_dir.warehouse());
    if let Some(at) = warehouse.context("cannot open the warehouse of events")?
        && at.position > 1
    {
        bail!(
            "there is no {}, but the warehouse has applied the journal up to position {}: rows \
             refer to ids of the catalog; restore both from one backup (`hedgerow restore`)",
            data_dir.catalog_file().display(),
            at.position
        );
    }
    Ok(())
}

/// Fails if the journal is missing although a store was filled from one. Call it before a journal is
/// created and before the warehouse is opened. Of JetStream it is not known before: another stream has
/// another id, which [`check_consistency`] finds.
pub(crate) async fn check_journal_present(
    data_dir: &DataDir,
    catalog: &Catalog,
    settings: &Settings,
    location: &Location,
) -> Result<()> {
    if let Location::Files(dir) = location
        && !journal::is_present(dir)?
    {
        ensure_consistent(&store_positions(data_dir, catalog, settings).await?, location)?;
    }
    Ok(())
}

/// Fails if the stores are inconsistent; a server must not start on them.
pub(crate) async fn check_consistency(
    data_dir: &DataDir,
    catalog: &Catalog,
    journal: &Journal,
    settings: &Settings,
    location: &Location,
) -> Result<()> {
    let stores = store_positions(data_dir, catalog, settings).await?;
    ensure_consistent(&Positions { journal: Some(bounds(journal)), ..stores }, location)
}

/// Fails unless ClickHouse, which reaches `stored`, belongs to the other stores, and has what was ever
/// stored in this data directory.
pub(crate) async fn check_clickhouse(
    data_dir: &DataDir,
    catalog: &Catalog,
    journal: &Journal,
    stored: Option<StoredPosition>,
) -> Result<()> {
    let embedded = embedded_position(data_dir)?;
    if let Some(embedded) = embedded.filter(|at| at.position > 1)
        && stored.is_none_or(|stored| {
            stored.journal != embedded.journal || stored.position < embedded.position
        })
    {
        bail!(
            "{} has events up to position {} that ClickHouse lacks: queries would miss them; start \
             without warehouse_url, or in an empty data directory: export and import bring events \
             from one to the other",
            data_dir.warehouse().display(),
            embedded.position
        );
    }
    let positions = Positions::new(catalog.ingest().offset().await?, stored);
    let positions = Positions { journal: Some(bounds(journal)), ..positions };
    if let Some(first) = positions.inconsistencies().first() {
        bail!(
            "the stores are inconsistent: {first}; if the database belongs to another server, name \
             another one in warehouse_url, otherwise restore ClickHouse, the catalog and the journal \
             from copies of one time"
        );
    }
    Ok(())
}

fn bounds(journal: &Journal) -> JournalBounds {
    JournalBounds {
        id: journal.id(),
        oldest: journal.stats().oldest.as_u64(),
        next: journal.next_position().as_u64(),
    }
}

fn embedded_position(data_dir: &DataDir) -> Result<Option<StoredPosition>> {
    warehouse::stored_position(&data_dir.warehouse()).context("cannot open the warehouse of events")
}

/// ClickHouse is asked later: it may be away.
async fn store_positions(
    data_dir: &DataDir,
    catalog: &Catalog,
    settings: &Settings,
) -> Result<Positions> {
    if settings.warehouse_url.is_some() {
        let positions = Positions::new(catalog.ingest().offset().await?, None);
        return Ok(Positions { is_warehouse_unknown: true, ..positions });
    }
    let warehouse = embedded_position(data_dir)?;
    Ok(Positions::new(catalog.ingest().offset().await?, warehouse))
}

fn ensure_consistent(positions: &Positions, location: &Location) -> Result<()> {
    let Some(first) = positions.inconsistencies().into_iter().next() else { return Ok(()) };
    let remedy = match location {
        Location::JetStream(_) if first.is_repairable() => {
            "name the journal that the stores were filled from at the end of journal_url, or restore \
             its stream from a server or backup that has it"
        }
        _ => first.remedy(),
    };
    bail!("the stores are inconsistent: {first}; {remedy}")
}

/// Adds the remedy to an error of opening the journal.
pub(crate) fn journal_open_error(error: journal::Error) -> anyhow::Error {
    let corrupted = error.is_corruption();
    let error = anyhow::Error::new(error);
    if corrupted {
        return error.context(
            "the journal of events is corrupted; `hedgerow repair` prints what can be salvaged",
        );
    }
    error.context("cannot open the journal of events")
}

/// The half-open range `from..to` of positions, for messages.
pub(crate) fn format_positions(from: u64, to: u64) -> String {
    match to.saturating_sub(from) {
        1 => format!("position {from}"),
        _ => format!("positions {from} to {}", to.saturating_sub(1)),
    }
}
