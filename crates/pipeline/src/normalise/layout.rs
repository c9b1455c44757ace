//! The names of the event before. One SDK sends the same names in the same order, event after event,
//! and comparing a name is cheaper than reading it and looking for it.

use std::borrow::Cow;

use model::json::{Members, Result};

use super::names::Name;
use super::properties::Key;

/// Names that are remembered, and the bytes of one.
const NAMES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;

/// What is expected of the next event.
#[derive(Debug, Default)]
pub struct Layout(Vec<Expected>);

#[derive(Debug, Default)]
struct Expected {
    /// The name with its quotes and colon, as it stood in the text; empty for one that is not
    /// remembered.
    text: String,
    known: Option<Name>,
}

impl Layout {
    /// The next member, which is the one at `at` of its event.
    pub(super) fn next<'a>(
        &mut self,
        at: usize,
        members: &mut Members<'a>,
    ) -> Result<Option<(Key<'a>, &'a str)>> {
        if let Some(Expected { text, known }) = self.0.get(at).filter(|one| !one.text.is_empty())
            && let Some(found) = members.next_if(text)
        {
            let (start, json) = found?;
            let own = || Cow::Borrowed(&start[1..start.len() - 2]);
            return Ok(Some((known.map_or_else(|| Key::Other(own()), Key::Known), json)));
        }
        let Some(member) = members.next() else { return Ok(None) };
        let (name, json) = member?;
        let known = Name::find(&name);
        // One that had escapes does not stand in the text as it is.
        let plain = matches!(name, Cow::Borrowed(_)).then_some(&*name);
        self.expect(at, plain, known);
        Ok(Some((known.map_or(Key::Other(name), Key::Known), json)))
    }

    fn expect(&mut self, at: usize, name: Option<&str>, known: Option<Name>) {
        if at >= NAMES_MAX {
            return;
        }
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Expected::default);
        }
        let expected = &mut self.0[at];
        expected.text.clear();
        expected.known = known;
        if let Some(name) = name.filter(|name| name.len() <= NAME_BYTES_MAX) {
            expected.text.extend(["\"", name, "\":"]);
        }
    }
}
