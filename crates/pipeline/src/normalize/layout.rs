//! Predicts property names from the previous event. An SDK sends the same names in the same order in
//! each event, and comparing a name is cheaper than scanning it and looking it up.

use std::borrow::Cow;

use ahash::RandomState;
use model::json::{MemberSpan, Members, Result};

use super::names::Name;

/// Cached names, and the bytes of one.
const NAMES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;

/// The names that are expected in the next event.
#[derive(Debug, Default)]
pub struct Layout {
    expected: Vec<Expected>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Expected {
    /// The quoted name and colon as they appear in JSON; empty if not cached.
    text: String,
    key: Key,
}

/// A [`Name`], or the hash of any other name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    Known(Name),
    Other(u64),
}

impl Default for Key {
    fn default() -> Self {
        Self::Other(0)
    }
}

impl Layout {
    /// The next member, if its name is that of member `at` of the previous event.
    #[inline]
    pub(super) fn next_if(
        &self,
        at: usize,
        members: &mut Members<'_>,
    ) -> Option<Result<(Key, MemberSpan)>> {
        let Expected { text, key } = self.expected.get(at).filter(|one| !one.text.is_empty())?;
        let member = members.next_if(text)?;
        Some(member.map(|next| (*key, next)))
    }

    /// The next member, and its unescaped name if it has escapes. Caches the name.
    pub(super) fn next(
        &mut self,
        at: usize,
        members: &mut Members<'_>,
    ) -> Result<Option<(Key, MemberSpan, Option<String>)>> {
        let Some(member) = members.next() else { return Ok(None) };
        let (name, json) = member?;
        let key = match Name::find(&name) {
            Some(known) => Key::Known(known),
            None => Key::Other(self.hasher.hash_one(&*name)),
        };
        let value = members.span_of(json);
        Ok(Some(match name {
            Cow::Borrowed(name) => {
                self.expect(at, Some(name), key);
                (key, MemberSpan { name: members.span_of(name), value, plain: false }, None)
            }
            // A name with escapes is not a slice of the text.
            Cow::Owned(name) => {
                self.expect(at, None, key);
                (key, MemberSpan { name: 0..0, value, plain: false }, Some(name))
            }
        }))
    }

    fn expect(&mut self, at: usize, name: Option<&str>, key: Key) {
        if at >= NAMES_MAX {
            return;
        }
        if self.expected.len() <= at {
            self.expected.resize_with(at + 1, Expected::default);
        }
        let expected = &mut self.expected[at];
        expected.text.clear();
        expected.key = key;
        if let Some(name) = name.filter(|name| name.len() <= NAME_BYTES_MAX) {
            expected.text.extend(["\"", name, "\":"]);
        }
    }
}
