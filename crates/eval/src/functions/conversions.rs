//! Type conversion functions.

use std::sync::Arc;

use hogql::types::{Kind, Type};

use super::{CallSite, CompiledCall, call};
use crate::error::Result;
use crate::values::format::{Style, ValueFormatter};
use crate::values::{cast, parse};
use crate::vector::types::without_nulls;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let from = site.args.first().map_or_else(|| Kind::Null.into(), |arg| arg.ty.clone());
    let is_text = from.kind.is_string();
    Ok(Some(match site.name {
        "toString" => site.as_cast(from, false)?,
        "toInt"
        | "toFloat"
        | "toUUID"
        | "toDecimal"
        | "toDateTime"
        | "toDateTime64"
        | "parseDateTimeBestEffort" => {
            let kind = unzoned(site, &from);
            site.as_cast(Type { kind, ..from }, is_text)?
        }
        "toDate" => {
            let kind = unzoned(site, &from);
            site.as_cast(Type { kind, ..from }, is_text)?
        }
        "toBool" => site.as_cast(from, false)?,
        "toIntOrZero" | "toFloatOrZero" => {
            let to = Type { kind: site.ty.kind.clone(), nullable: true };
            let cast = cast::between(&from, &to, true, site.span, site.context)?;
            call(move |args| {
                let array = &args.columns[0].array;
                let Some(cast) = &cast else { return Ok(Arc::clone(array)) };
                let values = without_nulls(&cast(array)?)?;
                super::conditions::with_nulls(&values, args.nulls.clone())
            })
        }
        "toFloatOrDefault" => {
            if site.args.len() > 1 {
                site.cast(1, &Kind::Float)?;
            }
            float_or_default(site, is_text)?
        }
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
        _ => return Ok(None),
    }))
}

/// The argument's kind; for `toDate` of a date-time, in the zone that the call names.
fn unzoned(site: &CallSite, from: &Type) -> Kind {
    let zone_at = if site.name == "toDateTime64" { 2 } else { 1 };
    match (&from.kind, site.name) {
        (Kind::DateTime(date_time), "toDate") => {
            let mut date_time = date_time.clone();
            date_time.zone = site.string(zone_at).or(date_time.zone);
            Kind::DateTime(date_time)
        }
        (kind, _) => kind.clone(),
    }
}

fn float_or_default(site: &mut CallSite, is_text: bool) -> Result<CompiledCall> {
    let has_default = site.args.len() > 1;
    if !is_text {
        site.cast(0, &Kind::Float)?;
    }
    Ok(call(move |args| {
        let default = |row: usize| if has_default { args.floats(1).at(row) } else { 0.0 };
        if !is_text {
            let values = args.floats(0);
            return Ok(args.map_floats(|row| values.at(row)));
        }
        let strings = args.strings(0);
        Ok(args.map_floats(|row| parse::float(strings.at(row)).unwrap_or_else(|| default(row))))
    }))
}
