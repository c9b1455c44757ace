//! Type conversion functions.

use std::sync::Arc;

use hogql::types::{Kind, Type};

use super::{CallSite, CompiledCall, call};
use crate::error::Result;
use crate::values::cast;
use crate::values::format::{Style, ValueFormatter};
use crate::vector::column::{Args, Column};
use crate::vector::types::without_nulls;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let from = site.args.first().map_or_else(|| Kind::Null.into(), |arg| arg.ty.clone());
    let is_text = from.kind.is_string();
    Ok(Some(match site.name {
        "toString" => {
            let kind = unzoned(site, &from);
            site.as_cast(Type { kind, ..from }, false)?
        }
        "toBool" => site.as_cast(from, false)?,
        "UUIDv7ToDateTime" => milliseconds_of_uuid(site)?,
        "toJSONString" => {
            let (context, span) = (Arc::clone(site.context), site.span);
            call(move |args| {
                let shown = ValueFormatter::new(&from, &args.columns[0].array, &context);
                args.map_strings(span, |row, out| {
                    shown.write(args.row_of(0, row), Style::Json, out);
                })
            })
        }
        "toTypeName" => {
            let zone = site.context.zone.iana_name().unwrap_or("UTC").to_owned();
            let name = from.name(&zone);
            let span = site.span;
            call(move |args| args.map_strings(span, |_, out| out.push_str(&name)))
        }
        name => match on_failure(name) {
            None => return Ok(None),
            Some(OnFailure::Null) => {
                let kind = unzoned(site, &from);
                site.as_cast(Type { kind, ..from }, is_text)?
            }
            Some(OnFailure::Default) => or_default(site, &from)?,
        },
    }))
}

/// What a conversion gives for a string that it cannot read.
#[derive(Clone, Copy)]
enum OnFailure {
    Null,
    /// The second argument of `OrDefault`, otherwise the default of the type.
    Default,
}

fn on_failure(name: &str) -> Option<OnFailure> {
    let zero = name.strip_suffix("OrZero").or_else(|| name.strip_suffix("OrDefault"));
    let base = zero.unwrap_or(name);
    let is_number = ["toInt", "toUInt", "toFloat"].iter().any(|family| {
        base.strip_prefix(family).is_some_and(|bits| matches!(bits, "" | "8" | "16" | "32" | "64"))
    });
    let is_other = matches!(
        base,
        "toUUID"
            | "toDecimal"
            | "toDate"
            | "toDateTime"
            | "toDateTime64"
            | "parseDateTimeBestEffort"
    );
    let how = if zero.is_some() { OnFailure::Default } else { OnFailure::Null };
    (is_number || is_other).then_some(how)
}

fn or_default(site: &mut CallSite, from: &Type) -> Result<CompiledCall> {
    let to = Type { kind: site.ty.kind.clone(), nullable: true };
    let read = cast::between(from, &to, true, site.span, site.context)?;
    let has_default = site.name.ends_with("OrDefault") && site.args.len() > 1;
    site.args.truncate(if has_default { 2 } else { 1 });
    if has_default {
        site.cast(1, &to.kind)?;
    }
    let keeps_nulls = !site.name.ends_with("OrDefault");
    Ok(call(move |args| {
        let array = &args.columns[0].array;
        let values = match &read {
            Some(read) => read(array)?,
            None => Arc::clone(array),
        };
        let values = if has_default {
            let sides = [
                Column { array: values, constant: args.columns[0].constant },
                args.columns[1].clone(),
            ];
            let sides = Args { columns: &sides, rows: args.rows, nulls: None };
            let chosen =
                super::conditions::choose(&sides, |row| usize::from(sides.is_null(0, row)))?;
            without_nulls(&chosen)?
        } else {
            without_nulls(
                &Column { array: values, constant: args.columns[0].constant }.expand(args.rows)?,
            )?
        };
        let nulls = args.nulls.clone().filter(|_| keeps_nulls);
        super::conditions::with_nulls(&values, nulls)
    }))
}

/// The time that a version 7 UUID begins with; 1970 for others.
fn milliseconds_of_uuid(site: &mut CallSite) -> Result<CompiledCall> {
    site.cast(0, &Kind::Uuid)?;
    site.args.truncate(1);
    Ok(call(|args| {
        let ids = args.uuids(0);
        Ok(args.map_ints(|row| {
            let id = ids.at(row);
            if id.get_version_num() == 7 { ((id.as_u128() >> 80) as i64) * 1_000 } else { 0 }
        }))
    })
    .fallible())
}

/// The argument's kind; for `toDate` of a date-time, in the zone that the call names.
fn unzoned(site: &CallSite, from: &Type) -> Kind {
    let zone_at = if site.name == "toDateTime64" { 2 } else { 1 };
    match (&from.kind, site.name) {
        (Kind::DateTime(date_time), "toDate" | "toString") => {
            let mut date_time = date_time.clone();
            date_time.zone = site.string(zone_at).or(date_time.zone);
            Kind::DateTime(date_time)
        }
        (kind, _) => kind.clone(),
    }
}
