//! Parses uploaded CSV files that list a static cohort's persons.

use catalog::PersonIdKind;

use crate::{Error, Result};

/// Recognized column names, in order of preference.
const COLUMNS: [(&str, PersonIdKind); 4] = [
    ("person_id", PersonIdKind::PersonUuid),
    ("distinct_id", PersonIdKind::DistinctId),
    ("distinct-id", PersonIdKind::DistinctId),
    ("email", PersonIdKind::Email),
];

/// The person identifiers that a CSV file lists, and their kind.
pub(super) fn person_ids(file: &[u8]) -> Result<(PersonIdKind, Vec<String>)> {
    let refused = |detail: &str| Error::invalid("csv", "invalid_input", detail);
    let text = std::str::from_utf8(file).map_err(|_| refused("The file is not UTF-8 text."))?;
    let rows = rows(text.strip_prefix('\u{feff}').unwrap_or(text));
    let rows = rows.ok_or_else(|| refused("The file ends within quotes."))?;
    let Some(first) = rows.first() else { return Err(refused("The file is empty.")) };
    if text.contains('\0') {
        return Err(refused("Null characters are not allowed."));
    }
    let header = COLUMNS.iter().find_map(|(name, by)| {
        let column = first.iter().position(|cell| cell.trim().eq_ignore_ascii_case(name))?;
        Some((column, *by))
    });
    let (column, by, rows) = match header {
        Some((column, by)) => (column, by, &rows[1..]),
        None if first.len() == 1 => (0, PersonIdKind::DistinctId, &rows[..]),
        None => {
            let detail = "One column must be called person_id, distinct_id or email.";
            return Err(refused(detail));
        }
    };
    let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.trim());
    let names = cells.filter(|cell| !cell.is_empty());
    let names = names.map(|cell| match by {
        // Uuids are stored in lower case.
        PersonIdKind::PersonUuid => cell.to_ascii_lowercase(),
        PersonIdKind::DistinctId | PersonIdKind::Email => cell.to_owned(),
    });
    Ok((by, names.collect()))
}

/// Parses RFC 4180 with any line ending and skips empty rows; none if a quote is not closed.
fn rows(text: &str) -> Option<Vec<Vec<String>>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(character) = chars.next() {
        match (character, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => {
                cell.push('"');
                chars.next();
            }
            ('"', true) => quoted = false,
            ('"', false) if cell.is_empty() => quoted = true,
            (',', false) => row.push(std::mem::take(&mut cell)),
            // In CRLF the second character ends an empty row, which is skipped.
            ('\r' | '\n', false) => end_row(&mut rows, &mut row, &mut cell),
            (other, _) => cell.push(other),
        }
    }
    end_row(&mut rows, &mut row, &mut cell);
    (!quoted).then_some(rows)
}

fn end_row(rows: &mut Vec<Vec<String>>, row: &mut Vec<String>, cell: &mut String) {
    row.push(std::mem::take(cell));
    let row = std::mem::take(row);
    if row.iter().any(|cell| !cell.trim().is_empty()) {
        rows.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_identifies_persons_by_header_or_by_its_only_column() {
        use PersonIdKind::{DistinctId, Email, PersonUuid};
        for (file, expected) in [
            ("distinct_id\nu1\n\nu2\r\n", Some((DistinctId, vec!["u1", "u2"]))),
            ("u1\nu2", Some((DistinctId, vec!["u1", "u2"]))),
            ("u1\ru2\r", Some((DistinctId, vec!["u1", "u2"]))),
            (
                "name,email\rA,a@b\r\rB,\"c\r@d\"\n\rC,e@f",
                Some((Email, vec!["a@b", "c\r@d", "e@f"])),
            ),
            (
                "name,Distinct-ID\nA,u1\n\"B, C\",\"u\"\"2\"\nshort",
                Some((DistinctId, vec!["u1", "u\"2"])),
            ),
            ("\u{feff}email,distinct_id,person_id\na@b,u1,AB\n", Some((PersonUuid, vec!["ab"]))),
            ("Email\na@b\n", Some((Email, vec!["a@b"]))),
            ("email,distinct_id\na@b,u1\n", Some((DistinctId, vec!["u1"]))),
            ("distinct_id\n", Some((DistinctId, vec![]))),
            ("a,b\n1,2\n", None),
            ("", None),
            ("\n\n", None),
            ("distinct_id\nu\0", None),
            ("distinct_id,x\n\"u1,2\nu2,3\n", None),
        ] {
            let expected = expected
                .map(|(by, names)| (by, names.into_iter().map(str::to_owned).collect::<Vec<_>>()));
            assert_eq!(person_ids(file.as_bytes()).ok(), expected, "{file:?}");
        }
        assert!(person_ids(b"\xff\xfe").is_err());
    }
}
