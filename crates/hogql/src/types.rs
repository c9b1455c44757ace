//! Types of values, named as in ClickHouse.

use std::fmt;

use model::definition::PropertyOwner;

use crate::ast::{TypeArg, TypeName, Unit};
use crate::error::{Checked, Fault};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    pub kind: Kind,
    /// Never set for arrays, tuples and maps, which are empty instead of null.
    pub nullable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The type of the literal `NULL`; compatible with every type.
    Null,
    Bool,
    /// Width in bits: 8, 16, 32 or 64.
    UInt(u8),
    Int(u8),
    Float,
    /// Scale: digits after the decimal point.
    Decimal(u8),
    String,
    /// A string with a JSON object of properties, and their owner if known.
    Json(Option<PropertyOwner>),
    Uuid,
    Date,
    DateTime(DateTimeType),
    Interval(Unit),
    Array(Box<Type>),
    Tuple(Vec<Type>),
    Map(Box<(Type, Type)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateTimeType {
    /// Fractional digits of a second.
    pub precision: u8,
    /// None means the project's time zone.
    pub zone: Option<String>,
}

impl Kind {
    pub const DATE_TIME: Self = Self::DateTime(DateTimeType { precision: 0, zone: None });
    /// The type of stored timestamps.
    pub const TIMESTAMP: Self = Self::DateTime(DateTimeType { precision: 6, zone: None });

    pub const fn is_number(&self) -> bool {
        matches!(self, Self::Float | Self::Decimal(_)) || self.is_integer()
    }

    pub const fn is_integer(&self) -> bool {
        matches!(self, Self::Bool | Self::UInt(_) | Self::Int(_))
    }

    pub const fn is_string(&self) -> bool {
        matches!(self, Self::String | Self::Json(_))
    }

    pub const fn is_time(&self) -> bool {
        matches!(self, Self::Date | Self::DateTime(_))
    }

    const fn may_be_null(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Tuple(_) | Self::Map(_))
    }
}

impl From<Kind> for Type {
    fn from(kind: Kind) -> Self {
        let nullable = kind == Kind::Null;
        Self { kind, nullable }
    }
}

impl Type {
    pub fn or_null(self, nullable: bool) -> Self {
        let nullable = (self.nullable || nullable) && self.kind.may_be_null();
        Self { nullable, ..self }
    }

    pub fn array(element: Self) -> Self {
        Kind::Array(Box::new(element)).into()
    }

    pub fn element(&self) -> Option<&Self> {
        match &self.kind {
            Kind::Array(element) => Some(element),
            _ => None,
        }
    }

    /// The common type of both, which can represent the values of either.
    pub fn common(&self, other: &Self) -> Option<Self> {
        let kind = match (&self.kind, &other.kind) {
            (Kind::Null, kind) | (kind, Kind::Null) => {
                let nullable = self.nullable || other.nullable;
                return Some(Self { kind: kind.clone(), nullable: false }.or_null(nullable));
            }
            (a, b) if a == b => a.clone(),
            (a, b) if a.is_string() && b.is_string() => Kind::String,
            (a, b) if a.is_number() && b.is_number() => common_number(a, b),
            (Kind::Date, Kind::DateTime(moment)) | (Kind::DateTime(moment), Kind::Date) => {
                Kind::DateTime(moment.clone())
            }
            (Kind::DateTime(a), Kind::DateTime(b)) => {
                let zone = if a.zone == b.zone { a.zone.clone() } else { None };
                Kind::DateTime(DateTimeType { precision: a.precision.max(b.precision), zone })
            }
            (Kind::Array(a), Kind::Array(b)) => Kind::Array(Box::new(a.common(b)?)),
            (Kind::Tuple(a), Kind::Tuple(b)) if a.len() == b.len() => {
                Kind::Tuple(a.iter().zip(b).map(|(a, b)| a.common(b)).collect::<Option<_>>()?)
            }
            (Kind::Map(a), Kind::Map(b)) => {
                Kind::Map(Box::new((a.0.common(&b.0)?, a.1.common(&b.1)?)))
            }
            _ => return None,
        };
        Some(Self::from(kind).or_null(self.nullable || other.nullable))
    }

