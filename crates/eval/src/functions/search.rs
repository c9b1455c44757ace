//! Functions that search strings and take them apart. Positions count characters from 1; 0 means none.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Int64Array, StringArray};
use hogql::types::{Kind, Type};

use super::{CallSite, CompiledCall, call, predicate};
use crate::error::{Error, Result};
use crate::limits::meter;
use crate::vector::column::{Args, Lists, StringWriter, check_elements};
use crate::vector::types::wide_list;

/// Bytes of a string search that count as one unit of work.
pub(super) const TEXT_BYTES_A_UNIT: usize = 64;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    let any_case = site.name.contains("CaseInsensitive");
    Ok(Some(match site.name {
        "position" | "positionCaseInsensitive" => call(move |args| {
            let (strings, parts) = (args.strings(0), args.strings(1));
            let starts = (args.columns.len() > 2).then(|| args.ints(2));
            Ok(args.map_ints(|row| {
                let (text, part) =
                    (folded(strings.at(row), any_case), folded(parts.at(row), any_case));
                position_from(&text, &part, starts.map_or(0, |starts| starts.at(row)))
            }))
        }),
        "countSubstrings" | "countSubstringsCaseInsensitive" => call(move |args| {
            let (strings, parts) = (args.strings(0), args.strings(1));
            let starts = (args.columns.len() > 2).then(|| args.ints(2));
            Ok(args.map_ints(|row| {
                let (text, part) =
                    (folded(strings.at(row), any_case), folded(parts.at(row), any_case));
                let from = byte_of(&text, starts.map_or(0, |starts| starts.at(row)));
                match from.filter(|_| !part.is_empty()) {
                    Some(from) => text[from..].matches(&*part).count() as i64,
                    None => 0,
                }
            }))
        }),
        "multiSearchAny"
        | "multiSearchAnyCaseInsensitive"
        | "multiSearchFirstIndex"
        | "multiSearchFirstIndexCaseInsensitive"
        | "multiSearchFirstPosition"
        | "multiSearchFirstPositionCaseInsensitive"
        | "multiSearchAllPositions"
        | "multiSearchAllPositionsCaseInsensitive" => search_several(site, any_case)?,
        "hasToken" | "hasTokenCaseInsensitive" => has_token(site, any_case, false),
        "hasTokenOrNull" | "hasTokenCaseInsensitiveOrNull" => has_token(site, any_case, true),
        "hasAnyTokens" | "hasAllTokens" => has_tokens(site)?,
        "hasSubsequence" | "hasSubsequenceCaseInsensitive" => predicate(move |args| {
            let (strings, parts) = (args.strings(0), args.strings(1));
            Ok(args.map_bools(|row| {
                let (text, part) =
                    (folded(strings.at(row), any_case), folded(parts.at(row), any_case));
                let mut text = text.chars();
                part.chars().all(|wanted| text.any(|one| one == wanted))
            }))
        }),
        "splitByChar" | "splitByString" => split(site),
        "splitByWhitespace" => split_at(site, |one| one.is_ascii_whitespace()),
        "splitByNonAlpha" => {
            split_at(site, |one| one.is_ascii_whitespace() || one.is_ascii_punctuation())
        }
        "alphaTokens" => split_at(site, |one| !one.is_ascii_alphabetic()),
        "tokens" => split_at(site, |one| one.is_ascii() && !one.is_ascii_alphanumeric()),
        "ngrams" => {
            let element = site.element();
            call(move |args| {
                let (strings, sizes) = (args.strings(0), args.ints(1));
                args.string_lists(&element, span, |row, out| {
                    let (text, size) = (strings.at(row), sizes.at(row));
                    let Some(size) = usize::try_from(size).ok().filter(|size| *size > 0) else {
                        return Err(Error::invalid("The length of ngrams is above 0", span));
                    };
                    let starts = text.char_indices().map(|(at, _)| at);
                    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]).skip(size);
                    starts.zip(ends).try_for_each(|(from, to)| {
                        meter::work(1 + (to - from) / TEXT_BYTES_A_UNIT)?;
                        out.push(&text[from..to])
                    })
                })
            })
            .fallible()
        }
        "translate" => call(move |args| {
            let (strings, from, to) = (args.strings(0), args.strings(1), args.strings(2));
            args.try_strings(span, |row, out| {
                let sets = from.at(row).len() + to.at(row).len();
                let _charge = meter::charge_large(sets.saturating_mul(size_of::<char>()))?;
                let to: Vec<char> = to.at(row).chars().collect();
                let from: Vec<char> = from.at(row).chars().collect();
                if to.len() > from.len() {
                    let message = "translate needs as many characters to replace as replacements";
                    return Err(Error::invalid(message, span));
                }
                for one in strings.at(row).chars() {
                    // The last of equal characters counts; one without a replacement is dropped.
                    meter::work(1 + from.len() / TEXT_BYTES_A_UNIT)?;
                    match from.iter().rposition(|other| *other == one) {
                        None => out.push(one),
                        Some(at) => out.extend(to.get(at)),
                    }
                }
                Ok(true)
            })
        })
        .fallible(),
        _ => return Ok(None),
    }))
}

