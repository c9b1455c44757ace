//! Asks both sides for the flags of the same users, and lists where the answers differ.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use crate::site::{Content, Method, Progress, Site, printable};
use crate::source::{list_path, project};
use crate::{Error, Project, Result};

/// Users that one check asks for.
pub const SAMPLE_MAX: usize = 100_000;
/// Evaluations whose answers were lost; they change nothing.
const LOST_MAX: usize = 5;
const PROGRESS_EVERY: usize = 50;
const PATH: &str = "/flags/?v=2";

/// Whom to ask for.
pub enum Sample {
    /// So many of the source's persons.
    Persons(usize),
    DistinctIds(Vec<String>),
}

/// A flag whose values differ for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub distinct_id: String,
    pub flag: String,
    pub source: String,
    pub target: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { distinct_id, flag, source, target } = self;
        let user = printable(distinct_id);
        let (flag, source, target) = (printable(flag), printable(source), printable(target));
        write!(to, "\"{user}\": {flag}: {source} at the source, {target} here")
    }
}

pub struct Comparison {
    pub users: usize,
    pub flags: usize,
    pub differences: Vec<Difference>,
}

impl fmt::Display for Comparison {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.differences.iter().try_for_each(|difference| writeln!(to, "{difference}"))?;
        let (users, flags, differ) = (self.users, self.flags, self.differences.len());
        writeln!(to, "{flags} flags of {users} users: {differ} values differ")
    }
}

/// `flags` is where the source evaluates flags, if that is another address than its API.
pub fn check(
    from: &Project,
    to: &Project,
    flags: Option<&str>,
    sample: Sample,
    progress: Progress<'_>,
) -> Result<Comparison> {
    let source = Site::new(&from.base, Some(&from.personal_api_key), progress)?;
    let target = Site::new(&to.base, Some(&to.personal_api_key), progress)?;
    let (_, source_token) = project(&source, &from.id)?;
    let (_, target_token) = project(&target, &to.id)?;
    let users = match sample {
        Sample::DistinctIds(users) => users,
        Sample::Persons(count) => persons(&source, &from.id, count)?,
    };
    // Evaluation takes the project's token; the key stays with the API.
    let source = Site::new(flags.unwrap_or_else(|| ingestion(&from.base)), None, progress)?;
    let target = Site::new(&to.base, None, progress)?;
    let (mut names, mut differences) = (BTreeSet::new(), Vec::new());
    for (done, user) in users.iter().enumerate() {
        if done % PROGRESS_EVERY == 0 {
            progress(&format!("comparing users: {done} of {}", users.len()));
        }
        let there = evaluate(&source, &source_token, user)?;
        let here = evaluate(&target, &target_token, user)?;
        differences.extend(compare(user, &there, &here, &mut names));
    }
    Ok(Comparison { users: users.len(), flags: names.len(), differences })
}

/// PostHog's cloud evaluates flags at another host than its API's.
fn ingestion(base: &str) -> &str {
    match base.trim_end_matches('/') {
        "https://us.posthog.com" | "https://app.posthog.com" => "https://us.i.posthog.com",
        "https://eu.posthog.com" => "https://eu.i.posthog.com",
        other => other,
    }
}

