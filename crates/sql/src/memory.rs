//! TrackedPool tracking of a query: DataFusion's operators and our arrays count against one memory tracker,
//! and what the query holds is borrowed from the column cache.

use std::fmt::{self, Display, Formatter};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, UInt32Array, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use eval::{MemoryCharge, MemoryTracker};
use warehouse::CacheReservation;

/// The query's memory tracker as DataFusion's memory pool.
#[derive(Debug)]
pub(crate) struct TrackedPool {
    memory: MemoryTracker,
    reservation: Mutex<CacheReservation>,
}

impl TrackedPool {
    pub(crate) fn new(memory: MemoryTracker, reservation: CacheReservation) -> Self {
        Self { memory, reservation: Mutex::new(reservation) }
    }

    /// Shrinks the column cache by what the query holds.
    fn update_loan(&self) {
        let mut reservation = self.reservation.lock().unwrap_or_else(PoisonError::into_inner);
        reservation.resize(self.memory.bytes());
    }
}

impl Display for TrackedPool {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} of {})", self.name(), self.reserved(), self.memory.bytes_max())
    }
}

impl MemoryPool for TrackedPool {
    fn name(&self) -> &str {
        "query"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.memory.grow(additional);
        self.update_loan();
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.memory.shrink(shrink);
        self.update_loan();
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        if !self.memory.try_grow(additional) {
            return Err(memory_limit_error());
        }
        self.update_loan();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.memory.bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.memory.bytes_max())
    }
}

pub(crate) fn memory_limit_error() -> DataFusionError {
    DataFusionError::ResourcesExhausted("the query has reached its memory limit".to_owned())
}

/// Smaller buffers are not tracked: a batch has some thousand columns at most.
const SMALL_BYTES: usize = 16 * 1024;

/// A buffer and its charge, which is released with the last reference.
struct TrackedBuffer {
    buffer: Buffer,
    _charge: MemoryCharge,
}

impl AsRef<[u8]> for TrackedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

/// The same values, tracked for as long as they are referenced: operators pass batches on, and
/// several may be queued between two of them.
pub(crate) fn track_array(array: ArrayRef, memory: &MemoryTracker) -> Result<ArrayRef> {
    track_derived_array(&[], array, memory)
}

/// The same for an array computed from `inputs`. Buffers that it shares with them are already
/// tracked, and not charged again.
pub(crate) fn track_derived_array(
    inputs: &[ArrayRef],
    array: ArrayRef,
    memory: &MemoryTracker,
) -> Result<ArrayRef> {
    let data = array.to_data();
    let mut tracked = TrackedBuffers::default();
    if !tracked.has_new(&data) {
        return Ok(array);
    }
    inputs.iter().for_each(|input| tracked.add(&input.to_data()));
    // Rebuilding the array would validate every value.
    if !tracked.has_new(&data) {
        return Ok(array);
    }
    Ok(make_array(track_data(data, &tracked, memory)?))
}

/// Addresses of large buffers that are tracked already.
#[derive(Default)]
struct TrackedBuffers(Vec<NonNull<u8>>);

impl TrackedBuffers {
    fn add(&mut self, data: &ArrayData) {
        let large = data.buffers().iter().filter(|buffer| buffer.capacity() > SMALL_BYTES);
        self.0.extend(large.map(Buffer::data_ptr));
        data.child_data().iter().for_each(|child| self.add(child));
    }

    fn is_new(&self, buffer: &Buffer) -> bool {
        buffer.capacity() > SMALL_BYTES && !self.0.contains(&buffer.data_ptr())
    }

    /// Whether it has a buffer to track.
    fn has_new(&self, data: &ArrayData) -> bool {
        data.buffers().iter().any(|buffer| self.is_new(buffer))
            || data.child_data().iter().any(|child| self.has_new(child))
    }
}

fn track_data(
    data: ArrayData,
    tracked: &TrackedBuffers,
    memory: &MemoryTracker,
) -> Result<ArrayData> {
    let buffer = |buffer: &Buffer| -> Result<Buffer> {
        if !tracked.is_new(buffer) {
            return Ok(buffer.clone());
        }
        let mut charge = memory.charge();
        if !charge.set(buffer.capacity()) {
            return Err(memory_limit_error());
        }
        let owner = TrackedBuffer { buffer: buffer.clone(), _charge: charge };
        Ok(Buffer::from(bytes::Bytes::from_owner(owner)))
    };
    let buffers = data.buffers().iter().map(buffer).collect::<Result<Vec<_>>>()?;
    let children = data.child_data().iter().cloned();
    let children =
        children.map(|child| track_data(child, tracked, memory)).collect::<Result<_>>()?;
    Ok(data.into_builder().buffers(buffers).child_data(children).build()?)
}

/// The values at these indexes, if the memory limit allows for the copies.
pub(crate) fn take_tracked(
    values: &ArrayRef,
    at: &UInt32Array,
    memory: &MemoryTracker,
) -> Result<ArrayRef> {
    let mut reserved = memory.charge();
    if !reserved.set(bytes_at(values, at)) {
        return Err(memory_limit_error());
    }
    let copies = arrow::compute::take(values, at, None)?;
    drop(reserved);
    track_array(copies, memory)
}

/// Bytes of the strings, or of the lists' elements, at these indexes.
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

/// Decodes a dictionary-encoded array, if the memory limit allows for the copies.
pub(crate) fn decode_dictionary(
    array: &ArrayRef,
    ty: &DataType,
    memory: &MemoryTracker,
) -> Result<ArrayRef> {
    let Some(coded) = array.as_any_dictionary_opt() else {
        return Ok(arrow::compute::cast(array, ty)?);
    };
    let keys = arrow::compute::cast(coded.keys(), &DataType::UInt32)?;
    if coded.values().data_type() != ty || coded.values().is_empty() {
        return Ok(arrow::compute::cast(array, ty)?);
    }
    take_tracked(coded.values(), keys.as_primitive(), memory)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use eval::QueryMemoryPool;

    use super::*;

    #[test]
    fn array_that_shares_its_inputs_buffers_is_tracked_once() {
        let memory = QueryMemoryPool::new(1 << 30).tracker(1 << 30);
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8_192));
        let column = track_array(values, &memory).unwrap();
        let once = memory.bytes();
        assert!(once >= 8_192 * 8, "{once}");
        let inputs = [column.slice(0, 8_000)];
        let passed = track_derived_array(&inputs, inputs[0].slice(10, 100), &memory).unwrap();
        assert_eq!(memory.bytes(), once);
        let other: ArrayRef = Arc::new(Int64Array::from_iter_values(1..8_193));
        let other = track_derived_array(&inputs, other, &memory).unwrap();
        assert!(memory.bytes() >= 2 * 8_192 * 8, "new buffers are charged");
        drop((column, other));
        assert_eq!(memory.bytes(), once, "a slice still references the buffer");
        drop((inputs, passed));
        assert_eq!(memory.bytes(), 0);
    }
}
