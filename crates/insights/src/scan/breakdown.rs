//! Breakdowns: splits a result by property values or by cohorts.
//!
//! Values get dense ids, assigned by an interner per dimension; with several dimensions each
//! combination of ids gets one.

mod cohorts;
mod segment;
mod top_values;

pub(crate) use cohorts::{CohortSlice, cohorts};
pub(crate) use segment::{BreakdownSegment, ValueSet};
pub(crate) use top_values::{BELOW_CUTOFF, TopValueSketch, without_breakdown};

use std::sync::{Arc, Mutex, PoisonError};

use facts::ReadView;
use hashbrown::HashMap;
use serde_json::Value as Json;
use warehouse::{ABSENT, Column, ColumnKey, GROUP_TYPES, Value};

use crate::aggregates::histogram::Bins;
use crate::columns::interner::StringInterner;
use crate::columns::memo::DictionaryMemo;
use crate::columns::{EventColumns, number, text, with_group_property};
use crate::hogql::Scalar;
use crate::query::spec::BreakdownFilter;
use crate::scan::context::ScanContext;
use crate::scan::expression::{self, Source};
use crate::scan::sessions::Sessions;
use crate::{Error, Result};
use cohorts::cohort_slices;

/// Label of the absent value, as PostHog spells it.
pub(crate) const NULL: &str = "$$_posthog_breakdown_null_$$";
/// Label of all values beyond the limit, as PostHog spells it.
pub(crate) const OTHER: &str = "$$_posthog_breakdown_other_$$";

/// Id of the absent value; with several dimensions, absent in all of them.
pub(crate) const NO_VALUE: u32 = 0;

/// Different values of one dimension, and combinations of all. Funnels pack a value's id into 24 bits
/// of an event's tag.
const VALUES_MAX: usize = 1 << 24;
const DIMENSIONS_MAX: usize = 3;
pub(crate) const LIMIT: usize = 25;
const LIMIT_MAX: usize = 1_000;

/// How a result is broken down.
#[derive(Debug)]
pub(crate) enum BreakdownPlan {
    NoBreakdown,
    Values(Breakdown),
    /// Slices may overlap: a person can be in several cohorts.
    Cohorts(Vec<CohortSlice>),
}

#[derive(Debug)]
pub(crate) struct Breakdown {
    pub dimensions: Vec<Dimension>,
    combinations: Mutex<Combinations>,
    pub limit: usize,
    pub hide_other: bool,
    /// The query gives breakdowns as a list, so results give values as lists.
    pub listed: bool,
}

#[derive(Debug)]
pub(crate) struct Dimension {
    source: ValueSource,
    normalize_url: bool,
    /// Number of histogram bins.
    pub bin_count: Option<usize>,
    pub bins: Option<Bins>,
    interner: StringInterner,
}

/// Where the values of a dimension come from.
#[derive(Clone, Debug)]
enum ValueSource {
    Event(ColumnKey),
    Person(String),
    Group(usize, String),
    Expression(Arc<Scalar>),
    Session(Arc<Sessions>),
}

/// Ids for combinations of the dimensions' value ids. `parts[id - 1]` is the inverse of `ids`.
#[derive(Debug, Default)]
struct Combinations {
    ids: HashMap<[u32; DIMENSIONS_MAX], u32>,
    parts: Vec<[u32; DIMENSIONS_MAX]>,
}

pub(crate) fn list(json: &Json) -> Vec<&Json> {
    match json {
        Json::Array(all) => all.iter().collect(),
        Json::Null => Vec::new(),
        one => vec![one],
    }
}

