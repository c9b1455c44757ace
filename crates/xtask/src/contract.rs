//! Contract citations: every `contract: flags 46, 60-64` in a test names conformance cases of
//! `docs/contract`, and every case is cited by a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The documents that end in numbered conformance cases.
const DOCUMENTS: [&str; 4] = ["ingestion", "flags", "management", "query"];

/// A wider range cites no case in particular.
const RANGE_CASES_MAX: usize = 11;

/// The case numbers of each document.
type Cases = BTreeMap<&'static str, BTreeSet<usize>>;

/// Adds a complaint for each citation without a case and each case without a citation.
pub(crate) fn check(
    root: &Path,
    files: &[(String, String)],
    complaints: &mut Vec<String>,
) -> Result<()> {
    let mut cases = Cases::new();
    for document in DOCUMENTS {
        let path = root.join("docs/contract").join(format!("{document}.md"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        cases.insert(document, case_numbers(&text));
    }
    compare(&cases, files, complaints);
    Ok(())
}

fn compare(cases: &Cases, files: &[(String, String)], complaints: &mut Vec<String>) {
    let mut cited = Cases::new();
    for (name, text) in files {
        for (document, number) in citations(text) {
            if cases[document].contains(&number) {
                cited.entry(document).or_default().insert(number);
            } else {
                complaints.push(format!("{name} cites {document} {number}, which is no case"));
            }
        }
    }
    for (document, numbers) in cases {
        let cited = cited.remove(document).unwrap_or_default();
        for number in numbers.difference(&cited) {
            complaints.push(format!("no test cites case {number} of docs/contract/{document}.md"));
        }
    }
}

/// Numbered list items below the heading "Conformance cases".
fn case_numbers(text: &str) -> BTreeSet<usize> {
    text.lines()
        .skip_while(|line| !(line.starts_with("## ") && line.contains("Conformance cases")))
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.trim_start().split_once(". ")?.0.parse().ok())
        .collect()
}

/// `contract: flags 46, 60-64` cites 46 and 60 to 64. A section (`contract: query section 2.5`)
/// cites no case.
fn citations(text: &str) -> Vec<(&'static str, usize)> {
    let mut citations = Vec::new();
    for tail in text.split("contract: ").skip(1) {
        let Some(document) = DOCUMENTS.into_iter().find(|name| tail.starts_with(name)) else {
            continue;
        };
        let line = tail[document.len()..].lines().next().unwrap_or_default();
        let list = line.split(|c: char| !(c.is_ascii_digit() || ", -".contains(c))).next();
        for part in list.unwrap_or_default().split([',', ' ']).filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
                continue;
            };
            if last.saturating_sub(first) < RANGE_CASES_MAX {
                citations.extend((first..=last).map(|case| (document, case)));
            }
        }
    }
    citations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_name_single_cases_and_ranges() {
        let text = "// contract: flags 46, 60-62\n// contract: query section 2.5, filters\n";
        assert_eq!(citations(text), [46, 60, 61, 62].map(|case| ("flags", case)));
    }

    #[test]
    fn unknown_and_uncited_cases_are_complaints() {
        let document =
            "## 1. Paths\n1. no case\n## 9. Conformance cases\n1. one\n 2. two\n## 10.\n3. no\n";
        let mut cases: Cases = DOCUMENTS.map(|name| (name, BTreeSet::new())).into();
        cases.insert("flags", case_numbers(document));
        let files = [("a.rs".to_owned(), "// contract: flags 2-3".to_owned())];
        let mut complaints = Vec::new();
        compare(&cases, &files, &mut complaints);
        assert_eq!(
            complaints,
            [
                "a.rs cites flags 3, which is no case",
                "no test cites case 1 of docs/contract/flags.md"
            ]
        );
    }
}
