//! A simulated disk that fails on demand and loses unsynced bytes on a power failure.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use crate::files::storage::{Disk, Storage};
use crate::lock;

const SECTOR_BYTES: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    NoSpace,
    WriteError,
    /// Some bytes are written, then the disk is full.
    ShortThenNoSpace,
    /// Some bytes are written, and the rest on the next call.
    Short,
    /// The sync fails, the data is lost, and the pages look clean afterwards.
    SyncLost,
    /// The sync fails although the data is on disk.
    SyncArrived,
    /// The sync succeeds although the data is lost.
    SyncLies,
    FolderSync,
}

#[derive(Clone, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
    resumed: Arc<Condvar>,
}

#[derive(Default)]
struct State {
    off: bool,
    held: bool,
    faults: VecDeque<Fault>,
    files: HashMap<u64, Image>,
}

/// The durable bytes of a file, and the ranges that are only in the page cache.
#[derive(Default)]
struct Image {
    durable: Vec<u8>,
    dirty: Vec<Range<u64>>,
}

impl FaultyDisk {
    /// Injects the fault into the next operation that it applies to.
    pub fn fail(&self, fault: Fault) {
        lock(&self.state).faults.push_back(fault);
    }

    pub fn pending(&self) -> usize {
        lock(&self.state).faults.len()
    }

    /// From now on nothing reaches the disk.
    pub fn turn_off(&self) {
        let mut state = lock(&self.state);
        state.off = true;
        state.faults.clear();
    }

    pub fn turn_on(&self) {
        lock(&self.state).off = false;
    }

    /// Blocks writes until `resume`.
    pub fn hold(&self) {
        lock(&self.state).held = true;
    }

    pub fn resume(&self) {
        lock(&self.state).held = false;
        self.resumed.notify_all();
    }

    /// After `turn_off`: resets files to what was synced, plus those unsynced sectors for which `keep`
    /// returns true.
    pub fn lose_power(&self, dir: &Path, mut keep: impl FnMut() -> bool) {
        let mut state = lock(&self.state);
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let metadata = file.metadata().unwrap();
            let Some(image) = state.files.get_mut(&metadata.ino()) else { continue };
            for range in std::mem::take(&mut image.dirty) {
                for sector in sectors(range) {
                    if keep() {
                        image.copy(&file, sector);
                    }
                }
            }
            file.write_all_at(&image.durable, 0).unwrap();
        }
    }

    /// Takes the next fault if it applies to this kind of operation.
    fn fault(&self, applies: impl Fn(Fault) -> bool) -> io::Result<Option<Fault>> {
        let mut state = lock(&self.state);
        if state.off {
            return Err(io::Error::other("no power"));
        }
        Ok(state.faults.pop_front_if(|fault| applies(*fault)))
    }
}

fn sectors(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let step = SECTOR_BYTES as u64;
    (range.start / step..range.end.div_ceil(step))
        .map(move |sector| (sector * step).max(range.start)..((sector + 1) * step).min(range.end))
}

impl Image {
    fn copy(&mut self, file: &File, range: Range<u64>) {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        // A truncated file no longer has these bytes.
        if file.read_exact_at(&mut bytes, range.start).is_ok() {
            let end = range.end as usize;
            self.durable.resize(self.durable.len().max(end), 0);
            self.durable[range.start as usize..end].copy_from_slice(&bytes);
        }
    }
}

impl Storage for FaultyDisk {
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        if self.fault(|fault| fault == Fault::NoSpace)?.is_some() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let metadata = file.metadata()?;
        let mut state = lock(&self.state);
        let image = state.files.entry(metadata.ino()).or_default();
        if metadata.len() == 0 {
            *image = Image::default();
        }
        image.durable.resize(image.durable.len().max(bytes as usize), 0);
        Disk.allocate(file, bytes)
    }

    fn write(&self, file: &File, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        drop(self.resumed.wait_while(lock(&self.state), |state| state.held).unwrap());
        let writing = [Fault::WriteError, Fault::Short, Fault::ShortThenNoSpace];
        let fault = self.fault(|fault| writing.contains(&fault))?;
        let first = [IoSlice::new(&slices[0][..slices[0].len().div_ceil(2)])];
        let slices = match fault {
            Some(Fault::WriteError) => return Err(io::Error::other("write failed")),
            Some(Fault::ShortThenNoSpace) => {
                lock(&self.state).faults.push_front(Fault::WriteError);
                &first
            }
            Some(_) => &first,
            None => slices,
        };
        let written = Disk.write(file, slices, offset)?;
        let range = offset..offset + written as u64;
        let ino = file.metadata()?.ino();
        lock(&self.state).files.entry(ino).or_default().dirty.push(range);
        Ok(written)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let syncing = [Fault::SyncLost, Fault::SyncArrived, Fault::SyncLies];
        let fault = self.fault(|fault| syncing.contains(&fault))?;
        let ino = file.metadata()?.ino();
        let mut state = lock(&self.state);
        let image = state.files.entry(ino).or_default();
        let dirty = std::mem::take(&mut image.dirty);
        if !matches!(fault, Some(Fault::SyncLost | Fault::SyncLies)) {
            dirty.into_iter().for_each(|range| image.copy(file, range));
        }
        match fault {
            None | Some(Fault::SyncLies) => Ok(()),
            Some(_) => Err(io::Error::other("sync failed")),
        }
    }

    fn sync_dir(&self, _folder: &Path) -> io::Result<()> {
        match self.fault(|fault| fault == Fault::FolderSync)? {
            Some(_) => Err(io::Error::other("dir sync failed")),
            None => Ok(()),
        }
    }
}
