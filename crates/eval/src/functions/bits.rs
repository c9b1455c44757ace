//! Bit functions. Values are 64-bit patterns, cut to the width of their type.

use hogql::types::Kind;

use super::{CallSite, CompiledCall, call};
use crate::error::{Error, Result};
use crate::vector::types::wrap;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    let kind = site.ty.kind.clone();
    let of = site.args.first().map_or(Kind::Null, |arg| arg.ty.kind.clone());
    let width = width(&of);
    Ok(Some(match site.name {
        "bitAnd" => pairs(kind, |a, b| a & b),
        "bitOr" => pairs(kind, |a, b| a | b),
        "bitXor" => pairs(kind, |a, b| a ^ b),
        "bitNot" => call(move |args| {
            let values = args.ints(0);
            Ok(args.map_ints(|row| wrap(&kind, !values.at(row))))
        }),
        "bitShiftLeft" | "bitShiftRight" | "bitRotateLeft" | "bitRotateRight" => {
            let name = site.name;
            call(move |args| {
                let (values, counts) = (args.ints(0), args.ints(1));
                args.try_ints(|row| {
                    let count = u32::try_from(counts.at(row)).ok();
                    let shift = matches!(name, "bitShiftLeft" | "bitShiftRight");
                    let Some(count) = count.filter(|count| !shift || *count <= width) else {
                        let message = format!("{name} moves by 0 to {width} bits");
                        return Err(Error::invalid(message, span));
                    };
                    Ok(Some(wrap(&kind, moved(name, values.at(row), count, width, &of))))
                })
            })
            .fallible()
        }
        "bitTest" | "bitTestAll" | "bitTestAny" => {
            let any = site.name == "bitTestAny";
            call(move |args| {
                let values = args.ints(0);
                let positions: Vec<_> = (1..args.columns.len()).map(|no| args.ints(no)).collect();
                args.try_ints(|row| {
                    let mut found = !any;
                    for position in &positions {
                        let at = u32::try_from(position.at(row)).ok().filter(|at| *at < width);
                        let Some(at) = at else {
                            let message =
                                format!("A bit's position is between 0 and {}", width - 1);
                            return Err(Error::invalid(message, span));
                        };
                        let set = values.at(row) >> at & 1 != 0;
                        found = if any { found || set } else { found && set };
                    }
                    Ok(Some(i64::from(found)))
                })
            })
            .fallible()
        }
        "bitCount" => call(move |args| {
            let values = args.ints(0);
            Ok(args.map_ints(|row| i64::from(pattern(values.at(row), width).count_ones())))
        }),
        "bitHammingDistance" => call(|args| {
            let (a, b) = (args.ints(0), args.ints(1));
            Ok(args.map_ints(|row| i64::from((a.at(row) ^ b.at(row)).count_ones())))
        }),
        _ => return Ok(None),
    }))
}

fn width(kind: &Kind) -> u32 {
    match kind {
        Kind::UInt(bits) | Kind::Int(bits) => u32::from(*bits),
        Kind::Bool => 8,
        _ => 64,
    }
}

/// The bits of a value of this width.
fn pattern(value: i64, width: u32) -> u64 {
    if width >= 64 { value as u64 } else { value as u64 & ((1 << width) - 1) }
}

fn pairs(kind: Kind, f: impl Fn(i64, i64) -> i64 + Send + Sync + 'static) -> CompiledCall {
    call(move |args| {
        let (a, b) = (args.ints(0), args.ints(1));
        Ok(args.map_ints(|row| wrap(&kind, f(a.at(row), b.at(row)))))
    })
}

fn moved(name: &str, value: i64, count: u32, width: u32, of: &Kind) -> i64 {
    let bits = pattern(value, width);
    let turn = count % width;
    let rotated = |left: u32| {
        let right = (width - left) % width;
        if left == 0 { bits } else { pattern((bits << left | bits >> right) as i64, width) }
    };
    match name {
        "bitShiftLeft" => value.checked_shl(count).unwrap_or(0),
        // The sign stays.
        "bitShiftRight" if matches!(of, Kind::Int(_)) => value >> count.min(63),
        "bitShiftRight" => bits.checked_shr(count).unwrap_or(0) as i64,
        "bitRotateLeft" => rotated(turn) as i64,
        _ => rotated((width - turn) % width) as i64,
    }
}
