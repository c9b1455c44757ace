//! Reference lowering of funnels: every attempt from every event that matches the first step, and the
//! best attempt of each actor.

use serde_json::{Value as Json, json};

use super::fragments::{
    CteBuilder, Intervals, NULL, ReferencePlan, Statement, actor, hides_others, limit,
    query_filter, runs, selected, value,
};
use crate::differential::mirrored_project::MirroredProject;

struct Funnel<'a> {
    query: &'a Json,
    filter: &'a Json,
    steps: &'a [Json],
    intervals: Intervals,
}

pub fn lower(project: &MirroredProject, query: &Json) -> ReferencePlan {
    let funnel = Funnel {
        query,
        filter: &query["funnelsFilter"],
        steps: query["series"].as_array().unwrap(),
        intervals: Intervals::of(project, query),
    };
    let mut ctes = CteBuilder::default();
    funnel.rows(&mut ctes);
    match funnel.order() {
        "strict" => funnel.strict(&mut ctes),
        "unordered" => funnel.unordered(&mut ctes),
        _ => funnel.ordered(&mut ctes),
    }
    funnel.best(&mut ctes);
    let statement = funnel.statement(&mut ctes);
    let (query, len, steps) = (query.clone(), funnel.intervals.len, funnel.steps.len());
    let to_result =
        move |row_sets: &[Vec<Json>]| match query["funnelsFilter"]["funnelVizType"].as_str() {
            Some("steps") => counts(&query, &row_sets[0], steps),
            Some("trends") => trends(&query, &row_sets[0], len),
            _ => times(&row_sets[0]),
        };
    ReferencePlan { statements: vec![statement], to_result: Box::new(to_result) }
}

