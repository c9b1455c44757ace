//! Tags on objects of any kind.

use std::collections::HashMap;

use model::ProjectId;

use crate::db::dialect::placeholders;
use crate::db::executor::Executor;
use crate::db::{Db, Row, Tx, Value, args};
use crate::{Error, Result};

/// PostHog's limit.
pub const TAG_CHARS_MAX: usize = 255;
/// Our own limit per object.
pub const TAGS_MAX: usize = 100;

/// The stored form: trimmed, lower case, unique, sorted.
pub fn normalize_tags(given: &[String]) -> Vec<String> {
    let mut tags: Vec<String> =
        given.iter().map(|tag| tag.trim().to_lowercase()).filter(|tag| !tag.is_empty()).collect();
    tags.sort();
    tags.dedup();
    tags
}

/// The tags of several objects of one kind, in one statement. Objects without tags are left out.
pub(crate) async fn of_many(
    db: &Db,
    project: ProjectId,
    object: &str,
    ids: &[String],
) -> Result<HashMap<String, Vec<String>>> {
    let mut tags: HashMap<String, Vec<String>> = HashMap::new();
    if ids.is_empty() {
        return Ok(tags);
    }
    let (sql, values) = select(project, object, ids);
    for row in db.all(sql, values).await? {
        tags.entry(row.get("object_id")?).or_default().push(row.get("tag")?);
    }
    Ok(tags)
}

/// Like [`of_many`], for numeric ids, inside or outside of a transaction.
pub(crate) async fn of_numbered(
    executor: &mut impl Executor,
    project: ProjectId,
    object: &str,
    ids: &[i64],
) -> Result<HashMap<i64, Vec<String>>> {
    let mut tags: HashMap<i64, Vec<String>> = HashMap::new();
    if ids.is_empty() {
        return Ok(tags);
    }
    let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let (sql, values) = select(project, object, &texts);
    for row in executor.fetch(sql, values).await? {
        let id: String = row.get("object_id")?;
        let id = id.parse().map_err(|why| Error::corrupt("object_id", why))?;
        tags.entry(id).or_default().push(row.get("tag")?);
    }
    Ok(tags)
}

/// The tags of one object, within a transaction.
pub(crate) async fn of_one(
    tx: &mut Tx,
    project: ProjectId,
    object: &str,
    id: String,
) -> Result<Vec<String>> {
    let (sql, values) = select(project, object, &[id]);
    tx.all(sql, values).await?.iter().map(|row: &Row| row.get("tag")).collect()
}

fn select(project: ProjectId, object: &str, ids: &[String]) -> (String, Vec<Value>) {
    let mut values = args![project, object];
    let marks = placeholders(values.len() + 1, ids.len());
    values.extend(ids.iter().map(|id| Value::from(id.as_str())));
    let sql = format!(
        "SELECT object_id, tag FROM taggings \
         WHERE project_id = $1 AND object = $2 AND object_id IN {marks} ORDER BY tag"
    );
    (sql, values)
}

/// Replaces an object's tags.
pub(crate) async fn replace(
    tx: &mut Tx,
    project: ProjectId,
    object: &str,
    id: String,
    tags: &[String],
) -> Result<()> {
    tx.run(
        "DELETE FROM taggings WHERE project_id = $1 AND object = $2 AND object_id = $3",
        args![project, object, id.as_str()],
    )
    .await?;
    if tags.is_empty() {
        return Ok(());
    }
    let mut values = args![project, object, id];
    let rows: Vec<String> = tags
        .iter()
        .map(|tag| {
            values.push(tag.as_str().into());
            format!("($1, $2, $3, ${})", values.len())
        })
        .collect();
    let sql = format!(
        "INSERT INTO taggings (project_id, object, object_id, tag) VALUES {}",
        rows.join(", ")
    );
    tx.run(sql, values).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_trimmed_lowered_and_deduplicated() {
        let given = ["  Foo", "foo", "bar", "  ", "ÄRGER"].map(str::to_owned);
        assert_eq!(normalize_tags(&given), ["bar", "foo", "ärger"]);
    }
}
