//! `WebStatsTableQuery`: visitors and views by page, source, device or place.

use hogql::ast::{Expr, Query};
use hogql::build::{all, any, binary, boolean, call, field, int, is_null, literal, null};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Column, Direction, OrderField, Table, is_event, is_view, page, property, rows_max};
use crate::lower::selection::both;
use crate::lower::{Statement, expression};
use crate::statement_query::StatementResult;
use crate::{Error, Result};

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebStatsTableFields")]
pub(crate) struct StatsTableSpec {
    breakdown_by: BreakdownBy,
    #[serde(default)]
    include_scroll_depth: bool,
    #[serde(default)]
    include_bounce_rate: bool,
    #[serde(default)]
    include_avg_time_on_page: bool,
    /// Shows the host before the path of a page.
    #[serde(default)]
    include_host: bool,
    #[serde(default)]
    pub limit: Option<u64>,
    #[serde(default)]
    offset: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "WebStatsBreakdown")]
enum BreakdownBy {
    Page,
    InitialPage,
    ExitPage,
    ExitClick,
    PreviousPage,
    ScreenName,
    InitialChannelType,
    InitialReferringDomain,
    #[serde(rename = "InitialReferringURL")]
    InitialReferringUrl,
    #[serde(rename = "InitialUTMSource")]
    InitialUtmSource,
    #[serde(rename = "InitialUTMCampaign")]
    InitialUtmCampaign,
    #[serde(rename = "InitialUTMMedium")]
    InitialUtmMedium,
    #[serde(rename = "InitialUTMTerm")]
    InitialUtmTerm,
    #[serde(rename = "InitialUTMContent")]
    InitialUtmContent,
    #[serde(rename = "InitialUTMSourceMediumCampaign")]
    InitialUtmSourceMediumCampaign,
    Browser,
    #[serde(rename = "OS")]
    Os,
    Viewport,
    DeviceType,
    Country,
    Region,
    City,
    Timezone,
    Language,
    FrustrationMetrics,
}

/// A number of each row: its column, and how it is computed from visits; `{in}` is the period.
struct Measure {
    column: Column,
    field: OrderField,
    expr: &'static str,
    /// Orders rows that tie in the chosen column.
    breaks_ties: bool,
    /// Whether the bar of a row is its share of the total; otherwise the number itself.
    is_share: bool,
}

const fn count(
    field: OrderField,
    name: &'static str,
    expr: &'static str,
    breaks_ties: bool,
) -> Measure {
    Measure { column: Column { name, value: "UInt64" }, field, expr, breaks_ties, is_share: true }
}

const fn rate(field: OrderField, name: &'static str, expr: &'static str) -> Measure {
    let column = Column { name, value: "Float64" };
    Measure { column, field, expr, breaks_ties: false, is_share: false }
}

const VISITORS: Measure = count(OrderField::Visitors, "visitors", "uniqIf(person, {in})", true);
const VIEWS: Measure = count(OrderField::Views, "views", "sumIf(views, {in})", true);
const BOUNCE_RATE: Measure = rate(OrderField::BounceRate, "bounce_rate", "avgIf(bounced, {in})");
const TOTAL_CONVERSIONS: Measure =
    count(OrderField::TotalConversions, "total_conversions", "sumIf(conversions, {in})", true);
const UNIQUE_CONVERSIONS: Measure = count(
    OrderField::UniqueConversions,
    "unique_conversions",
    "uniqIf(person, conversions > 0 AND {in})",
    true,
);
const CONVERSION_RATE: Measure = rate(
    OrderField::ConversionRate,
    "conversion_rate",
    "uniqIf(person, conversions > 0 AND {in}) / nullIf(uniqIf(person, {in}), 0)",
);
const ERRORS: Measure = count(OrderField::Errors, "errors", "sumIf(errors, {in})", true);
const RAGE_CLICKS: Measure =
    count(OrderField::RageClicks, "rage_clicks", "sumIf(rage_clicks, {in})", true);
