//! Reference lowering of insights to HogQL statements, independent of the operators of `insights`.

pub mod fragments;
mod funnels;
mod paths;
mod retention;
mod trends;

use serde_json::Value as Json;
use testing::insights::{Reference, depends_on_order};

use super::mirrored_project::MirroredProject;
use fragments::ReferencePlan;

pub fn lower(project: &MirroredProject, query: &Json) -> ReferencePlan {
    match query["kind"].as_str().unwrap() {
        "TrendsQuery" => trends::lower(project, query),
        "FunnelsQuery" => funnels::lower(project, query),
        "RetentionQuery" => retention::retention(project, query),
        "LifecycleQuery" => retention::lifecycle(project, query),
        "StickinessQuery" => retention::stickiness(project, query),
        _ => paths::lower(project, query),
    }
}

impl Reference for MirroredProject {
    fn computes_filter(&self, _: &Json) -> bool {
        true
    }

    fn computes_node(&self, _: &Json) -> bool {
        true
    }

    fn computes_breakdown(&self, _: &Json) -> bool {
        true
    }

    fn computes_query(&self, query: &Json) -> bool {
        if depends_on_order(query) && !self.has_unique_timestamps {
            return false;
        }
        match query["kind"].as_str().unwrap() {
            "TrendsQuery" => self.computes_trends(query),
            "FunnelsQuery" => {
                let is_optional = |step: &Json| step["optionalInFunnel"] == true;
                query.get("compareFilter").is_none()
                    && !query["series"].as_array().unwrap().iter().any(is_optional)
                    && computes_funnel(&query["funnelsFilter"], &query["series"])
            }
            "StickinessQuery" => query["interval"] != "hour",
            // The oracle of the operators computes rolling windows, as it does compared funnels and
            // optional steps.
            "RetentionQuery" => query["retentionFilter"].get("timeWindowMode").is_none(),
            _ => true,
        }
    }
}

impl MirroredProject {
    fn computes_trends(&self, query: &Json) -> bool {
        // ClickHouse's hours begin at half past after a clock change of half an hour.
        if query["interval"] == "hour" && self.zone == "Australia/Lord_Howe" {
            return false;
        }
        let filter = &query["trendsFilter"];
        if filter.get("smoothingIntervals").is_none() {
            return true;
        }
        // Smoothing rounds down, which would amplify a difference in a float's last digit.
        let fractions = ["avg", "median", "p75", "p90", "p95", "p99", "hogql"];
        let is_fraction = |node: &Json| {
            fractions.iter().any(|math| node["math"].as_str().unwrap().starts_with(math))
        };
        // Series are sorted before smoothing, which the reference does not do for cohorts.
        filter["display"] != "ActionsLineGraphCumulative"
            && !query["series"].as_array().unwrap().iter().any(is_fraction)
            && query["breakdownFilter"]["breakdown_type"] != "cohort"
    }
}

fn computes_funnel(filter: &Json, steps: &Json) -> bool {
    if filter.get("hideIncompleteConversionWindowPeriods").is_some() {
        return false;
    }
    match filter["funnelOrderType"].as_str().unwrap() {
        // The reference joins every start with every later event, which is slow for long windows.
        "unordered" => {
            let unit = filter["funnelWindowIntervalUnit"].as_str().unwrap();
            steps.as_array().unwrap().len() <= 3 && matches!(unit, "minute" | "hour")
        }
        // The breakdown value of an excluded event between two steps is undefined.
        "strict" => {
            filter["breakdownAttributionType"] != "all_events" || filter.get("exclusions").is_none()
        }
        _ => true,
    }
}
