//! Functions on `LIKE` patterns and regular expressions.

use std::sync::Arc;

use hogql::Span;
use regex::Captures;

use super::{CallSite, CompiledCall, call, predicate};
use crate::error::Result;
use crate::limits::meter;
use crate::values::patterns::{Matchers, Regexes, Syntax};
use crate::vector::column::check_string_bytes;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    Ok(Some(match site.name {
        "like" => matches(site, Syntax::Like, false)?,
        "notLike" => matches(site, Syntax::Like, true)?,
        "ilike" => matches(site, Syntax::ILike, false)?,
        "match" => matches(site, Syntax::Regex, false)?,
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
                    if pattern.is_empty() {
                        let mut character = [0; 4];
                        let mut chars = text.chars();
                        return chars.try_for_each(|one| out.push(one.encode_utf8(&mut character)));
                    }
                    let mut start = 0;
                    let regex = regexes.of(|| pattern)?.over(text)?;
                    while let Some(matched) = regex.find_at(text, start) {
                        meter::work(1)?;
                        // An empty match ends the search: the rest is one part.
                        if matched.is_empty() {
                            break;
                        }
                        out.push(&text[start..matched.start()])?;
                        start = matched.end();
                    }
                    out.push(&text[start..])
                })
            })
            .fallible_if(fallible)
        }
        _ => return Ok(None),
    }))
}

fn matches(site: &mut CallSite, syntax: Syntax, negated: bool) -> Result<CompiledCall> {
    let matchers = Matchers::new(syntax, site.args[1].as_constant(), site.args[1].span)?;
    let fallible = matchers.may_fail();
    Ok(predicate(move |args| {
        let mut matchers = matchers.clone();
        let (strings, patterns) = (args.strings(0), args.strings(1));
        args.try_bools(|row| {
            Ok(matchers.of(|| patterns.at(row))?.is_match(strings.at(row))? != negated)
        })
    })
    .fallible_if(fallible))
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
