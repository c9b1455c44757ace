//! The `sessions` table, computed from events with a `$session_id` (contract, 5.4).
//!
//! A session is computed from all its events, whatever the query filters.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
    UInt64Array,
};
use facts::{channel_type, url_host, url_path};
use model::ProjectId;
use warehouse::{
    ABSENT, Batch, Column, ColumnKey, Dictionary, Filter, Interner, Predicate, Projection, Value,
};

use super::dictionary_strings::{DictionaryStrings, Missing, text};
use super::persons::string_lists;
use super::session::{ENTRY_PROPERTIES, EXIT_PROPERTIES, Event, NONE, Session};
use crate::error::{Error, Result, UNEXPECTED};
use crate::lower::Lowering;

#[derive(Default)]
pub(crate) struct Sessions {
    ids: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
    rows: Vec<Session>,
    texts: Interner,
}

/// Memory of a session on top of its strings: its row, its id, and its hash table entry.
const SESSION_BYTES: usize = size_of::<Session>() + 128;

/// A string column of events, by its index in the projection.
struct TextColumn {
    at: usize,
    memo: TextMemo,
}

/// The interned strings of a dictionary, of the entries that rows use: parts of one row group follow each
/// other and share it.
#[derive(Default)]
struct TextMemo {
    dictionary: Option<Arc<Dictionary>>,
    texts: Vec<u32>,
}

/// An entry whose string is not interned yet. No query has the memory for this many strings.
const UNKNOWN: u32 = NONE - 1;

impl TextMemo {
    fn intern(&mut self, column: &Column, texts: &mut Interner) {
        let dictionary = &column.dictionary;
        if !self.dictionary.as_ref().is_some_and(|known| Arc::ptr_eq(known, dictionary)) {
            self.texts = vec![UNKNOWN; dictionary.len()];
            self.dictionary = Some(dictionary.clone());
        }
        let known = &mut self.texts;
        let mut new = Vec::new();
        let is_known = |code: u32| known[code as usize] != UNKNOWN;
        dictionary.for_each_used(&column.codes, is_known, |code| new.push(code));
        for code in new {
            let text = text(dictionary.get(code), &[]);
            known[code as usize] = text.map_or(NONE, |text| texts.intern(Value::Text(&text)));
        }
    }

    fn text(&self, code: u32) -> u32 {
        if code == ABSENT { NONE } else { self.texts[code as usize] }
    }
}

/// Whether a column of sessions shows the first value of a property.
fn shows_entry(column: &str, property: &str) -> bool {
    let of_url = matches!(
        column,
        "$entry_current_url" | "$entry_pathname" | "$entry_hostname" | "$urls" | "$num_uniq_urls"
    );
    let is_own = column.strip_prefix("$entry_") == Some(property.trim_start_matches('$'));
    column == "$channel_type"
        || is_own
        || property == "$current_url" && of_url
        || property == "$web_vitals_LCP_value" && column == "$vitals_lcp"
}

/// Whether a column of sessions shows the last value of a property.
fn shows_exit(column: &str, property: &str) -> bool {
    match property {
        "$current_url" => column.starts_with("$end_") || column.starts_with("$exit_"),
        _ => column == "$last_external_click_url",
    }
}

impl Lowering {
    pub(super) fn sessions(&self) -> Result<Arc<Sessions>> {
        let sessions = self.loaded_sessions();
        sessions.ok_or_else(|| Error::engine(UNEXPECTED, "sessions were not loaded"))
    }

    pub(super) async fn load_sessions(&mut self) -> Result<()> {
        if self.loaded_sessions().is_some() {
            return Ok(());
        }
        let mut columns = Projection { created_at: true, ..Projection::default() };
        let property = |name: &str| ColumnKey::Property(name.to_owned());
        columns.distinct_nos = false;
        columns.keys.extend([property("$session_id"), ColumnKey::Event]);
        // Properties that no column of the query shows are not read.
        let mut texts = Vec::new();
        let mut add = |key: ColumnKey, is_read: bool| {
            texts.push(is_read.then(|| {
                columns.keys.push(key);
                TextColumn { at: columns.keys.len() - 1, memo: TextMemo::default() }
            }));
        };
        add(ColumnKey::DistinctId, self.reads_column(|name| name == "distinct_id"));
        for name in ENTRY_PROPERTIES {
            add(property(name), self.reads_column(|column| shows_entry(column, name)));
        }
        for name in EXIT_PROPERTIES {
            add(property(name), self.reads_column(|column| shows_exit(column, name)));
        }
        let has_session = Predicate::test(property("$session_id"), |value| value.is_some());
        let filter = Filter { predicate: Some(has_session), ..Filter::default() };
        let parts = self.view.events.scan_ranges(&filter)?;
        let mut sessions = Sessions::default();
        for part in parts {
            tokio::task::yield_now().await;
            self.cancellation.check()?;
            let before = sessions.bytes();
            sessions.add(&part.read(&filter, &columns)?, &mut texts);
            self.retain(sessions.bytes() - before)?;
        }
        self.set_sessions(Arc::new(sessions));
        Ok(())
    }
}

impl Sessions {
    fn bytes(&self) -> usize {
        // Each string is in the dictionary and in the interner's table of codes.
        self.rows.len() * SESSION_BYTES + self.texts.dictionary.memory_bytes() * 2
    }

