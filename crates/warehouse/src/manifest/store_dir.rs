//! The store's directory: the manifest, a lock, and a directory of segments for each project.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use model::{ProjectId, Timestamp};
use roaring::RoaringBitmap;

use crate::faults::{FaultInjector, FaultPoint};
use crate::manifest::Partition;
use crate::manifest::{self, Manifest, SegmentEntry};
use crate::{Error, Result};

const LOCK: &str = "lock";
/// The last bytes of every Parquet file.
const PARQUET_MAGIC: [u8; 4] = *b"PAR1";
const NEW_MANIFEST: &str = "manifest.new";

/// The directory for complete files that the manifest does not name.
pub(crate) const UNLISTED: &str = "unlisted";
const KEPT_SUFFIX: &str = ".kept";
/// How long they stay, in case an operator restored a wrong manifest.
const UNLISTED_KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bound of their size: a process in a crash loop must not fill the disk.
const UNLISTED_BYTES_MAX: u64 = 1 << 30;

/// When each segment was scrubbed, by segment id. A hint, so that a restart does not start over.
pub(crate) const SCRUB_TIMES_FILE: &str = "scrubbed";

/// Minimum number of digits of a file's id.
const ID_DIGITS: usize = 12;

#[derive(Debug)]
pub(crate) struct StoreDir {
    dir: PathBuf,
    faults: FaultInjector,
    /// Held while the warehouse is open.
    lock: File,
}

impl Drop for StoreDir {
    fn drop(&mut self) {
        // A child process forked just now may have inherited the descriptor: closing is not enough.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "could not unlock the warehouse");
        }
    }
}

