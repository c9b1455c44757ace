//! Reference lowering of trends: a series' events, its values by interval and breakdown value, and
//! the ranking of the breakdown values.

use jiff::ToSpan as _;
use serde_json::{Value as Json, json};

use super::fragments::{
    CteBuilder, Intervals, ReferencePlan, SEPARATOR, Statement, actor, date, field, hides_others,
    limit, midnight, node_event, others, rank_class, runs, selected, value,
};
use crate::differential::mirrored_project::MirroredProject;

struct Series<'a> {
    query: &'a Json,
    node: &'a Json,
    intervals: &'a Intervals,
    /// The prefix of its CTEs.
    prefix: char,
    /// An additional condition for the events.
    condition: &'a str,
}

fn is_total(query: &Json) -> bool {
    let display = query["trendsFilter"]["display"].as_str().unwrap();
    ["BoldNumber", "ActionsPie", "ActionsBarValue", "ActionsTable"].contains(&display)
}

fn is_cumulative(query: &Json) -> bool {
    query["trendsFilter"]["display"] == "ActionsLineGraphCumulative"
}

pub fn lower(project: &MirroredProject, query: &Json) -> ReferencePlan {
    if query["breakdownFilter"]["breakdown_type"] == "cohort" {
        return by_cohort(project, query);
    }
    let now = Intervals::of(project, query);
    let mut periods = vec![now.clone()];
    if query["compareFilter"]["compare"] == true {
        let days = match query["compareFilter"]["compare_to"].as_str() {
            Some("-1w") => 7,
            _ => now.len as i64,
        };
        let before =
            |which| date(project, query, which).checked_sub(days.days()).expect("a day before");
        periods.push(Intervals::new(project, before("date_from"), before("date_to"), "day"));
    }
    let nodes = query["series"].as_array().unwrap();
    let mut statements = Vec::new();
    for intervals in &periods {
        let all: Vec<Series<'_>> = nodes
            .iter()
            .zip('a'..)
            .map(|(node, prefix)| Series { query, node, intervals, prefix, condition: "1" })
            .collect();
        match query["trendsFilter"]["formula"].as_str() {
            Some(formula) => statements.push(formula_statement(&all, formula)),
            None => statements.extend(all.iter().map(Series::statement)),
        }
    }
    let query = query.clone();
    let to_result = move |row_sets: &[Vec<Json>]| to_result(&query, row_sets);
    ReferencePlan { statements, to_result: Box::new(to_result) }
}

