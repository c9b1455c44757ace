//! `JSON_VALUE`, `JSON_QUERY` and `JSON_EXISTS`: paths of SQL/JSON, of which ClickHouse knows members,
//! elements, ranges of elements and `*` for all elements.

use std::iter::Peekable;
use std::ops::ControlFlow;
use std::str::Chars;

use hogql::Span;

use super::json::{charge_parts, elements, minify};
use super::properties::{Follow, find, unquoted};
use super::{CallSite, CompiledCall, call, predicate};
use crate::error::Result;
use crate::limits::meter;
use crate::vector::column::check_elements;

/// Steps of a path: each is a level of recursion.
const STEPS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    /// Elements from one index up to another, counted from 0.
    Elements(Vec<(usize, usize)>),
}

impl Follow for Step {
    fn key(&self) -> Option<&str> {
        match self {
            Self::Member(name) => Some(name),
            Self::Elements(_) => None,
        }
    }

    fn index(&self, _: usize) -> Option<usize> {
        None
    }
}

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    if !matches!(site.name, "JSON_VALUE" | "JSON_QUERY" | "JSON_EXISTS") {
        return Ok(None);
    }
    let span = site.span;
    let text = site.string(1).unwrap_or_default();
    let Some(path) = parse(&text) else {
        return Err(site.invalid(format!("'{text}' is no path such as $.a[0].b")));
    };
    site.args.truncate(1);
    Ok(Some(match site.name {
        "JSON_EXISTS" => predicate(move |args| {
            let strings = args.strings(0);
            args.try_bools(|row| {
                let mut exists = false;
                visit_all(strings.at(row), &path, span, &mut |_| {
                    exists = true;
                    ControlFlow::Break(())
                })?;
                Ok(exists)
            })
        }),
        // The first value that is no object or array.
        "JSON_VALUE" => call(move |args| {
            let strings = args.strings(0);
            args.try_strings(span, |row, out| {
                visit_all(strings.at(row), &path, span, &mut |raw| {
                    if raw.starts_with(['{', '[']) {
                        return ControlFlow::Continue(());
                    }
                    match unquoted(raw) {
                        Some(text) => out.push_str(&text),
                        None => out.push_str(raw),
                    }
                    ControlFlow::Break(())
                })?;
                Ok(true)
            })
        }),
        // All values, as an array.
        _ => call(move |args| {
            let strings = args.strings(0);
            args.try_strings(span, |row, out| {
                let mut open = "[";
                visit_all(strings.at(row), &path, span, &mut |raw| {
                    out.push_str(open);
                    open = ", ";
                    minify(raw, out);
                    ControlFlow::Continue(())
                })?;
                if open != "[" {
                    out.push(']');
                }
                Ok(true)
            })
        }),
    }))
}

type Each<'e> = &'e mut dyn FnMut(&str) -> ControlFlow<()>;

/// Calls `each` with the values at the path, in their order, until it breaks.
fn visit_all(text: &str, path: &[Step], span: Span, each: Each<'_>) -> Result<()> {
    let Some(raw) = find::<Step>(text, &[]) else { return Ok(()) };
    visit(raw, path, span, &mut 0, each).map(drop)
}

fn visit(
    raw: &str,
    path: &[Step],
    span: Span,
    visited: &mut usize,
    each: Each<'_>,
) -> Result<ControlFlow<()>> {
    // Ranges that overlap visit a value several times.
    *visited += 1;
    check_elements(*visited, span)?;
    let Some((step, rest)) = path.split_first() else { return Ok(each(raw)) };
    match step {
        Step::Member(_) => match find(raw, std::slice::from_ref(step)) {
            Some(member) if raw.starts_with('{') => visit(member, rest, span, visited, each),
            _ => Ok(ControlFlow::Continue(())),
        },
        Step::Elements(ranges) => {
            meter::work(raw.len())?;
            let _charge = charge_parts(raw.len())?;
            let elements = elements(raw);
            for (from, to) in ranges {
                let to = (*to).min(elements.len());
                for element in &elements[(*from).min(to)..to] {
                    if visit(element, rest, span, visited, each)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        }
    }
}

/// `$`, then steps: `.name`, `."name"`, `["name"]`, `[name]`, `[0]`, `[0, 2 to 5]`, `[*]`.
fn parse(text: &str) -> Option<Vec<Step>> {
    let mut chars = text.chars().peekable();
    skip_spaces(&mut chars);
    chars.next_if_eq(&'$')?;
    let mut steps = Vec::new();
    loop {
        skip_spaces(&mut chars);
        match chars.next() {
            None => return Some(steps),
            Some('.') => {
                skip_spaces(&mut chars);
                steps.push(Step::Member(name(&mut chars)?));
            }
            Some('[') => {
                skip_spaces(&mut chars);
                steps.push(in_brackets(&mut chars)?);
                skip_spaces(&mut chars);
                chars.next_if_eq(&']')?;
            }
            Some(_) => return None,
        }
        if steps.len() > STEPS_MAX {
            return None;
        }
    }
}

fn skip_spaces(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|one| one.is_whitespace()).is_some() {}
}

/// A bare word, or a string in double quotes.
fn name(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut name = String::new();
    if chars.next_if_eq(&'"').is_none() {
        while let Some(one) = chars.next_if(|one| one.is_alphanumeric() || "_$".contains(*one)) {
            name.push(one);
        }
        return (!name.is_empty()).then_some(name);
    }
    loop {
        match chars.next()? {
            '"' => return Some(name),
            '\\' => name.push(chars.next()?),
            one => name.push(one),
        }
    }
}

fn in_brackets(chars: &mut Peekable<Chars<'_>>) -> Option<Step> {
    if chars.next_if_eq(&'*').is_some() {
        return Some(Step::Elements(vec![(0, usize::MAX)]));
    }
    if !chars.peek()?.is_ascii_digit() {
        return name(chars).map(Step::Member);
    }
    let mut ranges = Vec::new();
    loop {
        skip_spaces(chars);
        let from = index(chars)?;
        skip_spaces(chars);
        let to = match chars.next_if_eq(&'t') {
            None => from.checked_add(1)?,
            Some(_) => {
                chars.next_if_eq(&'o')?;
                skip_spaces(chars);
                index(chars)?
            }
        };
        ranges.push((from, to));
        skip_spaces(chars);
        if chars.next_if_eq(&',').is_none() {
            return Some(Step::Elements(ranges));
        }
    }
}

fn index(chars: &mut Peekable<Chars<'_>>) -> Option<usize> {
    let mut digits = String::new();
    while let Some(one) = chars.next_if(char::is_ascii_digit) {
        digits.push(one);
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_members_and_elements() {
        let member = |name: &str| Step::Member(name.to_owned());
        for (text, steps) in [
            ("$", vec![]),
            ("$.a.b", vec![member("a"), member("b")]),
            (r#" $ . "a b" [ "c" ] [d]"#, vec![member("a b"), member("c"), member("d")]),
            ("$[0]", vec![Step::Elements(vec![(0, 1)])]),
            ("$[0, 2 to 5]", vec![Step::Elements(vec![(0, 1), (2, 5)])]),
            ("$[*].$a", vec![Step::Elements(vec![(0, usize::MAX)]), member("$a")]),
        ] {
            assert_eq!(parse(text), Some(steps), "{text}");
        }
        for text in
            ["", "a", "$a", "$.", "$..a", "$.a-b", "$[-1]", "$[0", "$.*", "$[1 to]", "$.a x"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("${}", ".a".repeat(STEPS_MAX + 1))), None);
    }
}
