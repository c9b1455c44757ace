//! Keys of groups as numbers.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, RecordBatch, UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion_common::Result;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion_physical_expr::PhysicalExpr;

use crate::aggregates::uniq::EncodedRows;
use crate::lower::codes::Codes;
use crate::lower::global_codes::{GlobalCodes, NULL_CODE};

/// A key column: how it is computed, and how its numbers become values again.
#[derive(Debug)]
pub(crate) struct GroupKey {
    value: Arc<dyn PhysicalExpr>,
    encoding: Encoding,
}

#[derive(Debug)]
enum Encoding {
    /// The column has codes.
    Codes(Codes),
    Strings(Arc<GlobalCodes>),
    /// Integers of at most 32 bits and days, moved to be positive.
    Small(DataType),
    /// Integers of 64 bits, timestamps, and floats by their bits.
    Words(DataType),
    Rows(DataType, Arc<RowCodes>),
}

/// Codes for values of any type.
#[derive(Debug)]
struct RowCodes {
    state: Mutex<EncodedRows>,
    reservation: MemoryReservation,
}

/// The keys of some rows or groups.
#[derive(Clone, Debug)]
pub(super) enum Words {
    /// [`NULL_CODE`] for null.
    Narrow(Vec<u32>),
    Wide(Vec<u64>, Option<NullBuffer>),
}

/// Added to small signed integers.
const OFFSET: i64 = 1 << 31;

impl GroupKey {
    pub(crate) fn coded(codes: Arc<dyn PhysicalExpr>, stand_for: Codes) -> Self {
        Self { value: codes, encoding: Encoding::Codes(stand_for) }
    }

