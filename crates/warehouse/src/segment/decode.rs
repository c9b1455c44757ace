//! Decodes pages into codes and values.

use parquet::basic::Encoding;

use crate::columns::json;
use crate::columns::{ABSENT, Dictionary, Value};
use crate::segment::kind::{Kind, plain_float, pointed_float};
use crate::segment::rle;

/// A data page, decompressed.
pub(crate) struct DataPage<'a> {
    pub bytes: &'a [u8],
    pub rows: usize,
    pub encoding: Encoding,
}

/// Decodes the codes of a page's rows. Values of a PLAIN page are added to `plain_values`.
pub(crate) fn codes(
    page: &DataPage<'_>,
    kind: Kind,
    required: bool,
    plain_values: &mut Dictionary,
    out: &mut Vec<u32>,
) -> Option<()> {
    let (levels, values) = match required {
        true => (None, page.bytes),
        false => {
            let length = u32::from_le_bytes(page.bytes.get(..4)?.try_into().ok()?) as usize;
            let levels = rle::decode(page.bytes.get(4..4 + length)?, 1, page.rows)?;
            (Some(levels), &page.bytes[4 + length..])
        }
    };
    let present = match &levels {
        Some(levels) => levels.iter().map(|level| *level as usize).sum(),
        None => page.rows,
    };
    let codes = match (page.encoding, kind) {
        (Encoding::RLE_DICTIONARY, _) if present == 0 => Vec::new(),
        (Encoding::RLE_DICTIONARY, _) => {
            let (&width, packed) = values.split_first()?;
            rle::decode(packed, u32::from(width).min(32), present)?
        }
        (Encoding::PLAIN, Kind::Bool) => {
            let bit = |at: usize| Some(u32::from(values.get(at / 8)? >> (at % 8) & 1));
            (0..present).map(bit).collect::<Option<_>>()?
        }
        (Encoding::PLAIN, kind) => {
            let first = plain_values.len() as u32;
            entries(values, present, kind, plain_values)?;
            (first..first + present as u32).collect()
        }
        _ => return None,
    };
    match levels {
        Some(levels) if present < page.rows => {
            let mut codes = codes.into_iter();
            let mut code = |level: u32| if level == 0 { Some(ABSENT) } else { codes.next() };
            for level in levels {
                out.push(code(level)?);
            }
        }
        _ => out.extend(codes),
    }
    Some(())
}

/// Decodes `count` PLAIN values into the dictionary.
pub(crate) fn entries(
    mut bytes: &[u8],
    count: usize,
    kind: Kind,
    out: &mut Dictionary,
) -> Option<()> {
    for _ in 0..count {
        match kind {
            Kind::Int => {
                let int = i64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?);
                out.push(Value::Number(&int.to_string()));
            }
            Kind::Float | Kind::Pointed => {
                let float = f64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?);
                let print = if kind == Kind::Float { plain_float } else { pointed_float };
                out.push(Value::Number(&print(float)));
            }
            Kind::Text | Kind::Json => {
                let length = u32::from_le_bytes(take(&mut bytes, 4)?.try_into().ok()?) as usize;
                let text = std::str::from_utf8(take(&mut bytes, length)?).ok()?;
                match kind {
                    Kind::Text => out.push(Value::Text(text)),
                    _ => json::with_json_value(text, |value| out.push(value))?,
                };
            }
            Kind::Bool => return None,
        }
    }
    Some(())
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

pub(crate) fn uuids(bytes: &[u8], rows: usize, out: &mut Vec<[u8; 16]>) -> Option<()> {
    let (uuids, rest) = bytes.as_chunks();
    out.extend_from_slice(uuids);
    (uuids.len() == rows && rest.is_empty()).then_some(())
}