    /// Whether a cast exists; it may still fail for some values at run time.
    pub fn casts_to(&self, to: &Self) -> bool {
        let scalar = |kind: &Kind| kind.may_be_null() && !matches!(kind, Kind::Interval(_));
        match (&self.kind, &to.kind) {
            (Kind::Null, _) | (_, Kind::String) => true,
            (from, to) if from.is_string() => scalar(to) || matches!(to, Kind::Array(_)),
            (Kind::Array(from), Kind::Array(to)) => from.casts_to(to),
            (Kind::Tuple(from), Kind::Tuple(to)) => {
                from.len() == to.len() && from.iter().zip(to).all(|(from, to)| from.casts_to(to))
            }
            (Kind::Map(from), Kind::Map(to)) => from.0.casts_to(&to.0) && from.1.casts_to(&to.1),
            (from, to) => {
                let numeric = |kind: &Kind| kind.is_number() || kind.is_time();
                numeric(from) && numeric(to) || from == to
            }
        }
    }

    /// The name in results, for a project in `zone`.
    pub fn name(&self, zone: &str) -> String {
        let name = match &self.kind {
            Kind::Null => "Nothing".to_owned(),
            Kind::Bool => "Bool".to_owned(),
            Kind::UInt(bits) => format!("UInt{bits}"),
            Kind::Int(bits) => format!("Int{bits}"),
            Kind::Float => "Float64".to_owned(),
            Kind::Decimal(scale) => format!("Decimal(38, {scale})"),
            Kind::String | Kind::Json(_) => "String".to_owned(),
            Kind::Uuid => "UUID".to_owned(),
            Kind::Date => "Date".to_owned(),
            Kind::DateTime(DateTimeType { precision: 0, zone: None }) => "DateTime".to_owned(),
            Kind::DateTime(DateTimeType { precision: 0, zone: Some(type_zone) }) => {
                format!("DateTime('{type_zone}')")
            }
            Kind::DateTime(DateTimeType { precision, zone: type_zone }) => {
                format!("DateTime64({precision}, '{}')", type_zone.as_deref().unwrap_or(zone))
            }
            Kind::Interval(unit) => {
                let unit = unit.as_str();
                format!("Interval{}{}", unit[..1].to_ascii_uppercase(), &unit[1..])
            }
            Kind::Array(element) => format!("Array({})", element.name(zone)),
            Kind::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| item.name(zone)).collect();
                format!("Tuple({})", items.join(", "))
            }
            Kind::Map(pair) => format!("Map({}, {})", pair.0.name(zone), pair.1.name(zone)),
        };
        if self.nullable { format!("Nullable({name})") } else { name }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name("project"))
    }
}

fn common_number(a: &Kind, b: &Kind) -> Kind {
    match (a, b) {
        (Kind::Float, _) | (_, Kind::Float) => Kind::Float,
        (Kind::Decimal(a), Kind::Decimal(b)) => Kind::Decimal(*a.max(b)),
        (Kind::Decimal(scale), _) | (_, Kind::Decimal(scale)) => Kind::Decimal(*scale),
        _ => {
            let ((signed_a, a), (signed_b, b)) = (bits(a), bits(b));
            if signed_a == signed_b {
                return integer(signed_a, a.max(b));
            }
            let (signed, unsigned) = if signed_a { (a, b) } else { (b, a) };
            integer(true, signed.max(unsigned * 2))
        }
    }
}

/// Signedness and width of an integer kind; Bool counts as `UInt8`.
pub(crate) const fn bits(kind: &Kind) -> (bool, u8) {
    match kind {
        Kind::Int(bits) => (true, *bits),
        Kind::UInt(bits) => (false, *bits),
        _ => (false, 8),
    }
}

