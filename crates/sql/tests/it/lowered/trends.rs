//! Trends as statements: a series is rows, numbers by unit and value, and what they are ranked by.

use jiff::ToSpan as _;
use serde_json::{Value as Json, json};

use super::twin::Twin;
use super::words::{
    BETWEEN, Lowered, Statement, Units, With, actor, date, field, hides_others, limit, meant,
    midnight, named, others, place, runs, value,
};

struct Series<'a> {
    query: &'a Json,
    node: &'a Json,
    units: &'a Units,
    /// Before the names of its statements.
    mark: char,
    /// Whose events count, beside all else.
    of: &'a str,
}

fn is_total(query: &Json) -> bool {
    let display = query["trendsFilter"]["display"].as_str().unwrap();
    ["BoldNumber", "ActionsPie", "ActionsBarValue", "ActionsTable"].contains(&display)
}

fn is_cumulative(query: &Json) -> bool {
    query["trendsFilter"]["display"] == "ActionsLineGraphCumulative"
}

pub fn lower(twin: &Twin, query: &Json) -> Lowered {
    if query["breakdownFilter"]["breakdown_type"] == "cohort" {
        return by_cohort(twin, query);
    }
    let now = Units::of(twin, query);
    let mut periods = vec![now.clone()];
    if query["compareFilter"]["compare"] == true {
        let days = match query["compareFilter"]["compare_to"].as_str() {
            Some("-1w") => 7,
            _ => now.len as i64,
        };
        let before =
            |which| date(twin, query, which).checked_sub(days.days()).expect("a day before");
        periods.push(Units::new(twin, before("date_from"), before("date_to"), "day"));
    }
    let nodes = query["series"].as_array().unwrap();
    let mut texts = Vec::new();
    for units in &periods {
        let all: Vec<Series<'_>> = nodes
            .iter()
            .zip('a'..)
            .map(|(node, mark)| Series { query, node, units, mark, of: "1" })
            .collect();
        match query["trendsFilter"]["formula"].as_str() {
            Some(formula) => texts.push(combined(&all, formula)),
            None => texts.extend(all.iter().map(Series::statement)),
        }
    }
    let query = query.clone();
    let shape = move |answers: &[Vec<Json>]| shape(&query, answers);
    Lowered { texts, shape: Box::new(shape) }
}

