//! The longest chain of conditions, each at or after the one before, within a window of the first.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::TimestampMicrosecondType;
use datafusion_common::ScalarValue;

use super::whole::Whole;
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Funnel {
    pub seconds: i64,
}

const MICROS: i64 = 1_000_000;

impl Whole for Funnel {
    fn of(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let times = args[0].as_primitive::<TimestampMicrosecondType>();
        let conditions: Vec<_> = args[1..].iter().map(|arg| arg.as_boolean()).collect();
        let mut met: Vec<(i64, usize)> = Vec::new();
        for row in 0..times.len() {
            let steps = (0..conditions.len()).filter(|step| conditions[*step].value(row));
            met.extend(steps.map(|step| (times.value(row), step)));
        }
        // Steps of one moment in their order: one row may be several of them.
        met.sort_unstable();
        let window = self.seconds.saturating_mul(MICROS);
        // Of the chains that have got to each step, when the latest began.
        let mut begun: Vec<Option<i64>> = vec![None; conditions.len()];
        for (time, step) in met {
            if step == 0 {
                begun[0] = Some(time);
                continue;
            }
            let Some(start) = begun[step - 1] else { continue };
            if time <= start.saturating_add(window) {
                begun[step] = Some(start);
            }
        }
        let level = begun.iter().rposition(Option::is_some).map_or(0, |step| step + 1);
        Ok(ScalarValue::UInt8(Some(u8::try_from(level).unwrap_or(u8::MAX))))
    }
}
