//! Objects of several kinds, found by what they are called: one statement for each kind.

use std::collections::BTreeMap;

use model::{ObjectKind, ProjectId, Sights, Window};

use super::Objects;
use crate::Result;
use crate::db::select::Condition;
use crate::db::{Row, args};

/// A kind of object that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchKind {
    Action,
    Cohort,
    Dashboard,
    EventDefinition,
    FeatureFlag,
    Insight,
}

/// What is checked for.
#[derive(Clone, Debug)]
pub struct SearchFilter {
    /// Words that are all in the name or the description; without any, everything is found.
    pub text: Option<String>,
    pub kinds: Vec<SearchKind>,
    pub seen: Sights,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    pub kind: SearchKind,
    /// As links name it.
    pub id: String,
    pub title: Option<String>,
    pub about: Option<String>,
    /// How well it fits, up to one; none where nothing was asked for.
    pub rank: Option<f64>,
}

/// More words than this do not narrow a search.
const WORDS_MAX: usize = 10;
/// The best of [`Condition::fit`].
const FIT_MAX: f64 = 4.0;

/// Where objects of a kind are, and what is shown of them.
struct Place {
    from: &'static str,
    live: &'static str,
    id: &'static str,
    title: &'static str,
    about: &'static str,
    guarded: Option<ObjectKind>,
}

impl SearchKind {
    pub const ALL: [Self; 6] = [
        Self::Action,
        Self::Cohort,
        Self::Dashboard,
        Self::EventDefinition,
        Self::FeatureFlag,
        Self::Insight,
    ];

    /// As requests name it, and the scopes of keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Cohort => "cohort",
            Self::Dashboard => "dashboard",
            Self::EventDefinition => "event_definition",
            Self::FeatureFlag => "feature_flag",
            Self::Insight => "insight",
        }
    }

    const fn place(self) -> Place {
        let plain = Place {
            from: "",
            live: "NOT o.deleted",
            id: "CAST(o.id AS TEXT)",
            title: "o.name",
            about: "o.description",
            guarded: None,
        };
        match self {
            Self::Action => Place { from: "actions o", guarded: Some(ObjectKind::Action), ..plain },
            Self::Cohort => Place { from: "cohorts o", ..plain },
            Self::Dashboard => Place {
                from: "dashboards o",
                live: "NOT o.deleted AND o.creation_mode <> 'unlisted'",
                guarded: Some(ObjectKind::Dashboard),
                ..plain
            },
            Self::EventDefinition => {
                Place { from: "event_definitions o", live: "NOT o.hidden", id: "o.id", ..plain }
            }
            Self::FeatureFlag => Place {
                from: "feature_flags o",
                title: "o.key",
                about: "o.name",
                guarded: Some(ObjectKind::FeatureFlag),
                ..plain
            },
            Self::Insight => Place {
                from: "insights o",
                id: "o.short_id",
                title: "COALESCE(NULLIF(o.name, ''), o.derived_name)",
                guarded: Some(ObjectKind::Insight),
                ..plain
            },
        }
    }

    fn read(self, row: &Row, is_ranked: bool) -> Result<SearchHit> {
        let fit: i64 = row.get("fit")?;
        Ok(SearchHit {
            kind: self,
            id: row.get("id")?,
            title: row.get("title")?,
            about: row.get("about")?,
            rank: is_ranked.then_some(fit as f64 / FIT_MAX),
        })
    }
}

impl Objects<'_> {
    /// The `limit` that fit best, and how many of each kind do.
    pub async fn search(
        self,
        project: ProjectId,
        filter: &SearchFilter,
        limit: usize,
    ) -> Result<(Vec<SearchHit>, BTreeMap<SearchKind, i64>)> {
        let (mut hits, mut counts) = (Vec::new(), BTreeMap::new());
        let window = Window { limit: limit as i64, offset: 0 };
        for kind in &filter.kinds {
            let Place { from, live, id, title, about, guarded } = kind.place();
            let which = format!("o.project_id = $1 AND {live}");
            let mut condition = Condition::new(&which, args![project]);
            let words = filter.text.iter().flat_map(|text| text.split_whitespace());
            for word in words.take(WORDS_MAX) {
                condition.and_found_in(&[title, about], None, word);
            }
            if let Some(guarded) = guarded {
                condition.and_within(filter.seen.of(guarded), "o");
            }
            let fit = match &filter.text {
                Some(text) => condition.fit(title, text),
                None => "0".to_owned(),
            };
            let columns = format!(
                "{id} AS id, {title} AS title, {about} AS about, CAST({fit} AS BIGINT) AS fit, \
                 COUNT(*) OVER () AS total"
            );
            let order = format!("fit DESC, COALESCE({title}, ''), o.id");
            let rows = self.core.db.slice(&columns, from, condition, &order, window).await?;
            let total = rows.first().map(|row| row.get("total")).transpose()?;
            counts.insert(*kind, total.unwrap_or(0));
            for row in &rows {
                hits.push(kind.read(row, filter.text.is_some())?);
            }
        }
        let place = |hit: &SearchHit| (hit.title.clone().unwrap_or_default(), hit.kind);
        hits.sort_by(|one, other| {
            let ranks = (one.rank.unwrap_or(0.0), other.rank.unwrap_or(0.0));
            ranks.1.total_cmp(&ranks.0).then_with(|| place(one).cmp(&place(other)))
        });
        hits.truncate(limit);
        Ok((hits, counts))
    }
}
