//! Types of settings' values: parsing, validation and the placeholder in `--help`.

use std::net::SocketAddr;
use std::path::PathBuf;

use api::Networks;
use catalog::Secret;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// The error completes a message that begins with the setting's name.
type Parsed<T> = Result<T, String>;

pub(crate) trait SettingValue: Sized {
    const NAME: &'static str;
    /// A secret is never printed, not even in an error.
    const SECRET: bool = false;

    fn parse(text: &str) -> Parsed<Self>;

    fn read(text: Option<String>) -> Parsed<Self> {
        Self::parse(&text.unwrap_or_default())
    }
}

/// Absent and empty both mean `None`: scripts pass unset variables as empty strings.
impl<T: SettingValue> SettingValue for Option<T> {
    const NAME: &'static str = T::NAME;
    const SECRET: bool = T::SECRET;

    fn parse(text: &str) -> Parsed<Self> {
        if text.is_empty() { Ok(None) } else { T::parse(text).map(Some) }
    }
}

impl SettingValue for SocketAddr {
    const NAME: &'static str = "ADDRESS";

    fn parse(text: &str) -> Parsed<Self> {
        text.parse()
            .map_err(|_| format!("\"{text}\" is not an address and port such as 0.0.0.0:8000"))
    }
}

impl SettingValue for PathBuf {
    const NAME: &'static str = "DIRECTORY";

    fn parse(text: &str) -> Parsed<Self> {
        if text.is_empty() { Err("the path is empty".into()) } else { Ok(text.into()) }
    }
}

pub(crate) struct File(pub PathBuf);

impl SettingValue for File {
    const NAME: &'static str = "FILE";

    fn parse(text: &str) -> Parsed<Self> {
        Ok(Self(text.into()))
    }
}

impl SettingValue for Networks {
    const NAME: &'static str = "RANGES";

    fn parse(text: &str) -> Parsed<Self> {
        text.parse()
    }
}

impl SettingValue for Secret {
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

impl SettingValue for Password {
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

/// Public, but hidden in `config show`, whose output ends up in bug reports.
pub(crate) struct ProjectKey(pub Secret);

impl SettingValue for ProjectKey {
    const NAME: &'static str = "KEY";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        /// Capture rejects longer tokens.
        const BYTES_MAX: usize = 64;
        let fits = text.len() <= BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits || text.starts_with("phx_") {
            return Err("it must have at most 64 ASCII characters, and not begin with phx_".into());
        }
        Ok(Self(Secret::given(text)))
    }
}

pub(crate) struct PostgresUrl(pub Secret);

impl SettingValue for PostgresUrl {
    const NAME: &'static str = "URL";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err("it must begin with postgres://".into());
        }
        Ok(Self(Secret::given(text)))
    }
}

pub(crate) struct NatsUrl(pub Secret);

impl SettingValue for NatsUrl {
    const NAME: &'static str = "URL";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        if !["nats://", "tls://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err("it must begin with nats:// or tls://".into());
        }
        Ok(Self(Secret::given(text)))
    }
}

pub(crate) struct ClickHouseUrl(pub clickhouse::Settings);

impl SettingValue for ClickHouseUrl {
    const NAME: &'static str = "URL";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        clickhouse::Settings::from_url(text).map(Self).map_err(|error| match error {
            clickhouse::Error::Url { why } => format!("it {why}"),
            other => other.to_string(),
        })
    }
}

/// The password of an account of another program.
pub(crate) struct Credential(pub Secret);

impl SettingValue for Credential {
    const NAME: &'static str = "PASSWORD";
    const SECRET: bool = true;

    fn parse(text: &str) -> Parsed<Self> {
        const BYTES_MAX: usize = 4_096;
        if text.len() > BYTES_MAX || text.chars().any(char::is_control) {
            return Err(format!(
                "it must have at most {BYTES_MAX} bytes and no control characters"
            ));
        }
        Ok(Self(Secret::given(text)))
    }
}

/// A name in the configuration of another program.
pub(crate) struct Name(pub String);

impl SettingValue for Name {
    const NAME: &'static str = "NAME";

