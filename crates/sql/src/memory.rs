//! What a query holds, within its bound: the columns that are kept for everybody give way to it.

use std::fmt::{self, Display, Formatter};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, UInt32Array, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use eval::{MemoryCharge, MemoryTracker};
use warehouse::Loan;

/// The engine's view of the query's account.
#[derive(Debug)]
pub(crate) struct Memory {
    account: MemoryTracker,
    loan: Mutex<Loan>,
}

impl Memory {
    pub(crate) fn new(account: MemoryTracker, loan: Loan) -> Self {
        Self { account, loan: Mutex::new(loan) }
    }

    fn tell(&self) {
        let mut loan = self.loan.lock().unwrap_or_else(PoisonError::into_inner);
        loan.set(self.account.bytes());
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} of {})", self.name(), self.reserved(), self.account.bytes_max())
    }
}

impl MemoryPool for Memory {
    fn name(&self) -> &str {
        "query"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.account.grow(additional);
        self.tell();
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.account.shrink(shrink);
        self.tell();
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        if !self.account.try_grow(additional) {
            return Err(full());
        }
        self.tell();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.account.bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.account.bytes_max())
    }
}

pub(crate) fn full() -> DataFusionError {
    DataFusionError::ResourcesExhausted("the query's account is full".to_owned())
}

/// Smaller buffers are not counted: a batch has some thousand columns at most.
const SMALL_BYTES: usize = 16 * 1024;

/// A buffer with what it was counted as, given back when nobody has it any more.
struct Counted {
    buffer: Buffer,
    _charge: MemoryCharge,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

/// The same values, counted as long as anybody holds them: the engine's operators pass batches on,
/// and several may wait between two of them.
pub(crate) fn counted(array: ArrayRef, account: &MemoryTracker) -> Result<ArrayRef> {
    counted_beside(&[], array, account)
}

/// The same for what was made of `inputs`: a buffer that is one of theirs, or a part of it, takes no
/// memory, and was counted where it was made.
pub(crate) fn counted_beside(
    inputs: &[ArrayRef],
    array: ArrayRef,
    account: &MemoryTracker,
) -> Result<ArrayRef> {
    let data = array.to_data();
    let none = Shared::default();
    if !none.has_new(&data) {
        return Ok(array);
    }
    let mut shared = none;
    inputs.iter().for_each(|input| shared.add(&input.to_data()));
    // To put it together anew checks every value.
    if !shared.has_new(&data) {
        return Ok(array);
    }
    Ok(make_array(counted_data(data, &shared, account)?))
}

/// Where large buffers begin that are counted already.
#[derive(Default)]
struct Shared(Vec<NonNull<u8>>);

impl Shared {
    fn add(&mut self, data: &ArrayData) {
        let large = data.buffers().iter().filter(|buffer| buffer.capacity() > SMALL_BYTES);
        self.0.extend(large.map(Buffer::data_ptr));
        data.child_data().iter().for_each(|child| self.add(child));
    }

    fn is_new(&self, buffer: &Buffer) -> bool {
        buffer.capacity() > SMALL_BYTES && !self.0.contains(&buffer.data_ptr())
    }

    /// Whether there is something to count.
    fn has_new(&self, data: &ArrayData) -> bool {
        data.buffers().iter().any(|buffer| self.is_new(buffer))
            || data.child_data().iter().any(|child| self.has_new(child))
    }
}

fn counted_data(data: ArrayData, shared: &Shared, account: &MemoryTracker) -> Result<ArrayData> {
    let buffer = |buffer: &Buffer| -> Result<Buffer> {
        if !shared.is_new(buffer) {
            return Ok(buffer.clone());
        }
        let mut charge = account.charge();
        if !charge.set(buffer.capacity()) {
            return Err(full());
        }
        let owner = Counted { buffer: buffer.clone(), _charge: charge };
        Ok(Buffer::from(bytes::Bytes::from_owner(owner)))
    };
    let buffers = data.buffers().iter().map(buffer).collect::<Result<Vec<_>>>()?;
    let children = data.child_data().iter().cloned();
    let children =
        children.map(|child| counted_data(child, shared, account)).collect::<Result<_>>()?;
    Ok(data.into_builder().buffers(buffers).child_data(children).build()?)
}

/// What stands at these numbers, if there is room for all copies.
pub(crate) fn taken(
    values: &ArrayRef,
    at: &UInt32Array,
    account: &MemoryTracker,
) -> Result<ArrayRef> {
    let mut room = account.charge();
    if !room.set(bytes_at(values, at)) {
        return Err(full());
    }
    let found = arrow::compute::take(values, at, None)?;
    drop(room);
    counted(found, account)
}

/// Bytes of the texts, or of lists' elements, at these numbers.
fn bytes_at(values: &ArrayRef, at: &UInt32Array) -> usize {
    let sum = |offsets: &[i32], bytes: usize| {
        let length = |at: u32| (offsets[at as usize + 1] - offsets[at as usize]) as usize;
        at.iter().flatten().map(|at| length(at) * bytes).sum()
    };
    match values.data_type() {
        DataType::Utf8 => sum(values.as_string::<i32>().value_offsets(), 1),
        DataType::List(_) => {
            let list = values.as_list::<i32>();
            let elements = list.values().len().max(1);
            sum(list.value_offsets(), list.values().get_array_memory_size() / elements + 1)
        }
        _ => 0,
    }
}

/// Texts of codes, if there is room for all copies.
pub(crate) fn spread(array: &ArrayRef, ty: &DataType, account: &MemoryTracker) -> Result<ArrayRef> {
    let Some(coded) = array.as_any_dictionary_opt() else {
        return Ok(arrow::compute::cast(array, ty)?);
    };
    let keys = arrow::compute::cast(coded.keys(), &DataType::UInt32)?;
    if coded.values().data_type() != ty || coded.values().is_empty() {
        return Ok(arrow::compute::cast(array, ty)?);
    }
    taken(coded.values(), keys.as_primitive(), account)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use eval::QueryMemoryPool;

    use super::*;

    #[test]
    fn a_column_that_is_passed_on_is_counted_once() {
        let account = QueryMemoryPool::new(1 << 30).tracker(1 << 30);
        let made: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8_192));
        let column = counted(made, &account).unwrap();
        let once = account.bytes();
        assert!(once >= 8_192 * 8, "{once}");
        let inputs = [column.slice(0, 8_000)];
        let passed = counted_beside(&inputs, inputs[0].slice(10, 100), &account).unwrap();
        assert_eq!(account.bytes(), once);
        let other: ArrayRef = Arc::new(Int64Array::from_iter_values(1..8_193));
        let other = counted_beside(&inputs, other, &account).unwrap();
        assert!(account.bytes() >= 2 * 8_192 * 8, "what is made anew counts");
        drop((column, other));
        assert_eq!(account.bytes(), once, "somebody still holds a part of it");
        drop((inputs, passed));
        assert_eq!(account.bytes(), 0);
    }
}
