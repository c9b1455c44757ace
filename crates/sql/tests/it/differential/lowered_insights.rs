//! An insight and its own HogQL statement, which this crate runs, have the same result.
//!
//! The reference lowering is independent of this one and is compared with ClickHouse.

use hogql::PlaceholderValues;
use insights::Insight;
use serde_json::{Value as Json, json};
use testing::insights::{Generator, Reference};
use testing::{Rng, SEED};

use super::comparison::{difference, report};
use super::mirrored_project::{MirroredProject, ZONES};
use super::{QUERIES_PER_PROJECT, limits_of, seeds};

/// Insights, unless `HEDGEROW_ORACLE_QUERIES` sets their number.
const INSIGHTS: u64 = 300;

/// Draws every query: also those that depend on the order of events with equal timestamps.
struct Everything;

impl Reference for Everything {
    fn computes_filter(&self, _: &Json) -> bool {
        true
    }

    fn computes_node(&self, _: &Json) -> bool {
        true
    }

    fn computes_breakdown(&self, _: &Json) -> bool {
        true
    }

    /// All but strict funnels with optional steps, which are not lowered.
    fn computes_query(&self, query: &Json) -> bool {
        query["funnelsFilter"]["funnelOrderType"] != "strict"
            || !query.to_string().contains("\"optionalInFunnel\":true")
    }
}

/// Why the statement's rows do not give the operators' result.
fn disagreement(project: &MirroredProject, seed: u64, query: &Json) -> Option<String> {
    let insight = Insight::parse(query["kind"].as_str().unwrap(), query).unwrap().unwrap();
    let text = match insight.hogql_text(&project.view.context) {
        Ok(text) => text,
        Err(why) => return Some(format!("not lowered: {why}")),
    };
    let limits = limits_of(seed);
    let found = project.store.run_with(&text, &PlaceholderValues::default(), None, &limits);
    let rows = match found {
        Ok(found) => found.rows,
        Err(why) => return Some(format!("{why:?}\n{text}")),
    };
    let expected = project.run_insight(query);
    match insight.result_of_rows(&project.view.context, &rows) {
        Ok(result) => {
            let path = difference(&result.results, &expected)?;
            Some(format!("statement and operators{path}\n{text}"))
        }
        Err(why) => Some(format!("rows cannot be read: {why}\n{text}\n{rows:?}")),
    }
}

#[test]
fn insights_agree_with_their_own_statements() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = seeds(INSIGHTS);
    let mut wrong = Vec::new();
    let mut project: Option<(u64, MirroredProject)> = None;
    for seed in seeds.clone() {
        let number = seed / QUERIES_PER_PROJECT;
        if project.as_ref().is_none_or(|(own, _)| *own != number) {
            project = Some((number, MirroredProject::new(number, ZONES, dir.path())));
        }
        let Some((_, project)) = &project else { continue };
        let query = Generator { rng: &mut Rng::new(seed), reference: &Everything }.query();
        if let Some(why) = disagreement(project, seed, &query) {
            wrong.push(format!("{SEED}={seed}, {}: {query}\n{why}", project.zone));
        }
    }
    report("lowered insights", &seeds, (seeds.end - seeds.start) as usize, &wrong);
}

