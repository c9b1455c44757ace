//! String functions. Lengths and positions count characters.

use std::ops::Range;

use ahash::AHashSet;
use hogql::types::Kind;

use super::{CallSite, CompiledCall, call, predicate};
use crate::error::{Error, Result};
use crate::limits::meter;
use crate::values::format::{Style, ValueFormatter};
use crate::vector::column::check_string_bytes;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    let is_list = |site: &CallSite| matches!(site.kind(0), Kind::Array(_) | Kind::Map(_));
    Ok(Some(match site.name {
        "length" if is_list(site) => call(|args| {
            let lists = args.lists(0);
            Ok(args.map_ints(|row| lists.at(row).len() as i64))
        }),
        "length" | "lengthUTF8" => call(|args| {
            let strings = args.strings(0);
            Ok(args.map_ints(|row| strings.at(row).chars().count() as i64))
        }),
        "empty" | "notEmpty" => {
            let (negated, list) = (site.name == "notEmpty", is_list(site));
            predicate(move |args| {
                if list {
                    let lists = args.lists(0);
                    return Ok(args.map_bools(|row| lists.at(row).is_empty() != negated));
                }
                let strings = args.strings(0);
                Ok(args.map_bools(|row| strings.at(row).is_empty() != negated))
            })
        }
        "lower" => each(span, |text, out| out.extend(text.chars().flat_map(char::to_lowercase))),
        "upper" => each(span, |text, out| out.extend(text.chars().flat_map(char::to_uppercase))),
        "reverse" if is_list(site) => return Ok(None),
        "reverse" => each(span, |text, out| out.extend(text.chars().rev())),
        "trim" => trim(site, true, true),
        "trimLeft" => trim(site, true, false),
        "trimRight" => trim(site, false, true),
        "encodeXMLComponent" => call(move |args| {
            let strings = args.strings(0);
            args.try_strings(span, |row, out| {
                let text = strings.at(row);
                check_string_bytes(out, text.len().saturating_mul(ENTITY_GROWTH_MAX), span)?;
                for one in text.chars() {
                    match XML.iter().find(|(plain, _)| *plain == one) {
                        Some((_, entity)) => out.push_str(entity),
                        None => out.push(one),
                    }
                }
                Ok(true)
            })
        })
        .fallible(),
        "decodeXMLComponent" => each(span, decode_xml),
        "initcap" => each(span, initcap),
        "concatWithSeparator" => concat_with_separator(site)?,
        "concat" => concat(site)?,
        "substring" => substring(site),
        "left" | "right" => {
            let from_left = site.name == "left";
            call(move |args| {
                let (strings, counts) = (args.strings(0), args.ints(1));
                args.map_strings(span, |row, out| {
                    let (text, count) = (strings.at(row), counts.at(row));
                    let length = text.chars().count() as i64;
                    // A negative count drops that many characters from the other end.
                    let count = if count < 0 { length.saturating_add(count) } else { count };
                    let count = count.clamp(0, length) as usize;
                    let start = if from_left { 0 } else { length as usize - count };
                    out.push_str(&text[characters(text, start, count)]);
                })
            })
        }
        "repeat" => call(move |args| {
            let (strings, counts) = (args.strings(0), args.ints(1));
            args.try_strings(span, |row, out| {
                let (text, count) = (strings.at(row), counts.at(row).max(0) as usize);
                let bytes = text.len().saturating_mul(count);
                check_string_bytes(out, bytes, span)?;
                // Repeating an empty string must not loop.
                (0..if bytes == 0 { 0 } else { count }).for_each(|_| out.push_str(text));
                Ok(true)
            })
        })
        .fallible(),
        "leftPad" | "rightPad" => pad(site),
        "startsWith" => pairs(|text, part| text.starts_with(part)),
        "endsWith" => pairs(|text, part| text.ends_with(part)),
        "replaceOne" => replace(span, 1),
        "replaceAll" => replace(span, usize::MAX),
        "arrayStringConcat" => string_concat(site)?,
        "format" => format(site)?,
        "ascii" => call(|args| {
            let strings = args.strings(0);
            Ok(args.map_ints(|row| {
                strings.at(row).bytes().next().map_or(0, |byte| i64::from(byte as i8))
            }))
        }),
        _ => return Ok(None),
    }))
}

fn each(
    span: hogql::Span,
    write: impl Fn(&str, &mut String) + Send + Sync + 'static,
) -> CompiledCall {
    call(move |args| {
        let strings = args.strings(0);
        args.map_strings(span, |row, out| write(strings.at(row), out))
    })
}

