//! What a copy did, and what it could not take.

use std::collections::BTreeMap;
use std::fmt;

use crate::kind::{Key, Kind};
use crate::site::printable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Updated,
    /// It is here, as at the source.
    Unchanged,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    created: usize,
    updated: usize,
    unchanged: usize,
    left: usize,
}

/// An object that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub key: Key,
    pub title: String,
    pub why: String,
}

#[derive(Debug, Default)]
pub struct Report {
    counts: BTreeMap<Kind, Counts>,
    pub left: Vec<Left>,
    /// What the user should know and cannot be mended by another copy.
    pub notes: Vec<String>,
}

impl Report {
    pub fn count(&mut self, kind: Kind, outcome: Outcome) {
        let counts = self.counts.entry(kind).or_default();
        match outcome {
            Outcome::Created => counts.created += 1,
            Outcome::Updated => counts.updated += 1,
            Outcome::Unchanged => counts.unchanged += 1,
        }
    }

    pub fn leave(&mut self, key: &Key, title: &str, why: impl fmt::Display) {
        self.counts.entry(key.kind).or_default().left += 1;
        self.left.push(Left {
            key: key.clone(),
            title: printable(title),
            why: printable(&why.to_string()),
        });
    }

    /// A list that could not be read at all.
    pub fn leave_all(&mut self, kind: Kind, why: impl fmt::Display) {
        self.leave(&Key::new(kind, "*"), "", why);
    }

    pub fn is_complete(&self) -> bool {
        self.left.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            to,
            "{:<22}{:>9}{:>9}{:>11}{:>11}",
            "", "created", "updated", "unchanged", "not taken"
        )?;
        for (kind, Counts { created, updated, unchanged, left }) in &self.counts {
            writeln!(to, "{:<22}{created:>9}{updated:>9}{unchanged:>11}{left:>11}", kind.noun())?;
        }
        for Left { key, title, why } in &self.left {
            let title = if title.is_empty() { String::new() } else { format!(" \"{title}\"") };
            writeln!(to, "not taken: {key}{title}: {why}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(to, "note: {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_names_what_was_left_and_why() {
        let mut report = Report::default();
        report.count(Kind::Flag, Outcome::Created);
        report.count(Kind::Flag, Outcome::Unchanged);
        assert!(report.is_complete());
        report.leave(&Key::new(Kind::Flag, "7"), "beta\u{1b}[2J", "filters: no such cohort");
        assert!(!report.is_complete());
        let shown = report.to_string();
        assert!(
            shown.contains("feature flag                  1        0          1          1\n"),
            "{shown}"
        );
        assert!(
            shown.contains("not taken: feature flag 7 \"beta [2J\": filters: no such cohort\n"),
            "{shown}"
        );
    }
}
