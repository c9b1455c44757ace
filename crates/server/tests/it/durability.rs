//! Crashes, disk faults, corruption, backup, repair, stored formats and upgrades.

pub mod backup;
pub mod dead_letters;
pub mod disk_faults;
pub mod jetstream;
pub mod kill;
pub mod person_checkpoints;
pub mod reference_stream;
pub mod repair;
pub mod segment_files;
pub mod stored_formats;
pub mod upgrades;
