//! Fault injection: named points at which tests make the warehouse crash or its disk fail.

use std::fmt;
use std::io;
use std::sync::Arc;

macro_rules! steps {
    ($($(#[$doc:meta])* $step:ident),+ $(,)?) => {
        /// A point between two durable steps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FaultPoint {
            $($(#[$doc])* $step),+
        }

        impl FaultPoint {
            pub const ALL: &'static [FaultPoint] = &[$(FaultPoint::$step),+];
        }
    };
}

steps! {
    /// All columns are in the spill file.
    SegmentSpilled,
    /// The segment is complete, but not synced.
    SegmentWritten,
    SegmentSynced,
    /// All new segments are durable; the manifest does not name them yet.
    FlushMerged,
    /// The new segments are durable; the manifest still names the old ones.
    CompactMerged,
    /// A `.dead` file is durable; the manifest does not name it yet.
    DeadWritten,
    /// The new manifest is written next to the old one.
    ManifestWritten,
    ManifestSynced,
    /// The new manifest is renamed into place; its directory is not synced yet.
    ManifestRenamed,
    /// The edit is durable; readers still see the old state.
    ManifestDurable,
    /// A retired file is removed; the manifest still lists it.
    RetiredRemoved,
}

/// A hook that runs at every fault point. An error simulates a failing disk.
#[derive(Clone, Default)]
pub struct FaultInjector(Option<Arc<dyn Fn(FaultPoint) -> io::Result<()> + Send + Sync>>);

impl FaultInjector {
    pub fn new(at: impl Fn(FaultPoint) -> io::Result<()> + Send + Sync + 'static) -> FaultInjector {
        FaultInjector(Some(Arc::new(at)))
    }

    pub(crate) fn at(&self, step: FaultPoint) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |at| at(step))
    }
}

impl fmt::Debug for FaultInjector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "FaultInjector(set)" } else { "FaultInjector(none)" })
    }
}
