//! Integrity checks of one segment: block checksums, and decoding every value.

use crate::columns::{ABSENT, Field, IntColumn};
use crate::segment::Segment;
use crate::segment::checksums::BLOCK_BYTES;
use crate::{Error, Result};

/// Bytes read at once.
const READ_BYTES: usize = 128 * BLOCK_BYTES;
/// Damaged places named of one segment.
const PLACES_MAX: usize = 16;

/// Compares every block with its checksum; says which bytes of which column differ. Ends early when
/// `go_on`, which hears of every number of bytes read, says so.
pub(crate) fn corrupt_ranges(
    segment: &Segment,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Vec<String>> {
    let mut places = Vec::new();
    let source = segment.source()?;
    let Some(blocks) = source.blocks() else { return Ok(places) };
    let mut at = 0;
    while at < blocks.end() && places.len() < PLACES_MAX {
        let length = (blocks.end() - at).min(READ_BYTES as u64) as usize;
        match source.read(at, length) {
            Ok(bytes) => {
                let mut from = 0;
                while let Some(wrong) = blocks.mismatch(at + from as u64, &bytes[from..]) {
                    let end = (wrong + BLOCK_BYTES as u64).min(blocks.end());
                    let column = segment.column_over(wrong..end)?;
                    places.push(format!("bytes {wrong} to {end} differ ({column})"));
                    from = (end - at) as usize;
                }
            }
            Err(error) => match segment.read_error(error) {
                Error::Corrupt { what, .. } => places.push(what),
                other => return Err(other),
            },
        }
        at += length as u64;
        if !go_on(length) {
            break;
        }
    }
    places.truncate(PLACES_MAX);
    Ok(places)
}

/// Decodes every value of a segment, one column at a time.
pub(crate) fn decode_all(segment: &Segment) -> Result<()> {
    for group in 0..segment.groups()? {
        let rows = 0..segment.group_rows(group)?.len();
        let count = rows.len();
        let listed: usize = segment.runs(group)?.iter().map(|run| run.rows as usize).sum();
        let whole = |rows: usize| {
            if rows == count { Ok(()) } else { Err(segment.undecodable()) }
        };
        if listed > 0 {
            whole(listed)?;
        }
        whole(segment.uuids(group, rows.clone())?.len())?;
        segment.filter(group)?;
        for number in IntColumn::ALL {
            let values = segment.ints(group, number, rows.clone())?;
            whole(values.len())?;
            let entry = &segment.entry;
            let outside = |time: &i64| *time < entry.from || *time > entry.to;
            if number == IntColumn::Timestamp && values.iter().any(outside) {
                return Err(Error::corrupt(&segment.path, "it has events of other times"));
            }
        }
        whole(segment.distinct_nos(group, rows.clone())?.len())?;
        whole(segment.historical(group, rows.clone())?.len())?;
        let properties = segment.properties(group)?;
        let properties = properties.iter().map(|(name, _)| Field::Property((*name).into()));
        let fields = Field::of_every_event().chain([Field::Nulls, Field::Rest]).chain(properties);
        for field in fields {
            if let Some(column) = segment.column(group, &field, rows.clone())? {
                whole(column.codes.len())?;
                let entries = column.dictionary.len() as u32;
                if column.codes.iter().any(|code| *code != ABSENT && *code >= entries) {
                    return Err(segment.undecodable());
                }
            }
        }
    }
    Ok(())
}
