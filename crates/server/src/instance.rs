//! What the server reports of its stores and its process to `GET /api/instance_status`.

use std::path::{Path, PathBuf};

use api::{
    DiskFigures, EventFigures, InstanceFigures, JournalFigures, LagFigures, PipelineFigures,
};
use model::Timestamp;

use crate::ingest::IngestStats;
use crate::process;
use crate::settings::Settings;

/// Reads the figures; each read is current.
pub(crate) struct InstanceReader {
    started_at: Timestamp,
    data_dir: PathBuf,
    journal_disk_bytes_max: u64,
    events_disk_bytes_max: Option<u64>,
    events_days_max: Option<u64>,
    stats: IngestStats,
}

impl InstanceReader {
    pub(crate) fn new(
        started_at: Timestamp,
        data_dir: &Path,
        settings: &Settings,
        stats: IngestStats,
    ) -> Self {
        Self {
            started_at,
            data_dir: data_dir.to_owned(),
            journal_disk_bytes_max: settings.journal_disk_bytes_max.0,
            events_disk_bytes_max: settings.events_disk_bytes_max.map(|bytes| bytes.0),
            events_days_max: settings.events_days_max.map(|days| days.0),
            stats,
        }
    }

    pub(crate) fn read(&self) -> InstanceFigures {
        let (applied, journal) = (self.stats.applied(), self.stats.journal());
        let (lag, store) = (self.stats.lag(), self.stats.store());
        InstanceFigures {
            version: env!("BUILT_VERSION"),
            started_at: self.started_at,
            journal: JournalFigures {
                disk_bytes: journal.disk_bytes,
                disk_bytes_max: self.journal_disk_bytes_max,
                queue_bytes: journal.queue_bytes,
                oldest_position: journal.oldest.as_u64(),
                applied_position: applied.applied,
                next_position: journal.next.as_u64(),
            },
            lag: LagFigures {
                records: lag.records,
                seconds: lag.seconds,
                replay_remaining: self.stats.replay_left(),
            },
            events: EventFigures {
                events: store.rows,
                disk_bytes: store.disk_bytes,
                memory_bytes: store.memory_bytes,
                segments: store.segments,
                disk_bytes_max: self.events_disk_bytes_max,
                days_max: self.events_days_max,
            },
            disk: disk(&self.data_dir),
            resident_bytes: process::resident_bytes(),
            pipeline: PipelineFigures {
                batches: applied.batches,
                records: applied.records,
                events: applied.events,
                dead_letters: applied.dead_letters,
                failures: applied.failures,
            },
        }
    }
}

/// Zero where the file system does not tell.
fn disk(path: &Path) -> DiskFigures {
    let Ok(stat) = rustix::fs::statvfs(path) else { return DiskFigures::default() };
    DiskFigures {
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
    }
}
