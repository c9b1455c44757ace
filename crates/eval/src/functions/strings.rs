//! Texts, counted in characters.

use std::borrow::Cow;
use std::ops::Range;

use hogql::types::Kind;

use super::{Built, Site, call, test};
use crate::column::check_room;
use crate::error::{Error, Result};
use crate::meter;
use crate::show::{Shown, Style};

/// Bytes that are searched as fast as a row is worked on.
const TEXT_BYTES_A_UNIT: usize = 64;

pub(super) fn build(site: &mut Site) -> Result<Option<Built>> {
    let span = site.span;
    let is_list = |site: &Site| matches!(site.kind(0), Kind::Array(_) | Kind::Map(_));
    Ok(Some(match site.name {
        "length" if is_list(site) => call(|args| {
            let lists = args.lists(0);
            Ok(args.map_ints(|row| lists.at(row).len() as i64))
        }),
        "length" | "lengthUTF8" => call(|args| {
            let texts = args.texts(0);
            Ok(args.map_ints(|row| texts.at(row).chars().count() as i64))
        }),
        "empty" | "notEmpty" => {
            let (negated, list) = (site.name == "notEmpty", is_list(site));
            test(move |args| {
                if list {
                    let lists = args.lists(0);
                    return Ok(args.map_truth(|row| lists.at(row).is_empty() != negated));
                }
                let texts = args.texts(0);
                Ok(args.map_truth(|row| texts.at(row).is_empty() != negated))
            })
        }
        "lower" => each(span, |text, out| out.extend(text.chars().flat_map(char::to_lowercase))),
        "upper" => each(span, |text, out| out.extend(text.chars().flat_map(char::to_uppercase))),
        "reverse" => each(span, |text, out| out.extend(text.chars().rev())),
        "trim" => each(span, |text, out| out.push_str(text.trim_matches(' '))),
        "trimLeft" => each(span, |text, out| out.push_str(text.trim_start_matches(' '))),
        "trimRight" => each(span, |text, out| out.push_str(text.trim_end_matches(' '))),
        "concat" => concat(site)?,
        "substring" => substring(site),
        "left" | "right" => {
            let from_left = site.name == "left";
            call(move |args| {
                let (texts, counts) = (args.texts(0), args.ints(1));
                args.map_texts(span, |row, out| {
                    let (text, count) = (texts.at(row), counts.at(row));
                    let length = text.chars().count() as i64;
                    // Less than nothing: all but as many on the other side.
                    let kept = if count < 0 { length.saturating_add(count) } else { count };
                    let kept = kept.clamp(0, length) as usize;
                    let start = if from_left { 0 } else { length as usize - kept };
                    out.push_str(&text[characters(text, start, kept)]);
                })
            })
        }
        "repeat" => call(move |args| {
            let (texts, counts) = (args.texts(0), args.ints(1));
            args.try_texts(span, |row, out| {
                let (text, count) = (texts.at(row), counts.at(row).max(0) as usize);
                let bytes = text.len().saturating_mul(count);
                check_room(out, bytes, span)?;
                // Of nothing there is nothing, however often.
                (0..if bytes == 0 { 0 } else { count }).for_each(|_| out.push_str(text));
                Ok(true)
            })
        })
        .fails(),
        "leftPad" | "rightPad" => pad(site),
        "startsWith" => pairs(|text, part| text.starts_with(part)),
        "endsWith" => pairs(|text, part| text.ends_with(part)),
        "position" => call(|args| {
            let (texts, parts) = (args.texts(0), args.texts(1));
            Ok(args.map_ints(|row| position(texts.at(row), parts.at(row))))
        }),
        "positionCaseInsensitive" => call(|args| {
            let (texts, parts) = (args.texts(0), args.texts(1));
            Ok(args.map_ints(|row| position(&folded(texts.at(row)), &folded(parts.at(row)))))
        }),
        "replaceOne" => replace(span, 1),
        "replaceAll" => replace(span, usize::MAX),
        "splitByChar" | "splitByString" => {
            let (element, by_char) = (site.element(), site.name == "splitByChar");
            call(move |args| {
                let (separators, texts) = (args.texts(0), args.texts(1));
                args.text_lists(&element, span, |row, out| {
                    let (separator, text) = (separators.at(row), texts.at(row));
                    if by_char && separator.chars().count() != 1 {
                        let message = "splitByChar splits by one character";
                        return Err(Error::invalid(message, span));
                    }
                    if separator.is_empty() {
                        let mut character = [0; 4];
                        let mut chars = text.chars();
                        return chars.try_for_each(|one| out.push(one.encode_utf8(&mut character)));
                    }
                    text.split(separator).try_for_each(|part| out.push(part))
                })
            })
            .fails_if(by_char)
        }
        "arrayStringConcat" => string_concat(site)?,
        "format" => format(site)?,
        "multiSearchAny" | "multiSearchAnyCaseInsensitive" => search_any(site)?,
        "countSubstrings" => call(|args| {
            let (texts, parts) = (args.texts(0), args.texts(1));
            Ok(args.map_ints(|row| {
                let part = parts.at(row);
                if part.is_empty() { 0 } else { texts.at(row).matches(part).count() as i64 }
            }))
        }),
        "ascii" => call(|args| {
            let texts = args.texts(0);
            Ok(args.map_ints(|row| {
                texts.at(row).bytes().next().map_or(0, |byte| i64::from(byte as i8))
            }))
        }),
        _ => return Ok(None),
    }))
}

fn each(span: hogql::Span, write: impl Fn(&str, &mut String) + Send + Sync + 'static) -> Built {
    call(move |args| {
        let texts = args.texts(0);
        args.map_texts(span, |row, out| write(texts.at(row), out))
    })
}