impl BreakdownPlan {
    /// `dimensions_max` is the limit of the insight kind. Session properties are read for sessions
    /// around `from` and `to`.
    pub fn new(
        filter: &BreakdownFilter,
        context: &ScanContext<'_>,
        dimensions_max: usize,
        (from, to): (i64, i64),
    ) -> Result<Self> {
        let view = context.view;
        if filter.is_empty() {
            return Ok(Self::NoBreakdown);
        }
        let kind = filter.breakdown_type.as_deref().unwrap_or("event");
        if filter.breakdowns.is_empty() && kind == "cohort" {
            return cohort_slices(&filter.breakdown, view).map(Self::Cohorts);
        }
        if let [one] = filter.breakdowns.as_slice()
            && one.kind.as_deref() == Some("cohort")
        {
            return cohort_slices(&one.property, view).map(Self::Cohorts);
        }
        let mut dimensions = Vec::new();
        for one in &filter.breakdowns {
            let kind = one.kind.as_deref().unwrap_or("event");
            let names = list(&one.property);
            // A null property is passed on, so that `Dimension::new` rejects it.
            for name in if names.is_empty() { &[&Json::Null][..] } else { &names } {
                let group = one.group_type_index;
                let normalize = one.normalize_url;
                let mut dimension = Dimension::new(context, kind, name, group, (from, to))?;
                dimension.normalize_url = normalize;
                dimension.bin_count = one.histogram_bin_count;
                dimensions.push(dimension);
            }
        }
        if filter.breakdowns.is_empty() {
            for name in list(&filter.breakdown) {
                let group = filter.breakdown_group_type_index;
                let normalize = filter.breakdown_normalize_url;
                let mut dimension = Dimension::new(context, kind, name, group, (from, to))?;
                dimension.normalize_url = normalize;
                dimension.bin_count = filter.breakdown_histogram_bin_count;
                dimensions.push(dimension);
            }
        }
        if dimensions.len() > dimensions_max.min(DIMENSIONS_MAX) {
            let detail = format!("At most {dimensions_max} breakdowns are possible here.");
            return Err(Error::Invalid(detail));
        }
        let listed = !filter.breakdowns.is_empty() || dimensions.len() > 1;
        let limit = filter.breakdown_limit.unwrap_or(LIMIT);
        if limit == 0 || limit > LIMIT_MAX {
            let detail = format!("breakdown_limit is between 1 and {LIMIT_MAX}.");
            return Err(Error::Invalid(detail));
        }
        let hide_other = filter.breakdown_hide_other_aggregation;
        Ok(Self::Values(Breakdown {
            dimensions,
            combinations: Mutex::default(),
            limit,
            hide_other,
            listed,
        }))
    }
}

/// Whether the breakdown reads properties of groups.
pub(crate) fn needs_groups(filter: &BreakdownFilter) -> bool {
    let mut kinds = filter.breakdowns.iter().map(|one| &one.kind);
    filter.breakdown_type.as_deref() == Some("group")
        || kinds.any(|kind| kind.as_deref() == Some("group"))
}

impl Dimension {
    fn new(
        context: &ScanContext<'_>,
        kind: &str,
        name: &Json,
        group: Option<usize>,
        (from, to): (i64, i64),
    ) -> Result<Self> {
        let name = match name {
            Json::String(name) if !name.is_empty() => name.clone(),
            Json::Number(name) => name.to_string(),
            _ => return Err(Error::invalid("A breakdown needs the name of a property.")),
        };
        let source = match kind {
            "event" => ValueSource::Event(ColumnKey::Property(name)),
            "event_metadata" => {
                let refused = || format!("Events cannot be broken down by '{name}'.");
                ValueSource::Event(
                    facts::event_column(&name).ok_or_else(|| Error::invalid(refused()))?,
                )
            }
            "hogql" => match expression::read(context, &name)? {
                Source::Key(key) => ValueSource::Event(key),
                Source::Scalar(scalar) => ValueSource::Expression(Arc::new(scalar)),
            },
            "person" => ValueSource::Person(name),
            "session" => ValueSource::Session(Arc::new(Sessions::read(
                context.view,
                context.limits,
                &name,
                Some((from, to)),
            )?)),
            "group" => match group {
                Some(index) if index < GROUP_TYPES => ValueSource::Group(index, name),
                _ => {
                    let detail = "A breakdown of type 'group' needs a group type index, 0 to 4.";
                    return Err(Error::invalid(detail));
                }
            },
            other => {
                let detail = format!("Breakdowns of type '{other}' are not supported here.");
                return Err(Error::Invalid(detail));
            }
        };
        let interner = StringInterner::default();
        Ok(Self { source, normalize_url: false, bin_count: None, bins: None, interner })
    }

    fn keys(&self) -> Vec<ColumnKey> {
        match &self.source {
            ValueSource::Event(key) => vec![key.clone()],
            ValueSource::Person(_) => Vec::new(),
            ValueSource::Group(index, _) => vec![ColumnKey::Group(*index)],
            ValueSource::Expression(scalar) => scalar.keys().to_vec(),
            ValueSource::Session(_) => vec![ColumnKey::Property("$session_id".into())],
        }
    }

    /// The same property without bins, to find the numbers that bins are computed from.
    pub fn unbinned(&self) -> Breakdown {
        let dimension = Self {
            source: self.source.clone(),
            normalize_url: false,
            bin_count: None,
            bins: None,
            interner: StringInterner::default(),
        };
        Breakdown {
            dimensions: vec![dimension],
            combinations: Mutex::default(),
            limit: usize::MAX,
            hide_other: false,
            listed: false,
        }
    }

