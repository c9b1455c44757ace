//! Tuples and arrays of numbers as vectors.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array};
use hogql::types::{Kind, Type};
use std::sync::Arc;

use super::{CallSite, CompiledCall, call};
use crate::error::{Error, Result};
use crate::limits::meter;
use crate::vector::column::Args;
use crate::vector::types::wide_struct;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let pairwise: fn(f64, f64) -> f64 = match site.name {
        "tuplePlus" => |a, b| a + b,
        "tupleMinus" => |a, b| a - b,
        "tupleMultiply" | "tupleMultiplyByNumber" => |a, b| a * b,
        "tupleDivide" | "tupleDivideByNumber" => |a, b| a / b,
        "tupleNegate" => |a, _| -a,
        "tupleHammingDistance" => return hamming(site).map(Some),
        _ => match norm(site.name) {
            Some(norm) if site.name.ends_with("ormalize") => {
                return normalized(site, norm).map(Some);
            }
            Some(norm) => return distance(site, norm).map(Some),
            None => return Ok(None),
        },
    };
    let items = floats(site)?;
    Ok(Some(call(move |args| {
        let width = items.len();
        let sides = (0..args.columns.len()).map(|no| Vector::of(args, no));
        let sides = sides.collect::<Vec<_>>();
        let column = |at: usize| -> ArrayRef {
            let value = |row| {
                let a = sides[0].at(row, at);
                // A number goes with every element.
                pairwise(a, sides.get(1).map_or(0.0, |side| side.at(row, at)))
            };
            Arc::new((0..args.rows).map(value).collect::<Float64Array>())
        };
        wide_struct(&items, (0..width).map(column).collect(), args.rows)
    })))
}

/// Casts all arguments to floats; the types of the result's items if it is a tuple.
fn floats(site: &mut CallSite) -> Result<Vec<Type>> {
    for no in 0..site.args.len() {
        let kind = match site.kind(no) {
            Kind::Array(element) => {
                Type::array(Type { kind: Kind::Float, nullable: element.nullable }).kind
            }
            Kind::Tuple(items) => {
                let float = |item: &Type| Type { kind: Kind::Float, nullable: item.nullable };
                Kind::Tuple(items.iter().map(float).collect())
            }
            _ => Kind::Float,
        };
        site.cast(no, &kind)?;
    }
    Ok(match &site.ty.kind {
        Kind::Tuple(items) => items.clone(),
        _ => Vec::new(),
    })
}

/// One argument's numbers by row. Null counts as 0.
enum Vector<'a> {
    Array { args: &'a Args<'a>, no: usize },
    Tuple { args: &'a Args<'a>, no: usize },
    Number { args: &'a Args<'a>, no: usize },
}

impl<'a> Vector<'a> {
    fn of(args: &'a Args<'a>, no: usize) -> Self {
        match args.columns[no].array.data_type() {
            arrow_schema::DataType::List(_) => Self::Array { args, no },
            arrow_schema::DataType::Struct(_) => Self::Tuple { args, no },
            _ => Self::Number { args, no },
        }
    }

    fn len(&self, row: usize) -> usize {
        match self {
            Self::Array { args, no } => args.lists(*no).at(row).len(),
            Self::Tuple { args, no } => args.columns[*no].array.as_struct().num_columns(),
            Self::Number { .. } => 1,
        }
    }

    fn at(&self, row: usize, at: usize) -> f64 {
        let (values, index) = match self {
            Self::Array { args, no } => {
                let lists = args.lists(*no);
                (lists.values, lists.at(row).start + at)
            }
            Self::Tuple { args, no } => {
                (args.columns[*no].array.as_struct().column(at), args.row_of(*no, row))
            }
            Self::Number { args, no } => (&args.columns[*no].array, args.row_of(*no, row)),
        };
        if values.is_null(index) { 0.0 } else { values.as_primitive::<Float64Type>().value(index) }
    }
}

#[derive(Clone, Copy)]
enum Norm {
    Sum,
    Root,
    Squared,
    Greatest,
    /// The last argument is the power.
    Power,
    Dot,
    Cosine,
}

fn norm(name: &str) -> Option<Norm> {
    Some(match name {
        "L1Norm" | "L1Distance" | "L1Normalize" => Norm::Sum,
        "L2Norm" | "L2Distance" | "L2Normalize" => Norm::Root,
        "L2SquaredDistance" => Norm::Squared,
        "LinfNorm" | "LinfDistance" | "LinfNormalize" => Norm::Greatest,
        "LpNorm" | "LpDistance" | "LpNormalize" => Norm::Power,
        "dotProduct" => Norm::Dot,
        "cosineDistance" => Norm::Cosine,
        _ => return None,
    })
}

