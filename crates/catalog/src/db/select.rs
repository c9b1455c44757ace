//! Builds WHERE conditions with their parameters, and runs paginated lists.

use model::{Visibility, Window};

use super::dialect::placeholders;
use super::{Db, Row, Value, args};
use crate::Result;

/// A WHERE condition with its parameters.
#[derive(Clone)]
pub(crate) struct Condition {
    sql: String,
    values: Vec<Value>,
}

impl Condition {
    /// An initial condition with numbered placeholders.
    pub(crate) fn new(sql: &str, values: Vec<Value>) -> Self {
        Self { sql: sql.to_owned(), values }
    }

    /// ANDs a condition in which every `?` stands for `value`.
    pub(crate) fn and(&mut self, sql: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.sql += " AND ";
        self.sql += &sql.replace('?', &format!("${}", self.values.len()));
    }

    /// ANDs a condition in which `?` stands for a list; an empty list matches nothing.
    pub(crate) fn and_in<T: Into<Value>>(&mut self, sql: &str, values: Vec<T>) {
        let marks = placeholders(self.values.len() + 1, values.len());
        self.values.extend(values.into_iter().map(Into::into));
        self.sql += " AND ";
        self.sql += &sql.replace('?', &marks);
    }

    /// ANDs a condition without parameters.
    pub(crate) fn and_sql(&mut self, sql: &str) {
        self.sql += " AND ";
        self.sql += sql;
    }

    /// Restricts to visible objects; `alias` is their table's alias.
    pub(crate) fn and_visible(&mut self, visibility: &Visibility, alias: &str) {
        if let Some(sql) = visible(visibility, alias, &mut self.values) {
            self.and_sql(&sql);
        }
    }

    /// Binds the parameters of a visibility condition and returns its SQL, to be part of a later
    /// condition.
    pub(crate) fn bind_visible(&mut self, visibility: &Visibility, alias: &str) -> String {
        visible(visibility, alias, &mut self.values).unwrap_or_else(|| "TRUE".into())
    }

    /// ANDs a case-insensitive substring search over several columns and, if `tagged` gives an object
    /// type and its table's alias, over the object's tags.
    pub(crate) fn and_search(
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

    /// Binds the parameters of a match score and returns its SQL: 4 for equality, 3 for a prefix, 2
    /// for a substring, else 1.
    pub(crate) fn match_score(&mut self, column: &str, needle: &str) -> String {
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

    /// ANDs: the object with this alias has at least one of the tags.
    pub(crate) fn and_tagged(&mut self, object: &str, alias: &str, tags: &[String]) {
        let sql = format!("EXISTS ({} AND t.tag IN ?)", taggings(object, alias));
        self.and_in(&sql, tags.iter().map(String::as_str).collect());
    }

    /// ANDs: the object with this alias has none of the tags.
    pub(crate) fn and_not_tagged(&mut self, object: &str, alias: &str, tags: &[String]) {
        let sql = format!("NOT EXISTS ({} AND t.tag IN ?)", taggings(object, alias));
        self.and_in(&sql, tags.iter().map(String::as_str).collect());
    }

    /// ANDs a keyset condition: the row precedes the given one in the order of both columns.
    pub(crate) fn and_before(&mut self, first: (&str, Value), second: (&str, Value)) {
        self.values.extend([first.1, second.1]);
        let last = self.values.len();
        self.sql += &format!(" AND ({}, {}) < (${}, ${last})", first.0, second.0, last - 1);
    }

    /// Binds a list that is used elsewhere in the statement, and returns its placeholders.
    pub(crate) fn bind_list(&mut self, values: &[String]) -> String {
        let marks = placeholders(self.values.len() + 1, values.len());
        self.values.extend(values.iter().map(|value| Value::from(value.as_str())));
        marks
    }

    /// ANDs a prefilter: the JSON object in a text column may have a member of this name. The
    /// caller evaluates the rows that pass.
    pub(crate) fn and_may_have_member(&mut self, column: &str, name: &str) {
        let member = format!("{}:", serde_json::Value::from(name));
        self.and(&format!("{column} LIKE ? ESCAPE '\\'"), pattern(&member));
    }

    /// ANDs a case-insensitive substring search. SQLite lowers only ASCII, so other letters also
    /// match as written.
    pub(crate) fn and_contains(&mut self, column: &str, needle: &str) {
        self.values.extend(args![pattern(&needle.to_lowercase()), pattern(needle)]);
        let last = self.values.len();
        self.sql += &format!(
            " AND (lower({column}) LIKE ${} ESCAPE '\\' OR {column} LIKE ${last} ESCAPE '\\')",
            last - 1,
        );
    }
}

/// SQL: the object with this alias is visible, with its parameters appended to `values`; none if
/// everything is visible.
pub(crate) fn visible(
    visibility: &Visibility,
    alias: &str,
    values: &mut Vec<Value>,
) -> Option<String> {
    let (ids, own, word) = match visibility {
        Visibility::Everything => return None,
        Visibility::AllExcept { hidden, viewer } => (hidden, viewer, "NOT IN"),
        Visibility::Only { visible, viewer } => (visible, viewer, "IN"),
    };
    let marks = placeholders(values.len() + 1, ids.len());
    values.extend(ids.iter().map(|id| Value::from(*id)));
    values.extend(args![*own]);
    Some(format!("({alias}.id {word} {marks} OR {alias}.created_by = ${})", values.len()))
}

/// LIKE conditions for the lowered needle and for the needle as written.
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

/// A LIKE pattern that matches `needle` literally, anywhere.
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
    /// One page of a list, and the total count. `from` is the FROM clause.
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

    /// The total count of a list.
    pub(crate) async fn count(&self, from: &str, condition: Condition) -> Result<i64> {
        let Condition { sql, values } = condition;
        let count = format!("SELECT COUNT(*) AS total FROM {from} WHERE {sql}");
        self.one(count, values).await?.get("total")
    }

    /// One page of a list, without the total count.
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
