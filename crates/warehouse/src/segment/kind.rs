//! The type of a column in a segment. The values decide it, never property definitions, which users
//! may edit.

use serde::{Deserialize, Serialize};

use crate::columns::{Dictionary, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Text,
    /// JSON strings: nested values, mixed types, or numbers whose literals a typed column would change.
    Json,
    Int,
    /// Doubles whose literals are the shortest form: `0.5`, and `3` for three.
    Float,
    /// Doubles whose literals always have a decimal point: `0.5`, and `3.0` for three.
    Pointed,
    Bool,
}

impl Kind {
    pub fn of(dictionary: &Dictionary) -> Kind {
        let mut fitting = [Kind::Bool, Kind::Text, Kind::Int, Kind::Float, Kind::Pointed].to_vec();
        for value in dictionary.iter() {
            fitting.retain(|kind| kind.fits(value));
            if fitting.is_empty() {
                return Kind::Json;
            }
        }
        fitting[0]
    }

    fn fits(self, value: Value<'_>) -> bool {
        match (self, value) {
            (Kind::Text, Value::Text(_)) | (Kind::Bool, Value::Bool(_)) => true,
            (Kind::Int, Value::Number(literal)) => is_int(literal),
            (Kind::Float, Value::Number(literal)) => {
                is_simple(literal)
                    || is_int(literal) && literal.len() <= EXACT_DIGITS
                    || is_float(literal, plain_float)
            }
            (Kind::Pointed, Value::Number(literal)) => {
                is_simple(literal) || is_float(literal, pointed_float)
            }
            _ => false,
        }
    }
}

/// Whether the literal is the decimal form of an `i64`.
fn is_int(literal: &str) -> bool {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain && literal != "-0" && literal.parse::<i64>().is_ok()
}

/// Decimals of up to this many digits survive the conversion to a double and back.
const EXACT_DIGITS: usize = 15;

/// A fast check for common decimals, which both ways of printing a double reproduce: few digits, no
/// redundant zeros, and no leading zeros after the point, which would need an exponent.
fn is_simple(literal: &str) -> bool {
    let Some((whole, part)) = literal.strip_prefix('-').unwrap_or(literal).split_once('.') else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let starts = match whole.as_bytes() {
        [b'0'] => !part.starts_with('0'),
        [first, ..] => *first != b'0',
        [] => false,
    };
    starts
        && whole.len() + part.len() <= EXACT_DIGITS
        && !part.is_empty()
        && !part.ends_with('0')
        && digits(whole)
        && digits(part)
}

fn is_float(literal: &str, print: fn(f64) -> String) -> bool {
    // Rust prints large doubles without an exponent, as hundreds of digits.
    const CHARS_MAX: usize = 25;
    literal.len() <= CHARS_MAX
        && literal.parse().is_ok_and(|value: f64| value.is_finite() && print(value) == literal)
}

pub(crate) fn plain_float(value: f64) -> String {
    value.to_string()
}

pub(crate) fn pointed_float(value: f64) -> String {
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn column_is_typed_only_if_every_literal_survives() {
        let text = |text| Value::Text(text);
        let number = |literal| Value::Number(literal);
        for (values, expected) in [
            (vec![text("a"), text("")], Kind::Text),
            (vec![Value::Bool(true), Value::Bool(false)], Kind::Bool),
            (vec![number("0"), number("-9223372036854775808")], Kind::Int),
            (vec![number("12345678901234567890")], Kind::Json),
            (vec![number("-0")], Kind::Float),
            (vec![number("1"), number("2.5")], Kind::Float),
            (vec![number("1.0"), number("2.5")], Kind::Pointed),
            (vec![number("1.0"), number("1")], Kind::Json),
            (vec![number("1e3")], Kind::Json),
            (vec![number("0.1"), number("0.10")], Kind::Json),
            (vec![number("9007199254740993"), number("0.5")], Kind::Json),
            (vec![text("1"), number("1")], Kind::Json),
            (vec![Value::Json("[1]")], Kind::Json),
        ] {
            let mut dictionary = Dictionary::default();
            values.iter().for_each(|value| {
                dictionary.push(*value);
            });
            assert_eq!(Kind::of(&dictionary), expected, "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn simple_decimals_survive_both_float_formats(literal in "-?(0|[0-9]{1,9})\\.?[0-9]{0,9}") {
            if is_simple(&literal) {
                prop_assert!(is_float(&literal, plain_float), "{}", literal);
                prop_assert!(is_float(&literal, pointed_float), "{}", literal);
            }
        }
    }

    #[test]
    fn common_decimals_take_the_fast_check() {
        for literal in ["0.5", "-1.25", "102.07", "123456789.012345"] {
            assert!(is_simple(literal), "{literal}");
        }
        for literal in ["1", "0.05", "1.0", "01.5", ".5", "1.", "1e5", "1.5e3", "1234567890.123456"]
        {
            assert!(!is_simple(literal), "{literal}");
        }
    }
}
