//! The statements of `bench/sql`: HogQL, and beside it the best that we know for ClickHouse.
//!
//! A statement starts with `-- its name`. Parts of it start with three dashes: `clickhouse`, where the
//! statement for ClickHouse is more than a translation of names; `without`, the same statement without
//! properties; `unordered`, if the rows have no order.

/// Tables and columns: what HogQL calls them, and ClickHouse.
const TRANSLATIONS: [(&str, &str); 5] = [
    ("from events", "from bench.events"),
    ("from sessions", "from bench.sessions"),
    ("person_id", "person"),
    // ClickHouse's columns are not nullable.
    ("properties.utm_source is not null", "utm_source != ''"),
    ("properties.", ""),
];

const GROUPS: [(&str, &str); 4] = [
    ("Shapes of ClickBench", include_str!("../../sql/clickbench.sql")),
    ("Web analytics and sessions", include_str!("../../sql/web.sql")),
    ("Persons, funnels, windows and arrays", include_str!("../../sql/analysis.sql")),
    ("Events with their properties", include_str!("../../sql/properties.sql")),
];

pub struct Statement {
    pub name: &'static str,
    pub hogql: String,
    pub clickhouse: String,
    /// The same without properties; only where the statement has them.
    pub without: Option<String>,
    pub is_ordered: bool,
}

/// All statements, by group.
pub fn groups() -> impl Iterator<Item = (&'static str, Vec<Statement>)> {
    GROUPS.into_iter().map(|(group, text)| (group, statements(text)))
}

fn statements(text: &'static str) -> Vec<Statement> {
    let blocks = text.split("\n\n").filter_map(|block| block.trim().strip_prefix("-- "));
    blocks
        .map(|block| {
            let (name, body) = block.split_once('\n').unwrap_or((block, ""));
            let mut parts = body.split("--- ");
            let hogql = parts.next().unwrap_or_default().trim().to_owned();
            let mut statement = Statement {
                name,
                clickhouse: translated(&hogql),
                hogql,
                without: None,
                is_ordered: true,
            };
            for part in parts {
                let (kind, body) = part.split_once('\n').unwrap_or((part, ""));
                let body = body.trim().to_owned();
                match kind.trim() {
                    "clickhouse" => statement.clickhouse = body,
                    "without" => statement.without = Some(body),
                    "unordered" => statement.is_ordered = false,
                    other => panic!("{name} has a part {other}"),
                }
            }
            statement
        })
        .collect()
}

fn translated(hogql: &str) -> String {
    let translate = |text: String, (ours, theirs): (&str, &str)| text.replace(ours, theirs);
    TRANSLATIONS.into_iter().fold(hogql.to_owned(), translate)
}
