//! What was measured, as one table.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

#[derive(Clone, Copy)]
pub enum Bound {
    /// Ours, in its own unit.
    AtMost(f64),
    /// Processor seconds as they were promised for another machine, and how much more a bare
    /// request costs at this moment of this one.
    CpuAtMost {
        seconds: f64,
        pace: f64,
    },
    /// Ours divided by the reference.
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// Nothing was promised.
    None,
}

pub struct Row {
    pub name: String,
    pub unit: &'static str,
    pub ours: f64,
    /// What it is compared with, measured in the same run.
    pub reference: Option<(&'static str, f64)>,
    pub bound: Bound,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.reference.map(|(_, reference)| self.ours / reference)
    }

    fn holds(&self) -> Option<bool> {
        match self.bound {
            Bound::CpuAtMost { seconds, pace } => Some(self.ours <= seconds * pace),
            Bound::AtMost(most) => Some(self.ours <= most),
            Bound::RatioAtMost(most) => self.ratio().map(|ratio| ratio <= most),
            Bound::RatioAtLeast(least) => self.ratio().map(|ratio| ratio >= least),
            Bound::None => None,
        }
    }

    fn bound(&self) -> String {
        match self.bound {
            Bound::CpuAtMost { seconds, pace } => format!("≤ {seconds} x {pace:.2} s"),
            Bound::AtMost(most) => format!("≤ {most} {}", self.unit),
            Bound::RatioAtMost(most) => format!("≤ {most} x"),
            Bound::RatioAtLeast(least) => format!("≥ {least} x"),
            Bound::None => String::new(),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.holds() {
            Some(true) => "holds",
            Some(false) => "BROKEN",
            None => "",
        }
    }
}

#[derive(Default)]
pub struct Report {
    sections: Vec<(&'static str, Vec<Row>)>,
}

impl Report {
    pub fn begin(&mut self, section: &'static str) {
        println!("\n{section}");
        self.sections.push((section, Vec::new()));
    }

    /// Keeps a row and shows it at once.
    pub fn add(&mut self, row: Row) {
        let reference = row.reference.map_or_else(String::new, |(name, value)| {
            format!("{name} {}, ratio {:.2}", short(value), row.ours / value)
        });
        println!(
            "  {:58} {:>9} {:8} {:40} {:12} {}",
            row.name,
            short(row.ours),
            row.unit,
            reference,
            row.bound(),
            row.verdict()
        );
        if let Some((_, rows)) = self.sections.last_mut() {
            rows.push(row);
        }
    }

    pub fn all_hold(&self) -> bool {
        self.rows().all(|row| row.holds() != Some(false))
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sections.iter().flat_map(|(_, rows)| rows)
    }

    /// Writes `name.json` and `name.md` into `folder`.
    pub fn write(&self, folder: &Path, name: &str, events: u64) -> Result<()> {
        fs::create_dir_all(folder)?;
        let machine = machine();
        let mut rows = Vec::new();
        let mut text = format!(
            "# {name}\n\n{machine}; reference set of {events} events. Bounds on processor time are \
             scaled by what a bare request, or what their row names, cost beside them, against \
             where they were set.\n"
        );
        for (section, own) in &self.sections {
            let _ = write!(
                text,
                "\n## {section}\n\n| | ours | reference | ratio | bound | |\n|---|---|---|---|---|---|\n"
            );
            for row in own {
                let reference = row.reference.map_or_else(String::new, |(what, value)| {
                    format!("{} {} ({what})", short(value), row.unit)
                });
                let ratio = row.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}"));
                let _ = writeln!(
                    text,
                    "| {} | {} {} | {reference} | {ratio} | {} | {} |",
                    row.name,
                    short(row.ours),
                    row.unit,
                    row.bound(),
                    row.verdict()
                );
                rows.push(json!({
                    "section": section, "name": row.name, "unit": row.unit, "ours": row.ours,
                    "reference": row.reference.map(|(what, value)| json!({"what": what, "value": value})),
                    "ratio": row.ratio(), "bound": row.bound(), "holds": row.holds(),
                }));
            }
        }
        let all: Value = json!({ "machine": machine, "events": events, "rows": rows });
        fs::write(folder.join(format!("{name}.json")), serde_json::to_vec_pretty(&all)?)?;
        fs::write(folder.join(format!("{name}.md")), text)?;
        Ok(())
    }
}

/// Three digits that matter.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (processors, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).map(str::to_owned);
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
    };
    let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
    let kilobytes: f64 =
        value(&memory, "MemTotal").trim_end_matches(" kB").parse().unwrap_or_default();
    format!(
        "{cores} x {}, {:.0} GB of memory, Linux {}",
        value(&processors, "model name"),
        kilobytes * 1_024.0 / 1e9,
        read("/proc/sys/kernel/osrelease").trim()
    )
}
