//! The settings of a project.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;

use crate::DashboardId;
use crate::settings::{
    Default, ItemSchema, Kind, Setting, Settings, SettingsChange, SettingsSchema,
};

const ANONYMIZE_IPS: &str = "anonymize_ips";
const PERSON_PROCESSING_OPT_OUT: &str = "person_processing_opt_out";
const DROP_EVENTS_OLDER_THAN_SECONDS: &str = "drop_events_older_than_seconds";
const COMPLETED_SNIPPET_ONBOARDING: &str = "completed_snippet_onboarding";
const PATH_CLEANING_FILTERS: &str = "path_cleaning_filters";
const IS_DEMO: &str = "is_demo";
const PERSON_DISPLAY_NAME_PROPERTIES: &str = "person_display_name_properties";
const AUTOCAPTURE_OPT_OUT: &str = "autocapture_opt_out";
const AUTOCAPTURE_EXCEPTIONS_OPT_IN: &str = "autocapture_exceptions_opt_in";
const AUTOCAPTURE_WEB_VITALS_OPT_IN: &str = "autocapture_web_vitals_opt_in";
const HEATMAPS_OPT_IN: &str = "heatmaps_opt_in";
const ACCESS_CONTROL: &str = "access_control";
const WEEK_START_DAY: &str = "week_start_day";
const HAS_COMPLETED_ONBOARDING_FOR: &str = "has_completed_onboarding_for";

pub enum ProjectSchema {}

pub type ProjectSettings = Settings<ProjectSchema>;
pub type ProjectSettingsChange = SettingsChange<ProjectSchema>;

impl SettingsSchema for ProjectSchema {
    const NAME: &'static str = "ProjectSettings";
    const SETTINGS: &'static [Setting] = &[
        Setting::open("product_description", Kind::Text),
        Setting::always("app_urls", Kind::Texts, Default::Texts(&[])),
        Setting::switch(ANONYMIZE_IPS, false),
        Setting::open(PERSON_PROCESSING_OPT_OUT, Kind::Bool),
        Setting::open(DROP_EVENTS_OLDER_THAN_SECONDS, Kind::Integer),
        Setting::switch(COMPLETED_SNIPPET_ONBOARDING, true),
        Setting::always(
            ProjectSettings::TEST_ACCOUNT_FILTERS,
            Kind::Objects(ItemSchema::PropertyFilter),
            Default::Texts(&[]),
        ),
        Setting::open("test_account_filters_default_checked", Kind::Bool),
        Setting::always(
            PATH_CLEANING_FILTERS,
            Kind::Objects(ItemSchema::PathCleaningFilter),
            Default::Texts(&[]),
        )
        .or_null(),
        Setting::switch(IS_DEMO, false),
        Setting::always("data_attributes", Kind::Texts, Default::Texts(&["data-attr"])),
        Setting::open(PERSON_DISPLAY_NAME_PROPERTIES, Kind::Texts),
        Setting::open("correlation_config", Kind::Object),
        Setting::switch(AUTOCAPTURE_OPT_OUT, false).or_null(),
        Setting::switch(AUTOCAPTURE_EXCEPTIONS_OPT_IN, false).or_null(),
        Setting::open(AUTOCAPTURE_WEB_VITALS_OPT_IN, Kind::Bool),
        Setting::switch("session_recording_opt_in", false),
        Setting::switch("capture_console_log_opt_in", true).or_null(),
        Setting::switch("capture_performance_opt_in", true).or_null(),
        Setting::open("surveys_opt_in", Kind::Bool),
        Setting::open(HEATMAPS_OPT_IN, Kind::Bool),
        // 0: off, 1: stateless, 2: stateful; upstream's numbers.
        Setting::open("cookieless_server_hash_mode", Kind::Number(&[0, 1, 2])),
        Setting::open("recording_domains", Kind::Texts),
        Setting::switch(ACCESS_CONTROL, false),
        // 0: Sunday, 1: Monday.
        Setting::open(WEEK_START_DAY, Kind::Number(&[0, 1])),
        Setting::open(ProjectSettings::PRIMARY_DASHBOARD, Kind::Integer),
        Setting::open("live_events_columns", Kind::Texts),
        Setting::open("inject_web_apps", Kind::Bool),
        Setting::open("extra_settings", Kind::Object),
        Setting::open("modifiers", Kind::Object),
        Setting::open(HAS_COMPLETED_ONBOARDING_FOR, Kind::Object),
        Setting::open("flags_persistence_default", Kind::Bool),
        Setting::always("base_currency", Kind::Currency, Default::Text("USD")),
    ];
}

/// The settings that the program reads. A stored value of another type counts as not set.
impl ProjectSettings {
    /// Names that errors refer to.
    pub const PRIMARY_DASHBOARD: &str = "primary_dashboard";
    pub const TEST_ACCOUNT_FILTERS: &str = "test_account_filters";

    /// Ingestion removes `$ip`.
    pub fn anonymize_ips(&self) -> bool {
        self.is_on(ANONYMIZE_IPS)
    }

    /// Ingestion creates and changes no persons.
    pub fn person_processing_opt_out(&self) -> bool {
        self.is_on(PERSON_PROCESSING_OPT_OUT)
    }

