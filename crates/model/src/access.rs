//! Access control: rules that grant a level in a project, on all objects of a kind, or on one object.
//!
//! A rule applies to one member, to a role, or to everyone. Rules on an object override rules on its
//! kind. If any rule names the viewer or one of their roles, the highest of those levels wins and
//! rules for everyone are ignored.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AccessLevel, UserId};

/// The kinds of objects that access rules cover.
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

/// A member's access level in a project.
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
    /// The level without any rule.
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
    /// The level without any rule.
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

/// Whether a rule reaches the viewer by name or because it is for everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliesTo {
    Everyone,
    /// The viewer, or a role of theirs.
    Named,
}

/// The highest level that rules on one target grant, by how they reach the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RuleLevels<L> {
    everyone: Option<L>,
    named: Option<L>,
}

impl<L> Default for RuleLevels<L> {
    fn default() -> Self {
        Self { everyone: None, named: None }
    }
}

impl<L: Copy + Ord> RuleLevels<L> {
    fn add(&mut self, applies_to: AppliesTo, level: L) {
        let current = match applies_to {
            AppliesTo::Everyone => &mut self.everyone,
            AppliesTo::Named => &mut self.named,
        };
        *current = (*current).max(Some(level));
    }

    fn level(self) -> Option<L> {
        self.named.or(self.everyone)
    }
}

/// The access rules of a project as they apply to one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    project: RuleLevels<ProjectAccess>,
    kinds: HashMap<ObjectKind, RuleLevels<AccessLevel>>,
    objects: HashMap<(ObjectKind, i64), RuleLevels<AccessLevel>>,
}

impl Access {
    pub fn add_project_rule(&mut self, applies_to: AppliesTo, level: ProjectAccess) {
        self.project.add(applies_to, level);
    }

    pub fn add_kind_rule(&mut self, kind: ObjectKind, applies_to: AppliesTo, level: AccessLevel) {
        self.kinds.entry(kind).or_default().add(applies_to, level);
    }

    pub fn add_object_rule(
        &mut self,
        kind: ObjectKind,
        id: i64,
        applies_to: AppliesTo,
        level: AccessLevel,
    ) {
        self.objects.entry((kind, id)).or_default().add(applies_to, level);
    }

    pub fn project(&self) -> ProjectAccess {
        self.project.level().unwrap_or(ProjectAccess::DEFAULT)
    }

    pub fn of_kind(&self, kind: ObjectKind) -> AccessLevel {
        let level = self.kinds.get(&kind).and_then(|rules| rules.level());
        level.unwrap_or(AccessLevel::DEFAULT)
    }

    pub fn of_object(&self, kind: ObjectKind, id: i64) -> AccessLevel {
        let level = self.objects.get(&(kind, id)).and_then(|rules| rules.level());
        level.unwrap_or_else(|| self.of_kind(kind))
    }
}

/// A member and their access, against which objects are checked.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'a> {
    pub user: UserId,
    /// Project admins bypass all rules.
    pub is_admin: bool,
    pub access: &'a Access,
}

impl Viewer<'_> {
    /// Authors and admins always have the `Manager` level.
    pub fn level(self, kind: ObjectKind, id: i64, author: Option<UserId>) -> AccessLevel {
        match self.is_admin || author == Some(self.user) {
            true => AccessLevel::Manager,
            false => self.access.of_object(kind, id),
        }
    }

    pub fn level_of_kind(self, kind: ObjectKind) -> AccessLevel {
        match self.is_admin {
            true => AccessLevel::Manager,
            false => self.access.of_kind(kind),
        }
    }

    /// Creating an object takes the `Editor` level on its kind.
    pub fn can_create(self, kind: ObjectKind) -> bool {
        self.level_of_kind(kind) >= AccessLevel::Editor
    }

    pub fn visibilities(self) -> Visibilities {
        Visibilities(
            ObjectKind::ALL.into_iter().map(|kind| (kind, self.visibility(kind))).collect(),
        )
    }

    pub fn visibility(self, kind: ObjectKind) -> Visibility {
        if self.is_admin {
            return Visibility::Everything;
        }
        let is_hidden = self.access.of_kind(kind) == AccessLevel::None;
        let differs =
            |id: &i64| (self.access.of_object(kind, *id) == AccessLevel::None) != is_hidden;
        let of_kind = self.access.objects.keys().filter(|(known, _)| *known == kind);
        let mut ids: Vec<i64> = of_kind.map(|(_, id)| *id).filter(differs).collect();
        ids.sort_unstable();
        match (is_hidden, ids.is_empty()) {
            (false, true) => Visibility::Everything,
            (false, false) => Visibility::AllExcept { hidden: ids, viewer: self.user },
            (true, _) => Visibility::Only { visible: ids, viewer: self.user },
        }
    }
}

