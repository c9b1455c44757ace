//! Parses and resolves arbitrary text: never panics, a syntax tree round-trips through its printed
//! form, and every plan prints.

#![no_main]

use std::collections::{BTreeMap, HashMap};

use hogql::{Project, Reason, parse, resolve};
use libfuzzer_sys::fuzz_target;
use model::ProjectId;

fuzz_target!(|text: &str| {
    let Ok(tree) = parse(text) else { return };
    match parse(&tree.to_string()) {
        Ok(again) => assert_eq!(again, tree),
        // The printer adds parentheses and escapes, which may exceed a limit.
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
