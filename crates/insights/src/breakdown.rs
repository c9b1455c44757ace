//! Answers broken down by the values of properties.

mod leading;
mod slices;

pub(crate) use leading::{BEHIND, Leading, bare};
pub(crate) use slices::{Slice, cohorts};

use std::sync::{Arc, Mutex, PoisonError};

use facts::ReadView;
use hashbrown::HashMap;
use serde_json::Value as Json;
use warehouse::{ABSENT, Column, GROUP_TYPES, Key, Value};

use crate::bins::Bins;
use crate::context::QueryContext;
use crate::expression::{self, Source};
use crate::hogql::{Scalar, Seen};
use crate::scan::{Entries, Texts, VALUES_MAX, number, of_json, text, too_many_values};
use crate::sessions::Sessions;
use crate::spec::BreakdownFilter;
use crate::{Error, Result};
use slices::slices;

/// Stands for no value.
pub(crate) const NULL: &str = "$$_posthog_breakdown_null_$$";
/// Stands for all values beyond the limit.
pub(crate) const OTHER: &str = "$$_posthog_breakdown_other_$$";

/// The number of no value; with several dimensions, of none in any.
pub(crate) const NO_VALUE: u32 = 0;

const DIMENSIONS_MAX: usize = 3;
const LIMIT: usize = 25;
const LIMIT_MAX: usize = 1_000;

/// How an answer is split.
#[derive(Debug)]
pub(crate) enum Split {
    Whole,
    Values(Breakdown),
    /// One may be in several.
    Cohorts(Vec<Slice>),
}

#[derive(Debug)]
pub(crate) struct Breakdown {
    pub dimensions: Vec<Dimension>,
    combinations: Mutex<Combinations>,
    pub limit: usize,
    pub hide_other: bool,
    /// Asked for as a list, so values are lists too.
    pub listed: bool,
}

#[derive(Debug)]
pub(crate) struct Dimension {
    place: Place,
    normalize_url: bool,
    /// How many bins numbers are put into.
    pub bin_count: Option<usize>,
    pub bins: Option<Bins>,
    texts: Texts,
}

#[derive(Clone, Debug)]
enum Place {
    Event(Key),
    Person(String),
    Group(usize, String),
    Expression(Arc<Scalar>),
    Session(Arc<Sessions>),
}

#[derive(Debug, Default)]
struct Combinations {
    numbers: HashMap<[u32; DIMENSIONS_MAX], u32>,
    parts: Vec<[u32; DIMENSIONS_MAX]>,
}

fn list(json: &Json) -> Vec<&Json> {
    match json {
        Json::Array(all) => all.iter().collect(),
        Json::Null => Vec::new(),
        one => vec![one],
    }
}

