//! `arrayFold`: applies a lambda to the elements of a row one after another, for all rows at a time.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use hogql::Span;

use crate::error::Result;
use crate::limits::meter;
use crate::run::higher_order::Elements;
use crate::run::node::Node;
use crate::run::scope::Scope;
use crate::vector::column::Column;
use crate::vector::gather::{concat, take};

/// The first argument is the start, the others are arrays of equal length.
pub(super) fn fold(
    scope: &Scope,
    (params, body): (&[usize], &Node),
    args: &[Node],
    span: Span,
) -> Result<Column> {
    let columns = scope.eval_all(args)?;
    let elements = Elements::of(&columns[1..], scope.rows, span)?;
    let ranges: Vec<_> = elements.ranges().collect();
    // The rows that have elements left, and what they have accumulated.
    let mut rows: Vec<u32> = (0..scope.rows as u32).collect();
    let mut accumulated = columns[0].expand(scope.rows)?;
    let mut finished: Vec<(Vec<u32>, ArrayRef)> = Vec::new();
    for step in 0.. {
        meter::work(rows.len() + 1)?;
        let is_left = |row: &u32| ranges[*row as usize].len() > step;
        let (left, done): (Vec<usize>, Vec<usize>) =
            (0..rows.len()).partition(|at| is_left(&rows[*at]));
        if !done.is_empty() {
            finished.push((done.iter().map(|at| rows[*at]).collect(), at(&accumulated, &done)?));
            accumulated = at(&accumulated, &left)?;
            rows = left.iter().map(|at| rows[*at]).collect();
        }
        if rows.is_empty() {
            break;
        }
        let next = rows.iter().map(|row| (ranges[*row as usize].start + step) as u32);
        let next = UInt32Array::from_iter_values(next);
        let mut values = vec![Column::full(Arc::clone(&accumulated))];
        for array in &elements.values {
            values.push(Column::full(take(array, &next)?));
        }
        let inner_rows = UInt32Array::from(rows.clone());
        let inner = scope.lambda(&inner_rows, params.iter().copied().zip(values).collect());
        accumulated = inner.eval(body)?.expand(rows.len())?;
    }
    let mut order = vec![0u32; scope.rows];
    for (at, row) in finished.iter().flat_map(|(rows, _)| rows).enumerate() {
        order[*row as usize] = at as u32;
    }
    if finished.is_empty() {
        return Ok(Column::full(accumulated));
    }
    let all = concat(finished.into_iter().map(|(_, values)| values).collect())?;
    Ok(Column::full(take(&all, &UInt32Array::from(order))?))
}

fn at(array: &ArrayRef, positions: &[usize]) -> Result<ArrayRef> {
    take(array, &UInt32Array::from_iter_values(positions.iter().map(|at| *at as u32)))
}
