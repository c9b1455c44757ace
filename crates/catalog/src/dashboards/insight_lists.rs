//! Lists of insights, and when each user last viewed one.

use std::collections::{BTreeSet, HashMap};

use model::{
    DashboardId, Insight, InsightId, InsightKind, ObjectKind, ProjectId, Timestamp, User, UserId,
    Visibilities, Window,
};

use super::Insights;
use super::insights::{COLUMNS, FROM, OBJECT, read_all};
use crate::Result;
use crate::db::dialect::placeholders;
use crate::db::select::Condition;
use crate::db::{args, author};

/// Filters of a list; an absent filter matches everything.
#[derive(Default)]
pub struct InsightFilter {
    pub id: Option<InsightId>,
    pub short_id: Option<String>,
    pub search: Option<String>,
    /// True: the insight is saved, or on a dashboard.
    pub saved: Option<bool>,
    pub favorited: Option<bool>,
    /// Created by any of them.
    pub created_by: Vec<UserId>,
    pub modified_from: Option<Timestamp>,
    pub modified_to: Option<Timestamp>,
    pub kind: Option<InsightKind>,
    /// On all of these dashboards.
    pub dashboards: BTreeSet<DashboardId>,
    /// Tagged with any of these.
    pub tags: Vec<String>,
    /// The query names all of these events.
    pub events: Vec<String>,
    pub order: InsightOrder,
    pub visibility: Visibilities,
}

/// A sort column and a direction.
#[derive(Clone, Copy)]
pub struct InsightOrder {
    column: &'static str,
    descending: bool,
}

impl Default for InsightOrder {
    fn default() -> Self {
        Self { column: "COALESCE(i.position, 9223372036854775807)", descending: false }
    }
}

impl InsightOrder {
    /// Parses a field name, with a leading `-` for descending order; none for fields without an
    /// order.
    pub fn parse(text: &str) -> Option<Self> {
        let (field, descending) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
        let column = match field {
            "order" => Self::default().column,
            "id" => "i.id",
            "name" => "COALESCE(i.name, i.derived_name, '')",
            "created_at" => "i.created_at",
            "updated_at" => "i.updated_at",
            "last_modified_at" => "i.last_modified_at",
            "last_viewed_at" => "COALESCE(v.viewed_at, 0)",
            "favorited" => "i.favorited",
            "saved" => "i.saved",
            "created_by" | "created_by__first_name" => "COALESCE(i.created_by, 0)",
            _ => return None,
        };
        Some(Self { column, descending })
    }

    fn sql(self) -> String {
        format!("{}{}, i.id", self.column, if self.descending { " DESC" } else { "" })
    }
}

const ON_A_DASHBOARD: &str = "EXISTS (SELECT 1 FROM dashboard_tiles t \
     JOIN dashboards d ON d.id = t.dashboard_id \
     WHERE t.insight_id = i.id AND NOT t.deleted AND NOT d.deleted)";

impl InsightFilter {
    fn condition(&self, project: ProjectId, viewer: Option<UserId>) -> Condition {
        let which = "i.project_id = $1 AND NOT i.deleted";
        let mut condition = Condition::new(which, args![project, viewer]);
        if let Some(id) = self.id {
            condition.and("i.id = ?", id);
        }
        if let Some(short_id) = &self.short_id {
            condition.and("i.short_id = ?", short_id.as_str());
        }
        if let Some(search) = &self.search {
            let columns = ["i.name", "i.derived_name", "i.description"];
            condition.and_search(&columns, Some((OBJECT, "i")), search);
        }
        match self.saved {
            Some(true) => condition.and_sql(&format!("(i.saved OR {ON_A_DASHBOARD})")),
            Some(false) => condition.and_sql("NOT i.saved"),
            None => {}
        }
        if let Some(favorited) = self.favorited {
            condition.and("i.favorited = ?", favorited);
        }
        if !self.created_by.is_empty() {
            condition.and_in("i.created_by IN ?", self.created_by.clone());
        }
        if let Some(from) = self.modified_from {
            condition.and("i.last_modified_at >= ?", from);
        }
        if let Some(to) = self.modified_to {
            condition.and("i.last_modified_at <= ?", to);
        }
        if let Some(kind) = self.kind {
            condition.and("i.kind = ?", kind.as_str());
        }
        for dashboard in &self.dashboards {
            let visible_sql =
                condition.bind_visible(self.visibility.of(ObjectKind::Dashboard), "d");
            let this = format!("NOT t.deleted AND d.id = ? AND {visible_sql}");
            condition.and(&ON_A_DASHBOARD.replace("NOT t.deleted", &this), *dashboard);
        }
        if !self.tags.is_empty() {
            condition.and_tagged(OBJECT, "i", &self.tags);
        }
        for event in &self.events {
            // Queries are stored without whitespace, so this substring names an event.
            let named = format!("\"event\":{}", serde_json::Value::from(event.as_str()));
            condition.and_contains("i.query", &named);
        }
        condition.and_visible(self.visibility.of(ObjectKind::Insight), "i");
        condition
    }
}

