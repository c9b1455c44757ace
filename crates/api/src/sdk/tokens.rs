//! A cache of projects by token, which every public request looks up.
//!
//! Cached projects stay valid while the catalog is unavailable. A change by this process takes
//! effect at once, one by another process (an admin command) within [`FRESH`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use capture::{KeyOwner, LookupFuture, TokenLookup, TokenOwner};
use catalog::{Catalog, ProjectRow};
use model::ProjectId;

/// Cached projects, about 2 kB each.
const CACHED_PROJECTS_MAX: usize = 10_000;
/// Cached unknown tokens: a flood of random tokens must not exhaust memory. At the bound all are
/// evicted; with `TOKEN_BYTES_MAX`, they take 3 MB at most.
const CACHED_UNKNOWN_MAX: usize = 10_000;
/// No token is longer: longer strings are neither looked up nor cached.
const TOKEN_BYTES_MAX: usize = 200;
/// Age at which a cached project is refreshed, in the background.
const FRESH: Duration = Duration::from_secs(60);
/// Age at which an unknown token is looked up again: another process may have created it.
const UNKNOWN_FRESH: Duration = Duration::from_secs(5);

/// Cheap to clone; clones share the cache.
#[derive(Clone)]
pub struct Tokens(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    began: Instant,
    known: RwLock<HashMap<Box<str>, Arc<CachedProject>>>,
    unknown: Mutex<HashMap<Box<str>, Instant>>,
    /// Whether the last lookup failed; only changes are logged.
    is_unavailable: AtomicBool,
}

struct CachedProject {
    project: Arc<ProjectRow>,
    /// Milliseconds after `began`.
    fresh_until: AtomicU64,
}

pub(crate) enum Owner {
    Known(Arc<ProjectRow>),
    Unknown,
    /// Not cached, and the catalog is unavailable.
    Unavailable,
}

impl Tokens {
    pub fn new(catalog: Catalog) -> Self {
        let tokens = Self(Arc::new(Inner {
            catalog: catalog.clone(),
            began: Instant::now(),
            known: RwLock::default(),
            unknown: Mutex::default(),
            is_unavailable: AtomicBool::new(false),
        }));
        // A weak reference: the catalog would otherwise keep the cache alive.
        let weak = Arc::downgrade(&tokens.0);
        catalog.projects().on_change(move |project| {
            if let Some(inner) = weak.upgrade() {
                inner.evict(project);
            }
        });
        tokens
    }

    pub(crate) async fn owner(&self, token: &str) -> Owner {
        let inner = &self.0;
        if !may_be_token(token) {
            return Owner::Unknown;
        }
        if let Some(cached) = inner.cached(token) {
            if inner.claims_refresh(&cached) {
                let (tokens, token) = (self.clone(), token.to_owned());
                tokio::spawn(async move { tokens.0.look_up(&token).await });
            }
            return Owner::Known(cached.project.clone());
        }
        if inner.is_cached_unknown(token) {
            return Owner::Unknown;
        }
        Box::pin(inner.look_up(token)).await
    }

    async fn owner_of_key(
        &self,
        key: &str,
        project: Option<ProjectId>,
    ) -> catalog::Result<KeyOwner> {
        let catalog = &self.0.catalog;
        let Some((key, user)) = catalog.keys().authenticate(key).await? else {
            return Ok(KeyOwner::UnknownKey);
        };
        let Some(project) = project else { return Ok(KeyOwner::UnknownProject) };
        let project = match catalog.projects().get(project).await {
            Ok(project) => project,
            Err(catalog::Error::NotFound) => return Ok(KeyOwner::UnknownProject),
            Err(error) => return Err(error),
        };
        let (id, organization) = (project.id, project.organization);
        let enters = key.scoped_teams.is_none_or(|teams| teams.contains(&id))
            && key.scoped_organizations.is_none_or(|known| known.contains(&organization))
            && catalog
                .access()
                .effective(user.user.id, id)
                .await?
                .is_some_and(|standing| standing.may_use_keys);
        Ok(if enters { KeyOwner::Known(id) } else { KeyOwner::UnknownProject })
    }
}

/// Whether the catalog can look it up: PostgreSQL rejects U+0000.
fn may_be_token(text: &str) -> bool {
    (1..=TOKEN_BYTES_MAX).contains(&text.len()) && !text.contains('\0')
}

