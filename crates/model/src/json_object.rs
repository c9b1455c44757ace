//! Serialized JSON objects with an index of their members. The pipeline reads and changes a few
//! properties of a person and writes it back without parsing the rest.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Map, Value};

use crate::json::{JsonError, Members, Result, to_value};

/// Integer literals up to this length fit an `i64`.
const DIGITS_MAX: usize = 18;

/// A serialized JSON object: no whitespace, members sorted by escaped name, values as serde_json
/// writes them. So equal objects are equal bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonObject {
    text: String,
    /// For each member, the end of its name (after the quote) and the end of its value.
    ends: Vec<(u32, u32)>,
}

impl Default for JsonObject {
    fn default() -> Self {
        Self { text: "{}".to_owned(), ends: Vec::new() }
    }
}

impl From<&Map<String, Value>> for JsonObject {
    fn from(members: &Map<String, Value>) -> Self {
        let set = members.iter().map(|(name, value)| (name.as_str(), value.to_string().into()));
        Self::default().changed(set, [])
    }
}

impl JsonObject {
    /// Takes over a text that is canonical already; any other object is parsed and serialized again.
    pub fn parse(text: String) -> Result<Self> {
        if u32::try_from(text.len()).is_err() {
            return Err(JsonError::Malformed);
        }
        if let Some(ends) = ends(&text)? {
            return Ok(Self { text, ends });
        }
        let members: Map<String, Value> =
            serde_json::from_str(&text).map_err(|_| JsonError::Malformed)?;
        Ok(Self::from(&members))
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub fn memory_bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    /// The JSON of a member.
    pub fn get(&self, name: &str) -> Option<&str> {
        Some(self.value(self.find(0, &escaped(name)).ok()?))
    }

    /// Like [`Self::get`], for a name without escapes. Checks the index in `hint` first and updates
    /// it: persons of one project mostly have the same properties at the same index.
    pub fn get_with_hint(&self, name: &str, hint: &AtomicUsize) -> Option<&str> {
        let mut at = hint.load(Relaxed);
        if at >= self.ends.len() || self.name_bytes(at) != name.as_bytes() {
            at = self.find(0, name).ok()?;
            hint.store(at, Relaxed);
        }
        Some(self.value(at))
    }

    fn value(&self, at: usize) -> &str {
        let (name_end, end) = self.ends[at];
        &self.text[name_end as usize + 1..end as usize]
    }

    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Escaped names and the JSON of their values.
    fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.ends.len()).map(|at| (self.name(at), self.value(at)))
    }

    /// A copy with members set (the last of a name wins) and removed. Values must be [`canonical`].
    pub fn changed<'c>(
        &self,
        set: impl IntoIterator<Item = (&'c str, Cow<'c, str>)>,
        unset: impl IntoIterator<Item = &'c str>,
    ) -> Self {
        let set = set.into_iter().map(|(name, json)| (escaped(name), Some(json)));
        let unset = unset.into_iter().map(|name| (escaped(name), None));
        self.with_edits(set.chain(unset).collect())
    }

    /// A copy with all members of `other` added; `other` wins.
    pub fn merged(&self, other: &Self) -> Self {
        let members = other.members().map(|(name, json)| (name.into(), Some(json.into())));
        self.with_edits(members.collect())
    }

    fn with_edits(&self, mut edits: Vec<(Cow<'_, str>, Option<Cow<'_, str>>)>) -> Self {
        edits.sort_by(|(a, _), (b, _)| a.cmp(b));
        let added: usize = edits.iter().map(|(name, _)| name.len()).sum::<usize>()
            + edits.iter().filter_map(|(_, json)| Some(json.as_ref()?.len() + 4)).sum::<usize>();
        let mut edited = Self {
            text: String::with_capacity(self.text.len() + added),
            ends: Vec::with_capacity(self.ends.len() + edits.len()),
        };
        edited.text.push('{');
        let mut at = 0;
        for same in edits.chunk_by(|(a, _), (b, _)| a == b) {
            let Some((name, json)) = same.last() else { continue };
            let (index, replaced) = match self.find(at, name) {
                Ok(index) => (index, 1),
                Err(index) => (index, 0),
            };
            edited.append(self, at..index);
            if let Some(json) = json {
                edited.push(name, json);
            }
            at = index + replaced;
        }
        edited.append(self, at..self.ends.len());
        edited.text.push('}');
        edited
    }

    /// Offset of the opening quote of a member's name.
    fn start(&self, at: usize) -> usize {
        if at == 0 { 1 } else { self.ends[at - 1].1 as usize + 1 }
    }

    fn name(&self, at: usize) -> &str {
        &self.text[self.start(at) + 1..self.ends[at].0 as usize - 1]
    }

    /// For comparisons: slicing bytes skips the check of char boundaries.
    fn name_bytes(&self, at: usize) -> &[u8] {
        &self.text.as_bytes()[self.start(at) + 1..self.ends[at].0 as usize - 1]
    }

    /// Binary search among the members from `first` on: the index, or where to insert.
    fn find(&self, first: usize, name: &str) -> Result<usize, usize> {
        let (mut low, mut high) = (first, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name_bytes(middle).cmp(name.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn separate(&mut self) {
        if !self.ends.is_empty() {
            self.text.push(',');
        }
    }

    fn push(&mut self, name: &str, json: &str) {
        self.separate();
        self.text.extend(["\"", name, "\""]);
        let name_end = self.text.len() as u32;
        self.text.extend([":", json]);
        self.ends.push((name_end, self.text.len() as u32));
    }

    fn append(&mut self, from: &Self, members: Range<usize>) {
        let (Some((_, end)), false) = (from.ends[..members.end].last(), members.is_empty()) else {
            return;
        };
        self.separate();
        let start = from.start(members.start);
        let moved = |end: u32| end - start as u32 + self.text.len() as u32;
        self.ends.extend(from.ends[members].iter().map(|(a, b)| (moved(*a), moved(*b))));
        self.text.push_str(&from.text[start..*end as usize]);
    }
}

/// The index of a canonical object; `None` if its members are not sorted, repeat, or have whitespace
/// between them.
fn ends(text: &str) -> Result<Option<Vec<(u32, u32)>>> {
    let mut members = Members::new(text)?;
    let mut ends = Vec::with_capacity(text.len() / 16);
    let (mut start, mut before) = (1, None);
    for member in &mut members {
        let (_, json) = member?;
        let value = json.as_ptr().addr() - text.as_ptr().addr();
        let name = text[start..value].strip_prefix('"').and_then(|rest| rest.strip_suffix("\":"));
        if name.is_none() || name <= before {
            return Ok(None);
        }
        before = name;
        let end = value + json.len();
        ends.push((value as u32 - 1, end as u32));
        start = end + 1;
    }
    let whole = start + usize::from(ends.is_empty()) == text.len();
    match members.is_finished() {
        true => Ok(whole.then_some(ends)),
        false => Err(JsonError::Malformed),
    }
}

/// A name as it is serialized, without the quotes.
fn escaped(name: &str) -> Cow<'_, str> {
    // No early exit, so that the compiler vectorizes the loop.
    let is_special = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if !name.bytes().fold(false, |found, byte| found | is_special(byte)) {
        return Cow::Borrowed(name);
    }
    let mut quoted = Value::from(name).to_string();
    quoted.pop();
    quoted.remove(0);
    Cow::Owned(quoted)
}

/// Normalizes JSON to what serde_json writes for its value.
pub fn canonical(json: &str) -> Cow<'_, str> {
    match is_canonical(json) {
        true => Cow::Borrowed(json),
        false => Cow::Owned(to_value(json).unwrap_or(Value::Null).to_string()),
    }
}