fn folded(text: &str, any_case: bool) -> Cow<'_, str> {
    if any_case { Cow::Owned(text.to_lowercase()) } else { Cow::Borrowed(text) }
}

/// The byte of the character with this number, counted from 1; 0 means the first. None past the end.
fn byte_of(text: &str, character: i64) -> Option<usize> {
    let skip = usize::try_from(character.saturating_sub(1).max(0)).ok()?;
    if skip == 0 {
        return Some(0);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(skip)
}

fn position_from(text: &str, part: &str, start: i64) -> i64 {
    let Some(from) = byte_of(text, start) else { return 0 };
    text[from..].find(part).map_or(0, |at| text[..from + at].chars().count() as i64 + 1)
}

/// The strings that each row searches.
struct Needles<'a> {
    lists: Lists<'a>,
    parts: &'a StringArray,
    any_case: bool,
}

impl<'a> Needles<'a> {
    fn of(args: &Args<'a>, any_case: bool) -> Self {
        let lists = args.lists(1);
        Self { parts: lists.values.as_string::<i32>(), lists, any_case }
    }

    /// Calls `f` with the needles of a row until it returns something. Each may scan the whole string.
    fn find<T>(
        &self,
        row: usize,
        text: &str,
        mut f: impl FnMut(usize, &str) -> Option<T>,
    ) -> Result<Option<T>> {
        for (no, at) in self.lists.at(row).enumerate() {
            let part = self.parts.value(at);
            meter::work(1 + (text.len() + part.len()) / TEXT_BYTES_A_UNIT)?;
            if let Some(found) = f(no, &folded(part, self.any_case)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

fn search_several(site: &mut CallSite, any_case: bool) -> Result<CompiledCall> {
    let span = site.span;
    site.cast(1, &Type::array(Kind::String.into()).kind)?;
    if site.name.starts_with("multiSearchAny") {
        return Ok(predicate(move |args| {
            let (strings, needles) = (args.strings(0), Needles::of(args, any_case));
            args.try_bools(|row| {
                let text = folded(strings.at(row), any_case);
                let found =
                    needles.find(row, &text, |_, part| text.contains(part).then_some(()))?;
                Ok(found.is_some())
            })
        }));
    }
    if site.name.starts_with("multiSearchAllPositions") {
        let element = site.element();
        return Ok(call(move |args| {
            let (strings, needles) = (args.strings(0), Needles::of(args, any_case));
            number_lists(args, &element, span, |row, out| {
                let text = folded(strings.at(row), any_case);
                needles.find(row, &text, |_, part| {
                    out.push(position_from(&text, part, 0));
                    None::<()>
                })?;
                Ok(())
            })
        }));
    }
    let wants_index = site.name.starts_with("multiSearchFirstIndex");
    Ok(call(move |args| {
        let (strings, needles) = (args.strings(0), Needles::of(args, any_case));
        args.try_ints(|row| {
            let text = folded(strings.at(row), any_case);
            if wants_index {
                let found =
                    needles.find(row, &text, |no, part| text.contains(part).then_some(no))?;
                return Ok(Some(found.map_or(0, |no| no as i64 + 1)));
            }
            let mut first = 0;
            needles.find(row, &text, |_, part| {
                let at = position_from(&text, part, 0);
                if at > 0 && (first == 0 || at < first) {
                    first = at;
                }
                None::<()>
            })?;
            Ok(Some(first))
        })
    }))
}

/// Lists of numbers that `f` pushes; empty where an argument is null.
pub(super) fn number_lists(
    args: &Args,
    element: &Type,
    span: hogql::Span,
    mut f: impl FnMut(usize, &mut Vec<i64>) -> Result<()>,
) -> Result<ArrayRef> {
    let (mut values, mut offsets) = (Vec::new(), vec![0]);
    let mut charge = meter::GrowingBuffer::default();
    for row in 0..args.rows {
        if args.is_valid(row) {
            f(row, &mut values)?;
        }
        offsets.push(check_elements(values.len(), span)?);
        charge.grow_to(values.len() * size_of::<i64>())?;
    }
    wide_list(element, offsets, Arc::new(Int64Array::from(values)))
}

/// Parts of a token: everything but ASCII punctuation, spaces and controls.
fn in_token(one: char) -> bool {
    !one.is_ascii() || one.is_ascii_alphanumeric()
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|one| !in_token(one)).filter(|token| !token.is_empty())
}

fn has_token(site: &CallSite, any_case: bool, or_null: bool) -> CompiledCall {
    let span = site.span;
    call(move |args| {
        let (strings, parts) = (args.strings(0), args.strings(1));
        args.try_ints(|row| {
            let part = folded(parts.at(row), any_case);
            if !part.chars().all(in_token) {
                if or_null {
                    return Ok(None);
                }
                return Err(Error::invalid("hasToken searches a word, without separators", span));
            }
            let text = folded(strings.at(row), any_case);
            meter::work(1 + text.len() / TEXT_BYTES_A_UNIT)?;
            Ok(Some(i64::from(tokens(&text).any(|token| *token == *part))))
        })
    })
    .fallible()
}

fn has_tokens(site: &mut CallSite) -> Result<CompiledCall> {
    let all = site.name == "hasAllTokens";
    site.cast(1, &Type::array(Kind::String.into()).kind)?;
    Ok(predicate(move |args| {
        let (strings, needles) = (args.strings(0), Needles::of(args, true));
        args.try_bools(|row| {
            let text = folded(strings.at(row), true);
            // The first that decides: one that is there, or for all of them one that is not.
            let decides = needles.find(row, &text, |_, part| {
                (tokens(&text).any(|token| token == part) != all).then_some(())
            })?;
            Ok(decides.is_some() != all)
        })
    }))
}

/// How many parts a split returns at most; the rest is dropped. 0 or less means all.
pub(super) fn parts_max(args: &Args, no: usize, row: usize) -> usize {
    let given = (args.columns.len() > no).then(|| args.ints(no).at(row));
    given.and_then(|max| usize::try_from(max).ok()).filter(|max| *max > 0).unwrap_or(usize::MAX)
}

fn split(site: &CallSite) -> CompiledCall {
    let (element, span, by_char) = (site.element(), site.span, site.name == "splitByChar");
    call(move |args| {
        let (separators, strings) = (args.strings(0), args.strings(1));
        args.string_lists(&element, span, |row, out| {
            let (separator, text) = (separators.at(row), strings.at(row));
            let max = parts_max(args, 2, row);
            if by_char && separator.chars().count() != 1 {
                return Err(Error::invalid("splitByChar splits by one character", span));
            }
            if separator.is_empty() {
                let mut character = [0; 4];
                let mut chars = text.chars().take(max);
                return chars.try_for_each(|one| out.push(one.encode_utf8(&mut character)));
            }
            text.split(separator).take(max).try_for_each(|part| out.push(part))
        })
    })
    .fallible_if(by_char)
}

/// The parts between separators that are not empty.
fn split_at(
    site: &CallSite,
    separates: impl Fn(char) -> bool + Copy + Send + Sync + 'static,
) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    call(move |args| {
        let strings = args.strings(0);
        args.string_lists(&element, span, |row, out: &mut StringWriter| {
            let parts = strings.at(row).split(separates).filter(|part| !part.is_empty());
            parts.take(parts_max(args, 1, row)).try_for_each(|part| out.push(part))
        })
    })
}
