//! How different two strings are.

use super::{CallSite, CompiledCall, call};
use crate::error::{Error, Result};
use crate::limits::meter;

/// Characters of a string that is compared: the cost is the product of both lengths.
const CHARS_MAX: usize = 65_536;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    let numbers: fn(&[char], &[char]) -> Result<usize> = match site.name {
        "levenshteinDistance" => |a, b| edits(a, b, false),
        "damerauLevenshteinDistance" => |a, b| edits(a, b, true),
        "byteHammingDistance" => {
            return Ok(Some(
                call(move |args| {
                    let (a, b) = (args.strings(0), args.strings(1));
                    args.try_ints(|row| {
                        let (a, b) = (a.at(row).as_bytes(), b.at(row).as_bytes());
                        let differ = a.iter().zip(b).filter(|(a, b)| a != b).count();
                        // What one string has more differs too.
                        Ok(Some((differ + a.len().abs_diff(b.len())) as i64))
                    })
                })
                .fallible(),
            ));
        }
        "jaroSimilarity" | "jaroWinklerSimilarity" | "stringJaccardIndex" => {
            return similarity(site).map(Some);
        }
        _ => return Ok(None),
    };
    Ok(Some(
        call(move |args| {
            let (a, b) = (args.strings(0), args.strings(1));
            args.try_ints(|row| {
                let (a, b) = (chars(a.at(row), span)?, chars(b.at(row), span)?);
                Ok(Some(numbers(&a, &b)? as i64))
            })
        })
        .fallible(),
    ))
}

fn chars(text: &str, span: hogql::Span) -> Result<Vec<char>> {
    let chars: Vec<char> = text.chars().take(CHARS_MAX + 1).collect();
    if chars.len() > CHARS_MAX {
        let what = "characters of a string that is compared";
        return Err(Error::TooLarge { what, max: CHARS_MAX, span });
    }
    Ok(chars)
}

/// Insertions, deletions and substitutions; with `swaps` also transpositions of neighbors.
fn edits(a: &[char], b: &[char], swaps: bool) -> Result<usize> {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        meter::work(b.len() + 1)?;
        let [before, last, row] = &mut rows;
        row[0] = i;
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + changed);
            if swaps && i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row[j] = best;
        }
        rows.rotate_left(1);
    }
    Ok(rows[1][b.len()])
}

fn similarity(site: &CallSite) -> Result<CompiledCall> {
    let (name, span) = (site.name, site.span);
    Ok(call(move |args| {
        let (a, b) = (args.strings(0), args.strings(1));
        let mut failed = Ok(());
        let floats = args.map_floats(|row| {
            if failed.is_err() {
                return 0.0;
            }
            let pair = chars(a.at(row), span).and_then(|a| Ok((a, chars(b.at(row), span)?)));
            let value = pair.and_then(|(a, b)| match name {
                "stringJaccardIndex" => Ok(jaccard(&a, &b)),
                "jaroSimilarity" => jaro(&a, &b),
                _ => jaro(&a, &b).map(|jaro| winkler(jaro, &a, &b)),
            });
            value.unwrap_or_else(|error| {
                failed = Err(error);
                0.0
            })
        });
        failed.map(|()| floats)
    })
    .fallible())
}

/// The share of matching characters and of matches in the same order.
fn jaro(a: &[char], b: &[char]) -> Result<f64> {
    if a.is_empty() && b.is_empty() {
        return Ok(1.0);
    }
    let reach = (a.len().max(b.len()) / 2).saturating_sub(1);
    let mut taken = vec![false; b.len()];
    let mut matched = Vec::new();
    for (at, one) in a.iter().enumerate() {
        let (from, to) = (at.saturating_sub(reach), (at + reach + 1).min(b.len()));
        meter::work(to.saturating_sub(from) + 1)?;
        if let Some(no) = (from..to).find(|no| !taken[*no] && b[*no] == *one) {
            taken[no] = true;
            matched.push(*one);
        }
    }
    if matched.is_empty() {
        return Ok(0.0);
    }
    let in_b = b.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(one, _)| one);
    let swapped = matched.iter().zip(in_b).filter(|(a, b)| a != b).count() / 2;
    let count = matched.len() as f64;
    let shares = count / a.len() as f64 + count / b.len() as f64;
    Ok((shares + (count - swapped as f64) / count) / 3.0)
}

/// Raises the similarity of strings that begin with the same characters, at most four of them.
fn winkler(jaro: f64, a: &[char], b: &[char]) -> f64 {
    if jaro <= 0.7 {
        return jaro;
    }
    let prefix = a.iter().zip(b).take(4).take_while(|(a, b)| a == b).count();
    jaro + 0.1 * prefix as f64 * (1.0 - jaro)
}

/// The share of the characters that both strings have.
fn jaccard(a: &[char], b: &[char]) -> f64 {
    let distinct = |text: &[char]| -> ahash::AHashSet<char> { text.iter().copied().collect() };
    let (a, b) = (distinct(a), distinct(b));
    let both = a.intersection(&b).count();
    let either = a.len() + b.len() - both;
    if either == 0 { 0.0 } else { both as f64 / either as f64 }
}
