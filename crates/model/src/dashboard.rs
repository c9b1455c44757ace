//! Dashboards: tiles (insights, notes, buttons) on a grid, and the permissions on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json_shapes::TileLayouts;
use crate::{
    AccessLevel, ButtonId, DashboardId, InsightId, NoteId, ObjectKind, ProjectId, TileId,
    Timestamp, User, UserId, Viewer,
};

/// An enum that the API sends as a number.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $number:literal),+ }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(into = "i64", try_from = "i64")]
        #[schemars(with = "i64")]
        pub enum $name {
            $($(#[$about])* $variant = $number),+
        }

        impl From<$name> for i64 {
            fn from(value: $name) -> Self {
                value as Self
            }
        }

        impl TryFrom<i64> for $name {
            type Error = String;

            fn try_from(number: i64) -> Result<Self, String> {
                match number {
                    $($number => Ok(Self::$variant),)+
                    other => Err(format!("\"{other}\" is not a valid choice.")),
                }
            }
        }
    };
}

numbered!(
    /// Who may edit a dashboard.
    Restriction {
        /// All members of the project.
        Everyone = 21,
        /// Its author, project admins and invited collaborators.
        Collaborators = 37
    }
);
numbered!(
    /// What a viewer may do with a dashboard.
    Privilege { View = 21, Edit = 37 }
);

/// How a dashboard was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CreationMode {
    Default,
    Template,
    Duplicate,
    /// Belongs to another object; lists omit it.
    Unlisted,
}

impl CreationMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Template => "template",
            Self::Duplicate => "duplicate",
            Self::Unlisted => "unlisted",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Default, Self::Template, Self::Duplicate, Self::Unlisted]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// The inputs that decide a viewer's [`Rights`] on one dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DashboardPolicy {
    pub dashboard: DashboardId,
    pub restriction: Restriction,
    pub author: Option<UserId>,
    /// Whether the viewer was invited as a collaborator.
    pub is_collaborator: bool,
}

/// What a viewer may do with one dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    pub restriction: Restriction,
    pub privilege: Privilege,
    /// May change the restriction and the collaborators.
    pub can_restrict: bool,
    /// The effective level under access rules and the restriction.
    pub level: AccessLevel,
}

impl DashboardPolicy {
    pub fn rights(self, viewer: Viewer) -> Rights {
        let can_restrict = viewer.is_admin || self.author == Some(viewer.user);
        let open = self.restriction == Restriction::Everyone;
        let privilege = match open || can_restrict || self.is_collaborator {
            true => Privilege::Edit,
            false => Privilege::View,
        };
        let level = viewer.level(ObjectKind::Dashboard, self.dashboard.0, self.author);
        Rights { restriction: self.restriction, privilege, can_restrict, level }.reconciled()
    }
}

impl Rights {
    /// The rights of an anonymous visitor of a shared page.
    pub const PUBLIC: Self = Self {
        restriction: Restriction::Collaborators,
        privilege: Privilege::View,
        can_restrict: false,
        level: AccessLevel::Viewer,
    };

    /// Editing takes both the edit privilege (restriction) and the `Editor` level (access rules);
    /// lacking either lowers both to viewing.
    pub(crate) fn reconciled(self) -> Self {
        if self.privilege == Privilege::Edit && self.level >= AccessLevel::Editor {
            return self;
        }
        Self { privilege: Privilege::View, level: self.level.min(AccessLevel::Viewer), ..self }
    }

    pub fn can_view(self) -> bool {
        self.level > AccessLevel::None
    }

    pub fn can_edit(self) -> bool {
        self.privilege == Privilege::Edit
    }
}

/// A dashboard without its tiles, as lists return it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DashboardHead {
    pub id: DashboardId,
    pub name: Option<String>,
    pub description: String,
    pub pinned: bool,
    pub created_at: Timestamp,
    pub created_by: Option<User>,
    pub last_accessed_at: Option<Timestamp>,
    pub last_viewed_at: Option<Timestamp>,
    pub is_shared: bool,
    pub deleted: bool,
    pub creation_mode: CreationMode,
    pub tags: Vec<String>,
    pub restriction_level: Restriction,
    pub last_refresh: Option<Timestamp>,
    /// Increased by every change of the dashboard or its tiles.
    pub version: i64,
    pub team_id: ProjectId,
    /// Whether the viewer was invited as a collaborator.
    #[serde(skip)]
    pub is_collaborator: bool,
}

impl DashboardHead {
    pub fn policy(&self) -> DashboardPolicy {
        DashboardPolicy {
            dashboard: self.id,
            restriction: self.restriction_level,
            author: self.created_by.as_ref().map(|author| author.id),
            is_collaborator: self.is_collaborator,
        }
    }
}

