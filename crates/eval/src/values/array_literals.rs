//! Parses array literals in strings: `[1, 2]`, `['a', 'b']`.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use hogql::Span;
use hogql::types::Type;

use crate::error::{Error, Result};
use crate::limits::meter;
use crate::values::cast::Cast;
use crate::vector::column::{StringWriter, check_elements};
use crate::vector::types::wide_list;

/// Parses each string as an array; `cast` converts the elements, which are strings, to their type.
pub(crate) fn arrays(
    strings: &ArrayRef,
    element: &Type,
    cast: Option<&Cast>,
    or_null: bool,
    span: Span,
) -> Result<ArrayRef> {
    let mut parts = StringWriter::new(strings.len(), span);
    let mut offsets = vec![0];
    for text in strings.as_string::<i32>().iter() {
        let text = text.unwrap_or_default();
        // Each element becomes a string of its own.
        let _charge = meter::charge_large(text.len().saturating_mul(32))?;
        match elements(text) {
            Some(elements) => elements.iter().try_for_each(|element| match element {
                Some(element) => parts.push(element),
                None => parts.end(false),
            })?,
            None if or_null || text.is_empty() => {}
            None => {
                let message = format!("'{text}' cannot be read as an array");
                return Err(Error::invalid(message, span));
            }
        }
        offsets.push(check_elements(parts.len(), span)?);
    }
    let parts = parts.finish();
    let values = match cast {
        Some(cast) => cast(&parts)?,
        None => parts,
    };
    wide_list(element, offsets, values)
}

/// The elements as strings; a None element is `NULL`. None if the syntax is wrong.
fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut elements = Vec::new();
    if inner.is_empty() {
        return Some(elements);
    }
    let mut chars = inner.chars().peekable();
    loop {
        while chars.next_if(|element| element.is_whitespace()).is_some() {}
        let mut element = String::new();
        if chars.next_if_eq(&'\'').is_some() {
            loop {
                match chars.next()? {
                    '\'' => break,
                    '\\' => element.push(match chars.next()? {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '0' => '\0',
                        other => other,
                    }),
                    other => element.push(other),
                }
            }
            elements.push(Some(element));
        } else {
            let mut depth = 0;
            while let Some(next) = chars.next_if(|next| depth > 0 || *next != ',') {
                match next {
                    '[' | '(' => depth += 1,
                    ']' | ')' => depth -= 1,
                    _ => {}
                }
                element.push(next);
            }
            let element = element.trim();
            if element.is_empty() {
                return None;
            }
            elements.push((element != "NULL").then(|| element.to_owned()));
        }
        while chars.next_if(|element| element.is_whitespace()).is_some() {}
        match chars.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}
