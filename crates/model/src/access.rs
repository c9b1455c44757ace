//! Access rules: how far people go in a project, with its objects of a kind, and with one object.
//!
//! A rule is for one member, for a role, or for everybody. What is said of one object comes before
//! what is said of its kind. Where rules name somebody or a role of theirs, the furthest of those
//! counts, and what is said to everybody does not.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AccessLevel, UserId};

/// The kinds of objects that rules may be about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    Action,
    Dashboard,
    FeatureFlag,
    Insight,
}

/// How far somebody may go in a project.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProjectAccess {
    None,
    Member,
    Admin,
}

impl ObjectKind {
    pub const ALL: [Self; 4] = [Self::Action, Self::Dashboard, Self::FeatureFlag, Self::Insight];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Dashboard => "dashboard",
            Self::FeatureFlag => "feature_flag",
            Self::Insight => "insight",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl ProjectAccess {
    pub const ALL: [Self; 3] = [Self::None, Self::Member, Self::Admin];
    /// Where no rule speaks.
    pub const DEFAULT: Self = Self::Member;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

impl AccessLevel {
    pub const ALL: [Self; 4] = [Self::None, Self::Viewer, Self::Editor, Self::Manager];
    /// Where no rule speaks.
    pub const DEFAULT: Self = Self::Editor;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Manager => "manager",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

/// To whom a rule speaks, seen by one who hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    Everybody,
    /// Them, or a role of theirs.
    Them,
}

/// What several rules about one thing say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said<L> {
    everybody: Option<L>,
    them: Option<L>,
}

impl<L> Default for Said<L> {
    fn default() -> Self {
        Self { everybody: None, them: None }
    }
}

impl<L: Copy + Ord> Said<L> {
    fn hear(&mut self, whom: Whom, level: L) {
        let heard = match whom {
            Whom::Everybody => &mut self.everybody,
            Whom::Them => &mut self.them,
        };
        *heard = (*heard).max(Some(level));
    }

    fn level(self) -> Option<L> {
        self.them.or(self.everybody)
    }
}

/// What the rules of a project say to one of its people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    project: Said<ProjectAccess>,
    kinds: HashMap<ObjectKind, Said<AccessLevel>>,
    objects: HashMap<(ObjectKind, i64), Said<AccessLevel>>,
}

impl Access {
    pub fn hear_of_project(&mut self, whom: Whom, level: ProjectAccess) {
        self.project.hear(whom, level);
    }

    pub fn hear_of_kind(&mut self, kind: ObjectKind, whom: Whom, level: AccessLevel) {
        self.kinds.entry(kind).or_default().hear(whom, level);
    }

    pub fn hear_of_object(&mut self, kind: ObjectKind, id: i64, whom: Whom, level: AccessLevel) {
        self.objects.entry((kind, id)).or_default().hear(whom, level);
    }

    pub fn project(&self) -> ProjectAccess {
        self.project.level().unwrap_or(ProjectAccess::DEFAULT)
    }

    pub fn of_kind(&self, kind: ObjectKind) -> AccessLevel {
        let said = self.kinds.get(&kind).and_then(|said| said.level());
        said.unwrap_or(AccessLevel::DEFAULT)
    }

    pub fn of_object(&self, kind: ObjectKind, id: i64) -> AccessLevel {
        let said = self.objects.get(&(kind, id)).and_then(|said| said.level());
        said.unwrap_or_else(|| self.of_kind(kind))
    }
}

/// Who looks at a project's objects.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'a> {
    pub user: UserId,
    /// Administrators of the project may do everything in it, whatever rules say.
    pub administrates: bool,
    pub access: &'a Access,
}