    fn parse(text: &str) -> Parsed<Self> {
        const BYTES_MAX: usize = 64;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if text.len() > BYTES_MAX || !text.bytes().all(is_plain) {
            return Err(format!("\"{text}\" is not a name of letters, digits, _, - and ."));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Addresses, separated by commas.
pub(crate) struct Urls(pub Vec<String>);

impl SettingValue for Urls {
    const NAME: &'static str = "URLS";

    fn parse(text: &str) -> Parsed<Self> {
        let urls: Vec<_> = text.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
        match urls.iter().find(|url| !url.starts_with("http://")) {
            Some(url) => Err(format!("\"{url}\" does not begin with http://")),
            None => Ok(Self(urls.into_iter().map(str::to_owned).collect())),
        }
    }
}

pub(crate) struct Email(pub String);

impl SettingValue for Email {
    const NAME: &'static str = "EMAIL";

    fn parse(text: &str) -> Parsed<Self> {
        let valid = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        match text.split_once('@') {
            Some((name, host)) if valid(name) && valid(host) => Ok(Self(text.to_owned())),
            _ => Err(format!("\"{text}\" is not an e-mail address")),
        }
    }
}

/// An integer from `MIN` to `MAX`.
#[derive(Clone, Copy)]
pub(crate) struct Integer<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> SettingValue for Integer<MIN, MAX> {
    const NAME: &'static str = "NUMBER";

    fn parse(text: &str) -> Parsed<Self> {
        match text.parse() {
            Ok(number) if (MIN..=MAX).contains(&number) => Ok(Self(number)),
            _ => Err(format!("\"{text}\" is not an integer from {MIN} to {MAX}")),
        }
    }
}

/// A size in bytes from `MIN` to `MAX`; accepts a unit such as `MiB`.
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

impl<const MIN: u64, const MAX: u64> SettingValue for Size<MIN, MAX> {
    const NAME: &'static str = "SIZE";

    fn parse(text: &str) -> Parsed<Self> {
        let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (number, unit_bytes) = unit.unwrap_or((text, 1));
        let bytes = number.trim_end().parse().ok().and_then(|n: u64| n.checked_mul(unit_bytes));
        match bytes {
            Some(bytes) if (MIN..=MAX).contains(&bytes) => Ok(Self(bytes)),
            Some(_) => Err(format!(
                "\"{text}\" is not between {} and {}",
                format_size(MIN),
                format_size(MAX)
            )),
            None => Err(format!("\"{text}\" is not a size such as 20 MiB")),
        }
    }
}

fn format_size(bytes: u64) -> String {
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

        impl SettingValue for $name {
            const NAME: &'static str = $value_name;

            fn parse(text: &str) -> Parsed<Self> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => {
                        let words = [$($word),+].join(", ");
                        Err(format!("\"{text}\" is not one of {words}"))
                    }
                }
            }
        }
    };
}

choices!(LogFormat, "FORMAT" { Pretty = "pretty", Json = "json" });
choices!(Switch, "SWITCH" { Off = "off", On = "on" });
choices!(WarehouseTopology, "TOPOLOGY" {
    Single = "single", Replicated = "replicated", Sharded = "sharded",
});
choices!(WarehouseCompression, "COMPRESSION" { None = "none", Lz4 = "lz4", Zstd = "zstd" });
choices!(Durability, "DURABILITY" { Fsync = "fsync", Os = "os", Replicated = "replicated" });

pub(crate) struct LogFilter(pub Targets);

const NATS_TARGET: &str = "async_nats";

impl SettingValue for LogFilter {
    const NAME: &'static str = "LEVEL";

    fn parse(text: &str) -> Parsed<Self> {
        let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
        let is_directive = |word: &str| match word.split_once('=') {
            Some((part, level)) => !part.is_empty() && is_level(level),
            None => is_level(word),
        };
        if !text.split(',').all(is_directive) {
            return Err(format!("\"{text}\" is not a level such as info or info,api=debug"));
        }
        // A bare level applies to hedgerow's crates; noisy libraries keep a fixed level.
        let quiet = if text.contains('=') { "" } else { ",sqlx=warn,hyper=info,rustls=info" };
        let mut targets: Targets =
            format!("{text}{quiet}").parse().map_err(|_| format!("\"{text}\" is not a level"))?;
        // Below info it logs addresses of servers and the events that are sent to them.
        if !text.contains(NATS_TARGET)
            && let Some(level) = targets.default_level()
        {
            targets = targets.with_target(NATS_TARGET, level.min(LevelFilter::INFO));
        }
        Ok(Self(targets))
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    use super::*;

    #[test]
    fn nats_client_logs_at_most_at_info_unless_the_filter_names_it() {
        for (filter, wanted) in [
            ("debug", LevelFilter::INFO),
            ("trace,api=debug", LevelFilter::INFO),
            ("error", LevelFilter::ERROR),
            ("info,async_nats=debug", LevelFilter::DEBUG),
        ] {
            let LogFilter(targets) = LogFilter::parse(filter).ok().unwrap();
            let enabled = |level| targets.would_enable("async_nats::connector", &level);
            let levels = [tracing::Level::ERROR, tracing::Level::INFO, tracing::Level::DEBUG];
            let found = levels.map(enabled);
            assert_eq!(found, levels.map(|level| level <= wanted), "{filter}");
        }
    }
}
