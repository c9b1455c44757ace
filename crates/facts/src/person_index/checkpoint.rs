//! Checkpoints: a project's persons, distinct ids and groups at a position of the identity log, in files that are
//! memory-mapped when they are read.
//!
//! The catalog is the source of truth. A checkpoint only saves reading it: one that is missing, damaged
//! or ahead of the catalog is ignored, and the index is built from the catalog again.
//!
//! `people/<project>/<position>-<id>.persons`:
//! ```text
//! person_no by distinct_no (u32), distinct ids, persons, code book, groups by type, footer, its length (u32)
//! ```

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ProjectId;
use uuid::Uuid;

use super::actors::PersonNos;
use super::columns::{self, ColumnFiles};
use super::layered_bytes::{LayeredBytes, Section};
use super::mapped_file::{self, Cursor, FileWriter, TEMPORARY};
use super::property_store::PropertyStore;
use super::{PersonIndex, lock};
use crate::groups::Groups;

const VERSION: u32 = 1;
const EXTENSION: &str = "persons";

/// The checkpoints of all projects, in one directory.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    dir: PathBuf,
}

/// A project's identities, up to a log position.
#[derive(Debug)]
pub struct Checkpoint {
    pub persons: PersonIndex,
    pub groups: Groups,
    /// All changes before this position are included.
    pub position: u64,
}

impl Checkpoints {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn project_dir(&self, project: ProjectId) -> PathBuf {
        self.dir.join(project.0.to_string())
    }

    /// The newest intact checkpoint of this identity log that is not ahead of `position`.
    pub fn open(&self, project: ProjectId, log: u128, position: u64) -> Option<Checkpoint> {
        let dir = self.project_dir(project);
        let mut names: Vec<(u64, String)> =
            own_files(&dir).ok()?.into_iter().filter_map(|file| file.checkpoint).collect();
        names.sort_unstable();
        let opened = names.iter().rev().filter(|(at, _)| *at <= position).find_map(|(_, name)| {
            let opened = read(&dir, name, project, log);
            if opened.is_none() {
                tracing::warn!(project.id = %project, file = %dir.join(name).display(), "ignored a checkpoint that is damaged or of another log");
            }
            opened
        });
        opened.filter(|checkpoint| checkpoint.position <= position)
    }

    /// The position of the project's newest checkpoint, whether it is intact or not.
    pub fn position(&self, project: ProjectId) -> Option<u64> {
        let files = own_files(&self.project_dir(project)).ok()?;
        files.into_iter().filter_map(|file| file.checkpoint).map(|(at, _)| at).max()
    }

    /// Projects with a checkpoint.
    pub fn projects(&self) -> Vec<ProjectId> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let project = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok().map(ProjectId);
        entries.filter_map(project).collect()
    }

    /// Removes a project's checkpoints. Files that this module did not name stay, with their directory.
    pub fn remove(&self, project: ProjectId) -> io::Result<()> {
        let dir = self.project_dir(project);
        own_files(&dir)?.into_iter().try_for_each(|file| fs::remove_file(file.path))?;
        match fs::read_dir(&dir)?.next() {
            Some(_) => Ok(()),
            None => fs::remove_dir(dir),
        }
    }

    /// Writes a checkpoint and removes older ones. `persons` must include all changes of the log
    /// before `position`.
    pub fn write(
        &self,
        persons: &PersonIndex,
        groups: &Groups,
        log: u128,
        position: u64,
    ) -> io::Result<()> {
        let dir = self.project_dir(persons.project);
        fs::create_dir_all(&dir)?;
        let name = format!("{position:020}-{}", Uuid::new_v4().simple());
        // Before the checkpoint is visible, so that the first query finds them.
        let files = ColumnFiles::open(&dir, &name)?;
        let mut asked =
            persons.column_files.as_ref().map(|files| files.names()).unwrap_or_default();
        asked.extend(lock(&persons.columns).keys().cloned());
        for property in asked {
            files.write(&property, persons)?;
        }
        write(&dir.join(format!("{name}.{EXTENSION}")), persons, groups, log, position)?;
        for file in own_files(&dir)? {
            if file.belongs_to != name {
                fs::remove_file(file.path)?;
            }
        }
        Ok(())
    }
}

