//! Lists: conditions built piece by piece with their values, and the window laid over them.

use model::{Sight, Window};

use super::dialect::placeholders;
use super::{Db, Row, Value, args};
use crate::Result;

/// What rows must fulfil.
#[derive(Clone)]
pub(crate) struct Condition {
    sql: String,
    values: Vec<Value>,
}

impl Condition {
    /// A first condition, whose values are already numbered.
    pub(crate) fn new(sql: &str, values: Vec<Value>) -> Self {
        Self { sql: sql.to_owned(), values }
    }

    /// Adds a condition in which every `?` stands for `value`.
    pub(crate) fn and(&mut self, sql: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.sql += " AND ";
        self.sql += &sql.replace('?', &format!("${}", self.values.len()));
    }

    /// Adds a condition in which `?` stands for a list of `values`; an empty one matches nothing.
    pub(crate) fn and_in<T: Into<Value>>(&mut self, sql: &str, values: Vec<T>) {
        let marks = placeholders(self.values.len() + 1, values.len());
        self.values.extend(values.into_iter().map(Into::into));
        self.sql += " AND ";
        self.sql += &sql.replace('?', &marks);
    }

    /// Adds a condition without values.
    pub(crate) fn and_that(&mut self, sql: &str) {
        self.sql += " AND ";
        self.sql += sql;
    }

    /// Adds: the object known as `alias` is within sight.
    pub(crate) fn and_within(&mut self, sight: &Sight, alias: &str) {
        if let Some(sql) = within(sight, alias, &mut self.values) {
            self.and_that(&sql);
        }
    }

    /// Takes the values of a part of a later condition, and answers that part: the object known as
    /// `alias` is within sight.
    pub(crate) fn hold_within(&mut self, sight: &Sight, alias: &str) -> String {
        within(sight, alias, &mut self.values).unwrap_or_else(|| "TRUE".into())
    }

    /// Adds a search for `needle` in several text columns, or in the tags of the objects known as
    /// `alias`: one that holds it is enough.
    pub(crate) fn and_found_in(
        &mut self,
        columns: &[&str],
        tagged: Option<(&str, &str)>,
        needle: &str,
    ) {
        self.values.extend(args![pattern(&needle.to_lowercase()), pattern(needle)]);
        let (written, lowered) = (self.values.len(), self.values.len() - 1);
        let mut ways = found_in(columns, lowered, written);
        ways.extend(tagged.map(|(object, alias)| {
            let tag = format!("t.tag LIKE ${lowered} ESCAPE '\\'");
            format!("EXISTS ({} AND {tag})", taggings(object, alias))
        }));
        self.sql += &format!(" AND ({})", ways.join(" OR "));
    }

    /// Takes the values of, and answers, how well a text column fits what was searched for: 4 is
    /// the whole of it, 3 a beginning, 2 a part; what fits in another way is 1.
    pub(crate) fn fit(&mut self, column: &str, needle: &str) -> String {
        let needle = needle.to_lowercase();
        let (anywhere, start) = (pattern(&needle), pattern(&needle).split_off(1));
        self.values.extend(args![needle, start, anywhere]);
        let last = self.values.len();
        let (whole, start) = (last - 2, last - 1);
        format!(
            "CASE WHEN lower({column}) = ${whole} THEN 4 \
             WHEN lower({column}) LIKE ${start} ESCAPE '\\' THEN 3 \
             WHEN lower({column}) LIKE ${last} ESCAPE '\\' THEN 2 ELSE 1 END"
        )
    }

    /// Adds: at least one of these tags is on the object known as `alias`.
    pub(crate) fn and_tagged(&mut self, object: &str, alias: &str, tags: &[String]) {
        let sql = format!("EXISTS ({} AND t.tag IN ?)", taggings(object, alias));
        self.and_in(&sql, tags.iter().map(String::as_str).collect());
    }

    /// Adds: none of these tags is on the object known as `alias`.
    pub(crate) fn and_not_tagged(&mut self, object: &str, alias: &str, tags: &[String]) {
        let sql = format!("NOT EXISTS ({} AND t.tag IN ?)", taggings(object, alias));
        self.and_in(&sql, tags.iter().map(String::as_str).collect());
    }

    /// Adds a search for `needle` in several text columns, or what `other` says of it, where `?`
    /// stands for the whole of it.
    pub(crate) fn and_found_or(&mut self, columns: &[&str], needle: &str, other: &str) {
        self.values.extend(args![pattern(&needle.to_lowercase()), pattern(needle), needle]);
        let whole = self.values.len();
        let (written, lowered) = (whole - 1, whole - 2);
        let mut ways = found_in(columns, lowered, written);
        ways.push(other.replace('?', &format!("${whole}")));
        self.sql += &format!(" AND ({})", ways.join(" OR "));
    }

