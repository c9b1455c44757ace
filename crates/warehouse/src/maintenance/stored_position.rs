//! The durable position of a store, read without opening it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::manifest::{FILE, Manifest};
use crate::{Error, Result};

/// The journal that a store was filled from, and the first position that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPosition {
    pub journal: u128,
    pub position: u64,
}

/// Reads the position from the manifest; `None` without a store. Takes no lock and changes nothing.
pub fn stored_position(dir: &Path) -> Result<Option<StoredPosition>> {
    let path = dir.join(FILE);
    let manifest = match fs::read(&path) {
        Ok(bytes) => Manifest::from_bytes(&bytes, &path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read the manifest")(error)),
    };
    let journal = u128::from_str_radix(&manifest.journal, 16)
        .map_err(|_| Error::corrupt(&path, "its journal id is no number"))?;
    Ok(Some(StoredPosition { journal, position: manifest.position }))
}
