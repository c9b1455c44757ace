//! Statements: SQL whose values are parameters, so that no value is ever part of the text.

use std::fmt::Write as _;
use std::time::Duration;

use uuid::Uuid;

/// SQL and the values of its parameters.
#[derive(Clone, Debug, Default)]
pub struct Statement {
    pub text: String,
    pub parameters: Parameters,
    pub settings: Vec<(&'static str, String)>,
    /// By which [`super::Client::kill`] ends it.
    pub query_id: Option<String>,
    pub timeout: Option<Duration>,
}

impl Statement {
    pub fn new(text: String, parameters: Parameters) -> Self {
        Self { text, parameters, ..Self::default() }
    }
}

impl From<&str> for Statement {
    fn from(text: &str) -> Self {
        Self::new(text.to_owned(), Parameters::default())
    }
}

impl From<String> for Statement {
    fn from(text: String) -> Self {
        Self::new(text, Parameters::default())
    }
}

/// The values of a statement's parameters, named `v0`, `v1` and so on.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub enum Parameter<'a> {
    String(&'a str),
    Int(i64),
    UInt(u64),
    Float(f64),
    Uuid(Uuid),
    /// Microseconds since 1970.
    Timestamp(i64),
    Strings(&'a [&'a str]),
    Ints(&'a [i64]),
    Uuids(&'a [Uuid]),
}

impl Parameters {
    /// The values as ClickHouse reads them.
    pub(crate) fn values(&self) -> &[String] {
        &self.values
    }

    /// Adds a value, and returns what stands for it in the text.
    pub fn add(&mut self, parameter: Parameter<'_>) -> String {
        let no = self.values.len();
        let (value, ty) = match parameter {
            Parameter::String(text) => (escaped(text), "String"),
            Parameter::Int(number) => (number.to_string(), "Int64"),
            Parameter::UInt(number) => (number.to_string(), "UInt64"),
            Parameter::Float(number) => (float(number), "Float64"),
            Parameter::Uuid(uuid) => (uuid.to_string(), "UUID"),
            // As a number: the text of a time would be read in the session's zone.
            Parameter::Timestamp(micros) => {
                self.values.push(micros.to_string());
                return format!("fromUnixTimestamp64Micro({{v{no}:Int64}}, 'UTC')");
            }
            Parameter::Strings(texts) => {
                let quoted = |text: &&str| format!("'{}'", escaped(text));
                (list(texts.iter().map(quoted)), "Array(String)")
            }
            Parameter::Ints(numbers) => {
                (list(numbers.iter().map(ToString::to_string)), "Array(Int64)")
            }
            Parameter::Uuids(uuids) => {
                (list(uuids.iter().map(|uuid| format!("'{uuid}'"))), "Array(UUID)")
            }
        };
        self.values.push(value);
        format!("{{v{no}:{ty}}}")
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn float(number: f64) -> String {
    match number {
        number if number.is_nan() => "nan".to_owned(),
        f64::INFINITY => "inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        number => format!("{number:?}"),
    }
}

/// ClickHouse reads parameters as it reads fields of TSV, and elements of arrays as quoted strings; both
/// know these escapes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push_str("\\0"),
            one if one.is_ascii_control() => {
                // Cannot fail: a string takes everything.
                let _ = write!(out, "\\x{:02x}", u32::from(one));
            }
            one => out.push(one),
        }
    }
    out
}
