//! Applies journal batches to both stores and keeps them in step.
//!
//! The catalog commits first, with the journal offset; the warehouse's durable position follows when
//! it flushes. So the warehouse is never ahead. After a crash the pipeline replays from the
//! warehouse's position: records that the catalog has applied only produce their rows again. Replay
//! is exact because a row is a pure function of its record and of dense ids that never change.

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
use warehouse::{DeleteSelection, NewRow, Sink};

use crate::commit::{Decided, Failure, IdentityCaches, by_project, decide, ids_named};
use crate::definitions::Definitions;
use crate::groups::GroupCache;
use crate::normalize::{Layout, Rules};
use crate::prepare::{Parsed, PreparedRecord, RulesByProject};
use crate::rows::{ResolvedEvent, group_columns};
use crate::{Counters, Error, Result, edit};

/// Attempts before a single record is dead-lettered, and the pause between them.
const ATTEMPTS_MAX: usize = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);
/// Projects with cached rules; beyond it, all are evicted.
const RULES_MAX: usize = 10_000;
/// Rows per append to the warehouse: few enough to stay in the CPU cache.
const ROWS_AT_ONCE: usize = 256;
/// Rows per append while most are stored already: one search of the segments finds all of them.
const STORED_ROWS_AT_ONCE: usize = 8_000;

/// The stores and lookups that a pipeline uses.
#[derive(Clone)]
pub struct Parts {
    pub catalog: Catalog,
    pub warehouse: Arc<dyn Sink>,
    pub journal: JournalId,
    pub geoip: GeoIp,
    pub counters: Arc<Counters>,
}

/// Blocks on CPU work and file I/O: run it on a thread of its own.
pub struct Pipeline {
    catalog: Catalog,
    warehouse: Arc<dyn Sink>,
    journal: JournalId,
    geoip: GeoIp,
    /// The catalog's applied position; `None` after a failure, then read again.
    catalog_position: Option<u64>,
    /// Rules, and whether the project has events; `None` for a project that does not exist.
    rules: HashMap<ProjectId, Option<(Rules, bool)>, RandomState>,
    rules_version: u64,
    identity_caches: IdentityCaches,
    definitions: Definitions,
    definitions_version: u64,
    layout: Layout,
    throttle: Throttle,
    counters: Arc<Counters>,
}

impl Pipeline {
    /// Checks that the stores belong to the journal and to each other, and resumes interrupted
    /// deletes.
    pub async fn open(parts: Parts) -> Result<Self> {
        let Parts { catalog, warehouse, journal, geoip, counters } = parts;
        let catalog_position = match catalog.ingest().offset().await? {
            Some((stored, _)) if stored != journal.as_u128() => {
                let stored = JournalId::from_u128(stored);
                return Err(Error::OtherJournal { stored, given: journal });
            }
            Some((_, position)) => position,
            None => Position::START.as_u64(),
        };
        let durable = warehouse.durable_position();
        if catalog_position < durable {
            return Err(Error::CatalogBehind { catalog: catalog_position, warehouse: durable });
        }
        let mut pipeline = Self {
            catalog,
            warehouse,
            journal,
            geoip,
            catalog_position: Some(catalog_position),
            rules: HashMap::default(),
            rules_version: 0,
            identity_caches: IdentityCaches::new(),
            definitions: Definitions::default(),
            definitions_version: 0,
            layout: Layout::default(),
            throttle: Throttle::default(),
            counters,
        };
        pipeline.delete_due().await?;
        pipeline.counters.applied.store(pipeline.start().as_u64(), Relaxed);
        Ok(pipeline)
    }

    /// The position to read the journal from.
    pub fn start(&self) -> Position {
        Position::from_u64(self.warehouse.durable_position()).max(Position::START)
    }

    /// The journal may delete records before this: both stores have them durably.
    pub fn releasable(catalog: &Catalog, warehouse: &dyn Sink) -> Position {
        Position::from_u64(catalog.ingest().applied_position().min(warehouse.durable_position()))
    }

    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Applies the records that follow the previous batch. After an error the caller retries the
    /// same records; those applied already are not applied twice.
    pub async fn apply(&mut self, records: &Records) -> Result<()> {
        let outcome = self.try_apply(records).await;
        if outcome.is_err() {
            self.catalog_position = None;
            self.identity_caches.clear();
            self.definitions.reset();
            self.counters.failures.fetch_add(1, Relaxed);
        }
        outcome
    }

