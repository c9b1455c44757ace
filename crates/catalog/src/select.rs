//! Lists: conditions built piece by piece with their values, and the window laid over them.

use model::Window;

use crate::Result;
use crate::db::{Db, Row, Value, args};

/// What rows must fulfil.
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
        let Condition { sql, mut values } = condition;
        let count = format!("SELECT COUNT(*) AS total FROM {from} WHERE {sql}");
        let total = self.one(count, values.clone()).await?.get("total")?;
        let next = values.len() + 1;
        let page = format!(
            "SELECT {columns} FROM {from} WHERE {sql} ORDER BY {order} LIMIT ${next} OFFSET ${}",
            next + 1,
        );
        values.extend(args![window.limit, window.offset]);
        Ok((self.all(page, values).await?, total))
    }
}
