//! Conversions.

use std::sync::Arc;

use hogql::types::{Kind, Type};

use super::{Built, Site, call};
use crate::error::Result;
use crate::show::{Shown, Style};
use crate::types::without_nulls;
use crate::{cast, text};

pub(super) fn build(site: &mut Site) -> Result<Option<Built>> {
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
                let found = without_nulls(&cast(array)?)?;
                super::conditions::with_nulls(&found, args.nulls.clone())
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
                let shown = Shown::new(&from, &args.columns[0].array, &context);
                args.map_texts(span, |row, out| {
                    shown.write(args.row_of(0, row), Style::Json, out);
                })
            })
        }
        "toTypeName" => {
            let zone = site.context.zone.iana_name().unwrap_or("UTC").to_owned();
            let name = from.name(&zone);
            let span = site.span;
            call(move |args| args.map_texts(span, |_, out| out.push_str(&name)))
        }
        _ => return Ok(None),
    }))
}

/// A date-time as a type of the zone that the call names, if it names one.
fn unzoned(site: &Site, from: &Type) -> Kind {
    let zone_at = if site.name == "toDateTime64" { 2 } else { 1 };
    match (&from.kind, site.name) {
        (Kind::DateTime(moment), "toDate") => {
            let mut moment = moment.clone();
            moment.zone = site.text(zone_at).or(moment.zone);
            Kind::DateTime(moment)
        }
        (kind, _) => kind.clone(),
    }
}

fn float_or_default(site: &mut Site, is_text: bool) -> Result<Built> {
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
        let texts = args.texts(0);
        Ok(args.map_floats(|row| text::float(texts.at(row)).unwrap_or_else(|| default(row))))
    }))
}