    async fn try_apply(&mut self, records: &Records) -> Result<()> {
        let catalog_position = match self.catalog_position {
            Some(catalog_position) => catalog_position,
            None => {
                let stored = self.catalog.ingest().offset().await?;
                self.delete_due().await?;
                *self.catalog_position.insert(stored.map_or(Position::START.as_u64(), |(_, at)| at))
            }
        };
        self.refresh(records).await?;
        let rules: RulesByProject = self
            .rules
            .iter()
            .map(|(project, known)| (*project, known.as_ref().map(|(rules, _)| rules.clone())))
            .collect();
        let (geoip, layout) = (&self.geoip, &mut self.layout);
        let items: Vec<PreparedRecord<'_>> = records
            .iter()
            .map(|record| PreparedRecord::parse(record, &rules, geoip, layout))
            .collect();
        let (old, new) =
            items.split_at(items.partition_point(|item| item.position < catalog_position));
        if !old.is_empty() {
            self.replay_rows(old).await?;
        }
        for run in new.chunk_by(|a, b| !a.is_edit() && !b.is_edit()) {
            self.store(run).await?;
        }
        self.counters.batches.fetch_add(1, Relaxed);
        self.counters.records.fetch_add(records.len() as u64, Relaxed);
        // Last, with release ordering: a reader that sees it sees the other counters too.
        self.counters.applied.store(end_position(&items), Release);
        Ok(())
    }

