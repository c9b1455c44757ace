//! Access rules, and the access that they give to one member of a project.
//!
//! [`effective_access`] alone evaluates rules in code. Lists of projects filter by [`may_enter`], the
//! same rule in SQL.

use model::{
    Access, AccessLevel, AppliesTo, MembershipLevel, ObjectKind, ProjectAccess, ProjectId,
    Timestamp, UserId, Visibilities, Visibility,
};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::db::executor::Executor;
use crate::db::object_tables::ObjectTable;
use crate::db::{Row, Tx, args, handle};
use crate::{Error, Result};

handle! {
    /// What the access rules allow a member to see and do.
    AccessControl
}

/// Our own limit: each request loads all rules that apply to its user.
const RULES_MAX: i64 = 2_000;
/// `resource_id` of a rule about all objects of a kind; no object has this id.
pub(crate) const ALL_OF_A_KIND: i64 = 0;
const PROJECT: &str = "project";
pub(crate) const CANNOT_VIEW: &str = "You do not have viewer access to this resource.";
pub(crate) const CANNOT_CREATE: &str = "You do not have editor access to this resource.";
const MEMBER_LEVEL: i64 = MembershipLevel::Member as i64;

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTarget {
    Project,
    Kind(ObjectKind),
    Object(ObjectKind, i64),
}

/// Whom a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSubject {
    Everyone,
    /// By the id of the membership, not of the user.
    Member(Uuid),
    Role(Uuid),
}