impl Funnel<'_> {
    fn order(&self) -> &str {
        self.filter["funnelOrderType"].as_str().unwrap()
    }

    fn window_ms(&self) -> u64 {
        let unit = match self.filter["funnelWindowIntervalUnit"].as_str().unwrap() {
            "minute" => 60_000,
            "hour" => 3_600_000,
            "day" => 86_400_000,
            _ => 7 * 86_400_000,
        };
        self.filter["funnelWindowInterval"].as_u64().unwrap() * unit
    }

    fn attribution(&self) -> Option<&str> {
        self.query.get("breakdownFilter")?;
        self.filter["breakdownAttributionType"].as_str()
    }

    fn is_trends(&self) -> bool {
        self.filter["funnelVizType"] == "trends"
    }

    fn exclusion(&self) -> Option<(usize, usize, String)> {
        let own = &self.filter["exclusions"][0];
        let step = |key: &str| own[key].as_u64().map(|step| step as usize + 1);
        Some((step("funnelFromStep")?, step("funnelToStep")?, selected(self.query, own)))
    }

    /// Whether one event may match both steps; they then need different timestamps.
    fn overlap(&self, a: usize, b: usize) -> bool {
        match (self.steps[a]["event"].as_str(), self.steps[b]["event"].as_str()) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }

    fn any(&self) -> String {
        let all: Vec<String> = (1..=self.steps.len()).map(|step| format!("s{step}")).collect();
        format!("({})", all.join(" or "))
    }

    /// The events: actor `a`, timestamp `t`, and which steps and exclusions each matches. Events with
    /// the same `g` can be part of one attempt.
    fn rows(&self, ctes: &mut CteBuilder) {
        let own = actor(self.query);
        let value = match self.query.get("breakdownFilter") {
            Some(_) => value(self.query),
            None => "''".to_owned(),
        };
        let group = match self.attribution() {
            Some("all_events") => format!("concat({own}, '|', {value})"),
            _ => own.to_owned(),
        };
        let mut flags = String::new();
        for (step, node) in self.steps.iter().enumerate() {
            flags.push_str(&format!(", {} as s{}", selected(self.query, node), step + 1));
        }
        let excluded = self.exclusion().map_or("0".to_owned(), |(_, _, selected)| selected);
        let bucket = match self.is_trends() {
            true => self.intervals.bucket("timestamp"),
            false => "0".to_owned(),
        };
        ctes.add(
            "e",
            &format!(
                "select {own} as a, {group} as g, {value} as v, {bucket} as b, \
                 toUnixTimestamp64Milli(timestamp) as t, {excluded} as x{flags} from events \
                 where {} and {own} is not null and {}",
                self.intervals.within("timestamp"),
                query_filter(self.query),
            ),
        );
    }

    fn times(&self, from: usize) -> String {
        let last = from.max(1);
        let each = |step: usize| match step <= from {
            true => format!("t{step}"),
            false => format!("t{last} as t{step}"),
        };
        (1..=self.steps.len()).map(each).collect::<Vec<_>>().join(", ")
    }

    /// Takes the earliest next step, which is never worse than a later one.
    fn ordered(&self, ctes: &mut CteBuilder) {
        let window = self.window_ms();
        ctes.add("r1", "select distinct a, g, b, t as t1 from e where s1");
        let mut all = vec![format!("select a, g, b, 1 as n, {} from r1", self.times(1))];
        for step in 2..=self.steps.len() {
            let before = step - 1;
            let kept: Vec<String> = (1..step).map(|at| format!("r.t{at}")).collect();
            let named: Vec<String> = (1..step).map(|at| format!("r.t{at} as t{at}")).collect();
            let mut tests = vec![
                format!("e.s{step}"),
                format!("e.t >= r.t{before}"),
                format!("e.t - r.t1 <= {window}"),
            ];
            for at in (1..step).filter(|at| self.overlap(at - 1, step - 1)) {
                tests.push(format!("e.t > r.t{at}"));
            }
            ctes.add(
                &format!("r{step}"),
                &format!(
                    "select r.a as a, r.g as g, r.b as b, {}, min(e.t) as t{step} from r{before} r \
                     inner join e e on r.g = e.g where {} group by r.a, r.g, r.b, {}",
                    named.join(", "),
                    tests.join(" and "),
                    kept.join(", ")
                ),
            );
            all.push(format!("select a, g, b, {step} as n, {} from r{step}", self.times(step)));
        }
        ctes.add("candidates", &all.join(" union all "));
    }

    fn strict(&self, ctes: &mut CteBuilder) {
        let window = self.window_ms();
        let over = "over (partition by g order by t rows between unbounded preceding and \
                    unbounded following)";
        let mut columns = String::new();
        let mut length = "0".to_owned();
        for step in (2..=self.steps.len()).rev() {
            let ahead = step - 1;
            columns.push_str(&format!(
                ", leadInFrame(s{step}, {ahead}, 0) {over} as q{step}, \
                 leadInFrame(t, {ahead}, 0) {over} as t{step}"
            ));
            length = format!("if(q{step} and t{step} - t1 <= {window}, 1 + {length}, 0)");
        }
        ctes.add("ahead", &format!("select a, g, b, s1, t as t1{columns} from e"));
        let times: Vec<String> = (1..=self.steps.len()).map(|step| format!("t{step}")).collect();
        ctes.add(
            "candidates",
            &format!("select a, g, b, 1 + {length} as n, {} from ahead where s1", times.join(", ")),
        );
    }

    /// Connected components of overlapping steps.
    fn components(&self) -> Vec<Vec<usize>> {
        let mut all: Vec<Vec<usize>> = Vec::new();
        for step in 0..self.steps.len() {
            let near = |own: &Vec<usize>| own.iter().any(|other| self.overlap(*other, step));
            let (mut own, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(near);
            let mut joined: Vec<usize> = own.drain(..).flatten().collect();
            joined.push(step);
            all = rest;
            all.push(joined);
        }
        all
    }

    /// The number of completed steps is the size of a maximum matching of steps to timestamps. By
    /// Hall's theorem, that is the minimum over all sets of steps of the timestamps that they match
    /// plus the number of other steps.
    fn unordered(&self, ctes: &mut CteBuilder) {
        let window = self.window_ms();
        let any = self.any();
        ctes.add("begun", &format!("select distinct a, g, b, t as t0 from e where {any}"));
        let flags: Vec<String> =
            (1..=self.steps.len()).map(|step| format!("e.s{step} as s{step}")).collect();
        ctes.add(
            "within",
            &format!(
                "select r.a as a, r.g as g, r.b as b, r.t0 as t0, e.t as t, {} from begun r inner \
                 join e e on r.g = e.g where e.t >= r.t0 and e.t - r.t0 <= {window} and ({})",
                flags.join(", "),
                any.replace('s', "e.s"),
            ),
        );
        let mut done = Vec::new();
        for component in self.components() {
            let size = component.len();
            let mut least = Vec::new();
            for some in 1u32..1 << size {
                let steps: Vec<String> = (0..size)
                    .filter(|at| some & (1 << at) != 0)
                    .map(|at| format!("p.s{}", component[at] + 1))
                    .collect();
                let left = size - steps.len();
                least.push(format!("{left} + uniqExactIf(p.t, {})", steps.join(" or ")));
            }
            done.push(format!("least({size}, {})", least.join(", ")));
        }
        ctes.add(
            "done",
            &format!(
                "select q.a as a, q.g as g, q.b as b, q.t0 as t0, q.t as t, {} as d from (select \
                 distinct a, g, b, t0, t from within) q inner join within p on q.g = p.g and \
                 q.t0 = p.t0 where p.t <= q.t group by q.a, q.g, q.b, q.t0, q.t",
                done.join(" + ")
            ),
        );
        let times: Vec<String> = (1..=self.steps.len())
            .map(|step| format!("ifNull(minIf(t, d >= {step}), 0) as t{step}"))
            .collect();
        ctes.add(
            "candidates",
            &format!(
                "select a, g, b, max(d) as n, {} from done group by a, g, b, t0",
                times.join(", ")
            ),
        );
    }

    /// The longest attempt of each actor, the earliest of equals, unless it has an exclusion.
    fn best(&self, ctes: &mut CteBuilder) {
        ctes.add("best", "select * from candidates order by g, b, n desc, t1 limit 1 by g, b");
        match self.exclusion() {
            None => ctes.add("kept", "select * from best"),
            Some((from, to, _)) => ctes.add(
                "kept",
                &format!(
                    "select * from best where (g, b) not in (select r.g, r.b from best r inner \
                     join e e on r.a = e.a where e.x and r.n >= {to} and e.t > r.t{from} and \
                     e.t < r.t{to})"
                ),
            ),
        }
        let any = self.any();
        let touched = |pick: &str| {
            format!(
                "select k.*, ifNull(w.w, '{NULL}') as v from kept k left join (select g, \
                 {pick}(v, t) as w from e where {any} and v != '{NULL}' group by g) w on k.g = w.g"
            )
        };
        let valued = match self.attribution() {
            None => "select *, '' as v from kept".to_owned(),
            Some("first_touch") => touched("argMin"),
            Some("last_touch") => touched("argMax"),
            Some("all_events") => "select *, splitByChar('|', g)[2] as v from kept".to_owned(),
            _ => {
                let step = self.filter["breakdownAttributionValue"].as_u64().unwrap() + 1;
                format!(
                    "select k.*, if(k.n >= {step}, ifNull(w.v, '{NULL}'), '{NULL}') as v from kept \
                     k left join (select g, t, min(v) as v from e where s{step} group by g, t) w \
                     on k.g = w.g and k.t{step} = w.t"
                )
            }
        };
        ctes.add("valued", &valued);
        ctes.add("weights", "select v, count() as w from valued group by v");
        ctes.add("ranks", "select v, row_number() over (order by w desc, v) as r from weights");
        let most = limit(self.query);
        let hidden = match hides_others(self.query) {
            true => format!(" where k.r <= {most}"),
            false => String::new(),
        };
        ctes.add(
            "named",
            &format!(
                "select f.*, least(k.r, {most} + 1) as r, multiIf(k.r > {most}, 'Other', \
                 f.v = '{NULL}', '', f.v) as name from valued f inner join ranks k \
                 on f.v = k.v{hidden}"
            ),
        );
    }

    fn statement(&self, ctes: &mut CteBuilder) -> Statement {
        let steps = self.steps.len();
        match self.filter["funnelVizType"].as_str().unwrap() {
            "steps" => {
                let mut columns = String::new();
                for step in 1..=steps {
                    columns.push_str(&format!(", countIf(n >= {step})"));
                    if step > 1 {
                        let seconds = format!("(t{step} - t{}) / 1000", step - 1);
                        columns.push_str(&format!(
                            ", avgIf({seconds}, n >= {step}), quantileIf(0.5)({seconds}, n >= {step})"
                        ));
                    }
                }
                ctes.finish(&format!(
                    "select r, name{columns} from named group by r, name order by r"
                ))
            }
            "trends" => {
                ctes.add("intervals", &self.intervals.list());
                ctes.add(
                    "found",
                    &format!(
                        "select r, name, b, count() as entered, countIf(n = {steps}) as converted \
                         from named group by r, name, b"
                    ),
                );
                ctes.finish(
                    "select f.r, f.name, u.i, f.entered, f.converted from found f inner join \
                     intervals u on f.b = u.b order by f.r, u.i",
                )
            }
            _ => {
                let own = format!("(t{steps} - t1) / 1000");
                ctes.finish(&format!(
                    "select count(), avg({own}), median({own}), arraySort(groupArray({own})) from \
                     named where n = {steps}"
                ))
            }
        }
    }
}

