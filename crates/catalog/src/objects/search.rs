//! Search by name over several kinds of objects, one statement per kind.

use std::collections::BTreeMap;

use model::{ObjectKind, ProjectId, Visibilities, Window};

use super::Objects;
use crate::Result;
use crate::db::select::Condition;
use crate::db::{Row, args};

/// A kind of object that can be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchKind {
    Action,
    Cohort,
    Dashboard,
    EventDefinition,
    FeatureFlag,
    Insight,
}

/// What to search for.
#[derive(Clone, Debug)]
pub struct SearchFilter {
    /// Words that must all occur in name or description; none matches everything.
    pub text: Option<String>,
    pub kinds: Vec<SearchKind>,
    pub visibility: Visibilities,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    pub kind: SearchKind,
    /// The id in URLs.
    pub id: String,
    pub title: Option<String>,
    pub description: Option<String>,
    /// Match quality up to 1; none without search words.
    pub rank: Option<f64>,
}

/// Further words are ignored.
const WORDS_MAX: usize = 10;
/// The best score of [`Condition::match_score`].
const SCORE_MAX: f64 = 4.0;

/// Table and columns of a kind.
struct SearchTable {
    from: &'static str,
    live: &'static str,
    id: &'static str,
    title: &'static str,
    about: &'static str,
    access_kind: Option<ObjectKind>,
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

    /// The name in requests and key scopes.
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

    const fn table(self) -> SearchTable {
        let plain = SearchTable {
            from: "",
            live: "NOT o.deleted",
            id: "CAST(o.id AS TEXT)",
            title: "o.name",
            about: "o.description",
            access_kind: None,
        };
        match self {
            Self::Action => {
                SearchTable { from: "actions o", access_kind: Some(ObjectKind::Action), ..plain }
            }
            Self::Cohort => SearchTable { from: "cohorts o", ..plain },
            Self::Dashboard => SearchTable {
                from: "dashboards o",
                live: "NOT o.deleted AND o.creation_mode <> 'unlisted'",
                access_kind: Some(ObjectKind::Dashboard),
                ..plain
            },
            Self::EventDefinition => SearchTable {
                from: "event_definitions o",
                live: "NOT o.hidden",
                id: "o.id",
                ..plain
            },
            Self::FeatureFlag => SearchTable {
                from: "feature_flags o",
                title: "o.key",
                about: "o.name",
                access_kind: Some(ObjectKind::FeatureFlag),
                ..plain
            },
            Self::Insight => SearchTable {
                from: "insights o",
                id: "o.short_id",
                title: "COALESCE(NULLIF(o.name, ''), o.derived_name)",
                access_kind: Some(ObjectKind::Insight),
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
            description: row.get("about")?,
            rank: is_ranked.then_some(fit as f64 / SCORE_MAX),
        })
    }
}

impl Objects<'_> {
    /// The best `limit` matches, and the number of matches per kind.
    pub async fn search(
        self,
        project: ProjectId,
        filter: &SearchFilter,
        limit: usize,
    ) -> Result<(Vec<SearchHit>, BTreeMap<SearchKind, i64>)> {
        let (mut hits, mut counts) = (Vec::new(), BTreeMap::new());
        let window = Window { limit: limit as i64, offset: 0 };
        for kind in &filter.kinds {
            let SearchTable { from, live, id, title, about, access_kind } = kind.table();
            let which = format!("o.project_id = $1 AND {live}");
            let mut condition = Condition::new(&which, args![project]);
            let words = filter.text.iter().flat_map(|text| text.split_whitespace());
            for word in words.take(WORDS_MAX) {
                condition.and_search(&[title, about], None, word);
            }
            if let Some(access_kind) = access_kind {
                condition.and_visible(filter.visibility.of(access_kind), "o");
            }
            let fit = match &filter.text {
                Some(text) => condition.match_score(title, text),
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