    /// The age at which ingestion drops events; never zero.
    pub fn drop_events_older_than(&self) -> Option<Duration> {
        let seconds = self.value(DROP_EVENTS_OLDER_THAN_SECONDS).as_i64()?;
        let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds))
    }

    /// Otherwise it starts on Sunday.
    pub fn week_starts_monday(&self) -> bool {
        self.value(WEEK_START_DAY).as_i64() == Some(1)
    }

    /// A list of property filters, which `facts` parses with those of a query.
    pub fn test_account_filters(&self) -> Cow<'_, Value> {
        self.value(Self::TEST_ACCOUNT_FILTERS)
    }

    /// A list of `{alias, regex}`, or null.
    pub fn path_cleaning_filters(&self) -> Cow<'_, Value> {
        self.value(PATH_CLEANING_FILTERS)
    }

    /// The values that change the results of queries, as stored: a part of the result cache's key.
    pub fn result_cache_key(&self) -> [Cow<'_, Value>; 3] {
        [WEEK_START_DAY, Self::TEST_ACCOUNT_FILTERS, PATH_CLEANING_FILTERS]
            .map(|name| self.value(name))
    }

    /// Properties that hold a person's display name, the preferred one first; empty if not set.
    pub fn person_display_name_properties(&self) -> Vec<String> {
        Vec::deserialize(&*self.value(PERSON_DISPLAY_NAME_PROPERTIES)).unwrap_or_default()
    }

    pub fn primary_dashboard(&self) -> Option<DashboardId> {
        self.value(Self::PRIMARY_DASHBOARD).as_i64().map(DashboardId)
    }

    pub fn reset_primary_dashboard(&mut self) {
        self.reset(Self::PRIMARY_DASHBOARD);
    }

    /// Whether members need an access rule (`access_control`).
    pub fn is_private(&self) -> bool {
        self.is_on(ACCESS_CONTROL)
    }

    pub fn set_private(&mut self, private: bool) {
        self.set(ACCESS_CONTROL, private.into());
    }

    pub fn autocapture_opt_out(&self) -> bool {
        self.is_on(AUTOCAPTURE_OPT_OUT)
    }

    pub fn autocapture_exceptions_opt_in(&self) -> bool {
        self.is_on(AUTOCAPTURE_EXCEPTIONS_OPT_IN)
    }

    pub fn autocapture_web_vitals_opt_in(&self) -> bool {
        self.is_on(AUTOCAPTURE_WEB_VITALS_OPT_IN)
    }

    pub fn heatmaps_opt_in(&self) -> bool {
        self.is_on(HEATMAPS_OPT_IN)
    }

    pub fn is_demo(&self) -> bool {
        self.is_on(IS_DEMO)
    }

    pub fn completed_snippet_onboarding(&self) -> bool {
        self.is_on(COMPLETED_SNIPPET_ONBOARDING)
    }

    /// Stored for clients; shown in lists of projects too.
    pub fn has_completed_onboarding_for(&self) -> Option<Value> {
        Some(self.value(HAS_COMPLETED_ONBOARDING_FOR).into_owned()).filter(|value| !value.is_null())
    }
}

/// None: the request does not have the setting.
impl ProjectSettingsChange {
    pub fn private(&self) -> Option<bool> {
        self.given(ACCESS_CONTROL)?.as_bool()
    }

    pub fn test_account_filters(&self) -> Option<&Value> {
        self.given(ProjectSettings::TEST_ACCOUNT_FILTERS)
    }

    pub fn primary_dashboard(&self) -> Option<Option<DashboardId>> {
        self.given(ProjectSettings::PRIMARY_DASHBOARD).map(|id| id.as_i64().map(DashboardId))
    }

    /// Drops the change of the primary dashboard.
    pub fn keep_primary_dashboard(&mut self) {
        self.leave(ProjectSettings::PRIMARY_DASHBOARD);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(stored: Value) -> ProjectSettings {
        ProjectSettings::stored(stored.as_object().unwrap().clone())
    }

    #[test]
    fn stored_values_of_another_type_count_as_not_set() {
        let odd = settings(json!({
            ANONYMIZE_IPS: 1, DROP_EVENTS_OLDER_THAN_SECONDS: 1.5, WEEK_START_DAY: "1",
            PERSON_DISPLAY_NAME_PROPERTIES: ["email", 1], ProjectSettings::PRIMARY_DASHBOARD: "7",
        }));
        assert!(!odd.anonymize_ips() && !odd.week_starts_monday());
        assert_eq!((odd.drop_events_older_than(), odd.primary_dashboard()), (None, None));
        assert!(odd.person_display_name_properties().is_empty());
        for seconds in [-60, 0] {
            let never = settings(json!({ DROP_EVENTS_OLDER_THAN_SECONDS: seconds }));
            assert_eq!(never.drop_events_older_than(), None);
        }
    }

    #[test]
    fn private_project_is_stored_only_if_it_differs_from_the_default() {
        let mut settings = ProjectSettings::default();
        settings.set_private(true);
        assert_eq!(settings.to_stored(), json!({ ACCESS_CONTROL: true }));
        settings.set_private(false);
        assert_eq!(settings, ProjectSettings::default());
    }
}