/// Dashboard-wide filters and colors. The server stores them without interpreting them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "DashboardLook")]
pub struct DashboardPresentation {
    #[schemars(schema_with = "crate::json_shapes::filter_overrides")]
    pub filters: Map<String, Value>,
    #[schemars(schema_with = "crate::json_shapes::variables")]
    pub variables: Option<Map<String, Value>>,
    pub breakdown_colors: Vec<Value>,
    pub data_color_theme_id: Option<i64>,
    pub quick_filter_ids: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Dashboard {
    #[serde(flatten)]
    pub head: DashboardHead,
    #[serde(flatten)]
    pub presentation: DashboardPresentation,
}

/// Layout and display options of a tile, independent of its content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TileLook")]
pub struct TilePresentation {
    /// Position and size per breakpoint (`sm`, `xs`).
    #[schemars(with = "TileLayouts")]
    pub layouts: Map<String, Value>,
    pub color: Option<String>,
    #[schemars(schema_with = "crate::json_shapes::filter_overrides")]
    pub filters_overrides: Map<String, Value>,
    pub show_description: Option<bool>,
    pub transparent_background: Option<bool>,
}

/// Row and column of a tile without a layout: it sorts after all others.
const UNPLACED: f64 = 100.0;

impl TilePresentation {
    /// Row and column at the breakpoint `size`.
    pub fn position(&self, size: &str) -> (f64, f64) {
        let at = |axis: &str| self.layouts.get(size)?.get(axis)?.as_f64();
        (at("y").unwrap_or(UNPLACED), at("x").unwrap_or(UNPLACED))
    }
}

/// A tile and its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    pub id: TileId,
    pub presentation: TilePresentation,
    pub content: TileContent,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TileContent {
    Insight(InsightId),
    Note(Box<Note>),
    Button(ButtonId, Button),
}

/// A text note on a dashboard.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Note {
    pub id: NoteId,
    pub body: String,
    pub created_by: Option<User>,
    pub last_modified_by: Option<User>,
    pub last_modified_at: Timestamp,
    pub team: ProjectId,
    pub dashboard_tiles: Vec<TileRef>,
}

/// A tile that shows an insight or a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "TilePlace")]
pub struct TileRef {
    pub id: TileId,
    pub dashboard_id: DashboardId,
    pub deleted: bool,
}

/// A link on a dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Button {
    pub url: String,
    pub text: String,
    pub placement: ButtonPlacement,
    pub style: ButtonStyle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ButtonPlacement {
    #[default]
    Left,
    Right,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ButtonStyle {
    #[default]
    Primary,
    Secondary,
}

impl ButtonPlacement {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Left, Self::Right].into_iter().find(|one| one.as_str() == text)
    }
}

impl ButtonStyle {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Primary, Self::Secondary].into_iter().find(|one| one.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AppliesTo};

    #[test]
    fn dashboard_rights_follow_from_restriction_author_admin_collaborator_and_rules() {
        use AccessLevel::{Editor, Manager, None as Nothing, Viewer as Views};
        use Privilege::{Edit, View};
        use Restriction::{Collaborators, Everyone};
        // restriction, is_author, is_admin, is_collaborator, rule -> privilege, may restrict, level
        for (
            restriction,
            is_author,
            is_admin,
            is_collaborator,
            rule,
            privilege,
            restricts,
            level,
        ) in [
            (Everyone, false, false, false, Editor, Edit, false, Editor),
            (Everyone, true, false, false, Editor, Edit, true, Manager),
            (Everyone, false, true, false, Editor, Edit, true, Manager),
            (Collaborators, false, false, false, Editor, View, false, Views),
            (Collaborators, false, false, true, Editor, Edit, false, Editor),
            (Collaborators, true, false, false, Editor, Edit, true, Manager),
            (Collaborators, false, true, false, Editor, Edit, true, Manager),
            (Everyone, false, false, false, Views, View, false, Views),
            (Everyone, false, false, false, Nothing, View, false, Nothing),
            (Everyone, false, false, false, Manager, Edit, false, Manager),
            (Collaborators, false, false, false, Manager, View, false, Views),
            (Collaborators, false, false, true, Manager, Edit, false, Manager),
            (Collaborators, false, false, true, Views, View, false, Views),
            (Collaborators, false, false, true, Nothing, View, false, Nothing),
            (Everyone, true, false, false, Nothing, Edit, true, Manager),
            (Everyone, false, true, false, Nothing, Edit, true, Manager),
        ] {
            let author = Some(UserId(if is_author { 1 } else { 2 }));
            let dashboard = DashboardId(7);
            let policy = DashboardPolicy { dashboard, restriction, author, is_collaborator };
            let mut access = Access::default();
            access.add_object_rule(ObjectKind::Dashboard, 7, AppliesTo::Everyone, rule);
            let viewer = Viewer { user: UserId(1), is_admin, access: &access };
            let expected = Rights { restriction, privilege, can_restrict: restricts, level };
            assert_eq!(policy.rights(viewer), expected, "{policy:?} {rule:?}");
        }
        assert!(Rights::PUBLIC.can_view() && !Rights::PUBLIC.can_edit());
    }
}
