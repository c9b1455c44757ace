//! What questions name, and who sees it.

use std::collections::BTreeSet;

use catalog::{Catalog, InsightName};
use model::{ActionId, InsightId, ObjectKind, ProjectId, Sights};
use serde_json::Value as Json;

use super::{Inner, ONLY_ITSELF, Queries, SAVED_MAX};
use crate::question::{Question, Unwrapped, unwrap};
use crate::{Error, Result};

/// Objects that an answer tells of.
#[derive(Clone, Debug)]
pub(super) struct Named(Vec<(ObjectKind, i64)>);

impl Named {
    pub fn new(of: &[(ObjectKind, i64)]) -> Self {
        Self(of.to_vec())
    }

    pub fn add(&mut self, kind: ObjectKind, id: i64) {
        self.0.push((kind, id));
    }

    /// Whether somebody sees all of them, by the rules there are now.
    pub async fn is_seen(
        &self,
        catalog: &Catalog,
        project: ProjectId,
        seen: &Sights,
    ) -> Result<bool> {
        for kind in ObjectKind::ALL {
            let own = self.0.iter().filter(|(named, _)| *named == kind);
            let ids: Vec<i64> = own.map(|(_, id)| *id).collect();
            if !ids.is_empty() && !catalog.hidden(project, kind, &ids, seen).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Queries {
    /// Refuses a question that is to be kept and names what its author does not see: whoever
    /// looks at it later may see more. What is missing may come yet. One that names itself, the
    /// insight of the short id `own`, directly or by others, has no answer; what is kept already is
    /// not asked for that.
    pub async fn check_seen(
        &self,
        project: ProjectId,
        query: &Json,
        seen: &Sights,
        own: Option<&str>,
    ) -> Result<()> {
        let circular = || Error::Parse(ONLY_ITSELF.into());
        let mut query = query.clone();
        for _ in 0..SAVED_MAX {
            let short = match unwrap(&query)? {
                Unwrapped::Query(fields) => {
                    // Of kinds that are not built nothing is known.
                    let Ok(question) = Question::parse(fields) else { return Ok(()) };
                    return match self.0.hidden(project, &question, seen).await?.first() {
                        None => Ok(()),
                        Some(id) => Err(Error::Refused(format!("There is no action {id}."))),
                    };
                }
                Unwrapped::Saved(short) if Some(short) == own => return Err(circular()),
                Unwrapped::Saved(short) => short.to_owned(),
            };
            query = match self.0.saved(project, short, seen).await {
                Ok((_, found)) => found,
                Err(Saved::Missing | Saved::Empty) => return Ok(()),
                Err(why @ (Saved::Hidden | Saved::Failed(_))) => return Err(why.into()),
            };
        }
        // As many as are followed when it is asked.
        own.map_or(Ok(()), |_| Err(circular()))
    }

    /// Whether somebody sees all that a stored question names. One that cannot be read names
    /// nothing.
    pub async fn is_seen(&self, project: ProjectId, query: &Json, seen: &Sights) -> Result<bool> {
        match self.check_seen(project, query, seen, None).await {
            Ok(()) | Err(Error::Parse(_)) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }
}

impl Inner {
    /// The actions that a question names and the asker does not see.
    pub async fn hidden(
        &self,
        project: ProjectId,
        question: &Question,
        seen: &Sights,
    ) -> Result<BTreeSet<ActionId>> {
        let named: Vec<i64> = question.actions().into_iter().map(|id| id.0).collect();
        let hidden = self.catalog.hidden(project, ObjectKind::Action, &named, seen).await?;
        Ok(hidden.into_iter().map(ActionId).collect())
    }

    pub async fn saved(
        &self,
        project: ProjectId,
        short: String,
        seen: &Sights,
    ) -> std::result::Result<(InsightId, Json), Saved> {
        let name = InsightName::Short(short);
        let insight = match self.catalog.insight(project, &name, None, catalog::Among::Live).await {
            Ok(insight) => insight,
            Err(catalog::Error::NotFound) => return Err(Saved::Missing),
            Err(error) => return Err(Saved::Failed(error.into())),
        };
        let author = insight.created_by.map(|author| author.id);
        if !seen.of(ObjectKind::Insight).holds(insight.id.0, author) {
            return Err(Saved::Hidden);
        }
        let query = insight.query.map(|query| Json::Object(query.into_fields()));
        query.map(|query| (insight.id, query)).ok_or(Saved::Empty)
    }
}

/// Why a saved insight does not answer.
pub(super) enum Saved {
    Missing,
    Hidden,
    Empty,
    Failed(Error),
}

impl From<Saved> for Error {
    fn from(why: Saved) -> Self {
        match why {
            // That it is hidden is not told.
            Saved::Missing | Saved::Hidden => {
                Self::Refused("There is no insight with this short id.".into())
            }
            Saved::Empty => Self::Refused("It asks nothing.".into()),
            Saved::Failed(error) => error,
        }
    }
}
