//! Compares results with ClickHouse (chDB), for the expressions in `expressions.txt`.

use hogql::types::{Kind, Type};
use serde_json::Value;
use testing::clickhouse::{self, Batch, Outcome};

use crate::{compiled, evaluate};

const LINES: &str = include_str!("expressions.txt");

pub(crate) struct Line {
    pub ours: String,
    theirs: String,
    /// Our result where it differs on purpose, and the reason.
    differs: Option<(Value, String)>,
    refused: bool,
}

pub(crate) fn lines() -> Vec<Line> {
    let lines = LINES.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let line = |line: &str| {
        if let Some(ours) = line.strip_suffix(" ! refused") {
            let (ours, theirs) = (ours.to_owned(), ours.to_owned());
            return Line { ours, theirs, differs: None, refused: true };
        }
        if let Some((ours, rest)) = line.split_once(" ! ") {
            let (result, reason) = rest.split_once(" ! ").expect("a result and a reason");
            let result = serde_json::from_str(result).expect("the result is JSON");
            let differs = Some((result, reason.to_owned()));
            let (ours, theirs) = (ours.to_owned(), ours.to_owned());
            return Line { ours, theirs, differs, refused: false };
        }
        let (ours, theirs) = line.split_once(" => ").unwrap_or((line, line));
        let (ours, theirs) = (ours.to_owned(), theirs.to_owned());
        Line { ours, theirs, differs: None, refused: false }
    };
    lines.map(line).collect()
}

/// ClickHouse's results, or its errors.
pub(crate) fn theirs(expressions: &[String]) -> Vec<Outcome> {
    let select = |expression: &String| format!("select {expression} as x");
    let queries = expressions.iter().map(|expression| (&select(expression)).into()).collect();
    let batch = Batch { setup: Vec::new(), zone: "Europe/Berlin", queries };
    let outcomes = clickhouse::run_batches(&[batch]).join().unwrap().remove(0);
    outcomes.into_iter().map(|outcome| Ok(outcome?[0][0].clone())).collect()
}

/// ClickHouse formats date-times differently from our results.
pub(crate) fn has_date_time(ty: &Type) -> bool {
    match &ty.kind {
        Kind::DateTime(_) => true,
        Kind::Array(element) => has_date_time(element),
        Kind::Tuple(items) => items.iter().any(has_date_time),
        _ => false,
    }
}

/// Equal, except for the last digits of floats and the notation of integral ones.
pub(crate) fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => {
            let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else { return a == b };
            a == b || (a.is_f64() || b.is_f64()) && (x - y).abs() <= 1e-14 * x.abs().max(y.abs())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => ours == theirs,
    }
}

#[test]
fn expressions_agree_with_clickhouse() {
    let mut lines = lines();
    for line in &mut lines {
        let date_time = compiled(&line.ours).is_ok_and(|program| has_date_time(program.ty()));
        if date_time {
            line.ours = format!("toString({})", line.ours);
            line.theirs = format!("toString({})", line.theirs);
        }
    }
    let expressions: Vec<String> = lines.iter().map(|line| line.theirs.clone()).collect();
    let mut wrong = Vec::new();
    for (line, theirs) in lines.iter().zip(theirs(&expressions)) {
        let ours = evaluate(&line.ours).map(|(value, _)| value);
        let agree = match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => same(ours, theirs),
            (Err(_), Err(_)) => line.refused,
            _ => false,
        };
        match &line.differs {
            None if !agree => {
                wrong.push(format!("{}\n    ours   {ours:?}\n    theirs {theirs:?}", line.ours));
            }
            Some((_, reason)) if agree => {
                wrong.push(format!("{}: no difference any more ({reason})", line.ours));
            }
            Some((expected, _)) if ours.as_ref().ok() != Some(expected) => {
                wrong.push(format!("{}: {ours:?} is not {expected}", line.ours));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}
