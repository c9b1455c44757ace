//! Arrays written as text: `[1, 2]`, `['a', 'b']`.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use hogql::Span;
use hogql::types::Type;

use crate::cast::Cast;
use crate::column::{TextWriter, check_elements};
use crate::error::{Error, Result};
use crate::meter;
use crate::types::wide_list;

/// Of each text the array that it writes; `cast` turns an element's text into the element.
pub(crate) fn arrays(
    texts: &ArrayRef,
    element: &Type,
    cast: Option<&Cast>,
    or_null: bool,
    span: Span,
) -> Result<ArrayRef> {
    let mut parts = TextWriter::new(texts.len(), span);
    let mut offsets = vec![0];
    for text in texts.as_string::<i32>().iter() {
        let text = text.unwrap_or_default();
        // Each element becomes a text of its own.
        let _room = meter::keep_large(text.len().saturating_mul(32))?;
        match elements(text) {
            Some(found) => found.iter().try_for_each(|one| match one {
                Some(one) => parts.push(one),
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

/// The texts of the elements; None among them is `NULL`.
fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut found = Vec::new();
    if inner.is_empty() {
        return Some(found);
    }
    let mut chars = inner.chars().peekable();
    loop {
        while chars.next_if(|one| one.is_whitespace()).is_some() {}
        let mut one = String::new();
        if chars.next_if_eq(&'\'').is_some() {
            loop {
                match chars.next()? {
                    '\'' => break,
                    '\\' => one.push(match chars.next()? {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '0' => '\0',
                        other => other,
                    }),
                    other => one.push(other),
                }
            }
            found.push(Some(one));
        } else {
            let mut depth = 0;
            while let Some(next) = chars.next_if(|next| depth > 0 || *next != ',') {
                match next {
                    '[' | '(' => depth += 1,
                    ']' | ')' => depth -= 1,
                    _ => {}
                }
                one.push(next);
            }
            let one = one.trim();
            if one.is_empty() {
                return None;
            }
            found.push((one != "NULL").then(|| one.to_owned()));
        }
        while chars.next_if(|one| one.is_whitespace()).is_some() {}
        match chars.next() {
            None => return Some(found),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}
