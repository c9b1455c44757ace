//! Sessions: one row for each session id of a project's events, computed from all of its events.

use super::channel_type::channel_type;
use super::{Printer, unsupported};
use crate::error::Result;
use crate::read::property_value;

/// Properties whose first value in a session is a column `$entry_…`.
const ENTRY_PROPERTIES: &[&str] = &[
    "$current_url",
    "utm_source",
    "utm_campaign",
    "utm_medium",
    "utm_term",
    "utm_content",
    "$referring_domain",
    "gclid",
    "fbclid",
    "gad_source",
];

/// The properties of events that columns of sessions are computed from.
pub(super) const SESSION_PROPERTIES: &[&str] = &[
    "$session_id",
    "$current_url",
    "$external_click_url",
    "$web_vitals_LCP_value",
    "utm_source",
    "utm_campaign",
    "utm_medium",
    "utm_term",
    "utm_content",
    "$referring_domain",
    "gclid",
    "fbclid",
    "gad_source",
];

/// Sessions shorter than this, without a second pageview or an autocapture, are bounces.
const BOUNCE_SECONDS: u32 = 10;
/// Distinct URLs of one session that are counted.
const URLS_MAX: u32 = 1_000;

const SECONDS: &str = "toUInt64(dateDiff('second', min(timestamp), max(timestamp)))";

impl Printer<'_> {
    /// The text of an event's property, in a select of events without an alias.
    fn text_of(&mut self, name: &str) -> String {
        let value = property_value(self.promoted, name, &mut self.parameters);
        format!("nullIf(substring({value}, 2), '')")
    }

    /// What aggregates a column of sessions from events.
    pub fn session_value(&mut self, name: &str) -> Result<String> {
        let count = |event: &str| format!("countIf(event = '{event}')");
        Ok(match name {
            "distinct_id" => "argMin(distinct_id, timestamp)".to_owned(),
            "$start_timestamp" | "$end_timestamp" | "max_inserted_at" => {
                let value = match name {
                    "$start_timestamp" => "min(timestamp)",
                    "$end_timestamp" => "max(timestamp)",
                    _ => "max(created_at)",
                };
                let zone = self.zone();
                format!("toTimeZone({value}, {zone})")
            }
            "$session_duration" => SECONDS.to_owned(),
            "$pageview_count" => count("$pageview"),
            "$autocapture_count" => count("$autocapture"),
            "$screen_count" => count("$screen"),
            "$is_bounce" => format!(
                "({} <= 1 AND {} = 0 AND {SECONDS} < {BOUNCE_SECONDS})",
                count("$pageview"),
                count("$autocapture")
            ),
            "$num_uniq_urls" => {
                format!("least(uniqExact({}), {URLS_MAX})", self.text_of("$current_url"))
            }
            "$end_current_url" | "$exit_current_url" => {
                format!("argMax({}, timestamp)", self.text_of("$current_url"))
            }
            "$entry_pathname" => {
                url_path(&format!("argMin({}, timestamp)", self.text_of("$current_url")))
            }
            "$entry_hostname" => {
                url_host(&format!("argMin({}, timestamp)", self.text_of("$current_url")))
            }
            "$end_pathname" | "$exit_pathname" => {
                url_path(&format!("argMax({}, timestamp)", self.text_of("$current_url")))
            }
            "$channel_type" => {
                channel_type(|name| format!("argMin({}, timestamp)", self.text_of(name)))
            }
            "$last_external_click_url" => {
                format!("argMax({}, timestamp)", self.text_of("$external_click_url"))
            }
            "$vitals_lcp" => format!(
                "toFloat64OrNull(argMin({}, timestamp))",
                self.text_of("$web_vitals_LCP_value")
            ),
            name => {
                let entry = name.strip_prefix("$entry_").and_then(|entry| {
                    ENTRY_PROPERTIES.iter().find(|one| one.trim_start_matches('$') == entry)
                });
                let Some(property) = entry else {
                    return Err(unsupported(format!("the field {name} of sessions")));
                };
                format!("argMin({}, timestamp)", self.text_of(property))
            }
        })
    }

    /// The sessions of a project as `z`, with these values as `x0`, `x1` and so on.
    pub fn sessions(&mut self, values: &[String], project: &str) -> String {
        let id = self.text_of("$session_id");
        let values = values.iter().enumerate().map(|(no, value)| format!(", {value} AS x{no}"));
        let values: String = values.collect();
        format!(
            "(SELECT assumeNotNull({id}) AS session_id{values} FROM events FINAL WHERE \
             project_id = {project} AND isNotNull({id}) GROUP BY session_id) AS z"
        )
    }
}

const AFTER_SCHEME: &str = "'^.*?://', ''";

/// The path of a URL; empty if it has none.
fn url_path(url: &str) -> String {
    format!("extract(replaceRegexpOne({url}, {AFTER_SCHEME}), '^[^/?#]*(/[^?#]*)')")
}

/// The host of a URL, without user and port.
fn url_host(url: &str) -> String {
    let host = format!("extract(replaceRegexpOne({url}, {AFTER_SCHEME}), '^[^/?#]*')");
    format!("replaceRegexpOne(replaceRegexpOne({host}, '^.*@', ''), ':[0-9]*$', '')")
}
