//! Path cleaning: a project's rewrite rules for paths, such as `/orders/17` to `/orders/<id>`.

use std::borrow::Cow;

use model::filter_expr::compile_pattern;
use regex::Regex;
use serde_json::Value as Json;

/// Rules per project; further ones are ignored.
const RULES_MAX: usize = 100;

#[derive(Clone, Debug, Default)]
pub struct PathCleaning(Vec<(Regex, String)>);

impl PathCleaning {
    /// Reads a list of `{alias, regex}`; an invalid rule is ignored.
    pub fn read(rules: &Json) -> Self {
        let rule = |rule: &Json| {
            let text = |name: &str| rule.get(name).and_then(Json::as_str);
            Some((compile_pattern(text("regex")?).ok()?, text("alias")?.to_owned()))
        };
        let rules = rules.as_array().into_iter().flatten();
        Self(rules.filter_map(rule).take(RULES_MAX).collect())
    }

    /// Regexes and their replacements, in order.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(pattern, alias)| (pattern.as_str(), alias.as_str()))
    }

    pub(crate) fn clean<'t>(&self, path: &'t str) -> Cow<'t, str> {
        self.0.iter().fold(Cow::Borrowed(path), |path, (pattern, alias)| {
            match pattern.replace_all(&path, alias.as_str()) {
                Cow::Owned(cleaned) => Cow::Owned(cleaned),
                Cow::Borrowed(_) => path,
            }
        })
    }
}
