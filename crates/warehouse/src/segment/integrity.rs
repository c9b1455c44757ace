//! Integrity checks of one segment: block checksums, and decoding every value.

use crate::columns::{ABSENT, Field, IntColumn};
use crate::segment::Segment;
use crate::segment::checksums::BLOCK_BYTES;
use crate::{Error, Result};

/// Bytes per read.
const READ_BYTES: usize = 128 * BLOCK_BYTES;
/// Corrupted ranges reported per segment.
const RANGES_MAX: usize = 16;

/// Compares every block with its checksum; describes the corrupted ranges and their columns. Calls
/// `go_on` with the size of each read, and stops when it returns false.
pub(crate) fn corrupt_ranges(
    segment: &Segment,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Vec<String>> {
    let mut ranges = Vec::new();
    let source = segment.source()?;
    let Some(blocks) = source.blocks() else { return Ok(ranges) };
    let mut at = 0;
    while at < blocks.end() && ranges.len() < RANGES_MAX {
        let length = (blocks.end() - at).min(READ_BYTES as u64) as usize;
        match source.read(at, length) {
            Ok(bytes) => {
                let mut from = 0;
                while let Some(wrong) = blocks.first_mismatch(at + from as u64, &bytes[from..]) {
                    let end = (wrong + BLOCK_BYTES as u64).min(blocks.end());
                    let column = segment.column_over(wrong..end)?;
                    ranges.push(format!("bytes {wrong} to {end} differ ({column})"));
                    from = (end - at) as usize;
                }
            }
            Err(error) => match segment.read_error(error) {
                Error::Corrupt { what, .. } => ranges.push(what),
                other => return Err(other),
            },
        }
        at += length as u64;
        if !go_on(length) {
            break;
        }
    }
    ranges.truncate(RANGES_MAX);
    Ok(ranges)
}

/// Decodes every value of a segment, one column at a time, and checks row counts and codes.
pub(crate) fn decode_all(segment: &Segment) -> Result<()> {
    for group in 0..segment.groups()? {
        let rows = 0..segment.group_rows(group)?.len();
        let count = rows.len();
        let listed: usize = segment.runs(group)?.iter().map(|run| run.rows as usize).sum();
        let check_rows = |rows: usize| {
            if rows == count { Ok(()) } else { Err(segment.undecodable()) }
        };
        if listed > 0 {
            check_rows(listed)?;
        }
        check_rows(segment.uuids(group, rows.clone())?.len())?;
        segment.filter(group)?;
        for number in IntColumn::ALL {
            let values = segment.ints(group, number, rows.clone())?;
            check_rows(values.len())?;
            let entry = &segment.entry;
            let outside = |time: &i64| *time < entry.from || *time > entry.to;
            if number == IntColumn::Timestamp && values.iter().any(outside) {
                return Err(Error::corrupt(&segment.path, "it has events of other times"));
            }
        }
        check_rows(segment.distinct_nos(group, rows.clone())?.len())?;
        check_rows(segment.historical(group, rows.clone())?.len())?;
        let properties = segment.properties(group)?;
        let properties = properties.iter().map(|(name, _)| Field::Property((*name).into()));
        let fields = Field::of_every_event().chain([Field::Nulls, Field::Rest]).chain(properties);
        for field in fields {
            if let Some(column) = segment.column(group, &field, rows.clone())? {
                check_rows(column.codes.len())?;
                let entries = column.dictionary.len() as u32;
                if column.codes.iter().any(|code| *code != ABSENT && *code >= entries) {
                    return Err(segment.undecodable());
                }
            }
        }
    }
    Ok(())
}
