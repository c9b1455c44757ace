//! Path items: the name of an event in a path (its URL path, screen, event name or an expression).

use std::borrow::Cow;
use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use warehouse::ColumnKey;

use crate::columns::interner::StringInterner;
use crate::columns::memo::DictionaryMemo;
use crate::columns::{EventColumns, text};
use crate::scan::Rows;
use crate::scan::expression::Source;
use crate::{Error, Result};

/// Size limit of a compiled regex.
const REGEX_BYTES_MAX: usize = 1 << 20;
const PATTERNS_MAX: usize = 100;

/// Placeholders for events that are named by a property; no interned id is this large.
const PAGEVIEW: u32 = u32::MAX;
const SCREEN: u32 = u32::MAX - 1;
const NONE: u32 = u32::MAX - 2;

pub(crate) struct PathItems {
    /// Names every event instead of the defaults.
    expression: Option<Source>,
    full_urls: bool,
    cleaning: Vec<(Regex, String)>,
    groupings: Vec<(Regex, String)>,
    excluded: BTreeSet<String>,
    texts: StringInterner,
}

pub(super) fn compile(pattern: &str) -> Result<Regex> {
    let built = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|why| Error::Invalid(format!("Invalid regex: {why}")))
}

/// Compiles a pattern in which `*` matches any string.
pub(super) fn grouping(pattern: &str) -> Result<(Regex, String)> {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    Ok((compile(&format!("(?s)^{}$", parts.join(".*")))?, pattern.to_owned()))
}

impl PathItems {
    pub fn new(
        expression: Option<Source>,
        full_urls: bool,
        cleaning: &[(&str, &str)],
        groupings: &[String],
        excluded: &[String],
    ) -> Result<Self> {
        if cleaning.len() + groupings.len() > PATTERNS_MAX {
            return Err(Error::Invalid(format!("At most {PATTERNS_MAX} patterns are possible.")));
        }
        let rule = |(pattern, alias): &(&str, &str)| Ok((compile(pattern)?, (*alias).to_owned()));
        Ok(Self {
            expression,
            full_urls,
            cleaning: cleaning.iter().map(rule).collect::<Result<_>>()?,
            groupings: groupings.iter().map(|one| grouping(one)).collect::<Result<_>>()?,
            excluded: excluded.iter().cloned().collect(),
            texts: StringInterner::default(),
        })
    }

    pub fn keys(&self) -> Vec<ColumnKey> {
        match &self.expression {
            Some(Source::Key(key)) => vec![ColumnKey::Event, key.clone()],
            Some(Source::Scalar(scalar)) => {
                std::iter::once(ColumnKey::Event).chain(scalar.keys().iter().cloned()).collect()
            }
            None => {
                let property = |name: &str| ColumnKey::Property(name.to_owned());
                vec![ColumnKey::Event, property("$current_url"), property("$screen_name")]
            }
        }
    }

    pub fn intern(&self, text: &str) -> u32 {
        self.texts.intern(text)
    }

    pub fn text(&self, item: u32) -> String {
        self.texts.get(item)
    }

    /// The rank of each item in string order.
    pub fn order(&self) -> Vec<u32> {
        let texts: Vec<String> = (0..self.texts.len() as u32).map(|at| self.text(at)).collect();
        let mut sorted: Vec<u32> = (0..texts.len() as u32).collect();
        sorted.sort_unstable_by(|a, b| texts[*a as usize].cmp(&texts[*b as usize]));
        let mut ranks = vec![0; texts.len()];
        (0u32..).zip(sorted).for_each(|(rank, item)| ranks[item as usize] = rank);
        ranks
    }

    /// Cleans, groups and interns an item; [`NONE`] if it is empty or excluded.
    fn item(&self, raw: &str) -> u32 {
        let mut item = Cow::Borrowed(raw);
        for (pattern, alias) in &self.cleaning {
            if let Cow::Owned(cleaned) = pattern.replace_all(&item, alias.as_str()) {
                item = Cow::Owned(cleaned);
            }
        }
        if let Some((_, name)) = self.groupings.iter().find(|(pattern, _)| pattern.is_match(&item))
        {
            item = Cow::Borrowed(name);
        }
        if item.is_empty() || self.excluded.contains(&*item) {
            return NONE;
        }
        self.texts.intern(&item)
    }

