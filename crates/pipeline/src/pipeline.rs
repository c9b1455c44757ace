//! Keeps the two stores in step with the journal.
//!
//! The catalog is written first, together with the offset; the warehouse's own position follows
//! when it flushes. So the warehouse is never ahead, and after a crash the records between the
//! two positions are read once more: those the catalog has only give their rows again, from the
//! numbers that the catalog now knows. A row is a pure function of its record and such numbers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use ahash::RandomState;
use catalog::{Catalog, EventDeletion, IngestBatch, IngestRules};
use geoip::GeoIp;
use journal::{JournalId, Position, Records};
use model::event::project_of;
use model::{ProjectId, Throttle};
use warehouse::{DeleteSelection, NewRow, Warehouse};

use crate::commit::{Decided, Failure, Ledgers, by_project, decide, ids_named};
use crate::definitions::Definitions;
use crate::groups::GroupLedger;
use crate::normalise::{Layout, Rules};
use crate::prepare::{Item, Meaning, RulesOf};
use crate::rows::{Placed, group_columns};
use crate::{Counters, Error, Result, edit};

/// How often a single record is tried before it is set aside, and the pause between.
const ATTEMPTS_MAX: usize = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);
/// Projects whose rules are remembered; past it all are asked again.
const RULES_MAX: usize = 10_000;
/// Rows made and handed on at a time: few enough to stay near the processor.
const ROWS_AT_ONCE: usize = 256;

/// What a pipeline works on.
pub struct Parts {
    pub catalog: Catalog,
    pub warehouse: Warehouse,
    pub journal: JournalId,
    pub geoip: GeoIp,
}

/// Works and waits for files where it is called: give it a thread of its own.
pub struct Pipeline {
    catalog: Catalog,
    warehouse: Warehouse,
    journal: JournalId,
    geoip: GeoIp,
    /// Where the catalog stands; asked again after a failure.
    stand: Option<u64>,
    /// None of a project that is not there.
    rules: HashMap<ProjectId, Option<(Rules, bool)>, RandomState>,
    rules_version: u64,
    ledgers: Ledgers,
    definitions: Definitions,
    definitions_version: u64,
    layout: Layout,
    throttle: Throttle,
    counters: Arc<Counters>,
}

impl Pipeline {
    /// Checks that the stores belong to the journal and to each other, and finishes deletes that
    /// were interrupted.
    pub async fn open(parts: Parts) -> Result<Self> {
        let Parts { catalog, warehouse, journal, geoip } = parts;
        let stand = match catalog.ingest().offset().await? {
            Some((stored, _)) if stored != journal.as_u128() => {
                let stored = JournalId::from_u128(stored);
                return Err(Error::OtherJournal { stored, given: journal });
            }
            Some((_, position)) => position,
            None => Position::START.as_u64(),
        };
        let durable = warehouse.durable_position();
        if stand < durable {
            return Err(Error::CatalogBehind { catalog: stand, warehouse: durable });
        }
        let mut pipeline = Self {
            catalog,
            warehouse,
            journal,
            geoip,
            stand: Some(stand),
            rules: HashMap::default(),
            rules_version: 0,
            ledgers: Ledgers::new(),
            definitions: Definitions::default(),
            definitions_version: 0,
            layout: Layout::default(),
            throttle: Throttle::default(),
            counters: Arc::default(),
        };
        pipeline.delete_due().await?;
        pipeline.counters.applied.store(pipeline.start().as_u64(), Relaxed);
        Ok(pipeline)
    }

    /// Where to read the journal from.
    pub fn start(&self) -> Position {
        Position::from_u64(self.warehouse.durable_position()).max(Position::START)
    }

    /// Records before this are in both stores for good.
    pub fn releasable(catalog: &Catalog, warehouse: &Warehouse) -> Position {
        Position::from_u64(catalog.ingest().applied_position().min(warehouse.durable_position()))
    }

    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Applies records that follow on those before. After an error the same records are given
    /// again; what was applied of them already is not applied twice.
    pub async fn apply(&mut self, records: &Records) -> Result<()> {
        let outcome = self.try_apply(records).await;
        if outcome.is_err() {
            self.stand = None;
            self.ledgers.clear();
            self.definitions.forget();
            self.counters.failures.fetch_add(1, Relaxed);
        }
        outcome
    }