fn is_canonical(json: &str) -> bool {
    let bytes = json.as_bytes();
    let is_whole = |digits: &[u8]| {
        digits.len() <= DIGITS_MAX
            && digits.iter().all(u8::is_ascii_digit)
            && (digits[0] != b'0' || bytes == b"0")
    };
    match bytes {
        [b'"', rest @ ..] => !rest.contains(&b'\\'),
        [b't' | b'f' | b'n', ..] => true,
        [b'-', digits @ ..] if !digits.is_empty() => is_whole(digits),
        [b'0'..=b'9', ..] => is_whole(bytes),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["", "a", "ab", "b", "\"", "\\", "\n", "é", "$x", "~"])
            .prop_map(str::to_owned)
    }

    fn value() -> impl Strategy<Value = Value> {
        prop::sample::select(vec![
            r#""x""#,
            r#""\"""#,
            "1",
            "-1",
            "0",
            "1.5",
            "true",
            "null",
            "[]",
            r#"{"b":1,"a":[2]}"#,
            r#"",\"a\":""#,
        ])
        .prop_map(|json| serde_json::from_str(json).unwrap())
    }

    proptest! {
        /// Changes behave as on a map, and parsing round-trips.
        #[test]
        fn json_object_behaves_like_a_map(
            first in prop::collection::vec((name(), value()), 0..8),
            set in prop::collection::vec((name(), value()), 0..6),
            unset in prop::collection::vec(name(), 0..3),
            other in prop::collection::vec((name(), value()), 0..6),
        ) {
            let mut map: Map<String, Value> = first.into_iter().collect();
            let other: Map<String, Value> = other.into_iter().collect();
            let object = JsonObject::from(&map);
            let changes = set.iter().map(|(name, value)| (name.as_str(), value.to_string().into()));
            let object = object.changed(changes, unset.iter().map(String::as_str));
            map.extend(set);
            unset.iter().for_each(|name| drop(map.remove(name)));
            prop_assert_eq!(&object.to_map(), &map);
            let object = object.merged(&JsonObject::from(&other));
            map.extend(other);
            prop_assert_eq!(&object.to_map(), &map);
            prop_assert_eq!(&JsonObject::parse(object.text().to_owned()).unwrap(), &object);
            prop_assert_eq!(&JsonObject::parse(Value::from(map.clone()).to_string()).unwrap(), &object);
            for name in ["", "a", "ab", "b", "\"", "\\", "\n", "é", "$x", "~", "no"] {
                let value = object.get(name).map(|json| serde_json::from_str(json).unwrap());
                prop_assert_eq!(value.as_ref(), map.get(name));
                if escaped(name) == name {
                    for index in 0..4 {
                        let hint = AtomicUsize::new(index);
                        prop_assert_eq!(object.get_with_hint(name, &hint), object.get(name));
                        prop_assert_eq!(object.get_with_hint(name, &hint), object.get(name));
                    }
                }
            }
        }
    }

    #[test]
    fn parse_normalizes_any_object_and_rejects_malformed_json() {
        let read =
            |text: &str| JsonObject::parse(text.to_owned()).map(|object| object.text().to_owned());
        for text in [r#"{"a":1,"b":"x"}"#, r#" { "b" : "x" ,"a":1}"#, r#"{"b":"x","a":2,"a":1}"#] {
            assert_eq!(read(text).unwrap(), r#"{"a":1,"b":"x"}"#, "{text}");
        }
        assert_eq!((read("{}").unwrap(), read(" { } ").unwrap()), ("{}".into(), "{}".into()));
        for text in ["", "[]", "{", r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":1}x"#, r#"{"a":1,}"#] {
            assert_eq!(read(text), Err(JsonError::Malformed), "{text}");
        }
    }

    #[test]
    fn canonical_agrees_with_serde_json() {
        for json in [
            "0",
            "-0",
            "-1",
            "10",
            "1.0",
            "1e2",
            "0.10",
            "123456789012345678",
            "12345678901234567890",
            "-9223372036854775809",
            r#""a/b""#,
            r#""a\/b\u00e9""#,
            "true",
            "null",
            "[1, 2]",
            r#"{"b": 1, "a": 2}"#,
            r#""\ud800""#,
        ] {
            let value = serde_json::from_str(json).unwrap_or(Value::Null);
            assert_eq!(canonical(json), value.to_string(), "{json}");
        }
    }
}
