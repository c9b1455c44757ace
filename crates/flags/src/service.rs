//! Flags of every project, ready to answer: compiled when they change, kept while the catalog is
//! away, with what is stored of those they are asked about.

mod definitions;
mod filling;
mod people;
mod projects;
mod scan;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, ProjectRow};
use geoip::GeoIp;
use model::group::{GROUP_TYPES_MAX, Group};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::{Context, FlagSet, GroupSubject, HashKeys, Membership, Selection, Stored, Subject};
pub use definitions::LocalEvaluation;
use people::{Known, People};
pub use projects::ProjectFlags;
use projects::Projects;
pub use scan::{Cell, Comparison, EXAMPLES_MAX, Everybody};

/// How long an answer waits for what is stored, before it is given without.
const STORED_WAIT: Duration = Duration::from_secs(2);

/// The catalog cannot be asked, and nothing is remembered.
#[derive(Debug, thiserror::Error)]
#[error("the flags of this project cannot be read now")]
pub struct Unavailable;

/// Cheap to clone; all clones remember together.
#[derive(Clone)]
pub struct Flags(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    geoip: GeoIp,
    projects: Projects,
    people: People,
}

/// For whom flags are asked, as the request says.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub distinct_id: String,
    pub device_id: Option<String>,
    pub anon_distinct_id: Option<String>,
    pub groups: Vec<(String, String)>,
    pub person_properties: Map<String, Value>,
    pub group_properties: Map<String, Value>,
    /// The address to be looked up, if one may be.
    pub address: Option<IpAddr>,
    pub selection: Selection,
}

impl Flags {
    pub fn new(catalog: Catalog, geoip: GeoIp) -> Self {
        let projects = Projects::new(&catalog);
        Self(Arc::new(Inner { projects, people: People::default(), geoip, catalog }))
    }

    /// The compiled flags of a project, as they are now; while the catalog is away, as they were.
    pub async fn of(&self, project: &ProjectRow) -> Result<Arc<ProjectFlags>, Unavailable> {
        self.0.projects.get(&self.0.catalog, project).await
    }

    /// Gathers what the project's flags need and lets `decide` use it. What asks the catalog is
    /// boxed there: most answers need none of it, and each would have to be as large.
    pub async fn with_context<R>(
        &self,
        project: &ProjectRow,
        mut asked: Asked,
        decide: impl FnOnce(&FlagSet, &Context<'_>, &Selection) -> R,
    ) -> Result<R, Unavailable> {
        let flags = self.of(project).await?;
        self.locate(&mut asked);
        let known = self.known(project, &flags, &asked).await;
        let groups = self.groups(project, &flags, &asked).await;
        let (now, selection) = (self.0.catalog.clock().now(), std::mem::take(&mut asked.selection));
        let context = context(now, &flags, &known, &groups, &mut asked);
        Ok(decide(&flags.set, &context, &selection))
    }

    /// What the address tells lies under what the caller sent, and over what is stored.
    fn locate(&self, asked: &mut Asked) {
        let Some(place) = asked.address.and_then(|address| self.0.geoip.look_up(address)) else {
            return;
        };
        for (name, value) in place.properties() {
            let sent = asked.person_properties.get(name);
            if sent.is_none_or(Value::is_null) {
                asked.person_properties.insert(name.into(), value.clone());
            }
        }
    }

    async fn known(&self, project: &ProjectRow, flags: &ProjectFlags, asked: &Asked) -> Known {
        if !flags.set.needs_person() {
            return Known::default();
        }
        let inner = &self.0;
        let found = inner.people.find(&inner.catalog, project.id, &flags.set, asked);
        match timeout(STORED_WAIT, found).await {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => {
                tracing::debug!(%error, "flags answer without stored persons");
                Known::unavailable()
            }
            Err(_) => Known::unavailable(),
        }
    }

    /// None when they cannot be read now.
    async fn groups(
        &self,
        project: &ProjectRow,
        flags: &ProjectFlags,
        asked: &Asked,
    ) -> Option<Vec<Group>> {
        let wanted: Vec<(u8, &str)> = asked
            .groups
            .iter()
            .filter_map(|(kind, key)| Some((flags.group_index(kind)?, key.as_str())))
            .collect();
        if wanted.is_empty() || !flags.set.needs_groups() {
            return Some(Vec::new());
        }
        let found = Box::pin(self.0.catalog.groups().by_key(project.id, &wanted));
        match timeout(STORED_WAIT, found).await {
            Ok(Ok(groups)) => Some(groups),
            _ => None,
        }
    }
}

fn context<'a>(
    now: model::Timestamp,
    flags: &ProjectFlags,
    known: &'a Known,
    groups: &'a Option<Vec<Group>>,
    asked: &'a mut Asked,
) -> Context<'a> {
    let overrides = std::mem::take(&mut asked.person_properties);
    let stored = match known {
        Known { unavailable: true, .. } => Stored::Unavailable,
        Known { person: Some(person), .. } => Stored::Known(&person.properties),
        _ => Stored::Nobody,
    };
    let mut subjects: [Option<GroupSubject<'a>>; GROUP_TYPES_MAX as usize] = Default::default();
    for (kind, key) in &asked.groups {
        let Some(index) = flags.group_index(kind) else { continue };
        let sent = match asked.group_properties.remove(kind) {
            Some(Value::Object(sent)) => sent,
            _ => Map::new(),
        };
        let stored = match groups {
            None => Stored::Unavailable,
            Some(groups) => groups
                .iter()
                .find(|group| group.index == index && group.key == *key)
                .map_or(Stored::Nobody, |group| Stored::Known(&group.properties)),
        };
        subjects[usize::from(index)] = Some(GroupSubject::new(key.clone(), sent, stored));
    }
    Context {
        now,
        distinct_id: &asked.distinct_id,
        device_id: asked.device_id.as_deref(),
        anon_distinct_id: asked.anon_distinct_id.as_deref(),
        person: Subject::new(overrides, stored),
        created_at: known
            .person
            .as_ref()
            .filter(|_| flags.set.needs_created_at())
            .map(|person| person.created_at.to_string().into()),
        cohorts: match known.unavailable {
            true => Membership::Unavailable,
            false => Membership::Known(&known.static_cohorts),
        },
        hash_keys: match known.unavailable {
            true => HashKeys::Unavailable,
            false => HashKeys::Known(&known.hash_keys),
        },
        groups: subjects,
    }
}

/// Hash keys by flag.
type ByFlag = HashMap<String, String>;
