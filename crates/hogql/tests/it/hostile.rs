//! Hostile statements end in an error, on a stack smaller than those in production.

use hogql::limits::{LIST_MAX, NESTING_MAX, TEXT_BYTES_MAX, TOKENS_MAX};
use hogql::{parse, resolve};

use crate::resolve::project;

/// Less than the default stack of a thread; tests run unoptimized.
const STACK_BYTES: usize = 1536 * 1024;

fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    thread.expect("a thread").join().expect("no panic");
}

/// Ways to nest: prefix and suffix of each level.
const NESTS: &[(&str, &str)] = &[
    ("(", ")"),
    ("[", "]"),
    ("f(", ")"),
    ("f(1)(", ")"),
    ("- ", ""),
    ("not ", ""),
    ("x -> ", ""),
    ("(x, y) -> ", ""),
    ("(select ", ")"),
    ("(select 1 from (select ", "))"),
    ("(with a as (select ", ") select 1)"),
    ("(select 1 union all (select ", "))"),
    ("1 + (", ")"),
    ("case when ", " then 1 end"),
    ("cast(", " as Int64)"),
    ("try_cast(", " as Int64)"),
    ("(", " as b)"),
    ("f'{", "}'"),
    ("", "[1:2]"),
    ("x[", ":n]"),
    ("sum(x) filter (where ", ")"),
    ("a ? b : ", ""),
    ("a ? ", " : b"),
    ("interval ", " day"),
    ("", "[1]"),
    ("", ".1"),
    ("f().", ""),
    ("", "::Int64"),
    ("", " + 1"),
    ("", " = 1"),
    ("", " is null"),
    ("", " ?? 1"),
    ("", " in 1"),
    ("", " between 1 and 2"),
    ("sum(x) over (order by ", ")"),
];

#[test]
fn nesting_past_the_limit_is_an_error_and_up_to_it_fits_the_stack() {
    on_a_small_stack(|| {
        for (open, close) in NESTS {
            let nested =
                |levels: usize| format!("select {}a{}", open.repeat(levels), close.repeat(levels));
            let deepest = (1..=NESTING_MAX)
                .rev()
                .find_map(|levels| parse(&nested(levels)).ok())
                .unwrap_or_else(|| panic!("{open} {close} never parses"));
            let printed = deepest.to_string();
            assert_eq!(deepest.clone(), deepest);
            drop(deepest);
            // A chain of names is one node, however long.
            if *open != "f()." {
                let error = parse(&nested(NESTING_MAX * 20)).expect_err(&printed);
                assert!(error.to_string().contains("levels of nesting"), "{open}: {error}");
            }
        }
        let types = format!("select x::{}Int8{}", "Array(".repeat(5000), ")".repeat(5000));
        assert!(parse(&types).is_err());
    });
}

#[test]
fn wide_statements_parse_up_to_their_limits() {
    on_a_small_stack(|| {
        let wide = |items: usize| format!("select [{}1]", "1,".repeat(items - 1));
        assert!(parse(&wide(LIST_MAX)).is_ok());
        assert!(parse(&wide(LIST_MAX + 1)).is_err());
        let logic = |operands: usize| format!("select {}b", "b or ".repeat(operands - 1));
        assert!(parse(&logic(LIST_MAX)).is_ok());
        assert!(parse(&logic(LIST_MAX + 1)).is_err());
        let tokens = format!("select {}", "[],".repeat(TOKENS_MAX / 3 + 1));
        assert!(parse(&tokens).expect_err("tokens").to_string().contains("tokens"));
        let long = format!("select '{}'", "a".repeat(TEXT_BYTES_MAX));
        assert!(parse(&long).expect_err("bytes").to_string().contains("bytes"));
    });
}

fn plan(text: &str) -> hogql::Result<hogql::plan::Plan> {
    resolve(&parse(text)?, text, &project(), None)
}

