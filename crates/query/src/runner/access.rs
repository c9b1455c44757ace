//! Access checks of the saved objects that a query references.

use std::collections::BTreeSet;

use catalog::{Catalog, InsightName};
use hogql::ActionName;
use model::{ActionId, InsightId, ObjectKind, ProjectId, Visibilities, Window};
use serde_json::Value as Json;

use super::{Inner, ONLY_ITSELF, QueryRunner, SAVED_MAX};
use crate::parse::{ParsedQuery, Unwrapped, unwrap};
use crate::referenced_names::ReferencedNames;
use crate::{Error, Result};

/// Actions in the result of a goals query, as in PostHog.
const GOALS_MAX: i64 = 5;

/// Objects whose data a result reveals.
#[derive(Clone, Debug)]
pub(super) struct ReferencedObjects(Vec<(ObjectKind, i64)>);

impl ReferencedObjects {
    pub fn new(objects: &[(ObjectKind, i64)]) -> Self {
        Self(objects.to_vec())
    }

    pub fn add(&mut self, kind: ObjectKind, id: i64) {
        self.0.push((kind, id));
    }

    /// Whether the current access rules let a caller view all of them.
    pub async fn can_view(
        &self,
        catalog: &Catalog,
        project: ProjectId,
        visibility: &Visibilities,
    ) -> Result<bool> {
        for kind in ObjectKind::ALL {
            let of_kind = self.0.iter().filter(|(object, _)| *object == kind);
            let ids: Vec<i64> = of_kind.map(|(_, id)| *id).collect();
            if !ids.is_empty()
                && !catalog.access().hidden(project, kind, &ids, visibility).await?.is_empty()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl QueryRunner {
    /// Refuses to save a query that references what its author may not view: later readers may be
    /// allowed more. References to missing objects pass. With `own_short_id`, the insight that the
    /// query is saved in, it also refuses a query that wraps itself, directly or through others.
    pub async fn check_access(
        &self,
        project: ProjectId,
        query: &Json,
        visibility: &Visibilities,
        own_short_id: Option<&str>,
    ) -> Result<()> {
        let circular = || Error::Parse(ONLY_ITSELF.into());
        let mut query = query.clone();
        for _ in 0..SAVED_MAX {
            let short_id = match unwrap(&query)? {
                Unwrapped::Query(fields) => {
                    // The references of an unsupported kind are unknown.
                    let Ok(parsed) = ParsedQuery::parse(fields) else { return Ok(()) };
                    let names = ReferencedNames::of(&query);
                    let actions = self.0.referenced_actions(project, &parsed, &names).await?;
                    return match self.0.hidden_actions(project, &actions, visibility).await?.first()
                    {
                        None => Ok(()),
                        Some(id) => Err(Error::Invalid(format!("There is no action {id}."))),
                    };
                }
                Unwrapped::Saved(short_id) if Some(short_id) == own_short_id => {
                    return Err(circular());
                }
                Unwrapped::Saved(short_id) => short_id.to_owned(),
            };
            query = match self.0.saved_insight(project, short_id, visibility).await {
                Ok((_, saved)) => saved,
                Err(SavedInsightError::Missing | SavedInsightError::Empty) => return Ok(()),
                Err(error @ (SavedInsightError::Hidden | SavedInsightError::Failed(_))) => {
                    return Err(error.into());
                }
            };
        }
        // Running the query follows no more wrappers than this either.
        own_short_id.map_or(Ok(()), |_| Err(circular()))
    }

    /// Whether a caller may view all that a stored query references. A query that cannot be parsed
    /// references nothing.
    pub async fn can_view(
        &self,
        project: ProjectId,
        query: &Json,
        visibility: &Visibilities,
    ) -> Result<bool> {
        match self.check_access(project, query, visibility, None).await {
            Ok(()) | Err(Error::Parse(_)) => Ok(true),
            Err(Error::Invalid(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }
}

impl Inner {
    /// The actions that a goals query reports on: the newest that the caller may view.
    pub async fn goals(
        &self,
        project: ProjectId,
        visibility: &Visibilities,
    ) -> Result<Vec<ActionId>> {
        let visibility = visibility.of(ObjectKind::Action);
        let window = Window { limit: GOALS_MAX, offset: 0 };
        let (actions, _) = self.catalog.actions().list(project, visibility, window).await?;
        Ok(actions.into_iter().map(|action| action.id).collect())
    }

    /// The actions that a query references: in its own fields, and in `matchesAction()`.
    pub async fn referenced_actions(
        &self,
        project: ProjectId,
        query: &ParsedQuery,
        names: &ReferencedNames,
    ) -> Result<BTreeSet<ActionId>> {
        let mut actions = query.actions();
        let mut by_name = Vec::new();
        for action in names.actions() {
            match action {
                ActionName::Id(id) => drop(actions.insert(ActionId(*id))),
                ActionName::Name(name) => by_name.push(name.as_str()),
            }
        }
        if !by_name.is_empty() {
            actions.extend(self.catalog.actions().ids_by_name(project, &by_name).await?);
        }
        Ok(actions)
    }

    /// Of these actions, those that the caller may not view.
    pub async fn hidden_actions(
        &self,
        project: ProjectId,
        actions: &BTreeSet<ActionId>,
        visibility: &Visibilities,
    ) -> Result<BTreeSet<ActionId>> {
        let ids: Vec<i64> = actions.iter().map(|id| id.0).collect();
        let hidden =
            self.catalog.access().hidden(project, ObjectKind::Action, &ids, visibility).await?;
        Ok(hidden.into_iter().map(ActionId).collect())
    }

    /// The query of a saved insight.
    pub async fn saved_insight(
        &self,
        project: ProjectId,
        short_id: String,
        visibility: &Visibilities,
    ) -> std::result::Result<(InsightId, Json), SavedInsightError> {
        let name = InsightName::Short(short_id);
        let insight = match self
            .catalog
            .insights()
            .get(project, &name, None, catalog::Deleted::Exclude)
            .await
        {
            Ok(insight) => insight,
            Err(catalog::Error::NotFound) => return Err(SavedInsightError::Missing),
            Err(error) => return Err(SavedInsightError::Failed(error.into())),
        };
        let author = insight.created_by.map(|author| author.id);
        if !visibility.of(ObjectKind::Insight).holds(insight.id.0, author) {
            return Err(SavedInsightError::Hidden);
        }
        let query = insight.query.map(|query| Json::Object(query.into_fields()));
        query.map(|query| (insight.id, query)).ok_or(SavedInsightError::Empty)
    }
}

/// Why a saved insight has no query to run.
pub(super) enum SavedInsightError {
    Missing,
    Hidden,
    Empty,
    Failed(Error),
}

impl From<SavedInsightError> for Error {
    fn from(error: SavedInsightError) -> Self {
        match error {
            // A hidden insight is reported as missing, so that its existence does not leak.
            SavedInsightError::Missing | SavedInsightError::Hidden => {
                Self::Invalid("There is no insight with this short id.".into())
            }
            SavedInsightError::Empty => Self::Invalid("The saved insight has no query.".into()),
            SavedInsightError::Failed(error) => error,
        }
    }
}
