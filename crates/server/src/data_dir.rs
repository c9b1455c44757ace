//! The data directory: an exclusive lock for one server, the paths of the stores, and the secret
//! key with its file permissions.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use catalog::{Location, Secret, Vault};

use crate::settings::Settings;

const LOCK: &str = "lock";
const SECRET_KEY: &str = "secret.key";
const CATALOG: &str = "catalog.sqlite";
const JOURNAL: &str = "journal";
const JOURNAL_OWNER: &str = "journal.owner";
const WAREHOUSE: &str = "warehouse";
const IMPORTS: &str = "imports";
/// Marker file that exists while `hedgerow restore` writes: a partial restore must not be served.
const RESTORING: &str = "restoring";
/// Marker file that exists while `hedgerow repair` writes; names the directory with the old files.
const REPAIRING: &str = "repairing";
/// The release that last opened the directory.
const RELEASE: &str = "release";
const DIR_MODE: u32 = 0o700;
const SECRET_MODE: u32 = 0o600;
/// umask: files are private to the user, whatever the mode of the directory.
const OTHERS_MASK: u32 = 0o077;

pub(crate) struct DataDir {
    path: PathBuf,
    /// Exclusive `flock`, held while a server or an exclusive command uses the directory.
    _lock: Option<File>,
}