const DEAD_CLICKS: Measure =
    count(OrderField::DeadClicks, "dead_clicks", "sumIf(dead_clicks, {in})", true);

/// Numbers of a page that other rows than its views tell: the sessions that it began, and what the SDK
/// reports about it with the next page.
const PAGE_BOUNCE_RATE: Measure =
    rate(OrderField::BounceRate, "bounce_rate", "any(bounces.{period})");
const SCROLL_AVERAGE: Measure = rate(
    OrderField::AverageScrollPercentage,
    "average_scroll_percentage",
    "any(scrolls.average_{period})",
);
const SCROLL_GT80: Measure =
    rate(OrderField::ScrollGt80Percentage, "scroll_gt80_percentage", "any(scrolls.gt80_{period})");
const TIME_ON_PAGE: Measure = Measure {
    is_share: true,
    ..rate(OrderField::AvgTimeOnPage, "avg_time_on_page", "any(times.{period})")
};

impl StatsTableSpec {
    fn measures(&self, has_goal: bool) -> Vec<Measure> {
        let is_page = self.breakdown_by == BreakdownBy::Page;
        if self.breakdown_by == BreakdownBy::FrustrationMetrics {
            return vec![RAGE_CLICKS, DEAD_CLICKS, ERRORS];
        }
        let mut measures = vec![VISITORS];
        if has_goal {
            measures.extend([TOTAL_CONVERSIONS, UNIQUE_CONVERSIONS, CONVERSION_RATE]);
            return measures;
        }
        measures.push(VIEWS);
        let scroll = is_page && self.include_scroll_depth;
        let time = is_page && self.include_avg_time_on_page && !scroll;
        measures.extend(time.then_some(TIME_ON_PAGE));
        if is_page && (self.include_bounce_rate || scroll || time) {
            measures.push(PAGE_BOUNCE_RATE);
        } else if self.include_bounce_rate {
            measures.push(BOUNCE_RATE);
        }
        if scroll {
            measures.extend([SCROLL_AVERAGE, SCROLL_GT80]);
        }
        measures
    }

    fn limit(&self) -> u64 {
        rows_max(self.limit)
    }

    fn offset(&self) -> u64 {
        self.offset.unwrap_or(0)
    }
}