    /// Adds: the row stands before this one in a list that both columns order.
    pub(crate) fn and_before(&mut self, first: (&str, Value), second: (&str, Value)) {
        self.values.extend([first.1, second.1]);
        let last = self.values.len();
        self.sql += &format!(" AND ({}, {}) < (${}, ${last})", first.0, second.0, last - 1);
    }

    /// Takes values for a list that is used elsewhere in the statement, and answers their places.
    pub(crate) fn hold(&mut self, values: &[String]) -> String {
        let marks = placeholders(self.values.len() + 1, values.len());
        self.values.extend(values.iter().map(|value| Value::from(value.as_str())));
        marks
    }

    /// Adds: the JSON object in a text column may have a member of this name. Whoever asks looks
    /// closer; what has no such text in it need not be checked at.
    pub(crate) fn and_may_have(&mut self, column: &str, name: &str) {
        let member = format!("{}:", serde_json::Value::from(name));
        self.and(&format!("{column} LIKE ? ESCAPE '\\'"), pattern(&member));
    }

    /// Adds a search for `needle` anywhere in a text column, whatever its case. SQLite lowers
    /// only ASCII, so the other letters are also compared as they were written.
    pub(crate) fn and_contains(&mut self, column: &str, needle: &str) {
        self.values.extend(args![pattern(&needle.to_lowercase()), pattern(needle)]);
        let last = self.values.len();
        self.sql += &format!(
            " AND (lower({column}) LIKE ${} ESCAPE '\\' OR {column} LIKE ${last} ESCAPE '\\')",
            last - 1,
        );
    }
}

/// That the object known as `alias` is within sight, with its values behind the others; none where
/// everything is.
pub(crate) fn within(sight: &Sight, alias: &str, values: &mut Vec<Value>) -> Option<String> {
    let (ids, own, word) = match sight {
        Sight::Everything => return None,
        Sight::AllBut { hidden, own } => (hidden, own, "NOT IN"),
        Sight::Only { seen, own } => (seen, own, "IN"),
    };
    let marks = placeholders(values.len() + 1, ids.len());
    values.extend(ids.iter().map(|id| Value::from(*id)));
    values.extend(args![*own]);
    Some(format!("({alias}.id {word} {marks} OR {alias}.created_by = ${})", values.len()))
}

/// Ways in which text columns hold what was searched for, given in lower case and as it was written.
fn found_in(columns: &[&str], lowered: usize, written: usize) -> Vec<String> {
    let way = |column: &&str| {
        format!(
            "lower({column}) LIKE ${lowered} ESCAPE '\\' OR {column} LIKE ${written} ESCAPE '\\'"
        )
    };
    columns.iter().map(way).collect()
}

fn taggings(object: &str, alias: &str) -> String {
    format!(
        "SELECT 1 FROM taggings t WHERE t.project_id = {alias}.project_id \
         AND t.object = '{object}' AND t.object_id = CAST({alias}.id AS TEXT)"
    )
}

/// Finds `needle` anywhere, taken literally.
fn pattern(needle: &str) -> String {
    let mut pattern = String::with_capacity(needle.len() + 2);
    pattern.push('%');
    for letter in needle.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

impl Db {
    /// One slice of a list, and how long the whole list is. `from` is the joined tables.
    pub(crate) async fn page(
        &self,
        columns: &str,
        from: &str,
        condition: Condition,
        order: &str,
        window: Window,
    ) -> Result<(Vec<Row>, i64)> {
        let total = self.count(from, condition.clone()).await?;
        Ok((self.slice(columns, from, condition, order, window).await?, total))
    }

    /// How long the whole list is.
    pub(crate) async fn count(&self, from: &str, condition: Condition) -> Result<i64> {
        let Condition { sql, values } = condition;
        let count = format!("SELECT COUNT(*) AS total FROM {from} WHERE {sql}");
        self.one(count, values).await?.get("total")
    }

    /// One slice of a list that is not counted.
    pub(crate) async fn slice(
        &self,
        columns: &str,
        from: &str,
        condition: Condition,
        order: &str,
        window: Window,
    ) -> Result<Vec<Row>> {
        let Condition { sql, mut values } = condition;
        let next = values.len() + 1;
        let page = format!(
            "SELECT {columns} FROM {from} WHERE {sql} ORDER BY {order} LIMIT ${next} OFFSET ${}",
            next + 1,
        );
        values.extend(args![window.limit, window.offset]);
        self.all(page, values).await
    }
}