fn pairs(holds: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> CompiledCall {
    predicate(move |args| {
        let (strings, parts) = (args.strings(0), args.strings(1));
        Ok(args.map_bools(|row| holds(strings.at(row), parts.at(row))))
    })
}

fn replace(span: hogql::Span, most: usize) -> CompiledCall {
    call(move |args| {
        let (strings, from, to) = (args.strings(0), args.strings(1), args.strings(2));
        args.try_strings(span, |row, out| {
            let (text, from, to) = (strings.at(row), from.at(row), to.at(row));
            // An empty needle matches nothing.
            let most = if from.is_empty() { 0 } else { most };
            let mut end = 0;
            for (at, matched) in text.match_indices(from).take(most) {
                check_string_bytes(out, at - end + to.len(), span)?;
                out.push_str(&text[end..at]);
                out.push_str(to);
                end = at + matched.len();
            }
            out.push_str(&text[end..]);
            Ok(true)
        })
    })
}

/// The byte range of `count` characters from character `start` on.
fn characters(text: &str, start: usize, count: usize) -> Range<usize> {
    let at = |count: usize, from: usize| {
        text[from..].char_indices().nth(count).map_or(text.len(), |(at, _)| from + at)
    };
    let from = at(start, 0);
    from..at(count, from)
}

fn trim(site: &CallSite, left: bool, right: bool) -> CompiledCall {
    let span = site.span;
    call(move |args| {
        let strings = args.strings(0);
        let sets = (args.columns.len() > 1).then(|| args.strings(1));
        args.try_strings(span, |row, out| {
            let set = sets.map_or(" ", |sets| sets.at(row));
            meter::work(1 + set.len())?;
            let set: AHashSet<char> = set.chars().collect();
            let mut text = strings.at(row);
            if left {
                text = text.trim_start_matches(|one| set.contains(&one));
            }
            if right {
                text = text.trim_end_matches(|one| set.contains(&one));
            }
            out.push_str(text);
            Ok(true)
        })
    })
    .fallible()
}

const XML: [(char, &str); 5] =
    [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&apos;")];

/// Replaces the named entities of XML, and numbers of characters.
fn decode_xml(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = XML.iter().find(|(_, entity)| rest.starts_with(entity));
        let end = rest.bytes().take(ENTITY_BYTES_MAX + 1).position(|byte| byte == b';');
        let numbered = end.and_then(|end| {
            let digits = rest[1..end].strip_prefix('#')?;
            let number = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => digits.parse(),
            };
            Some((char::from_u32(number.ok()?)?, end + 1))
        });
        let (one, bytes) = match (named, numbered) {
            (Some((one, entity)), _) => (*one, entity.len()),
            (None, Some(numbered)) => numbered,
            (None, None) => ('&', 1),
        };
        out.push(one);
        rest = &rest[bytes..];
    }
    out.push_str(rest);
}

/// How many times as long a text of quotes is when encoded.
const ENTITY_GROWTH_MAX: usize = 6;

/// Bytes of an entity before its semicolon.
const ENTITY_BYTES_MAX: usize = 9;

/// Each letter after something else than a letter or digit in upper case, the others in lower case.
fn initcap(text: &str, out: &mut String) {
    let mut within = false;
    for one in text.chars() {
        match within {
            true => out.extend(one.to_lowercase()),
            false => out.extend(one.to_uppercase()),
        }
        within = one.is_alphanumeric();
    }
}

fn concat_with_separator(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    site.cast_all(&Kind::String)?;
    Ok(call(move |args| {
        let strings: Vec<_> = (0..args.columns.len()).map(|no| args.strings(no)).collect();
        args.try_strings(span, |row, out| {
            for (no, text) in strings.iter().enumerate().skip(1) {
                check_string_bytes(out, strings[0].at(row).len() + text.at(row).len(), span)?;
                if no > 1 {
                    out.push_str(strings[0].at(row));
                }
                out.push_str(text.at(row));
            }
            Ok(true)
        })
    }))
}

fn concat(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    site.cast_all(&Kind::String)?;
    Ok(call(move |args| {
        let strings: Vec<_> = (0..args.columns.len()).map(|no| args.strings(no)).collect();
        args.try_strings(span, |row, out| {
            // A missing part counts as empty.
            let known = strings.iter().enumerate().filter(|(no, _)| !args.is_null(*no, row));
            for (_, text) in known {
                check_string_bytes(out, text.at(row).len(), span)?;
                out.push_str(text.at(row));
            }
            Ok(true)
        })
    }))
}