/// A rule, as the API serializes it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AccessControl")]
pub struct AccessRule {
    pub access_level: String,
    pub resource: String,
    /// Null for a rule about all objects of a kind.
    pub resource_id: Option<String>,
    pub organization_member: Option<Uuid>,
    pub role: Option<Uuid>,
    /// Always null: Terraform's provider cannot read an object in its place.
    pub created_by: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A member's access to one project, with all rules applied.
#[derive(Clone, Debug)]
pub struct EffectiveAccess {
    /// The level in the project; a rule may raise a plain member to administrator.
    pub level: MembershipLevel,
    /// Whether the organization allows this user to authenticate with a personal API key.
    pub may_use_keys: bool,
    pub access: Access,
}

pub(crate) const COLUMNS: &str = "r.resource, r.resource_id, r.membership_id, r.role_id, r.access_level, \
     r.created_at, r.updated_at";
const FOR_EVERYONE: &str = "r.membership_id IS NULL AND r.role_id IS NULL";
/// Rules for the member `m`: by membership or by one of the member's roles.
const FOR_MEMBER: &str = "(r.membership_id = m.id OR r.role_id IN \
     (SELECT x.role_id FROM role_memberships x WHERE x.membership_id = m.id))";

/// Whether the project `p` is closed to members whom no rule names.
pub(crate) const IS_PRIVATE: &str = "EXISTS (SELECT 1 FROM access_controls r \
     WHERE r.project_id = p.id AND r.resource = 'project' AND r.membership_id IS NULL \
     AND r.role_id IS NULL AND r.access_level = 'none')";

/// SQL: whether the member `m` may enter the project `p`.
pub(crate) fn may_enter() -> String {
    let highest = |whom: &str| {
        format!(
            "(SELECT MAX(CASE r.access_level WHEN 'none' THEN 0 ELSE 1 END) \
             FROM access_controls r WHERE r.project_id = p.id AND r.resource = '{PROJECT}' \
             AND {whom})"
        )
    };
    let (member, everyone) = (highest(FOR_MEMBER), highest(FOR_EVERYONE));
    format!("(m.level > {MEMBER_LEVEL} OR COALESCE({member}, {everyone}, 1) = 1)")
}

/// None for non-members, and for members whom the rules exclude from the project.
pub(crate) async fn effective_access(
    executor: &mut impl Executor,
    user: UserId,
    project: ProjectId,
) -> Result<Option<EffectiveAccess>> {
    let sql = format!(
        "SELECT m.level, o.members_can_use_personal_api_keys AS keys, r.resource, \
         r.resource_id, r.access_level, r.membership_id, r.role_id FROM projects p \
         JOIN organizations o ON o.id = p.organization_id \
         JOIN memberships m ON m.organization_id = o.id AND m.user_id = $2 \
         LEFT JOIN access_controls r ON r.project_id = p.id AND m.level = {MEMBER_LEVEL} \
         AND ({FOR_MEMBER} OR ({FOR_EVERYONE})) WHERE p.id = $1"
    );
    let rows = executor.fetch(sql, args![project, user]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let rank: MembershipLevel = first.get("level")?;
    let may_use_keys = rank > MembershipLevel::Member || first.get("keys")?;
    let mut access = Access::default();
    for row in &rows {
        if row.get::<Option<String>>("resource")?.is_some() {
            add_rule(&mut access, row)?;
        }
    }
    let level = match (rank, access.project()) {
        (MembershipLevel::Admin | MembershipLevel::Owner, _) => rank,
        (MembershipLevel::Member, ProjectAccess::Admin) => MembershipLevel::Admin,
        (MembershipLevel::Member, ProjectAccess::Member) => MembershipLevel::Member,
        (MembershipLevel::Member, ProjectAccess::None) => return Ok(None),
    };
    Ok(Some(EffectiveAccess { level, may_use_keys, access }))
}

fn add_rule(access: &mut Access, row: &Row) -> Result<()> {
    let is_named = row.get::<Option<Uuid>>("membership_id")?.is_some()
        || row.get::<Option<Uuid>>("role_id")?.is_some();
    let whom = if is_named { AppliesTo::Named } else { AppliesTo::Everyone };
    let (resource, level): (String, String) = (row.get("resource")?, row.get("access_level")?);
    let unknown = || Error::corrupt("access_level", &level);
    if resource == PROJECT {
        let level = ProjectAccess::parse(&level).ok_or_else(unknown)?;
        access.add_project_rule(whom, level);
        return Ok(());
    }
    let kind = ObjectKind::parse(&resource).ok_or_else(|| Error::corrupt("resource", &resource))?;
    let level = AccessLevel::parse(&level).ok_or_else(unknown)?;
    match row.get("resource_id")? {
        ALL_OF_A_KIND => access.add_kind_rule(kind, whom, level),
        id => access.add_object_rule(kind, id, whom, level),
    }
    Ok(())
}

impl RuleTarget {
    pub(crate) fn columns(self, project: ProjectId) -> (&'static str, i64) {
        match self {
            Self::Project => (PROJECT, project.0),
            Self::Kind(kind) => (kind.as_str(), ALL_OF_A_KIND),
            Self::Object(kind, id) => (kind.as_str(), id),
        }
    }
}

impl RuleSubject {
    fn columns(self) -> (Option<Uuid>, Option<Uuid>) {
        match self {
            Self::Everyone => (None, None),
            Self::Member(id) => (Some(id), None),
            Self::Role(id) => (None, Some(id)),
        }
    }
}

impl AccessRule {
    pub(crate) fn read(row: &Row) -> Result<Self> {
        let number: i64 = row.get("resource_id")?;
        Ok(Self {
            access_level: row.get("access_level")?,
            resource: row.get("resource")?,
            resource_id: (number != ALL_OF_A_KIND).then(|| number.to_string()),
            organization_member: row.get("membership_id")?,
            role: row.get("role_id")?,
            created_by: None,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
        })
    }
}

/// The id of a rule, and the rule as stored.
async fn find(
    tx: &mut Tx,
    project: ProjectId,
    target: RuleTarget,
    subject: RuleSubject,
) -> Result<Option<(i64, AccessRule)>> {
    let (resource, number) = target.columns(project);
    let mut values = args![project, resource, number];
    let whom = match subject {
        RuleSubject::Everyone => FOR_EVERYONE,
        RuleSubject::Member(id) => {
            values.extend(args![id]);
            "r.membership_id = $4"
        }
        RuleSubject::Role(id) => {
            values.extend(args![id]);
            "r.role_id = $4"
        }
    };
    let sql = format!(
        "SELECT r.id, {COLUMNS} FROM access_controls r \
         WHERE r.project_id = $1 AND r.resource = $2 AND r.resource_id = $3 AND {whom}"
    );
    let row = tx.optional(sql, values).await?;
    row.map(|row| Ok((row.get("id")?, AccessRule::read(&row)?))).transpose()
}

/// Writes or deletes one rule, and returns it before and after. The transaction must hold the lock
/// on the project's row. Nothing is logged.
pub(crate) async fn write(
    tx: &mut Tx,
    project: ProjectId,
    target: RuleTarget,
    subject: RuleSubject,
    level: Option<&str>,
    now: Timestamp,
) -> Result<(Option<AccessRule>, Option<AccessRule>)> {
    let current = find(tx, project, target, subject).await?;
    match (&current, level) {
        (Some((_, rule)), Some(level)) if rule.access_level == level => {}
        (Some((id, _)), Some(level)) => {
            let sql = "UPDATE access_controls SET access_level = $2, updated_at = $3 WHERE id = $1";
            tx.run(sql, args![*id, level, now]).await?;
        }
        (Some((id, _)), None) => {
            tx.run("DELETE FROM access_controls WHERE id = $1", args![*id]).await?;
        }
        (None, Some(level)) => {
            let sql = "SELECT COUNT(*) AS total FROM access_controls WHERE project_id = $1";
            if tx.one(sql, args![project]).await?.get::<i64>("total")? >= RULES_MAX {
                let detail = format!("A project has at most {RULES_MAX} access controls.");
                return Err(Error::refused(None, detail));
            }
            let ((resource, number), (member, role)) = (target.columns(project), subject.columns());
            tx.run(
                "INSERT INTO access_controls (project_id, resource, resource_id, membership_id, \
                 role_id, access_level, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $7)",
                args![project, resource, number, member, role, level, now],
            )
            .await?;
        }
        (None, None) => {}
    }
    let after = find(tx, project, target, subject).await?;
    Ok((current.map(|(_, rule)| rule), after.map(|(_, rule)| rule)))
}

impl AccessControl<'_> {
    /// The ids of existing objects among `ids` that are not visible to the reader.
    pub async fn hidden(
        self,
        project: ProjectId,
        kind: ObjectKind,
        ids: &[i64],
        visibilities: &Visibilities,
    ) -> Result<Vec<i64>> {
        let visibility = visibilities.of(kind);
        if *visibility == Visibility::Everything {
            return Ok(Vec::new());
        }
        let table = ObjectTable::of(kind).table;
        let sql =
            format!("SELECT id, created_by FROM {table} WHERE project_id = $1 AND id IN {{list}}");
        let list: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
        let mut hidden = Vec::new();
        for row in self.core.db.all_in(&sql, args![project], &list).await? {
            let id = row.get("id")?;
            if !visibility.holds(id, row.get("created_by")?) {
                hidden.push(id);
            }
        }
        Ok(hidden)
    }

    /// None for non-members, and for members whom the rules exclude from the project.
    pub async fn effective(
        self,
        user: UserId,
        project: ProjectId,
    ) -> Result<Option<EffectiveAccess>> {
        effective_access(&mut &self.core.db, user, project).await
    }
}
