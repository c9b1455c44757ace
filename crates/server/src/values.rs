//! How the text of a setting becomes its value, and what is refused.

use std::net::SocketAddr;
use std::path::PathBuf;

use api::Networks;
use catalog::Secret;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Why a value is refused; shown after the setting's name.
type Parsed<T> = Result<T, String>;

pub(crate) trait Value: Sized {
    const NAME: &'static str;
    /// A secret is never shown, not even when it is refused.
    const SECRET: bool = false;

    fn parse(text: &str) -> Parsed<Self>;

    fn read(text: Option<String>) -> Parsed<Self> {
        Self::parse(&text.unwrap_or_default())
    }
}

/// Absent, and empty as scripts leave unset things, both mean none.
impl<T: Value> Value for Option<T> {
    const NAME: &'static str = T::NAME;
    const SECRET: bool = T::SECRET;

    fn parse(text: &str) -> Parsed<Self> {
        if text.is_empty() { Ok(None) } else { T::parse(text).map(Some) }
    }
}

impl Value for SocketAddr {
    const NAME: &'static str = "ADDRESS";

    fn parse(text: &str) -> Parsed<Self> {
        text.parse().map_err(|_| format!("\"{text}\" is no address and port such as 0.0.0.0:8000"))
    }
}

impl Value for PathBuf {
    const NAME: &'static str = "FOLDER";

    fn parse(text: &str) -> Parsed<Self> {
        if text.is_empty() { Err("the name is empty".into()) } else { Ok(text.into()) }
    }
}

pub(crate) struct File(pub PathBuf);

impl Value for File {
    const NAME: &'static str = "FILE";

    fn parse(text: &str) -> Parsed<Self> {
        Ok(Self(text.into()))
    }
}

impl Value for Networks {
    const NAME: &'static str = "RANGES";

    fn parse(text: &str) -> Parsed<Self> {
        text.parse()
    }
}

impl Value for Secret {
    const NAME: &'static str = "SECRET";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        const CHARS: std::ops::RangeInclusive<usize> = 8..=1_024;
        if !CHARS.contains(&text.len()) || text.contains(char::is_whitespace) {
            return Err("it must have 8 to 1024 characters and no spaces".into());
        }
        Ok(Self::given(text))
    }
}

pub(crate) struct Password(pub Secret);

impl Value for Password {
    const NAME: &'static str = "PASSWORD";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        const CHARS: std::ops::RangeInclusive<usize> = 8..=1_024;
        if !CHARS.contains(&text.chars().count()) {
            return Err("it must have 8 to 1024 characters".into());
        }
        Ok(Self(Secret::given(text)))
    }
}

/// Public, but hidden all the same: people paste `config show` into reports.
pub(crate) struct ProjectKey(pub Secret);

impl Value for ProjectKey {
    const NAME: &'static str = "KEY";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        /// Capture refuses longer ones.
        const BYTES_MAX: usize = 64;
        let fits = text.len() <= BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits || text.starts_with("phx_") {
            return Err("it must have at most 64 ASCII characters, and not begin with phx_".into());
        }
        Ok(Self(Secret::given(text)))
    }
}

pub(crate) struct PostgresUrl(pub Secret);

impl Value for PostgresUrl {
    const NAME: &'static str = "URL";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err("it must begin with postgres://".into());
        }
        Ok(Self(Secret::given(text)))
    }
}

pub(crate) struct Email(pub String);

impl Value for Email {
    const NAME: &'static str = "EMAIL";

    fn parse(text: &str) -> Parsed<Self> {
        let whole = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        match text.split_once('@') {
            Some((name, host)) if whole(name) && whole(host) => Ok(Self(text.to_owned())),
            _ => Err(format!("\"{text}\" is no e-mail address")),
        }
    }
}

/// A whole number within bounds.
#[derive(Clone, Copy)]
pub(crate) struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Value for Whole<MIN, MAX> {
    const NAME: &'static str = "NUMBER";

    fn parse(text: &str) -> Parsed<Self> {
        match text.parse() {
            Ok(number) if (MIN..=MAX).contains(&number) => Ok(Self(number)),
            _ => Err(format!("\"{text}\" is no whole number from {MIN} to {MAX}")),
        }
    }
}

/// A number of bytes within bounds, with or without a unit.
#[derive(Clone, Copy)]
pub(crate) struct Size<const MIN: u64, const MAX: u64>(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl<const MIN: u64, const MAX: u64> Value for Size<MIN, MAX> {
    const NAME: &'static str = "SIZE";

    fn parse(text: &str) -> Parsed<Self> {
        let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (number, unit_bytes) = unit.unwrap_or((text, 1));
        let bytes = number.trim_end().parse().ok().and_then(|n: u64| n.checked_mul(unit_bytes));
        match bytes {
            Some(bytes) if (MIN..=MAX).contains(&bytes) => Ok(Self(bytes)),
            Some(_) => Err(format!("\"{text}\" is not between {} and {}", shown(MIN), shown(MAX))),
            None => Err(format!("\"{text}\" is no size such as 20 MiB")),
        }
    }
}

fn shown(bytes: u64) -> String {
    let fits = |(_, unit): &&(&str, u64)| bytes >= *unit && bytes.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("B", 1));
    format!("{} {name}", bytes / unit)
}

macro_rules! choices {
    ($name:ident, $value_name:literal { $($variant:ident = $word:literal),+ $(,)? }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($variant),+
        }

        impl Value for $name {
            const NAME: &'static str = $value_name;

            fn parse(text: &str) -> Parsed<Self> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => {
                        let words = [$($word),+].join(", ");
                        Err(format!("\"{text}\" is none of {words}"))
                    }
                }
            }
        }
    };
}

choices!(LogFormat, "FORMAT" { Pretty = "pretty", Json = "json" });
choices!(Switch, "SWITCH" { Off = "off", On = "on" });
choices!(Durability, "DURABILITY" { Fsync = "fsync", Os = "os" });

pub(crate) struct LogFilter(pub Targets);

impl Value for LogFilter {
    const NAME: &'static str = "LEVEL";

    fn parse(text: &str) -> Parsed<Self> {
        let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
        let is_directive = |word: &str| match word.split_once('=') {
            Some((part, level)) => !part.is_empty() && is_level(level),
            None => is_level(word),
        };
        if !text.split(',').all(is_directive) {
            return Err(format!("\"{text}\" is no level such as info or info,api=debug"));
        }
        // A bare level is about this program; its libraries speak up from info on.
        let quiet = if text.contains('=') { "" } else { ",sqlx=warn,hyper=info,rustls=info" };
        format!("{text}{quiet}").parse().map(Self).map_err(|_| format!("\"{text}\" is no level"))
    }
}
