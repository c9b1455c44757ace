//! What only files do: segments, recovery, salvage.

mod appending;
mod killing;
mod reading;
mod recovery;
mod releasing;
mod salvaging;
