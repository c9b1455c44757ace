//! The settings of a project.

use crate::settings::{Default, Kind, Setting, Settings, SettingsChange, SettingsSchema};

pub enum ProjectSchema {}

pub type ProjectSettings = Settings<ProjectSchema>;
pub type ProjectSettingsChange = SettingsChange<ProjectSchema>;

impl SettingsSchema for ProjectSchema {
    const NAME: &'static str = "ProjectSettings";
    const SETTINGS: &'static [Setting] = &[
        Setting::open("product_description", Kind::Text),
        Setting::always("app_urls", Kind::Texts, Default::Texts(&[])),
        Setting::switch("anonymize_ips", false),
        Setting::open("person_processing_opt_out", Kind::Bool),
        Setting::open("drop_events_older_than_seconds", Kind::Integer),
        Setting::switch("completed_snippet_onboarding", true),
        Setting::always("test_account_filters", Kind::Objects, Default::Texts(&[])),
        Setting::open("test_account_filters_default_checked", Kind::Bool),
        Setting::always("path_cleaning_filters", Kind::Objects, Default::Texts(&[])).or_null(),
        Setting::switch("is_demo", false),
        Setting::always("data_attributes", Kind::Texts, Default::Texts(&["data-attr"])),
        Setting::open("person_display_name_properties", Kind::Texts),
        Setting::open("correlation_config", Kind::Object),
        Setting::switch("autocapture_opt_out", false).or_null(),
        Setting::switch("autocapture_exceptions_opt_in", false).or_null(),
        Setting::open("autocapture_web_vitals_opt_in", Kind::Bool),
        Setting::switch("session_recording_opt_in", false),
        Setting::switch("capture_console_log_opt_in", true).or_null(),
        Setting::switch("capture_performance_opt_in", true).or_null(),
        Setting::open("surveys_opt_in", Kind::Bool),
        Setting::open("heatmaps_opt_in", Kind::Bool),
        // 0: off, 1: stateless, 2: stateful; upstream's numbers.
        Setting::open("cookieless_server_hash_mode", Kind::Number(&[0, 1, 2])),
        Setting::open("recording_domains", Kind::Texts),
        Setting::switch("access_control", false),
        // 0: Sunday, 1: Monday.
        Setting::open("week_start_day", Kind::Number(&[0, 1])),
        Setting::open("primary_dashboard", Kind::Integer),
        Setting::open("live_events_columns", Kind::Texts),
        Setting::open("inject_web_apps", Kind::Bool),
        Setting::open("extra_settings", Kind::Object),
        Setting::open("modifiers", Kind::Object),
        Setting::open("has_completed_onboarding_for", Kind::Object),
        Setting::open("flags_persistence_default", Kind::Bool),
        Setting::always("base_currency", Kind::Currency, Default::Text("USD")),
    ];
}
