use std::borrow::Cow;
use std::path::PathBuf;
use std::str::FromStr as _;

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

use crate::{Error, Result};

const NAME_DEFAULT: &str = "hedgerow";
const URL_FORM: &str = "is not of the form nats://user:password@host:port,host:port/name, with other \
                        characters than letters and digits of user and password percent-encoded";
const NAME_CHARS_MAX: usize = 32;
/// More replicas than JetStream knows.
const REPLICAS_CEILING: usize = 5;

/// When an append is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When a majority of the replicas has written and synced it: every server must say `sync_always` on
    /// its monitoring page.
    #[default]
    Fsync,
    /// When a majority of the replicas has it in memory: a power failure of all of them at once loses it.
    Replicated,
}

/// Where the servers of a journal are, and what they must keep.
#[derive(Clone, Default)]
pub struct Address {
    /// `nats://` or `tls://`, `user:password@` if need be (percent-encoded), servers separated by
    /// commas; after a slash the journal's name, `hedgerow` if there is none.
    pub url: String,
    /// The contents of a NATS credentials file.
    pub credentials: Option<String>,
    /// Certificates to trust beside the system's, and our own with its key: PEM files.
    pub tls_ca: Option<PathBuf>,
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// Monitoring addresses of all servers, such as `http://10.0.0.1:8222`.
    pub monitor_urls: Vec<String>,
    pub replicas: usize,
    pub lane: u16,
    pub durability: Durability,
    /// Names the one server that uses the journal, across its restarts. Two processes with the same
    /// owner must exclude each other in another way.
    pub owner: u128,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may hold a password.
        f.debug_struct("Address").field("lane", &self.lane).finish_non_exhaustive()
    }
}

/// What an address names, parsed.
pub(crate) struct Parsed {
    pub servers: Vec<ServerAddr>,
    /// User and password.
    pub user: Option<(String, String)>,
    /// Small letters, digits, `-` and `_`.
    pub name: String,
}

fn parse_user(text: &str) -> Option<(String, String)> {
    let decode = |text| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
    let (user, password) = text.split_once(':')?;
    Some((decode(user)?, decode(password)?))
}

impl Address {
    pub(crate) fn parse(&self) -> Result<Parsed> {
        let bad = |why| Error::Setting { name: "journal_url", why };
        let (scheme, rest) = self
            .url
            .split_once("://")
            .filter(|(scheme, _)| matches!(*scheme, "nats" | "tls"))
            .ok_or(bad("does not begin with nats:// or tls://"))?;
        let (hosts, name) = rest.split_once('/').unwrap_or((rest, ""));
        let name = if name.is_empty() { NAME_DEFAULT } else { name };
        let allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        };
        if name.len() > NAME_CHARS_MAX || !name.bytes().all(allowed) {
            return Err(bad(
                "ends in a name that is not of 1 to 32 small letters, digits, hyphens and underscores",
            ));
        }
        // Of the servers' addresses the client ignores it.
        let (user, hosts) = match hosts.rsplit_once('@') {
            Some((user, hosts)) => (Some(parse_user(user).ok_or(bad(URL_FORM))?), hosts),
            None => (None, hosts),
        };
        let servers = hosts
            .split(',')
            .map(|host| ServerAddr::from_str(&format!("{scheme}://{host}")))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| bad(URL_FORM))?;
        if self.replicas == 0 || self.replicas > REPLICAS_CEILING {
            return Err(Error::Setting { name: "journal_replicas", why: "is not 1 to 5" });
        }
        Ok(Parsed { servers, user, name: name.to_owned() })
    }

    pub(crate) fn options(&self) -> Result<ConnectOptions> {
        let mut options = ConnectOptions::new();
        if let Some(credentials) = &self.credentials {
            options = options.credentials(credentials).map_err(|_| Error::Setting {
                name: "journal_credentials",
                why: "is not a NATS credentials file",
            })?;
        }
        if let Some(file) = &self.tls_ca {
            options = options.add_root_certificates(file.clone());
        }
        match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                options = options.add_client_certificate(certificate.clone(), key.clone());
            }
            (None, None) => {}
            _ => {
                return Err(Error::Setting {
                    name: "journal_tls_certificate",
                    why: "and journal_tls_key are set together or not at all",
                });
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Parsed> {
        Address { url: url.to_owned(), replicas: 3, ..Address::default() }.parse()
    }

    #[test]
    fn address_lists_servers_and_may_name_the_journal() {
        for (url, servers, name) in [
            ("nats://a", vec!["a:4222"], "hedgerow"),
            ("nats://a:1,b:2,c/", vec!["a:1", "b:2", "c:4222"], "hedgerow"),
            ("tls://me:secret@a:1,b:2/shop-eu", vec!["a:1", "b:2"], "shop-eu"),
        ] {
            let parsed = parse(url).unwrap();
            let shown = |server: &ServerAddr| format!("{}:{}", server.host(), server.port());
            assert_eq!(parsed.servers.iter().map(shown).collect::<Vec<_>>(), servers, "{url}");
            assert_eq!(parsed.name, name, "{url}");
        }
        for url in
            ["a:4222", "http://a", "nats://a/Shop", "nats://a/b/c", "nats://a,:x", "nats://me@a"]
        {
            let error = parse(url).err().unwrap().to_string();
            assert!(error.starts_with("journal setting journal_url "), "{url}: {error}");
        }
    }

    #[test]
    fn user_and_password_are_decoded_and_not_part_of_the_servers_addresses() {
        let Parsed { servers, user, .. } = parse("nats://me:a%2Fb%40,c%3a@h,i").unwrap();
        assert_eq!(user, Some(("me".to_owned(), "a/b@,c:".to_owned())));
        assert!(servers.iter().all(|server| !server.has_user_pass()));
        assert_eq!(parse("nats://h").unwrap().user, None);
    }
}