/// A file that this module has named.
struct OwnFile {
    path: PathBuf,
    /// Name of the checkpoint it is a part of.
    belongs_to: String,
    /// For the file that makes the checkpoint: its position and name.
    checkpoint: Option<(u64, String)>,
}

/// Only files of our own naming: others are never touched.
fn own_files(dir: &Path) -> io::Result<Vec<OwnFile>> {
    let mut own = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let finished = file.strip_suffix(TEMPORARY).and_then(|file| file.strip_suffix('.'));
        let persons = finished.unwrap_or(file).strip_suffix(EXTENSION);
        let name = match persons.and_then(|file| file.strip_suffix('.')) {
            Some(name) => Some(name),
            None => columns::checkpoint_of(finished.unwrap_or(file)),
        };
        let Some((name, position)) = name.and_then(|name| Some((name, position_of(name)?))) else {
            continue;
        };
        let makes_checkpoint = persons.is_some() && finished.is_none();
        own.push(OwnFile {
            belongs_to: name.to_owned(),
            checkpoint: makes_checkpoint.then(|| (position, name.to_owned())),
            path: path.clone(),
        });
    }
    Ok(own)
}

fn position_of(name: &str) -> Option<u64> {
    let (position, id) = name.split_once('-')?;
    Uuid::try_parse(id).ok()?;
    position.parse().ok()
}

fn write(
    path: &Path,
    persons: &PersonIndex,
    groups: &Groups,
    log: u128,
    position: u64,
) -> io::Result<()> {
    let mut out = FileWriter::create(path.to_owned())?;
    let mut block = Vec::with_capacity(1 << 18);
    for person in persons.person_nos.iter() {
        block.extend_from_slice(&person.to_le_bytes());
        if block.len() == 1 << 18 {
            out.write_all(&block)?;
            block.clear();
        }
    }
    out.write_all(&block)?;
    let person_nos_end = out.position();
    let distinct_ids = persons.distinct_ids.write(persons.person_nos.len(), &mut out)?;
    let entries = persons.persons.write(persons.persons_len, &mut out)?;
    let code_book_start = out.position();
    persons.persons.write_code_book(&mut out)?;
    let code_book_end = out.position();
    let groups = groups.write(&mut out)?;
    let footer_start = out.position();
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&persons.project.0.to_le_bytes())?;
    out.write_all(&log.to_le_bytes())?;
    let persons_len = persons.persons_len as u64;
    for number in [position, persons_len, person_nos_end, code_book_start, code_book_end] {
        out.write_all(&number.to_le_bytes())?;
    }
    distinct_ids.write(&mut out)?;
    entries.write(&mut out)?;
    groups.iter().try_for_each(|section| section.write(&mut out))?;
    let length = u32::try_from(out.position() - footer_start).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.finish()
}

fn read(dir: &Path, name: &str, project: ProjectId, log: u128) -> Option<Checkpoint> {
    let file = mapped_file::open(&dir.join(format!("{name}.{EXTENSION}"))).ok()?;
    let (rest, length) = file.split_last_chunk()?;
    let mut footer =
        Cursor(rest.get(rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?..)?);
    let version = footer.u32()?;
    let (of_project, of_log) =
        (i64::from_le_bytes(footer.array()?), u128::from_le_bytes(footer.array()?));
    if (version, of_project, of_log) != (VERSION, project.0, log) {
        return None;
    }
    let position = footer.u64()?;
    let mut number = || usize::try_from(footer.u64()?).ok();
    let (persons_len, person_nos_end) = (number()?, number()?);
    let (code_book_start, code_book_end) = (number()?, number()?);
    let distinct_ids = LayeredBytes::read(&file, &Section::read(&mut footer)?)?;
    let entries = LayeredBytes::read(&file, &Section::read(&mut footer)?)?;
    let mut code_book = Cursor(file.get(code_book_start..code_book_end)?);
    let persons = PersonIndex {
        person_nos: PersonNos::from_bytes(file.get(..person_nos_end)?),
        distinct_ids,
        persons_len,
        persons: PropertyStore::read(entries, &mut code_book)?,
        column_files: ColumnFiles::open(dir, name).ok().map(Arc::new),
        ..PersonIndex::new(project)
    };
    let groups = Groups::read(&file, &mut footer)?;
    Some(Checkpoint { persons, groups, position })
}

#[cfg(test)]
mod tests;