    pub(crate) fn of(
        value: Arc<dyn PhysicalExpr>,
        ty: DataType,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Self> {
        let reservation = || MemoryConsumer::new("codes of keys").register(memory);
        let encoding = match &ty {
            DataType::Utf8 => Encoding::Strings(GlobalCodes::new(reservation())),
            DataType::Boolean
            | DataType::UInt8
            | DataType::UInt16
            | DataType::Int8
            | DataType::Int16
            | DataType::Date32 => Encoding::Small(ty),
            DataType::UInt32
            | DataType::UInt64
            | DataType::Int32
            | DataType::Int64
            | DataType::Float64
            | DataType::Timestamp(..) => Encoding::Words(ty),
            _ => {
                let converter = RowConverter::new(vec![SortField::new(ty.clone())])?;
                let state = Mutex::new(EncodedRows::new(converter));
                Encoding::Rows(ty, Arc::new(RowCodes { state, reservation: reservation() }))
            }
        };
        Ok(Self { value, encoding })
    }

    /// Whether keys are codes from 0 on without large gaps.
    pub(super) fn is_dense(&self) -> bool {
        match &self.encoding {
            Encoding::Codes(_) | Encoding::Strings(_) | Encoding::Rows(..) => true,
            Encoding::Small(ty) => {
                matches!(ty, DataType::Boolean | DataType::UInt8 | DataType::UInt16)
            }
            Encoding::Words(_) => false,
        }
    }

    pub(super) fn is_narrow(&self) -> bool {
        !matches!(self.encoding, Encoding::Words(_))
    }

    pub(super) fn words(&self, batch: &RecordBatch) -> Result<Words> {
        let array = self.value.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(match &self.encoding {
            Encoding::Codes(_) => {
                let codes = array.as_primitive::<UInt32Type>();
                Words::Narrow(match codes.null_count() {
                    0 => codes.values().to_vec(),
                    _ => codes.iter().map(|code| code.unwrap_or(NULL_CODE)).collect(),
                })
            }
            Encoding::Strings(codes) => Words::Narrow(codes.encode(&array)?),
            Encoding::Small(_) => {
                let numbers = cast(&array, &DataType::Int64)?;
                let numbers = numbers.as_primitive::<Int64Type>();
                let code = |number: i64| (number + OFFSET) as u32;
                let code: &dyn Fn(i64) -> u32 = if self.is_dense() { &|n| n as u32 } else { &code };
                Words::Narrow(match numbers.null_count() {
                    0 => numbers.values().iter().map(|number| code(*number)).collect(),
                    _ => numbers.iter().map(|number| number.map_or(NULL_CODE, code)).collect(),
                })
            }
            Encoding::Words(ty) => {
                let signed =
                    matches!(ty, DataType::Int32 | DataType::Int64 | DataType::Timestamp(..));
                let words = match signed {
                    _ if *ty == DataType::Float64 => {
                        let numbers = array.as_primitive::<Float64Type>().values();
                        numbers.iter().map(|number| number.to_bits()).collect()
                    }
                    true => {
                        let numbers = cast(&array, &DataType::Int64)?;
                        let numbers = numbers.as_primitive::<Int64Type>().values();
                        numbers.iter().map(|number| *number as u64).collect()
                    }
                    false => cast(&array, &DataType::UInt64)?
                        .as_primitive::<UInt64Type>()
                        .values()
                        .to_vec(),
                };
                Words::Wide(words, array.logical_nulls().filter(|nulls| nulls.null_count() > 0))
            }
            Encoding::Rows(_, codes) => {
                let mut state = codes.state.lock().unwrap_or_else(PoisonError::into_inner);
                let rows = state.codes(&[array])?;
                codes.reservation.try_resize(state.bytes())?;
                Words::Narrow(rows)
            }
        })
    }

    /// The values that the keys stand for.
    pub(super) fn values(&self, words: &Words) -> Result<ArrayRef> {
        Ok(match (&self.encoding, words) {
            (Encoding::Codes(codes), words) => codes.decode(&words.codes())?,
            (Encoding::Strings(codes), words) => Arc::new(codes.decode(&words.codes())),
            (Encoding::Small(DataType::Boolean), words) => {
                let codes = words.codes();
                Arc::new(codes.iter().map(|code| Some(code? == 1)).collect::<BooleanArray>())
            }
            (Encoding::Small(ty), words) => {
                let offset = if self.is_dense() { 0 } else { OFFSET };
                let codes = words.codes();
                let number = |code: Option<u32>| Some((i64::from(code?) - offset) as i32);
                let numbers: PrimitiveArray<arrow::datatypes::Int32Type> =
                    codes.iter().map(number).collect();
                cast(&numbers, ty)?
            }
            (Encoding::Words(ty), Words::Wide(words, nulls)) => {
                let numbers = UInt64Array::new(words.clone().into(), nulls.clone());
                let data = numbers.to_data().into_builder();
                let ty64 = match ty {
                    DataType::Int32 | DataType::Int64 => DataType::Int64,
                    DataType::Timestamp(..) | DataType::Float64 => ty.clone(),
                    _ => DataType::UInt64,
                };
                let numbers = arrow::array::make_array(data.data_type(ty64).build()?);
                cast(&numbers, ty)?
            }
            (Encoding::Words(ty), Words::Narrow(codes)) => {
                arrow::array::new_null_array(ty, codes.len())
            }
            (Encoding::Rows(ty, codes), words) => {
                let state = codes.state.lock().unwrap_or_else(PoisonError::into_inner);
                match words.codes() {
                    codes if codes.is_empty() => arrow::array::new_empty_array(ty),
                    codes => state.values(codes.values())?,
                }
            }
        })
    }
}

impl Words {
    pub(super) fn take(&self, rows: &UInt32Array) -> Self {
        let rows = rows.values().iter().map(|row| *row as usize);
        match self {
            Self::Narrow(codes) => Self::Narrow(rows.map(|row| codes[row]).collect()),
            Self::Wide(words, nulls) => {
                let valid = nulls.as_ref().map(|nulls| {
                    NullBuffer::from_iter(rows.clone().map(|row| nulls.is_valid(row)))
                });
                Self::Wide(rows.map(|row| words[row]).collect(), valid)
            }
        }
    }

    fn codes(&self) -> UInt32Array {
        match self {
            Self::Narrow(codes) => {
                codes.iter().map(|code| (*code != NULL_CODE).then_some(*code)).collect()
            }
            Self::Wide(words, _) => UInt32Array::new_null(words.len()),
        }
    }
}
