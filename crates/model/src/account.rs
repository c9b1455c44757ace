//! Users, organizations, their settings, and membership and access levels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::UserId;
use crate::settings::{Default, Kind, Setting, Settings, SettingsChange, SettingsSchema};

/// A user as API objects embed it (`created_by`, `last_modified_by`).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct User {
    pub id: UserId,
    pub uuid: Uuid,
    pub distinct_id: String,
    pub first_name: String,
    pub last_name: String,
    pub email: String,
    pub is_email_verified: bool,
    pub hedgehog_config: Option<serde_json::Value>,
    pub role_at_organization: Option<String>,
}

pub enum UserSchema {}

/// Settings of a user. The server stores them for clients and reads none of them.
pub type UserSettings = Settings<UserSchema>;
pub type UserSettingsChange = SettingsChange<UserSchema>;

impl SettingsSchema for UserSchema {
    const NAME: &'static str = "UserSettings";
    const SETTINGS: &'static [Setting] = &[
        Setting::always("notification_settings", Kind::Object, Default::Object),
        Setting::switch("anonymize_data", false).or_null(),
        Setting::always(
            "toolbar_mode",
            Kind::Word(&["disabled", "toolbar"]),
            Default::Text("toolbar"),
        )
        .or_null(),
        Setting::always("events_column_config", Kind::Object, Default::Entry("active", "DEFAULT")),
        Setting::open("has_seen_product_intro_for", Kind::Object),
        Setting::open("theme_mode", Kind::Word(&["light", "dark", "system"])),
        Setting::open("hedgehog_config", Kind::Object),
        Setting::open("role_at_organization", Kind::Word(ROLES)),
    ];
}

/// Values of `role_at_organization`; upstream's list.
const ROLES: &[&str] = &[
    "engineering",
    "data",
    "product",
    "founder",
    "leadership",
    "management",
    "marketing",
    "sales",
    "other",
];

/// A member's access level on one object, or on all objects of a kind.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AccessLevel {
    None,
    Viewer,
    Editor,
    Manager,
}

/// A member's level in an organization; the API sends these numbers.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(into = "i64", try_from = "i64")]
#[schemars(rename = "Level", with = "i64")]
pub enum MembershipLevel {
    Member = 1,
    Admin = 8,
    Owner = 15,
}

impl From<MembershipLevel> for i64 {
    fn from(level: MembershipLevel) -> Self {
        level as Self
    }
}

impl TryFrom<i64> for MembershipLevel {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        match number {
            1 => Ok(Self::Member),
            8 => Ok(Self::Admin),
            15 => Ok(Self::Owner),
            other => Err(format!("\"{other}\" is not a valid choice.")),
        }
    }
}

/// A role's access to feature flags; the API sends these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "i64", try_from = "i64")]
#[schemars(with = "i64")]
pub enum FlagAccess {
    View = 21,
    Edit = 37,
}

impl From<FlagAccess> for i64 {
    fn from(access: FlagAccess) -> Self {
        access as Self
    }
}

impl TryFrom<i64> for FlagAccess {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        match number {
            21 => Ok(Self::View),
            37 => Ok(Self::Edit),
            other => Err(format!("\"{other}\" is not a valid choice.")),
        }
    }
}

pub enum OrganizationSchema {}

/// Settings that admins change for a whole organization.
pub type OrganizationSettings = Settings<OrganizationSchema>;
pub type OrganizationSettingsChange = SettingsChange<OrganizationSchema>;

const LOGO_MEDIA_ID: &str = "logo_media_id";
const MEMBERS_CAN_USE_PERSONAL_API_KEYS: &str = "members_can_use_personal_api_keys";
const ALLOW_PUBLICLY_SHARED_RESOURCES: &str = "allow_publicly_shared_resources";
const FEATURE_FLAGS_ACCESS_LEVEL: &str = "feature_flags_access_level";

impl SettingsSchema for OrganizationSchema {
    const NAME: &'static str = "OrganizationSettings";
    const SETTINGS: &'static [Setting] = &[
        Setting::open(LOGO_MEDIA_ID, Kind::Text),
        Setting::open("enforce_2fa", Kind::Bool),
        Setting::switch("is_member_join_email_enabled", true),
        Setting::switch("members_can_invite", true),
        Setting::switch(MEMBERS_CAN_USE_PERSONAL_API_KEYS, true),
        Setting::switch(ALLOW_PUBLICLY_SHARED_RESOURCES, true),
        // Below 37 only some members may edit feature flags; null: no restriction.
        Setting::open(FEATURE_FLAGS_ACCESS_LEVEL, Kind::Number(&[21, 37])),
        Setting::always(
            "default_experiment_stats_method",
            Kind::Word(&["bayesian", "frequentist"]),
            Default::Text("bayesian"),
        ),
    ];
}

/// The settings that the program reads. A stored value of another type counts as not set.
impl OrganizationSettings {
    /// When off, personal API keys of plain members are refused in this organization.
    pub fn members_can_use_personal_api_keys(&self) -> bool {
        self.is_on(MEMBERS_CAN_USE_PERSONAL_API_KEYS)
    }

    /// When off, no link can be enabled, and enabled ones answer 404.
    pub fn allow_publicly_shared_resources(&self) -> bool {
        self.is_on(ALLOW_PUBLICLY_SHARED_RESOURCES)
    }

    /// Whether only some members may edit feature flags.
    pub fn restricts_flag_editing(&self) -> bool {
        let level = self.value(FEATURE_FLAGS_ACCESS_LEVEL).as_i64();
        level.is_some_and(|level| level < i64::from(FlagAccess::Edit))
    }

    /// Stored for clients; shown in a user's list of organizations too.
    pub fn logo_media_id(&self) -> serde_json::Value {
        self.value(LOGO_MEDIA_ID).into_owned()
    }
}
