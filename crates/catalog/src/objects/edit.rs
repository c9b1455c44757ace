//! Edits of objects with soft delete: one implementation for all kinds.
//!
//! Deleting sets a flag. Lookups skip deleted objects, except for the change that restores one.
//! Each edit loads, changes, saves and logs the object in one transaction that locks its row.

use model::{ProjectId, Timestamp};

use crate::activity::{Actor, Logged};
use crate::db::{Core, Tx};
use crate::{Error, Result};

/// Whether a lookup finds soft-deleted objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Exclude,
    /// For a change that may restore the object.
    Include,
}

impl Deleted {
    /// The SQL condition for this table alias.
    pub(crate) fn condition(self, alias: &str) -> String {
        match self {
            Self::Exclude => format!(" AND NOT {alias}.deleted"),
            Self::Include => String::new(),
        }
    }
}

/// An object that users change and soft-delete.
pub(crate) trait Editable: Logged + Clone + PartialEq {
    type Id: Copy;

    /// Loads the object, deleted or not, and locks its row until the transaction ends.
    async fn lock(tx: &mut Tx, actor: &Actor, id: Self::Id) -> Result<Self>;

    /// Writes the differences from `before`, and adopts generated values such as ids.
    async fn save(&mut self, tx: &mut Tx, before: &Self) -> Result<()>;

    /// The project whose log records the change.
    fn project(&self) -> ProjectId;

    fn is_deleted(&self) -> bool;

    /// Records that the object changes: the time, and the next version where it has one.
    fn mark_changed(&mut self, now: Timestamp);
}

/// Sets a field of a partial update, if the request has it.
pub(crate) fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *field = value;
    }
}

/// Optimistic concurrency control: refuses a change by somebody who loaded another version. A request
/// without a version is not checked.
pub(crate) fn check_version(noun: &str, expected: Option<i64>, stored: i64) -> Result<()> {
    match expected {
        Some(expected) if expected != stored => Err(Error::Stale(format!(
            "The {noun} was changed by somebody else since you loaded it: version {stored} is \
             stored, you changed version {expected}."
        ))),
        _ => Ok(()),
    }
}

impl Core {
    /// Loads, changes, saves and logs one object within a larger transaction. An edit without
    /// effect writes and logs nothing.
    pub(crate) async fn edit_in<T: Editable>(
        &self,
        tx: &mut Tx,
        actor: &Actor,
        id: T::Id,
        apply: impl FnOnce(&mut T, Timestamp) -> Result<()>,
    ) -> Result<T> {
        let before = T::lock(tx, actor, id).await?;
        // Read under the row lock, since the log is ordered by time.
        let now = self.clock.now();
        let mut after = before.clone();
        apply(&mut after, now)?;
        if before.is_deleted() && after.is_deleted() {
            return Err(Error::NotFound);
        }
        if after == before {
            return Ok(before);
        }
        after.mark_changed(now);
        after.save(tx, &before).await?;
        let actor = Actor { project: Some(after.project()), ..*actor };
        tx.log_updated(&actor, &before, &after, now).await?;
        Ok(after)
    }
}
