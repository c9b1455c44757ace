//! The user nested in another object's row: its author, owner or last editor.

use std::collections::{BTreeSet, HashMap};

use model::{User, UserId};

use super::Row;
use super::dialect::placeholders;
use super::executor::Executor;
use crate::Result;

/// Columns of a nested user, for a table joined as `u`; read by [`read`].
pub(crate) const COLUMNS: &str = "u.id AS u_id, u.uuid AS u_uuid, u.distinct_id AS u_distinct_id, \
     u.first_name AS u_first_name, u.last_name AS u_last_name, u.email AS u_email, \
     u.is_email_verified AS u_is_email_verified";

/// Like [`COLUMNS`], for a user joined under another alias.
pub(crate) fn columns_as(alias: &str) -> String {
    COLUMNS.replace("u.", &format!("{alias}.")).replace(" u_", &format!(" {alias}_"))
}

/// The nested user of a row that selected [`COLUMNS`]; none if the join matched nobody.
pub(crate) fn read(row: &Row) -> Result<Option<User>> {
    read_as(row, "u")
}

/// The nested user of a row that selected [`columns_as`].
pub(crate) fn read_as(row: &Row, alias: &str) -> Result<Option<User>> {
    let name = |column: &str| format!("{alias}_{column}");
    let Some(id) = row.get::<Option<UserId>>(&name("id"))? else { return Ok(None) };
    Ok(Some(User {
        id,
        uuid: row.get(&name("uuid"))?,
        distinct_id: row.get(&name("distinct_id"))?,
        first_name: row.get(&name("first_name"))?,
        last_name: row.get(&name("last_name"))?,
        email: row.get(&name("email"))?,
        is_email_verified: row.get(&name("is_email_verified"))?,
        // Left out: settings may be large, and lists repeat their authors.
        hedgehog_config: None,
        role_at_organization: None,
    }))
}

/// Several users by id, in one statement.
pub(crate) async fn by_ids(
    executor: &mut impl Executor,
    ids: impl IntoIterator<Item = UserId>,
) -> Result<HashMap<UserId, User>> {
    let ids: BTreeSet<UserId> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let marks = placeholders(1, ids.len());
    let sql = format!("SELECT {COLUMNS} FROM users u WHERE u.id IN {marks}");
    let rows = executor.fetch(sql, ids.into_iter().map(Into::into).collect()).await?;
    let users = rows.iter().filter_map(|row| read(row).transpose());
    users.map(|user| user.map(|user| (user.id, user))).collect()
}
