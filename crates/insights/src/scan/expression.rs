//! HogQL expressions that give one value per event.
//!
//! An expression that names one column reads that column, which is the fast path; others are
//! compiled and evaluated.

use warehouse::ColumnKey;

use crate::columns::interner::StringInterner;
use crate::hogql::Scalar;
use crate::scan::ActorSource;
use crate::scan::context::ScanContext;
use crate::{Error, Result};

pub(crate) fn unsupported() -> Error {
    Error::invalid("HogQL expressions are not supported here.")
}

/// Where the values of an expression come from.
pub(crate) enum Source {
    Key(ColumnKey),
    Scalar(Scalar),
}

pub(crate) fn read(context: &ScanContext<'_>, text: &str) -> Result<Source> {
    match (key(text), context.hogql) {
        (Ok(key), _) => Ok(Source::Key(key)),
        (Err(_), Some(hogql)) => Ok(Source::Scalar(hogql.texts(context.view, text)?)),
        (Err(error), None) => Err(error),
    }
}

/// The column that an expression names: `properties.x`, `properties['x']`, `event`, `distinct_id`.
pub(crate) fn key(text: &str) -> Result<ColumnKey> {
    let text = text.trim();
    let group = text.strip_prefix("$group_").and_then(|index| index.parse().ok());
    if let Some(index) = group.filter(|index| *index < warehouse::GROUP_TYPES) {
        return Ok(ColumnKey::Group(index));
    }
    match text {
        "event" => return Ok(ColumnKey::Event),
        "distinct_id" => return Ok(ColumnKey::DistinctId),
        "elements_chain" => return Ok(ColumnKey::ElementsChain),
        "$session_id" | "$window_id" => return Ok(ColumnKey::Property(text.to_owned())),
        _ => {}
    }
    let rest = text.strip_prefix("properties").ok_or_else(unsupported)?;
    let named = |name: &str| {
        let mut letters = name.chars();
        let plain = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
        let first = letters.next().is_some_and(|letter| plain(letter) && !letter.is_ascii_digit());
        first && letters.all(plain)
    };
    if let Some(name) = rest.strip_prefix('.').filter(|name| named(name)) {
        return Ok(ColumnKey::Property(name.to_owned()));
    }
    let quoted = rest.strip_prefix("['").and_then(|rest| rest.strip_suffix("']"));
    match quoted {
        Some(name) if !name.contains(['\'', '\\']) => Ok(ColumnKey::Property(name.to_owned())),
        _ => Err(unsupported()),
    }
}

/// Actors identified by an expression.
pub(crate) fn actors(context: &ScanContext<'_>, text: &str) -> Result<ActorSource> {
    if matches!(text.trim(), "person_id" | "person.id") {
        return Ok(ActorSource::Persons);
    }
    Ok(match read(context, text)? {
        Source::Key(key) => ActorSource::column(key),
        Source::Scalar(scalar) => ActorSource::Expression(scalar, StringInterner::default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_names_are_recognized_as_expressions() {
        let property = |name: &str| Some(ColumnKey::Property(name.to_owned()));
        for (text, expected) in [
            ("properties.$session_id", property("$session_id")),
            (" properties['a b'] ", property("a b")),
            ("event", Some(ColumnKey::Event)),
            ("$group_4", Some(ColumnKey::Group(4))),
            ("$group_5", None),
            ("properties.a.b", None),
            ("properties.a = 1", None),
            ("properties.1", None),
            ("properties", None),
            ("lower(event)", None),
            ("", None),
        ] {
            assert_eq!(key(text).ok(), expected, "{text}");
        }
    }
}