impl Split {
    /// `dimensions_max` is the kind's own bound; the moments say which sessions matter.
    pub fn plan(
        filter: &BreakdownFilter,
        context: &QueryContext<'_>,
        dimensions_max: usize,
        (from, to): (i64, i64),
    ) -> Result<Self> {
        let view = context.view;
        if filter.asks_nothing() {
            return Ok(Self::Whole);
        }
        let kind = filter.breakdown_type.as_deref().unwrap_or("event");
        if filter.breakdowns.is_empty() && kind == "cohort" {
            return slices(&filter.breakdown, view).map(Self::Cohorts);
        }
        if let [one] = filter.breakdowns.as_slice()
            && one.kind.as_deref() == Some("cohort")
        {
            return slices(&one.property, view).map(Self::Cohorts);
        }
        let mut dimensions = Vec::new();
        for one in &filter.breakdowns {
            let kind = one.kind.as_deref().unwrap_or("event");
            let names = list(&one.property);
            // What names nothing is refused as such.
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

/// Whether properties of groups are needed.
pub(crate) fn needs_groups(filter: &BreakdownFilter) -> bool {
    let mut kinds = filter.breakdowns.iter().map(|one| &one.kind);
    filter.breakdown_type.as_deref() == Some("group")
        || kinds.any(|kind| kind.as_deref() == Some("group"))
}

impl Dimension {
    fn new(
        context: &QueryContext<'_>,
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
        let place = match kind {
            "event" => Place::Event(Key::Property(name)),
            "event_metadata" => {
                let refused = || format!("Events cannot be broken down by '{name}'.");
                Place::Event(facts::event_column(&name).ok_or_else(|| Error::invalid(refused()))?)
            }
            "hogql" => match expression::read(context, &name)? {
                Source::Key(key) => Place::Event(key),
                Source::Scalar(scalar) => Place::Expression(Arc::new(scalar)),
            },
            "person" => Place::Person(name),
            "session" => Place::Session(Arc::new(Sessions::read(
                context.view,
                context.limits,
                &name,
                Some((from, to)),
            )?)),
            "group" => match group {
                Some(index) if index < GROUP_TYPES => Place::Group(index, name),
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
        let texts = Texts::default();
        Ok(Self { place, normalize_url: false, bin_count: None, bins: None, texts })
    }

    fn keys(&self) -> Vec<Key> {
        match &self.place {
            Place::Event(key) => vec![key.clone()],
            Place::Person(_) => Vec::new(),
            Place::Group(index, _) => vec![Key::Group(*index)],
            Place::Expression(scalar) => scalar.keys().to_vec(),
            Place::Session(_) => vec![Key::Property("$session_id".into())],
        }
    }

    /// The same property as its values stand, to see which numbers there are.
    pub fn unbinned(&self) -> Breakdown {
        let dimension = Self {
            place: self.place.clone(),
            normalize_url: false,
            bin_count: None,
            bins: None,
            texts: Texts::default(),
        };
        Breakdown {
            dimensions: vec![dimension],
            combinations: Mutex::default(),
            limit: usize::MAX,
            hide_other: false,
            listed: false,
        }
    }

    fn number(&self, value: Option<Value<'_>>) -> u32 {
        if let Some(bins) = &self.bins {
            return 1 + self.texts.number(&bins.text(value.and_then(number)));
        }
        match value.and_then(|value| self.text_in(value)) {
            None => NO_VALUE,
            Some(text) => 1 + self.texts.number(text),
        }
    }

    /// What of a value tells it from others.
    fn text_in<'v>(&self, value: Value<'v>) -> Option<&'v str> {
        let text = text(value);
        if self.normalize_url { text.map(normalized) } else { text }
    }

    /// Of a column's rows.
    fn numbers(&self, entries: &mut Entries<u32>, column: &Column) -> Vec<u32> {
        if self.bins.is_some() {
            let absent = self.number(None);
            return entries.each_row(column, absent, |value| self.number(Some(value)));
        }
        entries.each_text(column, NO_VALUE, (&self.texts, 1), |value| self.text_in(value))
    }

    /// Texts may look like what stands for none.
    fn numbers_of(&self, text: &str) -> Vec<u32> {
        let known = self.texts.find(text).map(|number| number + 1);
        (text == NULL).then_some(NO_VALUE).into_iter().chain(known).collect()
    }

    fn text(&self, number: u32) -> String {
        match number.checked_sub(1) {
            None => NULL.to_owned(),
            Some(number) => self.texts.get(number),
        }
    }
}

/// Without query, fragment and trailing slash.
fn normalized(url: &str) -> &str {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    match url.strip_suffix('/') {
        None | Some("") => url,
        Some(shorter) => shorter,
    }
}

impl Breakdown {
    pub fn keys(&self) -> Vec<Key> {
        self.dimensions.iter().flat_map(Dimension::keys).collect()
    }

    /// A value's texts, one for each dimension.
    pub fn texts(&self, value: u32) -> Vec<String> {
        if let [dimension] = self.dimensions.as_slice() {
            return vec![dimension.text(value)];
        }
        let combinations = self.combinations.lock().unwrap_or_else(PoisonError::into_inner);
        let own = value.checked_sub(1).map(|at| combinations.parts[at as usize]);
        let own = own.unwrap_or_default();
        self.dimensions.iter().zip(own).map(|(dimension, number)| dimension.text(number)).collect()
    }

    /// The values with these texts, one for each dimension.
    pub fn values_of(&self, texts: &[String]) -> Vec<u32> {
        let own = self.dimensions.iter().zip(texts);
        let numbers: Vec<Vec<u32>> =
            own.map(|(dimension, text)| dimension.numbers_of(text)).collect();
        if let [only] = numbers.as_slice() {
            return only.clone();
        }
        let combinations = self.combinations.lock().unwrap_or_else(PoisonError::into_inner);
        let none = [NO_VALUE; DIMENSIONS_MAX];
        let all = std::iter::once(&none).chain(&combinations.parts).enumerate();
        let fits = |parts: &[u32; DIMENSIONS_MAX]| {
            numbers.iter().zip(parts).all(|(numbers, part)| numbers.contains(part))
        };
        all.filter(|(_, parts)| fits(parts)).map(|(value, _)| value as u32).collect()
    }

    /// The largest first, among equals by text; beyond `limit` the order means nothing.
    pub fn sort(&self, values: &mut [(u32, f64)], limit: usize) {
        let largest_first = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1);
        // Of very many values only those that may come before the limit are sorted.
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
        let texts: usize = self.dimensions.iter().map(|dimension| dimension.texts.bytes()).sum();
        let combinations = self.combinations.lock().unwrap_or_else(PoisonError::into_inner);
        texts + combinations.parts.len() * 48
    }
}

/// Of `one` and `others` the value whose text comes first.
pub(crate) fn first_by_text(
    breakdown: &Breakdown,
    one: u32,
    others: impl Iterator<Item = u32>,
) -> u32 {
    others.fold(one, |best, other| {
        if other != best && breakdown.texts(other) < breakdown.texts(best) { other } else { best }
    })
}

/// Reads the values of rows; remembers what entries of dictionaries come to.
#[derive(Default)]
pub(crate) struct Reader {
    entries: Vec<Entries<u32>>,
}

impl Reader {
    /// The columns are those that [`Breakdown::keys`] asks for.
    pub fn read(
        &mut self,
        breakdown: &Breakdown,
        view: &ReadView,
        seen: Seen<'_>,
    ) -> Result<Vec<u32>> {
        self.entries.resize_with(breakdown.dimensions.len(), Entries::default);
        let mut rest = seen.columns;
        let mut values = Vec::with_capacity(breakdown.dimensions.len());
        for (dimension, entries) in breakdown.dimensions.iter().zip(&mut self.entries) {
            let absent = dimension.number(None);
            let (columns, behind) = rest.split_at(dimension.keys().len());
            rest = behind;
            let own = match &dimension.place {
                Place::Event(_) => dimension.numbers(entries, &columns[0]),
                Place::Person(name) => {
                    let persons = view.persons.column(name);
                    let code = |no: &u32| {
                        let actor = view.persons.actor(*no);
                        persons.codes.get(actor as usize).copied().unwrap_or(ABSENT)
                    };
                    let codes = seen.distinct_nos.iter().map(code).collect();
                    let column = Column { codes, dictionary: persons.dictionary.clone() };
                    dimension.numbers(entries, &column)
                }
                Place::Group(index, name) => entries.each_row(&columns[0], absent, |key| {
                    let group = text(key).and_then(|key| view.groups.get(*index, key));
                    let property = group.and_then(|group| group.properties.get(name));
                    of_json(property, |value| dimension.number(value))
                }),
                Place::Session(sessions) => entries.each_row(&columns[0], absent, |id| {
                    let known = text(id).and_then(|id| sessions.text(id));
                    dimension.number(known.as_deref().map(Value::Text))
                }),
                Place::Expression(scalar) => {
                    let mut own = Vec::with_capacity(seen.times.len());
                    scalar.each_text(Seen { columns, ..seen }, |text| {
                        own.push(dimension.number(text.map(Value::Text)));
                    })?;
                    own
                }
            };
            if dimension.texts.len() >= VALUES_MAX {
                return Err(too_many_values());
            }
            values.push(own);
        }
        match <[Vec<u32>; 1]>::try_from(values) {
            Ok([only]) => Ok(only),
            Err(several) => breakdown.combine(&several),
        }
    }
}

impl Breakdown {
    fn combine(&self, values: &[Vec<u32>]) -> Result<Vec<u32>> {
        let rows = values.first().map_or(0, Vec::len);
        let mut combinations = self.combinations.lock().unwrap_or_else(PoisonError::into_inner);
        let Combinations { numbers, parts } = &mut *combinations;
        let mut last = ([0; DIMENSIONS_MAX], NO_VALUE);
        let mut row = |at: usize| {
            let mut own = [0; DIMENSIONS_MAX];
            own.iter_mut().zip(values).for_each(|(own, values)| *own = values[at]);
            if own == [NO_VALUE; DIMENSIONS_MAX] {
                return NO_VALUE;
            }
            if own != last.0 {
                let new = parts.len() as u32 + 1;
                let known = *numbers.entry(own).or_insert_with(|| {
                    parts.push(own);
                    new
                });
                last = (own, known);
            }
            last.1
        };
        let combined = (0..rows).map(&mut row).collect();
        if parts.len() >= VALUES_MAX { Err(too_many_values()) } else { Ok(combined) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_what_makes_equal_pages_different() {
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