fn pairs(holds: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Built {
    test(move |args| {
        let (texts, parts) = (args.texts(0), args.texts(1));
        Ok(args.map_truth(|row| holds(texts.at(row), parts.at(row))))
    })
}

fn replace(span: hogql::Span, most: usize) -> Built {
    call(move |args| {
        let (texts, from, to) = (args.texts(0), args.texts(1), args.texts(2));
        args.try_texts(span, |row, out| {
            let (text, from, to) = (texts.at(row), from.at(row), to.at(row));
            // Nothing is nowhere to be found.
            let most = if from.is_empty() { 0 } else { most };
            let mut end = 0;
            for (at, found) in text.match_indices(from).take(most) {
                check_room(out, at - end + to.len(), span)?;
                out.push_str(&text[end..at]);
                out.push_str(to);
                end = at + found.len();
            }
            out.push_str(&text[end..]);
            Ok(true)
        })
    })
}

fn folded(text: &str) -> String {
    text.to_lowercase()
}

/// The bytes of some characters.
fn characters(text: &str, start: usize, count: usize) -> Range<usize> {
    let at = |count: usize, from: usize| {
        text[from..].char_indices().nth(count).map_or(text.len(), |(at, _)| from + at)
    };
    let from = at(start, 0);
    from..at(count, from)
}

/// From 1; 0 if there is none.
fn position(text: &str, part: &str) -> i64 {
    text.find(part).map_or(0, |at| text[..at].chars().count() as i64 + 1)
}

fn concat(site: &mut Site) -> Result<Built> {
    let span = site.span;
    site.cast_all(&Kind::String)?;
    Ok(call(move |args| {
        let texts: Vec<_> = (0..args.columns.len()).map(|no| args.texts(no)).collect();
        args.try_texts(span, |row, out| {
            for text in &texts {
                check_room(out, text.at(row).len(), span)?;
                out.push_str(text.at(row));
            }
            Ok(true)
        })
    }))
}

/// From 1, or from the end where it is negative.
fn substring(site: &mut Site) -> Built {
    let span = site.span;
    call(move |args| {
        let (texts, starts) = (args.texts(0), args.ints(1));
        let counts = (args.columns.len() > 2).then(|| args.ints(2));
        args.map_texts(span, |row, out| {
            let (text, start) = (texts.at(row), starts.at(row));
            let count = counts.map_or(i64::MAX, |counts| counts.at(row));
            let length = text.chars().count() as i64;
            if start == 0 {
                return;
            }
            let (mut from, mut count) =
                (if start > 0 { start - 1 } else { length.saturating_add(start) }, count);
            if count < 0 {
                // Up to as many before the end.
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

fn pad(site: &mut Site) -> Built {
    let (span, on_left) = (site.span, site.name == "leftPad");
    call(move |args| {
        let (texts, lengths) = (args.texts(0), args.ints(1));
        let fills = (args.columns.len() > 2).then(|| args.texts(2));
        args.try_texts(span, |row, out| {
            let (text, wanted) = (texts.at(row), lengths.at(row));
            let Ok(wanted) = usize::try_from(wanted) else {
                return Err(Error::invalid("The length to pad to is negative", span));
            };
            check_room(out, wanted.saturating_mul(char::MAX_LEN_UTF8), span)?;
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
    .fails()
}

fn string_concat(site: &mut Site) -> Result<Built> {
    let (span, context) = (site.span, std::sync::Arc::clone(site.context));
    let element = site.args[0].ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
    Ok(call(move |args| {
        let lists = args.lists(0);
        let separators = (args.columns.len() > 1).then(|| args.texts(1));
        let shown = Shown::new(&element, lists.values, &context);
        args.try_texts(span, |row, out| {
            let separator = separators.map_or("", |separators| separators.at(row));
            let elements = lists.at(row).filter(|at| !shown.is_null(*at));
            for (no, at) in elements.enumerate() {
                check_room(out, separator.len(), span)?;
                if no > 0 {
                    out.push_str(separator);
                }
                shown.write(at, Style::Plain, out);
            }
            Ok(true)
        })
    }))
}

/// `{}` for each argument in turn, or `{0}` for one by its number; braces are doubled.
fn format(site: &mut Site) -> Result<Built> {
    enum Piece {
        Literal(String),
        Arg(usize),
    }
    let span = site.span;
    let pattern = site.text(0).unwrap_or_default();
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
        let texts: Vec<_> = (0..args.columns.len()).map(|no| args.texts(no)).collect();
        args.try_texts(span, |row, out| {
            for piece in &pieces {
                let text = match piece {
                    Piece::Literal(text) => text,
                    Piece::Arg(no) => texts[*no].at(row),
                };
                check_room(out, text.len(), span)?;
                out.push_str(text);
            }
            Ok(true)
        })
    }))
}

fn search_any(site: &mut Site) -> Result<Built> {
    let any_case = site.name != "multiSearchAny";
    let texts = hogql::types::Type::array(Kind::String.into()).kind;
    site.cast(1, &texts)?;
    Ok(test(move |args| {
        let (texts, parts) = (args.texts(0), args.lists(1));
        let parts_array = arrow_array::cast::AsArray::as_string::<i32>(&**parts.values);
        args.try_truth(|row| {
            let text = texts.at(row);
            let text = if any_case { Cow::Owned(folded(text)) } else { Cow::Borrowed(text) };
            for at in parts.at(row) {
                // All of the text may be looked at for each part.
                meter::work(1 + text.len() / TEXT_BYTES_A_UNIT)?;
                let part = parts_array.value(at);
                let part = if any_case { Cow::Owned(folded(part)) } else { Cow::Borrowed(part) };
                if text.contains(&*part) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }))
}
