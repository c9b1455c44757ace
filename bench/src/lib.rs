//! What Hedgerow costs, beside references that are measured in the same run.

pub mod asking;
pub mod attacks;
pub mod capture;
pub mod flags;
pub mod load;
pub mod peer;
pub mod pipeline;
pub mod queries;
pub mod reference;
pub mod report;
pub mod running;
pub mod segments;
pub mod starting;
pub mod stores;
