//! The insights of the reference set against ClickHouse in the same run. A result that differs from
//! ClickHouse's has no time. The section `sql` measures the same and one more as HogQL.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::answers::same;
use crate::clickhouse::ClickHouse;
use crate::client::Client;
use crate::report::{Bound, Report, Row};
use crate::server_process::ServerProcess;

const ROUNDS: usize = 5;
const SINCE: &str = "2026-01-01";
const UNTIL: &str = "2026-04-01";
const DASHBOARDS: usize = 10;

struct BenchQuery {
    name: &'static str,
    /// `None` for a query that no insight expresses.
    insight: Option<Value>,
    hogql: String,
    clickhouse: String,
    /// Converts an insight's results to the rows of the HogQL statement.
    rows: fn(&Value) -> Result<Vec<Value>>,
}

pub async fn run(
    report: &mut Report,
    server: &ServerProcess,
    clickhouse: &mut ClickHouse,
) -> Result<()> {
    report.begin("Insights, warm, against ClickHouse (chDB)");
    let mut client = Client::new(server).await?;
    against_clickhouse(report, &mut client, clickhouse, Bound::RatioAtMost(0.8), 0.35).await?;

    report.begin("Memory of all these");
    peak(report, "peak memory", server)?;
    let took = dashboards(server, &mut client).await?;
    report.add(Row {
        name: format!("{DASHBOARDS} dashboards of the same tiles, all at once"),
        unit: "ms",
        ours: took,
        reference: None,
        bound: Bound::None,
    });
    peak(report, "  peak memory", server)
}

pub(crate) fn peak(report: &mut Report, name: &str, server: &ServerProcess) -> Result<()> {
    report.add(Row {
        name: name.into(),
        unit: "MB",
        ours: server.peak_megabytes()?,
        reference: None,
        bound: Bound::AtMost(512.0),
    });
    Ok(())
}

/// The insights with a minimal column cache.
pub async fn uncached(
    report: &mut Report,
    server: &ServerProcess,
    clickhouse: &mut ClickHouse,
) -> Result<()> {
    report.begin("Insights, columns decoded for each, against ClickHouse (chDB)");
    against_clickhouse(report, &mut Client::new(server).await?, clickhouse, Bound::None, 1.0).await
}

/// Name, HogQL and ClickHouse's statement of all, also of those that no insight expresses.
pub(crate) fn statements() -> impl Iterator<Item = (&'static str, String, String)> {
    bench_queries().into_iter().map(|case| (case.name, case.hogql, case.clickhouse))
}

/// The insights by their names.
pub(crate) fn insights() -> Vec<(&'static str, Value)> {
    let all = bench_queries().into_iter();
    all.filter_map(|case| Some((case.name, case.insight?))).collect()
}

async fn against_clickhouse(
    report: &mut Report,
    client: &mut Client,
    clickhouse: &mut ClickHouse,
    each: Bound,
    together: f64,
) -> Result<()> {
    let mut ratios = Vec::new();
    for case in &bench_queries() {
        let Some(insight) = &case.insight else { continue };
        let (ours, baseline) = measure(client, clickhouse, case, insight, case.rows).await?;
        ratios.push(ours / baseline);
        add(report, case.name, ours, ("chDB", baseline), each);
    }
    geometric_mean(report, "geometric mean of the ratios", &ratios, together);
    Ok(())
}

/// Scaling: a server with ten times the events against one with a tenth.
pub async fn growth(
    report: &mut Report,
    whole: &ServerProcess,
    tenth: &ServerProcess,
) -> Result<()> {
    report.begin("Insights on all events, against a tenth of them");
    let (mut whole, mut tenth) = (Client::new(whole).await?, Client::new(tenth).await?);
    for (name, insight) in insights() {
        let body = json!({ "query": insight, "refresh": "force_blocking" });
        let (mut ours, mut baseline) = (f64::MAX, f64::MAX);
        for _ in 0..=ROUNDS {
            ours = ours.min(timed_request(&mut whole, &body).await?.0);
            baseline = baseline.min(timed_request(&mut tenth, &body).await?.0);
        }
        report.add(Row {
            name: name.into(),
            unit: "ms",
            ours,
            reference: Some(("a tenth", baseline)),
            bound: Bound::RatioAtMost(10.0),
        });
    }
    Ok(())
}

