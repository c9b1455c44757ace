//! The data folder: one server at a time, and a key nobody else can read.

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
const WAREHOUSE: &str = "warehouse";
const IMPORTS: &str = "imports";
/// There while a backup is put in: half of one must not be taken for the whole.
const RESTORING: &str = "restoring";
/// There while `hedgerow repair` changes things; names the folder with what it set aside.
const REPAIRING: &str = "repairing";
/// Which release used the folder last.
const RELEASE: &str = "release";
const FOLDER_MODE: u32 = 0o700;
const SECRET_MODE: u32 = 0o600;
/// Nothing that the process makes is for others, whatever the folder's own mode.
const HIDE_FROM_OTHERS: u32 = 0o077;

pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as a server uses the folder.
    _lock: Option<File>,
}

impl Folder {
    /// Makes the folder if need be and takes it for this process.
    pub(crate) fn own(path: &Path) -> Result<Self> {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(HIDE_FROM_OTHERS));
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(path)
            .with_context(|| format!("cannot make the data folder {}", path.display()))?;
        let own = Self::own_for_repair(path)?;
        if path.join(REPAIRING).exists() {
            bail!(
                "a repair of {} was cut short; run `hedgerow repair --yes` again",
                path.display()
            );
        }
        Ok(own)
    }

    /// Takes a folder that is there already, whatever state it is in.
    pub(crate) fn own_for_repair(path: &Path) -> Result<Self> {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(HIDE_FROM_OTHERS));
        let shown = path.display();
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK))
            .with_context(|| format!("cannot write to the data folder {shown}"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                bail!(
                    "another server (process {}) is using the folder {shown}; stop it, or give \
                     this one its own with --data-dir",
                    holder.trim(),
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock the data folder {shown}"));
            }
        }
        if path.join(RESTORING).exists() {
            bail!("a restore into {shown} was cut short; empty the folder and restore again");
        }
        lock.set_len(0)?;
        writeln!(lock, "{}", std::process::id())?;
        Ok(Self { path: path.into(), _lock: Some(lock) })
    }

    /// For a command beside a server, or without one; the folder must have been used before.
    pub(crate) fn join(settings: &Settings) -> Result<Self> {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(HIDE_FROM_OTHERS));
        let path = settings.data_dir.clone();
        if settings.catalog_url.is_none() && !path.join(CATALOG).is_file() {
            bail!("there is no catalog in {}; start the server once to make it", path.display());
        }
        Ok(Self { path, _lock: None })
    }

    /// The given key, else the folder's own, which the first server makes.
    pub(crate) fn vault(&self, settings: &Settings) -> Result<Vault> {
        let key = match (&settings.secret_key, &self._lock) {
            (Some(given), _) => given.clone(),
            (None, Some(_)) => match self.kept_key()? {
                Some(kept) => kept,
                // A new key opens nothing of what another one sealed.
                None if self.catalog_file().exists() => bail!(
                    "there is no {SECRET_KEY} in {}, but a catalog that was made with one; restore \
                     {SECRET_KEY} from a backup, or set secret_key to what it was made with",
                    self.shown()
                ),
                None => self.make_key()?,
            },
            (None, None) => self.kept_key()?.with_context(|| {
                format!("there is no {SECRET_KEY} in {}, and no secret_key is set", self.shown())
            })?,
        };
        Ok(Vault::new(&key))
    }

    fn kept_key(&self) -> Result<Option<Secret>> {
        let path = self.path.join(SECRET_KEY);
        let cannot = || format!("cannot read {}", path.display());
        if !path.try_exists().with_context(cannot)? {
            return Ok(None);
        }
        let mode = fs::metadata(&path).with_context(cannot)?.permissions().mode();
        if mode & HIDE_FROM_OTHERS != 0 {
            tracing::warn!(file = %path.display(), "others could read the secret key; closing it");
            fs::set_permissions(&path, fs::Permissions::from_mode(SECRET_MODE))
                .with_context(|| format!("cannot hide {} from others", path.display()))?;
        }
        let text = fs::read_to_string(&path).with_context(cannot)?;
        if text.trim().is_empty() {
            bail!("{} is empty; restore it from a backup", path.display());
        }
        Ok(Some(Secret::given(text.trim())))
    }

    /// Written aside and renamed: a crash leaves a whole key or none.
    fn make_key(&self) -> Result<Secret> {
        let (aside, path) = (self.path.join("secret.key.new"), self.path.join(SECRET_KEY));
        let key = Secret::random("");
        let write = || -> std::io::Result<()> {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(true).mode(SECRET_MODE);
            let mut file = options.open(&aside)?;
            writeln!(file, "{}", key.reveal())?;
            file.sync_all()?;
            fs::rename(&aside, &path)?;
            File::open(&self.path)?.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(key)
    }

    /// For what is read and written without owning it.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.into(), _lock: None }
    }

    pub(crate) fn restoring(&self) -> PathBuf {
        self.path.join(RESTORING)
    }

    pub(crate) fn repairing(&self) -> PathBuf {
        self.path.join(REPAIRING)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that this release has opened the folder. Only for the words of a later refusal, so it
    /// may fail.
    pub(crate) fn note_release(&self) {
        let (aside, file) = (self.path.join("release.new"), self.path.join(RELEASE));
        let now = env!("BUILT_VERSION");
        if fs::read_to_string(&file).is_ok_and(|kept| kept.trim() == now) {
            return;
        }
        let written = fs::write(&aside, format!("{now}\n")).and_then(|()| fs::rename(&aside, file));
        if let Err(error) = written {
            tracing::warn!(%error, "cannot note which release uses the data folder");
        }
    }

    /// For a folder whose format this release does not know.
    pub(crate) fn newer(&self, why: &str) -> String {
        let last = fs::read_to_string(self.path.join(RELEASE)).unwrap_or_default();
        let (last, own) = (last.trim(), env!("BUILT_VERSION"));
        let wanted = match last {
            "" => "a newer release".to_owned(),
            last => format!("hedgerow {last}, which used it last, or a newer release"),
        };
        format!(
            "hedgerow {own} cannot read {}: {why}; start {wanted}, or restore a backup that was \
             made before the upgrade",
            self.shown()
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

    /// How far imports came.
    pub(crate) fn imports(&self) -> PathBuf {
        self.path.join(IMPORTS)
    }

    fn shown(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

/// PostgreSQL when its address is set, else the folder's file.
pub(crate) fn location<'a>(settings: &'a Settings, file: &'a Path) -> Location<'a> {
    match &settings.catalog_url {
        Some(url) => Location::Postgres(url.0.reveal()),
        None => Location::Sqlite(file),
    }
}
