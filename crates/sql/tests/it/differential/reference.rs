//! Reference lowering of insights to HogQL statements, independent of the operators of `insights`.

pub mod fragments;
mod funnels;
mod paths;
mod retention;
mod trends;

use serde_json::Value as Json;

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
