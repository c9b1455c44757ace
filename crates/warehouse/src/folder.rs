//! The warehouse's folder: the manifest, a lock, and a folder of segments for every project.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::faults::{Faults, Step};
use crate::manifest::{self, Manifest};
use crate::month::Month;
use crate::segment::write::discard;
use crate::{Error, Result};

const LOCK: &str = "lock";
const NEW_MANIFEST: &str = "manifest.new";

#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    faults: Faults,
    /// Held as long as the warehouse is open.
    lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing alone would leave the lock with a child process that is just being started.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "could not unlock the warehouse");
        }
    }
}

impl Folder {
    pub fn open(dir: &Path, faults: Faults) -> Result<Folder> {
        fs::create_dir_all(dir).map_err(Error::io("create the warehouse's folder"))?;
        let lock = File::create(dir.join(LOCK)).map_err(Error::io("create the lock file"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { dir: dir.to_owned(), faults, lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { folder: dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock the warehouse")(error)),
        }
    }

    pub fn step(&self, step: Step) -> Result<()> {
        self.faults.at(step).map_err(Error::io("go on behind an injected fault"))
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    pub fn segment_file(project: ProjectId, month: Month, id: u64) -> String {
        format!("{project}/{month}-{id:012}.parquet")
    }

    pub fn dead_file(segment: &str, id: u64) -> String {
        format!("{}-{id:012}.dead", segment.trim_end_matches(".parquet"))
    }

    pub fn create_project(&self, project: ProjectId) -> Result<()> {
        let path = self.path(&project.to_string());
        if path.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&path).map_err(Error::io("create a project's folder"))?;
        sync_dir(&self.dir)
    }

    pub fn sync_project(&self, project: ProjectId) -> Result<()> {
        sync_dir(&self.path(&project.to_string()))
    }

    /// `None` for a new warehouse.
    pub fn read_manifest(&self) -> Result<Option<Manifest>> {
        let path = self.path(manifest::FILE);
        match fs::read(&path) {
            Ok(bytes) => Manifest::from_bytes(&bytes, &path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read the manifest")(error)),
        }
    }

    /// Puts a manifest beside the one that counts.
    pub fn prepare_manifest(&self, manifest: &Manifest) -> Result<()> {
        let mut file =
            File::create(self.path(NEW_MANIFEST)).map_err(Error::io("create a manifest"))?;
        file.write_all(&manifest.to_bytes()).map_err(Error::io("write the manifest"))?;
        self.step(Step::ManifestWritten)?;
        file.sync_all().map_err(Error::io("sync the manifest"))?;
        self.step(Step::ManifestSynced)
    }

    /// Lets the prepared manifest count. When this fails, the disk may have either.
    pub fn install_manifest(&self) -> Result<()> {
        fs::rename(self.path(NEW_MANIFEST), self.path(manifest::FILE))
            .map_err(Error::io("replace the manifest"))?;
        self.step(Step::ManifestRenamed)?;
        sync_dir(&self.dir)?;
        self.step(Step::ManifestDurable)
    }

    pub fn write_dead(&self, file: &str, dead: &RoaringBitmap) -> Result<()> {
        let path = self.path(file);
        let mut bytes = Vec::with_capacity(dead.serialized_size());
        dead.serialize_into(&mut bytes).map_err(Error::io("list dead rows"))?;
        let mut out = File::create(&path).map_err(Error::io("create a list of dead rows"))?;
        out.write_all(&bytes).map_err(Error::io("write a list of dead rows"))?;
        out.sync_all().map_err(Error::io("sync a list of dead rows"))?;
        self.step(Step::DeadWritten)
    }

    pub fn read_dead(&self, file: &str) -> Result<RoaringBitmap> {
        read_dead(&self.path(file))
    }

    /// Removes whatever a crash left behind: files that no manifest names.
    pub fn remove_orphans(&self, known: &HashSet<&str>) -> Result<u64> {
        let read = |dir: &Path| fs::read_dir(dir).map_err(Error::io("list the warehouse's files"));
        let mut removed = 0;
        for project in read(&self.dir)? {
            let project = project.map_err(Error::io("list the warehouse's files"))?;
            if !project.path().is_dir() {
                continue;
            }
            for file in read(&project.path())? {
                let file = file.map_err(Error::io("list the warehouse's files"))?;
                let name = format!(
                    "{}/{}",
                    project.file_name().to_string_lossy(),
                    file.file_name().to_string_lossy()
                );
                if !known.contains(name.as_str()) && is_ours(&name) {
                    fs::remove_file(file.path()).map_err(Error::io("remove an orphan"))?;
                    removed += 1;
                }
            }
        }
        let _ = fs::remove_file(self.path(NEW_MANIFEST));
        Ok(removed)
    }

    pub fn remove(&self, file: &str) -> Result<()> {
        match fs::remove_file(self.path(file)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove a retired file")(error))
            }
            _ => self.step(Step::RetiredRemoved),
        }
    }
}

pub(crate) fn read_dead(path: &Path) -> Result<RoaringBitmap> {
    let bytes = fs::read(path).map_err(Error::io("read a list of dead rows"))?;
    RoaringBitmap::deserialize_from(&bytes[..]).map_err(|error| Error::corrupt(path, error))
}

/// Files that count for nothing before a manifest names them. Dropped before that, they go.
#[derive(Debug)]
pub(crate) struct Fresh<'a> {
    folder: &'a Folder,
    files: Vec<String>,
}

impl<'a> Fresh<'a> {
    pub fn new(folder: &'a Folder) -> Fresh<'a> {
        Fresh { folder, files: Vec::new() }
    }

    pub fn add(&mut self, file: &str) {
        self.files.push(file.to_owned());
    }

    /// Takes the files over from another.
    pub fn join(&mut self, mut other: Fresh<'a>) {
        self.files.append(&mut other.files);
    }

    /// A manifest may name them now.
    pub fn keep(mut self) -> Vec<String> {
        std::mem::take(&mut self.files)
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        self.files.iter().for_each(|file| discard(&self.folder.path(file)));
    }
}

/// What somebody else put into the folder is left alone.
fn is_ours(name: &str) -> bool {
    [".parquet", ".spill", ".dead"].iter().any(|ending| name.ends_with(ending))
}

fn sync_dir(dir: &Path) -> Result<()> {
    let open = File::open(dir).map_err(Error::io("open a folder"))?;
    open.sync_all().map_err(Error::io("sync a folder"))
}
