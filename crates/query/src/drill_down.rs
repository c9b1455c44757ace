//! The source of a drill-down: a data point of an insight, whose actors or events a query lists.

use insights::{CountedEvents, DataPoint, HogqlCompiler, Insight, InsightActors, QueryLimits};
use serde_json::{Map, Value as Json};

use crate::parse::ALWAYS_ALLOWED;
use crate::{Error, Result};

/// Kinds of queries that name a data point of an insight.
pub(crate) const ACTORS_KINDS: [&str; 3] =
    ["InsightActorsQuery", "FunnelsActorsQuery", "StickinessActorsQuery"];

/// Whether a query of this kind takes an insight of that kind.
fn fits(kind: &str, insight_kind: &str) -> bool {
    match kind {
        "FunnelsActorsQuery" => insight_kind == "FunnelsQuery",
        "StickinessActorsQuery" => insight_kind == "StickinessQuery",
        _ => true,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DrillDown {
    pub insight: Box<Insight>,
    point: Box<DataPoint>,
}

impl DrillDown {
    /// Parses the source of a query of kind `of`.
    pub fn parse(of: &str, mut source: Map<String, Json>) -> Result<Self> {
        let kind = source.remove("kind");
        let kind = kind.as_ref().and_then(Json::as_str).unwrap_or_default();
        if !ACTORS_KINDS.contains(&kind) {
            return Err(Error::Parse(format!(
                "The source of an {of} is one of {}.",
                ACTORS_KINDS.join(", ")
            )));
        }
        ALWAYS_ALLOWED.iter().for_each(|name| drop(source.remove(*name)));
        source.retain(|_, value| !value.is_null());
        let inner = source.remove("source").unwrap_or_default();
        let insight_kind = inner.get("kind").and_then(Json::as_str).unwrap_or_default();
        let insight = match Insight::parse(insight_kind, &inner) {
            Some(insight) if fits(kind, insight_kind) => insight?,
            _ => {
                let detail = format!("'{insight_kind}' cannot be the source of an {kind}.");
                return Err(Error::Parse(detail));
            }
        };
        let point = DataPoint::read(Json::Object(source))?;
        Ok(Self { insight: Box::new(insight), point: Box::new(point) })
    }

    /// Whether the insight is valid, apart from objects that it references.
    pub fn check(&self) -> Result<()> {
        Ok(self.insight.check()?)
    }

    pub fn actors(
        &self,
        view: &facts::ReadView,
        limits: &QueryLimits,
        hogql: &HogqlCompiler,
    ) -> insights::Result<InsightActors> {
        self.insight.actors(view, limits, Some(hogql), &self.point)
    }

    pub fn events(
        &self,
        view: &facts::ReadView,
        limits: &QueryLimits,
        hogql: &HogqlCompiler,
    ) -> insights::Result<CountedEvents> {
        self.insight.events(view, limits, Some(hogql), &self.point)
    }
}
