//! Annotations: dated notes on charts, of one project or of the whole organization.

use model::{
    Annotation, AnnotationId, AnnotationScope, CreationType, DashboardId, InsightId, ObjectKind,
    ProjectId, Timestamp, Visibilities, Window,
};

use super::Annotations;
use crate::activity::{ANNOTATION_SCOPE, Actor, Logged};
use crate::db::select::Condition;
use crate::db::{Row, Tx, args, author};
use crate::objects::edit::{Deleted, Editable, set};
use crate::{Error, Result};

pub struct NewAnnotation {
    pub content: Option<String>,
    pub date_marker: Option<Timestamp>,
    pub creation_type: CreationType,
    pub scope: AnnotationScope,
    pub dashboard_item: Option<InsightId>,
    pub dashboard_id: Option<DashboardId>,
    pub deleted: bool,
}

/// A partial update; absent fields stay unchanged.
#[derive(Default)]
pub struct AnnotationChange {
    pub content: Option<Option<String>>,
    pub date_marker: Option<Option<Timestamp>>,
    pub creation_type: Option<CreationType>,
    pub scope: Option<AnnotationScope>,
    pub dashboard_item: Option<Option<InsightId>>,
    pub dashboard_id: Option<Option<DashboardId>>,
    pub deleted: Option<bool>,
}

/// Filters of a list; an absent filter matches everything.
#[derive(Default)]
pub struct AnnotationFilter {
    pub created_before: Option<Timestamp>,
    pub created_after: Option<Timestamp>,
    pub scope: Option<AnnotationScope>,
    pub dashboard_item: Option<InsightId>,
    pub search: Option<String>,
    /// Which dashboards and insights the reader may see; annotations on others are left out.
    pub visibility: Visibilities,
}

const COLUMNS: &str = "a.id, a.project_id, a.content, a.date_marker, a.creation_type, a.scope, \
     a.created_at, a.updated_at, a.deleted, a.insight_id, a.dashboard_id, \
     d.name AS dashboard_name, i.short_id AS insight_short_id, i.name AS insight_name, \
     i.derived_name AS insight_derived_name, d.created_by AS dashboard_author, \
     i.created_by AS insight_author";
const FROM: &str = "annotations a JOIN projects p ON p.id = a.project_id \
     LEFT JOIN users u ON u.id = a.created_by \
     LEFT JOIN dashboards d ON d.id = a.dashboard_id \
     LEFT JOIN insights i ON i.id = a.insight_id";
/// A project's annotations, and those that other projects share with the organization.
const VISIBLE: &str = "p.deleted_at IS NULL AND (a.project_id = $1 \
     OR (a.scope = 'organization' AND a.organization_id = \
     (SELECT own.organization_id FROM projects own WHERE own.id = $1)))";

fn read(row: &Row) -> Result<Annotation> {
    let creation_type: String = row.get("creation_type")?;
    let scope: String = row.get("scope")?;
    Ok(Annotation {
        id: row.get("id")?,
        content: row.get("content")?,
        date_marker: row.get("date_marker")?,
        creation_type: CreationType::parse(&creation_type)
            .ok_or_else(|| Error::corrupt("creation_type", &creation_type))?,
        dashboard_item: row.get("insight_id")?,
        dashboard_id: row.get("dashboard_id")?,
        dashboard_name: row.get("dashboard_name")?,
        insight_short_id: row.get("insight_short_id")?,
        insight_name: row.get("insight_name")?,
        insight_derived_name: row.get("insight_derived_name")?,
        created_by: author::read(row)?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        deleted: row.get("deleted")?,
        scope: AnnotationScope::parse(&scope).ok_or_else(|| Error::corrupt("scope", &scope))?,
        project: row.get("project_id")?,
        dashboard_author: row.get("dashboard_author")?,
        insight_author: row.get("insight_author")?,
    })
}

impl Logged for Annotation {
    const SCOPE: &'static str = ANNOTATION_SCOPE;
    /// The log has the id of the annotated object but not its name, which not every reader may see.
    const UNLOGGED: &'static [&'static str] = &[
        "updated_at",
        "dashboard_name",
        "insight_short_id",
        "insight_name",
        "insight_derived_name",
    ];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        self.content.clone()
    }
}

impl Editable for Annotation {
    type Id = AnnotationId;

    async fn lock(tx: &mut Tx, actor: &Actor, id: AnnotationId) -> Result<Self> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} WHERE {VISIBLE} AND a.id = $2{}",
            author::COLUMNS,
            tx.dialect().for_update_of("a"),
        );
        read(&tx.one(sql, args![actor.project, id]).await?)
    }

    async fn save(&mut self, tx: &mut Tx, _: &Self) -> Result<()> {
        tx.run(
            "UPDATE annotations SET content = $2, date_marker = $3, creation_type = $4, \
             scope = $5, deleted = $6, updated_at = $7, insight_id = $8, dashboard_id = $9 \
             WHERE id = $1",
            args![
                self.id,
                self.content.as_deref(),
                self.date_marker,
                self.creation_type.as_str(),
                self.scope.as_str(),
                self.deleted,
                self.updated_at,
                self.dashboard_item,
                self.dashboard_id,
            ],
        )
        .await?;
        Ok(())
    }

    fn project(&self) -> ProjectId {
        self.project
    }

    fn is_deleted(&self) -> bool {
        self.deleted
    }

    fn mark_changed(&mut self, now: Timestamp) {
        self.updated_at = now;
    }
}