/// Which objects of a kind a viewer sees: by id, plus all objects they created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    #[default]
    Everything,
    AllExcept {
        hidden: Vec<i64>,
        viewer: UserId,
    },
    Only {
        visible: Vec<i64>,
        viewer: UserId,
    },
}

impl Visibility {
    pub fn holds(&self, id: i64, author: Option<UserId>) -> bool {
        match self {
            Self::Everything => true,
            Self::AllExcept { hidden, viewer } => author == Some(*viewer) || !hidden.contains(&id),
            Self::Only { visible, viewer } => author == Some(*viewer) || visible.contains(&id),
        }
    }
}

/// A viewer's [`Visibility`] of every kind; a kind without an entry is fully visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visibilities(Vec<(ObjectKind, Visibility)>);

impl Visibilities {
    pub fn of(&self, kind: ObjectKind) -> &Visibility {
        let entry = self.0.iter().find(|(known, _)| *known == kind);
        entry.map_or(&Visibility::Everything, |(_, visibility)| visibility)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ObjectKind, &Visibility)> {
        self.0.iter().map(|(kind, visibility)| (*kind, visibility))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessLevel::{Editor, Manager, None as Nothing, Viewer as View};
    use AppliesTo::{Everyone, Named};
    use ObjectKind::{Dashboard, Insight};

    #[test]
    fn object_rules_override_kind_rules_and_the_highest_named_level_wins() {
        let mut access = Access::default();
        assert_eq!(access.of_object(Dashboard, 1), Editor);
        access.add_kind_rule(Dashboard, Everyone, View);
        assert_eq!(access.of_object(Dashboard, 1), View);
        assert_eq!(access.of_object(Insight, 1), Editor);
        access.add_kind_rule(Dashboard, Named, Nothing);
        assert_eq!(access.of_object(Dashboard, 1), Nothing);
        access.add_kind_rule(Dashboard, Named, View);
        assert_eq!(access.of_object(Dashboard, 1), View);
        access.add_object_rule(Dashboard, 1, Everyone, Manager);
        assert_eq!(
            (access.of_object(Dashboard, 1), access.of_object(Dashboard, 2)),
            (Manager, View)
        );
        access.add_object_rule(Dashboard, 1, Named, Nothing);
        assert_eq!(access.of_object(Dashboard, 1), Nothing);

        assert_eq!(access.project(), ProjectAccess::Member);
        access.add_project_rule(Everyone, ProjectAccess::None);
        assert_eq!(access.project(), ProjectAccess::None);
        access.add_project_rule(Named, ProjectAccess::Admin);
        assert_eq!(access.project(), ProjectAccess::Admin);
    }

    #[test]
    fn visibility_follows_from_access_rules_and_authorship() {
        let viewer = UserId(1);
        let mut access = Access::default();
        let visibility = |access: &Access, is_admin| {
            Viewer { user: viewer, is_admin, access }.visibility(Dashboard)
        };
        assert_eq!(visibility(&access, false), Visibility::Everything);
        access.add_object_rule(Dashboard, 7, Everyone, Nothing);
        access.add_object_rule(Dashboard, 8, Everyone, View);
        access.add_object_rule(Insight, 9, Everyone, Nothing);
        let but = visibility(&access, false);
        assert_eq!(but, Visibility::AllExcept { hidden: vec![7], viewer });
        assert!(but.holds(1, None) && !but.holds(7, Some(UserId(2))) && but.holds(7, Some(viewer)));
        access.add_kind_rule(Dashboard, Named, Nothing);
        let only = visibility(&access, false);
        assert_eq!(only, Visibility::Only { visible: vec![8], viewer });
        assert!(!only.holds(1, None) && only.holds(8, None) && only.holds(1, Some(viewer)));
        assert_eq!(visibility(&access, true), Visibility::Everything);
    }
}
