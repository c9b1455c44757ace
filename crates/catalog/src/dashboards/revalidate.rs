//! A link that is on shows nothing to strangers that whoever shares it does not see.
//!
//! Whether somebody sees all that an insight asks for is found out before a transaction begins. In
//! it, what is stored is held against what was checked at: nobody is in between any more.

use std::collections::HashMap;

use model::{DashboardId, Insight, InsightId, ProjectId, Written};
use serde_json::{Map, Value};

use super::insights;
use crate::db::{self, Tx, args};
use crate::{Error, Result};

pub const LINK_EXPOSES_HIDDEN: &str = "A link would show what is hidden from you.";

/// Insights that somebody sees all of, by what they asked then.
#[derive(Default)]
pub struct CheckedInsights(HashMap<InsightId, Asked>);

#[derive(PartialEq)]
enum Asked {
    Query(Written),
    Filters(Map<String, Value>),
}

impl Asked {
    fn by(insight: &Insight) -> Self {
        match &insight.query {
            Some(query) => Self::Query(query.clone()),
            None => Self::Filters(insight.filters.clone()),
        }
    }
}

impl CheckedInsights {
    pub fn add(&mut self, insight: &Insight) {
        self.0.insert(insight.id, Asked::by(insight));
    }

    /// Whether all that a link shows was checked at, as it is now.
    pub(crate) fn check(&self, shown: &[Insight]) -> Result<()> {
        let is_seen = |insight: &Insight| self.0.get(&insight.id) == Some(&Asked::by(insight));
        match shown.iter().all(|insight| insight.deleted || is_seen(insight)) {
            true => Ok(()),
            false => Err(Error::Forbidden(LINK_EXPOSES_HIDDEN)),
        }
    }

    /// The same for what comes on dashboards, whose links show it at once.
    pub(crate) async fn check_joining(
        &self,
        tx: &mut Tx,
        project: ProjectId,
        insights: Vec<InsightId>,
        on: &[DashboardId],
    ) -> Result<()> {
        if insights.is_empty() || !is_any_linked(tx, on).await? {
            return Ok(());
        }
        self.check(&insights::by_ids(tx, project, None, insights).await?)
    }
}

async fn is_any_linked(tx: &mut Tx, dashboards: &[DashboardId]) -> Result<bool> {
    let ids: Vec<db::Value> = dashboards.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT dashboard_id FROM sharing_configurations \
               WHERE enabled AND dashboard_id IN {list}";
    Ok(!tx.all_in(sql, args![], &ids).await?.is_empty())
}