    async fn try_apply(&mut self, records: &Records) -> Result<()> {
        let stand = match self.stand {
            Some(stand) => stand,
            None => {
                let stored = self.catalog.ingest().offset().await?;
                self.delete_due().await?;
                *self.stand.insert(stored.map_or(Position::START.as_u64(), |(_, at)| at))
            }
        };
        self.refresh(records).await?;
        let rules: RulesOf = self
            .rules
            .iter()
            .map(|(project, known)| (*project, known.as_ref().map(|(rules, _)| rules.clone())))
            .collect();
        let (geoip, layout) = (&self.geoip, &mut self.layout);
        let items: Vec<Item<'_>> =
            records.iter().map(|record| Item::read(record, &rules, geoip, layout)).collect();
        let (old, new) = items.split_at(items.partition_point(|item| item.position < stand));
        if !old.is_empty() {
            self.rebuild(old).await?;
        }
        for run in new.chunk_by(|a, b| !a.is_edit() && !b.is_edit()) {
            self.store(run).await?;
        }
        self.counters.batches.fetch_add(1, Relaxed);
        self.counters.records.fetch_add(records.len() as u64, Relaxed);
        // Last: whoever sees it sees the counts as well.
        self.counters.applied.store(reach(&items), Release);
        Ok(())
    }

