//! The access rules of a project: listing and setting them.

use model::ProjectId;
use serde_json::json;

use super::{AccessRules, ProjectRow, lock};
use crate::access::{self, ALL_OF_A_KIND, AccessRule, COLUMNS, RuleSubject, RuleTarget};
use crate::activity::{Actor, Change, ChangeAction, Item, Logged as _};
use crate::db::object_tables::ObjectTable;
use crate::db::{Tx, args};
use crate::{Error, Result};

/// The object whose log records the rule; [`Error::NotFound`] if it is missing.
async fn logged_item(tx: &mut Tx, target: RuleTarget, project: &ProjectRow) -> Result<Item> {
    let RuleTarget::Object(kind, id) = target else { return Ok(Item::of(project)) };
    let ObjectTable { table, title, scope } = ObjectTable::of(kind);
    let sql =
        format!("SELECT {title} FROM {table} WHERE project_id = $1 AND id = $2 AND NOT deleted");
    let row = tx.one(sql, args![project.id, id]).await?;
    let (name, short_id) = (row.get("title")?, row.get("short_id")?);
    Ok(Item { scope, id: id.to_string(), name, short_id })
}

/// Checks that the rule's member or role belongs to the project's organization.
async fn check_subject(tx: &mut Tx, subject: RuleSubject, project: &ProjectRow) -> Result<()> {
    let (table, field, id) = match subject {
        RuleSubject::Everyone => return Ok(()),
        RuleSubject::Member(id) => ("memberships", "organization_member", id),
        RuleSubject::Role(id) => ("roles", "role", id),
    };
    let sql = format!("SELECT id FROM {table} WHERE organization_id = $1 AND id = $2");
    match tx.optional(sql, args![project.organization, id]).await? {
        Some(_) => Ok(()),
        None => {
            let detail = format!("Invalid pk \"{id}\" - object does not exist.");
            Err(Error::Invalid { field, code: "does_not_exist", detail })
        }
    }
}

impl AccessRules<'_> {
    /// Oldest first.
    pub async fn list(self, project: ProjectId, target: RuleTarget) -> Result<Vec<AccessRule>> {
        let (resource, number) = target.columns(project);
        let sql = format!(
            "SELECT {COLUMNS} FROM access_controls r \
             WHERE r.project_id = $1 AND r.resource = $2 AND r.resource_id = $3 ORDER BY r.id"
        );
        self.core
            .db
            .all(sql, args![project, resource, number])
            .await?
            .iter()
            .map(AccessRule::read)
            .collect()
    }

    /// The rules about whole kinds of objects, oldest first.
    pub async fn list_for_kinds(self, project: ProjectId) -> Result<Vec<AccessRule>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM access_controls r \
             WHERE r.project_id = $1 AND r.resource_id = {ALL_OF_A_KIND} ORDER BY r.id"
        );
        self.core.db.all(sql, args![project]).await?.iter().map(AccessRule::read).collect()
    }

    /// Sets or, without a level, deletes the rule about a target for a subject. Returns the rule
    /// afterwards.
    pub async fn set(
        self,
        actor: &Actor,
        target: RuleTarget,
        subject: RuleSubject,
        level: Option<&str>,
    ) -> Result<Option<AccessRule>> {
        let id = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        tx.invalidate_project(id);
        let project = lock(&mut tx, id).await?;
        let item = logged_item(&mut tx, target, &project).await?;
        check_subject(&mut tx, subject, &project).await?;
        let now = self.core.clock.now();
        let (before, after) = access::write(&mut tx, id, target, subject, level, now).await?;
        if before == after {
            return Ok(after);
        }
        let action = match (&before, &after) {
            (None, _) => ChangeAction::Created,
            (_, None) => ChangeAction::Deleted,
            _ => ChangeAction::Changed,
        };
        let logged = |rule: &AccessRule| {
            json!({
                "access_level": rule.access_level, "resource": rule.resource,
                "organization_member": rule.organization_member, "role": rule.role,
            })
        };
        let change = Change {
            scope: item.scope.into(),
            action,
            field: Some("access_controls".into()),
            before: before.as_ref().map(logged),
            after: after.as_ref().map(logged),
        };
        tx.log_item(actor, ProjectRow::UPDATED, &item, vec![change], now).await?;
        tx.commit().await?;
        Ok(after)
    }
}