impl DataDir {
    /// Creates the directory if it is missing and locks it for this process.
    pub(crate) fn acquire(path: &Path) -> Result<Self> {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(OTHERS_MASK));
        DirBuilder::new()
            .recursive(true)
            .mode(DIR_MODE)
            .create(path)
            .with_context(|| format!("cannot create the data directory {}", path.display()))?;
        let acquired = Self::acquire_for_repair(path)?;
        if path.join(REPAIRING).exists() {
            bail!(
                "a repair of {} was interrupted; run `hedgerow repair --yes` again",
                path.display()
            );
        }
        Ok(acquired)
    }

    /// Locks an existing directory, even one with an interrupted repair.
    pub(crate) fn acquire_for_repair(path: &Path) -> Result<Self> {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(OTHERS_MASK));
        let shown = path.display();
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK))
            .with_context(|| format!("cannot write to the data directory {shown}"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                bail!(
                    "another server (process {}) is using the data directory {shown}; stop it, or \
                     choose another --data-dir",
                    holder.trim(),
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error)
                    .with_context(|| format!("cannot lock the data directory {shown}"));
            }
        }
        if path.join(RESTORING).exists() {
            bail!("a restore into {shown} was interrupted; empty the directory and restore again");
        }
        lock.set_len(0)?;
        writeln!(lock, "{}", std::process::id())?;
        Ok(Self { path: path.into(), _lock: Some(lock) })
    }

    /// For commands that may run alongside a server: takes no lock; the catalog must exist.
    pub(crate) fn attach(settings: &Settings) -> Result<Self> {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(OTHERS_MASK));
        let path = settings.data_dir.clone();
        if settings.catalog_url.is_none() && !path.join(CATALOG).is_file() {
            bail!("there is no catalog in {}; start the server once to create it", path.display());
        }
        Ok(Self { path, _lock: None })
    }

    /// The vault with the key of `secret_key`, else of the directory's `secret.key`, which the first
    /// start generates.
    pub(crate) fn vault(&self, settings: &Settings) -> Result<Vault> {
        let key = match (&settings.secret_key, &self._lock) {
            (Some(configured), _) => configured.clone(),
            (None, Some(_)) => match self.read_key()? {
                Some(key) => key,
                // A new key could not decrypt what the catalog holds.
                None if self.catalog_file().exists() => bail!(
                    "there is no {SECRET_KEY} in {}, but the catalog was encrypted with one; \
                     restore {SECRET_KEY} from a backup, or set secret_key to its value",
                    self.display()
                ),
                None => self.generate_key()?,
            },
            (None, None) => self.read_key()?.with_context(|| {
                format!("there is no {SECRET_KEY} in {}, and no secret_key is set", self.display())
            })?,
        };
        Ok(Vault::new(&key))
    }

    fn read_key(&self) -> Result<Option<Secret>> {
        let path = self.path.join(SECRET_KEY);
        let cannot = || format!("cannot read {}", path.display());
        if !path.try_exists().with_context(cannot)? {
            return Ok(None);
        }
        let mode = fs::metadata(&path).with_context(cannot)?.permissions().mode();
        if mode & OTHERS_MASK != 0 {
            tracing::warn!(
                file = %path.display(),
                "others could read the secret key; setting its mode to 0600"
            );
            fs::set_permissions(&path, fs::Permissions::from_mode(SECRET_MODE))
                .with_context(|| format!("cannot set the mode of {}", path.display()))?;
        }
        let text = fs::read_to_string(&path).with_context(cannot)?;
        if text.trim().is_empty() {
            bail!("{} is empty; restore it from a backup", path.display());
        }
        Ok(Some(Secret::given(text.trim())))
    }

    /// Writes a temporary file and renames it: a crash leaves a complete key or none.
    fn generate_key(&self) -> Result<Secret> {
        let key = Secret::random("");
        self.write_private(SECRET_KEY, key.reveal())?;
        Ok(key)
    }

    /// Replaces a file of one line, durably.
    fn write_private(&self, name: &str, line: &str) -> Result<()> {
        let (temporary, path) = (self.path.join(format!("{name}.new")), self.path.join(name));
        let write = || -> std::io::Result<()> {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(true).mode(SECRET_MODE);
            let mut file = options.open(&temporary)?;
            writeln!(file, "{line}")?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Names this directory's server to a journal on JetStream, across restarts. The directory's lock
    /// excludes another process with the same name.
    pub(crate) fn journal_owner(&self) -> Result<u128> {
        let path = self.path.join(JOURNAL_OWNER);
        match fs::read_to_string(&path) {
            Ok(owner) => u128::from_str_radix(owner.trim(), 16)
                .with_context(|| format!("{} holds no hexadecimal number", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let owner = uuid::Uuid::new_v4().as_u128();
                self.write_private(JOURNAL_OWNER, &format!("{owner:032x}"))?;
                Ok(owner)
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// The paths of a directory, without a lock and without checks.
    pub(crate) fn unlocked(path: &Path) -> Self {
        Self { path: path.into(), _lock: None }
    }

    pub(crate) fn restore_marker(&self) -> PathBuf {
        self.path.join(RESTORING)
    }

    pub(crate) fn repair_marker(&self) -> PathBuf {
        self.path.join(REPAIRING)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Records that this release has opened the directory. Only the error message of an older release
    /// uses it, so a failure is not fatal.
    pub(crate) fn record_release(&self) {
        let (temporary, file) = (self.path.join("release.new"), self.path.join(RELEASE));
        let current = env!("BUILT_VERSION");
        if fs::read_to_string(&file).is_ok_and(|recorded| recorded.trim() == current) {
            return;
        }
        let written = fs::write(&temporary, format!("{current}\n"))
            .and_then(|()| fs::rename(&temporary, file));
        if let Err(error) = written {
            tracing::warn!(%error, "cannot record the release in the data directory");
        }
    }

    /// The error message for a directory in a format that this release does not know.
    pub(crate) fn newer_release_message(&self, why: &str) -> String {
        let last = fs::read_to_string(self.path.join(RELEASE)).unwrap_or_default();
        let (last, current) = (last.trim(), env!("BUILT_VERSION"));
        let needed = match last {
            "" => "a newer release".to_owned(),
            last => format!("hedgerow {last}, which used it last, or a newer release"),
        };
        format!(
            "hedgerow {current} cannot read {}: {why}; start {needed}, or restore a backup that \
             was made before the upgrade",
            self.display()
        )
    }

    pub(crate) fn secret_key(&self) -> PathBuf {
        self.path.join(SECRET_KEY)
    }

    pub(crate) fn catalog_file(&self) -> PathBuf {
        self.path.join(CATALOG)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    pub(crate) fn warehouse(&self) -> PathBuf {
        self.path.join(WAREHOUSE)
    }

    /// Progress files of imports.
    pub(crate) fn imports(&self) -> PathBuf {
        self.path.join(IMPORTS)
    }

    fn display(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

/// PostgreSQL if `catalog_url` is set, else the SQLite `file`.
pub(crate) fn catalog_location<'a>(settings: &'a Settings, file: &'a Path) -> Location<'a> {
    match &settings.catalog_url {
        Some(url) => Location::Postgres(url.0.reveal()),
        None => Location::Sqlite(file),
    }
}
