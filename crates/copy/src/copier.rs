//! The copy itself: reads the lists of the source, then writes one object after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde_json::{Map, Value};

use crate::bodies::{self, SETTINGS, title};
use crate::kind::{Key, Kind};
use crate::ledger::{Header, Ledger, fingerprint};
use crate::order::{Node, order};
use crate::references;
use crate::report::{Outcome, Report};
use crate::site::{Content, Method, Progress, Site};
use crate::source::{self, Lists, Reader, id, list_path};
use crate::twins::{Expected, is_namesake, is_twin};
use crate::{Error, Project, Result};

/// Requests to create one object whose answers were lost.
const LOST_MAX: usize = 5;
/// Objects between two lines of progress.
const PROGRESS_EVERY: usize = 25;

/// Copies a project; `ledger` is the file that remembers what was copied. An error ends the copy,
/// which goes on when it is called again; what one object is refused for is in the report.
pub fn copy(from: &Project, to: &Project, ledger: &Path, progress: Progress<'_>) -> Result<Report> {
    let source = Site::new(&from.base, Some(&from.personal_api_key), progress)?;
    let target = Site::new(&to.base, Some(&to.personal_api_key), progress)?;
    let (settings, token) = source::project(&target, &to.id)?;
    let header = Header::new(source.base(), &from.id, target.base(), &to.id);
    let ledger = Ledger::open(ledger, &header)?;
    let mut report = Report::default();
    let reader = Reader { site: &source, project: &from.id, report: &mut report, progress };
    let lists = reader.lists()?;
    let mut copier = Copier {
        source: &source,
        target: &target,
        from: &from.id,
        to: &to.id,
        token,
        ledger,
        report,
        progress,
        group_indexes: HashMap::new(),
        existing: BTreeMap::new(),
    };
    copier.groups(&lists.group_types)?;
    copier.definitions(&lists)?;
    copier.objects(&lists)?;
    copier.tiles(&lists.tiles)?;
    copier.members(lists.objects.get(&Kind::Cohort).map_or(&[], Vec::as_slice))?;
    copier.settings(&lists.settings, &settings)?;
    copier.note_continuity(&lists);
    Ok(copier.report)
}

pub struct Copier<'c> {
    pub source: &'c Site<'c>,
    pub target: &'c Site<'c>,
    pub from: &'c str,
    pub to: &'c str,
    /// The project API key here.
    pub token: String,
    pub ledger: Ledger,
    pub report: Report,
    pub progress: Progress<'c>,
    /// Of group types, from the source's to the one here.
    pub group_indexes: HashMap<String, String>,
    /// The objects that are here, read when they are first needed.
    existing: BTreeMap<Kind, Vec<Value>>,
}