/// A series for the members of each cohort, the heaviest first.
fn by_cohort(twin: &Twin, query: &Json) -> Lowered {
    let cohorts: Vec<Json> = match &query["breakdownFilter"]["breakdown"] {
        Json::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    let mut plain = query.clone();
    plain.as_object_mut().unwrap().remove("breakdownFilter");
    let units = Units::of(twin, query);
    let mut texts = Vec::new();
    for node in plain["series"].as_array().unwrap() {
        for cohort in &cohorts {
            let of = match cohort.is_number() {
                false => "1".to_owned(),
                true => format!(
                    "person_id in (select person_id from cohort_people where cohort_id = {cohort})"
                ),
            };
            let (query, units) = (&plain, &units);
            texts.push(Series { query, node, units, mark: 'a', of: &of }.statement());
        }
    }
    let query = plain.clone();
    let shape = move |answers: &[Vec<Json>]| {
        let mut items = Vec::new();
        for lines in answers.chunks(cohorts.len()) {
            let mut own: Vec<Json> = lines
                .iter()
                .zip(&cohorts)
                .map(|(rows, cohort)| {
                    let mut item = shape(&query, std::slice::from_ref(rows))[0].take();
                    item["breakdown_value"] = cohort.clone();
                    item
                })
                .collect();
            let weight = |item: &Json| {
                let total = item.get("aggregated_value").unwrap_or(&item["count"]);
                total.as_f64().unwrap()
            };
            own.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
            items.extend(own);
        }
        Json::Array(items)
    };
    Lowered { texts, shape: Box::new(shape) }
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

    /// What is counted of an event.
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

    /// The events that count at all: when, of which value, whose, with what.
    fn rows(&self) -> String {
        let value = match self.query.get("breakdownFilter") {
            Some(_) => value(self.query),
            None => "''".to_owned(),
        };
        let from = match self.rolling() {
            None => self.units.from,
            Some(days) => {
                let total = is_total(self.query);
                let last = if total { self.units.to } else { self.units.from };
                self.units.from.min(last.checked_sub((days - 1).days()).unwrap())
            }
        };
        let own = actor(self.query);
        let (input, meant) = (self.input(), meant(self.query, self.node));
        let columns = format!(
            "timestamp as t, {value} as v, 1 as r, {own} as a, {input} as x, \
             properties.$session_id as s"
        );
        let mut tests = vec![
            format!("timestamp >= {}", midnight(from)),
            format!("timestamp < {}", self.units.end()),
        ];
        let first = match self.math() {
            "first_time_for_user" => Some(named(self.node)),
            "first_matching_event_for_user" => Some(format!("{meant} and {}", self.of)),
            _ => None,
        };
        tests.extend([meant, self.of.to_owned()]);
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

    /// Rows again for each unit that they count in.
    fn spread(&self, source: &str) -> String {
        let columns = "t, v, r, a, x, s";
        if is_total(self.query) {
            return format!("select 0 as b, {columns} from {source}");
        }
        let next = self.units.plus("b", "1");
        let bounds = match self.rolling() {
            Some(days) => {
                let last = match self.units.interval.as_str() {
                    "hour" | "day" => "toStartOfDay(b)".to_owned(),
                    _ => format!("least(subtractDays({next}, 1), {})", midnight(self.units.to)),
                };
                let before = days - 1;
                format!("subtractDays({last}, {before}) as lo, addDays({last}, 1) as hi")
            }
            None if is_cumulative(self.query) && self.math() == "dau" => {
                format!("{} as lo, {next} as hi", self.units.start())
            }
            None => {
                let bucket = self.units.bucket("t");
                return format!("select {bucket} as b, {columns} from {source}");
            }
        };
        let all: Vec<String> =
            ["t", "v", "r", "a", "x", "s"].map(|c| format!("e.{c} as {c}")).into();
        format!(
            "select d.b as b, {} from (select b, {bounds} from {}_days) d cross join {source} e \
             where e.t >= d.lo and e.t < d.hi",
            all.join(", "),
            self.mark,
        )
    }

    /// A number for each of the keys.
    fn measured(&self, source: &str, keys: &str) -> String {
        let one = self.unscaled(source, keys);
        match self.node["math_multiplier"].as_f64() {
            None => one,
            Some(factor) => format!("select {keys}, y * {factor} as y from ({one})"),
        }
    }

    fn unscaled(&self, source: &str, keys: &str) -> String {
        let rows = self.spread(source);
        let math = self.math();
        if let Some(math) = math.strip_suffix("_count_per_actor") {
            let counts = format!("select {keys}, a, count() as c from ({rows}) group by {keys}, a");
            let own = statistic(math, "c");
            return format!("select {keys}, {own} as y from ({counts}) group by {keys}");
        }
        if self.by_session() && math != "total" {
            let each = format!("select {keys}, s, max(x) as c from ({rows}) group by {keys}, s");
            let own = statistic(math, "c");
            return format!("select {keys}, {own} as y from ({each}) group by {keys}");
        }
        let own = match math {
            "total" | "first_time_for_user" | "first_matching_event_for_user" => "count()".into(),
            "dau" | "weekly_active" | "monthly_active" => "count(distinct a)".into(),
            "unique_session" | "unique_group" => "count(distinct x)".into(),
            "hogql" => expression(self.node["math_hogql"].as_str().unwrap()).1.into(),
            math => statistic(math, "x"),
        };
        format!("select {keys}, {own} as y from ({rows}) group by {keys}")
    }

    /// Adds its steps; the last is a row for each unit of each value.
    fn steps(&self, with: &mut With) -> String {
        let (mark, query) = (self.mark, self.query);
        let days = match is_total(query) {
            true => "select 0 as b, 0 as i".to_owned(),
            false => self.units.list(),
        };
        with.add(&format!("{mark}_days"), &days);
        with.add(&format!("{mark}_rows"), &self.rows());
        let rows = format!("{mark}_rows");
        let mut lines = "select 1 as r, '' as v".to_owned();
        let mut counted = rows.clone();
        if query.get("breakdownFilter").is_some() {
            with.add(&format!("{mark}_all"), &self.measured(&rows, "v, b"));
            // Running counts of people only grow: the last is the greatest.
            let weight = match is_cumulative(query) && self.math() == "dau" {
                true => "max",
                false => "sum",
            };
            with.add(
                &format!("{mark}_weights"),
                &format!(
                    "select k.v as v, ifNull({weight}(ifNull(g.y, 0)), 0) as w from (select \
                     distinct v from {rows}) k left join {mark}_all g on k.v = g.v group by k.v"
                ),
            );
            with.add(
                &format!("{mark}_ranks"),
                &format!(
                    "select v, row_number() over (order by w desc, v) as r from {mark}_weights"
                ),
            );
            let (most, others) = (limit(query), others(query));
            let hidden = match hides_others(query) {
                true => format!(" where k.r <= {most}"),
                false => String::new(),
            };
            with.add(
                &format!("{mark}_named"),
                &format!(
                    "select e.t as t, if(k.r <= {most}, e.v, '{others}') as v, \
                     least(k.r, {most} + 1) as r, e.a as a, e.x as x, e.s as s from {rows} e \
                     inner join {mark}_ranks k on e.v = k.v{hidden}"
                ),
            );
            counted = format!("{mark}_named");
            lines = format!("select distinct r, v from {counted}");
        }
        with.add(&format!("{mark}_final"), &self.measured(&counted, "r, v, b"));
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
             d.b as b from ({lines}) l cross join {mark}_days d) c left join {mark}_final f \
             on c.r = f.r and c.v = f.v and c.b = f.b"
        )
    }

    fn statement(&self) -> Statement {
        let mut with = With::default();
        let last = self.steps(&mut with);
        with.add("lines", &last);
        let (place, b) = (place(self.query, "v"), shown(self.query));
        with.then(&format!("select {place} as p, r, v, {b}, y from lines order by p, r, v, b"))
    }
}

