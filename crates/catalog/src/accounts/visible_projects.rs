//! The projects and organizations that a user may enter.

use std::collections::HashSet;

use model::{MembershipLevel, OrganizationId, ProjectId, UserId, Window};

use super::Users;
use super::keys::PersonalKey;
use crate::Result;
use crate::access::may_enter;
use crate::db::args;
use crate::db::dialect::placeholders;
use crate::projects::{ProjectRow, columns};

impl Users<'_> {
    /// The projects of all the user's organizations that the user may enter. A key narrows them to
    /// those it grants access to.
    pub async fn projects(
        self,
        user: UserId,
        by: Option<&PersonalKey>,
        window: Window,
    ) -> Result<(Vec<ProjectRow>, i64)> {
        let mut from = format!(
            "FROM projects p JOIN memberships m ON m.organization_id = p.organization_id \
             JOIN organizations o ON o.id = p.organization_id \
             WHERE m.user_id = $1 AND p.deleted_at IS NULL AND {}",
            may_enter()
        );
        let mut values = args![user];
        if by.is_some() {
            from += " AND (o.members_can_use_personal_api_keys OR m.level > $2)";
            values.extend(args![i64::from(MembershipLevel::Member)]);
        }
        if let Some(only) = by.and_then(|key| key.scoped_organizations.as_ref()) {
            let marks = placeholders(values.len() + 1, only.len());
            from += &format!(" AND p.organization_id IN {marks}");
            values.extend(only.iter().map(|id| (*id).into()));
        }
        self.page_of_projects(from, values, window).await
    }

    /// The projects of one organization that the user may enter.
    pub async fn projects_within(
        self,
        organization: OrganizationId,
        user: UserId,
        window: Window,
    ) -> Result<(Vec<ProjectRow>, i64)> {
        let from = format!(
            "FROM projects p JOIN memberships m ON m.organization_id = p.organization_id \
             WHERE p.organization_id = $1 AND m.user_id = $2 AND p.deleted_at IS NULL AND {}",
            may_enter()
        );
        self.page_of_projects(from, args![organization, user], window).await
    }

    async fn page_of_projects(
        self,
        from: String,
        mut values: Vec<crate::db::Value>,
        window: Window,
    ) -> Result<(Vec<ProjectRow>, i64)> {
        let count = format!("SELECT COUNT(*) AS total {from}");
        let total = self.core.db.one(count, values.clone()).await?.get("total")?;
        let next = values.len() + 1;
        let sql =
            format!("SELECT {} {from} ORDER BY p.id LIMIT ${next} OFFSET ${}", columns(), next + 1);
        values.extend(args![window.limit, window.offset]);
        let rows = self.core.db.all(sql, values).await?;
        Ok((rows.iter().map(ProjectRow::read).collect::<Result<_>>()?, total))
    }

    /// The projects of several organizations that the user may enter, for lists that nest them.
    pub async fn projects_in(
        self,
        organizations: &[OrganizationId],
        user: UserId,
    ) -> Result<Vec<ProjectRow>> {
        let mut values = args![user];
        let marks = placeholders(values.len() + 1, organizations.len());
        let sql = format!(
            "SELECT {} FROM projects p JOIN memberships m \
             ON m.organization_id = p.organization_id AND m.user_id = $1 \
             WHERE p.organization_id IN {marks} AND p.deleted_at IS NULL AND {} ORDER BY p.id",
            columns(),
            may_enter(),
        );
        values.extend(organizations.iter().map(|id| (*id).into()));
        self.core.db.all(sql, values).await?.iter().map(ProjectRow::read).collect()
    }

    /// All projects the user may enter and all the user's organizations: the most that a key of
    /// theirs can be scoped to.
    pub async fn reach(
        self,
        user: UserId,
    ) -> Result<(HashSet<ProjectId>, HashSet<OrganizationId>)> {
        let sql = format!(
            "SELECT p.id FROM projects p \
             JOIN memberships m ON m.organization_id = p.organization_id \
             WHERE m.user_id = $1 AND p.deleted_at IS NULL AND {}",
            may_enter()
        );
        let rows = self.core.db.all(sql, args![user]).await?;
        let projects = rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
        let sql = "SELECT organization_id FROM memberships WHERE user_id = $1";
        let rows = self.core.db.all(sql, args![user]).await?;
        let organizations =
            rows.iter().map(|row| row.get("organization_id")).collect::<Result<_>>()?;
        Ok((projects, organizations))
    }
}