/// Checks that an annotation on one insight or dashboard names it.
fn check_target(annotation: &Annotation) -> Result<()> {
    let missing = match annotation.scope {
        AnnotationScope::DashboardItem if annotation.dashboard_item.is_none() => "dashboard_item",
        AnnotationScope::Dashboard if annotation.dashboard_id.is_none() => "dashboard_id",
        _ => return Ok(()),
    };
    Err(Error::refused(Some(missing), "This scope needs an object to be drawn on."))
}

impl Annotations<'_> {
    /// Latest first, by the annotated date.
    pub async fn list(
        self,
        project: ProjectId,
        filter: &AnnotationFilter,
        window: Window,
    ) -> Result<(Vec<Annotation>, i64)> {
        let mut condition = Condition::new(
            &format!("{VISIBLE}{}", Deleted::Exclude.condition("a")),
            args![project],
        );
        if let Some(before) = filter.created_before {
            condition.and("a.created_at < ?", before);
        }
        if let Some(after) = filter.created_after {
            condition.and("a.created_at > ?", after);
        }
        if let Some(scope) = filter.scope {
            condition.and("a.scope = ?", scope.as_str());
        }
        if let Some(insight) = filter.dashboard_item {
            condition.and("a.insight_id = ?", insight);
        }
        if let Some(search) = &filter.search {
            condition.and_contains("a.content", search);
        }
        for (scope, kind, alias) in [
            (AnnotationScope::Dashboard, ObjectKind::Dashboard, "d"),
            (AnnotationScope::DashboardItem, ObjectKind::Insight, "i"),
        ] {
            let visible_sql = condition.bind_visible(filter.visibility.of(kind), alias);
            condition.and_sql(&format!(
                "(a.scope <> '{}' OR {alias}.id IS NULL OR {visible_sql})",
                scope.as_str()
            ));
        }
        let columns = format!("{COLUMNS}, {}", author::COLUMNS);
        let order = "COALESCE(a.date_marker, a.created_at) DESC, a.id DESC";
        let (rows, total) = self.core.db.page(&columns, FROM, condition, order, window).await?;
        Ok((rows.iter().map(read).collect::<Result<_>>()?, total))
    }

    pub async fn get(
        self,
        project: ProjectId,
        id: AnnotationId,
        deleted: Deleted,
    ) -> Result<Annotation> {
        let sql = format!(
            "SELECT {COLUMNS}, {} FROM {FROM} WHERE {VISIBLE} AND a.id = $2{}",
            author::COLUMNS,
            deleted.condition("a"),
        );
        read(&self.core.db.one(sql, args![project, id]).await?)
    }

    pub async fn create(self, actor: &Actor, new: NewAnnotation) -> Result<Annotation> {
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin().await?;
        let id = tx
            .one(
                "INSERT INTO annotations (project_id, organization_id, content, date_marker, \
                 creation_type, scope, deleted, created_by, created_at, updated_at, insight_id, \
                 dashboard_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11) \
                 RETURNING id",
                args![
                    actor.project,
                    actor.organization,
                    new.content,
                    new.date_marker,
                    new.creation_type.as_str(),
                    new.scope.as_str(),
                    new.deleted,
                    actor.user,
                    now,
                    new.dashboard_item,
                    new.dashboard_id,
                ],
            )
            .await?
            .get("id")?;
        let annotation = Annotation::lock(&mut tx, actor, id).await?;
        tx.log_created(actor, &annotation, now).await?;
        tx.commit().await?;
        Ok(annotation)
    }

    /// The actor's project must be the annotation's.
    pub async fn update(
        self,
        actor: &Actor,
        id: AnnotationId,
        change: AnnotationChange,
    ) -> Result<Annotation> {
        let mut tx = self.core.db.begin().await?;
        let apply = |annotation: &mut Annotation, _| {
            set(&mut annotation.content, change.content);
            set(&mut annotation.date_marker, change.date_marker);
            set(&mut annotation.creation_type, change.creation_type);
            set(&mut annotation.scope, change.scope);
            set(&mut annotation.dashboard_item, change.dashboard_item);
            set(&mut annotation.dashboard_id, change.dashboard_id);
            set(&mut annotation.deleted, change.deleted);
            check_target(annotation)
        };
        self.core.edit_in(&mut tx, actor, id, apply).await?;
        // Reads it again, for the name of the object it is attached to now.
        let annotation = Annotation::lock(&mut tx, actor, id).await?;
        tx.commit().await?;
        Ok(annotation)
    }
}