fn length(norm: Norm, power: f64, values: impl Iterator<Item = f64>) -> f64 {
    match norm {
        Norm::Sum => values.map(f64::abs).sum(),
        Norm::Root => values.map(|value| value * value).sum::<f64>().sqrt(),
        Norm::Greatest => values.map(f64::abs).fold(0.0, f64::max),
        Norm::Power => values.map(|value| value.abs().powf(power)).sum::<f64>().powf(1.0 / power),
        Norm::Squared | Norm::Dot | Norm::Cosine => values.map(|value| value * value).sum(),
    }
}

fn distance(site: &mut CallSite, norm: Norm) -> Result<CompiledCall> {
    let (name, span) = (site.name, site.span);
    floats(site)?;
    Ok(call(move |args| {
        let vectors = args.columns.len() - usize::from(matches!(norm, Norm::Power));
        let a = Vector::of(args, 0);
        let b = (vectors > 1).then(|| Vector::of(args, 1));
        let power = |row: usize| match norm {
            Norm::Power => args.floats(vectors).at(row),
            _ => 0.0,
        };
        let mut failed = Ok(());
        let result = args.map_floats(|row| {
            if failed.is_err() {
                return 0.0;
            }
            let count = a.len(row);
            if let Err(error) = meter::work(count) {
                failed = Err(error);
            }
            if power(row).is_nan() || (matches!(norm, Norm::Power) && power(row) < 1.0) {
                failed = Err(Error::invalid(format!("{name} takes a power of at least 1"), span));
            }
            let Some(b) = &b else {
                return length(norm, power(row), (0..count).map(|at| a.at(row, at)));
            };
            if b.len(row) != count {
                failed = Err(Error::invalid("The arrays have different lengths", span));
                return 0.0;
            }
            let dot = || (0..count).map(|at| a.at(row, at) * b.at(row, at)).sum::<f64>();
            match norm {
                Norm::Dot => dot(),
                Norm::Cosine => {
                    let of = |side: &Vector| {
                        length(Norm::Root, 0.0, (0..count).map(|at| side.at(row, at)))
                    };
                    1.0 - dot() / (of(&a) * of(b))
                }
                _ => length(norm, power(row), (0..count).map(|at| a.at(row, at) - b.at(row, at))),
            }
        });
        failed.map(|()| result)
    })
    .fallible())
}

fn normalized(site: &mut CallSite, norm: Norm) -> Result<CompiledCall> {
    let items = floats(site)?;
    Ok(call(move |args| {
        let a = Vector::of(args, 0);
        let power = |row: usize| match norm {
            Norm::Power => args.floats(1).at(row),
            _ => 0.0,
        };
        let size = |row: usize| length(norm, power(row), (0..a.len(row)).map(|at| a.at(row, at)));
        let sizes: Vec<f64> = (0..args.rows).map(size).collect();
        let column = |at: usize| -> ArrayRef {
            let values = (0..args.rows).map(|row| a.at(row, at) / sizes[row]);
            Arc::new(values.collect::<Float64Array>())
        };
        wide_struct(&items, (0..items.len()).map(column).collect(), args.rows)
    }))
}

/// How many items of two tuples differ.
fn hamming(site: &mut CallSite) -> Result<CompiledCall> {
    use crate::vector::keys::Keys;
    let Some(common) = site.args[0].ty.common(&site.args[1].ty) else {
        return Err(site.invalid("tupleHammingDistance takes two tuples of the same types"));
    };
    site.cast_all(&common.kind)?;
    let Kind::Tuple(items) = common.kind else { return Err(site.invalid("Expected tuples")) };
    Ok(call(move |args| {
        let columns = |no: usize| args.columns[no].array.as_struct().columns();
        let pairs = items.iter().zip(columns(0)).zip(columns(1));
        let keys: Vec<(Keys, Keys)> =
            pairs.map(|((ty, a), b)| (Keys::new(&ty.kind, a), Keys::new(&ty.kind, b))).collect();
        Ok(args.map_ints(|row| {
            let differs =
                |(a, b): &&(Keys, Keys)| a.at(args.row_of(0, row)) != b.at(args.row_of(1, row));
            keys.iter().filter(differs).count() as i64
        }))
    }))
}
