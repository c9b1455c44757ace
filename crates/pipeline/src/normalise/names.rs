//! The property names that mean something on their way in.

use geoip::Place;

/// A property name that means something here, found once when an event is read. The first ones are
/// copied to persons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(u8);

/// `name!("$ip")` is the [`Name`] of that text, found while compiling.
macro_rules! name {
    ($text:literal) => {
        const { $crate::normalise::Name::of($text) }
    };
}
pub(crate) use name;

/// A name, the one its first value is kept under (`$browser` and `$initial_browser`, `_kx` and
/// `$initial__kx`), and whether its value changes with every page.
type Copy = (&'static str, &'static str, bool);

const STEADY: bool = false;
/// Alone not worth a write.
const NOISE: bool = true;

macro_rules! ours {
    ($($name:literal $noise:ident),* $(,)?) => {
        &[$((concat!("$", $name), concat!("$initial_", $name), $noise)),*]
    };
}

macro_rules! theirs {
    ($($name:literal),* $(,)?) => { &[$(($name, concat!("$initial_", $name), STEADY)),*] };
}

/// Copied from an event to its person: what describes the device and the page,
const DEVICE: &[Copy] = ours![
    "app_build" STEADY,
    "app_name" STEADY,
    "app_namespace" STEADY,
    "app_version" STEADY,
    "browser" NOISE,
    "browser_version" NOISE,
    "device_type" NOISE,
    "current_url" NOISE,
    "pathname" NOISE,
    "os" NOISE,
    "os_version" NOISE,
    "referring_domain" NOISE,
    "referrer" NOISE,
    "screen_height" NOISE,
    "screen_width" NOISE,
    "viewport_height" NOISE,
    "viewport_width" NOISE,
    "raw_user_agent" NOISE,
];