#[test]
fn resolving_fits_the_stack_of_parsing() {
    on_a_small_stack(|| {
        let nests = NESTS.iter().copied().chain([
            ("arrayMap(x -> ", ", [1])"),
            ("lower(", ")"),
            ("toString((select ", "))"),
            ("", " || 'a'"),
            ("if(1, 2, ", ")"),
        ]);
        for (open, close) in nests {
            for levels in 1..=NESTING_MAX {
                let nested = format!("{}event{}", open.repeat(levels), close.repeat(levels));
                let text = format!("select {nested}, count() from events group by {nested}");
                if let Ok(plan) = plan(&text) {
                    assert_eq!(plan.clone().to_string(), plan.to_string());
                }
            }
        }
    });
}

#[test]
fn inlined_aliases_cannot_exceed_the_plan_limits() {
    on_a_small_stack(|| {
        let twice: String = (1..40).map(|no| format!(", a{} + a{0} as a{no}", no - 1)).collect();
        for (text, what) in [
            (format!("with 1 as a0{twice} select a39"), "nodes"),
            (format!("select 1 as a0{twice}"), "nodes"),
            (
                {
                    let chain = (1..200).map(|no| format!(", a{} + 1 as a{no}", no - 1));
                    format!("with 1 as a0{} select a199", chain.collect::<String>())
                },
                "levels of nesting",
            ),
            (format!("select 1 from events a0{}", ", numbers(9)".repeat(40)), "named 'numbers'"),
            (
                {
                    let tables = (0..40).map(|no| format!(", events b{no}"));
                    format!("select 1 from events a{}", tables.collect::<String>())
                },
                "joined tables",
            ),
            (
                {
                    let sums = (0..1000).map(|no| format!("sum({no}), "));
                    format!("select {}1", sums.collect::<String>())
                },
                "aggregates and windows",
            ),
            (format!("select 1 group by {}1", "1, ".repeat(100)), "keys of GROUP BY"),
            ("select 1 group by cube(1, 2, 3, 4, 5, 6, 7)".to_owned(), "grouping sets"),
            (format!("select 1 group by {}1 with rollup", "1, ".repeat(70)), "grouping sets"),
            (format!("select 1 group by rollup({}1)", "1, ".repeat(14_000)), "grouping sets"),
            (
                format!("select 1 group by grouping sets (({}1))", "1, ".repeat(14_000)),
                "keys of GROUP BY",
            ),
            (format!("select {}1", "1, ".repeat(4000)), "columns"),
            ("with (select x) as x select x".to_owned(), "levels of nesting"),
            ("with (select [f(x)]) as f, f + 1 as x select f".to_owned(), "'f(...)'"),
            ("with (select 1 from (select x)) as x select x".to_owned(), "levels of nesting"),
            ("with (select 1 where 1 in (x)) as x select x".to_owned(), "levels of nesting"),
            (
                {
                    let names = (0..300).map(|no| format!("1 as a{no}, "));
                    format!("with {} 1 as a select 1", names.collect::<String>())
                },
                "names of WITH",
            ),
        ] {
            let error = plan(&text).expect_err(what);
            assert!(error.to_string().contains(what), "{what}: {error}");
        }
    });
}

#[test]
fn names_with_many_suffixes_are_unknown_and_fit_the_stack() {
    on_a_small_stack(|| {
        let text = format!("select sum{}(1) from events", "If".repeat(20_000));
        assert!(plan(&text).is_err());
    });
}

#[test]
fn truncated_statements_never_panic() {
    let text = "with t as (select 'é\\'' as \"x\", {v.a} from events e) select a.1, [x -> -1], \
                sum(1)(2) over (rows between 1 preceding and current row), `q`, 0x1f, 1.5e-3 \
                from t left join u on a =~* b /* c */ -- d\n limit 1 by a limit 2";
    assert!(parse(text).is_ok(), "{:?}", parse(text));
    for (at, _) in text.char_indices() {
        let _ = plan(&text[..at]);
        let _ = plan(&text[at..]);
        for odd in ["\0", "'", "\\", "\u{feff}", "{", "😀", "9", "."] {
            let _ = plan(&format!("{}{odd}{}", &text[..at], &text[at..]));
        }
    }
    for text in ["\0", "select '\0'", "select \0", "select a\0b", "select `\0`", "\u{0}--", "/*/"] {
        let _ = parse(text);
    }
}