/// Options that the generator does not draw.
fn fixed_queries() -> Vec<Json> {
    let range = json!({"date_from": "2024-03-08", "date_to": "2024-04-06"});
    let cohorts = json!({"breakdown_type": "cohort", "breakdown": ["all", 5, 6]});
    let node = |event: &str| json!({"kind": "EventsNode", "event": event});
    let group = json!({"kind": "GroupNode", "operator": "OR", "nodes": [
        {"kind": "EventsNode", "event": "a", "properties": [{"key": "browser", "value": "Chrome"}]},
        {"kind": "ActionsNode", "id": 7}, {"kind": "EventsNode", "event": "$pageview"}]});
    let deleted = json!({"kind": "ActionsNode", "id": 99});
    let trends = |series: Json, more: Json| {
        let mut query = json!({"kind": "TrendsQuery", "dateRange": range, "series": series});
        more.as_object().unwrap().iter().for_each(|(key, value)| query[key] = value.clone());
        query
    };
    let funnels = |series: Json, filter: Json| {
        json!({"kind": "FunnelsQuery", "dateRange": range,
        "series": series, "funnelsFilter": filter})
    };
    let steps = json!([node("a"), node("b"), node("c")]);
    let paths = |filter: Json| {
        json!({"kind": "PathsQuery", "dateRange": range,
        "pathsFilter": filter})
    };
    let mut queries = vec![
        trends(json!([group, deleted, node("b")]), json!({})),
        trends(json!([deleted]), json!({})),
        trends(json!([node("a")]), json!({"dateRange": {"date_from": "all"}, "interval": "week"})),
        trends(
            json!([node("a")]),
            json!({"interval": "minute",
            "dateRange": {"date_from": "2024-03-10T00:00:00", "date_to": "2024-03-12T12:00:00"}}),
        ),
        trends(
            json!([node("a")]),
            json!({"dateRange": {"date_from": "2024-03-10T10:30:00",
            "date_to": "2024-03-20T12:00:00", "explicitDate": true}}),
        ),
        trends(
            json!([node("a"), node("b"), node("c")]),
            json!({
            "breakdownFilter": {"breakdowns": [{"property": "browser"}], "breakdown_limit": 2,
                "breakdown_hide_other_aggregation": true},
            "trendsFilter": {"formulaNodes": [{"formula": "A + B * C - 2"}, {"formula": "A % C",
                "custom_name": "rest"}, {"formula": "-A ** 2 / B"}]}}),
        ),
        trends(
            json!([node("a"), node("b")]),
            json!({"breakdownFilter": cohorts,
            "compareFilter": {"compare": true}}),
        ),
        trends(
            json!([node("a"), node("b")]),
            json!({"breakdownFilter": cohorts,
            "trendsFilter": {"formula": "A - B"}}),
        ),
        trends(
            json!([node("a")]),
            json!({"trendsFilter": {"display": "WorldMap"},
            "breakdownFilter": {"breakdown": "$group_0", "breakdown_type": "event_metadata"}}),
        ),
        trends(
            json!([{"kind": "EventsNode", "event": "a", "math": "avg",
            "math_property": "$is_bounce", "math_property_type": "session_properties"}]),
            json!({}),
        ),
        trends(
            json!([node("a")]),
            json!({"breakdownFilter": {"breakdowns": [
            {"property": "$start_timestamp", "type": "session"}, {"property": "$is_bounce",
            "type": "session"}, {"property": "amount"}]}}),
        ),
        json!({"kind": "StickinessQuery", "dateRange": range, "interval": "week",
            "compareFilter": {"compare": true}, "series": [
            {"kind": "EventsNode", "event": "a", "math": "unique_group", "math_group_type_index": 0},
            {"kind": "EventsNode", "event": "a", "math": "hogql", "math_hogql": "properties.browser"},
            {"kind": "EventsNode", "event": "a", "math": "hogql",
                "math_hogql": "concat(event, distinct_id)"}, deleted]}),
        json!({"kind": "LifecycleQuery", "dateRange": range, "series": [node("a")],
            "aggregation_group_type_index": 0, "interval": "week"}),
        json!({"kind": "LifecycleQuery", "dateRange": range, "series": [deleted]}),
        json!({"kind": "RetentionQuery", "dateRange": range, "breakdownFilter": cohorts,
            "retentionFilter": {"period": "Week", "retentionType": "retention_first_time",
            "targetEntity": {"id": 7, "type": "actions"}, "returningEntity": {"id": "b"}}}),
        json!({"kind": "RetentionQuery", "retentionFilter": {"period": "Hour", "totalIntervals": 31,
            "targetEntity": {"id": "a"}, "returningEntity": {"id": "a"}},
            "dateRange": {"date_to": "2024-03-20T12:00:00"}}),
        funnels(json!([node("a"), group]), json!({})),
        json!({"kind": "StickinessQuery", "dateRange": range, "interval": "month", "intervalCount": 2,
            "series": [node("a")]}),
        json!({"kind": "RetentionQuery", "dateRange": range, "breakdownFilter": cohorts,
            "retentionFilter": {"period": "Week", "timeWindowMode": "24_hour_windows",
            "retentionCustomBrackets": [2, 1], "minimumOccurrences": 2,
            "targetEntity": {"id": "a"}, "returningEntity": {"id": "b"}}}),
        json!({"kind": "RetentionQuery", "dateRange": range, "breakdownFilter": cohorts,
            "retentionFilter": {"period": "Week", "aggregationType": "avg",
            "aggregationProperty": "age", "aggregationPropertyType": "person",
            "retentionCustomBrackets": [2, 1], "minimumOccurrences": 2,
            "targetEntity": {"id": "a"}, "returningEntity": {"id": "b"}}}),
        json!({"kind": "RetentionQuery", "dateRange": range, "aggregation_group_type_index": 0,
            "retentionFilter": {"period": "Day", "aggregationType": "sum",
            "aggregationProperty": "amount", "retentionType": "retention_first_ever_occurrence",
            "targetEntity": {"id": "a"}, "returningEntity": {"id": "a"}}}),
        paths(json!({"includeEventTypes": ["$pageview", "custom_event"], "showFullUrls": true})),
        paths(json!({"includeEventTypes": ["hogql"], "stepLimit": 20, "edgeLimit": 1000,
            "pathsHogQLExpression": "upper(event)", "excludeEvents": ["B"], "maxEdgeWeight": 3})),
        paths(
            json!({"includeEventTypes": ["$screen", "$pageview"], "pathGroupings": ["/d*", "/p*g"],
            "localPathCleaningFilters": [{"regex": "^/h(o)me", "alias": "/$1"}]}),
        ),
        paths(json!({"startPoint": "a", "endPoint": "b", "stepLimit": 1})),
        paths(json!({"startPoint": "a", "endPoint": "b", "stepLimit": 4})),
    ];
    for order in ["ordered", "strict", "unordered"] {
        for viz in ["steps", "trends", "time_to_convert"] {
            let filter = json!({"funnelOrderType": order, "funnelVizType": viz, "binCount": 3,
                "funnelFromStep": 1, "funnelToStep": 2, "funnelAggregateByHogQL": "properties.browser",
                "exclusions": [{"kind": "EventsNode", "event": "$pageview"}, {"kind": "EventsNode",
                    "event": "d", "funnelFromStep": 0, "funnelToStep": 1}]});
            queries.push(funnels(steps.clone(), filter));
            let filter = json!({"funnelOrderType": order, "funnelVizType": viz});
            let mut by_cohort =
                funnels(json!([node("a"), node("a"), node("b"), node("a")]), filter);
            by_cohort["breakdownFilter"] = cohorts.clone();
            queries.push(by_cohort.clone());
            by_cohort["compareFilter"] = json!({"compare": true, "compare_to": "-2w"});
            queries.push(by_cohort);
        }
    }
    let mut optional = funnels(
        json!([node("a"), node("b"), node("a"), node("c"), node("d"), node("b")]),
        json!({"exclusions": [{"kind": "EventsNode", "event": "$pageview", "funnelFromStep": 1,
            "funnelToStep": 4}], "breakdownAttributionType": "step",
            "breakdownAttributionValue": 2}),
    );
    optional["breakdownFilter"] = json!({"breakdowns": [{"property": "browser"}]});
    optional["compareFilter"] = json!({"compare": true});
    for step in [1, 2, 4, 5] {
        optional["series"][step]["optionalInFunnel"] = json!(true);
    }
    queries.push(optional);
    queries
}

#[test]
fn every_option_of_an_insight_is_lowered() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let project = MirroredProject::new(1, ZONES, dir.path());
    let queries = fixed_queries();
    for query in &queries {
        if let Some(why) = disagreement(&project, 1, query) {
            wrong.push(format!("{}: {query}\n{why}", project.zone));
        }
    }
    report("fixed insights", &(1..2), queries.len(), &wrong);
}