/// what describes the campaign,
const CAMPAIGN: &[Copy] = theirs![
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

/// and what describes the place.
const PLACE: &[Copy] = ours![
    "geoip_accuracy_radius" NOISE,
    "geoip_city_confidence" NOISE,
    "geoip_city_name" STEADY,
    "geoip_continent_code" STEADY,
    "geoip_continent_name" STEADY,
    "geoip_country_code" STEADY,
    "geoip_country_name" STEADY,
    "geoip_latitude" NOISE,
    "geoip_longitude" NOISE,
    "geoip_postal_code" NOISE,
    "geoip_subdivision_1_code" NOISE,
    "geoip_subdivision_1_name" NOISE,
    "geoip_subdivision_2_code" NOISE,
    "geoip_subdivision_2_name" NOISE,
    "geoip_subdivision_3_code" NOISE,
    "geoip_subdivision_3_name" NOISE,
    "geoip_time_zone" NOISE,
];

/// What SDKs send along for themselves; never stored.
const REMOVED: &[&str] = &[
    "ph_product_tours",
    "$session_recording_remote_config",
    "$product_tours_activated",
    "$product_tours_enabled_server_side",
    "$surveys_activated",
    "$feature_flag_payloads",
    "$override_feature_flag_payloads",
    "$heatmap_data",
];

const GROUPS: &[&str] = &["$group_0", "$group_1", "$group_2", "$group_3", "$group_4"];

const OTHERS: &[&str] = &[
    "$$client_ingestion_warning_message",
    "$anon_distinct_id",
    "$cookieless_mode",
    "$elements",
    "$elements_chain",
    "$feature_flag",
    "$geoip_disable",
    "$group_key",
    "$group_set",
    "$group_type",
    "$groups",
    "$ignore_sent_at",
    "$ip",
    "$lib",
    "$lib_version",
    "$os_name",
    "$process_person_profile",
    "$product_tour_id",
    "$sent_at",
    "$session_id",
    "$set",
    "$set_once",
    "$unset",
    "$window_id",
    "alias",
    "capture_internal",
    "feature_flag",
];

const CAMPAIGN_FIRST: usize = DEVICE.len();
const PLACE_FIRST: usize = CAMPAIGN_FIRST + CAMPAIGN.len();
/// How many are copied to persons: the first ones.
pub(crate) const COPIED: usize = PLACE_FIRST + PLACE.len();
const REMOVED_FIRST: usize = COPIED;
const GROUPS_FIRST: usize = REMOVED_FIRST + REMOVED.len();
const OTHERS_FIRST: usize = GROUPS_FIRST + GROUPS.len();
pub(super) const NAMES: usize = OTHERS_FIRST + OTHERS.len();

/// All of them, so that a name's number is its place.
const ALL: [&str; NAMES] = {
    let mut all = [""; NAMES];
    let mut at = 0;
    while at < NAMES {
        all[at] = match at {
            0..CAMPAIGN_FIRST => DEVICE[at].0,
            CAMPAIGN_FIRST..PLACE_FIRST => CAMPAIGN[at - CAMPAIGN_FIRST].0,
            PLACE_FIRST..COPIED => PLACE[at - PLACE_FIRST].0,
            REMOVED_FIRST..GROUPS_FIRST => REMOVED[at - REMOVED_FIRST],
            GROUPS_FIRST..OTHERS_FIRST => GROUPS[at - GROUPS_FIRST],
            _ => OTHERS[at - OTHERS_FIRST],
        };
        at += 1;
    }
    all
};

/// Of the longest one.
pub(super) const BYTES_MAX: usize = {
    let (mut most, mut at) = (0, 0);
    while at < NAMES {
        if ALL[at].len() > most {
            most = ALL[at].len();
        }
        at += 1;
    }
    most
};

/// Some four times the names, so that most other names meet an empty place at once.
const TABLE: usize = 512;
const EMPTY: u8 = u8::MAX;

/// Numbers of the names by [`slot_of`], each at the first free place from there.
static BY_TEXT: [u8; TABLE] = {
    assert!(NAMES < EMPTY as usize);
    let mut table = [EMPTY; TABLE];
    let mut number = 0;
    while number < NAMES {
        let mut at = slot_of(ALL[number].as_bytes());
        while table[at] != EMPTY {
            at = (at + 1) % TABLE;
        }
        table[at] = number as u8;
        number += 1;
    }
    table
};

/// By its length and three of its bytes.
const fn slot_of(text: &[u8]) -> usize {
    let length = text.len();
    if length == 0 {
        return 0;
    }
    let (middle, late, last) = (text[length / 2], text[length * 3 / 4], text[length - 1]);
    (length * 37 + middle as usize * 5 + late as usize * 23 + last as usize * 11) % TABLE
}

impl Name {
    /// # Panics
    /// Of a text that is none of the names; only asked while compiling.
    pub(crate) const fn of(text: &str) -> Self {
        let mut number = 0;
        while number < NAMES {
            if same(ALL[number].as_bytes(), text.as_bytes()) {
                return Self(number as u8);
            }
            number += 1;
        }
        panic!("no such name")
    }

    pub(crate) fn find(text: &str) -> Option<Self> {
        let mut at = slot_of(text.as_bytes());
        loop {
            match BY_TEXT[at] {
                EMPTY => return None,
                number if ALL[usize::from(number)] == text => return Some(Self(number)),
                _ => at = (at + 1) % TABLE,
            }
        }
    }

    /// The name of a [`Name::number`].
    pub(super) const fn numbered(number: usize) -> Self {
        Self(number as u8)
    }

    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    pub fn text(self) -> &'static str {
        ALL[self.number()]
    }

    fn copy(self) -> Option<&'static Copy> {
        match self.number() {
            at @ 0..CAMPAIGN_FIRST => DEVICE.get(at),
            at @ CAMPAIGN_FIRST..PLACE_FIRST => CAMPAIGN.get(at - CAMPAIGN_FIRST),
            at @ PLACE_FIRST..COPIED => PLACE.get(at - PLACE_FIRST),
            _ => None,
        }
    }

    /// The name under which the first value is kept on the person.
    pub fn initial(self) -> Option<&'static str> {
        self.copy().map(|(_, initial, _)| *initial)
    }

    /// Whether it changes with every page; alone that is not worth a write.
    pub fn is_noise(self) -> bool {
        self.copy().is_some_and(|(_, _, noise)| *noise)
    }

    pub fn is_campaign(self) -> bool {
        (CAMPAIGN_FIRST..PLACE_FIRST).contains(&self.number())
    }

    /// Its bit in a set of names.
    pub fn bit(self) -> u128 {
        const { assert!(NAMES <= u128::BITS as usize) };
        1 << self.number()
    }

    /// The names of a set, in their order.
    pub(super) fn all_of(set: u128) -> impl Iterator<Item = Self> {
        let mut left = set;
        std::iter::from_fn(move || {
            let number = left.trailing_zeros();
            // Of an empty set there are more zeros than bits to take away.
            left &= left.wrapping_sub(1);
            (number < u128::BITS).then_some(Self(number as u8))
        })
    }
}

