//! How far an import came, and whether its counts add up.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use model::ProjectId;
use uuid::Uuid;

use crate::cli::say;

/// Lines named in the report; of more there is only the number.
const NAMED_MAX: usize = 10;
/// Different reasons counted; the pipeline's own words are few.
const REASONS_MAX: usize = 100;

/// Remembers lines whose events the journal has. Losing it costs time, not events.
pub(super) struct Progress {
    file: PathBuf,
    pub lines: u64,
}

impl Progress {
    /// By the file's place, size and time: another file begins at its first line.
    pub fn of(imported: &Path, project: ProjectId, folder: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", imported.display());
        let path = imported.canonicalize().with_context(cannot)?;
        let about = fs::metadata(&path).with_context(cannot)?;
        let (size, seconds, nanos) = (about.size(), about.mtime(), about.mtime_nsec());
        let name = format!("{project}:{size}:{seconds}:{nanos}:{}", path.display());
        let name = Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes());
        fs::create_dir_all(folder).context("cannot make a folder for the progress of imports")?;
        let file = folder.join(format!("{name}.lines"));
        let kept = fs::read_to_string(&file).ok();
        let lines = kept.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        Ok(Self { file, lines })
    }

    pub fn reach(&mut self, lines: u64) -> Result<()> {
        let aside = self.file.with_extension("new");
        let write = || {
            fs::write(&aside, lines.to_string())?;
            fs::rename(&aside, &self.file)
        };
        write().context("cannot keep the progress of the import")?;
        self.lines = lines;
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        fs::remove_file(&self.file).context("cannot end the progress of the import")
    }
}

#[derive(Default)]
pub(super) struct Report {
    /// Lines that an earlier run had sent.
    pub resumed_behind: u64,
    pub lines: u64,
    /// Events that were not there before.
    pub new: u64,
    refused: BTreeMap<String, u64>,
    named: Vec<u64>,
    accepted: u64,
    /// Left out at the door, by reason.
    dropped: Vec<(&'static str, u64)>,
    records: u64,
    events: u64,
    set_aside: u64,
}

type Counts = (capture::CountersSnapshot, pipeline::Snapshot);

impl Report {
    pub fn refuse(&mut self, line: u64, why: &str) {
        if self.named.len() < NAMED_MAX {
            self.named.push(line);
        }
        self.refuse_event(why);
    }

    pub fn refuse_event(&mut self, why: &str) {
        let why = match self.refused.len() < REASONS_MAX || self.refused.contains_key(why) {
            true => why,
            false => "other reasons",
        };
        *self.refused.entry(why.to_owned()).or_default() += 1;
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
        self.set_aside = after.1.dead_letters - before.1.dead_letters;
    }

    /// Says what became of every line; an error when some are not accounted for.
    pub fn tell(self) -> Result<()> {
        if self.resumed_behind > 0 {
            say(&format!("went on behind line {}\n", self.resumed_behind))?;
        }
        say(&format!("read       {}\n", counted(self.lines, "line")))?;
        for (why, count) in &self.refused {
            say(&format!("refused    {}: {why}\n", counted(*count, "line")))?;
        }
        if !self.named.is_empty() {
            let named: Vec<String> = self.named.iter().map(u64::to_string).collect();
            say(&format!("           the first are {}\n", named.join(", ")))?;
        }
        for (reason, count) in &self.dropped {
            say(&format!("left out   {}: {reason}\n", counted(*count, "event")))?;
        }
        let unused = self.records.saturating_sub(self.events + self.set_aside);
        if unused > 0 {
            say(&format!("left out   {} not stored as such\n", counted(unused, "event")))?;
        }
        if self.set_aside > 0 {
            say(&format!("set aside  {} as dead letters\n", counted(self.set_aside, "event")))?;
        }
        say(&format!("stored     {}\n", counted(self.new, "event")))?;
        let known = self.events.saturating_sub(self.new);
        say(&format!("known      {} from before\n", counted(known, "event")))?;
        let refused: u64 = self.refused.values().sum();
        let dropped: u64 = self.dropped.iter().map(|(_, count)| count).sum();
        if self.lines != refused + dropped + self.accepted || self.accepted != self.records {
            bail!(
                "the counts do not add up: {} lines, but {refused} refused, {dropped} left out, \
                 {} accepted and {} applied",
                self.lines,
                self.accepted,
                self.records
            );
        }
        // Of one that goes on, the lines before were sent.
        if self.lines > 0 && self.accepted == 0 && self.resumed_behind == 0 {
            bail!("nothing of the file is an event that can be stored");
        }
        Ok(())
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
