//! Looks for a text in others, in whatever case they are written.

use memchr::memchr2_iter;
use memchr::memmem::Finder;

use super::in_lower_case;

/// Letters by how often people write them. Whatever stands between words is as frequent.
const FREQUENT: &[u8] = b" /.:-_etaoinsrhldcumf0123456789pgwybvkxjqz";

#[derive(Clone, Debug)]
pub(super) struct Part {
    /// In lower case.
    finder: Finder<'static>,
    /// If all letters are plain: where its rarest one is, and that in both cases.
    rarest: Option<(usize, [u8; 2])>,
}

impl Part {
    pub fn new(lowered: &str) -> Self {
        let rank =
            |byte: u8| FREQUENT.iter().position(|own| *own == byte).unwrap_or(FREQUENT.len());
        let rarest = lowered.bytes().enumerate().max_by_key(|(_, byte)| rank(*byte));
        let rarest = rarest.map(|(at, byte)| (at, [byte, byte.to_ascii_uppercase()]));
        let finder = Finder::new(lowered).into_owned();
        Self { finder, rarest: rarest.filter(|_| lowered.is_ascii()) }
    }

    pub fn is_in(&self, text: &str) -> bool {
        let is_in_lowered = || in_lower_case(text, |lowered| self.finder.find(lowered).is_some());
        let Some((at, [lower, upper])) = self.rarest else { return is_in_lowered() };
        let (part, bytes) = (self.finder.needle(), text.as_bytes());
        let is_around = |place: usize| {
            let found =
                place.checked_sub(at).and_then(|start| bytes.get(start..)?.get(..part.len()));
            found.is_some_and(|found| found.eq_ignore_ascii_case(part))
        };
        // Some letters become plain ones in lower case.
        memchr2_iter(lower, upper, bytes).any(is_around) || !text.is_ascii() && is_in_lowered()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_found_where_lower_case_has_it(
            part in "[abzAB/é\u{212a}]{0,3}",
            text in "[abzABZ/éÉk\u{212a}İ]{0,8}",
        ) {
            let lowered = part.to_lowercase();
            let expected = text.to_lowercase().contains(&lowered);
            prop_assert_eq!(Part::new(&lowered).is_in(&text), expected);
        }
    }
}
