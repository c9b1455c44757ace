//! A segment together with its dead rows.

use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::segment::Segment;

#[derive(Clone, Debug)]
pub(crate) struct LiveSegment {
    pub segment: Arc<Segment>,
    /// Rows that were deleted or replaced.
    pub dead: Arc<RoaringBitmap>,
}
