//! Parses and resolves arbitrary text: never panics, a syntax tree round-trips through its printed
//! form, and every plan prints.

#![no_main]

use std::collections::{BTreeMap, HashMap};

use hogql::{Filters, Project, Reason, parse, resolve};
use libfuzzer_sys::fuzz_target;
use model::{ProjectId, Timestamp};

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
        actions: BTreeMap::new(),
        objects: BTreeMap::new(),
    };
    let since = Filters { from: Some(Timestamp::from_micros(0)), ..Filters::default() };
    for filters in [None, Some(&since)] {
        if let Ok(plan) = resolve(&tree, text, &project, filters) {
            let _ = plan.to_string();
        }
    }
});