impl Viewer<'_> {
    /// Nobody is kept from what they made.
    pub fn level(self, kind: ObjectKind, id: i64, author: Option<UserId>) -> AccessLevel {
        match self.administrates || author == Some(self.user) {
            true => AccessLevel::Manager,
            false => self.access.of_object(kind, id),
        }
    }

    pub fn level_of_kind(self, kind: ObjectKind) -> AccessLevel {
        match self.administrates {
            true => AccessLevel::Manager,
            false => self.access.of_kind(kind),
        }
    }

    /// Whoever may edit all objects of a kind may make one.
    pub fn can_make(self, kind: ObjectKind) -> bool {
        self.level_of_kind(kind) >= AccessLevel::Editor
    }

    pub fn sights(self) -> Sights {
        Sights(ObjectKind::ALL.into_iter().map(|kind| (kind, self.sight(kind))).collect())
    }

    pub fn sight(self, kind: ObjectKind) -> Sight {
        if self.administrates {
            return Sight::Everything;
        }
        let is_hidden = self.access.of_kind(kind) == AccessLevel::None;
        let differs =
            |id: &i64| (self.access.of_object(kind, *id) == AccessLevel::None) != is_hidden;
        let of_kind = self.access.objects.keys().filter(|(known, _)| *known == kind);
        let mut ids: Vec<i64> = of_kind.map(|(_, id)| *id).filter(differs).collect();
        ids.sort_unstable();
        match (is_hidden, ids.is_empty()) {
            (false, true) => Sight::Everything,
            (false, false) => Sight::AllBut { hidden: ids, own: self.user },
            (true, _) => Sight::Only { seen: ids, own: self.user },
        }
    }
}

/// Which objects of a kind somebody sees: by number, and whatever they made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    #[default]
    Everything,
    AllBut {
        hidden: Vec<i64>,
        own: UserId,
    },
    Only {
        seen: Vec<i64>,
        own: UserId,
    },
}

impl Sight {
    pub fn holds(&self, id: i64, author: Option<UserId>) -> bool {
        match self {
            Self::Everything => true,
            Self::AllBut { hidden, own } => author == Some(*own) || !hidden.contains(&id),
            Self::Only { seen, own } => author == Some(*own) || seen.contains(&id),
        }
    }
}

/// What somebody sees of every kind; of a kind that is not told, everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sights(Vec<(ObjectKind, Sight)>);

impl Sights {
    pub fn of(&self, kind: ObjectKind) -> &Sight {
        let told = self.0.iter().find(|(known, _)| *known == kind);
        told.map_or(&Sight::Everything, |(_, sight)| sight)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ObjectKind, &Sight)> {
        self.0.iter().map(|(kind, sight)| (*kind, sight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessLevel::{Editor, Manager, None as Nothing, Viewer as View};
    use ObjectKind::{Dashboard, Insight};
    use Whom::{Everybody, Them};

    #[test]
    fn the_nearest_rule_counts_and_of_several_the_furthest() {
        let mut access = Access::default();
        assert_eq!(access.of_object(Dashboard, 1), Editor);
        access.hear_of_kind(Dashboard, Everybody, View);
        assert_eq!(access.of_object(Dashboard, 1), View);
        assert_eq!(access.of_object(Insight, 1), Editor);
        access.hear_of_kind(Dashboard, Them, Nothing);
        assert_eq!(access.of_object(Dashboard, 1), Nothing);
        access.hear_of_kind(Dashboard, Them, View);
        assert_eq!(access.of_object(Dashboard, 1), View);
        access.hear_of_object(Dashboard, 1, Everybody, Manager);
        assert_eq!(
            (access.of_object(Dashboard, 1), access.of_object(Dashboard, 2)),
            (Manager, View)
        );
        access.hear_of_object(Dashboard, 1, Them, Nothing);
        assert_eq!(access.of_object(Dashboard, 1), Nothing);

        assert_eq!(access.project(), ProjectAccess::Member);
        access.hear_of_project(Everybody, ProjectAccess::None);
        assert_eq!(access.project(), ProjectAccess::None);
        access.hear_of_project(Them, ProjectAccess::Admin);
        assert_eq!(access.project(), ProjectAccess::Admin);
    }

    #[test]
    fn what_is_seen_is_what_the_rules_leave() {
        let own = UserId(1);
        let mut access = Access::default();
        let sight = |access: &Access, administrates| {
            Viewer { user: own, administrates, access }.sight(Dashboard)
        };
        assert_eq!(sight(&access, false), Sight::Everything);
        access.hear_of_object(Dashboard, 7, Everybody, Nothing);
        access.hear_of_object(Dashboard, 8, Everybody, View);
        access.hear_of_object(Insight, 9, Everybody, Nothing);
        let but = sight(&access, false);
        assert_eq!(but, Sight::AllBut { hidden: vec![7], own });
        assert!(but.holds(1, None) && !but.holds(7, Some(UserId(2))) && but.holds(7, Some(own)));
        access.hear_of_kind(Dashboard, Them, Nothing);
        let only = sight(&access, false);
        assert_eq!(only, Sight::Only { seen: vec![8], own });
        assert!(!only.holds(1, None) && only.holds(8, None) && only.holds(1, Some(own)));
        assert_eq!(sight(&access, true), Sight::Everything);
    }
}