    /// Id of a value, or of the bin that holds it.
    fn value_id(&self, value: Option<Value<'_>>) -> u32 {
        if let Some(bins) = &self.bins {
            return 1 + self.interner.intern(&bins.text(value.and_then(number)));
        }
        match value.and_then(|value| self.text_in(value)) {
            None => NO_VALUE,
            Some(text) => 1 + self.interner.intern(text),
        }
    }

    /// The string that identifies a value.
    fn text_in<'v>(&self, value: Value<'v>) -> Option<&'v str> {
        let text = text(value);
        if self.normalize_url { text.map(normalized) } else { text }
    }

    /// Value ids of a column's rows.
    fn value_ids(&self, memo: &mut DictionaryMemo<u32>, column: &Column) -> Vec<u32> {
        if self.bins.is_some() {
            let absent = self.value_id(None);
            return memo.each_row(column, absent, |value| self.value_id(Some(value)));
        }
        memo.each_text(column, NO_VALUE, (&self.interner, 1), |value| self.text_in(value))
    }

    /// Ids that have this label. [`NULL`] may also be an actual value.
    fn ids_of(&self, text: &str) -> Vec<u32> {
        let known = self.interner.find(text).map(|id| id + 1);
        (text == NULL).then_some(NO_VALUE).into_iter().chain(known).collect()
    }

    fn text(&self, id: u32) -> String {
        match id.checked_sub(1) {
            None => NULL.to_owned(),
            Some(id) => self.interner.get(id),
        }
    }
}

/// A URL without query, fragment and trailing slash.
fn normalized(url: &str) -> &str {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    match url.strip_suffix('/') {
        None | Some("") => url,
        Some(shorter) => shorter,
    }
}

impl Breakdown {
    pub fn keys(&self) -> Vec<ColumnKey> {
        self.dimensions.iter().flat_map(Dimension::keys).collect()
    }

    /// The labels of a value, one per dimension.
    pub fn texts(&self, value: u32) -> Vec<String> {
        if let [dimension] = self.dimensions.as_slice() {
            return vec![dimension.text(value)];
        }
        let combinations = self.combinations.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = value.checked_sub(1).map(|at| combinations.parts[at as usize]);
        let ids = ids.unwrap_or_default();
        self.dimensions.iter().zip(ids).map(|(dimension, id)| dimension.text(id)).collect()
    }

    /// The values with these labels, one per dimension.
    pub fn values_of(&self, texts: &[String]) -> Vec<u32> {
        let dimensions = self.dimensions.iter().zip(texts);
        let ids: Vec<Vec<u32>> =
            dimensions.map(|(dimension, text)| dimension.ids_of(text)).collect();
        if let [only] = ids.as_slice() {
            return only.clone();
        }
        let combinations = self.combinations.lock().unwrap_or_else(PoisonError::into_inner);
        let none = [NO_VALUE; DIMENSIONS_MAX];
        let all = std::iter::once(&none).chain(&combinations.parts).enumerate();
        let fits = |parts: &[u32; DIMENSIONS_MAX]| {
            ids.iter().zip(parts).all(|(ids, part)| ids.contains(part))
        };
        all.filter(|(_, parts)| fits(parts)).map(|(value, _)| value as u32).collect()
    }

    /// Sorts by weight descending, then by label. Only the first `limit` entries are sorted.
    pub fn sort(&self, values: &mut [(u32, f64)], limit: usize) {
        let largest_first = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1);
        // Partial sort: select the top values and all that tie with the last of them.
        let mut front = values;
        if (1..front.len()).contains(&limit) {
            let least = front.select_nth_unstable_by(limit - 1, largest_first).1.1;
            let mut end = limit;
            for at in limit..front.len() {
                if front[at].1 == least {
                    front.swap(end, at);
                    end += 1;
                }
            }
            front = &mut front[..end];
        }
        front.sort_unstable_by(largest_first);
        let mut start = 0;
        for equal in front.chunk_by_mut(|a, b| a.1 == b.1) {
            if start >= limit {
                break;
            }
            start += equal.len();
            if equal.len() > 1 {
                equal.sort_by_cached_key(|(value, _)| self.texts(*value));
            }
        }
    }

    pub fn bytes(&self) -> usize {
        let texts: usize = self.dimensions.iter().map(|dimension| dimension.interner.bytes()).sum();
        let combinations = self.combinations.lock().unwrap_or_else(PoisonError::into_inner);
        texts + combinations.parts.len() * 48
    }
}