pub(crate) fn integer(signed: bool, bits: u8) -> Kind {
    let bits = bits.min(64);
    if signed { Kind::Int(bits) } else { Kind::UInt(bits) }
}

/// The type with the name that a cast gives.
pub(crate) fn named(name: &TypeName) -> Checked<Type> {
    let span = name.name.span;
    let text = name.name.text.as_str();
    let plain = |kind: Kind| {
        if name.args.is_empty() {
            Ok(Type::from(kind))
        } else {
            Err(Fault::invalid(format!("The type {text} takes no arguments"), span))
        }
    };
    let bad = || Fault::invalid(format!("Bad arguments for the type {text}"), span);
    match text.to_ascii_lowercase().as_str() {
        "string" | "text" | "varchar" => plain(Kind::String),
        "bool" | "boolean" => plain(Kind::Bool),
        "float" | "float64" | "float32" | "double" => plain(Kind::Float),
        "int" | "integer" | "bigint" | "int64" => plain(Kind::Int(64)),
        "int8" => plain(Kind::Int(8)),
        "int16" => plain(Kind::Int(16)),
        "int32" => plain(Kind::Int(32)),
        "uint8" => plain(Kind::UInt(8)),
        "uint16" => plain(Kind::UInt(16)),
        "uint32" => plain(Kind::UInt(32)),
        "uint64" => plain(Kind::UInt(64)),
        "uuid" => plain(Kind::Uuid),
        "date" => plain(Kind::Date),
        "datetime" | "timestamp" => match &name.args[..] {
            [] => Ok(Kind::DATE_TIME.into()),
            [TypeArg::String(zone)] => date_time(0, Some(zone)).ok_or_else(bad),
            _ => Err(bad()),
        },
        "datetime64" => match &name.args[..] {
            [TypeArg::Int(precision)] => date_time(*precision, None).ok_or_else(bad),
            [TypeArg::Int(precision), TypeArg::String(zone)] => {
                date_time(*precision, Some(zone)).ok_or_else(bad)
            }
            _ => Err(bad()),
        },
        "decimal" => match name.args[..] {
            [TypeArg::Int(digits), TypeArg::Int(scale)] if digits <= 38 && scale <= digits => {
                Ok(Kind::Decimal(scale as u8).into())
            }
            _ => Err(bad()),
        },
        // How values are stored does not concern their type.
        "lowcardinality" => match &name.args[..] {
            [TypeArg::Type(inner)] => named(inner),
            _ => Err(bad()),
        },
        "nullable" => match &name.args[..] {
            [TypeArg::Type(inner)] => Ok(named(inner)?.or_null(true)),
            _ => Err(bad()),
        },
        "array" => match &name.args[..] {
            [TypeArg::Type(element)] => Ok(Type::array(named(element)?)),
            _ => Err(bad()),
        },
        "tuple" => {
            let items = name.args.iter().map(|arg| match arg {
                TypeArg::Type(item) => named(item),
                TypeArg::Int(_) | TypeArg::String(_) => Err(bad()),
            });
            Ok(Kind::Tuple(items.collect::<Checked<_>>()?).into())
        }
        "map" => match &name.args[..] {
            [TypeArg::Type(key), TypeArg::Type(value)] => {
                Ok(Kind::Map(Box::new((named(key)?, named(value)?))).into())
            }
            _ => Err(bad()),
        },
        _ => Err(Fault::invalid(format!("Unknown type '{text}'"), span)),
    }
}

pub(crate) fn date_time(precision: u64, zone: Option<&str>) -> Option<Type> {
    let known = zone.is_none_or(model::is_time_zone);
    (precision <= 9 && known).then(|| {
        let moment = DateTimeType { precision: precision as u8, zone: zone.map(str::to_owned) };
        Kind::DateTime(moment).into()
    })
}