impl Insights<'_> {
    pub async fn list(
        self,
        project: ProjectId,
        viewer: Option<UserId>,
        filter: &InsightFilter,
        window: Window,
    ) -> Result<(Vec<Insight>, i64)> {
        let (condition, order) = (filter.condition(project, viewer), filter.order.sql());
        let (rows, total) = self.core.db.page(COLUMNS, FROM, condition, &order, window).await?;
        Ok((read_all(&mut &self.core.db, project, viewer, &rows).await?, total))
    }

    /// The insights that a user viewed last, latest first.
    pub async fn recently_viewed(
        self,
        project: ProjectId,
        viewer: UserId,
        count: i64,
    ) -> Result<Vec<Insight>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {FROM} WHERE i.project_id = $1 AND NOT i.deleted \
             AND v.viewed_at IS NOT NULL ORDER BY v.viewed_at DESC, i.id DESC LIMIT $3"
        );
        let rows = self.core.db.all(sql, args![project, viewer, count]).await?;
        read_all(&mut &self.core.db, project, Some(viewer), &rows).await
    }

    /// The insights that most users have viewed since then, with these users, latest first.
    pub async fn most_viewed(
        self,
        project: ProjectId,
        reader: UserId,
        since: Timestamp,
        count: i64,
        visibilities: &Visibilities,
    ) -> Result<Vec<(Insight, Vec<User>)>> {
        let mut condition =
            Condition::new("i.project_id = $1 AND NOT i.deleted", args![project, reader]);
        condition.and(
            "(SELECT COUNT(*) FROM insight_views w WHERE w.insight_id = i.id AND w.viewed_at >= ?) > 0",
            since,
        );
        condition.and_visible(visibilities.of(ObjectKind::Insight), "i");
        let order = format!(
            "(SELECT COUNT(*) FROM insight_views w WHERE w.insight_id = i.id \
             AND w.viewed_at >= {}) DESC, i.last_modified_at DESC, i.id",
            since.as_micros()
        );
        let window = Window { limit: count, offset: 0 };
        let rows = self.core.db.slice(COLUMNS, FROM, condition, &order, window).await?;
        let insights = read_all(&mut &self.core.db, project, Some(reader), &rows).await?;
        let ids: Vec<_> = insights.iter().map(|insight| insight.id.into()).collect();
        let sql = format!(
            "SELECT w.insight_id, {} FROM insight_views w JOIN users u ON u.id = w.user_id \
             WHERE w.viewed_at >= $1 AND w.insight_id IN {{list}} \
             ORDER BY w.viewed_at DESC, w.user_id",
            author::COLUMNS,
        );
        let mut viewers: HashMap<InsightId, Vec<User>> = HashMap::new();
        for row in self.core.db.all_in(&sql, args![since], &ids).await? {
            viewers.entry(row.get("insight_id")?).or_default().extend(author::read(&row)?);
        }
        let with = |insight: Insight| {
            let viewers = viewers.remove(&insight.id).unwrap_or_default();
            (insight, viewers)
        };
        Ok(insights.into_iter().map(with).collect())
    }

    /// Records that a user views these insights now; missing ones are skipped.
    pub async fn record_views(
        self,
        project: ProjectId,
        viewer: UserId,
        ids: &[InsightId],
    ) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let mut values = args![project, viewer, self.core.clock.now()];
        let marks = placeholders(values.len() + 1, ids.len());
        values.extend(ids.iter().map(|id| (*id).into()));
        let mut tx = self.core.db.begin().await?;
        let sql = format!(
            "INSERT INTO insight_views (insight_id, user_id, viewed_at) \
             SELECT i.id, CAST($2 AS BIGINT), CAST($3 AS BIGINT) FROM insights i \
             WHERE i.project_id = $1 AND NOT i.deleted AND i.id IN {marks} \
             ON CONFLICT (insight_id, user_id) DO UPDATE SET viewed_at = excluded.viewed_at"
        );
        tx.run(sql, values).await?;
        tx.commit().await
    }
}
