//! `windowFunnel`: the longest chain of conditions, each at or after the one before, within a window
//! that starts with the first.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use datafusion_common::ScalarValue;

use super::group_function::GroupFunction;
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Funnel {
    pub seconds: i64,
}

const MICROS: i64 = 1_000_000;

impl GroupFunction for Funnel {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let times = args[0].as_primitive::<TimestampMicrosecondType>();
        let conditions: Vec<_> = args[1..].iter().map(|arg| arg.as_boolean()).collect();
        let mut hits: Vec<(i64, usize)> = Vec::new();
        for row in 0..times.len() {
            let steps = (0..conditions.len()).filter(|step| conditions[*step].value(row));
            hits.extend(steps.map(|step| (times.value(row), step)));
        }
        // Equal timestamps are sorted by step: one row may match several steps.
        hits.sort_unstable();
        let window = self.seconds.saturating_mul(MICROS);
        // For each step, the start of the latest chain that has reached it.
        let mut starts: Vec<Option<i64>> = vec![None; conditions.len()];
        for (time, step) in hits {
            if step == 0 {
                starts[0] = Some(time);
                continue;
            }
            let Some(start) = starts[step - 1] else { continue };
            if time <= start.saturating_add(window) {
                starts[step] = Some(start);
            }
        }
        let level = starts.iter().rposition(Option::is_some).map_or(0, |step| step + 1);
        Ok(ScalarValue::UInt8(Some(u8::try_from(level).unwrap_or(u8::MAX))))
    }
}
