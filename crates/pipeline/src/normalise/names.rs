//! The property names that mean something on their way in.

/// A name and the one its first value is kept under: `$browser` and `$initial_browser`, `_kx` and
/// `$initial__kx`.
pub(super) type Pair = (&'static str, &'static str);

macro_rules! ours {
    ($($name:literal),* $(,)?) => { &[$((concat!("$", $name), concat!("$initial_", $name))),*] };
}

macro_rules! theirs {
    ($($name:literal),* $(,)?) => { &[$(($name, concat!("$initial_", $name))),*] };
}

/// Copied from an event to its person: what describes the device and the page,
const DEVICE: &[Pair] = ours![
    "app_build",
    "app_name",
    "app_namespace",
    "app_version",
    "browser",
    "browser_version",
    "device_type",
    "current_url",
    "pathname",
    "os",
    "os_version",
    "referring_domain",
    "referrer",
    "screen_height",
    "screen_width",
    "viewport_height",
    "viewport_width",
    "raw_user_agent",
];

/// and what describes the campaign.
const CAMPAIGN: &[Pair] = theirs![
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_content",
    "utm_name",
    "utm_term",
    "gclid",
    "gad_source",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "fbclid",
    "msclkid",
    "twclid",
    "li_fat_id",
    "mc_cid",
    "igshid",
    "ttclid",
    "rdt_cid",
    "irclid",
    "_kx",
    "epik",
    "qclid",
    "sccid",
];

pub(super) fn to_person() -> impl Iterator<Item = &'static Pair> {
    DEVICE.iter().chain(CAMPAIGN)
}

const PLACE: &[Pair] = ours![
    "geoip_accuracy_radius",
    "geoip_city_confidence",
    "geoip_city_name",
    "geoip_continent_code",
    "geoip_continent_name",
    "geoip_country_code",
    "geoip_country_name",
    "geoip_latitude",
    "geoip_longitude",
    "geoip_postal_code",
    "geoip_subdivision_1_code",
    "geoip_subdivision_1_name",
    "geoip_subdivision_2_code",
    "geoip_subdivision_2_name",
    "geoip_subdivision_3_code",
    "geoip_subdivision_3_name",
    "geoip_time_zone",
];

/// The name under which the first value of a place's property is kept.
pub(super) fn initial_of_place(name: &str) -> Option<&'static str> {
    let at = PLACE.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(PLACE[at].1)
}

/// What SDKs send along for themselves; never stored.
pub(super) const REMOVED: &[&str] = &[
    "ph_product_tours",
    "$session_recording_remote_config",
    "$product_tours_activated",
    "$product_tours_enabled_server_side",
    "$surveys_activated",
    "$feature_flag_payloads",
    "$override_feature_flag_payloads",
];

/// Person properties that change with every page; alone they are not worth a write.
const NOISE: &[&str] = &[
    "$browser",
    "$browser_version",
    "$current_url",
    "$device_type",
    "$geoip_accuracy_radius",
    "$geoip_city_confidence",
    "$geoip_country_confidence",
    "$geoip_latitude",
    "$geoip_longitude",
    "$geoip_postal_code",
    "$geoip_postal_code_confidence",
    "$geoip_subdivision_1_code",
    "$geoip_subdivision_1_confidence",
    "$geoip_subdivision_1_name",
    "$geoip_subdivision_2_code",
    "$geoip_subdivision_2_confidence",
    "$geoip_subdivision_2_name",
    "$geoip_subdivision_3_code",
    "$geoip_subdivision_3_name",
    "$geoip_time_zone",
    "$os",
    "$os_name",
    "$os_version",
    "$pathname",
    "$raw_user_agent",
    "$referrer",
    "$referring_domain",
    "$screen_height",
    "$screen_width",
    "$viewport_height",
    "$viewport_width",
];

pub(crate) fn is_noise(name: &str) -> bool {
    NOISE.binary_search(&name).is_ok()
}

/// Ids that say nothing about who somebody is; they never take part in a merge.
pub(crate) fn is_illegal(id: &str) -> bool {
    const ANY_CASE: &[&str] = &[
        "anonymous",
        "guest",
        "distinctid",
        "distinct_id",
        "id",
        "not_authenticated",
        "email",
        "undefined",
        "true",
        "false",
    ];
    const EXACT: &[&str] = &["[object Object]", "NaN", "None", "none", "null", "0", "undefined"];
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let inner = id.strip_prefix(*quote)?.strip_suffix(*quote)?;
        Some(inner)
    });
    let says_nothing =
        |id: &str| ANY_CASE.iter().any(|word| word.eq_ignore_ascii_case(id)) || EXACT.contains(&id);
    id.trim().is_empty() || says_nothing(id) || quoted.is_some_and(says_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: ingestion 104
    #[test]
    fn ids_that_say_nothing_are_illegal_in_their_own_case() {
        for id in [
            "null",
            "'null'",
            "\"null\"",
            "Anonymous",
            "GUEST",
            "0",
            "NaN",
            "",
            "  ",
            "[object Object]",
            "'Undefined'",
        ] {
            assert!(is_illegal(id), "{id}");
        }
        for id in ["NULL", "nan", "backend", "00", " null", "user_1", "'"] {
            assert!(!is_illegal(id), "{id}");
        }
    }

    #[test]
    fn noise_is_sorted_for_the_search() {
        assert!(NOISE.is_sorted() && PLACE.is_sorted());
        assert!(is_noise("$current_url") && !is_noise("$geoip_country_name"));
    }
}