impl Table<'_> {
    /// Rows of the value, each number with that of the period that is compared with, and the length of
    /// the row's bar.
    pub(super) fn stats_table(&self, spec: &StatsTableSpec) -> Result<Query> {
        let goal = self.goal()?;
        let measures = spec.measures(goal.is_some());
        let mut statement = Statement::default();
        self.visits(spec, goal, &mut statement)?;
        let mut joins = String::new();
        let mut join = |name: &str| {
            joins += &format!(" LEFT JOIN {name} ON visits.value = {name}.value");
        };
        let has = |field: OrderField| measures.iter().any(|measure| measure.field == field);
        if spec.breakdown_by == BreakdownBy::Page && has(OrderField::BounceRate) {
            self.bounces(spec, &mut statement)?;
            join("bounces");
        }
        if has(OrderField::AverageScrollPercentage) {
            self.scrolls(spec, &mut statement)?;
            join("scrolls");
        }
        if has(OrderField::AvgTimeOnPage) {
            self.times(spec, &mut statement)?;
            join("times");
        }
        let mut numbers = String::new();
        for (no, measure) in measures.iter().enumerate() {
            for period in ["current", "previous"] {
                let expr = measure.expr.replace("{period}", period);
                let expr = expr.replace("{in}", &format!("{{{period}}}"));
                numbers += &format!(", {expr} AS {period}_{no}");
            }
        }
        let (value, locale) = match spec.breakdown_by {
            // The language of `en-US`, and the most frequent rest.
            BreakdownBy::Language => (
                "splitByChar('-', visits.value)[1]",
                ", topK(1)(splitByChar('-', visits.value)[2])[1] AS locale",
            ),
            _ => ("visits.value", ""),
        };
        let text = format!(
            "SELECT {value} AS counted{locale}{numbers} FROM visits{joins} GROUP BY counted"
        );
        // Without a comparison, also sessions count that started before the period.
        let current = match self.periods.compares() {
            true => self.periods.current("started"),
            false => boolean(true),
        };
        let previous = self.periods.previous("started");
        statement.cte("counts", &text, &[("current", current), ("previous", previous)])?;
        let columns = (0..measures.len()).map(|no| format!(", current_{no}, previous_{no}"));
        let columns: String = columns.collect();
        let locale = if locale.is_empty() { "" } else { ", locale" };
        let (fill, order) = self.fill_and_order(spec, &measures);
        let is_any = (0..measures.len()).map(|no| format!("current_{no} > 0 OR previous_{no} > 0"));
        let kept = match spec.breakdown_by {
            BreakdownBy::FrustrationMetrics => is_any.collect::<Vec<_>>().join(" OR "),
            _ => "true".to_owned(),
        };
        let text = format!(
            "SELECT counted{columns}, {fill}{locale} FROM counts WHERE {kept} \
             ORDER BY {order} LIMIT {{limit}} OFFSET {{offset}}"
        );
        let (limit, offset) = (int(spec.limit() + 1), int(spec.offset()));
        statement.finish(&text, &[("limit", limit), ("offset", offset)])
    }

    /// One row for each session and value.
    fn visits(
        &self,
        spec: &StatsTableSpec,
        goal: Option<Expr>,
        statement: &mut Statement,
    ) -> Result<()> {
        let frustration = ["$exception", "$rageclick", "$dead_click"].map(is_event);
        let events = match spec.breakdown_by {
            BreakdownBy::FrustrationMetrics => {
                any([is_view()].into_iter().chain(frustration).collect())
            }
            _ => self.views_or(goal.clone()),
        };
        let value = self.breakdown(spec)?;
        let known = match spec.breakdown_by {
            BreakdownBy::InitialReferringUrl => boolean(true),
            _ => known(spec.breakdown_by, &value)?,
        };
        let group = match spec.breakdown_by {
            // An aggregate of the session.
            BreakdownBy::InitialReferringUrl => "$session_id HAVING value IS NOT NULL",
            _ => "$session_id, value",
        };
        let text = format!(
            "SELECT {{value}} AS value, argMin(person_id, timestamp) AS person, \
             countIf({{view}}) AS views, any(if(session.$is_bounce, 1, 0)) AS bounced, \
             min(session.$start_timestamp) AS started, countIf({{goal}}) AS conversions, \
             countIf(event = '$exception') AS errors, countIf(event = '$rageclick') AS rage_clicks, \
             countIf(event = '$dead_click') AS dead_clicks \
             FROM events WHERE {{events}} GROUP BY {group}"
        );
        let parts = [
            ("value", value),
            ("view", is_view()),
            ("goal", goal.unwrap_or_else(|| boolean(false))),
            ("events", both([Some(self.events(events)), Some(known)])),
        ];
        statement.cte("visits", &text, &parts)
    }

    /// The bounce rate of the sessions that began on a page.
    fn bounces(&self, spec: &StatsTableSpec, statement: &mut Statement) -> Result<()> {
        let entry = field(&["session", "$entry_pathname"]);
        let entry = self.with_host(spec, entry, field(&["session", "$entry_hostname"]));
        statement.cte(
            "entries",
            "SELECT {value} AS value, any(if(session.$is_bounce, 1, 0)) AS bounced, \
             min(session.$start_timestamp) AS started FROM events WHERE {events} \
             GROUP BY $session_id, value",
            &[("value", entry), ("events", self.events(is_view()))],
        )?;
        let (current, previous) = self.started();
        statement.cte(
            "bounces",
            "SELECT value, avgIf(bounced, {current}) AS current, \
             avgIf(bounced, {previous}) AS previous FROM entries GROUP BY value",
            &[("current", current), ("previous", previous)],
        )
    }

    /// How far visitors scrolled on a page, as the next page reports it.
    fn scrolls(&self, spec: &StatsTableSpec, statement: &mut Statement) -> Result<()> {
        let (current, previous) =
            (self.periods.current("timestamp"), self.periods.previous("timestamp"));
        statement.cte(
            "scrolls",
            "SELECT {value} AS value, \
             avgIf(toFloat(properties.$prev_pageview_max_scroll_percentage), {current}) \
             AS average_current, \
             avgIf(toFloat(properties.$prev_pageview_max_scroll_percentage), {previous}) \
             AS average_previous, \
             avgIf({far}, {current}) AS gt80_current, avgIf({far}, {previous}) AS gt80_previous \
             FROM events WHERE {events} GROUP BY value",
            &[
                ("value", self.previous_path(spec)),
                ("far", expression(
                    "if(toFloat(properties.$prev_pageview_max_content_percentage) IS NULL, NULL, \
                     if(toFloat(properties.$prev_pageview_max_content_percentage) > 0.8, 1, 0))",
                    &[],
                )?),
                ("current", current),
                ("previous", previous),
                ("events", self.next_pages()),
            ],
        )
    }

    /// How long visitors stayed on a page, as the next page reports it: at most a day, the 90th
    /// percentile.
    fn times(&self, spec: &StatsTableSpec, statement: &mut Statement) -> Result<()> {
        let (current, previous) =
            (self.periods.current("timestamp"), self.periods.previous("timestamp"));
        statement.cte(
            "times",
            "SELECT {value} AS value, quantileIf(0.9)({seconds}, {current}) AS current, \
             quantileIf(0.9)({seconds}, {previous}) AS previous \
             FROM events WHERE {events} AND properties.$prev_pageview_duration IS NOT NULL \
             GROUP BY value",
            &[
                ("value", self.previous_path(spec)),
                (
                    "seconds",
                    expression("least(toFloat(properties.$prev_pageview_duration), 86400)", &[])?,
                ),
                ("current", current),
                ("previous", previous),
                ("events", self.next_pages()),
            ],
        )
    }

    fn next_pages(&self) -> Expr {
        let leaves = any(vec![is_view(), is_event("$pageleave")]);
        let known = is_null(property("$prev_pageview_pathname"), true);
        self.events(all(vec![leaves, known]))
    }

    fn previous_path(&self, spec: &StatsTableSpec) -> Expr {
        self.with_host(spec, property("$prev_pageview_pathname"), property("$host"))
    }

    fn started(&self) -> (Expr, Expr) {
        let current = match self.periods.compares() {
            true => self.periods.current("started"),
            false => boolean(true),
        };
        (current, self.periods.previous("started"))
    }

    /// A cleaned path, with its host if the query wants it.
    fn with_host(&self, spec: &StatsTableSpec, path: Expr, host: Expr) -> Expr {
        let path = self.path(path);
        match spec.include_host {
            // Without a path there is no page.
            true => {
                let is_missing = is_null(path.clone(), false);
                let page = call("concat", vec![call("ifNull", vec![host, literal("")]), path]);
                call("if", vec![is_missing, null(), page])
            }
            false => path,
        }
    }

    fn breakdown(&self, spec: &StatsTableSpec) -> Result<Expr> {
        let session = |name: &str| field(&["session", name]);
        let host = |name: &str| session(name);
        Ok(match spec.breakdown_by {
            BreakdownBy::Page | BreakdownBy::FrustrationMetrics => {
                self.with_host(spec, property("$pathname"), property("$host"))
            }
            BreakdownBy::InitialPage => {
                self.with_host(spec, session("$entry_pathname"), host("$entry_hostname"))
            }
            BreakdownBy::ExitPage => self.path(session("$end_pathname")),
            BreakdownBy::ExitClick => session("$last_external_click_url"),
            BreakdownBy::PreviousPage => expression(
                // Within the site the path, from elsewhere the whole URL.
                "multiIf(properties.$prev_pageview_pathname IS NOT NULL, {previous}, \
                 domain(ifNull({url}, '')) = domain(ifNull({referrer}, '')), {path}, {referrer})",
                &[
                    ("previous", self.path(property("$prev_pageview_pathname"))),
                    ("url", property("$current_url")),
                    ("referrer", property("$referrer")),
                    ("path", self.path(call("path", vec![property("$referrer")]))),
                ],
            )?,
            BreakdownBy::ScreenName => property("$screen_name"),
            BreakdownBy::InitialChannelType => session("$channel_type"),
            BreakdownBy::InitialReferringDomain => session("$entry_referring_domain"),
            BreakdownBy::InitialReferringUrl => expression(
                "cutQueryStringAndFragment(argMin(toString(properties.$referrer), timestamp))",
                &[],
            )?,
            BreakdownBy::InitialUtmSource => session("$entry_utm_source"),
            BreakdownBy::InitialUtmCampaign => session("$entry_utm_campaign"),
            BreakdownBy::InitialUtmMedium => session("$entry_utm_medium"),
            BreakdownBy::InitialUtmTerm => session("$entry_utm_term"),
            BreakdownBy::InitialUtmContent => session("$entry_utm_content"),
            BreakdownBy::InitialUtmSourceMediumCampaign => expression(
                "concat(coalesce(session.$entry_utm_source, \
                 if(isNull(session.$entry_referring_domain), NULL, \
                 concat('referrer:', session.$entry_referring_domain)), '(none)'), \
                 ' / ', ifNull(session.$entry_utm_medium, '(none)'), \
                 ' / ', ifNull(session.$entry_utm_campaign, '(none)'))",
                &[],
            )?,
            BreakdownBy::Browser => property("$browser"),
            BreakdownBy::Os => property("$os"),
            BreakdownBy::Viewport => pair("$viewport_width", "$viewport_height"),
            BreakdownBy::DeviceType => property("$device_type"),
            BreakdownBy::Country => property("$geoip_country_code"),
            BreakdownBy::Region => call(
                "tuple",
                vec![
                    property("$geoip_country_code"),
                    property("$geoip_subdivision_1_code"),
                    property("$geoip_subdivision_1_name"),
                ],
            ),
            BreakdownBy::City => pair("$geoip_country_code", "$geoip_city_name"),
            // The browser counts minutes, west of Greenwich positive.
            BreakdownBy::Timezone => {
                expression("toFloat(properties.$timezone_offset) * -1 / 60", &[])?
            }
            BreakdownBy::Language => property("$browser_language"),
        })
    }

    fn fill_and_order(&self, spec: &StatsTableSpec, measures: &[Measure]) -> (String, String) {
        let chosen = self.web.order_by;
        let direction = chosen.map_or(Direction::Desc, |(_, direction)| direction).word();
        let at = |field: OrderField| measures.iter().position(|measure| measure.field == field);
        let mut order: Vec<usize> = chosen.and_then(|(field, _)| at(field)).into_iter().collect();
        let ties: &[OrderField] = match spec.breakdown_by {
            BreakdownBy::FrustrationMetrics => {
                &[OrderField::Errors, OrderField::RageClicks, OrderField::DeadClicks]
            }
            _ => &[
                OrderField::UniqueConversions,
                OrderField::TotalConversions,
                OrderField::Visitors,
                OrderField::Views,
            ],
        };
        for no in ties.iter().filter_map(|field| at(*field)) {
            if measures[no].breaks_ties && !order.contains(&no) {
                order.push(no);
            }
        }
        let first = order.first().copied().unwrap_or(0);
        let fill = match measures[first].is_share {
            true => format!("current_{first} / sum(current_{first}) OVER ()"),
            false => format!("current_{first}"),
        };
        let compares = self.periods.compares();
        let columns = order.iter().flat_map(|no| {
            let previous = compares.then(|| format!("previous_{no} {direction}"));
            std::iter::once(format!("current_{no} {direction}")).chain(previous)
        });
        let columns: Vec<String> = columns.chain(["counted ASC".to_owned()]).collect();
        (fill, columns.join(", "))
    }

    pub(super) fn stats_result(
        &self,
        spec: &StatsTableSpec,
        mut rows: Vec<Vec<Json>>,
        result: &mut StatementResult,
    ) -> Result<()> {
        page(&mut rows, spec.limit(), spec.offset(), result);
        let measures = spec.measures(self.web.conversion_goal.is_some());
        let has_fill = spec.breakdown_by != BreakdownBy::FrustrationMetrics;
        let compares = self.periods.compares();
        let mut shaped = Vec::new();
        for row in &rows {
            let mut values = row.iter().cloned();
            let mut next = || {
                let why = || Error::invalid("The rows are not those of the query's statement.");
                values.next().ok_or_else(why)
            };
            let mut value = next()?;
            let mut cells = Vec::new();
            for _ in &measures {
                let (current, previous) = (next()?, next()?);
                cells.push(json!([current, if compares { previous } else { Json::Null }]));
            }
            let fill = next()?;
            if spec.breakdown_by == BreakdownBy::Language {
                let locale = next()?;
                let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
                value = format!("{}-{}", text(&value), text(&locale)).into();
            }
            cells.insert(0, value);
            cells.extend(has_fill.then_some(fill));
            // Where PostHog's interface offers further products.
            cells.push("".into());
            shaped.push(Json::Array(cells));
        }
        result.results = Json::Array(shaped);
        let name = |name: &str| format!("context.columns.{name}");
        let mut columns = vec![(name("breakdown_value"), spec.breakdown_by.ty())];
        columns.extend(measures.iter().map(|measure| {
            let ty = match measure.column.value {
                "UInt64" => "Tuple(UInt64, Nullable(UInt64))",
                _ => "Tuple(Nullable(Float64), Nullable(Float64))",
            };
            (name(measure.column.name), ty)
        }));
        columns.extend(has_fill.then(|| (name("ui_fill_fraction"), "Float64")));
        columns.push((name("cross_sell"), "String"));
        result.columns = Some(columns);
        Ok(())
    }
}

