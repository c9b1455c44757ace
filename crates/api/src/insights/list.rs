//! Listing insights: filters, order and results.

use std::collections::BTreeSet;

use catalog::{InsightFilter, InsightOrder};
use model::{DashboardId, InsightKind, Timestamp, UserId, Visibilities};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::overrides::Overrides;
use super::response::InsightResponse;
use super::results::{DashboardOverrides, RunOptions, refresh, run_all};
use super::viewer::InsightViewer;
use crate::http::body::tags;
use crate::http::path::{given, instant, search, switch};
use crate::{App, Error, Listing, Page, Query, Result};

/// Values in one list parameter.
const VALUES_MAX: usize = 100;

#[derive(Deserialize, JsonSchema)]
pub(super) struct ListQuery {
    short_id: Option<String>,
    /// A substring of the name, the description or a tag.
    search: Option<String>,
    saved: Option<String>,
    favorited: Option<String>,
    /// If present, with any value: only the caller's own.
    user: Option<String>,
    /// A user id, or a JSON array of them.
    created_by: Option<String>,
    /// Modified since: a date, or relative to now, as in `-7d`.
    date_from: Option<String>,
    /// Modified until.
    date_to: Option<String>,
    /// TRENDS, FUNNELS, RETENTION, PATHS, STICKINESS, LIFECYCLE, SQL or JSON.
    insight: Option<String>,
    /// A JSON array of dashboard ids; the insight must be on all of them.
    dashboards: Option<String>,
    /// A JSON array of tags; the insight must have one of them.
    tags: Option<String>,
    /// A JSON array of events that the insight queries.
    events: Option<String>,
    /// A field; `-` before it sorts descending.
    order: Option<String>,
    /// The refresh mode; cached results only, if not given.
    refresh: Option<String>,
    /// Whether to omit results.
    basic: Option<String>,
    /// JSON filters to apply on top of each query; not with a sharing token.
    filters_override: Option<String>,
    /// JSON variables for each query; not with a sharing token.
    variables_override: Option<String>,
}

pub(super) async fn list(
    viewer: InsightViewer,
    page: Page,
    query: Query<ListQuery>,
    app: App,
) -> Result<Listing<InsightResponse>> {
    let (project, user) = (viewer.project(), viewer.user());
    if user.is_none() && query.searches() {
        return Err(Error::bad_request("A shared link lists what it shows, by short_id at most."));
    }
    let overrides =
        Overrides::read(query.filters_override.as_ref(), query.variables_override.as_ref())?;
    viewer.check_overrides(&overrides)?;
    let refresh = viewer.refresh(refresh(given(query.refresh.as_ref()))?);
    let is_basic = switch("basic", query.basic.as_ref())? == Some(true);
    let mut filter = query.filter(user, app.catalog.clock().now())?;
    viewer.narrow(&mut filter);
    let (insights, total) =
        app.catalog.insights().list(project.id, user, &filter, page.window).await?;
    let mut shown: Vec<InsightResponse> =
        insights.into_iter().map(|insight| viewer.show(insight)).collect();
    if !is_basic {
        let alone = RunOptions::new(refresh, viewer.visibilities()).overridden(overrides);
        let dashboard = match viewer.dashboard() {
            Some(on) => Some(DashboardOverrides::of(&app, project.id, on).await?),
            None => None,
        };
        let options = |id| match &dashboard {
            Some(on) => on.run_options(refresh, id, viewer.visibilities()),
            None => alone.clone(),
        };
        let all = shown.iter_mut().map(|shown| {
            let options = options(shown.insight().id);
            (shown, options)
        });
        run_all(&app, project, all.collect()).await;
    }
    Ok(page.listing(shown, total))
}

impl ListQuery {
    /// Whether the request filters by more than `short_id`. With a sharing token that would reveal
    /// what the link hides, such as authors and other dashboards.
    fn searches(&self) -> bool {
        [
            &self.search,
            &self.saved,
            &self.favorited,
            &self.user,
            &self.created_by,
            &self.date_from,
            &self.date_to,
            &self.insight,
            &self.dashboards,
            &self.tags,
            &self.events,
            &self.order,
        ]
        .into_iter()
        .any(Option::is_some)
    }

    fn filter(&self, user: Option<UserId>, now: Timestamp) -> Result<InsightFilter> {
        let kind = given(self.insight.as_ref()).map(|text| {
            InsightKind::parse(text).ok_or_else(|| Error::invalid_choice("insight", text))
        });
        let mut created_by: Vec<UserId> = match given(self.created_by.as_ref()) {
            Some(text) if !text.starts_with('[') => {
                array("created_by", Some(&format!("[{text}]")))?
            }
            _ => array("created_by", self.created_by.as_ref())?,
        };
        if self.user.is_some() {
            created_by = user.into_iter().collect();
        }
        let dashboards: Vec<DashboardId> = array("dashboards", self.dashboards.as_ref())?;
        Ok(InsightFilter {
            id: None,
            short_id: given(self.short_id.as_ref()).map(str::to_owned),
            search: search(self.search.as_ref())?,
            saved: switch("saved", self.saved.as_ref())?,
            favorited: switch("favorited", self.favorited.as_ref())?,
            created_by,
            modified_from: timestamp("date_from", self.date_from.as_ref(), now)?,
            modified_to: timestamp("date_to", self.date_to.as_ref(), now)?,
            kind: kind.transpose()?,
            dashboards: dashboards.into_iter().collect::<BTreeSet<_>>(),
            tags: tags(&array::<String>("tags", self.tags.as_ref())?)?,
            events: array("events", self.events.as_ref())?,
            order: order(given(self.order.as_ref()))?,
            visibility: Visibilities::default(),
        })
    }
}

fn order(text: Option<&str>) -> Result<InsightOrder> {
    let Some(text) = text else { return Ok(InsightOrder::default()) };
    InsightOrder::parse(text).ok_or_else(|| Error::invalid_choice("order", text))
}

fn array<T: DeserializeOwned>(attr: &str, text: Option<&String>) -> Result<Vec<T>> {
    let Some(text) = given(text) else { return Ok(Vec::new()) };
    let read: Vec<T> = serde_json::from_str(text)
        .map_err(|_| Error::invalid(attr, "invalid_input", "Expected a JSON array."))?;
    if read.len() > VALUES_MAX {
        let detail = format!("Ensure this field has no more than {VALUES_MAX} elements.");
        return Err(Error::invalid(attr, "max_length", detail));
    }
    Ok(read)
}

/// Parses a timestamp, or hours, days, weeks, months or years before now, as in `-7d`.
fn timestamp(attr: &str, text: Option<&String>, now: Timestamp) -> Result<Option<Timestamp>> {
    const HOUR: i64 = 3_600;
    let span = given(text).and_then(|text| {
        let (number, unit) = text.strip_prefix('-')?.split_at_checked(text.len() - 2)?;
        let hours = match unit {
            "h" => 1,
            "d" => 24,
            "w" => 7 * 24,
            "m" => 30 * 24,
            "y" => 365 * 24,
            _ => return None,
        };
        number.parse::<u32>().ok().map(|number| i64::from(number) * hours * HOUR)
    });
    match span {
        Some(seconds) => Ok(Some(now.plus_seconds(-seconds))),
        None => instant(attr, text),
    }
}