impl TokenLookup for Tokens {
    fn project_of<'a>(&'a self, token: &'a str) -> LookupFuture<'a, TokenOwner> {
        Box::pin(async {
            match self.owner(token).await {
                Owner::Known(project) => TokenOwner::Known(project.id),
                Owner::Unknown => TokenOwner::Unknown,
                Owner::Unavailable => TokenOwner::Unavailable,
            }
        })
    }

    fn project_of_personal_key<'a>(
        &'a self,
        key: &'a str,
        project: Option<ProjectId>,
    ) -> LookupFuture<'a, KeyOwner> {
        Box::pin(async move {
            let owner = self.owner_of_key(key, project).await;
            self.0.log_availability(owner.as_ref().err());
            owner.unwrap_or(KeyOwner::Unavailable)
        })
    }
}

impl Inner {
    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn cached(&self, token: &str) -> Option<Arc<CachedProject>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }

    /// Whether this caller must refresh a stale entry; concurrent callers use the stale one.
    fn claims_refresh(&self, cached: &CachedProject) -> bool {
        let (now, until) = (self.now_ms(), cached.fresh_until.load(Ordering::Relaxed));
        let next = now + FRESH.as_millis() as u64;
        now >= until
            && cached
                .fresh_until
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn unknown(&self) -> MutexGuard<'_, HashMap<Box<str>, Instant>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cached_unknown(&self, token: &str) -> bool {
        self.unknown().get(token).is_some_and(|since| since.elapsed() < UNKNOWN_FRESH)
    }

    async fn look_up(&self, token: &str) -> Owner {
        let version = self.catalog.projects().version();
        let row = self.catalog.projects().row_by_token(token).await;
        self.log_availability(row.as_ref().err());
        match row {
            Ok(Some(project)) => {
                let project = Arc::new(project);
                self.cache(token, &project, version);
                Owner::Known(project)
            }
            Ok(None) => {
                self.cache_unknown(token, version);
                Owner::Unknown
            }
            Err(_) => Owner::Unavailable,
        }
    }

    /// Caches a project, unless projects changed since the lookup began.
    fn cache(&self, token: &str, project: &Arc<ProjectRow>, version: u64) {
        let fresh_until = self.now_ms() + FRESH.as_millis() as u64;
        let entry = CachedProject { project: project.clone(), fresh_until: fresh_until.into() };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if self.catalog.projects().version() != version {
            return;
        }
        if known.len() >= CACHED_PROJECTS_MAX
            && !known.contains_key(token)
            && let Some(other) = known.keys().next().cloned()
        {
            known.remove(&other);
        }
        known.insert(token.into(), Arc::new(entry));
    }

    fn cache_unknown(&self, token: &str, version: u64) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(token);
        let mut unknown = self.unknown();
        if self.catalog.projects().version() != version {
            return;
        }
        if unknown.len() >= CACHED_UNKNOWN_MAX {
            unknown.clear();
        }
        unknown.insert(token.into(), Instant::now());
    }

    fn evict(&self, project: ProjectId) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, cached| cached.project.id != project);
        drop(known);
        self.unknown().clear();
    }

    fn log_availability(&self, failure: Option<&catalog::Error>) {
        let was_unavailable = self.is_unavailable.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_unavailable => {
                tracing::error!(%error, "token lookup failed; only cached tokens are accepted");
            }
            None if was_unavailable => tracing::info!("token lookup works again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn invalid_tokens_are_neither_looked_up_nor_cached() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("catalog.sqlite");
        let vault = catalog::Vault::new(&catalog::Secret::given("key"));
        let location = catalog::Location::Sqlite(&file);
        let catalog = Catalog::open(location, vault, model::Clock::system()).await.unwrap();
        let tokens = Tokens::new(catalog.clone());
        let longest = "t".repeat(TOKEN_BYTES_MAX);
        let before = catalog.statements();
        for token in ["", "a\0b", &format!("{longest}t"), &"t".repeat(1 << 20)] {
            assert!(matches!(tokens.owner(token).await, Owner::Unknown));
        }
        assert_eq!(catalog.statements(), before);
        assert!(tokens.0.unknown().is_empty());

        for number in 0..CACHED_UNKNOWN_MAX + 10 {
            tokens.0.cache_unknown(&format!("{longest}{number}"), catalog.projects().version());
        }
        assert!(tokens.0.unknown().len() <= CACHED_UNKNOWN_MAX);
        assert!(matches!(tokens.owner(&longest).await, Owner::Unknown));
        assert!(tokens.0.unknown().contains_key(&*longest));
    }
}