/// Milliseconds until all dashboards have loaded with their results.
async fn dashboards(server: &ServerProcess, client: &mut Client) -> Result<f64> {
    let insights = insights();
    let mut paths = Vec::new();
    for number in 0..DASHBOARDS {
        let board = json!({ "name": format!("board {number}") });
        let board = client.json("/api/projects/1/dashboards/", &board).await?["id"].clone();
        for (_, insight) in &insights {
            let query = json!({ "kind": "InsightVizNode", "source": insight });
            let tile = json!({ "query": query, "dashboards": [board] });
            client.post("/api/projects/1/insights/", &tile).await?;
        }
        paths.push(format!("/api/projects/1/dashboards/{board}/?refresh=force_blocking"));
    }
    let started = Instant::now();
    let mut looking = Vec::new();
    for path in paths {
        let mut client = Client::new(server).await?;
        looking.push(tokio::spawn(async move {
            let board: Value = serde_json::from_slice(client.get(&path).await?)?;
            let tiles = board["tiles"].as_array().context("no tiles")?.clone();
            Ok::<_, anyhow::Error>(tiles)
        }));
    }
    for look in looking {
        let tiles = look.await??;
        let answered = tiles.iter().filter(|tile| tile["insight"]["result"].is_array()).count();
        ensure!(answered == insights.len(), "a dashboard came with {answered} results");
    }
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Milliseconds of both: the minimum of some rounds, after a warm-up whose results must agree.
async fn measure(
    client: &mut Client,
    clickhouse: &mut ClickHouse,
    case: &BenchQuery,
    query: &Value,
    rows: fn(&Value) -> Result<Vec<Value>>,
) -> Result<(f64, f64)> {
    let body = json!({ "query": query, "refresh": "force_blocking" });
    let (mut ours, mut baseline) = (f64::MAX, f64::MAX);
    for round in 0..=ROUNDS {
        let (took, response) = timed_request(client, &body).await?;
        let (ms, expected) = clickhouse.query(&case.clickhouse)?;
        if round == 0 {
            same(case.name, &rows(&response["results"])?, &expected.rows)?;
            continue;
        }
        ours = ours.min(took);
        baseline = baseline.min(ms);
    }
    Ok((ours, baseline))
}

async fn timed_request(client: &mut Client, body: &Value) -> Result<(f64, Value)> {
    let started = Instant::now();
    let response = client.post("/api/projects/1/query/", body).await?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    Ok((took, serde_json::from_slice(response)?))
}

pub(crate) fn add(
    report: &mut Report,
    name: &str,
    ours: f64,
    reference: (&'static str, f64),
    bound: Bound,
) {
    report.add(Row { name: name.into(), unit: "ms", ours, reference: Some(reference), bound });
}

pub(crate) fn geometric_mean(report: &mut Report, name: &str, ratios: &[f64], bound: f64) {
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    report.add(Row {
        name: name.into(),
        unit: "x",
        ours: (logs / ratios.len() as f64).exp(),
        reference: None,
        bound: Bound::AtMost(bound),
    });
}

fn trends(series: Value, more: Value) -> Value {
    let mut query = json!({
        "kind": "TrendsQuery", "series": [series], "interval": "day",
        "dateRange": { "date_from": SINCE, "date_to": "2026-03-31" },
    });
    if let (Some(query), Some(more)) = (query.as_object_mut(), more.as_object()) {
        query.extend(more.clone());
    }
    query
}

fn node(event: &str, math: &str) -> Value {
    json!({ "kind": "EventsNode", "event": event, "math": math })
}

/// `[day, value]` of the only series.
fn by_day(results: &Value) -> Result<Vec<Value>> {
    let series = &results[0];
    let days = series["days"].as_array().context("no days")?;
    let data = series["data"].as_array().context("no data")?;
    Ok(days.iter().zip(data).map(|(day, count)| json!([day, count])).collect())
}

fn bench_queries() -> Vec<BenchQuery> {
    let range = format!("timestamp >= '{SINCE} 00:00:00' AND timestamp < '{UNTIL} 00:00:00'");
    let viewed = format!("event = '$pageview' AND {range}");
    let daily = |what: &str, more: &str| {
        format!(
            "SELECT toDate(timestamp) AS day, {what} FROM events WHERE {viewed}{more} GROUP BY day ORDER BY day"
        )
    };
    let clickhouse_sql = |sql: &str| {
        sql.replace("FROM events", "FROM bench.events")
            .replace("person_id", "person")
            .replace("properties.", "")
    };
    let pair = |name, insight, hogql: String, rows| BenchQuery {
        name,
        insight,
        clickhouse: clickhouse_sql(&hogql),
        hogql: format!("{hogql} LIMIT 10000"),
        rows,
    };
    let steps = ["$pageview", "item added", "purchase"];
    let funnel = |clock: &str, window: &str| {
        format!(
            "SELECT countIf(level >= 1), countIf(level >= 2), countIf(level >= 3) FROM (\
             SELECT person_id, windowFunnel({window})({clock}, event = '{}', event = '{}', event = '{}') AS level \
             FROM events WHERE event IN ('{}', '{}', '{}') AND {range} GROUP BY person_id)",
            steps[0], steps[1], steps[2], steps[0], steps[1], steps[2]
        )
    };
    let weeks = "event = '$pageview' AND timestamp >= '2026-02-01 00:00:00' AND timestamp < '2026-03-29 00:00:00'";
    let week = "intDiv(dateDiff('day', toDate('2026-02-01'), toDate(timestamp)), 7)";
    let kept = |bit: &str, test: fn(&str, &str) -> String| {
        format!(
            "SELECT first, later, sum(persons) AS kept FROM (SELECT mask, count() AS persons FROM (\
             SELECT person_id, groupBitOr({bit}) AS mask FROM events WHERE {weeks} GROUP BY person_id) GROUP BY mask) AS masks \
             CROSS JOIN (SELECT arrayJoin(range(8)) AS first) AS firsts \
             CROSS JOIN (SELECT arrayJoin(range(8)) AS later) AS laters WHERE later >= first AND {} AND {} \
             GROUP BY first, later ORDER BY first, later",
            test("mask", "first"),
            test("mask", "later")
        )
    };
    let pages = format!(
        "SELECT properties.$current_url AS page, uniqExact(person_id) AS visitors FROM events \
         WHERE {viewed} GROUP BY page ORDER BY visitors DESC, page LIMIT 100"
    );
    let quantile = |function: &str| {
        format!(
            "SELECT properties.$browser AS browser, properties.plan AS plan, count() AS views, {function}(0.9)(properties.load_ms) AS slow \
             FROM events WHERE {viewed} GROUP BY browser, plan ORDER BY browser, plan"
        )
    };
    vec![
        pair(
            "daily total of one event",
            Some(trends(node("$pageview", "total"), json!({}))),
            daily("count() AS events", ""),
            by_day,
        ),
        pair(
            "daily unique persons",
            Some(trends(node("$pageview", "dau"), json!({}))),
            daily("uniqExact(person_id) AS persons", ""),
            by_day,
        ),
        pair(
            "breakdown by $browser",
            Some(trends(
                node("$pageview", "total"),
                json!({ "breakdownFilter": { "breakdown": "$browser", "breakdown_type": "event" } }),
            )),
            format!(
                "SELECT properties.$browser AS browser, toDate(timestamp) AS day, count() AS events FROM events WHERE {viewed} GROUP BY browser, day ORDER BY browser, day"
            ),
            |results| {
                let mut series: Vec<&Value> =
                    results.as_array().context("no series")?.iter().collect();
                series.sort_by_key(|one| one["breakdown_value"].as_str().map(str::to_owned));
                let mut rows = Vec::new();
                for one in series {
                    for row in by_day(&json!([one]))? {
                        // ClickHouse returns no row for a day without events.
                        if row[1].as_f64() != Some(0.0) {
                            rows.push(json!([one["breakdown_value"], row[0], row[1]]));
                        }
                    }
                }
                Ok(rows)
            },
        ),
        pair(
            "URL contains, unique persons",
            Some(trends(
                node("$pageview", "dau"),
                json!({ "properties": [{ "key": "$current_url", "operator": "icontains", "value": "pricing", "type": "event" }] }),
            )),
            daily(
                "uniqExact(person_id) AS persons",
                " AND properties.$current_url ILIKE '%pricing%'",
            ),
            by_day,
        ),
        BenchQuery {
            name: "funnel of 3 steps in 14 days",
            insight: Some(json!({
                "kind": "FunnelsQuery", "series": steps.map(|step| node(step, "total")),
                "dateRange": { "date_from": SINCE, "date_to": "2026-03-31" },
                "funnelsFilter": { "funnelWindowInterval": 14, "funnelWindowIntervalUnit": "day" },
            })),
            hogql: funnel("timestamp", "1209600"),
            clickhouse: clickhouse_sql(&funnel(
                "toUInt64(toUnixTimestamp64Micro(timestamp))",
                "1209600000000",
            )),
            rows: |results| {
                let steps = results.as_array().context("no steps")?;
                Ok(vec![steps.iter().map(|step| step["count"].clone()).collect()])
            },
        },
        BenchQuery {
            name: "retention over 8 weeks",
            insight: Some(json!({
                "kind": "RetentionQuery", "dateRange": { "date_to": "2026-03-25" },
                "retentionFilter": {
                    "period": "Week", "totalIntervals": 8,
                    "targetEntity": { "id": "$pageview", "type": "events" },
                    "returningEntity": { "id": "$pageview", "type": "events" },
                },
            })),
            hogql: format!(
                "{} LIMIT 1000",
                kept(&format!("toInt(pow(2, {week}))"), |mask, week| format!(
                    "modulo(intDiv({mask}, toInt(pow(2, {week}))), 2) = 1"
                ),)
            ),
            clickhouse: clickhouse_sql(&kept(
                &format!("bitShiftLeft(toUInt8(1), {week})"),
                |mask, week| format!("bitTest({mask}, {week})"),
            )),
            rows: |results| {
                let mut rows = Vec::new();
                for (first, row) in results.as_array().context("no rows")?.iter().enumerate() {
                    let values = row["values"].as_array().context("no values")?;
                    for (after, value) in values.iter().enumerate().take(8 - first) {
                        rows.push(json!([first, first + after, value["count"]]));
                    }
                }
                Ok(rows)
            },
        },
        BenchQuery {
            name: "top 100 pages by unique visitors",
            insight: Some(trends(
                node("$pageview", "dau"),
                json!({
                    "trendsFilter": { "display": "ActionsBarValue" },
                    "breakdownFilter": { "breakdown": "$current_url", "breakdown_type": "event", "breakdown_limit": 100, "breakdown_hide_other_aggregation": true },
                }),
            )),
            clickhouse: clickhouse_sql(&pages),
            hogql: pages,
            rows: |results| {
                let pages = results.as_array().context("no pages")?;
                Ok(pages
                    .iter()
                    .map(|page| json!([page["breakdown_value"], page["aggregated_value"]]))
                    .collect())
            },
        },
        BenchQuery {
            name: "two properties with a quantile",
            insight: None,
            hogql: quantile("quantile"),
            clickhouse: clickhouse_sql(&quantile("quantileExactInclusive")),
            rows: |_| Ok(Vec::new()),
        },
    ]
}
