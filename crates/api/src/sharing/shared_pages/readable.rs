//! Tables of results for people: words for columns, rounded numbers, names of breakdown values.

/// Words for columns, by their name in the result.
const WORDS: [(&str, &str); 13] = [
    ("series", "Series"),
    ("value", "Value"),
    ("cohort", "Cohort"),
    ("seconds", "Seconds to convert"),
    ("actors", "Count"),
    ("order", "Step"),
    ("name", "Event"),
    ("breakdown_value", "Value"),
    ("count", "Count"),
    ("source", "From"),
    ("target", "To"),
    ("average_conversion_time", "Average seconds from the step before"),
    ("median_conversion_time", "Median seconds from the step before"),
];
/// Columns of steps and edges that only programs read.
const HIDDEN: [&str; 7] = [
    "action_id",
    "breakdown",
    "converted_people_url",
    "custom_name",
    "dropped_people_url",
    "type",
    "label",
];
/// Columns of names. A version such as `2.10` is one, and no number to round.
const NAMES: [&str; 4] = ["series", "cohort", "name", "breakdown_value"];
/// Columns that say what a row is about come first; the others keep their order.
const FIRST: [&str; 9] =
    ["order", "name", "breakdown_value", "series", "cohort", "source", "target", "count", "value"];
const NOT_SET: &str = "$$_posthog_breakdown_null_$$";
const OTHER: &str = "$$_posthog_breakdown_other_$$";

/// Rewrites a table, of which the first row is the header.
pub(super) fn readable(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let Some(head) = rows.first() else { return rows };
    let is_edge = head.iter().any(|name| name == "target");
    let mut kept: Vec<usize> =
        (0..head.len()).filter(|at| !HIDDEN.contains(&head[*at].as_str())).collect();
    kept.sort_by_key(|at| FIRST.iter().position(|name| *name == head[*at]).unwrap_or(FIRST.len()));
    let title = |name: &str| {
        let known = WORDS.iter().find(|(column, _)| *column == name);
        match known {
            Some(("value", _)) if is_edge => "Count".to_owned(),
            Some((_, words)) => (*words).to_owned(),
            None => name.to_owned(),
        }
    };
    let custom_name = head.iter().position(|name| name == "custom_name");
    let header = kept.iter().map(|at| title(&head[*at])).collect();
    let body = rows.iter().skip(1).map(|row| {
        let cells = kept.iter().map(|at| {
            let text = row.get(*at).map_or("", String::as_str);
            match head[*at].as_str() {
                // Steps are numbered from 0 and edges name the step they are at: `1_/pricing`.
                "order" => text
                    .parse::<u32>()
                    .map_or_else(|_| text.into(), |step| step.saturating_add(1).to_string()),
                "source" | "target" if is_edge => place(text),
                "name" => {
                    let custom = custom_name.and_then(|at| row.get(at));
                    custom.filter(|name| !name.is_empty()).map_or(text, |name| name).to_owned()
                }
                column if NAMES.contains(&column) => named(text),
                _ => rounded(text),
            }
        });
        cells.collect()
    });
    std::iter::once(header).chain(body).collect()
}

/// A name as people read it. Values of several breakdowns are a list, `["a","b"]`.
fn named(text: &str) -> String {
    let values: Option<Vec<String>> =
        text.starts_with('[').then(|| serde_json::from_str(text).ok()).flatten();
    let text = values.map_or_else(|| text.to_owned(), |values| values.join(", "));
    text.replace(NOT_SET, "(not set)").replace(OTHER, "Other")
}

/// A number with at most two decimals; other text as it is.
fn rounded(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if text.contains('.') && number.is_finite() => {
            let rounded = format!("{number:.2}");
            rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => text.to_owned(),
    }
}

fn place(text: &str) -> String {
    match text.split_once('_') {
        Some((step, name)) if step.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{step}. {name}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).into()).collect()).collect()
    }

    #[test]
    fn tables_of_shared_pages_are_for_people() {
        for (given, expected) in [
            (
                table(&[
                    &["series", "1-Jan-2024"],
                    &["$pageview - $$_posthog_breakdown_null_$$", "0.1000000001"],
                ]),
                table(&[&["Series", "1-Jan-2024"], &["$pageview - (not set)", "0.1"]]),
            ),
            (
                table(&[
                    &["action_id", "custom_name", "name", "order", "count", "breakdown_value"],
                    &["a", "Paid", "a", "0", "7", "2.10"],
                ]),
                table(&[&["Step", "Event", "Value", "Count"], &["1", "Paid", "2.10", "7"]]),
            ),
            (
                table(&[
                    &["average_conversion_time", "breakdown_value", "count", "name", "order"],
                    &["97.404", r#"["pro","$$_posthog_breakdown_null_$$"]"#, "7", "paid", "1"],
                    &["", "[draft] price", "3", "paid", "1"],
                ]),
                table(&[
                    &["Step", "Event", "Value", "Count", "Average seconds from the step before"],
                    &["2", "paid", "pro, (not set)", "7", "97.4"],
                    &["2", "paid", "[draft] price", "3", ""],
                ]),
            ),
            (
                table(&[&["series", "value"], &["2.10", "2.10"]]),
                table(&[&["Series", "Value"], &["2.10", "2.1"]]),
            ),
            (
                table(&[&["source", "target", "value"], &["1_/a_b", "2_/", "12"]]),
                table(&[&["From", "To", "Count"], &["1. /a_b", "2. /", "12"]]),
            ),
        ] {
            assert_eq!(readable(given), expected);
        }
        assert_eq!(rounded("2.0"), "2");
        assert_eq!(rounded("1e400.0"), "1e400.0");
        assert_eq!(rounded("10.10.2024"), "10.10.2024");
    }
}
