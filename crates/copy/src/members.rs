//! The members of static cohorts, which are the same persons by one of their distinct ids.

use serde_json::{Value, json};

use crate::Result;
use crate::bodies::title;
use crate::copier::Copier;
use crate::kind::{Key, Kind};
use crate::ledger::fingerprint;
use crate::report::Outcome;
use crate::site::{Content, Method};
use crate::source::{id, list_path};

/// Ids that contain it are left out.
const BOUNDARY: &str = "hedgerow-copy-6b1f0c9e5a7d4e32";

impl Copier<'_> {
    pub fn members(&mut self, cohorts: &[Value]) -> Result<()> {
        let is_static = |cohort: &&Value| cohort.get("is_static") == Some(&true.into());
        for cohort in cohorts.iter().filter(is_static) {
            let from = id(cohort);
            let Some(here) = self.mapped(&Key::new(Kind::Cohort, &from)) else { continue };
            let key = Key::new(Kind::Members, &from);
            let name = title(Kind::Cohort, cohort);
            (self.progress)(&format!("writing the members of cohort {from}"));
            match self.members_of(&key, &here) {
                Ok(Ok(outcome)) => self.report.count(Kind::Members, outcome),
                Ok(Err(why)) => self.report.leave(&key, &name, why),
                Err(why) => self.report.leave(&key, &name, why.refusal()?),
            }
        }
        Ok(())
    }

    fn members_of(
        &mut self,
        key: &Key,
        here: &str,
    ) -> Result<std::result::Result<Outcome, String>> {
        let known = self.ledger.entry(key).map(|entry| entry.fingerprint.clone());
        let path = self.path("cohorts", here);
        let (mut members, mut found, mut sent) = (0_u64, 0, false);
        let mut print = fingerprint(&Value::Null);
        let pages = list_path(self.from, &format!("cohorts/{}/persons", key.id), "");
        self.source.pages(&pages, |persons| {
            let ids: Vec<&str> = persons.iter().filter_map(distinct_id).collect();
            members += ids.len() as u64;
            print = fingerprint(&json!([print, ids]));
            if !ids.is_empty() {
                let form = form(&ids);
                let content = Content::Form { boundary: BOUNDARY, bytes: &form };
                let cohort = self.target.send(Method::Patch, &path, content)?;
                found = cohort.get("count").and_then(Value::as_u64).unwrap_or_default();
                sent = true;
            }
            Ok(())
        })?;
        if sent && found < members {
            let absent = members - found;
            return Ok(Err(format!(
                "{absent} of {members} are no persons here yet; import the events, then copy again"
            )));
        }
        let outcome = match known {
            Some(known) if known == print => Outcome::Unchanged,
            Some(_) => Outcome::Updated,
            None => Outcome::Created,
        };
        self.ledger.created(key, here, &print)?;
        Ok(Ok(outcome))
    }
}

fn distinct_id(person: &Value) -> Option<&str> {
    let mut ids = person.get("distinct_ids")?.as_array()?.iter().filter_map(Value::as_str);
    // An id may hold line breaks: one with the boundary would end the file.
    ids.find(|id| !id.contains('\0') && !id.contains(BOUNDARY))
}

/// A multipart form with a CSV file of distinct ids.
fn form(ids: &[&str]) -> Vec<u8> {
    let mut form = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"csv\"; filename=\"members.csv\"\r\n\
         Content-Type: text/csv\r\n\r\ndistinct_id\n"
    );
    for id in ids {
        form.push_str(&format!("\"{}\"\n", id.replace('"', "\"\"")));
    }
    form.push_str(&format!("\r\n--{BOUNDARY}--\r\n"));
    form.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_quotes_distinct_ids() {
        let form = String::from_utf8(form(&["u1", "a \"b\", c"])).unwrap();
        assert!(form.contains("\r\n\r\ndistinct_id\n\"u1\"\n\"a \"\"b\"\", c\"\n\r\n--"), "{form}");
    }
}