    /// Evicts rules after a change of projects, and resets reported definitions after one was
    /// deleted. Then loads the rules of new projects.
    async fn refresh(&mut self, records: &Records) -> Result<()> {
        let version = self.catalog.projects().version();
        if version != self.rules_version || self.rules.len() > RULES_MAX {
            self.rules.clear();
            self.identity_caches.clear();
            self.rules_version = version;
        }
        let version = self.catalog.definitions().version();
        if version != self.definitions_version {
            self.definitions.reset();
            self.definitions_version = version;
        }
        let named = records.iter().filter_map(|record| project_of(record.bytes));
        let unknown: BTreeSet<ProjectId> =
            named.filter(|project| !self.rules.contains_key(project)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown: Vec<ProjectId> = unknown.into_iter().collect();
        let mut stored_rules = self.catalog.ingest().rules(&unknown).await?;
        for project in unknown {
            let known = stored_rules
                .remove(&project)
                .map(|stored_rules| (rules(&stored_rules), stored_rules.ingested_event));
            self.rules.insert(project, known);
        }
        Ok(())
    }

    /// Appends the rows of records that the catalog has applied already; changes nothing else.
    async fn replay_rows(&mut self, items: &[PreparedRecord<'_>]) -> Result<()> {
        let (Some(first), Some(last)) = (items.first(), items.last()) else { return Ok(()) };
        let dead = self.catalog.dead_letters().positions(first.position, last.position + 1).await?;
        let mut events = by_project(items);
        events.values_mut().for_each(|all| all.retain(|(position, _)| !dead.contains(position)));
        let projects: Vec<ProjectId> = events.keys().copied().collect();
        let mut types = self.catalog.groups().types_of_projects(&projects).await?;
        let mut rows = Vec::new();
        for (project, events) in &events {
            let ids = self.catalog.persons().distinct_ids(*project, &ids_named(events)).await?;
            let numbers: HashMap<&str, _> =
                ids.iter().map(|id| (id.text.as_str(), id.no)).collect();
            let groups = GroupCache::new(types.remove(project).unwrap_or_default());
            for (position, event) in events {
                // A distinct id without a dense id was never stored.
                let Some(number) = numbers.get(event.distinct_id) else { continue };
                let columns = group_columns(event, |kind| groups.known_index(kind));
                let (position, distinct_no) = (*position, *number);
                rows.push(ResolvedEvent { position, event, distinct_no, groups: columns });
            }
        }
        rows.sort_by_key(|row| row.position);
        self.append(&rows, items)
    }

    /// Applies a run that is either one edit or only events. Bisects a run with a poison record, and
    /// dead-letters that record after its retries.
    async fn store(&mut self, run: &[PreparedRecord<'_>]) -> Result<()> {
        let mut parts = vec![run];
        let mut attempts = 0;
        while let Some(part) = parts.pop() {
            let reason = match self.commit(part).await {
                Ok(rows) => {
                    attempts = 0;
                    self.append(&rows, part)?;
                    continue;
                }
                Err(Failure::Retry(error)) => return Err(error),
                Err(Failure::Poison(reason)) => reason,
            };
            self.identity_caches.clear();
            self.definitions.reset();
            if let [item] = part {
                attempts += 1;
                if attempts < ATTEMPTS_MAX {
                    tokio::time::sleep(ATTEMPT_PAUSE).await;
                    parts.push(part);
                    continue;
                }
                attempts = 0;
                self.write_dead_letter(item, reason).await?;
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
        part: &'i [PreparedRecord<'a>],
    ) -> Result<Vec<ResolvedEvent<'i, 'a>>, Failure> {
        let (mut batch, rows) = match part {
            [PreparedRecord { position, parsed: Parsed::Edit(record), .. }] => {
                self.identity_caches.clear();
                let mut after = None;
                while let Some(batch) = edit::next_chunk(&self.catalog, record, &mut after).await? {
                    self.ingest(batch, &[]).await?;
                }
                (edit::decide(&self.catalog, *position, record).await?, Vec::new())
            }
            events => {
                let known = &self.rules;
                let is_new = |project| matches!(known.get(&project), Some(Some((_, false))));
                let Decided { batch, rows } = decide(
                    &self.catalog,
                    events,
                    is_new,
                    &mut self.definitions,
                    &mut self.identity_caches,
                )
                .await?;
                (batch, rows)
            }
        };
        let mut allowed = Vec::new();
        for warning in std::mem::take(&mut batch.warnings) {
            if self.throttle.allows(&warning) {
                self.throttle.record(&warning);
                allowed.push(warning);
            }
        }
        batch.warnings = allowed;
        let dead = batch.dead_letters.len() as u64;
        let deletes = !batch.deletions.is_empty();
        if let Err(failure) = self.ingest(batch, part).await {
            // The retry emits them again.
            self.throttle = Throttle::default();
            return Err(failure);
        }
        self.counters.dead_letters.fetch_add(dead, Relaxed);
        if deletes {
            self.delete_due().await.map_err(Failure::Retry)?;
        }
        Ok(rows)
    }

    /// Commits a batch and advances the catalog's position past `part`; an empty part keeps it.
    async fn ingest(
        &mut self,
        batch: IngestBatch,
        part: &[PreparedRecord<'_>],
    ) -> Result<(), Failure> {
        let from = self.catalog_position.unwrap_or_default();
        let reach = end_position(part).max(from);
        let batch = IngestBatch { journal: self.journal.as_u128(), from, reach, ..batch };
        self.catalog.ingest().apply(&batch).await?;
        self.catalog_position = Some(batch.reach);
        Ok(())
    }

    /// Writes a poison record to the dead letters and advances past it.
    async fn write_dead_letter(&mut self, item: &PreparedRecord<'_>, reason: String) -> Result<()> {
        tracing::error!(
            journal.position = item.position,
            reason,
            "wrote a record to the dead letters"
        );
        let dead_letters = vec![item.dead_letter("apply", reason)];
        let batch = IngestBatch { dead_letters, ..IngestBatch::default() };
        let result = self.ingest(batch, std::slice::from_ref(item)).await;
        self.counters.dead_letters.fetch_add(1, Relaxed);
        result.map_err(|failure| match failure {
            Failure::Retry(error) => error,
            // Not even a dead letter can be written, so the fault is the catalog's.
            Failure::Poison(reason) => {
                Error::Catalog(catalog::Error::Corrupt { what: "a dead letter", why: reason })
            }
        })
    }

    /// Appends rows to the warehouse, which advances to the end of `part`.
    fn append(&self, rows: &[ResolvedEvent<'_, '_>], part: &[PreparedRecord<'_>]) -> Result<()> {
        let (mut rest, mut at_once) = (rows, ROWS_AT_ONCE);
        while !rest.is_empty() {
            let (some, later) = rest.split_at(at_once.min(rest.len()));
            rest = later;
            let new_rows: Vec<NewRow<'_>> = some.iter().map(ResolvedEvent::row).collect();
            let reach = later.first().map_or_else(|| end_position(part), |next| next.position);
            let stored = self.warehouse.append(&new_rows, reach)?;
            at_once = if stored * 2 > some.len() { STORED_ROWS_AT_ONCE } else { ROWS_AT_ONCE };
        }
        if rows.is_empty() {
            self.warehouse.append(&[], end_position(part))?;
        }
        self.counters.events.fetch_add(rows.len() as u64, Relaxed);
        if let Some(event) = part.iter().rev().find_map(PreparedRecord::event) {
            self.counters.applied_received_at.store(event.received_at.as_micros(), Relaxed);
        }
        Ok(())
    }

    /// Executes the event deletions that the catalog has queued. Idempotent.
    async fn delete_due(&mut self) -> Result<()> {
        for deletion in self.catalog.ingest().deletions_due().await? {
            let EventDeletion { project, before, distinct_nos } = &deletion;
            let numbers = distinct_nos.iter().map(|number| number.0).collect();
            let selection = DeleteSelection::DistinctNos(numbers);
            let receipt = match self.warehouse.delete(*project, &selection, *before) {
                // It stays queued until the segment is readable, restored or quarantined, or the
                // engine takes it. New events of all projects must not wait for that.
                Err(
                    error @ (warehouse::Error::Corrupt { .. }
                    | warehouse::Error::Io { .. }
                    | warehouse::Error::Engine(_)),
                ) => {
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

/// The position after the last record of a part.
fn end_position(part: &[PreparedRecord<'_>]) -> u64 {
    part.last().map_or(0, |last| last.position + 1)
}

fn rules(found: &IngestRules) -> Rules {
    let settings = &found.settings;
    Rules {
        anonymize_ips: settings.anonymize_ips(),
        person_processing_opt_out: settings.person_processing_opt_out(),
        drop_events_older_than: settings.drop_events_older_than(),
    }
}