impl StoreDir {
    pub fn open(dir: &Path, faults: FaultInjector) -> Result<StoreDir> {
        fs::create_dir_all(dir).map_err(Error::io("create the warehouse's directory"))?;
        let lock = File::create(dir.join(LOCK)).map_err(Error::io("create the lock file"))?;
        match lock.try_lock() {
            Ok(()) => Ok(StoreDir { dir: dir.to_owned(), faults, lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock the warehouse")(error)),
        }
    }

    pub fn step(&self, step: FaultPoint) -> Result<()> {
        self.faults.at(step).map_err(Error::io("pass an injected fault"))
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    pub fn segment_file(project: ProjectId, partition: Partition, id: u64) -> String {
        format!("{project}/{partition}-{id:012}.parquet")
    }

    pub fn dead_file(segment: &str, id: u64) -> String {
        format!("{}-{id:012}.dead", segment.trim_end_matches(".parquet"))
    }

    pub fn create_project(&self, project: ProjectId) -> Result<()> {
        let path = self.path(&project.to_string());
        if path.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&path).map_err(Error::io("create a project's directory"))?;
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

    /// Writes and syncs a new manifest next to the current one.
    pub fn prepare_manifest(&self, manifest: &Manifest) -> Result<()> {
        let mut file =
            File::create(self.path(NEW_MANIFEST)).map_err(Error::io("create a manifest"))?;
        file.write_all(&manifest.to_bytes()).map_err(Error::io("write the manifest"))?;
        self.step(FaultPoint::ManifestWritten)?;
        file.sync_all().map_err(Error::io("sync the manifest"))?;
        self.step(FaultPoint::ManifestSynced)
    }

    /// Renames the prepared manifest into place: the commit. If this fails, the disk may have either.
    pub fn install_manifest(&self) -> Result<()> {
        fs::rename(self.path(NEW_MANIFEST), self.path(manifest::FILE))
            .map_err(Error::io("replace the manifest"))?;
        self.step(FaultPoint::ManifestRenamed)?;
        sync_dir(&self.dir)?;
        self.step(FaultPoint::ManifestDurable)
    }

    /// Writes a segment's dead rows; returns the checksum of the file.
    pub fn write_dead(&self, file: &str, dead: &RoaringBitmap) -> Result<u32> {
        let path = self.path(file);
        let mut bytes = Vec::with_capacity(dead.serialized_size());
        dead.serialize_into(&mut bytes).map_err(Error::io("list dead rows"))?;
        let mut out = File::create(&path).map_err(Error::io("create a list of dead rows"))?;
        out.write_all(&bytes).map_err(Error::io("write a list of dead rows"))?;
        out.sync_all().map_err(Error::io("sync a list of dead rows"))?;
        self.step(FaultPoint::DeadWritten)?;
        Ok(crc32c::crc32c(&bytes))
    }

    /// Refuses a directory that has files but no manifest.
    pub fn check_empty(&self) -> Result<()> {
        let is_ours = |name: &std::ffi::OsStr| {
            [LOCK, NEW_MANIFEST, SCRUB_TIMES_FILE].iter().any(|known| name == *known)
        };
        for entry in entries(&self.dir)? {
            let below = if entry.path().is_dir() { entries(&entry.path())? } else { Vec::new() };
            let file = (!entry.path().is_dir() && !is_ours(&entry.file_name())).then_some(entry);
            if let Some(found) = file.or(below.into_iter().next()) {
                return Err(Error::NoManifest { dir: self.dir.clone(), found: found.path() });
            }
        }
        Ok(())
    }

    /// Cleans up after a crash: handles files that match this code's name patterns but that the
    /// manifest does not name. Removes spill files and truncated segments. Moves complete segments to
    /// `unlisted`, since a restored older manifest does not name them either. Ignores other files.
    pub fn quarantine_orphans(&self, known: &HashSet<&str>, now: Timestamp) -> Result<u64> {
        let mut handled = 0;
        for project in entries(&self.dir)? {
            let project_dir = project.file_name().to_string_lossy().into_owned();
            if !is_number(&project_dir) || !project.path().is_dir() {
                continue;
            }
            for file in entries(&project.path())? {
                let name = file.file_name().to_string_lossy().into_owned();
                if known.contains(format!("{project_dir}/{name}").as_str()) {
                    continue;
                }
                match file_kind(&name) {
                    Some(FileKind::Spill) => {
                        fs::remove_file(file.path()).map_err(Error::io("remove a spill file"))?;
                    }
                    // A truncated segment is useless, and after a full disk its space is needed.
                    Some(FileKind::Segment) if is_truncated(&file.path()) => {
                        fs::remove_file(file.path())
                            .map_err(Error::io("remove a truncated segment"))?;
                    }
                    Some(FileKind::Segment | FileKind::Dead) => {
                        let new_name = format!("{project_dir}-{name}");
                        // Its age counts from now, not from its last write.
                        let now = UNIX_EPOCH + Duration::from_micros(now.as_micros().max(0) as u64);
                        if let Ok(opened) = File::open(file.path()) {
                            let _ = opened.set_modified(now);
                        }
                        // It does no harm where it is: opening must not fail because of it.
                        if let Err(error) = move_into(&self.dir, UNLISTED, &file.path(), &new_name)
                        {
                            let file = file.path();
                            tracing::warn!(file = %file.display(), %error, "cannot move an unlisted file");
                            continue;
                        }
                    }
                    None => continue,
                }
                handled += 1;
            }
        }
        let _ = fs::remove_file(self.path(NEW_MANIFEST));
        Ok(handled)
    }

    /// Removes unlisted files, oldest first, until the rest is within [`UNLISTED_KEEP`] and
    /// [`UNLISTED_BYTES_MAX`].
    pub fn sweep_unlisted(&self, now: Timestamp) -> Result<()> {
        let now = UNIX_EPOCH + Duration::from_micros(now.as_micros().max(0) as u64);
        let dir = self.path(UNLISTED);
        if !dir.is_dir() {
            return Ok(());
        }
        let failed = || Error::io("read the metadata of an unlisted file");
        let mut files = Vec::new();
        for entry in entries(&dir)? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let parts = name.strip_suffix(KEPT_SUFFIX).and_then(|name| name.split_once('-'));
            let parts = parts.filter(|(project, _)| is_number(project));
            if parts.and_then(|(_, name)| file_kind(name)).is_some() {
                let metadata = entry.metadata().map_err(failed())?;
                let since = metadata.modified().map_err(failed())?;
                let age = now.duration_since(since).unwrap_or_default();
                files.push((age, metadata.len(), entry.path()));
            }
        }
        files.sort();
        let mut bytes = 0;
        for (age, size, path) in files {
            bytes += size;
            if age > UNLISTED_KEEP || bytes > UNLISTED_BYTES_MAX {
                fs::remove_file(path).map_err(Error::io("remove an unlisted file"))?;
            }
        }
        Ok(())
    }

    pub fn remove(&self, file: &str) -> Result<()> {
        match fs::remove_file(self.path(file)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove a retired file")(error))
            }
            _ => self.step(FaultPoint::RetiredRemoved),
        }
    }
}

/// Whether a file lacks the magic bytes at the end of a segment, which are written last.
fn is_truncated(path: &Path) -> bool {
    let mut end = [0; PARQUET_MAGIC.len()];
    let read = File::open(path).and_then(|file| {
        let length = file.metadata()?.len();
        file.read_exact_at(&mut end, length.saturating_sub(PARQUET_MAGIC.len() as u64))
    });
    match read {
        Ok(()) => end != PARQUET_MAGIC,
        Err(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
    }
}

/// Reads the dead rows of a segment.
pub(crate) fn read_dead(dir: &Path, entry: &SegmentEntry) -> Result<RoaringBitmap> {
    let Some(dead) = &entry.dead else { return Ok(RoaringBitmap::new()) };
    let path = dir.join(&dead.file);
    let bytes = fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::corrupt(&path, "it is missing"),
        kind => {
            let named = std::io::Error::new(kind, format!("{}: {error}", path.display()));
            Error::io("read a list of dead rows")(named)
        }
    })?;
    if dead.crc.is_some_and(|crc| crc != crc32c::crc32c(&bytes)) {
        return Err(Error::corrupt(&path, "its checksum differs"));
    }
    let rows = RoaringBitmap::deserialize_from(&bytes[..])
        .map_err(|error| Error::corrupt(&path, error))?;
    if rows.len() != dead.rows || rows.max().is_some_and(|last| u64::from(last) >= entry.rows) {
        return Err(Error::corrupt(&path, "it names other rows than were written"));
    }
    Ok(rows)
}

