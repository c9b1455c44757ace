//! The table of settings: the single source of flags, environment variables, TOML keys, defaults,
//! help texts and the table in docs/SETTINGS.md.

use std::net::SocketAddr;
use std::path::PathBuf;

use api::Networks;
use catalog::Secret;

use crate::values::{
    ClickHouseUrl, Credential, Durability, Email, File, Integer, LogFilter, LogFormat, Name,
    NatsUrl, Password, PostgresUrl, ProjectKey, SettingValue, Size, Switch, Urls,
    WarehouseCompression, WarehouseTopology,
};

/// A row of the table.
pub(crate) struct Setting {
    /// The TOML key; the names of the flag and the variable derive from it.
    pub key: &'static str,
    pub heading: &'static str,
    pub default: Option<&'static str>,
    pub help: &'static str,
    /// Placeholder of the value in `--help`.
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

    /// The variable that names a file with the secret.
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
                value_name: <$type as SettingValue>::NAME,
                secret: <$type as SettingValue>::SECRET,
            },
        )+)+];

        impl Settings {
            /// Parses every value from the string that `raw_value` returns for its key.
            pub(crate) fn read<E>(
                mut raw_value: impl FnMut(&'static str) -> Option<String>,
                invalid: impl Fn(&'static str, String) -> E,
            ) -> Result<Self, E> {
                Ok(Self {
                    $($($key: <$type as SettingValue>::read(raw_value(stringify!($key)))
                        .map_err(|why| invalid(stringify!($key), why))?,)+)+
                })
            }
        }
    };
}

