//! Any text as a statement: no panic, what parses survives being printed, and what resolves
//! prints too.

#![no_main]

use std::collections::{BTreeMap, HashMap};

use hogql::{Project, Reason, parse, resolve};
use libfuzzer_sys::fuzz_target;
use model::ProjectId;

fuzz_target!(|text: &str| {
    let Ok(tree) = parse(text) else { return };
    match parse(&tree.to_string()) {
        Ok(again) => assert_eq!(again, tree),
        // Parentheses and escapes that the text did without may take it over a bound.
        Err(error) => assert!(matches!(error.reason, Reason::TooLarge { .. }), "{error}"),
    }
    let project = Project {
        id: ProjectId(7),
        zone: "UTC".to_owned(),
        groups: BTreeMap::new(),
        properties: HashMap::new(),
        cohorts: BTreeMap::new(),
    };
    if let Ok(plan) = resolve(&tree, text, &project, None) {
        let _ = plan.to_string();
    }
});
