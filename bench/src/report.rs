//! The report: a table of rows with bounds, as Markdown and JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

#[derive(Clone, Copy)]
pub enum Bound {
    /// The measured value, in its unit.
    AtMost(f64),
    /// CPU seconds, calibrated on another machine, times `pace`: how much slower the baseline is on
    /// this machine now.
    CpuAtMost {
        seconds: f64,
        pace: f64,
    },
    /// The measured value divided by the baseline.
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// Informational only.
    None,
}

pub struct Row {
    pub name: String,
    pub unit: &'static str,
    pub ours: f64,
    /// The baseline, measured in the same run.
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

    /// Adds a row and prints it.
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

    /// Writes `name.json` and `name.md` into `dir`.
    pub fn write(&self, dir: &Path, name: &str, events: u64) -> Result<()> {
        fs::create_dir_all(dir)?;
        let machine = machine();
        let mut rows = Vec::new();
        let mut text = format!(
            "# {name}\n\n{machine}; reference set of {events} events. Bounds on CPU time are scaled \
             by the cost of a bare request (or of what the row names) in the same run, relative to \
             the machine where they were calibrated.\n"
        );
        for (section, section_rows) in &self.sections {
            let _ = write!(
                text,
                "\n## {section}\n\n| | ours | reference | ratio | bound | |\n|---|---|---|---|---|---|\n"
            );
            for row in section_rows {
                let reference = row.reference.map_or_else(String::new, |(name, value)| {
                    format!("{} {} ({name})", short(value), row.unit)
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
                    "reference": row.reference.map(|(name, value)| json!({"what": name, "value": value})),
                    "ratio": row.ratio(), "bound": row.bound(), "holds": row.holds(),
                }));
            }
        }
        let all: Value = json!({ "machine": machine, "events": events, "rows": rows });
        fs::write(dir.join(format!("{name}.json")), serde_json::to_vec_pretty(&all)?)?;
        fs::write(dir.join(format!("{name}.md")), text)?;
        Ok(())
    }
}

/// Three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (cpuinfo, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).map(str::to_owned);
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
    };
    let cores = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let kilobytes: f64 =
        value(&memory, "MemTotal").trim_end_matches(" kB").parse().unwrap_or_default();
    format!(
        "{cores} x {}, {:.0} GB of memory, Linux {}",
        value(&cpuinfo, "model name"),
        kilobytes * 1_024.0 / 1e9,
        read("/proc/sys/kernel/osrelease").trim()
    )
}