/// A series for the members of each cohort, the largest first.
fn by_cohort(project: &MirroredProject, query: &Json) -> ReferencePlan {
    let cohorts: Vec<Json> = match &query["breakdownFilter"]["breakdown"] {
        Json::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    let mut plain = query.clone();
    plain.as_object_mut().unwrap().remove("breakdownFilter");
    let intervals = Intervals::of(project, query);
    let mut statements = Vec::new();
    for node in plain["series"].as_array().unwrap() {
        for cohort in &cohorts {
            let condition = match cohort.is_number() {
                false => "1".to_owned(),
                true => format!(
                    "person_id in (select person_id from cohort_people where cohort_id = {cohort})"
                ),
            };
            let (query, intervals) = (&plain, &intervals);
            statements.push(
                Series { query, node, intervals, prefix: 'a', condition: &condition }.statement(),
            );
        }
    }
    let query = plain.clone();
    let to_result = move |row_sets: &[Vec<Json>]| {
        let mut items = Vec::new();
        for lines in row_sets.chunks(cohorts.len()) {
            let mut series: Vec<Json> = lines
                .iter()
                .zip(&cohorts)
                .map(|(rows, cohort)| {
                    let mut item = to_result(&query, std::slice::from_ref(rows))[0].take();
                    item["breakdown_value"] = cohort.clone();
                    item
                })
                .collect();
            let weight = |item: &Json| {
                let total = item.get("aggregated_value").unwrap_or(&item["count"]);
                total.as_f64().unwrap()
            };
            series.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
            items.extend(series);
        }
        Json::Array(items)
    };
    ReferencePlan { statements, to_result: Box::new(to_result) }
}

impl Series<'_> {
    fn math(&self) -> &str {
        self.node["math"].as_str().unwrap()
    }

    fn rolling(&self) -> Option<i64> {
        match self.math() {
            "weekly_active" => Some(7),
            "monthly_active" => Some(30),
            _ => None,
        }
    }

    fn needs_actor(&self) -> bool {
        let math = self.math();
        self.rolling().is_some()
            || math == "dau"
            || math.starts_with("first_")
            || math.ends_with("_per_actor")
    }

    fn by_session(&self) -> bool {
        self.node["math_property"] == "$session_duration"
    }

    /// The expression that is aggregated.
    fn input(&self) -> String {
        match self.math() {
            "unique_session" => "properties.$session_id".to_owned(),
            "unique_group" => "nullIf($group_0, '')".to_owned(),
            "hogql" => expression(self.node["math_hogql"].as_str().unwrap()).0.to_owned(),
            _ if self.by_session() => "session.$session_duration".to_owned(),
            _ if self.node["math_property_type"] == "person_properties" => field("person", "age"),
            _ => "properties.amount".to_owned(),
        }
    }

    /// The events of the series: timestamp, breakdown value, actor and aggregated expression.
    fn rows(&self) -> String {
        let value = match self.query.get("breakdownFilter") {
            Some(_) => value(self.query),
            None => "''".to_owned(),
        };
        let from = match self.rolling() {
            None => self.intervals.from,
            Some(days) => {
                let total = is_total(self.query);
                let last = if total { self.intervals.to } else { self.intervals.from };
                self.intervals.from.min(last.checked_sub((days - 1).days()).unwrap())
            }
        };
        let own = actor(self.query);
        let (input, selected) = (self.input(), selected(self.query, self.node));
        let columns = format!(
            "timestamp as t, {value} as v, 1 as r, {own} as a, {input} as x, \
             properties.$session_id as s"
        );
        let mut tests = vec![
            format!("timestamp >= {}", midnight(from)),
            format!("timestamp < {}", self.intervals.end()),
        ];
        let first = match self.math() {
            "first_time_for_user" => Some(node_event(self.node)),
            "first_matching_event_for_user" => Some(format!("{selected} and {}", self.condition)),
            _ => None,
        };
        tests.extend([selected, self.condition.to_owned()]);
        if self.needs_actor() {
            tests.push(format!("{own} is not null"));
        }
        if self.math().starts_with("unique_") {
            tests.push(format!("{input} is not null"));
        }
        if self.by_session() {
            tests.push("properties.$session_id is not null".to_owned());
        }
        if let Some(first) = first {
            tests.push(format!(
                "({own}, timestamp) in (select {own}, min(timestamp) from events where {first} \
                 group by {own})"
            ));
        }
        format!("select {columns} from events where {}", tests.join(" and "))
    }

    /// Assigns the events to intervals; with a rolling window, to several.
    fn by_interval(&self, source: &str) -> String {
        let columns = "t, v, r, a, x, s";
        if is_total(self.query) {
            return format!("select 0 as b, {columns} from {source}");
        }
        let next = self.intervals.plus("b", "1");
        let bounds = match self.rolling() {
            Some(days) => {
                let last = match self.intervals.interval.as_str() {
                    "hour" | "day" => "toStartOfDay(b)".to_owned(),
                    _ => format!("least(subtractDays({next}, 1), {})", midnight(self.intervals.to)),
                };
                let before = days - 1;
                format!("subtractDays({last}, {before}) as lo, addDays({last}, 1) as hi")
            }
            None if is_cumulative(self.query) && self.math() == "dau" => {
                format!("{} as lo, {next} as hi", self.intervals.start())
            }
            None => {
                let bucket = self.intervals.bucket("t");
                return format!("select {bucket} as b, {columns} from {source}");
            }
        };
        let all: Vec<String> =
            ["t", "v", "r", "a", "x", "s"].map(|c| format!("e.{c} as {c}")).into();
        format!(
            "select d.b as b, {} from (select b, {bounds} from {}_days) d cross join {source} e \
             where e.t >= d.lo and e.t < d.hi",
            all.join(", "),
            self.prefix,
        )
    }

    /// The aggregate by `keys`.
    fn aggregated(&self, source: &str, keys: &str) -> String {
        let one = self.unscaled(source, keys);
        match self.node["math_multiplier"].as_f64() {
            None => one,
            Some(factor) => format!("select {keys}, y * {factor} as y from ({one})"),
        }
    }

    fn unscaled(&self, source: &str, keys: &str) -> String {
        let rows = self.by_interval(source);
        let math = self.math();
        if let Some(math) = math.strip_suffix("_count_per_actor") {
            let counts = format!("select {keys}, a, count() as c from ({rows}) group by {keys}, a");
            let own = aggregate(math, "c");
            return format!("select {keys}, {own} as y from ({counts}) group by {keys}");
        }
        if self.by_session() && math != "total" {
            let each = format!("select {keys}, s, max(x) as c from ({rows}) group by {keys}, s");
            let own = aggregate(math, "c");
            return format!("select {keys}, {own} as y from ({each}) group by {keys}");
        }
        let own = match math {
            "total" | "first_time_for_user" | "first_matching_event_for_user" => "count()".into(),
            "dau" | "weekly_active" | "monthly_active" => "count(distinct a)".into(),
            "unique_session" | "unique_group" => "count(distinct x)".into(),
            "hogql" => expression(self.node["math_hogql"].as_str().unwrap()).1.into(),
            math => aggregate(math, "x"),
        };
        format!("select {keys}, {own} as y from ({rows}) group by {keys}")
    }

    /// Adds the CTEs; returns a SELECT with a row for each interval of each breakdown value.
    fn add_ctes(&self, ctes: &mut CteBuilder) -> String {
        let (prefix, query) = (self.prefix, self.query);
        let days = match is_total(query) {
            true => "select 0 as b, 0 as i".to_owned(),
            false => self.intervals.list(),
        };
        ctes.add(&format!("{prefix}_days"), &days);
        ctes.add(&format!("{prefix}_rows"), &self.rows());
        let rows = format!("{prefix}_rows");
        let mut lines = "select 1 as r, '' as v".to_owned();
        let mut counted = rows.clone();
        if query.get("breakdownFilter").is_some() {
            ctes.add(&format!("{prefix}_all"), &self.aggregated(&rows, "v, b"));
            // A cumulative count of persons never shrinks, so its maximum is its total.
            let weight = match is_cumulative(query) && self.math() == "dau" {
                true => "max",
                false => "sum",
            };
            ctes.add(
                &format!("{prefix}_weights"),
                &format!(
                    "select k.v as v, ifNull({weight}(ifNull(g.y, 0)), 0) as w from (select \
                     distinct v from {rows}) k left join {prefix}_all g on k.v = g.v group by k.v"
                ),
            );
            ctes.add(
                &format!("{prefix}_ranks"),
                &format!(
                    "select v, row_number() over (order by w desc, v) as r from {prefix}_weights"
                ),
            );
            let (most, others) = (limit(query), others(query));
            let hidden = match hides_others(query) {
                true => format!(" where k.r <= {most}"),
                false => String::new(),
            };
            ctes.add(
                &format!("{prefix}_named"),
                &format!(
                    "select e.t as t, if(k.r <= {most}, e.v, '{others}') as v, \
                     least(k.r, {most} + 1) as r, e.a as a, e.x as x, e.s as s from {rows} e \
                     inner join {prefix}_ranks k on e.v = k.v{hidden}"
                ),
            );
            counted = format!("{prefix}_named");
            lines = format!("select distinct r, v from {counted}");
        }
        ctes.add(&format!("{prefix}_final"), &self.aggregated(&counted, "r, v, b"));
        let mut y = "ifNull(f.y, 0)".to_owned();
        let over = |frame: &str| format!("over (partition by c.r, c.v order by c.b {frame})");
        if is_cumulative(query) && self.math() != "dau" {
            y = format!("sum({y}) {}", over("rows between unbounded preceding and current row"));
        }
        if let Some(count) = query["trendsFilter"]["smoothingIntervals"].as_u64()
            && !is_total(query)
        {
            let frame = format!("rows between {} preceding and current row", count - 1);
            y = format!("floor(avg({y}) {})", over(&frame));
        }
        format!(
            "select c.r as r, c.v as v, c.b as b, {y} as y from (select l.r as r, l.v as v, \
             d.b as b from ({lines}) l cross join {prefix}_days d) c left join {prefix}_final f \
             on c.r = f.r and c.v = f.v and c.b = f.b"
        )
    }

    fn statement(&self) -> Statement {
        let mut ctes = CteBuilder::default();
        let last = self.add_ctes(&mut ctes);
        ctes.add("lines", &last);
        let (rank_class, b) = (rank_class(self.query, "v"), interval_column(self.query));
        ctes.finish(&format!(
            "select {rank_class} as p, r, v, {b}, y from lines order by p, r, v, b"
        ))
    }
}

