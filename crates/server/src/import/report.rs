//! Progress of an import, and its summary, which must account for every line.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use model::ProjectId;
use uuid::Uuid;

use crate::cli::print;

/// Rejected lines whose numbers the summary lists.
const LINES_LISTED_MAX: usize = 10;
/// Distinct reasons counted; further ones count as "other reasons".
const REASONS_MAX: usize = 100;

/// A file with the number of lines that are in the journal. Losing it costs time, not events.
pub(super) struct Progress {
    file: PathBuf,
    pub lines: u64,
}

impl Progress {
    /// Keyed by the file's path, size and modification time: a changed file starts at line one.
    pub fn of(imported: &Path, project: ProjectId, imports_dir: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", imported.display());
        let path = imported.canonicalize().with_context(cannot)?;
        let about = fs::metadata(&path).with_context(cannot)?;
        let (size, seconds, nanos) = (about.size(), about.mtime(), about.mtime_nsec());
        let name = format!("{project}:{size}:{seconds}:{nanos}:{}", path.display());
        let name = Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes());
        fs::create_dir_all(imports_dir)
            .context("cannot create the directory for the progress of imports")?;
        let file = imports_dir.join(format!("{name}.lines"));
        let stored = fs::read_to_string(&file).ok();
        let lines = stored.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        Ok(Self { file, lines })
    }

    pub fn reach(&mut self, lines: u64) -> Result<()> {
        let temporary = self.file.with_extension("new");
        let write = || {
            fs::write(&temporary, lines.to_string())?;
            fs::rename(&temporary, &self.file)
        };
        write().context("cannot store the progress of the import")?;
        self.lines = lines;
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        fs::remove_file(&self.file).context("cannot remove the progress of the import")
    }
}

#[derive(Default)]
pub(super) struct Report {
    /// Lines that an earlier run had imported.
    pub resumed_after: u64,
    pub lines: u64,
    /// Events that the warehouse did not have before.
    pub new: u64,
    rejected: BTreeMap<String, u64>,
    rejected_lines: Vec<u64>,
    accepted: u64,
    /// Dropped by capture, by reason.
    dropped: Vec<(&'static str, u64)>,
    records: u64,
    events: u64,
    dead_letters: u64,
}

type Counts = (capture::CountersSnapshot, pipeline::Snapshot);

impl Report {
    pub fn reject(&mut self, line: u64, why: &str) {
        if self.rejected_lines.len() < LINES_LISTED_MAX {
            self.rejected_lines.push(line);
        }
        self.reject_event(why);
    }

    pub fn reject_event(&mut self, why: &str) {
        let why = match self.rejected.len() < REASONS_MAX || self.rejected.contains_key(why) {
            true => why,
            false => "other reasons",
        };
        *self.rejected.entry(why.to_owned()).or_default() += 1;
    }

    pub fn count(&mut self, before: Counts, after: Counts) {
        self.accepted = after.0.accepted - before.0.accepted;
        let earlier = before.0.dropped.into_iter().map(|(_, count)| count);
        self.dropped = after
            .0
            .dropped
            .into_iter()
            .zip(earlier)
            .map(|((reason, now), then)| (reason.as_str(), now - then))
            .filter(|(_, count)| *count > 0)
            .collect();
        self.records = after.1.records - before.1.records;
        self.events = after.1.events - before.1.events;
        self.dead_letters = after.1.dead_letters - before.1.dead_letters;
    }

    /// Prints what became of every line; an error if the counts do not add up.
    pub fn print(self) -> Result<()> {
        if self.resumed_after > 0 {
            print(&format!("resumed after line {}\n", self.resumed_after))?;
        }
        print(&format!("read       {}\n", counted(self.lines, "line")))?;
        for (why, count) in &self.rejected {
            print(&format!("rejected   {}: {why}\n", counted(*count, "line")))?;
        }
        if !self.rejected_lines.is_empty() {
            let lines: Vec<String> = self.rejected_lines.iter().map(u64::to_string).collect();
            print(&format!("           the first are {}\n", lines.join(", ")))?;
        }
        for (reason, count) in &self.dropped {
            print(&format!("dropped    {}: {reason}\n", counted(*count, "event")))?;
        }
        let without_row = self.records.saturating_sub(self.events + self.dead_letters);
        if without_row > 0 {
            print(&format!("dropped    {} without a row\n", counted(without_row, "event")))?;
        }
        if self.dead_letters > 0 {
            print(&format!(
                "dead       {} as dead letters\n",
                counted(self.dead_letters, "event")
            ))?;
        }
        print(&format!("stored     {}\n", counted(self.new, "event")))?;
        let known = self.events.saturating_sub(self.new);
        print(&format!("known      {} from before\n", counted(known, "event")))?;
        let rejected: u64 = self.rejected.values().sum();
        let dropped: u64 = self.dropped.iter().map(|(_, count)| count).sum();
        if self.lines != rejected + dropped + self.accepted || self.accepted != self.records {
            bail!(
                "the counts do not add up: {} lines, but {rejected} rejected, {dropped} dropped, \
                 {} accepted and {} applied",
                self.lines,
                self.accepted,
                self.records
            );
        }
        // A resumed import may have only rejected lines left.
        if self.lines > 0 && self.accepted == 0 && self.resumed_after == 0 {
            bail!("the file contains no event that can be stored");
        }
        Ok(())
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
