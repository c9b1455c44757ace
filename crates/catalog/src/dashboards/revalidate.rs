//! Revalidates that a public link exposes nothing that is hidden from the user who shares it.
//!
//! Whether a user may see all that an insight queries is checked before the transaction begins. The
//! transaction then compares the stored queries with the checked ones, which closes the gap between
//! check and use (TOCTOU).

use std::collections::HashMap;

use model::{DashboardId, Insight, InsightId, ProjectId, VerbatimJson};
use serde_json::{Map, Value};

use super::insights;
use crate::db::{self, Tx, args};
use crate::{Error, Result};

pub const LINK_EXPOSES_HIDDEN: &str = "A link would show what is hidden from you.";

/// Insights whose query the user may see completely, with the query that was checked.
#[derive(Default)]
pub struct CheckedInsights(HashMap<InsightId, CheckedQuery>);

#[derive(PartialEq)]
enum CheckedQuery {
    Query(VerbatimJson),
    Filters(Map<String, Value>),
}

impl CheckedQuery {
    fn of(insight: &Insight) -> Self {
        match &insight.query {
            Some(query) => Self::Query(query.clone()),
            None => Self::Filters(insight.filters.clone()),
        }
    }
}

impl CheckedInsights {
    pub fn add(&mut self, insight: &Insight) {
        self.0.insert(insight.id, CheckedQuery::of(insight));
    }

    /// Checks that every insight is among the checked ones, with an unchanged query.
    pub(crate) fn revalidate(&self, shown: &[Insight]) -> Result<()> {
        let is_seen =
            |insight: &Insight| self.0.get(&insight.id) == Some(&CheckedQuery::of(insight));
        match shown.iter().all(|insight| insight.deleted || is_seen(insight)) {
            true => Ok(()),
            false => Err(Error::Forbidden(LINK_EXPOSES_HIDDEN)),
        }
    }

    /// Like [`Self::revalidate`], for insights that are added to dashboards with an enabled link.
    pub(crate) async fn revalidate_added(
        &self,
        tx: &mut Tx,
        project: ProjectId,
        insights: Vec<InsightId>,
        on: &[DashboardId],
    ) -> Result<()> {
        if insights.is_empty() || !is_any_linked(tx, on).await? {
            return Ok(());
        }
        self.revalidate(&insights::by_ids(tx, project, None, insights).await?)
    }
}

async fn is_any_linked(tx: &mut Tx, dashboards: &[DashboardId]) -> Result<bool> {
    let ids: Vec<db::Value> = dashboards.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT dashboard_id FROM sharing_configurations \
               WHERE enabled AND dashboard_id IN {list}";
    Ok(!tx.all_in(sql, args![], &ids).await?.is_empty())
}
