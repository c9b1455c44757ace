//! Data management: definitions of events and properties, and actions.

pub(crate) mod actions;
pub(crate) mod events;
pub(crate) mod properties;
pub(crate) mod quota;

use std::collections::{HashMap, HashSet};

use model::{OrganizationId, Timestamp, User, UserId};

use crate::db::dialect::placeholders;
use crate::db::{Core, Row, Tx, Value, args, author, handle};
use crate::{Error, Result};
use model::definition::PropertyOwner;
use quota::DefinitionQuota;

handle! {
    /// Actions.
    Actions
}
handle! {
    /// Definitions of events.
    EventDefinitions
}
handle! {
    /// Definitions of properties.
    PropertyDefinitions
}
/// The quota and the version of event and property definitions.
#[derive(Clone, Copy)]
pub struct Definitions<'a> {
    pub(crate) core: &'a Core,
    pub(crate) quota: &'a DefinitionQuota,
}

/// Whether users have verified a definition or hidden it. Never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Curation {
    pub verified: bool,
    pub verified_at: Option<Timestamp>,
    pub verified_by: Option<UserId>,
    pub hidden: bool,
}

impl Curation {
    pub(crate) fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            verified: row.get("verified")?,
            verified_at: row.get("verified_at")?,
            verified_by: row.get("verified_by")?,
            hidden: row.get("hidden")?,
        })
    }

    /// Hiding removes the verification, and verifying unhides; both at once is refused.
    pub(crate) fn change(
        &mut self,
        what: &str,
        verified: Option<bool>,
        hidden: Option<bool>,
        by: Option<UserId>,
        now: Timestamp,
    ) -> Result<()> {
        if verified == Some(true) && hidden == Some(true) {
            let detail = format!("{what} cannot be both hidden and verified");
            return Err(Error::refused(None, detail));
        }
        let verified = if hidden == Some(true) { Some(false) } else { verified };
        let hidden = if verified == Some(true) { Some(false) } else { hidden };
        match verified {
            Some(true) if !self.verified => {
                (self.verified, self.verified_at, self.verified_by) = (true, Some(now), by);
            }
            Some(false) => {
                (self.verified, self.verified_at, self.verified_by) = (false, None, None);
            }
            _ => {}
        }
        self.hidden = hidden.unwrap_or(self.hidden);
        Ok(())
    }
}

pub(crate) fn as_strs(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// Users by id.
pub(crate) type Users = HashMap<UserId, User>;

fn id_values(ids: impl Iterator<Item = Option<UserId>>) -> Vec<Value> {
    let ids: HashSet<UserId> = ids.flatten().collect();
    ids.into_iter().map(Into::into).collect()
}

fn read(rows: &[Row]) -> Result<Users> {
    let users = rows.iter().filter_map(|row| author::read(row).transpose());
    users.map(|user| user.map(|user| (user.id, user))).collect()
}

impl Core {
    /// Loads the users among these ids, in one statement.
    pub(crate) async fn users_among(
        &self,
        ids: impl Iterator<Item = Option<UserId>>,
    ) -> Result<Users> {
        let sql = format!("SELECT {} FROM users u WHERE u.id IN {{list}}", author::COLUMNS);
        read(&self.db.all_in(&sql, args![], &id_values(ids)).await?)
    }
}

impl Tx {
    /// Like [`Core::users_among`], within the transaction.
    pub(crate) async fn users_among(
        &mut self,
        ids: impl Iterator<Item = Option<UserId>>,
    ) -> Result<Users> {
        let ids = id_values(ids);
        let marks = placeholders(1, ids.len());
        let sql = format!("SELECT {} FROM users u WHERE u.id IN {marks}", author::COLUMNS);
        read(&self.all(sql, ids).await?)
    }

    /// Fails unless the user is a member of the organization.
    pub(crate) async fn check_member(
        &mut self,
        organization: OrganizationId,
        user: UserId,
        field: &'static str,
    ) -> Result<()> {
        let sql = "SELECT 1 FROM memberships WHERE organization_id = $1 AND user_id = $2";
        match self.optional(sql, args![organization, user]).await? {
            Some(_) => Ok(()),
            None => {
                let detail = format!("Invalid pk \"{user}\" - object does not exist.");
                Err(Error::refused(Some(field), detail))
            }
        }
    }
}

/// The columns `owner` and `type_index` of a property's owner.
pub(crate) const fn owner_columns(owner: PropertyOwner) -> (&'static str, i64) {
    match owner {
        PropertyOwner::Event => ("event", -1),
        PropertyOwner::Person => ("person", -1),
        PropertyOwner::Group(index) => ("group", index as i64),
    }
}
