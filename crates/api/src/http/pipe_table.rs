//! Tables as text for language models: one line a row, cells divided by a bar. Writing stops at a
//! bound, so that a large result is not copied to show its start.

use std::fmt::{self, Write};

use serde_json::Value;

/// A model reads no more of one table.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// Stands for the rows and cells past [`BYTES_MAX`].
const CUT: &str = "\n(cut short: add a LIMIT, or select fewer columns)";

/// The header and the rows of a query result.
pub(crate) fn of_result(columns: &Value, results: &Value) -> String {
    let rows = results.as_array().into_iter().flatten();
    let rows = std::iter::once(columns).chain(rows);
    let cells = |row| Value::as_array(row).into_iter().flatten();
    write_rows(rows, |table, row| table.write_line(cells(row), PipeTable::write_value))
}

/// Rows of cells that are text already.
pub(crate) fn of_cells(rows: &[Vec<String>]) -> String {
    write_rows(rows, |table, row| table.write_line(row, |table, cell| table.write_str(cell)))
}

fn write_rows<R>(
    rows: impl IntoIterator<Item = R>,
    write_row: impl Fn(&mut PipeTable, R) -> fmt::Result,
) -> String {
    let mut table = PipeTable { text: String::new(), lines: 0 };
    let is_cut = rows.into_iter().try_for_each(|row| write_row(&mut table, row)).is_err();
    table.text + if is_cut { CUT } else { "" }
}

struct PipeTable {
    text: String,
    lines: usize,
}

impl PipeTable {
    fn write_line<C>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
        write_cell: impl Fn(&mut Self, C) -> fmt::Result,
    ) -> fmt::Result {
        if self.lines > 0 {
            self.push("\n")?;
        }
        self.lines += 1;
        for (at, cell) in cells.into_iter().enumerate() {
            if at > 0 {
                self.push("|")?;
            }
            write_cell(self, cell)?;
        }
        Ok(())
    }

    /// Strings without quotes, null as an empty cell.
    fn write_value(&mut self, value: &Value) -> fmt::Result {
        match value {
            Value::Null => Ok(()),
            Value::String(text) => self.write_str(text),
            other => write!(self, "{other}"),
        }
    }

    fn push(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > BYTES_MAX {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Writes the text of a cell.
impl Write for PipeTable {
    fn write_str(&mut self, cell: &str) -> fmt::Result {
        let mut utf8 = [0; 4];
        cell.chars().try_for_each(|char| match char {
            '|' => self.push("\\|"),
            '\n' | '\r' => self.push(" "),
            other => self.push(other.encode_utf8(&mut utf8)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pipe_table_escapes_what_divides_cells_and_lines() {
        let columns = json!(["a", "b"]);
        let rows = json!([["x|y\nz", null], [1.5, { "k": "|" }]]);
        assert_eq!(of_result(&columns, &rows), "a|b\nx\\|y z|\n1.5|{\"k\":\"\\|\"}");
        let cells = [vec!["a".to_owned()], vec!["|".to_owned()]];
        assert_eq!(of_cells(&cells), "a\n\\|");
        assert_eq!(of_result(&json!([]), &json!([])), "");
    }

    #[test]
    fn pipe_table_is_not_written_past_its_bound() {
        let long = "ü".repeat(BYTES_MAX);
        for cell in [json!(long), json!([long]), json!("|".repeat(BYTES_MAX))] {
            let rows: Vec<Value> = vec![json!([cell]); 3];
            let text = of_result(&json!(["a"]), &json!(rows));
            let table = text.strip_suffix(CUT).unwrap();
            assert!((BYTES_MAX - 1..=BYTES_MAX).contains(&table.len()), "{}", table.len());
        }
        let fits = of_cells(&[vec!["a".repeat(BYTES_MAX)]]);
        assert_eq!(fits.len(), BYTES_MAX);
    }
}
