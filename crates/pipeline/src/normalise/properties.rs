//! An event's properties as sent: names are read, values stay JSON text until somebody asks.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use geoip::Place;
use model::event::RecordError;
use model::json::{JsonError, MemberSpan, Members, compact, to_value};
use serde_json::Value;
use warehouse::{Property, WELL_KNOWN_PROPERTIES_MAX};

use super::GroupKey;
use super::layout::{Key, Layout};
use super::names::{self, NAMES, Name};

/// A short member, so that room for all of them is made at once; a huge text has longer ones.
const MEMBER_BYTES: usize = 24;
const EXPECTED_MAX: usize = 256;
/// What is added on the way: the address and the place.
const ADDED: usize = 16;

/// Keeps the order and the number literals of the sender. Of a repeated [`Name`] the last counts; of
/// any other name both are here, and whoever reads them all lets the last one count.
#[derive(Debug)]
pub struct Properties<'a> {
    sent: &'a str,
    members: Vec<Member>,
    /// Texts that were not sent.
    made: Vec<String>,
    place: Option<Arc<Place>>,
    /// Where the names stand, counted from one; zero for those that do not.
    known: [u32; NAMES],
    /// The names that are there, and those whose values have no type.
    present: u128,
    untyped: u128,
    /// Of the other names, and whether their values have types: equal ones are equal.
    others: u64,
}

/// Name and JSON of its value. Small: those of a whole batch are made before any is stored.
#[derive(Clone, Copy, Debug)]
struct Member {
    name: Text,
    json: Text,
    /// Whether it is known that nothing is escaped in the value.
    plain: bool,
}

/// The value of a known name.
struct Json {
    text: Text,
    plain: bool,
    /// Whether definitions say what type it has.
    typed: bool,
}

/// A piece of what was sent, from `at` on, or `len` is the number of something else.
#[derive(Clone, Copy, Debug)]
struct Text {
    at: u32,
    len: u32,
}

/// `len` is a [`Name`], or of [`Properties::made`], or of the place's properties, or there is none:
/// it was taken out. No text is so long.
const KNOWN: u32 = u32::MAX;
const MADE: u32 = u32::MAX - 1;
const PLACE: u32 = u32::MAX - 2;
const NONE: u32 = u32::MAX - 3;

impl Text {
    fn sent(place: &Range<usize>) -> Self {
        Self { at: place.start as u32, len: place.len() as u32 }
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
                made: Vec::new(),
                place: None,
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
        // These are compared as texts, so equal ones must look alike.
        if let Some(b'{' | b'[') = first
            && let Cow::Owned(made) = compact(&self.sent[next.value.clone()])?
        {
            json = self.make(made);
        }
        match key {
            Key::Known(name) => self.put(name, Json { text: json, plain: next.plain, typed }),
            Key::Other(hash) => {
                let name = match unescaped {
                    None => Text::sent(&next.name),
                    Some(name) => self.make(name),
                };
                self.members.push(Member { name, json, plain: next.plain });
                let mixed = self.others.rotate_left(23) ^ hash ^ u64::from(typed);
                self.others = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
        Ok(())
    }

    fn make(&mut self, text: String) -> Text {
        self.made.push(text);
        Text { at: MADE, len: self.made.len() as u32 - 1 }
    }

    #[inline(always)]
    fn text_of(&self, text: Text) -> Option<&str> {
        let (at, number) = (text.at as usize, text.len as usize);
        match text.at {
            KNOWN => Some(Name::numbered(number).text()),
            ..NONE => self.sent.get(at..at + number),
            _ => self.text_elsewhere(text),
        }
    }

    fn text_elsewhere(&self, text: Text) -> Option<&str> {
        let number = text.len as usize;
        match text.at {
            MADE => self.made.get(number).map(String::as_str),
            PLACE => self.place.as_ref()?.json_at(number),
            _ => None,
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.all().map(|own| (own.name, own.json))
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = Property<'_>> {
        self.members.iter().filter_map(|member| self.property(*member))
    }

    /// None of what was taken out. Inlined, as it is too large to be returned but through memory.
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

    /// Two of one shape have the same names, and values whose types are found or not alike.
    pub(crate) fn shape(&self) -> (u128, u128, u64) {
        (self.present, self.untyped & self.present, self.others)
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    fn member(&self, name: Name) -> Option<usize> {
        (self.known[name.number()] as usize).checked_sub(1)
    }

    /// Where the sender is.
    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_deref()
    }

    /// Adds what is known of the place.
    pub(super) fn set_place(&mut self, place: Arc<Place>) {
        let plain = place.is_plain();
        for (name, at) in names::known_of_place(&place) {
            let text = Text { at: PLACE, len: at as u32 };
            self.put(name, Json { text, plain, typed: true });
        }
        self.place = Some(place);
    }

    pub(super) fn contains(&self, name: Name) -> bool {
        self.present & name.bit() != 0
    }

    /// The set of names that are there.
    pub(crate) fn present(&self) -> u128 {
        self.present
    }

    pub(crate) fn json(&self, name: Name) -> Option<&str> {
        self.text_of(self.members[self.member(name)?].json)
    }

    pub(crate) fn value(&self, name: Name) -> Option<Value> {
        to_value(self.json(name)?)
    }

    /// None as well for what is no text.
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

    /// As JavaScript has it: null, false, zero and empty text are not.
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
        let text = self.make(json);
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

    /// An upper bound of the text of the whole object, found without looking at its members.
    pub(crate) fn bytes_max(&self) -> usize {
        let made = self.made.iter().map(|text| text.len() + names::BYTES_MAX + 4);
        let place = self.place.as_ref().map_or(0, |place| place.bytes());
        // One more, for the comma that the last member does not have.
        self.sent.len() + 1 + made.sum::<usize>() + place
    }

    /// Whether the text of the whole object and `more` have at most so many bytes.
    pub(super) fn fit(&self, more: usize, bytes_max: usize) -> bool {
        let members = || self.iter().map(|(name, json)| name.len() + json.len() + 4).sum::<usize>();
        self.bytes_max() + more <= bytes_max || members() + 2 + more <= bytes_max
    }

    /// Shows them all, with the keys of the event's groups in place of those that were sent.
    pub(crate) fn with_groups(
        &self,
        groups: &[(u8, &GroupKey)],
        show: &mut dyn FnMut(Property<'_>),
    ) {
        let own = |name: &str| groups.iter().any(|(index, _)| group_name(*index) == Some(name));
        for member in &self.members {
            if let Some(sent) = self.property(*member)
                && (groups.is_empty() || !own(sent.name))
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

/// The property that holds the key of the event's group of a type.
fn group_name(index: u8) -> Option<&'static str> {
    names::groups().nth(usize::from(index)).map(Name::text)
}
