//! The names of the event before. One SDK sends the same names in the same order, event after event,
//! and comparing a name is cheaper than reading it and looking for it.

use std::borrow::Cow;

use ahash::RandomState;
use model::json::{Members, Result};

use super::names::Name;

/// Names that are remembered, and the bytes of one.
const NAMES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;

/// What is expected of the next event.
#[derive(Debug, Default)]
pub struct Layout {
    expected: Vec<Expected>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Expected {
    /// The name with its quotes and colon, as it stood in the text; empty for one that is not
    /// remembered.
    text: String,
    key: Key,
}

/// A name that is known, or the hash of one that is not.
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
    /// The next member, which is the one at `at` of its event.
    pub(super) fn next<'a>(
        &mut self,
        at: usize,
        members: &mut Members<'a>,
    ) -> Result<Option<(Key, Cow<'a, str>, &'a str)>> {
        if let Some(Expected { text, key }) =
            self.expected.get(at).filter(|one| !one.text.is_empty())
            && let Some(found) = members.next_if(text)
        {
            let (start, json) = found?;
            return Ok(Some((*key, Cow::Borrowed(&start[1..start.len() - 2]), json)));
        }
        let Some(member) = members.next() else { return Ok(None) };
        let (name, json) = member?;
        let key = match Name::find(&name) {
            Some(known) => Key::Known(known),
            None => Key::Other(self.hasher.hash_one(&*name)),
        };
        // One that had escapes does not stand in the text as it is.
        let plain = matches!(name, Cow::Borrowed(_)).then_some(&*name);
        self.expect(at, plain, key);
        Ok(Some((key, name, json)))
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
