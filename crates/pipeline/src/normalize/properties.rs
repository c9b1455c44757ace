//! An event's properties: parsed names, and values as JSON that is parsed on demand.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use geoip::Location;
use model::event::RecordError;
use model::json::{JsonError, MemberSpan, Members, compact, to_value};
use serde_json::Value;
use warehouse::{Property, WELL_KNOWN_PROPERTIES_MAX};

use super::GroupKey;
use super::layout::{Key, Layout};
use super::names::{self, NAMES, Name};

/// Bytes of a short member, to estimate the capacity; bounded, as large objects have longer ones.
const MEMBER_BYTES: usize = 24;
const EXPECTED_MAX: usize = 256;
/// Properties that enrichment adds: IP address and GeoIP.
const ADDED: usize = 16;

/// Keeps the order and the number literals as sent. The last of a repeated [`Name`] replaces the
/// others; other repeated names are all here, and readers let the last one win.
#[derive(Debug)]
pub struct Properties<'a> {
    sent: &'a str,
    members: Vec<Member>,
    /// Strings that are not slices of `sent`.
    owned: Vec<String>,
    location: Option<Arc<Location>>,
    /// One-based index into `members` of each [`Name`]; zero if absent.
    known: [u32; NAMES],
    /// Bit set of the names that are present.
    present: u128,
    /// Bit set of the names whose values have no inferable type.
    untyped: u128,
    /// Hash of the other names and whether their values have an inferable type.
    others: u64,
}

/// Name and JSON of its value. Compact, as those of a whole batch are in memory at once.
#[derive(Clone, Copy, Debug)]
struct Member {
    name: Text,
    json: Text,
    /// The value is known to hold no escapes.
    plain: bool,
}

/// The value of a [`Name`].
struct Json {
    text: Text,
    plain: bool,
    /// Whether definitions infer a type for it.
    typed: bool,
}

/// A slice of `sent`, or a tag in `at` and an index in `len`.
#[derive(Clone, Copy, Debug)]
struct Text {
    at: u32,
    len: u32,
}

/// Tags in [`Text::at`]: `len` is the index of a [`Name`], of an owned string, or of a GeoIP property;
/// `NONE` is a removed value. Sent texts are shorter than the smallest tag.
const KNOWN: u32 = u32::MAX;
const OWNED: u32 = u32::MAX - 1;
const GEOIP: u32 = u32::MAX - 2;
const NONE: u32 = u32::MAX - 3;

impl Text {
    fn sent(location: &Range<usize>) -> Self {
        Self { at: location.start as u32, len: location.len() as u32 }
    }
}

impl<'a> Properties<'a> {
    pub(super) fn parse(json: &'a str, layout: &mut Layout) -> Result<Self, RecordError> {
        let mut read = || {
            if json.len() >= NONE as usize {
                return Err(JsonError::Malformed);
            }
            let mut members = Members::new(json)?;
            let expected = (json.len() / MEMBER_BYTES).min(EXPECTED_MAX) + ADDED;
            let mut all = Self {
                sent: json,
                members: Vec::with_capacity(expected),
                owned: Vec::new(),
                location: None,
                known: [0; NAMES],
                present: 0,
                untyped: 0,
                others: 0,
            };
            for at in 0.. {
                let (key, next, unescaped) = match layout.next_if(at, &mut members) {
                    Some(found) => {
                        let (key, next) = found?;
                        (key, next, None)
                    }
                    None => match layout.next(at, &mut members)? {
                        Some(found) => found,
                        None => break,
                    },
                };
                all.add(key, &next, unescaped)?;
            }
            if members.is_finished() { Ok(all) } else { Err(JsonError::Malformed) }
        };
        read().map_err(|_| RecordError::Corrupted("properties are no object"))
    }

