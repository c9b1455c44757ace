//! Channel type of a session, and the parts of a URL.

fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// The host of a URL, without user and port.
pub fn url_host(url: &str) -> &str {
    let rest = without_scheme(url);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = &rest[..end];
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

pub fn url_path(url: &str) -> &str {
    let rest = without_scheme(url);
    let rest = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    rest.find('/').map_or("", |start| &rest[start..])
}

/// Mediums of paid traffic, besides those that begin with `paid`, and those of them that are displays.
pub const PAID_MEDIUMS: [&str; 8] =
    ["cpc", "cpm", "cpv", "cpa", "ppc", "retargeting", "display", "banner"];
pub const DISPLAY_MEDIUMS: [&str; 3] = ["display", "banner", "cpm"];
/// The channels of other mediums.
pub const MEDIUMS: [(&str, &str); 10] = [
    ("email", "Email"),
    ("e-mail", "Email"),
    ("newsletter", "Email"),
    ("affiliate", "Affiliate"),
    ("audio", "Audio"),
    ("sms", "SMS"),
    ("push", "Push"),
    ("mobile", "Push"),
    ("notification", "Push"),
    ("referral", "Referral"),
];

/// Channel type by PostHog's names, from the properties of a session's first events.
pub fn channel_type(of: impl Fn(&str) -> Option<String>) -> &'static str {
    let lower = |name: &str| of(name).map(|text| text.to_lowercase()).unwrap_or_default();
    let (source, medium) = (lower("utm_source"), lower("utm_medium"));
    let (campaign, referrer) = (lower("utm_campaign"), lower("$referring_domain"));
    let has_click_id = ["gclid", "gad_source"].iter().any(|name| of(name).is_some());
    let paid_medium = PAID_MEDIUMS.contains(&medium.as_str()) || medium.starts_with("paid");
    let origin = [source.as_str(), referrer.as_str()].into_iter().find_map(kind_of);
    if campaign == "cross-network" {
        return "Cross Network";
    }
    if has_click_id || paid_medium {
        return match origin {
            Some(Origin::Search) => "Paid Search",
            Some(Origin::Social) => "Paid Social",
            Some(Origin::Video) => "Paid Video",
            Some(Origin::Shopping) => "Paid Shopping",
            None if has_click_id => "Paid Search",
            None if DISPLAY_MEDIUMS.contains(&medium.as_str()) => "Display",
            None => "Paid Unknown",
        };
    }
    if let Some((_, channel)) = MEDIUMS.iter().find(|(name, _)| *name == medium) {
        return channel;
    }
    match origin {
        Some(Origin::Search) => "Organic Search",
        Some(Origin::Social) => "Organic Social",
        Some(Origin::Video) => "Organic Video",
        Some(Origin::Shopping) => "Organic Shopping",
        None if source.is_empty() && medium.is_empty() && campaign.is_empty() => {
            match referrer.as_str() {
                "" | "$direct" => "Direct",
                _ => "Referral",
            }
        }
        None if referrer.is_empty() || referrer == "$direct" => "Unknown",
        None => "Referral",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Search,
    Social,
    Video,
    Shopping,
}

/// Parts of sources and of referring domains, and what they stand for; the first one counts.
pub const ORIGINS: [(Origin, &[&str]); 4] = [
    (Origin::Video, &["youtube", "vimeo", "twitch", "tiktok", "dailymotion"]),
    (
        Origin::Search,
        &["google", "bing", "duckduckgo", "yahoo", "baidu", "yandex", "ecosia", "qwant"],
    ),
    (
        Origin::Social,
        &[
            "facebook",
            "fb",
            "instagram",
            "twitter",
            "t",
            "x",
            "linkedin",
            "reddit",
            "pinterest",
            "threads",
            "mastodon",
            "bsky",
            "quora",
            "whatsapp",
            "telegram",
        ],
    ),
    (Origin::Shopping, &["amazon", "ebay", "etsy", "shopify", "alibaba"]),
];

/// Classifies a source or a referring domain.
fn kind_of(name: &str) -> Option<Origin> {
    let has = |names: &[&str]| name.split('.').any(|part| names.contains(&part));
    ORIGINS.into_iter().find(|(_, names)| has(names)).map(|(origin, _)| origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_split_into_host_and_path() {
        for (url, host, path) in [
            ("https://user@shop.example:8080/a/b?c=d#e", "shop.example", "/a/b"),
            ("https://x.example?y=/z", "x.example", ""),
            ("/a", "", "/a"),
        ] {
            assert_eq!((url_host(url), url_path(url)), (host, path), "{url}");
        }
    }
}
