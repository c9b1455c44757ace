//! Hash functions and binary encodings (hex, base64).

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hogql::plan::ExprKind;
use hogql::types::{Kind, Type};
use md5::{Digest, Md5};

use super::cityhash::{combine, hash};
use super::{CallSite, CompiledCall, call};
use crate::error::{Error, Result};
use crate::run::node::NodeKind;
use crate::values::cast;
use crate::values::format::push;
use crate::vector::types::entry;

/// Requires and writes padding, as ClickHouse does.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    Ok(Some(match site.name {
        "hex" => hex(site)?,
        "MD5" | "unhex" | "base64Decode" | "tryBase64Decode" => {
            let name = site.name;
            // Strings are UTF-8: invalid bytes become U+FFFD. `hex` of the call encodes all bytes.
            let compiled = call(move |args| {
                let strings = args.strings(0);
                args.try_strings(span, |row, out| {
                    let bytes = bytes_of(name, strings.at(row)).ok_or_else(|| not_base64(span))?;
                    out.push_str(&String::from_utf8_lossy(&bytes));
                    Ok(true)
                })
            });
            compiled.fallible_if(name == "base64Decode")
        }
        "base64Encode" => call(move |args| {
            let strings = args.strings(0);
            args.map_strings(span, |row, out| BASE64.encode_string(strings.at(row), out))
        }),
        "cityHash64" => {
            let types: Vec<Type> = site.args.iter().map(|arg| arg.ty.clone()).collect();
            call(move |args| {
                let mut hashes: Vec<Option<u64>> = vec![None; args.rows];
                for (no, ty) in types.iter().enumerate() {
                    let array = &args.columns[no].array;
                    let column_hashes = hashes_of(&ty.kind, array);
                    for (row, hash) in hashes.iter_mut().enumerate() {
                        let next = column_hashes[args.row_of(no, row)];
                        *hash = Some(hash.map_or(next, |hash| combine(hash, next)));
                    }
                }
                Ok(args.map_ints(|row| hashes[row].unwrap_or_default() as i64))
            })
        }
        "rand" | "rand64" => chance(site),
        _ => return Ok(None),
    }))
}

/// A number by chance: a hash of the arguments, which tell rows apart, and of the statement's time.
fn chance(site: &CallSite) -> CompiledCall {
    let types: Vec<Type> = site.args.iter().map(|arg| arg.ty.clone()).collect();
    let seed = hash_number(site.context.now as u64);
    let bits = if site.name == "rand" { 32 } else { 64 };
    call(move |args| {
        let mut hashes = vec![seed; args.rows];
        for (no, ty) in types.iter().enumerate() {
            let column_hashes = hashes_of(&ty.kind, &args.columns[no].array);
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = combine(*hash, column_hashes[args.row_of(no, row)]);
            }
        }
        Ok(args.map_ints(|row| (hashes[row] >> (64 - bits)) as i64))
    })
}

fn not_base64(span: hogql::Span) -> Error {
    Error::invalid("base64Decode was given a text that is not base64", span)
}

/// The bytes that a function computes, which need not be UTF-8.
fn bytes_of(name: &str, text: &str) -> Option<Vec<u8>> {
    Some(match name {
        "MD5" => Md5::digest(text.as_bytes()).to_vec(),
        "unhex" => unhex(text),
        "base64Decode" => BASE64.decode(text).ok()?,
        _ => BASE64.decode(text).unwrap_or_default(),
    })
}

/// Decodes hex as ClickHouse does: an invalid digit counts as 0xFF, an odd first digit is a byte of
/// its own.
fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).map_or(0xff, |digit| digit as u8);
    let bytes = text.as_bytes();
    let (lone, pairs) = bytes.split_at(bytes.len() % 2);
    let lone = lone.iter().map(|byte| digit(*byte));
    lone.chain(
        pairs
            .chunks_exact(2)
            .map(|pair| digit(pair[0]).wrapping_mul(16).wrapping_add(digit(pair[1]))),
    )
    .collect()
}

fn hex(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    if let Some(compiled) = hex_of_bytes(site)? {
        return Ok(compiled);
    }
    let kind = site.kind(0).clone();
    Ok(match kind {
        Kind::String | Kind::Json(_) => call(move |args| {
            let strings = args.strings(0);
            args.map_strings(span, |row, out| write_hex(strings.at(row).as_bytes(), out))
        }),
        Kind::Uuid => call(move |args| {
            let ids = args.uuids(0);
            args.map_strings(span, |row, out| write_hex(ids.at(row).as_bytes(), out))
        }),
        Kind::Float => call(move |args| {
            let values = args.floats(0);
            args.map_strings(span, |row, out| write_hex(&values.at(row).to_le_bytes(), out))
        }),
        Kind::Decimal(_) => call(move |args| {
            let values = args.decimals(0);
            args.map_strings(span, |row, out| write_hex(&values.at(row).to_le_bytes(), out))
        }),
        Kind::Array(_) | Kind::Tuple(_) | Kind::Map(_) => {
            return Err(site.invalid("hex takes a text, a number or a time"));
        }
        kind => call(move |args| {
            let values = args.ints(0);
            let (bits, unit) = match &kind {
                Kind::Bool => (8, 1),
                Kind::UInt(bits) | Kind::Int(bits) => (*bits, 1),
                Kind::Date => (16, 1),
                Kind::DateTime(date_time) if date_time.precision == 0 => (32, 1_000_000),
                _ => (64, 1),
            };
            args.map_strings(span, |row, out| {
                let value = values.at(row).div_euclid(unit) as u64;
                let cut = if bits < 64 { value & ((1 << bits) - 1) } else { value };
                let bytes = cut.to_be_bytes();
                // Whole bytes without leading zeros.
                let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(7);
                write_hex(&bytes[start..], out);
            })
        }),
    })
}