/// `substring`: the start counts from 1, or from the end if negative.
fn substring(site: &mut CallSite) -> CompiledCall {
    let span = site.span;
    call(move |args| {
        let (strings, starts) = (args.strings(0), args.ints(1));
        let counts = (args.columns.len() > 2).then(|| args.ints(2));
        args.map_strings(span, |row, out| {
            let (text, start) = (strings.at(row), starts.at(row));
            let count = counts.map_or(i64::MAX, |counts| counts.at(row));
            let length = text.chars().count() as i64;
            if start == 0 {
                return;
            }
            let (mut from, mut count) =
                (if start > 0 { start - 1 } else { length.saturating_add(start) }, count);
            if count < 0 {
                // A negative length ends that many characters before the end.
                count = length.saturating_add(count).saturating_sub(from.max(0));
            } else if from < 0 {
                count = count.saturating_add(from);
            }
            from = from.max(0);
            if from < length && count > 0 {
                out.push_str(&text[characters(text, from as usize, count.min(length) as usize)]);
            }
        })
    })
}

fn pad(site: &mut CallSite) -> CompiledCall {
    let (span, on_left) = (site.span, site.name == "leftPad");
    call(move |args| {
        let (strings, lengths) = (args.strings(0), args.ints(1));
        let fills = (args.columns.len() > 2).then(|| args.strings(2));
        args.try_strings(span, |row, out| {
            let (text, wanted) = (strings.at(row), lengths.at(row));
            let Ok(wanted) = usize::try_from(wanted) else {
                return Err(Error::invalid("The length to pad to is negative", span));
            };
            check_string_bytes(out, wanted.saturating_mul(char::MAX_LEN_UTF8), span)?;
            let length = text.chars().count();
            if length >= wanted {
                out.push_str(&text[characters(text, 0, wanted)]);
                return Ok(true);
            }
            let fill = fills.map(|fills| fills.at(row)).filter(|fill| !fill.is_empty());
            let fill = fill.unwrap_or(" ").chars().cycle().take(wanted - length);
            if on_left {
                out.extend(fill);
                out.push_str(text);
            } else {
                out.push_str(text);
                out.extend(fill);
            }
            Ok(true)
        })
    })
    .fallible()
}

fn string_concat(site: &mut CallSite) -> Result<CompiledCall> {
    let (span, context) = (site.span, std::sync::Arc::clone(site.context));
    let element = site.args[0].ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
    Ok(call(move |args| {
        let lists = args.lists(0);
        let separators = (args.columns.len() > 1).then(|| args.strings(1));
        let shown = ValueFormatter::new(&element, lists.values, &context);
        args.try_strings(span, |row, out| {
            let separator = separators.map_or("", |separators| separators.at(row));
            let elements = lists.at(row).filter(|at| !shown.is_null(*at));
            for (no, at) in elements.enumerate() {
                check_string_bytes(out, separator.len(), span)?;
                if no > 0 {
                    out.push_str(separator);
                }
                shown.write(at, Style::Plain, out);
            }
            Ok(true)
        })
    }))
}

/// Parses a `format` template: `{}` is the next argument, `{0}` an argument by index; `{{` and `}}`
/// are literal braces.
fn format(site: &mut CallSite) -> Result<CompiledCall> {
    enum Piece {
        Literal(String),
        Arg(usize),
    }
    let span = site.span;
    let pattern = site.string(0).unwrap_or_default();
    site.cast_all(&Kind::String)?;
    let bad = || site.invalid("Bad pattern of format: '{}' or '{0}' stand for arguments");
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut next = 0;
    let mut chars = pattern.chars().peekable();
    while let Some(one) = chars.next() {
        match one {
            '{' | '}' if chars.peek() == Some(&one) => {
                chars.next();
                literal.push(one);
            }
            '{' => {
                let mut number = String::new();
                loop {
                    match chars.next() {
                        Some('}') => break,
                        Some(digit) if digit.is_ascii_digit() => number.push(digit),
                        _ => return Err(bad()),
                    }
                }
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                let no =
                    if number.is_empty() { next } else { number.parse().map_err(|_| bad())? };
                next = no + 1;
                if no + 1 >= site.args.len() {
                    return Err(site.invalid(format!("format has no argument {no}")));
                }
                pieces.push(Piece::Arg(no + 1));
            }
            '}' => return Err(bad()),
            other => literal.push(other),
        }
    }
    pieces.push(Piece::Literal(literal));
    Ok(call(move |args| {
        let strings: Vec<_> = (0..args.columns.len()).map(|no| args.strings(no)).collect();
        args.try_strings(span, |row, out| {
            for piece in &pieces {
                let text = match piece {
                    Piece::Literal(text) => text,
                    Piece::Arg(no) => strings[*no].at(row),
                };
                check_string_bytes(out, text.len(), span)?;
                out.push_str(text);
            }
            Ok(true)
        })
    }))
}