settings! {
    "Server" {
        listen: SocketAddr = Some("127.0.0.1:8000"),
            "Address and port to listen on; port 0 selects a free port";
        data_dir: PathBuf = Some("./hedgerow-data"),
            "Data directory; created when missing";
        catalog_url: Option<PostgresUrl> = None,
            "PostgreSQL database for the catalog; default: SQLite in the data directory";
        warehouse_url: Option<ClickHouseUrl> = None,
            "ClickHouse database for events, such as http://user:password@host:8123/database; default: files in the data directory";
        secret_key: Option<Secret> = None,
            "Key that encrypts stored tokens; default: generated into secret.key in the data directory";
        rate_limits: Switch = Some("off"),
            "Rate limits for personal API keys: on or off";
        sharing_grace_seconds: Integer<0, 86_400> = Some("300"),
            "Seconds that the link of a shared page stays valid after its token was rotated";
        trusted_proxies: Networks = Some(""),
            "Proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8, 192.0.2.7";
    }
    "First start" {
        project_api_key: Option<ProjectKey> = None,
            "API key of the first project (first start only); default: generated and printed";
        personal_api_key: Option<Secret> = None,
            "Personal API key of the admin, scope * (first start only); default: generated and printed";
        admin_email: Email = Some("admin@hedgerow.local"),
            "E-mail address of the admin (first start only)";
        admin_password: Option<Password> = None,
            "Password of the admin (first start only); default: none, and the first start prints a setup link";
        first_start_output: Option<File> = None,
            "File, private to its owner, to which the keys and the setup link of the first start are appended; default: standard output";
    }
    "Limits" {
        body_bytes_max: Size<1_024, { 1 << 30 }> = Some("1 MiB"),
            "Maximum body of a management request; larger ones get 413";
        header_bytes_max: Size<8_192, { 1 << 20 }> = Some("64 KiB"),
            "Maximum size of a request's line and headers";
        header_seconds_max: Integer<1, 3_600> = Some("75"),
            "Timeout for receiving a request's headers, and for an idle keep-alive connection";
        request_seconds_max: Integer<1, 3_600> = Some("60"),
            "Timeout of a management request";
        requests_at_once_max: Integer<1, 1_000_000> = Some("512"),
            "Management requests processed concurrently; more wait one second, then get 503";
        connections_max: Integer<1, 1_000_000> = Some("4096"),
            "Open connections; past it a new connection evicts the one whose client has been idle longest";
        connections_per_address_max: Integer<1, 1_000_000> = Some("1024"),
            "Open connections of one client address (IPv6: one /64); loopback and trusted_proxies are exempt";
        write_seconds_max: Integer<1, 3_600> = Some("30"),
            "Timeout for a client that does not read its response; then the connection is closed";
        drain_delay_seconds: Integer<0, 3_600> = Some("0"),
            "Seconds that readiness fails before the server stops accepting connections, so that load balancers notice";
        drain_seconds_max: Integer<0, 3_600> = Some("30"),
            "Timeout for requests in flight when the server stops";
    }
    "Queries" {
        query_seconds_max: Integer<1, 60> = Some("10"),
            "Timeout of one query; past it the response is 504";
        query_memory_bytes_max: Size<{ 16 << 20 }, { 1 << 40 }> = Some("512 MiB"),
            "Memory of one query; past it the response is 504";
        queries_memory_bytes_max: Size<{ 16 << 20 }, { 1 << 40 }> = Some("512 MiB"),
            "Memory of all running queries; a query that cannot get more gets 503";
        queries_at_once_max: Integer<1, 1_000> = Some("3"),
            "Concurrent queries of one project; more wait 30 seconds, then get 429";
        person_checkpoint_changes: Integer<1, 1_000_000_000> = Some("65536"),
            "Changed persons and distinct ids of a project, or a twentieth of all if that is more, after which its person index is written to people/";
    }
    "Definitions" {
        event_definitions_max: Integer<1, 10_000_000> = Some("10000"),
            "Event definitions of one project; events with further names are stored but not listed";
        property_definitions_max: Integer<1, 10_000_000> = Some("20000"),
            "Property definitions of one project (events, persons and groups together)";
    }
    "Capture" {
        capture_durability: Durability = Some("fsync"),
            "When capture acknowledges an event: fsync (survives a power failure), os (survives a crash of the process) or, with journal_url, replicated (survives the loss of one server)";
        capture_body_bytes_max: Size<1_024, { 256 << 20 }> = Some("20 MiB"),
            "Maximum body of a capture request, before and after decompression; larger ones get 413";
        capture_in_flight_bytes_max: Size<{ 1 << 20 }, { 1 << 40 }> = Some("128 MiB"),
            "Memory budget of requests in flight (bodies, decoded bodies, unread responses); a request past it waits, then gets 503";
        capture_stall_seconds_max: Integer<1, 3_600> = Some("15"),
            "Timeout for a body that stalls, then 408; one second while the memory budget is contended, then 503";
        capture_body_seconds_max: Integer<1, 3_600> = Some("120"),
            "Timeout for receiving a whole body";
        journal_segment_bytes: Size<8_192, { 1 << 30 }> = Some("64 MiB"),
            "Size of a journal segment file";
        journal_disk_bytes_max: Size<{ 1 << 20 }, { 1 << 50 }> = Some("16 GiB"),
            "Maximum size of the journal (events not applied yet); past it capture responds with 503";
    }
    "Journal on NATS" {
        journal_url: Option<NatsUrl> = None,
            "NATS JetStream servers for the journal, nats://host:port,host:port/name; default: files in the data directory";
        journal_credentials: Option<Secret> = None,
            "Contents of the NATS credentials file";
        journal_tls_ca: Option<File> = None,
            "PEM file of certificates to trust, for tls:// servers; default: the system's";
        journal_tls_certificate: Option<File> = None,
            "PEM file of the client certificate";
        journal_tls_key: Option<File> = None,
            "PEM file of the client certificate's key";
        journal_monitor_urls: Urls = Some(""),
            "Monitoring addresses of all NATS servers, such as http://10.0.0.1:8222,http://10.0.0.2:8222; capture_durability = fsync needs them";
        journal_replicas: Integer<1, 5> = Some("3"),
            "Servers that hold each message; with fewer than three the loss of one server can lose events";
    }
    "Events" {
        geoip_db: Option<File> = None,
            "GeoIP database in MaxMind format; default: the built-in one";
        events_days_max: Option<Integer<1, 36_500>> = None,
            "Retention of events in days, by event timestamp; default: unlimited";
        events_disk_bytes_max: Option<Size<{ 1 << 20 }, { 1 << 50 }>> = None,
            "Disk space of stored events; past it the oldest are deleted; default: unlimited";
        column_cache_bytes_max: Size<{ 1 << 20 }, { 1 << 40 }> = Some("192 MiB"),
            "Memory of the column cache; up to three quarters of it are lent to memory-heavy HogQL statements";
    }
    "ClickHouse" {
        warehouse_password: Option<Credential> = None,
            "Password of the user in warehouse_url, instead of one in the URL";
        warehouse_query_user: Option<Name> = None,
            "User of ClickHouse for queries, which needs no more than SELECT; default: the one of warehouse_url";
        warehouse_query_password: Option<Credential> = None,
            "Password of warehouse_query_user";
        warehouse_topology: WarehouseTopology = Some("single"),
            "single (one server), replicated (each replica of a cluster has all events) or sharded (events are spread over a cluster)";
        warehouse_cluster: Option<Name> = None,
            "Name of the cluster in ClickHouse's configuration; required unless warehouse_topology is single";
        warehouse_compression: WarehouseCompression = Some("lz4"),
            "Compression of the data sent to and from ClickHouse: none, lz4 or zstd";
        warehouse_connect_seconds_max: Integer<1, 300> = Some("10"),
            "Timeout for a connection to ClickHouse, and for its silence beyond the timeout of a statement";
        warehouse_write_seconds_max: Integer<1, 3_600> = Some("300"),
            "Timeout of an insert, a delete or a change of tables in ClickHouse; events wait in the journal";
    }
    "Logs" {
        log_format: LogFormat = Some("pretty"),
            "pretty for terminals, json for log collectors";
        log_level: LogFilter = Some("info"),
            "error, warn, info, debug or trace; or per crate, such as info,api=debug";
    }
}