fn counts(query: &Json, rows: &[Json], steps: usize) -> Json {
    let split = query.get("breakdownFilter").is_some();
    let funnel = |row: Option<&Json>| -> Json {
        let step = |step: usize| {
            let at = |at: usize| row.map_or(Json::Null, |row| row[at].clone());
            let count = at(if step == 0 { 2 } else { step * 3 });
            let mut item = json!({
                "order": step,
                "count": if count.is_null() { json!(0) } else { count },
                "average_conversion_time": null,
                "median_conversion_time": null,
            });
            if step > 0 {
                item["average_conversion_time"] = at(step * 3 + 1);
                item["median_conversion_time"] = at(step * 3 + 2);
            }
            if split {
                item["breakdown"] = json!([at(1)]);
            }
            item
        };
        (0..steps).map(step).collect()
    };
    match split {
        false => funnel(rows.first()),
        true => rows.iter().map(|row| funnel(Some(row))).collect(),
    }
}

fn trends(query: &Json, rows: &[Json], len: usize) -> Json {
    let split = query.get("breakdownFilter").is_some();
    let line = |run: &[Json]| {
        let mut data = vec![0.0; len];
        for row in run {
            let number = |at: usize| row[at].as_f64().unwrap();
            data[row[2].as_u64().unwrap() as usize] =
                (number(4) / number(3) * 10_000.0).round() / 100.0;
        }
        let mut item = json!({ "data": data });
        if split {
            item["breakdown_value"] = json!([run[0][1]]);
        }
        item
    };
    match rows {
        [] if !split => json!([line(&[])]),
        rows => runs(rows, &[0, 1]).iter().map(|run| line(run)).collect(),
    }
}

fn times(rows: &[Json]) -> Json {
    let seconds: Vec<f64> =
        rows[0][3].as_array().unwrap().iter().map(|own| own.as_f64().unwrap()).collect();
    let bins = match (seconds.first(), seconds.last()) {
        (Some(low), Some(high)) => {
            let (low, high) = (low.floor(), high.ceil());
            let count = (seconds.len() as f64).cbrt().ceil();
            let width = ((high - low) / count).ceil();
            let width = if width == 0.0 { 60.0 } else { width };
            let bin = |at: usize| {
                let (from, to) = (low + at as f64 * width, low + (at + 1) as f64 * width);
                let own = seconds.iter().filter(|own| from <= **own && **own < to);
                json!([from, own.count()])
            };
            (0..=count as usize).map(bin).collect()
        }
        _ => json!([[0, 0], [1, 0]]),
    };
    let (average, median) = (rows[0][1].clone(), rows[0][2].clone());
    json!({"average_conversion_time": average, "median_conversion_time": median, "bins": bins})
}
