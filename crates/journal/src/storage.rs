//! The file operations that can fail and matter. A seam only so that tests can make them fail.

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::path::Path;

pub(crate) trait Storage: Send + Sync {
    /// Makes sure of space for `bytes`, so that writing there neither grows the file nor runs out.
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()>;
    /// May write less than it was given.
    fn write(&self, file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    fn sync(&self, file: &File) -> io::Result<()>;
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

pub(crate) struct Disk;

impl Storage for Disk {
    #[cfg(target_os = "linux")]
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            // Some file systems cannot; there a segment may run out of space while written.
            Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes),
            other => Ok(other?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)
    }

    fn write(&self, mut file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        // Readers use positioned reads on the same file, so the cursor is the writer's alone.
        file.seek(SeekFrom::Start(offset))?;
        file.write_vectored(slices)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

pub(crate) fn write_all(
    storage: &dyn Storage,
    file: &File,
    mut slices: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match storage.write(file, slices, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut slices, written);
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