/// The first distinct id of so many persons.
fn persons(site: &Site<'_>, project: &str, count: usize) -> Result<Vec<String>> {
    let mut users = Vec::new();
    let mut path = list_path(project, "persons", "");
    while users.len() < count {
        let page = site.get(&path)?;
        let results = page.get("results").and_then(Value::as_array);
        let found = results.ok_or_else(|| Error::NoList { url: path.clone() })?;
        let of = |person: &Value| Some(person.get("distinct_ids")?.get(0)?.as_str()?.to_owned());
        users.extend(found.iter().filter_map(of));
        let next = page.get("next").and_then(Value::as_str).and_then(crate::site::path_of);
        match next.filter(|next| *next != path && !found.is_empty()) {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    users.truncate(count);
    Ok(users)
}

fn evaluate(site: &Site<'_>, token: &str, user: &str) -> Result<Value> {
    let body =
        json!({ "token": token, "api_key": token, "distinct_id": user, "geoip_disable": true });
    for _ in 1..LOST_MAX {
        match site.send(Method::Post, PATH, Content::Json(&body)) {
            Err(Error::Lost { .. }) => {}
            other => return other,
        }
    }
    site.send(Method::Post, PATH, Content::Json(&body))
}

/// The flags that differ in the answers for one user; `names` collects those that were compared.
fn compare(
    user: &str,
    source: &Value,
    target: &Value,
    names: &mut BTreeSet<String>,
) -> Vec<Difference> {
    let flags = |answer: &Value| answer.get("flags").and_then(Value::as_object).cloned();
    let difference = |flag: &str, source: String, target: String| Difference {
        distinct_id: user.to_owned(),
        flag: flag.to_owned(),
        source,
        target,
    };
    let (Some(there), Some(here)) = (flags(source), flags(target)) else {
        let shown = |answer: &Value| match flags(answer) {
            Some(flags) => format!("{} flags", flags.len()),
            None => "no flags".into(),
        };
        return vec![difference("*", shown(source), shown(target))];
    };
    let failed = |answer: &Value| answer.get("errorsWhileComputingFlags") == Some(&true.into());
    let mut differences = Vec::new();
    if failed(source) != failed(target) {
        let shown = |answer| if failed(answer) { "errors" } else { "no errors" }.to_owned();
        differences.push(difference("*", shown(source), shown(target)));
    }
    let all: BTreeSet<&String> = there.keys().chain(here.keys()).collect();
    for name in all {
        names.insert(name.clone());
        let (source, target) = (shown(there.get(name)), shown(here.get(name)));
        if source != target {
            differences.push(difference(name, source, target));
        }
    }
    differences
}

/// The value of a flag and its payload.
fn shown(flag: Option<&Value>) -> String {
    let Some(flag) = flag else { return "absent".into() };
    let value = match flag.get("variant").and_then(Value::as_str) {
        Some(variant) => format!("\"{variant}\""),
        None => (flag.get("enabled") == Some(&true.into())).to_string(),
    };
    let payload = flag.get("metadata").and_then(|data| data.get("payload"));
    match payload.filter(|payload| !payload.is_null()) {
        Some(payload) => format!("{value} with {}", parsed(payload)),
        None => value,
    }
}

/// A payload is JSON text, whose spaces and order of keys mean nothing.
fn parsed(payload: &Value) -> String {
    let inner = payload.as_str().and_then(|text| serde_json::from_str(text).ok());
    sorted(&inner.unwrap_or_else(|| payload.clone())).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            names.into_iter().map(|name| (name.clone(), sorted(&fields[name.as_str()]))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(source: Value, target: Value) -> Vec<String> {
        compare("u", &source, &target, &mut BTreeSet::new())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn values_variants_payloads_and_absent_flags_are_compared() {
        let on = json!({"enabled": true, "variant": null, "metadata": {"payload": null}});
        let paid = |payload: &str| json!({"enabled": true, "variant": "b", "metadata": {"payload": payload}});
        let answer = |a: &Value, b: &Value| json!({"flags": {"a": a, "b": b}});
        let same = answer(&on, &paid("{\"x\": 1, \"y\": 2}"));
        assert!(differences(same.clone(), answer(&on, &paid("{\"y\":2,\"x\":1}"))).is_empty());
        let off = json!({"enabled": false});
        assert_eq!(
            differences(same.clone(), answer(&off, &paid("{}"))),
            [
                "\"u\": a: true at the source, false here",
                "\"u\": b: \"b\" with {\"x\":1,\"y\":2} at the source, \"b\" with {} here",
            ]
        );
        assert_eq!(
            differences(
                json!({"flags": {"a": on}}),
                json!({"flags": {}, "errorsWhileComputingFlags": true})
            ),
            [
                "\"u\": *: no errors at the source, errors here",
                "\"u\": a: true at the source, absent here",
            ]
        );
        assert_eq!(
            differences(same, json!({})),
            ["\"u\": *: 2 flags at the source, no flags here"]
        );
    }
}
