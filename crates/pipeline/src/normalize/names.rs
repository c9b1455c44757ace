//! Property names that ingestion interprets.

use geoip::Location;

/// Index of an interpreted property name, looked up once when an event is parsed. The first
/// `COPIED` names are copied to persons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(u8);

/// `name!("$ip")` is the [`Name`] of that string, resolved at compile time.
macro_rules! name {
    ($text:literal) => {
        const { $crate::normalize::Name::of($text) }
    };
}
pub(crate) use name;

/// A name, the name of its initial value (`$browser` and `$initial_browser`, `_kx` and
/// `$initial__kx`), and whether it is volatile.
type Copy = (&'static str, &'static str, bool);

const STABLE: bool = false;
/// Changes with every page view; a new value alone does not update the person.
const VOLATILE: bool = true;

macro_rules! dollar_names {
    ($($name:literal $noise:ident),* $(,)?) => {
        &[$((concat!("$", $name), concat!("$initial_", $name), $noise)),*]
    };
}

macro_rules! plain_names {
    ($($name:literal),* $(,)?) => { &[$(($name, concat!("$initial_", $name), STABLE)),*] };
}

/// Copied from an event to its person: device and page.
const DEVICE: &[Copy] = dollar_names![
    "app_build" STABLE,
    "app_name" STABLE,
    "app_namespace" STABLE,
    "app_version" STABLE,
    "browser" VOLATILE,
    "browser_version" VOLATILE,
    "device_type" VOLATILE,
    "current_url" VOLATILE,
    "pathname" VOLATILE,
    "os" VOLATILE,
    "os_version" VOLATILE,
    "referring_domain" VOLATILE,
    "referrer" VOLATILE,
    "screen_height" VOLATILE,
    "screen_width" VOLATILE,
    "viewport_height" VOLATILE,
    "viewport_width" VOLATILE,
    "raw_user_agent" VOLATILE,
];

/// Copied from an event to its person: campaign.
const CAMPAIGN: &[Copy] = plain_names![
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

/// Copied from an event to its person: GeoIP location.
const GEOIP: &[Copy] = dollar_names![
    "geoip_accuracy_radius" VOLATILE,
    "geoip_city_confidence" VOLATILE,
    "geoip_city_name" STABLE,
    "geoip_continent_code" STABLE,
    "geoip_continent_name" STABLE,
    "geoip_country_code" STABLE,
    "geoip_country_name" STABLE,
    "geoip_latitude" VOLATILE,
    "geoip_longitude" VOLATILE,
    "geoip_postal_code" VOLATILE,
    "geoip_subdivision_1_code" VOLATILE,
    "geoip_subdivision_1_name" VOLATILE,
    "geoip_subdivision_2_code" VOLATILE,
    "geoip_subdivision_2_name" VOLATILE,
    "geoip_subdivision_3_code" VOLATILE,
    "geoip_subdivision_3_name" VOLATILE,
    "geoip_time_zone" VOLATILE,
];

/// SDK-internal properties; never stored.
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
const GEOIP_FIRST: usize = CAMPAIGN_FIRST + CAMPAIGN.len();
/// Number of names that are copied to persons; they come first.
pub(crate) const COPIED: usize = GEOIP_FIRST + GEOIP.len();
const REMOVED_FIRST: usize = COPIED;
const GROUPS_FIRST: usize = REMOVED_FIRST + REMOVED.len();
const OTHERS_FIRST: usize = GROUPS_FIRST + GROUPS.len();
pub(super) const NAMES: usize = OTHERS_FIRST + OTHERS.len();

/// All names, by index.
const ALL: [&str; NAMES] = {
    let mut all = [""; NAMES];
    let mut at = 0;
    while at < NAMES {
        all[at] = match at {
            0..CAMPAIGN_FIRST => DEVICE[at].0,
            CAMPAIGN_FIRST..GEOIP_FIRST => CAMPAIGN[at - CAMPAIGN_FIRST].0,
            GEOIP_FIRST..COPIED => GEOIP[at - GEOIP_FIRST].0,
            REMOVED_FIRST..GROUPS_FIRST => REMOVED[at - REMOVED_FIRST],
            GROUPS_FIRST..OTHERS_FIRST => GROUPS[at - GROUPS_FIRST],
            _ => OTHERS[at - OTHERS_FIRST],
        };
        at += 1;
    }
    all
};

/// Length of the longest name.
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

/// Slots of the hash table: about four times the names, so that most lookups of other names hit an
/// empty slot at once.
const TABLE: usize = 512;
const EMPTY: u8 = u8::MAX;

/// Open-addressing hash table of name indexes, keyed by [`slot_of`] with linear probing.
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

/// Hash of a name's length and three of its bytes.
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
    /// If the string is not one of the names; only called at compile time.
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

    /// The inverse of [`Name::number`].
    pub(super) const fn from_index(number: usize) -> Self {
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
            at @ CAMPAIGN_FIRST..GEOIP_FIRST => CAMPAIGN.get(at - CAMPAIGN_FIRST),
            at @ GEOIP_FIRST..COPIED => GEOIP.get(at - GEOIP_FIRST),
            _ => None,
        }
    }

    /// The person property that holds the initial value.
    pub fn initial(self) -> Option<&'static str> {
        self.copy().map(|(_, initial, _)| *initial)
    }

    /// Whether it changes with every page view, so that it alone does not update the person.
    pub fn is_volatile(self) -> bool {
        self.copy().is_some_and(|(_, _, noise)| *noise)
    }

    pub fn is_campaign(self) -> bool {
        (CAMPAIGN_FIRST..GEOIP_FIRST).contains(&self.number())
    }

    /// Its bit in a bit set of names.
    pub fn bit(self) -> u128 {
        const { assert!(NAMES <= u128::BITS as usize) };
        1 << self.number()
    }

    /// The names of a bit set, in order.
    pub(super) fn all_of(set: u128) -> impl Iterator<Item = Self> {
        let mut left = set;
        std::iter::from_fn(move || {
            let number = left.trailing_zeros();
            // Clears the lowest bit; wraps for the empty set.
            left &= left.wrapping_sub(1);
            (number < u128::BITS).then_some(Self(number as u8))
        })
    }
}

