//! Any text as a statement: no panic, and what parses survives being printed.

#![no_main]

use hogql::{Reason, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(tree) = parse(text) else { return };
    match parse(&tree.to_string()) {
        Ok(again) => assert_eq!(again, tree),
        // Parentheses and escapes that the text did without may take it over a bound.
        Err(error) => assert!(matches!(error.reason, Reason::TooLarge { .. }), "{error}"),
    }
});