    fn add(&mut self, batch: &Batch, columns: &mut [Option<TextColumn>]) {
        let ids = DictionaryStrings::of(&batch.columns[0].dictionary, &[], Missing::Null);
        let mut session_rows: Vec<Option<u32>> = vec![None; batch.columns[0].dictionary.len()];
        let ids: Vec<Option<&str>> = ids.entries().collect();
        for column in columns.iter_mut().flatten() {
            column.memo.intern(&batch.columns[column.at], &mut self.texts);
        }
        let text = |no: usize, row: usize| match &columns[no] {
            Some(column) => column.memo.text(batch.columns[column.at].codes[row]),
            None => NONE,
        };
        for row in 0..batch.rows {
            let code = batch.columns[0].codes[row];
            let Some(id) = ids.get(code as usize).copied().flatten() else { continue };
            let row_no =
                *session_rows[code as usize].get_or_insert_with(|| match self.ids.get(id) {
                    Some(row_no) => *row_no,
                    None => {
                        let row_no = self.rows.len() as u32;
                        self.ids.insert(id.into(), row_no);
                        self.names.push(id.into());
                        self.rows.push(Session::new());
                        row_no
                    }
                });
            let name = match batch.columns[1].value(row) {
                Some(Value::Text(name)) => name,
                _ => "",
            };
            let event = Event {
                name,
                at: batch.timestamps[row],
                inserted: batch.created_at[row],
                distinct_id: text(0, row),
                entries: std::array::from_fn(|at| text(1 + at, row)),
                exits: std::array::from_fn(|at| text(1 + ENTRY_PROPERTIES.len() + at, row)),
            };
            self.rows[row_no as usize].add(&event);
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The row of a session.
    pub(super) fn row(&self, id: &str) -> Option<u32> {
        self.ids.get(id).copied()
    }

    fn text(&self, code: u32) -> Option<&str> {
        match code {
            NONE => None,
            code => match self.texts.dictionary.get(code) {
                Value::Text(text) => Some(text),
                _ => None,
            },
        }
    }

    pub(super) fn column(&self, name: &str, project: ProjectId) -> Option<ArrayRef> {
        let rows = self.rows.iter();
        let coded = |code: &dyn Fn(&Session) -> u32| -> ArrayRef {
            Arc::new(self.rows.iter().map(|row| self.text(code(row))).collect::<StringArray>())
        };
        let url = |code: &dyn Fn(&Session) -> u32, part: fn(&str) -> &str| -> ArrayRef {
            let parts = self.rows.iter().map(|row| self.text(code(row)).map(part));
            Arc::new(parts.collect::<StringArray>())
        };
        let times = |time: fn(&Session) -> i64| -> ArrayRef {
            Arc::new(TimestampMicrosecondArray::from_iter_values(self.rows.iter().map(time)))
        };
        let counts = |count: fn(&Session) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(self.rows.iter().map(count)))
        };
        let first_url = |row: &Session| row.entry("$current_url");
        let last_url = |row: &Session| row.exit("$current_url");
        Some(match name {
            "session_id" => Arc::new(StringArray::from_iter_values(&self.names)),
            "distinct_id" => {
                let ids = rows.map(|row| self.text(row.distinct_id).unwrap_or_default());
                Arc::new(StringArray::from_iter_values(ids))
            }
            "$start_timestamp" => times(|row| row.start),
            "$end_timestamp" => times(|row| row.end),
            "max_inserted_at" => times(|row| row.inserted),
            "$num_uniq_urls" => counts(|row| row.urls.len() as u64),
            "$urls" => {
                let urls: Vec<Vec<&str>> = rows
                    .map(|row| row.urls.iter().filter_map(|url| self.text(*url)).collect())
                    .collect();
                string_lists(urls.iter().map(Vec::as_slice))
            }
            "$entry_current_url" => coded(&first_url),
            "$entry_pathname" => url(&first_url, url_path),
            "$entry_hostname" => url(&first_url, url_host),
            "$end_current_url" | "$exit_current_url" => coded(&last_url),
            "$end_pathname" | "$exit_pathname" => url(&last_url, url_path),
            "$pageview_count" => counts(|row| row.pageviews),
            "$autocapture_count" => counts(|row| row.autocaptures),
            "$screen_count" => counts(|row| row.screens),
            "$session_duration" => counts(Session::seconds),
            "$is_bounce" => {
                Arc::new(rows.map(|row| Some(row.is_bounce())).collect::<BooleanArray>())
            }
            "$channel_type" => {
                let channels = rows
                    .map(|row| channel_type(|name| self.text(row.entry(name)).map(str::to_owned)));
                Arc::new(StringArray::from_iter_values(channels))
            }
            "$last_external_click_url" => coded(&|row| row.exit("$external_click_url")),
            "$vitals_lcp" => {
                let numbers = rows
                    .map(|row| self.text(row.entry("$web_vitals_LCP_value"))?.parse::<f64>().ok());
                Arc::new(numbers.collect::<Float64Array>())
            }
            "team_id" => Arc::new(Int64Array::from(vec![project.0; self.rows.len()])),
            other => {
                let entry = other.strip_prefix("$entry_")?;
                let property =
                    ENTRY_PROPERTIES.iter().find(|name| name.trim_start_matches('$') == entry)?;
                coded(&|row| row.entry(property))
            }
        })
    }
}
