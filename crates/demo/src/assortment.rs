//! The tables that the shop draws from: what it sells, who visits, with what, and from where.

pub(crate) struct Product {
    pub slug: &'static str,
    pub name: &'static str,
    pub category: &'static str,
    pub price: f64,
}

const fn product(
    slug: &'static str,
    name: &'static str,
    category: &'static str,
    price: f64,
) -> Product {
    Product { slug, name, category, price }
}

/// The popular ones first: visitors draw from the front more often.
pub(crate) const PRODUCTS: &[Product] = &[
    product("field-maple-hedge", "Field maple hedge, 10 plants", "hedging", 64.0),
    product("hawthorn-bare-root", "Hawthorn, bare root", "hedging", 38.5),
    product("oak-leaf-planter", "Oak leaf planter", "pots", 29.9),
    product("fern-trio", "Fern trio", "indoor", 42.0),
    product("hazel-bare-root", "Hazel, bare root", "hedging", 35.0),
    product("desk-ivy", "Desk ivy", "indoor", 18.5),
    product("watering-can-5l", "Watering can, 5 l", "tools", 24.9),
    product("wild-rose-mix", "Wild rose mix", "hedging", 51.0),
    product("hedge-shears", "Hedge shears", "tools", 79.0),
    product("office-plant-set", "Office plant set, 12 pots", "indoor", 219.0),
    product("terracotta-bowl", "Terracotta bowl", "pots", 33.0),
    product("bird-box", "Bird box", "wildlife", 27.5),
    product("living-wall-kit", "Living wall kit", "indoor", 349.0),
    product("leaf-mould-40l", "Leaf mould, 40 l", "soil", 16.9),
];

pub(crate) const CATEGORIES: &[&str] = &["hedging", "indoor", "pots", "tools", "wildlife"];
pub(crate) const GUIDES: &[&str] =
    &["when-to-plant-a-hedge", "plants-for-dark-offices", "feeding-birds", "pruning-hawthorn"];
pub(crate) const FEATURES: &[(&str, f64)] = &[
    ("saved list", 5.0),
    ("reorder", 4.0),
    ("delivery calendar", 2.5),
    ("care reminders", 2.0),
    ("budget report", 1.0),
];

pub(crate) struct Device {
    pub browser: &'static str,
    pub browser_version: u32,
    pub os: &'static str,
    pub os_version: &'static str,
    pub kind: &'static str,
    pub screen: (u32, u32),
    pub share: f64,
}

const fn device(
    browser: (&'static str, u32),
    os: (&'static str, &'static str),
    kind: &'static str,
    screen: (u32, u32),
    share: f64,
) -> Device {
    let ((browser, browser_version), (os, os_version)) = (browser, os);
    Device { browser, browser_version, os, os_version, kind, screen, share }
}

pub(crate) const DEVICES: &[Device] = &[
    device(("Chrome", 139), ("Windows", "11.0"), "Desktop", (1920, 1080), 26.0),
    device(("Chrome", 139), ("Mac OS X", "15.5"), "Desktop", (1728, 1117), 15.0),
    device(("Mobile Safari", 18), ("iOS", "18.5"), "Mobile", (393, 852), 20.0),
    device(("Chrome", 138), ("Android", "15"), "Mobile", (412, 915), 14.0),
    device(("Safari", 18), ("Mac OS X", "15.5"), "Desktop", (1512, 982), 8.0),
    device(("Firefox", 141), ("Windows", "11.0"), "Desktop", (1920, 1080), 6.0),
    device(("Firefox", 141), ("Linux", ""), "Desktop", (2560, 1440), 4.0),
    device(("Microsoft Edge", 139), ("Windows", "11.0"), "Desktop", (1536, 864), 5.0),
    device(("Mobile Safari", 18), ("iOS", "18.5"), "Tablet", (834, 1194), 2.0),
];

/// Code, name, share of the visitors.
pub(crate) const COUNTRIES: &[(&str, &str, f64)] = &[
    ("GB", "United Kingdom", 30.0),
    ("DE", "Germany", 17.0),
    ("US", "United States", 16.0),
    ("FR", "France", 10.0),
    ("NL", "Netherlands", 9.0),
    ("IE", "Ireland", 7.0),
    ("SE", "Sweden", 6.0),
    ("ES", "Spain", 5.0),
];

/// How visitors find the shop.
pub(crate) struct Source {
    pub referrer: &'static str,
    pub domain: &'static str,
    /// `utm_source`, `utm_medium`, `utm_campaign`.
    pub campaign: Option<[&'static str; 3]>,
    /// How likely its visitors are to leave after the first page.
    pub bounce: f64,
    pub share: f64,
}

const fn source(
    referrer: &'static str,
    domain: &'static str,
    campaign: Option<[&'static str; 3]>,
    bounce: f64,
    share: f64,
) -> Source {
    Source { referrer, domain, campaign, bounce, share }
}

pub(crate) const DIRECT: &Source = &SOURCES[0];
pub(crate) const NEWSLETTER: &Source = &SOURCES[3];
pub(crate) const SOURCES: &[Source] = &[
    source("$direct", "$direct", None, 0.28, 30.0),
    source("https://www.google.com/", "www.google.com", None, 0.34, 27.0),
    source(
        "https://www.google.com/",
        "www.google.com",
        Some(["google", "cpc", "hedging"]),
        0.46,
        11.0,
    ),
    source(
        "https://mail.example/",
        "mail.example",
        Some(["newsletter", "email", "planting-season"]),
        0.20,
        6.0,
    ),
    source(
        "https://social.example/",
        "social.example",
        Some(["social", "social", "office-jungle"]),
        0.55,
        11.0,
    ),
    source("https://duckduckgo.com/", "duckduckgo.com", None, 0.32, 6.0),
    source("https://gardenforum.example/t/hedges", "gardenforum.example", None, 0.30, 6.0),
    source("https://officeplants.example/best", "officeplants.example", None, 0.26, 3.0),
];

pub(crate) const FIRST_NAMES: &[&str] = &[
    "Ada", "Bela", "Cleo", "Dario", "Edda", "Finn", "Greta", "Hugo", "Ines", "Jona", "Kaya",
    "Levi", "Mira", "Nils", "Olive", "Pia", "Quinn", "Rosa", "Sven", "Tilda", "Uma", "Vito",
    "Wren", "Yara", "Zeno",
];
pub(crate) const LAST_NAMES: &[&str] = &[
    "Alderby",
    "Birchwell",
    "Cloverdale",
    "Dewfield",
    "Elderby",
    "Fernsby",
    "Gorsefield",
    "Heatherley",
    "Ivywood",
    "Juniperson",
    "Larkhill",
    "Mossley",
    "Nettlefold",
    "Oakhanger",
    "Pinewright",
    "Quickthorn",
    "Rowanson",
    "Sedgewick",
    "Thistleby",
    "Willowes",
];

pub(crate) struct Industry {
    pub name: &'static str,
    pub suffix: &'static str,
}

pub(crate) const COMPANY_NAMES: &[&str] = &[
    "Bramble",
    "Alder",
    "Hawthorn",
    "Teasel",
    "Spindle",
    "Dogwood",
    "Buckthorn",
    "Bryony",
    "Campion",
    "Yarrow",
    "Sorrel",
    "Tansy",
];
pub(crate) const INDUSTRIES: &[Industry] = &[
    Industry { name: "Software", suffix: "Systems" },
    Industry { name: "Architecture", suffix: "Studio" },
    Industry { name: "Hospitality", suffix: "Inns" },
];
