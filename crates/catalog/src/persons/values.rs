//! Frequent values of person and group properties, for autocompletion of filters.

use std::collections::{BTreeMap, HashMap};

use model::ProjectId;
use model::person::PersonNo;
use model::property::text;
use serde_json::Value as Json;

use super::{Groups, Persons};
use crate::Result;
use crate::db::args;

/// Persons (the newest) or groups that are sampled, as in PostHog.
const SAMPLED_MAX: usize = 100_000;
const BATCH_ROWS: i64 = 1_000;
/// Distinct values or names that are counted.
const DISTINCT_VALUES_MAX: usize = 10_000;
/// Longer values are not suggested.
const VALUE_CHARS_MAX: usize = 400;

/// Counts per value.
struct Counts {
    counts: HashMap<String, i64>,
    /// The search string in lower case.
    containing: Option<String>,
}

impl Counts {
    fn of(containing: Option<&str>) -> Self {
        Self { counts: HashMap::new(), containing: containing.map(str::to_lowercase) }
    }

    /// Elements of an array count separately.
    fn add(&mut self, value: &Json) {
        if let Json::Array(items) = value {
            return items.iter().filter(|item| !item.is_array()).for_each(|item| self.add(item));
        }
        let value = match value {
            Json::Null => return,
            value => text(value),
        };
        let fits = |containing: &String| value.to_lowercase().contains(containing.as_str());
        if value.is_empty()
            || value.chars().count() > VALUE_CHARS_MAX
            || !self.containing.as_ref().is_none_or(fits)
        {
            return;
        }
        if let Some(count) = self.counts.get_mut(value.as_ref()) {
            *count += 1;
        } else if self.counts.len() < DISTINCT_VALUES_MAX {
            self.counts.insert(value.into_owned(), 1);
        }
    }

    /// Most frequent first; when searching, shortest first.
    fn first(self, limit: usize) -> Vec<(String, i64)> {
        let searched = self.containing.is_some();
        let mut all: Vec<(String, i64)> = self.counts.into_iter().collect();
        all.sort_by(|(a, of_a), (b, of_b)| {
            let by_length =
                if searched { a.len().cmp(&b.len()) } else { std::cmp::Ordering::Equal };
            by_length.then(of_b.cmp(of_a)).then_with(|| a.cmp(b))
        });
        all.truncate(limit);
        all
    }
}

impl Persons<'_> {
    /// Values of a property among the newest persons, with counts.
    pub async fn values(
        self,
        project: ProjectId,
        key: &str,
        containing: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, i64)>> {
        let mut counts = Counts::of(containing);
        let sql = "SELECT no, properties FROM persons \
                   WHERE project_id = $1 AND no < $2 ORDER BY no DESC LIMIT $3";
        let (mut before, mut sampled) = (i64::from(u32::MAX) + 1, 0);
        while sampled < SAMPLED_MAX {
            let rows = self.core.db.all(sql, args![project, before, BATCH_ROWS]).await?;
            let Some(last) = rows.last() else { break };
            before = i64::from(last.get::<PersonNo>("no")?.0);
            sampled += rows.len();
            for row in &rows {
                let properties: HashMap<String, Json> = row.json("properties")?;
                properties.get(key).into_iter().for_each(|value| counts.add(value));
            }
        }
        Ok(counts.first(limit))
    }
}

impl Groups<'_> {
    /// Values of a property among groups of a type, with counts.
    pub async fn values(
        self,
        project: ProjectId,
        index: u8,
        key: &str,
        containing: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, i64)>> {
        let mut counts = Counts::of(containing);
        let (mut after, mut sampled): (Option<String>, _) = (None, 0);
        while sampled < SAMPLED_MAX {
            let groups = self.scan(project, index, after.as_deref(), BATCH_ROWS).await?;
            let Some(last) = groups.last() else { break };
            after = Some(last.key.clone());
            sampled += groups.len();
            let values = groups.iter().filter_map(|group| group.properties.get(key));
            values.for_each(|value| counts.add(value));
        }
        Ok(counts.first(limit))
    }

    /// Property names of the groups of each type, with counts, most frequent first.
    pub async fn property_names(
        self,
        project: ProjectId,
    ) -> Result<BTreeMap<u8, Vec<(String, i64)>>> {
        let mut names = BTreeMap::new();
        for kind in self.types(project).await? {
            let mut counts: HashMap<String, i64> = HashMap::new();
            let (mut after, mut sampled): (Option<String>, _) = (None, 0);
            while sampled < SAMPLED_MAX {
                let groups = self.scan(project, kind.index, after.as_deref(), BATCH_ROWS).await?;
                let Some(last) = groups.last() else { break };
                after = Some(last.key.clone());
                sampled += groups.len();
                for name in groups.into_iter().flat_map(|group| group.properties) {
                    if counts.len() < DISTINCT_VALUES_MAX || counts.contains_key(&name.0) {
                        *counts.entry(name.0).or_default() += 1;
                    }
                }
            }
            let mut counts: Vec<(String, i64)> = counts.into_iter().collect();
            counts.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
            if !counts.is_empty() {
                names.insert(kind.index, counts);
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn property_values_are_counted_flattened_and_searched() {
        let all = |containing: Option<&str>| {
            let mut counts = Counts::of(containing);
            for value in [
                json!("pro"),
                json!("Pro plus"),
                json!(["pro", "free", null, ["deep"]]),
                json!(true),
                json!(1.5),
                json!(""),
                json!("x".repeat(401)),
            ] {
                counts.add(&value);
            }
            counts.first(10)
        };
        let counted = |all: &[(&str, i64)]| -> Vec<(String, i64)> {
            all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let expected = [("pro", 2), ("1.5", 1), ("Pro plus", 1), ("free", 1), ("true", 1)];
        assert_eq!(all(None), counted(&expected));
        assert_eq!(all(Some("PRO")), counted(&[("pro", 2), ("Pro plus", 1)]));
    }
}