    /// Rules change when projects do, and what was told of definitions is told again when one was
    /// deleted.
    async fn refresh(&mut self, records: &Records) -> Result<()> {
        let version = self.catalog.projects().version();
        if version != self.rules_version || self.rules.len() > RULES_MAX {
            self.rules.clear();
            self.ledgers.clear();
            self.rules_version = version;
        }
        let version = self.catalog.definitions().version();
        if version != self.definitions_version {
            self.definitions.forget();
            self.definitions_version = version;
        }
        let named = records.iter().filter_map(|record| project_of(record.bytes));
        let unknown: BTreeSet<ProjectId> =
            named.filter(|project| !self.rules.contains_key(project)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown: Vec<ProjectId> = unknown.into_iter().collect();
        let mut found = self.catalog.ingest().rules(&unknown).await?;
        for project in unknown {
            let known = found.remove(&project).map(|found| (rules(&found), found.ingested_event));
            self.rules.insert(project, known);
        }
        Ok(())
    }

    /// Rows of records that the catalog has; nothing else of them is applied again.
    async fn rebuild(&mut self, items: &[Item<'_>]) -> Result<()> {
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(()) };
        let dead = self.catalog.dead_letters().positions(first.position, last.position + 1).await?;
        let mut events = by_project(items);
        events.values_mut().for_each(|own| own.retain(|(position, _)| !dead.contains(position)));
        let projects: Vec<ProjectId> = events.keys().copied().collect();
        let mut types = self.catalog.groups().types_of_projects(&projects).await?;
        let mut rows = Vec::new();
        for (project, events) in &events {
            let ids = self.catalog.persons().distinct_ids(*project, &ids_named(events)).await?;
            let numbers: HashMap<&str, _> =
                ids.iter().map(|id| (id.text.as_str(), id.no)).collect();
            let groups = GroupLedger::new(types.remove(project).unwrap_or_default());
            for (position, event) in events {
                // An id without a number was never stored.
                let Some(number) = numbers.get(event.distinct_id) else { continue };
                let columns = group_columns(event, |kind| groups.known_index(kind));
                let (position, distinct_no) = (*position, *number);
                rows.push(Placed { position, event, distinct_no, groups: columns });
            }
        }
        rows.sort_by_key(|row| row.position);
        self.append(&rows, items)
    }

    /// Applies a run that is one edit or none. What fails for its own sake is taken apart until
    /// the record to blame is found, and that one is set aside.
    async fn store(&mut self, run: &[Item<'_>]) -> Result<()> {
        let mut parts = vec![run];
        let mut attempts = 0;
        while let Some(part) = parts.pop() {
            let reason = match self.commit(part).await {
                Ok(rows) => {
                    attempts = 0;
                    self.append(&rows, part)?;
                    continue;
                }
                Err(Failure::Later(error)) => return Err(error),
                Err(Failure::Fault(reason)) => reason,
            };
            self.ledgers.clear();
            self.definitions.forget();
            if let [item] = part {
                attempts += 1;
                if attempts < ATTEMPTS_MAX {
                    tokio::time::sleep(ATTEMPT_PAUSE).await;
                    parts.push(part);
                    continue;
                }
                attempts = 0;
                self.set_aside(item, reason).await?;
                self.append(&[], part)?;
            } else {
                let (front, back) = part.split_at(part.len() / 2);
                parts.extend([back, front]);
            }
        }
        Ok(())
    }

    async fn commit<'i, 'a>(
        &mut self,
        part: &'i [Item<'a>],
    ) -> Result<Vec<Placed<'i, 'a>>, Failure> {
        let (mut batch, rows) = match part {
            [Item { position, meaning: Meaning::Edit(record), .. }] => {
                self.ledgers.clear();
                let mut after = None;
                while let Some(batch) = edit::next_part(&self.catalog, record, &mut after).await? {
                    self.ingest(batch, &[]).await?;
                }
                (edit::decide(&self.catalog, *position, record).await?, Vec::new())
            }
            events => {
                let known = &self.rules;
                let is_new = |project| matches!(known.get(&project), Some(Some((_, false))));
                let Decided { batch, rows } =
                    decide(&self.catalog, events, is_new, &mut self.definitions, &mut self.ledgers)
                        .await?;
                (batch, rows)
            }
        };
        let mut told = Vec::new();
        for warning in std::mem::take(&mut batch.warnings) {
            if self.throttle.allows(&warning) {
                self.throttle.record(&warning);
                told.push(warning);
            }
        }
        batch.warnings = told;
        let dead = batch.dead_letters.len() as u64;
        let deletes = !batch.deletions.is_empty();
        if let Err(failure) = self.ingest(batch, part).await {
            // Told again with the batch.
            self.throttle = Throttle::default();
            return Err(failure);
        }
        self.counters.dead_letters.fetch_add(dead, Relaxed);
        if deletes {
            self.delete_due().await.map_err(Failure::Later)?;
        }
        Ok(rows)
    }

    /// Writes what a part changed; without a part, the catalog stays where it stands.
    async fn ingest(&mut self, batch: IngestBatch, part: &[Item<'_>]) -> Result<(), Failure> {
        let from = self.stand.unwrap_or_default();
        let reach = reach(part).max(from);
        let batch = IngestBatch { journal: self.journal.as_u128(), from, reach, ..batch };
        self.catalog.ingest().apply(&batch).await?;
        self.stand = Some(batch.reach);
        Ok(())
    }

    /// Keeps a record that cannot be applied where people find it, and goes on behind it.
    async fn set_aside(&mut self, item: &Item<'_>, reason: String) -> Result<()> {
        tracing::error!(journal.position = item.position, reason, "set a record aside");
        let dead_letters = vec![item.dead_letter("apply", reason)];
        let batch = IngestBatch { dead_letters, ..IngestBatch::default() };
        let kept = self.ingest(batch, std::slice::from_ref(item)).await;
        self.counters.dead_letters.fetch_add(1, Relaxed);
        kept.map_err(|failure| match failure {
            Failure::Later(error) => error,
            // Not even a dead letter can be written: the catalog itself is in trouble.
            Failure::Fault(reason) => {
                Error::Catalog(catalog::Error::Corrupt { what: "a dead letter", why: reason })
            }
        })
    }

    /// Hands rows to the warehouse.
    fn append(&self, rows: &[Placed<'_, '_>], part: &[Item<'_>]) -> Result<()> {
        for (at, some) in rows.chunks(ROWS_AT_ONCE).enumerate() {
            let next = rows.get((at + 1) * ROWS_AT_ONCE);
            let made: Vec<NewRow<'_>> = some.iter().map(Placed::row).collect();
            self.warehouse.append(&made, next.map_or_else(|| reach(part), |next| next.position))?;
        }
        if rows.is_empty() {
            self.warehouse.append(&[], reach(part))?;
        }
        self.counters.events.fetch_add(rows.len() as u64, Relaxed);
        if let Some(event) = part.iter().rev().find_map(Item::event) {
            self.counters.applied_received_at.store(event.received_at.as_micros(), Relaxed);
        }
        Ok(())
    }

    /// Deletes from the warehouse what the catalog was told to. Repeating one does no harm.
    async fn delete_due(&mut self) -> Result<()> {
        for deletion in self.catalog.ingest().deletions_due().await? {
            let EventDeletion { project, before, distinct_nos } = &deletion;
            let numbers = distinct_nos.iter().map(|number| number.0).collect();
            let doomed = DeleteSelection::DistinctNos(numbers);
            let receipt = match self.warehouse.delete(*project, &doomed, *before) {
                // It stays due until the segment can be read again, is restored or set aside. New events of all
                // projects must not wait for that.
                Err(error @ (warehouse::Error::Corrupt { .. } | warehouse::Error::Io { .. })) => {
                    tracing::error!(project.id = %project, %error, "events are not deleted yet");
                    continue;
                }
                other => other?,
            };
            tracing::info!(project.id = %project, events = receipt.events, "deleted events");
            self.catalog.ingest().deletion_done(&deletion, receipt.events).await?;
        }
        Ok(())
    }
}

/// The first position behind a part.
fn reach(part: &[Item<'_>]) -> u64 {
    part.last().map_or(0, |last| last.position + 1)
}

fn rules(found: &IngestRules) -> Rules {
    let settings = &found.settings;
    Rules {
        anonymize_ips: settings.is_on("anonymize_ips"),
        person_processing_opt_out: settings.is_on("person_processing_opt_out"),
        drop_events_older_than_seconds: settings.get("drop_events_older_than_seconds").as_i64(),
    }
}
