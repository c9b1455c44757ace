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

    /// Regexes and their replacements in order, as ClickHouse writes them: `\1` is the first capture
    /// group. It has no groups past the ninth; they are left out.
    pub fn replacements(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(pattern, alias)| (pattern.to_string(), replacement(pattern, alias)))
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

/// A replacement as ClickHouse writes it: translates `$1`, `${1}`, `$name` and `$$` of an alias.
pub fn replacement(pattern: &Regex, alias: &str) -> String {
    let mut translated = String::new();
    let mut rest = alias;
    while let Some(at) = rest.find('$') {
        translated.push_str(&rest[..at].replace('\\', "\\\\"));
        rest = &rest[at + 1..];
        let braced = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let bare = rest.find(|one: char| one != '_' && !one.is_ascii_alphanumeric());
        let (group, after) = match braced {
            Some(braced) => braced,
            None if rest.starts_with('$') => ("", &rest[1..]),
            None => rest.split_at(bare.unwrap_or(rest.len())),
        };
        if group.is_empty() {
            translated.push('$');
        }
        let named = || pattern.capture_names().position(|name| name == Some(group));
        let number = group.parse().ok().or_else(named);
        if let Some(number @ 0..10) = number.filter(|number| *number < pattern.captures_len()) {
            translated.push_str(&format!("\\{number}"));
        }
        rest = after;
    }
    translated + &rest.replace('\\', "\\\\")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replacements_refer_to_the_same_groups_as_aliases() {
        for (alias, expected, cleaned) in [
            ("/<id>", "/<id>", "/<id>"),
            ("/$1-${kind}", "/\\1-\\2", "/17-a"),
            ("$$1\\2 $", "$1\\\\2 $", "$1\\2 $"),
            ("$1a$9", "", ""),
        ] {
            let rules = json!([{"alias": alias, "regex": "^/([0-9]+)(?P<kind>[a-z])$"}]);
            let rules = PathCleaning::read(&rules);
            assert_eq!(rules.replacements().next().unwrap().1, expected, "{alias}");
            assert_eq!(rules.clean("/17a"), cleaned, "{alias}");
        }
    }
}