fn write_hex(bytes: &[u8], out: &mut String) {
    bytes.iter().for_each(|byte| push(out, format_args!("{byte:02X}")));
}

/// `hex` of a function that returns bytes, such as `MD5`: encodes the bytes themselves, which a
/// UTF-8 string cannot hold.
fn hex_of_bytes(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let Some(ExprKind::Call { function, .. }) = site.exprs.first().map(|expr| &expr.kind) else {
        return Ok(None);
    };
    let name = function.0.name;
    if !matches!(name, "MD5" | "unhex" | "base64Decode" | "tryBase64Decode") {
        return Ok(None);
    }
    let span = site.span;
    let inner = match &site.args[0].kind {
        NodeKind::Call(inner, _) => inner[0].clone(),
        // The call is already folded: compile its constant argument again.
        _ => match site.exprs.first().map(|expr| &expr.kind) {
            Some(ExprKind::Call { args, .. }) => (site.compile_constant)(&args[0], site.context)?,
            _ => return Ok(None),
        },
    };
    if inner.ty.kind == Kind::Null {
        return Ok(None);
    }
    site.args = vec![inner];
    let compiled = call(move |args| {
        let strings = args.strings(0);
        args.try_strings(span, |row, out| {
            let bytes = bytes_of(name, strings.at(row)).ok_or_else(|| not_base64(span))?;
            write_hex(&bytes, out);
            Ok(true)
        })
    });
    Ok(Some(compiled.fallible_if(name == "base64Decode")))
}

/// ClickHouse's hash of a number (`intHash64`).
fn hash_number(value: u64) -> u64 {
    let mut x = value ^ 0x4cf2_d2ba_ae6d_a887;
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

fn hashes_of(kind: &Kind, array: &ArrayRef) -> Vec<u64> {
    let rows = 0..array.len();
    match kind {
        Kind::Null => vec![0; array.len()],
        Kind::Float => {
            let values = array.as_primitive::<Float64Type>().values();
            values.iter().map(|value| hash_number(value.to_bits())).collect()
        }
        Kind::Decimal(_) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            values.iter().map(|value| hash(&value.to_le_bytes())).collect()
        }
        Kind::String | Kind::Json(_) => {
            let strings = array.as_string::<i32>();
            rows.map(|row| hash(strings.value(row).as_bytes())).collect()
        }
        Kind::Uuid => {
            let ids = array.as_fixed_size_binary();
            let halves = |id: &[u8]| {
                let mut bytes = id.to_vec();
                bytes[..8].reverse();
                bytes[8..].reverse();
                hash(&bytes)
            };
            rows.map(|row| halves(ids.value(row))).collect()
        }
        Kind::Array(element) => hashes_of_lists(&element.kind, array),
        Kind::Map(pair) => hashes_of_lists(&entry(pair).kind, array),
        Kind::Tuple(items) => {
            let columns = items.iter().zip(array.as_struct().columns());
            let columns: Vec<Vec<u64>> =
                columns.map(|(ty, column)| hashes_of(&ty.kind, column)).collect();
            let of_row = |row: usize| {
                columns.iter().map(|column| column[row]).reduce(combine).unwrap_or_default()
            };
            rows.map(of_row).collect()
        }
        Kind::DateTime(date_time) if date_time.precision > 0 => {
            let step = cast::fraction_step(date_time);
            let values = array.as_primitive::<Int64Type>().values();
            values.iter().map(|value| hash(&value.div_euclid(step).to_le_bytes())).collect()
        }
        kind => {
            let values = array.as_primitive::<Int64Type>().values();
            let cut = |value: i64| match kind {
                // Hash the bits of the type's own width.
                Kind::Int(8) => u64::from(value as u8),
                Kind::Int(16) => u64::from(value as u16),
                Kind::Int(32) => u64::from(value as u32),
                Kind::DateTime(_) => u64::from(value.div_euclid(1_000_000) as u32),
                _ => value as u64,
            };
            values.iter().map(|value| hash_number(cut(*value))).collect()
        }
    }
}

/// Combines the length with the hash of each element.
fn hashes_of_lists(element: &Kind, array: &ArrayRef) -> Vec<u64> {
    let list = array.as_list::<i32>();
    let elements = hashes_of(element, list.values());
    let ranges = list.value_offsets().windows(2);
    let of_range = |range: &[i32]| {
        let (start, end) = (range[0] as usize, range[1] as usize);
        let length = hash_number((end - start) as u64);
        elements[start..end].iter().fold(length, |hash, next| combine(hash, *next))
    };
    ranges.map(of_range).collect()
}
