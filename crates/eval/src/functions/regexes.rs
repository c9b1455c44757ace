//! Functions on `LIKE` patterns and regular expressions.

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_array::cast::AsArray;
use hogql::Span;
use hogql::types::{Kind, Type};
use regex::Captures;

use super::search::TEXT_BYTES_A_UNIT;
use super::{CallSite, CompiledCall, call, predicate};
use crate::error::{Error, Result};
use crate::limits::meter;
use crate::values::patterns::{Matchers, Regexes, Syntax};
use crate::vector::column::{Args, StringWriter, check_elements, check_string_bytes};
use crate::vector::types::wide_list;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    Ok(Some(match site.name {
        "match" => matches(site)?,
        "extract" => {
            let (regexes, fallible) = regexes(site, 1)?;
            call(move |args| {
                let mut regexes = regexes.clone();
                let (strings, patterns) = (args.strings(0), args.strings(1));
                args.try_strings(span, |row, out| {
                    let regex = regexes.of(|| patterns.at(row))?.over(strings.at(row))?;
                    if let Some(captures) = regex.captures(strings.at(row)) {
                        out.push_str(first_group(&captures));
                    }
                    Ok(true)
                })
            })
            .fallible_if(fallible)
        }
        "extractAll" => {
            let (regexes, fallible) = regexes(site, 1)?;
            let element = site.element();
            call(move |args| {
                let mut regexes = regexes.clone();
                let (strings, patterns) = (args.strings(0), args.strings(1));
                args.string_lists(&element, span, |row, out| {
                    let regex = regexes.of(|| patterns.at(row))?.over(strings.at(row))?;
                    let (text, mut at) = (strings.at(row), 0);
                    while let Some(captures) = regex.captures_at(text, at) {
                        meter::work(1)?;
                        let end = captures.get(0).map_or(at, |matched| matched.end());
                        if captures[0].is_empty() {
                            break;
                        }
                        out.push(first_group(&captures))?;
                        at = end;
                    }
                    Ok(())
                })
            })
            .fallible_if(fallible)
        }
        "extractGroups" => groups(site)?,
        "extractAllGroups" => all_groups(site, false)?,
        "extractAllGroupsHorizontal" => all_groups(site, true)?,
        "regexpExtract" => regexp_extract(site)?,
        "regexpQuoteMeta" => call(move |args| {
            let strings = args.strings(0);
            args.try_strings(span, |row, out| {
                check_string_bytes(out, 2 * strings.at(row).len(), span)?;
                for one in strings.at(row).chars() {
                    out.push_str(if r"\().|[]^$*+?{:-".contains(one) { "\\" } else { "" });
                    out.push(one);
                }
                Ok(true)
            })
        })
        .fallible(),
        "countMatches" | "countMatchesCaseInsensitive" => count_matches(site)?,
        "multiMatchAny" | "multiMatchAnyIndex" | "multiMatchAllIndices" => match_several(site)?,
        "replaceRegexpOne" => replace(site, false)?,
        "replaceRegexpAll" => replace(site, true)?,
        "splitByRegexp" => {
            let (regexes, fallible) = regexes(site, 0)?;
            let element = site.element();
            call(move |args| {
                let mut regexes = regexes.clone();
                let (patterns, strings) = (args.strings(0), args.strings(1));
                args.string_lists(&element, span, |row, out| {
                    let (pattern, text) = (patterns.at(row), strings.at(row));
                    let max = super::search::parts_max(args, 2, row);
                    if pattern.is_empty() {
                        let mut character = [0; 4];
                        let mut chars = text.chars().take(max);
                        return chars.try_for_each(|one| out.push(one.encode_utf8(&mut character)));
                    }
                    let (mut start, mut count) = (0, 0);
                    let regex = regexes.of(|| pattern)?.over(text)?;
                    while let Some(matched) = regex.find_at(text, start) {
                        meter::work(1)?;
                        // An empty match ends the search: the rest is one part.
                        if matched.is_empty() {
                            break;
                        }
                        out.push(&text[start..matched.start()])?;
                        start = matched.end();
                        count += 1;
                        if count == max {
                            return Ok(());
                        }
                    }
                    out.push(&text[start..])
                })
            })
            .fallible_if(fallible)
        }
        _ => return Ok(None),
    }))
}

fn matches(site: &mut CallSite) -> Result<CompiledCall> {
    let matchers = Matchers::new(Syntax::Regex, site.args[1].as_constant(), site.args[1].span)?;
    let fallible = matchers.may_fail();
    Ok(predicate(move |args| {
        let mut matchers = matchers.clone();
        let (strings, patterns) = (args.strings(0), args.strings(1));
        args.try_bools(|row| matchers.of(|| patterns.at(row))?.is_match(strings.at(row)))
    })
    .fallible_if(fallible))
}

