//! Patterns: `LIKE` and regular expressions.

use std::sync::Arc;

use hogql::Span;
use regex::Captures;

use super::{Built, Site, call, test};
use crate::column::check_room;
use crate::error::Result;
use crate::meter;
use crate::patterns::{Matchers, Regexes, Syntax};

pub(super) fn build(site: &mut Site) -> Result<Option<Built>> {
    let span = site.span;
    Ok(Some(match site.name {
        "like" => matches(site, Syntax::Like, false)?,
        "notLike" => matches(site, Syntax::Like, true)?,
        "ilike" => matches(site, Syntax::ILike, false)?,
        "match" => matches(site, Syntax::Regex, false)?,
        "extract" => {
            let (regexes, fails) = regexes(site, 1)?;
            call(move |args| {
                let mut regexes = regexes.clone();
                let (texts, patterns) = (args.texts(0), args.texts(1));
                args.try_texts(span, |row, out| {
                    let regex = regexes.of(|| patterns.at(row))?.over(texts.at(row))?;
                    if let Some(found) = regex.captures(texts.at(row)) {
                        out.push_str(first_group(&found));
                    }
                    Ok(true)
                })
            })
            .fails_if(fails)
        }
        "extractAll" => {
            let (regexes, fails) = regexes(site, 1)?;
            let element = site.element();
            call(move |args| {
                let mut regexes = regexes.clone();
                let (texts, patterns) = (args.texts(0), args.texts(1));
                args.text_lists(&element, span, |row, out| {
                    let regex = regexes.of(|| patterns.at(row))?.over(texts.at(row))?;
                    let (text, mut at) = (texts.at(row), 0);
                    while let Some(found) = regex.captures_at(text, at) {
                        meter::work(1)?;
                        let end = found.get(0).map_or(at, |whole| whole.end());
                        if found[0].is_empty() {
                            break;
                        }
                        out.push(first_group(&found))?;
                        at = end;
                    }
                    Ok(())
                })
            })
            .fails_if(fails)
        }
        "replaceRegexpOne" => replace(site, false)?,
        "replaceRegexpAll" => replace(site, true)?,
        "splitByRegexp" => {
            let (regexes, fails) = regexes(site, 0)?;
            let element = site.element();
            call(move |args| {
                let mut regexes = regexes.clone();
                let (patterns, texts) = (args.texts(0), args.texts(1));
                args.text_lists(&element, span, |row, out| {
                    let (pattern, text) = (patterns.at(row), texts.at(row));
                    if pattern.is_empty() {
                        let mut character = [0; 4];
                        let mut chars = text.chars();
                        return chars.try_for_each(|one| out.push(one.encode_utf8(&mut character)));
                    }
                    let mut start = 0;
                    let regex = regexes.of(|| pattern)?.over(text)?;
                    while let Some(found) = regex.find_at(text, start) {
                        meter::work(1)?;
                        // Where it finds nothing, the rest is one part.
                        if found.is_empty() {
                            break;
                        }
                        out.push(&text[start..found.start()])?;
                        start = found.end();
                    }
                    out.push(&text[start..])
                })
            })
            .fails_if(fails)
        }
        _ => return Ok(None),
    }))
}

fn matches(site: &mut Site, syntax: Syntax, negated: bool) -> Result<Built> {
    let matchers = Matchers::new(syntax, site.args[1].as_constant(), site.args[1].span)?;
    let fails = matchers.may_fail();
    Ok(test(move |args| {
        let mut matchers = matchers.clone();
        let (texts, patterns) = (args.texts(0), args.texts(1));
        args.try_truth(|row| {
            Ok(matchers.of(|| patterns.at(row))?.is_match(texts.at(row))? != negated)
        })
    })
    .fails_if(fails))
}

fn regexes(site: &Site, no: usize) -> Result<(Regexes, bool)> {
    let regexes = Regexes::new(site.args[no].as_constant(), site.args[no].span)?;
    let fails = regexes.may_fail();
    Ok((regexes, fails))
}

/// The first group if the pattern has one, else all that it found.
fn first_group<'t>(found: &Captures<'t>) -> &'t str {
    let group = if found.len() > 1 { found.get(1) } else { found.get(0) };
    group.map_or("", |group| group.as_str())
}

/// A piece of what is put in place of a match.
#[derive(Debug)]
enum Piece {
    Literal(String),
    Group(usize),
}

/// `\1` is the first group, `\0` the whole.
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

fn replace(site: &mut Site, all: bool) -> Result<Built> {
    let span: Span = site.span;
    let (regexes, fails) = regexes(site, 1)?;
    let constant = site.text(2).map(|text| Arc::new(pieces(&text)));
    Ok(call(move |args| {
        let mut regexes = regexes.clone();
        let (texts, patterns, replacements) = (args.texts(0), args.texts(1), args.texts(2));
        args.try_texts(span, |row, out| {
            let regex = regexes.of(|| patterns.at(row))?.over(texts.at(row))?;
            let pieces = constant.clone().unwrap_or_else(|| Arc::new(pieces(replacements.at(row))));
            let text = texts.at(row);
            if regex.as_str().is_empty() {
                out.push_str(text);
                return Ok(true);
            }
            let mut end = 0;
            while let Some(found) = regex.captures_at(text, end) {
                meter::work(1)?;
                let Some(whole) = found.get(0) else { break };
                out.push_str(&text[end..whole.start()]);
                for piece in pieces.iter() {
                    let part = match piece {
                        Piece::Literal(literal) => literal,
                        Piece::Group(no) => found.get(*no).map_or("", |group| group.as_str()),
                    };
                    check_room(out, part.len(), span)?;
                    out.push_str(part);
                }
                end = whole.end();
                if !all {
                    break;
                }
                if whole.is_empty() {
                    // Past the character where nothing was found.
                    let Some(next) = text[end..].chars().next() else { break };
                    out.push(next);
                    end += next.len_utf8();
                }
            }
            out.push_str(&text[end..]);
            Ok(true)
        })
    })
    .fails_if(fails))
}