fn shown(query: &Json) -> &'static str {
    if is_total(query) { "b" } else { "toUnixTimestamp(b)" }
}

fn statistic(math: &str, column: &str) -> String {
    match math {
        "sum" | "avg" | "min" | "max" => format!("{math}({column})"),
        "median" => format!("median({column})"),
        percent => format!("quantile(0.{})({column})", percent.trim_start_matches('p')),
    }
}

/// What is counted of an event, and how, for an aggregate expression.
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

/// Two series and what is calculated of them.
fn combined(all: &[Series<'_>], formula: &str) -> Statement {
    let [one, two] = all else { panic!("two series") };
    let query = one.query;
    let mut with = With::default();
    for series in [one, two] {
        let last = series.steps(&mut with);
        with.add(&format!("{}_lines", series.mark), &last);
    }
    let place = place(query, "v");
    with.add(
        "both_lines",
        &format!(
            "select v, b, y as p, 0 as q, {place} * 100 + r as o from a_lines union all \
             select v, b, 0 as p, y as q, 1000 + {place} * 100 + r as o from b_lines"
        ),
    );
    let own = match formula {
        "A / B" => "if(q = 0, 0, p / q)",
        "A - B" => "p - q",
        "(A - B) / (A + B)" => "if(p + q = 0, 0, (p - q) / (p + q))",
        "A + B * 2" => "p + q * 2",
        other => panic!("{other}"),
    };
    with.add(
        "sums",
        "select v, b, sum(p) as p, sum(q) as q, min(o) as o from both_lines group by v, b",
    );
    with.add("points", &format!("select v, b, o, {own} as y from sums"));
    let weight = if is_cumulative(query) { "argMax(y, b)" } else { "sum(y)" };
    with.add("heavy", &format!("select v, {weight} as w, min(o) as o from points group by v"));
    let shown = shown(query).replace("(b)", "(x.b)");
    let shown = if shown == "b" { "x.b".to_owned() } else { shown };
    let place = place.replace("v =", "h.v =");
    with.then(&format!(
        "select {place} as p, h.o, h.v, {shown}, x.y from heavy h inner join points x \
         on h.v = x.v order by p, round(h.w, 9) desc, h.o, x.b"
    ))
}

fn shape(query: &Json, answers: &[Vec<Json>]) -> Json {
    let compared = query["compareFilter"]["compare"] == true;
    let mut items = Vec::new();
    for (at, rows) in answers.iter().enumerate() {
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
                let previous = at >= answers.len() / 2;
                item["compare_label"] = json!(if previous { "previous" } else { "current" });
            }
            if let Some(filter) = query.get("breakdownFilter") {
                let text = run[0][2].as_str().unwrap();
                item["breakdown_value"] = match filter.get("breakdowns") {
                    Some(_) => text.split(BETWEEN).collect(),
                    None => json!(text),
                };
            }
            items.push(item);
        }
    }
    Json::Array(items)
}