fn interval_column(query: &Json) -> &'static str {
    if is_total(query) { "b" } else { "toUnixTimestamp(b)" }
}

fn aggregate(math: &str, column: &str) -> String {
    match math {
        "sum" | "avg" | "min" | "max" => format!("{math}({column})"),
        "median" => format!("median({column})"),
        percent => format!("quantile(0.{})({column})", percent.trim_start_matches('p')),
    }
}

/// The input and the aggregate of a HogQL expression.
fn expression(text: &str) -> (&str, &str) {
    match text {
        "sum(properties.amount)" => ("properties.amount", "sum(x)"),
        "avg(properties.amount) * 2" => ("properties.amount", "avg(x) * 2"),
        "uniq(properties.browser)" => ("properties.browser", "count(distinct x)"),
        "countIf(properties.amount > 3)" => ("properties.amount", "countIf(ifNull(x > 3, 0))"),
        "count(distinct distinct_id)" => ("distinct_id", "count(distinct x)"),
        other => panic!("{other}"),
    }
}

/// A formula of two series.
fn formula_statement(all: &[Series<'_>], formula: &str) -> Statement {
    let [one, two] = all else { panic!("two series") };
    let query = one.query;
    let mut ctes = CteBuilder::default();
    for series in [one, two] {
        let last = series.add_ctes(&mut ctes);
        ctes.add(&format!("{}_lines", series.prefix), &last);
    }
    let rank_class = rank_class(query, "v");
    ctes.add(
        "both_lines",
        &format!(
            "select v, b, y as p, 0 as q, {rank_class} * 100 + r as o from a_lines union all \
             select v, b, 0 as p, y as q, 1000 + {rank_class} * 100 + r as o from b_lines"
        ),
    );
    let own = match formula {
        "A / B" => "if(q = 0, 0, p / q)",
        "A - B" => "p - q",
        "(A - B) / (A + B)" => "if(p + q = 0, 0, (p - q) / (p + q))",
        "A + B * 2" => "p + q * 2",
        other => panic!("{other}"),
    };
    ctes.add(
        "sums",
        "select v, b, sum(p) as p, sum(q) as q, min(o) as o from both_lines group by v, b",
    );
    ctes.add("points", &format!("select v, b, o, {own} as y from sums"));
    let weight = if is_cumulative(query) { "argMax(y, b)" } else { "sum(y)" };
    ctes.add("heavy", &format!("select v, {weight} as w, min(o) as o from points group by v"));
    let shown = interval_column(query).replace("(b)", "(x.b)");
    let shown = if shown == "b" { "x.b".to_owned() } else { shown };
    let rank_class = rank_class.replace("v =", "h.v =");
    ctes.finish(&format!(
        "select {rank_class} as p, h.o, h.v, {shown}, x.y from heavy h inner join points x \
         on h.v = x.v order by p, round(h.w, 9) desc, h.o, x.b"
    ))
}

fn to_result(query: &Json, row_sets: &[Vec<Json>]) -> Json {
    let compared = query["compareFilter"]["compare"] == true;
    let mut items = Vec::new();
    for (at, rows) in row_sets.iter().enumerate() {
        for run in runs(rows, &[1, 2]) {
            let data: Vec<f64> = run.iter().map(|row| row[4].as_f64().unwrap()).collect();
            let mut item = match is_total(query) {
                true => json!({"aggregated_value": data[0]}),
                false if is_cumulative(query) => json!({"count": data[data.len() - 1]}),
                false => json!({"count": data.iter().sum::<f64>()}),
            };
            if !is_total(query) {
                item["data"] = json!(data);
            }
            if compared {
                let previous = at >= row_sets.len() / 2;
                item["compare_label"] = json!(if previous { "previous" } else { "current" });
            }
            if let Some(filter) = query.get("breakdownFilter") {
                let text = run[0][2].as_str().unwrap();
                item["breakdown_value"] = match filter.get("breakdowns") {
                    Some(_) => text.split(SEPARATOR).collect(),
                    None => json!(text),
                };
            }
            items.push(item);
        }
    }
    Json::Array(items)
}