/// The groups of the first match.
fn groups(site: &mut CallSite) -> Result<CompiledCall> {
    let (element, span) = (site.element(), site.span);
    let (regexes, _) = regexes(site, 1)?;
    Ok(call(move |args| {
        let mut regexes = regexes.clone();
        let (strings, patterns) = (args.strings(0), args.strings(1));
        args.string_lists(&element, span, |row, out| {
            let regex = regexes.of(|| patterns.at(row))?.over(strings.at(row))?;
            check_groups(regex, span)?;
            let Some(captures) = regex.captures(strings.at(row)) else { return Ok(()) };
            let groups = captures.iter().skip(1);
            groups
                .into_iter()
                .try_for_each(|group| out.push(group.map_or("", |group| group.as_str())))
        })
    })
    .fallible())
}

fn check_groups(regex: &regex::Regex, span: Span) -> Result<()> {
    match regex.captures_len() {
        1 => Err(Error::invalid("The regular expression has no group", span)),
        _ => Ok(()),
    }
}

/// The groups of all matches: a list for each match, or for each group (`by_group`).
fn all_groups(site: &mut CallSite, by_group: bool) -> Result<CompiledCall> {
    let (element, span) = (site.element(), site.span);
    let inner = element.element().cloned().unwrap_or_else(|| hogql::types::Kind::Null.into());
    let (regexes, _) = regexes(site, 1)?;
    Ok(call(move |args| {
        let mut regexes = regexes.clone();
        let (strings, patterns) = (args.strings(0), args.strings(1));
        let (mut outer, mut offsets) = (vec![0], vec![0]);
        let mut out = StringWriter::new(args.rows, span);
        for row in 0..args.rows {
            if args.is_valid(row) {
                let text = strings.at(row);
                let regex = regexes.of(|| patterns.at(row))?.over(text)?;
                check_groups(regex, span)?;
                let width = regex.captures_len() - 1;
                let (mut found, mut charge) = (Vec::new(), meter::GrowingBuffer::default());
                for captures in regex.captures_iter(text) {
                    meter::work(1 + width)?;
                    check_elements(out.len() + (found.len() + 1) * width, span)?;
                    let bytes = size_of::<Captures>() + (width + 1) * size_of::<[usize; 2]>();
                    charge.grow_to((found.len() + 1) * bytes)?;
                    found.push(captures);
                }
                let group =
                    |no: usize, of: usize| found[no].get(of + 1).map_or("", |group| group.as_str());
                let (lists, items) =
                    if by_group { (width, found.len()) } else { (found.len(), width) };
                for list in 0..lists {
                    for item in 0..items {
                        let (no, of) = if by_group { (item, list) } else { (list, item) };
                        out.push(group(no, of))?;
                    }
                    offsets.push(check_elements(out.len(), span)?);
                }
            }
            outer.push(check_elements(offsets.len() - 1, span)?);
        }
        let lists = wide_list(&inner, offsets, out.finish())?;
        wide_list(&element, outer, lists)
    })
    .fallible())
}

/// The group with this number of the first match; 0 is the whole match.
fn regexp_extract(site: &mut CallSite) -> Result<CompiledCall> {
    let span = site.span;
    let (regexes, _) = regexes(site, 1)?;
    Ok(call(move |args| {
        let mut regexes = regexes.clone();
        let (strings, patterns) = (args.strings(0), args.strings(1));
        let numbers = (args.columns.len() > 2).then(|| args.ints(2));
        args.try_strings(span, |row, out| {
            let regex = regexes.of(|| patterns.at(row))?.over(strings.at(row))?;
            let group = match numbers {
                Some(numbers) => numbers.at(row),
                None => i64::from(regex.captures_len() > 1),
            };
            let group = usize::try_from(group).ok().filter(|group| *group < regex.captures_len());
            let Some(group) = group else {
                return Err(Error::invalid("The regular expression has no such group", span));
            };
            let captures = regex.captures(strings.at(row));
            let found = captures.as_ref().and_then(|captures| captures.get(group));
            out.push_str(found.map_or("", |found| found.as_str()));
            Ok(true)
        })
    })
    .fallible())
}

fn count_matches(site: &mut CallSite) -> Result<CompiledCall> {
    let any_case = site.name == "countMatchesCaseInsensitive";
    let span = site.args[1].span;
    Ok(call(move |args| {
        let mut regexes = Regexes::new(None, span)?;
        let (strings, patterns) = (args.strings(0), args.strings(1));
        args.try_ints(|row| {
            let (text, pattern) = (strings.at(row), patterns.at(row));
            let pattern = if any_case { format!("(?i){pattern}") } else { pattern.to_owned() };
            let regex = regexes.of(|| &pattern)?.over(text)?;
            let (mut count, mut at) = (0, 0);
            while let Some(found) = regex.find_at(text, at) {
                meter::work(1 + (text.len() - at) / TEXT_BYTES_A_UNIT)?;
                count += i64::from(!found.is_empty());
                // After an empty match, the search goes on behind the next character.
                let skip = text[found.end()..].chars().next().map_or(1, char::len_utf8);
                at = if found.is_empty() { found.end() + skip } else { found.end() };
                if at > text.len() {
                    break;
                }
            }
            Ok(Some(count))
        })
    })
    .fallible())
}