/// The value with the smallest label among `one` and `others`.
pub(crate) fn first_by_text(
    breakdown: &Breakdown,
    one: u32,
    others: impl Iterator<Item = u32>,
) -> u32 {
    others.fold(one, |best, other| {
        if other != best && breakdown.texts(other) < breakdown.texts(best) { other } else { best }
    })
}

/// Reads breakdown values of batches; memoizes them per dictionary entry.
#[derive(Default)]
pub(crate) struct BreakdownReader {
    memos: Vec<DictionaryMemo<u32>>,
}

impl BreakdownReader {
    /// Value ids of the rows. `events` has the columns of [`Breakdown::keys`].
    pub fn read(
        &mut self,
        breakdown: &Breakdown,
        view: &ReadView,
        events: EventColumns<'_>,
    ) -> Result<Vec<u32>> {
        self.memos.resize_with(breakdown.dimensions.len(), DictionaryMemo::default);
        let mut rest = events.columns;
        let mut values = Vec::with_capacity(breakdown.dimensions.len());
        for (dimension, memo) in breakdown.dimensions.iter().zip(&mut self.memos) {
            let absent = dimension.value_id(None);
            let (columns, remaining) = rest.split_at(dimension.keys().len());
            rest = remaining;
            let ids = match &dimension.source {
                ValueSource::Event(_) => dimension.value_ids(memo, &columns[0]),
                ValueSource::Person(name) => {
                    let person_column = view.persons.column(name);
                    let code = |no: &u32| {
                        let actor = view.persons.actor(*no);
                        person_column.codes.get(actor as usize).copied().unwrap_or(ABSENT)
                    };
                    let codes = events.distinct_nos.iter().map(code).collect();
                    let column = Column { codes, dictionary: person_column.dictionary.clone() };
                    dimension.value_ids(memo, &column)
                }
                ValueSource::Group(index, name) => memo.each_row(&columns[0], absent, |key| {
                    let group = text(key).and_then(|key| view.groups.get(*index, key));
                    let property = group.and_then(|group| group.property(name));
                    with_group_property(property.as_ref(), |value| dimension.value_id(value))
                }),
                ValueSource::Session(sessions) => memo.each_row(&columns[0], absent, |id| {
                    let known = text(id).and_then(|id| sessions.text(id));
                    dimension.value_id(known.as_deref().map(Value::Text))
                }),
                ValueSource::Expression(scalar) => {
                    let mut ids = Vec::with_capacity(events.times.len());
                    scalar.each_text(EventColumns { columns, ..events }, |text| {
                        ids.push(dimension.value_id(text.map(Value::Text)));
                    })?;
                    ids
                }
            };
            if dimension.interner.len() >= VALUES_MAX {
                return Err(Error::MemoryLimit);
            }
            values.push(ids);
        }
        match <[Vec<u32>; 1]>::try_from(values) {
            Ok([only]) => Ok(only),
            Err(several) => breakdown.combine(&several),
        }
    }
}

impl Breakdown {
    /// One id per row for the combination of its value ids.
    fn combine(&self, values: &[Vec<u32>]) -> Result<Vec<u32>> {
        let rows = values.first().map_or(0, Vec::len);
        let mut combinations = self.combinations.lock().unwrap_or_else(PoisonError::into_inner);
        let Combinations { ids, parts } = &mut *combinations;
        let mut last = ([0; DIMENSIONS_MAX], NO_VALUE);
        let mut row = |at: usize| {
            let mut combination = [0; DIMENSIONS_MAX];
            combination.iter_mut().zip(values).for_each(|(part, values)| *part = values[at]);
            if combination == [NO_VALUE; DIMENSIONS_MAX] {
                return NO_VALUE;
            }
            if combination != last.0 {
                let new = parts.len() as u32 + 1;
                let id = *ids.entry(combination).or_insert_with(|| {
                    parts.push(combination);
                    new
                });
                last = (combination, id);
            }
            last.1
        };
        let combined = (0..rows).map(&mut row).collect();
        if parts.len() >= VALUES_MAX { Err(Error::MemoryLimit) } else { Ok(combined) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalize_url_drops_query_fragment_and_trailing_slash() {
        for (url, expected) in [
            ("https://x.com/a/?b=1#c", "https://x.com/a"),
            ("https://x.com/a#c", "https://x.com/a"),
            ("https://x.com/a", "https://x.com/a"),
            ("/", "/"),
            ("/?a", "/"),
        ] {
            assert_eq!(normalized(url), expected);
        }
    }
}
