//! The file operations whose failures matter: a trait, so that tests can inject faults.

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::path::Path;

pub(crate) trait Storage: Send + Sync {
    /// Reserves space for `bytes`, so that writes there neither grow the file nor run out of space.
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()>;
    /// May write only a part of the slices.
    fn write(&self, file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    fn sync(&self, file: &File) -> io::Result<()>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

pub(crate) struct Disk;

impl Storage for Disk {
    #[cfg(target_os = "linux")]
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            // Without support by the file system, a write to the segment may run out of space.
            Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes),
            other => Ok(other?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)
    }

    fn write(&self, mut file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        // Readers use positioned reads on the same file, so only the writer moves the file offset.
        file.seek(SeekFrom::Start(offset))?;
        file.write_vectored(slices)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
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