const fn set_of(from: usize, to: usize) -> u128 {
    (1 << to) - (1 << from)
}

/// Bit sets of names: device, campaign, and non-volatile device.
pub(super) const DEVICES: u128 = set_of(0, CAMPAIGN_FIRST);
pub(super) const CAMPAIGNS: u128 = set_of(CAMPAIGN_FIRST, GEOIP_FIRST);
pub(super) const STABLE_DEVICES: u128 = {
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

/// The names of [`geoip::PROPERTY_NAMES`], by the same index.
const OF_LOCATION: [Name; geoip::PROPERTY_NAMES.len()] = {
    let (mut all, mut at) = ([Name(0); geoip::PROPERTY_NAMES.len()], 0);
    while at < all.len() {
        all[at] = Name::of(geoip::PROPERTY_NAMES[at]);
        at += 1;
    }
    all
};

/// A location's properties in the order of [`geoip::PROPERTY_NAMES`]; `None` for unknown ones.
pub(super) fn of_location(location: &Location) -> impl Iterator<Item = (Name, Option<&str>)> {
    OF_LOCATION.into_iter().zip(location.json())
}

/// A location's known properties and their indexes.
pub(super) fn known_of_location(location: &Location) -> impl Iterator<Item = (Name, usize)> {
    let known = location.known();
    OF_LOCATION.into_iter().zip(0..).filter(move |(_, at)| known >> at & 1 == 1)
}

/// Bit set of `$group_0` … `$group_4`.
pub(crate) const ANY_GROUP: u128 = set_of(GROUPS_FIRST, OTHERS_FIRST);

pub(super) fn removed() -> impl Iterator<Item = Name> {
    numbered(REMOVED_FIRST, GROUPS_FIRST)
}

/// `$group_0` … `$group_4`, by group type index.
pub(crate) fn groups() -> impl Iterator<Item = Name> {
    const { assert!(GROUPS.len() == model::group::GROUP_TYPES_MAX as usize) };
    numbered(GROUPS_FIRST, OTHERS_FIRST)
}

/// Whether a person property is volatile: a new value alone does not update the person, even if it
/// came by `$set`.
pub(crate) fn is_volatile(name: &str) -> bool {
    const NEVER_COPIED: [&str; 5] = [
        "$geoip_country_confidence",
        "$geoip_postal_code_confidence",
        "$geoip_subdivision_1_confidence",
        "$geoip_subdivision_2_confidence",
        "$os_name",
    ];
    Name::find(name).is_some_and(Name::is_volatile) || NEVER_COPIED.contains(&name)
}

/// Whether a distinct id is a placeholder; such ids are never merged.
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
    fn placeholder_distinct_ids_are_illegal() {
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
    fn name_lookup_finds_every_name_and_no_other() {
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
    fn properties_that_change_with_every_page_are_volatile() {
        assert!(
            is_volatile("$current_url")
                && is_volatile("$os_name")
                && is_volatile("$geoip_latitude")
        );
        assert!(
            !is_volatile("$geoip_country_name")
                && !is_volatile("utm_source")
                && !is_volatile("plan")
        );
    }
}
