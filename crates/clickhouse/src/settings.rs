//! Where ClickHouse is, and how to talk to it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use url::Url;

use crate::error::{Error, Password, Result};

/// Of a password in a file.
const PASSWORD_BYTES_MAX: usize = 4_096;

/// How the tables are spread over servers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Topology {
    /// One server.
    #[default]
    Single,
    /// Every replica of this cluster has all rows.
    Replicated { cluster: String },
    /// Events are spread over the shards of this cluster, all other tables are whole on every shard.
    Sharded { cluster: String },
}

impl Topology {
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::Single => None,
            Self::Replicated { cluster } | Self::Sharded { cluster } => Some(cluster),
        }
    }
}

/// Of the Arrow streams in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    None,
    #[default]
    Lz4,
    Zstd,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Scheme, host and port.
    pub server: String,
    pub user: String,
    pub password: Password,
    pub database: String,
    pub topology: Topology,
    pub compression: Compression,
    pub connect_timeout: Duration,
    /// For one query, at most; a statement may have less.
    pub query_timeout: Duration,
    /// For one insert or change of the schema.
    pub write_timeout: Duration,
    /// How long ClickHouse may be silent beyond these times before it is away.
    pub grace: Duration,
    /// Of one answer.
    pub response_bytes_max: u64,
}

impl Settings {
    /// Reads `http[s]://user:password@host:8123/database`.
    pub fn from_url(text: &str) -> Result<Self> {
        let fault = |why| Error::Url { why };
        let url = Url::parse(text).map_err(|_| fault("is not a URL"))?;
        let port = match url.scheme() {
            "http" => 8_123,
            "https" => 8_443,
            _ => return Err(fault("must begin with http:// or https://")),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(fault("has no host"))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(fault("must not have a query or a fragment"));
        }
        // The port is none if it is the scheme's own, 80 or 443.
        let explicit = text.split_once("://").map_or("", |(_, rest)| rest);
        let authority = explicit.split('/').next().unwrap_or_default();
        let explicit = authority.rsplit('@').next().unwrap_or_default();
        let named = explicit.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port = named.or(url.port()).unwrap_or(port);
        let database = url.path().trim_matches('/');
        let database = decoded(database).ok_or(fault("has a database that is not UTF-8"))?;
        let database = if database.is_empty() { "default".to_owned() } else { database };
        if !is_identifier(&database) {
            return Err(fault("names a database with other characters than a-z, A-Z, 0-9 and _"));
        }
        let user = decoded(url.username()).ok_or(fault("has a user that is not UTF-8"))?;
        let password = decoded(url.password().unwrap_or_default());
        let password = password.ok_or(fault("has a password that is not UTF-8"))?;
        if user.chars().chain(password.chars()).any(char::is_control) {
            return Err(fault("has a user or password with a control character"));
        }
        Ok(Self {
            server: format!("{}://{host}:{port}", url.scheme()),
            user: if user.is_empty() { "default".to_owned() } else { user },
            password: Password(password),
            database,
            topology: Topology::Single,
            compression: Compression::default(),
            connect_timeout: Duration::from_secs(10),
            query_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(300),
            grace: Duration::from_secs(10),
            response_bytes_max: 1 << 30,
        })
    }

    pub fn with_user(self, user: String) -> Self {
        Self { user, ..self }
    }

    pub fn with_password(self, password: String) -> Self {
        Self { password: Password(password), ..self }
    }

    /// Takes the password from a file, without the line feed at its end.
    pub fn with_password_file(mut self, file: &Path) -> Result<Self> {
        let fault = |why: String| Error::PasswordFile { file: file.to_owned(), why };
        let text = fs::read_to_string(file).map_err(|why| fault(why.to_string()))?;
        let text = text.trim_end_matches(['\r', '\n']);
        if text.len() > PASSWORD_BYTES_MAX {
            return Err(fault(format!("it has more than {PASSWORD_BYTES_MAX} bytes")));
        }
        if text.chars().any(char::is_control) {
            return Err(fault("it has a control character".to_owned()));
        }
        self.password = Password(text.to_owned());
        Ok(self)
    }

    /// The tables are on this cluster, whose name the configuration of ClickHouse has.
    pub fn with_topology(mut self, topology: Topology) -> Result<Self> {
        if topology.cluster().is_some_and(|cluster| !is_identifier(cluster)) {
            return Err(Error::Url {
                why: "goes with a cluster whose name has other characters than a-z, A-Z, 0-9 and _",
            });
        }
        self.topology = topology;
        Ok(self)
    }
}

/// Whether a name needs no quoting and may be part of any statement.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 64
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn decoded(text: &str) -> Option<String> {
    // `+` is not a space in these parts of a URL.
    let text = text.replace('+', "%2B");
    let pair = format!("v={text}");
    let (_, value) = form_urlencoded::parse(pair.as_bytes()).next()?;
    (!value.contains('\u{fffd}')).then(|| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_server_user_password_and_database() {
        let check = |url: &str| {
            let settings = Settings::from_url(url).unwrap();
            let Settings { server, user, password, database, .. } = settings;
            [server, user, password.0, database]
        };
        assert_eq!(
            check("http://ann:p%40ss%3A+1@db:9000/stats"),
            ["http://db:9000", "ann", "p@ss:+1", "stats"]
        );
        assert_eq!(check("https://db"), ["https://db:8443", "default", "", "default"]);
        assert_eq!(check("https://db:443/x")[0], "https://db:443");
        assert_eq!(check("http://[::1]/")[0], "http://[::1]:8123");
    }

    #[test]
    fn a_url_that_could_mean_something_else_is_refused() {
        for (url, word) in [
            ("ftp://db", "begin with http"),
            ("db:8123", "begin with http"),
            ("http://db/a`b", "database"),
            ("http://db/a/b", "database"),
            ("http://db/?user=x", "query"),
            ("http://a:%0a@db/x", "control"),
            ("http://%ff@db/x", "UTF-8"),
        ] {
            let error = Settings::from_url(url).unwrap_err().to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_is_never_printed() {
        let settings = Settings::from_url("http://ann:secret@db/stats").unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "from file\n").unwrap();
        let settings = settings.with_password_file(&file).unwrap();
        assert_eq!(settings.password.0, "from file");
        assert!(settings.with_password_file(&dir.path().join("none")).is_err());
    }
}
