//! Flag evaluation for requests: caches each project's compiled flags, and loads the stored person
//! and groups that they need. While the catalog is unavailable, cached flags still evaluate.

mod cohort_fill;
mod definitions;
mod person_cache;
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
use person_cache::{PersonCache, StoredPerson};
pub use projects::ProjectFlags;
use projects::Projects;
pub use scan::{Cell, Comparison, EXAMPLES_MAX, ScanTarget};

/// Timeout for loading persons and groups; then flags evaluate without them.
const STORED_TIMEOUT: Duration = Duration::from_secs(2);

/// The catalog is unavailable, and the project's flags are not cached.
#[derive(Debug, thiserror::Error)]
#[error("the flags of this project cannot be read now")]
pub struct Unavailable;

/// Cheap to clone; all clones share the caches.
#[derive(Clone)]
pub struct Flags(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    geoip: GeoIp,
    projects: Projects,
    persons: PersonCache,
}

/// The inputs of an evaluation, as the request sends them.
#[derive(Clone, Debug, Default)]
pub struct EvaluationRequest {
    pub distinct_id: String,
    pub device_id: Option<String>,
    pub anon_distinct_id: Option<String>,
    pub groups: Vec<(String, String)>,
    pub person_properties: Map<String, Value>,
    pub group_properties: Map<String, Value>,
    /// The IP address for a GeoIP lookup; `None` if the client disabled it.
    pub address: Option<IpAddr>,
    pub selection: Selection,
}

impl Flags {
    pub fn new(catalog: Catalog, geoip: GeoIp) -> Self {
        let projects = Projects::new(&catalog);
        Self(Arc::new(Inner { projects, persons: PersonCache::default(), geoip, catalog }))
    }

    /// The compiled flags of a project; the last cached ones while the catalog is unavailable.
    pub async fn of(&self, project: &ProjectRow) -> Result<Arc<ProjectFlags>, Unavailable> {
        self.0.projects.get(&self.0.catalog, project).await
    }

    /// Loads what the project's flags need and calls `decide` with it. Catalog queries are boxed:
    /// most evaluations need none, and unboxed they would enlarge every future.
    pub async fn with_context<R>(
        &self,
        project: &ProjectRow,
        request: EvaluationRequest,
        decide: impl FnOnce(&FlagSet, &Context<'_>, &Selection) -> R,
    ) -> Result<R, Unavailable> {
        let flags = self.of(project).await?;
        Ok(self.with_context_of(project, &flags, request, decide).await)
    }

    /// Like [`Flags::with_context`], with these flags instead of the stored ones.
    pub async fn with_context_of<R>(
        &self,
        project: &ProjectRow,
        flags: &ProjectFlags,
        mut request: EvaluationRequest,
        decide: impl FnOnce(&FlagSet, &Context<'_>, &Selection) -> R,
    ) -> R {
        self.locate(&mut request);
        let known = self.known(project, flags, &request).await;
        let groups = self.groups(project, flags, &request).await;
        let (now, selection) =
            (self.0.catalog.clock().now(), std::mem::take(&mut request.selection));
        let context = context(now, flags, &known, &groups, &mut request);
        decide(&flags.set, &context, &selection)
    }

    /// Adds GeoIP properties: sent properties override them, and they override stored ones.
    fn locate(&self, request: &mut EvaluationRequest) {
        let Some(location) = request.address.and_then(|address| self.0.geoip.lookup(address))
        else {
            return;
        };
        for (name, value) in location.properties() {
            let sent = request.person_properties.get(name);
            if sent.is_none_or(Value::is_null) {
                request.person_properties.insert(name.into(), value.clone());
            }
        }
    }

    async fn known(
        &self,
        project: &ProjectRow,
        flags: &ProjectFlags,
        request: &EvaluationRequest,
    ) -> StoredPerson {
        if !flags.set.needs_person() {
            return StoredPerson::default();
        }
        let inner = &self.0;
        let cached_person = inner.persons.find(&inner.catalog, project.id, &flags.set, request);
        match timeout(STORED_TIMEOUT, cached_person).await {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => {
                tracing::debug!(%error, "evaluating flags without the stored person");
                StoredPerson::unavailable()
            }
            Err(_) => StoredPerson::unavailable(),
        }
    }

    /// `None` if the catalog is unavailable.
    async fn groups(
        &self,
        project: &ProjectRow,
        flags: &ProjectFlags,
        request: &EvaluationRequest,
    ) -> Option<Vec<Group>> {
        let keys: Vec<(u8, &str)> = request
            .groups
            .iter()
            .filter_map(|(kind, key)| Some((flags.group_index(kind)?, key.as_str())))
            .collect();
        if keys.is_empty() || !flags.set.needs_groups() {
            return Some(Vec::new());
        }
        let stored_groups = Box::pin(self.0.catalog.groups().by_key(project.id, &keys));
        match timeout(STORED_TIMEOUT, stored_groups).await {
            Ok(Ok(groups)) => Some(groups),
            _ => None,
        }
    }
}

fn context<'a>(
    now: model::Timestamp,
    flags: &ProjectFlags,
    known: &'a StoredPerson,
    groups: &'a Option<Vec<Group>>,
    request: &'a mut EvaluationRequest,
) -> Context<'a> {
    let overrides = std::mem::take(&mut request.person_properties);
    let stored = match known {
        StoredPerson { unavailable: true, .. } => Stored::Unavailable,
        StoredPerson { person: Some(person), .. } => Stored::Known(&person.properties),
        _ => Stored::NotFound,
    };
    let mut subjects: [Option<GroupSubject<'a>>; GROUP_TYPES_MAX as usize] = Default::default();
    for (kind, key) in &request.groups {
        let Some(index) = flags.group_index(kind) else { continue };
        let sent = match request.group_properties.remove(kind) {
            Some(Value::Object(sent)) => sent,
            _ => Map::new(),
        };
        let stored = match groups {
            None => Stored::Unavailable,
            Some(groups) => groups
                .iter()
                .find(|group| group.index == index && group.key == *key)
                .map_or(Stored::NotFound, |group| Stored::Known(&group.properties)),
        };
        subjects[usize::from(index)] = Some(GroupSubject::new(key.clone(), sent, stored));
    }
    Context {
        now,
        distinct_id: &request.distinct_id,
        device_id: request.device_id.as_deref(),
        anon_distinct_id: request.anon_distinct_id.as_deref(),
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