const fn set_of(from: usize, to: usize) -> u128 {
    (1 << to) - (1 << from)
}

/// Sets of names: the device's, those of them that do not change with every page, the campaign's.
pub(super) const DEVICES: u128 = set_of(0, CAMPAIGN_FIRST);
pub(super) const CAMPAIGNS: u128 = set_of(CAMPAIGN_FIRST, PLACE_FIRST);
pub(super) const STEADY_DEVICES: u128 = {
    let (mut set, mut at) = (0, 0);
    while at < DEVICE.len() {
        if !DEVICE[at].2 {
            set |= 1 << at;
        }
        at += 1;
    }
    set
};

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}

fn numbered(from: usize, to: usize) -> impl Iterator<Item = Name> {
    (from..to).map(|number| Name(number as u8))
}

/// By what [`geoip::NAMES`] has at the same place.
const OF_PLACE: [Name; geoip::NAMES.len()] = {
    let (mut all, mut at) = ([Name(0); geoip::NAMES.len()], 0);
    while at < all.len() {
        all[at] = Name::of(geoip::NAMES[at]);
        at += 1;
    }
    all
};

/// What is said of a place, in the order that it has there; none for what is not known.
pub(super) fn of_place(place: &Place) -> impl Iterator<Item = (Name, Option<&str>)> {
    OF_PLACE.into_iter().zip(place.json())
}

/// What is known of a place, and where it stands there.
pub(super) fn known_of_place(place: &Place) -> impl Iterator<Item = (Name, usize)> {
    let known = place.known();
    OF_PLACE.into_iter().zip(0..).filter(move |(_, at)| known >> at & 1 == 1)
}

/// The set of the names of groups.
pub(crate) const ANY_GROUP: u128 = set_of(GROUPS_FIRST, OTHERS_FIRST);

pub(super) fn removed() -> impl Iterator<Item = Name> {
    numbered(REMOVED_FIRST, GROUPS_FIRST)
}

/// The properties that hold the keys of an event's groups, by the index of their types.
pub(crate) fn groups() -> impl Iterator<Item = Name> {
    const { assert!(GROUPS.len() == model::group::GROUP_TYPES_MAX as usize) };
    numbered(GROUPS_FIRST, OTHERS_FIRST)
}

/// Person properties that are known to change with every page, whoever sets them; alone they are not
/// worth a write.
pub(crate) fn is_noise(name: &str) -> bool {
    const NEVER_COPIED: [&str; 5] = [
        "$geoip_country_confidence",
        "$geoip_postal_code_confidence",
        "$geoip_subdivision_1_confidence",
        "$geoip_subdivision_2_confidence",
        "$os_name",
    ];
    Name::find(name).is_some_and(Name::is_noise) || NEVER_COPIED.contains(&name)
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
    fn every_name_is_found_by_its_text_and_no_other() {
        for (number, text) in ALL.iter().enumerate() {
            assert_eq!(Name::find(text), Some(Name(number as u8)), "{text}");
            assert_eq!(Name::find(&format!("{text}x")), None);
        }
        assert_eq!(Name::find(""), None);
        assert_eq!(name!("_kx").initial(), Some("$initial__kx"));
        assert_eq!(name!("$geoip_city_name").initial(), Some("$initial_geoip_city_name"));
        assert_eq!(name!("$ip").initial(), None);
    }

    #[test]
    fn noise_is_what_changes_with_every_page() {
        assert!(is_noise("$current_url") && is_noise("$os_name") && is_noise("$geoip_latitude"));
        assert!(!is_noise("$geoip_country_name") && !is_noise("utm_source") && !is_noise("plan"));
    }
}
