//! How an object that people edit is changed, hidden and brought back: once, for all of them.
//!
//! Deleting only hides. A hidden object is found by nobody, except by the change that restores
//! it. Each change is read, applied, saved and logged in one transaction that holds the row.

use model::{ProjectId, Timestamp};

use crate::activity::{Actor, Logged};
use crate::db::{Core, Tx};
use crate::{Error, Result};

/// Which objects a look-up finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Exclude,
    /// For a change that may restore the object.
    Include,
}

impl Deleted {
    /// The condition on the table known as `alias`.
    pub(crate) fn condition(self, alias: &str) -> String {
        match self {
            Self::Exclude => format!(" AND NOT {alias}.deleted"),
            Self::Include => String::new(),
        }
    }
}

/// An object with a row of its own that people change and delete.
pub(crate) trait Editable: Logged + Clone + PartialEq {
    type Id: Copy;

    /// The object, deleted or not, with its row locked until the transaction ends.
    async fn lock(tx: &mut Tx, actor: &Actor, id: Self::Id) -> Result<Self>;

    /// Writes what differs from `before` and what follows from it, and takes over what the store
    /// made up.
    async fn save(&mut self, tx: &mut Tx, before: &Self) -> Result<()>;

    /// The project whose log tells of the change.
    fn project(&self) -> ProjectId;

    fn is_deleted(&self) -> bool;

    fn set_updated_at(&mut self, now: Timestamp);
}

/// A field of a partial update: what was left out stays.
pub(crate) fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *field = value;
    }
}

impl Core {
    /// Changes one object, which may refuse it, as a part of whatever else the change takes. One
    /// that leaves it as it was writes and logs nothing.
    pub(crate) async fn edit_in<T: Editable>(
        &self,
        tx: &mut Tx,
        actor: &Actor,
        id: T::Id,
        apply: impl FnOnce(&mut T, Timestamp) -> Result<()>,
    ) -> Result<T> {
        let before = T::lock(tx, actor, id).await?;
        // Not before the row is ours: the log is read in the order of its times.
        let now = self.clock.now();
        let mut after = before.clone();
        apply(&mut after, now)?;
        if before.is_deleted() && after.is_deleted() {
            return Err(Error::NotFound);
        }
        if after == before {
            return Ok(before);
        }
        after.set_updated_at(now);
        after.save(tx, &before).await?;
        let actor = Actor { project: Some(after.project()), ..*actor };
        tx.log_updated(&actor, &before, &after, now).await?;
        Ok(after)
    }
}
