//! The client's IP address, from the peer and `X-Forwarded-For` of trusted proxies.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::HeaderMap;

/// Address ranges in CIDR notation, such as `10.0.0.0/8, 2001:db8::/32, 192.0.2.7`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// Entries of `X-Forwarded-For` that are read; no real chain of proxies is longer.
const FORWARDED_MAX: usize = 32;

impl Networks {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address.to_canonical()))
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.prefix_bits);
                (network.to_bits() ^ other.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.prefix_bits);
                (network.to_bits() ^ other.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Networks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(Network::from_str).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is no address or range such as 10.0.0.0/8");
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = prefix.map_or(Ok(bits), str::parse).map_err(|_| wrong())?;
        if prefix_bits > bits {
            return Err(wrong());
        }
        Ok(Self { address, prefix_bits })
    }
}

/// The client's address. With trusted proxies, the rightmost entry of `X-Forwarded-For` that is not
/// one of them. Without, the leftmost entry, which a client can forge: good for GeoIP only.
pub fn client_address(headers: &HeaderMap, peer: IpAddr, trusted: &Networks) -> IpAddr {
    let peer = peer.to_canonical();
    let mut entries = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|entry| !entry.is_empty());
    if trusted.is_empty() {
        return entries.next().and_then(address).unwrap_or(peer);
    }
    let mut last = peer;
    for entry in entries.rev().take(FORWARDED_MAX) {
        if !trusted.contains(last) {
            break;
        }
        match address(entry) {
            Some(next) => last = next,
            None => break,
        }
    }
    last
}

/// Parses an entry, with or without a port.
fn address(entry: &str) -> Option<IpAddr> {
    let bare = entry.trim_start_matches('[').trim_end_matches(']');
    let plain = bare.parse::<IpAddr>().ok();
    let address = plain.or_else(|| Some(entry.parse::<std::net::SocketAddr>().ok()?.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn network_contains_exactly_the_addresses_of_its_range() {
        for (range, address, inside) in [
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
        ] {
            let networks: Networks = range.parse().unwrap();
            assert_eq!(networks.contains(address.parse().unwrap()), inside, "{range} {address}");
        }
        for wrong in ["10.0.0.0/33", "10.0.0", "::/129", "10.0.0.0/x", "proxy"] {
            assert!(wrong.parse::<Networks>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn client_address_is_leftmost_entry_or_first_untrusted_hop() {
        let peer = "10.0.0.1";
        for (forwarded, trusted, expected) in [
            (None, "", "10.0.0.1"),
            (Some("203.0.113.9, 10.0.0.2"), "", "203.0.113.9"),
            (Some("203.0.113.9:4711"), "", "203.0.113.9"),
            (Some("[2001:db8::1]:4711"), "", "2001:db8::1"),
            (Some("[2001:db8::1]"), "", "2001:db8::1"),
            (Some("unknown"), "", "10.0.0.1"),
            (Some("198.51.100.1, 203.0.113.9, 10.0.0.2"), "10.0.0.0/8", "203.0.113.9"),
            (Some("203.0.113.9"), "192.0.2.0/24", "10.0.0.1"),
            (Some("10.0.0.3, 10.0.0.2"), "10.0.0.0/8", "10.0.0.3"),
            (Some("203.0.113.9, nonsense"), "10.0.0.0/8", "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(forwarded) = forwarded {
                headers.insert("x-forwarded-for", HeaderValue::from_str(forwarded).unwrap());
            }
            let trusted = trusted.parse().unwrap();
            let address = client_address(&headers, peer.parse().unwrap(), &trusted);
            assert_eq!(address.to_string(), expected, "{forwarded:?} {trusted:?}");
        }
    }
}