    #[inline]
    fn add(
        &mut self,
        key: Key,
        next: &MemberSpan,
        unescaped: Option<String>,
    ) -> Result<(), JsonError> {
        let first = self.sent.as_bytes().get(next.value.start);
        let typed = !matches!(first, Some(b'{' | b'[' | b'n'));
        let mut json = Text::sent(&next.value);
        // Arrays and objects are compared as bytes, so they are compacted.
        if let Some(b'{' | b'[') = first
            && let Cow::Owned(compacted) = compact(&self.sent[next.value.clone()])?
        {
            json = self.push_owned(compacted);
        }
        match key {
            Key::Known(name) => self.put(name, Json { text: json, plain: next.plain, typed }),
            Key::Other(hash) => {
                let name = match unescaped {
                    None => Text::sent(&next.name),
                    Some(name) => self.push_owned(name),
                };
                self.members.push(Member { name, json, plain: next.plain });
                let mixed = self.others.rotate_left(23) ^ hash ^ u64::from(typed);
                self.others = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        Ok(())
    }

    fn push_owned(&mut self, text: String) -> Text {
        self.owned.push(text);
        Text { at: OWNED, len: self.owned.len() as u32 - 1 }
    }

    #[inline(always)]
    fn text_of(&self, text: Text) -> Option<&str> {
        let (at, number) = (text.at as usize, text.len as usize);
        match text.at {
            KNOWN => Some(Name::from_index(number).text()),
            ..NONE => self.sent.get(at..at + number),
            _ => self.text_elsewhere(text),
        }
    }

    fn text_elsewhere(&self, text: Text) -> Option<&str> {
        let number = text.len as usize;
        match text.at {
            OWNED => self.owned.get(number).map(String::as_str),
            GEOIP => self.location.as_ref()?.json_at(number),
            _ => None,
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.all().map(|property| (property.name, property.json))
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = Property<'_>> {
        self.members.iter().filter_map(|member| self.property(*member))
    }

    /// `None` if it was removed. Inlined, as the result is too large to return in registers.
    #[inline(always)]
    fn property(&self, member: Member) -> Option<Property<'_>> {
        const { assert!(NAMES <= WELL_KNOWN_PROPERTIES_MAX) };
        let Member { name, json, plain } = member;
        let number = (name.at == KNOWN).then_some(name.len as u8);
        Some(Property {
            json: self.text_of(json)?,
            name: self.text_of(name)?,
            unescaped: plain,
            well_known_id: number,
        })
    }

    /// Equal for properties with the same names whose values have an inferable type or not alike.
    pub(crate) fn shape(&self) -> (u128, u128, u64) {
        (self.present, self.untyped & self.present, self.others)
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    fn member(&self, name: Name) -> Option<usize> {
        (self.known[name.number()] as usize).checked_sub(1)
    }

    /// The client's GeoIP location.
    pub(super) fn location(&self) -> Option<&Location> {
        self.location.as_deref()
    }

    /// Adds the GeoIP properties.
    pub(super) fn set_location(&mut self, location: Arc<Location>) {
        let plain = location.is_plain();
        for (name, at) in names::known_of_location(&location) {
            let text = Text { at: GEOIP, len: at as u32 };
            self.put(name, Json { text, plain, typed: true });
        }
        self.location = Some(location);
    }

    pub(super) fn contains(&self, name: Name) -> bool {
        self.present & name.bit() != 0
    }

    /// Bit set of the names that are present.
    pub(crate) fn present(&self) -> u128 {
        self.present
    }

    pub(crate) fn json(&self, name: Name) -> Option<&str> {
        self.text_of(self.members[self.member(name)?].json)
    }

    pub(crate) fn value(&self, name: Name) -> Option<Value> {
        to_value(self.json(name)?)
    }

    /// The value if it is a string.
    pub(crate) fn text(&self, name: Name) -> Option<Cow<'_, str>> {
        let json = self.json(name)?;
        match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            Some(_) => serde_json::from_str(json).ok().map(Cow::Owned),
            None => None,
        }
    }

    pub(super) fn is_true(&self, name: Name) -> bool {
        self.json(name) == Some("true")
    }

    /// JavaScript's truthiness: null, false, zero and the empty string are falsy.
    pub(super) fn is_truthy(&self, name: Name) -> bool {
        match self.json(name) {
            None | Some("null" | "false" | "\"\"") => false,
            Some(json) => json.parse::<f64>() != Ok(0.0),
        }
    }

    pub(super) fn remove(&mut self, name: Name) {
        if self.contains(name)
            && let Some(at) = self.member(name)
        {
            self.members[at].json = Text { at: NONE, len: 0 };
            self.present &= !name.bit();
        }
    }

    pub(super) fn set_value(&mut self, name: Name, value: &Value) {
        let json = value.to_string();
        let typed = !matches!(value, Value::Object(_) | Value::Array(_) | Value::Null);
        let text = self.push_owned(json);
        self.put(name, Json { text, plain: false, typed });
    }

    #[inline]
    fn put(&mut self, name: Name, json: Json) {
        let Json { text: json, plain, typed } = json;
        let bit = name.bit();
        self.present |= bit;
        self.untyped &= !bit;
        if !typed {
            self.untyped |= bit;
        }
        match self.member(name) {
            Some(at) => self.members[at] = Member { json, plain, ..self.members[at] },
            None => {
                let text = Text { at: KNOWN, len: name.number() as u32 };
                self.members.push(Member { name: text, json, plain });
                self.known[name.number()] = self.members.len() as u32;
            }
        }
    }

    /// Upper bound of the serialized size, computed without visiting the members.
    pub(crate) fn bytes_max(&self) -> usize {
        let owned = self.owned.iter().map(|text| text.len() + names::BYTES_MAX + 4);
        let location = self.location.as_ref().map_or(0, |location| location.bytes());
        // Plus one: the last sent member has no comma.
        self.sent.len() + 1 + owned.sum::<usize>() + location
    }

    /// Whether the serialized size plus `more` is at most `bytes_max`.
    pub(super) fn fit(&self, more: usize, bytes_max: usize) -> bool {
        let members = || self.iter().map(|(name, json)| name.len() + json.len() + 4).sum::<usize>();
        self.bytes_max() + more <= bytes_max || members() + 2 + more <= bytes_max
    }

    /// Visits all properties, with the resolved group keys in place of sent `$group_n`.
    pub(crate) fn with_groups(
        &self,
        groups: &[(u8, &GroupKey)],
        show: &mut dyn FnMut(Property<'_>),
    ) {
        let is_replaced =
            |name: &str| groups.iter().any(|(index, _)| group_name(*index) == Some(name));
        for member in &self.members {
            if let Some(sent) = self.property(*member)
                && (groups.is_empty() || !is_replaced(sent.name))
            {
                show(sent);
            }
        }
        for (index, key) in groups {
            if let Some(name) = group_name(*index) {
                show(Property { name, json: &key.json, unescaped: false, well_known_id: None });
            }
        }
    }
}

/// The property `$group_n` of a type index.
fn group_name(index: u8) -> Option<&'static str> {
    names::groups().nth(usize::from(index)).map(Name::text)
}