/// Regular expressions of an array: whether one matches, the first that does, or all of them.
fn match_several(site: &mut CallSite) -> Result<CompiledCall> {
    let (name, span, element) = (site.name, site.span, site.element());
    site.cast(1, &Type::array(Kind::String.into()).kind)?;
    let any = name == "multiMatchAny";
    let matching = move |args: &Args, each: &mut dyn FnMut(usize, Vec<i64>) -> Result<()>| {
        let mut regexes = Regexes::new(None, span)?;
        let (strings, lists) = (args.strings(0), args.lists(1));
        let patterns = lists.values.as_string::<i32>();
        for row in 0..args.rows {
            let mut found = Vec::new();
            for (no, at) in lists.at(row).enumerate() {
                if !args.is_valid(row) {
                    break;
                }
                let text = strings.at(row);
                if regexes.of(|| patterns.value(at))?.over(text)?.is_match(text) {
                    found.push(no as i64 + 1);
                    if name != "multiMatchAllIndices" {
                        break;
                    }
                }
            }
            each(row, found)?;
        }
        Ok::<(), Error>(())
    };
    if any {
        return Ok(predicate(move |args| {
            let mut all = vec![false; args.rows];
            matching(args, &mut |row, found| {
                all[row] = !found.is_empty();
                Ok(())
            })?;
            Ok(args.map_bools(|row| all[row]))
        })
        .fallible());
    }
    Ok(call(move |args| {
        let (mut values, mut offsets) = (Vec::new(), vec![0]);
        matching(args, &mut |_, found| {
            values.extend(found);
            offsets.push(check_elements(values.len(), span)?);
            Ok(())
        })?;
        if name == "multiMatchAllIndices" {
            return wide_list(&element, offsets, Arc::new(Int64Array::from(values)));
        }
        Ok(args.map_ints(|row| match offsets[row] < offsets[row + 1] {
            true => values[offsets[row] as usize],
            false => 0,
        }))
    })
    .fallible())
}

fn regexes(site: &CallSite, no: usize) -> Result<(Regexes, bool)> {
    let regexes = Regexes::new(site.args[no].as_constant(), site.args[no].span)?;
    let fallible = regexes.may_fail();
    Ok((regexes, fallible))
}

/// The first capture group if the pattern has one, otherwise the whole match.
fn first_group<'t>(captures: &Captures<'t>) -> &'t str {
    let group = if captures.len() > 1 { captures.get(1) } else { captures.get(0) };
    group.map_or("", |group| group.as_str())
}

/// A piece of a replacement.
#[derive(Debug)]
enum Piece {
    Literal(String),
    Group(usize),
}

/// Parses a replacement: `\1` is the first capture group, `\0` the whole match.
fn pieces(replacement: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut chars = replacement.chars().peekable();
    while let Some(one) = chars.next() {
        match (one, chars.peek().copied()) {
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                chars.next();
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                pieces.push(Piece::Group(digit as usize - '0' as usize));
            }
            ('\\', Some('\\')) => {
                chars.next();
                literal.push('\\');
            }
            (other, _) => literal.push(other),
        }
    }
    pieces.push(Piece::Literal(literal));
    pieces
}

fn replace(site: &mut CallSite, all: bool) -> Result<CompiledCall> {
    let span: Span = site.span;
    let (regexes, fallible) = regexes(site, 1)?;
    let constant = site.string(2).map(|text| Arc::new(pieces(&text)));
    Ok(call(move |args| {
        let mut regexes = regexes.clone();
        let (strings, patterns, replacements) = (args.strings(0), args.strings(1), args.strings(2));
        args.try_strings(span, |row, out| {
            let regex = regexes.of(|| patterns.at(row))?.over(strings.at(row))?;
            let pieces = constant.clone().unwrap_or_else(|| Arc::new(pieces(replacements.at(row))));
            let text = strings.at(row);
            if regex.as_str().is_empty() {
                out.push_str(text);
                return Ok(true);
            }
            let mut end = 0;
            while let Some(captures) = regex.captures_at(text, end) {
                meter::work(1)?;
                let Some(matched) = captures.get(0) else { break };
                out.push_str(&text[end..matched.start()]);
                for piece in pieces.iter() {
                    let part = match piece {
                        Piece::Literal(literal) => literal,
                        Piece::Group(no) => captures.get(*no).map_or("", |group| group.as_str()),
                    };
                    check_string_bytes(out, part.len(), span)?;
                    out.push_str(part);
                }
                end = matched.end();
                if !all {
                    break;
                }
                if matched.is_empty() {
                    // After an empty match, continue past the next character.
                    let Some(next) = text[end..].chars().next() else { break };
                    out.push(next);
                    end += next.len_utf8();
                }
            }
            out.push_str(&text[end..]);
            Ok(true)
        })
    })
    .fallible_if(fallible))
}