/// Where [`move_into`] puts a file. The suffix protects it from earlier versions, which removed every
/// unlisted `.parquet` and `.dead` file and to which an operator may downgrade.
pub(crate) fn kept_as(dir: &Path, subdir: &str, name: &str) -> PathBuf {
    dir.join(subdir).join(format!("{name}{KEPT_SUFFIX}"))
}

/// Moves a file durably into a directory next to those of the projects.
pub(crate) fn move_into(dir: &Path, subdir: &str, file: &Path, name: &str) -> Result<()> {
    let to = dir.join(subdir);
    let target = kept_as(dir, subdir, name);
    fs::create_dir_all(&to).map_err(Error::io("create a directory"))?;
    fs::rename(file, &target).map_err(Error::io("move a file"))?;
    sync_dir(&to)?;
    file.parent().map_or(Ok(()), sync_dir)?;
    sync_dir(dir)
}

/// New files that no manifest names yet. Dropping this removes them, unless they were committed.
#[derive(Debug)]
pub(crate) struct UncommittedFiles<'a> {
    dir: &'a StoreDir,
    files: Vec<String>,
}

impl<'a> UncommittedFiles<'a> {
    pub fn new(dir: &'a StoreDir) -> UncommittedFiles<'a> {
        UncommittedFiles { dir, files: Vec::new() }
    }

    pub fn add(&mut self, file: &str) {
        self.files.push(file.to_owned());
    }

    /// Takes over the files of another.
    pub fn join(&mut self, mut other: UncommittedFiles<'a>) {
        self.files.append(&mut other.files);
    }

    /// Keeps the files: a manifest may name them now.
    pub fn keep(mut self) -> Vec<String> {
        std::mem::take(&mut self.files)
    }
}

impl Drop for UncommittedFiles<'_> {
    fn drop(&mut self) {
        self.files.iter().for_each(|file| discard(&self.dir.path(file)));
    }
}

/// The kinds of files in a project's directory.
pub(crate) enum FileKind {
    Segment,
    Spill,
    Dead,
}

/// Recognizes a file by its exact name pattern: `<partition>-<id>`, and for `.dead` another `-<id>`.
pub(crate) fn file_kind(name: &str) -> Option<FileKind> {
    let (stem, ending) = name.rsplit_once('.')?;
    let is_id = |id: &str| id.len() >= ID_DIGITS && is_number(id);
    let segment = |stem: &str| {
        let (partition, id) = stem.rsplit_once('-')?;
        (is_id(id) && Partition::is_name(partition)).then_some(())
    };
    match ending {
        "parquet" => segment(stem).map(|()| FileKind::Segment),
        "spill" => segment(stem).map(|()| FileKind::Spill),
        "dead" => {
            let (stem, id) = stem.rsplit_once('-')?;
            segment(stem).filter(|()| is_id(id)).map(|()| FileKind::Dead)
        }
        _ => None,
    }
}

pub(crate) fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn entries(dir: &Path) -> Result<Vec<fs::DirEntry>> {
    let failed = Error::io("list the warehouse's files");
    fs::read_dir(dir).map_err(&failed)?.map(|entry| entry.map_err(&failed)).collect()
}

pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    let open = File::open(dir).map_err(Error::io("open a directory"))?;
    open.sync_all().map_err(Error::io("sync a directory"))
}

/// Removes a partly written segment and its spill file.
pub(crate) fn discard(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(path.with_extension("spill"));
}

pub(crate) fn read_scrub_times(path: &Path) -> std::collections::BTreeMap<u64, i64> {
    let text = fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}