impl Copier<'_> {
    pub fn path(&self, collection: &str, id: &str) -> String {
        match id {
            "" => format!("/api/projects/{}/{collection}/", self.to),
            id => format!("/api/projects/{}/{collection}/{id}/", self.to),
        }
    }

    /// The id here of an object of the source.
    pub fn mapped(&self, key: &Key) -> Option<String> {
        match key.kind {
            Kind::GroupType => self.group_indexes.get(&key.id).cloned(),
            _ => self.ledger.target(key).map(str::to_owned),
        }
    }

    /// Maps all ids in `value`; an error is the reason why that is not possible.
    pub fn map(&self, value: &mut Value) -> std::result::Result<(), String> {
        references::map(value, &|key| self.mapped(key))
            .map_err(|why| format!("it refers to {}, which is not here", why.0))
    }

    fn objects(&mut self, lists: &Lists) -> Result<()> {
        let (nodes, objects) = nodes(&lists.objects);
        let order = order(&nodes);
        for at in order.cyclic {
            let why = "it refers to itself, directly or through others";
            self.report.leave(&nodes[at].key, &title(nodes[at].key.kind, objects[at]), why);
        }
        let all = order.sorted.len();
        for (done, at) in order.sorted.into_iter().enumerate() {
            if done % PROGRESS_EVERY == 0 {
                (self.progress)(&format!("writing objects: {done} of {all}"));
            }
            self.object(&nodes[at].key, objects[at])?;
        }
        (self.progress)(&format!("writing objects: {all} of {all}"));
        Ok(())
    }

    fn object(&mut self, key: &Key, object: &Value) -> Result<()> {
        let prepared =
            bodies::body(key.kind, object).and_then(|body| self.with_ids(key.kind, body));
        let title = title(key.kind, object);
        let body = match prepared {
            Ok(body) => body,
            Err(why) => {
                self.report.leave(key, &title, why);
                return Ok(());
            }
        };
        match self.write(key, body, object) {
            Ok(Written::As(outcome)) => self.report.count(key.kind, outcome),
            Ok(Written::Conflict(why)) => self.report.leave(key, &title, why),
            Err(why) => self.report.leave(key, &title, why.refusal()?),
        }
        Ok(())
    }

    /// Replaces the source's ids. Lists of dashboards keep what is here: an object may lack one of them.
    fn with_ids(
        &self,
        kind: Kind,
        mut body: Map<String, Value>,
    ) -> std::result::Result<Map<String, Value>, String> {
        for name in ["dashboards", "analytics_dashboards"] {
            if let Some(Value::Array(ids)) = body.get_mut(name) {
                let known = ids.iter().filter_map(|id| self.number(Kind::Dashboard, id));
                *ids = known.collect();
            }
        }
        if kind == Kind::Annotation {
            self.map_annotation(&mut body)?;
        }
        let mut body = Value::Object(body);
        self.map(&mut body)?;
        match body {
            Value::Object(body) => Ok(body),
            _ => Err("it is no object".into()),
        }
    }

    fn number(&self, kind: Kind, id: &Value) -> Option<Value> {
        let here = self.mapped(&Key::new(kind, id.as_u64()?.to_string()))?;
        here.parse::<u64>().ok().map(Value::from)
    }

    /// An annotation of a project may name where it was written; one of an insight must.
    fn map_annotation(&self, body: &mut Map<String, Value>) -> std::result::Result<(), String> {
        let scope = body.get("scope").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (name, kind, of) in [
            ("dashboard_item", Kind::Insight, "dashboard_item"),
            ("dashboard_id", Kind::Dashboard, "dashboard"),
        ] {
            let Some(id) = body.remove(name) else { continue };
            match self.number(kind, &id) {
                Some(here) => drop(body.insert(name.into(), here)),
                None if scope == of => {
                    return Err(format!("it is on {} {id}, which is not here", kind.noun()));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn write(&mut self, key: &Key, body: Map<String, Value>, object: &Value) -> Result<Written> {
        let print = fingerprint(&Value::Object(body.clone()));
        let entry = self.ledger.entry(key).cloned();
        let expected = match &entry {
            Some(entry) if entry.target.is_some() && entry.fingerprint == print => {
                return Ok(Written::As(Outcome::Unchanged));
            }
            Some(entry) => match &entry.target {
                Some(target) => {
                    let body = bodies::replacing(key.kind, body);
                    let path = self.path(key.kind.collection(), target);
                    self.target.send(Method::Patch, &path, Content::Json(&body.into()))?;
                    self.ledger.created(key, target, &print)?;
                    return Ok(Written::As(Outcome::Updated));
                }
                None => Expected::Sent,
            },
            None => Expected::Unknown,
        };
        if let Some(twin) = self.twin(key.kind, &body, expected)? {
            self.remember(key, object, &twin, &print)?;
            return Ok(Written::As(match expected {
                Expected::Sent => Outcome::Created,
                Expected::Unknown => Outcome::Unchanged,
            }));
        }
        if key.kind == Kind::Flag && self.has_flag(&title(Kind::Flag, object))? {
            let why = "another flag with this key is here; rename or delete one of them";
            return Ok(Written::Conflict(why.into()));
        }
        self.ledger.announce(key, &print)?;
        let created = self.create(key.kind, &body)?;
        self.remember(key, object, &created, &print)?;
        Ok(Written::As(Outcome::Created))
    }

    /// Sends the request to create an object. If its answer is lost, looks whether the object exists
    /// before it sends it again.
    fn create(&mut self, kind: Kind, body: &Map<String, Value>) -> Result<Value> {
        let (path, content) = (self.path(kind.collection(), ""), Value::Object(body.clone()));
        for _ in 1..LOST_MAX {
            match self.target.send(Method::Post, &path, Content::Json(&content)) {
                Err(Error::Lost { .. }) => {
                    self.existing.remove(&kind);
                    if let Some(twin) = self.twin(kind, body, Expected::Sent)? {
                        return Ok(twin);
                    }
                }
                other => return other,
            }
        }
        self.target.send(Method::Post, &path, Content::Json(&content))
    }

    fn remember(&mut self, key: &Key, object: &Value, here: &Value, print: &str) -> Result<()> {
        if key.kind == Kind::Insight {
            let short = |object: &Value| object.get("short_id")?.as_str().map(str::to_owned);
            if let (Some(from), Some(to)) = (short(object), short(here)) {
                // First, since the insight itself says that nothing is left to do.
                self.ledger.created(&Key::new(Kind::ShortId, from), &to, "")?;
            }
        }
        self.ledger.created(key, &id(here), print)
    }

    /// An object here that is the copy of none, and is what `body` would create.
    fn twin(
        &mut self,
        kind: Kind,
        body: &Map<String, Value>,
        expected: Expected,
    ) -> Result<Option<Value>> {
        self.load(kind)?;
        for listed in self.existing.get(&kind).into_iter().flatten() {
            let here = id(listed);
            if self.ledger.is_taken(kind, &here) || !is_namesake(kind, body, listed) {
                continue;
            }
            let found = match kind {
                // The list lacks its filters.
                Kind::Dashboard => self.target.get(&self.path("dashboards", &here))?,
                _ => listed.clone(),
            };
            if is_twin(kind, body, &found, expected) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn has_flag(&mut self, key: &str) -> Result<bool> {
        self.load(Kind::Flag)?;
        let flags = self.existing.get(&Kind::Flag).map_or(&[][..], Vec::as_slice);
        Ok(flags.iter().any(|flag| title(Kind::Flag, flag) == key))
    }

    fn load(&mut self, kind: Kind) -> Result<()> {
        if self.existing.contains_key(&kind) {
            return Ok(());
        }
        let list = |query| {
            let path = list_path(self.to, kind.collection(), query);
            self.target.list(&path, |object| Some(source::trimmed(kind, object)), |_| {})
        };
        let mut found = list("")?;
        if kind == Kind::Flag {
            found.extend(list("archived=true")?);
        }
        self.existing.insert(kind, found);
        Ok(())
    }

    /// One request for each setting, so that one that is refused does not cost the others.
    fn settings(&mut self, from: &Map<String, Value>, here: &Map<String, Value>) -> Result<()> {
        for name in SETTINGS {
            let Some(mut value) = from.get(name).filter(|value| !value.is_null()).cloned() else {
                continue;
            };
            let key = Key::new(Kind::Setting, name);
            let mapped = match name {
                "primary_dashboard" => match self.number(Kind::Dashboard, &value) {
                    Some(here) => {
                        value = here;
                        Ok(())
                    }
                    None => Err("the dashboard is not here".into()),
                },
                _ => self.map(&mut value),
            };
            if let Err(why) = mapped {
                self.report.leave(&key, "", why);
                continue;
            }
            let print = fingerprint(&value);
            let known = self.ledger.entry(&key).is_some_and(|entry| entry.fingerprint == print);
            if known || here.get(name) == Some(&value) {
                self.ledger.created(&key, name, &print)?;
                self.report.count(Kind::Setting, Outcome::Unchanged);
                continue;
            }
            let body = Value::Object(Map::from_iter([(name.to_owned(), value)]));
            let path = format!("/api/projects/{}/", self.to);
            match self.target.send(Method::Patch, &path, Content::Json(&body)) {
                Ok(_) => {
                    self.ledger.created(&key, name, &print)?;
                    self.report.count(Kind::Setting, Outcome::Updated);
                }
                Err(why) => self.report.leave(&key, "", why.refusal()?),
            }
        }
        Ok(())
    }

    /// What the source stores for these flags its API does not show.
    fn note_continuity(&mut self, lists: &Lists) {
        let flags = lists.objects.get(&Kind::Flag).map_or(&[][..], Vec::as_slice);
        let continues =
            |flag: &&Value| flag.get("ensure_experience_continuity") == Some(&true.into());
        let names: Vec<String> =
            flags.iter().filter(continues).map(|flag| title(Kind::Flag, flag)).collect();
        if !names.is_empty() {
            self.report.notes.push(format!(
                "whoever used the flags {} before logging in may get another value: the source does \
                 not show the values that it persists across authentication",
                crate::site::printable(&names.join(", "))
            ));
        }
    }
}

enum Written {
    As(Outcome),
    Conflict(String),
}

/// The objects as nodes of the graph of their references.
fn nodes(objects: &BTreeMap<Kind, Vec<Value>>) -> (Vec<Node>, Vec<&Value>) {
    let short_ids: HashMap<&str, String> = objects
        .get(&Kind::Insight)
        .into_iter()
        .flatten()
        .filter_map(|insight| Some((insight.get("short_id")?.as_str()?, id(insight))))
        .collect();
    let (mut nodes, mut flat) = (Vec::new(), Vec::new());
    for kind in Kind::OBJECTS {
        for object in objects.get(&kind).into_iter().flatten() {
            let mut references: BTreeSet<Key> = references::of(object)
                .into_iter()
                .map(|key| match short_ids.get(key.id.as_str()) {
                    Some(id) if key.kind == Kind::ShortId => Key::new(Kind::Insight, id),
                    _ => key,
                })
                .collect();
            references.extend(fields_that_refer(object));
            nodes.push(Node { key: Key::new(kind, id(object)), references });
            flat.push(object);
        }
    }
    (nodes, flat)
}

/// Fields of the objects themselves, which are not a part of filters or queries.
fn fields_that_refer(object: &Value) -> Vec<Key> {
    let ids = |name: &str| match object.get(name) {
        Some(Value::Array(ids)) => ids.clone(),
        Some(id) => vec![id.clone()],
        None => Vec::new(),
    };
    let fields = [
        ("dashboards", Kind::Dashboard),
        ("analytics_dashboards", Kind::Dashboard),
        ("dashboard_id", Kind::Dashboard),
        ("dashboard_item", Kind::Insight),
    ];
    let of = |(name, kind)| {
        let ids = ids(name).into_iter().filter_map(|id| id.as_u64());
        ids.map(move |id| Key::new(kind, id.to_string()))
    };
    fields.into_iter().flat_map(of).collect()
}