    fn url(&self, url: &str) -> u32 {
        if self.full_urls { self.item(without_slash(url)) } else { self.item(path(url)) }
    }
}

fn without_slash(url: &str) -> &str {
    match url.strip_suffix('/') {
        None | Some("") => url,
        Some(shorter) => shorter,
    }
}

/// The path of a URL, without query and fragment.
fn path(url: &str) -> &str {
    let rest = match url.split_once("://") {
        Some((_, rest)) => &rest[rest.find(['/', '?', '#']).unwrap_or(rest.len())..],
        None => url,
    };
    match without_slash(&rest[..rest.find(['?', '#']).unwrap_or(rest.len())]) {
        "" => "/",
        path => path,
    }
}

/// Memoized items per dictionary entry, for one thread.
#[derive(Default)]
pub(crate) struct ItemReader {
    events: DictionaryMemo<u32>,
    urls: DictionaryMemo<u32>,
    screens: DictionaryMemo<u32>,
}

impl ItemReader {
    /// The item of each row; none if the row has no item.
    pub fn read(&mut self, items: &PathItems, rows: &Rows<'_>) -> Result<Vec<Option<u32>>> {
        let by_expression = items.expression.is_some();
        let events = self.events.each_row(&rows.columns[0], NONE, |event| match text(event) {
            Some(event) if items.excluded.contains(event) => NONE,
            Some(_) if by_expression => PAGEVIEW,
            Some("$pageview") => PAGEVIEW,
            Some("$screen") => SCREEN,
            Some(event) => items.item(event),
            None => NONE,
        });
        let urls = match &items.expression {
            Some(Source::Scalar(scalar)) => {
                let event_columns =
                    EventColumns { columns: &rows.columns[1..], ..rows.event_columns() };
                let mut row_items = Vec::with_capacity(rows.len());
                scalar.each_text(event_columns, |text| {
                    row_items.push(text.map_or(NONE, |text| items.item(text)))
                })?;
                row_items
            }
            _ => self.urls.each_row(&rows.columns[1], NONE, |value| match text(value) {
                Some(text) if by_expression => items.item(text),
                Some(url) => items.url(url),
                None => NONE,
            }),
        };
        let screens = match rows.columns.get(2).filter(|_| !by_expression) {
            None => Vec::new(),
            Some(column) => self
                .screens
                .each_row(column, NONE, |value| text(value).map_or(NONE, |text| items.item(text))),
        };
        let item = |(row, event): (usize, u32)| {
            let item = match event {
                PAGEVIEW => urls[row],
                SCREEN => screens.get(row).copied().unwrap_or(NONE),
                event => event,
            };
            (item != NONE).then_some(item)
        };
        Ok(events.into_iter().enumerate().map(item).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pageviews_are_named_by_url_path() {
        for (url, expected) in [
            ("https://x.com/home/?a=1", "/home"),
            ("https://x.com/", "/"),
            ("https://x.com", "/"),
            ("https://x.com?a", "/"),
            ("/pricing/", "/pricing"),
            ("/a/b#c", "/a/b"),
        ] {
            assert_eq!(path(url), expected, "{url}");
        }
        assert_eq!(without_slash("https://x.com/a/?b=/"), "https://x.com/a/?b=");
    }

    #[test]
    fn path_items_are_cleaned_and_grouped() {
        let cleaning = [(r"/\d+", "/<id>")];
        let groupings = ["/shop/*".to_owned()];
        let items =
            PathItems::new(None, false, &cleaning, &groupings, &["/secret".into()]).unwrap();
        for (raw, expected) in [
            ("/user/17/edit", "/user/<id>/edit"),
            ("/shop/17", "/shop/*"),
            ("/shopping", "/shopping"),
        ] {
            assert_eq!(items.text(items.item(raw)), expected);
        }
        assert_eq!(items.item("/secret"), NONE);
        assert!(PathItems::new(None, false, &[("(", "")], &[], &[]).is_err());
    }
}