impl BreakdownBy {
    const fn ty(self) -> &'static str {
        match self {
            Self::Viewport | Self::City => "Tuple(Nullable(String), Nullable(String))",
            Self::Region => "Tuple(Nullable(String), Nullable(String), Nullable(String))",
            Self::Timezone => "Nullable(Float64)",
            _ => "Nullable(String)",
        }
    }
}

fn pair(first: &str, second: &str) -> Expr {
    call("tuple", vec![property(first), property(second)])
}

/// Whether an event has the value. Campaigns also count visitors without one.
fn known(by: BreakdownBy, value: &Expr) -> Result<Expr> {
    let is_known = |name: &str| is_null(property(name), true);
    Ok(match by {
        BreakdownBy::Region => is_known("$geoip_subdivision_1_code"),
        BreakdownBy::City => is_known("$geoip_city_name"),
        BreakdownBy::Viewport => expression(
            "toFloat(properties.$viewport_width) > 0 AND toFloat(properties.$viewport_height) > 0",
            &[],
        )?,
        BreakdownBy::InitialUtmSource
        | BreakdownBy::InitialUtmCampaign
        | BreakdownBy::InitialUtmMedium
        | BreakdownBy::InitialUtmTerm
        | BreakdownBy::InitialUtmContent => boolean(true),
        BreakdownBy::InitialChannelType => all(vec![
            is_null(value.clone(), true),
            binary(hogql::ast::BinaryOp::NotEqual, value.clone(), literal("")),
        ]),
        _ => is_null(value.clone(), true),
    })
}
