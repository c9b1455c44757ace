//! Memory limits, and how soon a cancelled program ends.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{Array, ArrayRef, StringArray};
use eval::{Cancellation, Context, Error, MemoryTracker, Program, QueryMemoryPool};
use hogql::plan::{Expr, ExprKind};

use crate::{column, context};

const MEBI: usize = 1 << 20;

fn within(cancellation: Cancellation) -> Arc<Context> {
    Arc::new(Context { cancellation, ..(*context()).clone() })
}

fn compile(expr: &str, context: &Arc<Context>) -> eval::Result<Program> {
    let expr = column(expr, " from events").unwrap();
    let mut leaf = |expr: &Expr| matches!(expr.kind, ExprKind::Column { .. }).then_some(0);
    Program::compile(&expr, context, &mut leaf)
}

fn rows(rows: usize) -> [ArrayRef; 1] {
    [Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("event {row}"))))]
}

/// Compiles and runs over 256 rows; the tracker has the peak memory.
fn run(expr: &str, bytes_max: usize) -> (Result<ArrayRef, Error>, MemoryTracker) {
    let memory = QueryMemoryPool::new(usize::MAX).tracker(bytes_max);
    let context = within(Cancellation::default().with_memory(memory.clone()));
    let result = compile(expr, &context).and_then(|program| program.run(&rows(256), 256));
    (result, memory)
}

#[test]
fn buffers_are_charged_before_they_exceed_the_memory_limit() {
    for expr in [
        "repeat(event, 10000)",
        "repeat('constant', 1000000)",
        "range(1500000 + length(event))",
        "length(range(1500000))",
        "arrayMap(x -> toString(x), range(500000 + length(event)))",
        "arrayDistinct(range(500000 + length(event)))",
        "arrayUniq(range(500000 + length(event)))",
        "arraySort(x -> -x, range(500000 + length(event)))",
        "hasAny(range(500000 + length(event)), [1])",
        "arrayIntersect(range(500000 + length(event)), [1])",
        "arrayConcat(range(300000), range(300000 + length(event)))",
        "splitByChar('a', repeat('a', 1000000 + length(event)))",
        "splitByString('', repeat('ab', 900000 + length(event)))",
        "extractAll(repeat('a', 900000 + length(event)), 'a')",
        "JSONExtractArrayRaw(concat('[0', repeat(',0', 900000 + length(event)), ']'))",
        "JSONExtract(concat('[0', repeat(',0', 900000 + length(event)), ']'), 'Array(Int64)')",
        "leftPad(event, 100000)",
        "replaceAll(repeat(event, 100), 'e', repeat('x', 1000))",
        "arrayStringConcat(arrayMap(x -> repeat(event, 100), range(100)))",
        "concat(repeat(event, 3000), repeat(event, 3000))",
    ] {
        let bytes_max = 2 * MEBI;
        let (result, memory) = run(expr, bytes_max);
        assert!(
            matches!(result, Err(Error::MemoryLimit)),
            "{expr}: {:?}",
            result.map(|all| all.len())
        );
        assert!(memory.peak_bytes() <= bytes_max, "{expr}: {}", memory.peak_bytes());
        assert_eq!(memory.bytes(), 0, "{expr} gives back what it held");
    }
}

#[test]
fn program_fits_a_memory_limit_of_its_size() {
    for (expr, bytes_max) in [
        ("repeat(event, 1000)", 12 * MEBI),
        ("arraySum(range(1000 + length(event)))", 24 * MEBI),
        ("replaceRegexpAll(event, '[0-9]+', 'x')", 2 * MEBI),
        ("upper(concat(event, '-', event))", MEBI),
    ] {
        let (result, memory) = run(expr, bytes_max);
        assert_eq!(result.unwrap().len(), 256, "{expr}: {}", memory.peak_bytes());
    }
}

#[test]
fn constants_and_patterns_are_charged_while_the_program_lives() {
    let memory = QueryMemoryPool::new(usize::MAX).tracker(64 * MEBI);
    let context = within(Cancellation::default().with_memory(memory.clone()));
    let constant = compile("concat(event, repeat('x', 10000000))", &context).unwrap();
    assert!(memory.bytes() >= 10_000_000);
    let before = memory.bytes();
    let pattern = compile("match(event, '[a-z]+[0-9]{3}')", &context).unwrap();
    assert!(memory.bytes() > before);
    drop((constant, pattern));
    assert_eq!(memory.bytes(), 0);
    let (mut kept, mut refused) = (Vec::new(), None);
    for no in 0..1_500 {
        match compile(&format!("match(event, '([a-z]{{20}}|{no}){{40}}')"), &context) {
            Ok(program) => kept.push(program),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert!(matches!(refused, Some(Error::MemoryLimit)), "{refused:?} after {}", kept.len());
    assert!(memory.peak_bytes() <= 64 * MEBI);
}

/// Cancellation checks of a full run, and of a run cancelled at the third check.
fn looks(expr: &str, rows_of: usize) -> (usize, usize) {
    let count = |cancellation: Cancellation, expected: bool| {
        let context = within(cancellation.clone());
        let result = compile(expr, &context);
        let result = result.and_then(|program| program.run(&rows(rows_of), rows_of));
        assert_eq!(matches!(result, Err(Error::Cancelled)), expected, "{expr}: {result:?}");
        cancellation.checks()
    };
    let flag = || Cancellation::new(Arc::new(AtomicBool::new(false)));
    (count(flag(), false), count(flag().cancel_at_check(3), true))
}

#[test]
fn cancelled_program_ends_after_bounded_work() {
    for (expr, rows) in [
        ("indexOf(range(1000000), length(event) + 2000000)", 64),
        ("has(range(1000000), length(event) + 2000000)", 64),
        ("arrayCount(x -> x > length(event), range(10000 + length(event)))", 64),
        ("position(repeat('a', 20000000), event)", 64),
        ("multiSearchAny(event, arrayMap(x -> toString(x + 1000000), range(10000)))", 64),
        ("countSubstrings(repeat('ab', 5000000), event)", 64),
        ("replaceRegexpAll(repeat(event, 1000), 'e', 'ee')", 256),
        ("match(event, concat('^', event, '$'))", 256),
        ("arraySort(x -> -x, range(1000000 + length(event)))", 8),
    ] {
        let (all, stopped) = looks(expr, rows);
        assert!(all > 6, "{expr} looks only {all} times");
        // Each enclosing call checks once more on the way out.
        assert!(stopped <= 6, "{expr} goes on for {stopped} looks of {all}");
    }
}
