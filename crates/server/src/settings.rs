//! The one table of settings. Flags, environment variables, TOML keys, defaults, help and the
//! table in docs/SETTINGS.md are all read off it.

use std::net::SocketAddr;
use std::path::PathBuf;

use api::Networks;
use catalog::Secret;

use crate::values::{
    Durability, Email, File, LogFilter, LogFormat, Password, PostgresUrl, ProjectKey, Size, Switch,
    Value, Whole,
};

/// A row of the table.
pub(crate) struct Setting {
    /// The TOML key; flag and variable are spellings of it.
    pub key: &'static str,
    pub heading: &'static str,
    pub default: Option<&'static str>,
    pub help: &'static str,
    /// What a value looks like, for `--help`.
    pub value_name: &'static str,
    pub secret: bool,
}

pub(crate) const PREFIX: &str = "HEDGEROW_";

impl Setting {
    pub(crate) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.to_uppercase())
    }

    /// The variable that names a file holding a secret.
    pub(crate) fn file_variable(&self) -> Option<String> {
        self.secret.then(|| format!("{}_FILE", self.variable()))
    }
}

macro_rules! settings {
    ($($heading:literal { $($key:ident: $type:ty = $default:expr, $help:literal;)+ })+) => {
        /// The effective values.
        pub(crate) struct Settings {
            $($(pub $key: $type,)+)+
        }

        pub(crate) const TABLE: &[Setting] = &[$($(
            Setting {
                key: stringify!($key),
                heading: $heading,
                default: $default,
                help: $help,
                value_name: <$type as Value>::NAME,
                secret: <$type as Value>::SECRET,
            },
        )+)+];

        impl Settings {
            /// Reads every value from the text that `text_of` found for its key.
            pub(crate) fn read<E>(
                mut text_of: impl FnMut(&'static str) -> Option<String>,
                wrong: impl Fn(&'static str, String) -> E,
            ) -> Result<Self, E> {
                Ok(Self {
                    $($($key: <$type as Value>::read(text_of(stringify!($key)))
                        .map_err(|why| wrong(stringify!($key), why))?,)+)+
                })
            }
        }
    };
}

settings! {
    "Server" {
        listen: SocketAddr = Some("127.0.0.1:8000"),
            "Address and port to listen on; port 0 takes a free one";
        data_dir: PathBuf = Some("./hedgerow-data"),
            "Folder for everything that is kept; made when missing";
        catalog_url: Option<PostgresUrl> = None,
            "PostgreSQL to keep the catalog in; without it, SQLite in the data folder";
        secret_key: Option<Secret> = None,
            "Key that seals what must be shown again; without it, a file in the data folder";
        rate_limits: Switch = Some("off"),
            "Whether personal API keys have rate limits";
        sharing_grace_seconds: Whole<0, 86_400> = Some("300"),
            "How long the link of a shared page works after its token was replaced";
        trusted_proxies: Networks = Some(""),
            "Proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8, 192.0.2.7";
    }
    "First start" {
        project_api_key: Option<ProjectKey> = None,
            "API key of the first project (first start only); without it, made up and printed";
        personal_api_key: Option<Secret> = None,
            "Personal API key of the admin, scope * (first start only); without it, made up and printed";
        admin_email: Email = Some("admin@hedgerow.local"),
            "E-mail address of the admin (first start only)";
        admin_password: Option<Password> = None,
            "Password of the admin (first start only); without it, made up and printed";
    }
    "Limits" {
        body_bytes_max: Size<1_024, { 1 << 30 }> = Some("1 MiB"),
            "Largest body of a management request";
        header_bytes_max: Size<8_192, { 1 << 20 }> = Some("64 KiB"),
            "Largest head of a request";
        header_seconds_max: Whole<1, 3_600> = Some("75"),
            "How long a client may take to send a head, and may stay silent between requests";
        request_seconds_max: Whole<1, 3_600> = Some("60"),
            "How long a management request may take";
        requests_at_once_max: Whole<1, 1_000_000> = Some("512"),
            "Management requests worked on at once; more wait a second, then get 503";
        connections_max: Whole<1, 1_000_000> = Some("4096"),
            "Connections held at once; a new one takes the place of that which has waited longest for its client";
        connections_per_address_max: Whole<1, 1_000_000> = Some("1024"),
            "The same for one address (for IPv6: one /64); does not count for loopback and trusted_proxies";
        write_seconds_max: Whole<1, 3_600> = Some("30"),
            "How long a client may leave an answer unread before its connection is closed";
        drain_delay_seconds: Whole<0, 3_600> = Some("0"),
            "How long to say \"not ready\" before refusing connections, so that load balancers notice";
        drain_seconds_max: Whole<0, 3_600> = Some("30"),
            "How long requests may take to finish when the server stops";
    }
    "Queries" {
        query_seconds_max: Whole<1, 60> = Some("10"),
            "How long a question about events may take; past it the answer is 504";
        query_memory_bytes_max: Size<{ 16 << 20 }, { 1 << 40 }> = Some("512 MiB"),
            "Memory of one question; past it the answer is 504";
        queries_memory_bytes_max: Size<{ 16 << 20 }, { 1 << 40 }> = Some("512 MiB"),
            "Memory of all questions together; one that finds none left gets 503";
        queries_at_once_max: Whole<1, 1_000> = Some("3"),
            "Questions of one project that run at once; more wait 30 seconds, then get 429";
    }
    "Definitions" {
        event_definitions_max: Whole<1, 10_000_000> = Some("10000"),
            "Names of events that a project has listed; events with others are stored, and counted";
        property_definitions_max: Whole<1, 10_000_000> = Some("20000"),
            "Names of properties of events, persons and groups that a project has listed, together";
    }
    "Capture" {
        capture_durability: Durability = Some("fsync"),
            "When an event counts as kept: fsync (survives a power cut) or os (survives a crash)";
        capture_body_bytes_max: Size<1_024, { 256 << 20 }> = Some("20 MiB"),
            "Largest body of a capture request, before and after decompression";
        capture_in_flight_bytes_max: Size<{ 1 << 20 }, { 1 << 40 }> = Some("128 MiB"),
            "Memory for everything that strangers make the server hold (bodies, what is decoded of them, answers that wait for readers); what finds no room waits, then gets 503";
        capture_stall_seconds_max: Whole<1, 3_600> = Some("15"),
            "How long the body of a request may pause before it is given up with 408; a second while its room is short, and then with 503";
        capture_body_seconds_max: Whole<1, 3_600> = Some("120"),
            "How long the body of a request may take altogether";
        journal_segment_bytes: Size<8_192, { 1 << 30 }> = Some("64 MiB"),
            "Size of a journal file";
        journal_disk_bytes_max: Size<{ 1 << 20 }, { 1 << 50 }> = Some("16 GiB"),
            "Events that wait on disk to be stored; past it capture answers 503";
    }
    "Events" {
        geoip_db: Option<File> = None,
            "MaxMind-format database that says where events come from; without it, the one built in";
        events_days_max: Option<Whole<1, 36_500>> = None,
            "Days that events are kept, by their own time; without it, for good";
        events_disk_bytes_max: Option<Size<{ 1 << 20 }, { 1 << 50 }>> = None,
            "Disk space of stored events, past which the oldest are dropped; without it, all are kept";
        column_cache_bytes_max: Size<{ 1 << 20 }, { 1 << 40 }> = Some("192 MiB"),
            "Memory for what was read of stored events, kept for the next question; up to three quarters are lent to statements that need much";
    }
    "Logs" {
        log_format: LogFormat = Some("pretty"),
            "pretty for people, json for machines";
        log_level: LogFilter = Some("info"),
            "error, warn, info, debug or trace; or by part, such as info,api=debug";
    }
}
