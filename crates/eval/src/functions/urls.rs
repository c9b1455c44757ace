//! URL functions. As in ClickHouse, they search for delimiters and do not validate the URL.

use super::{CallSite, CompiledCall, call};
use crate::error::Result;
use crate::values::format::push;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    let part: fn(&str) -> &str = match site.name {
        "protocol" => protocol,
        "domain" => domain,
        "domainWithoutWWW" => |url| {
            let domain = domain(url);
            domain.strip_prefix("www.").unwrap_or(domain)
        },
        "topLevelDomain" => top_level_domain,
        "path" => |url| until(path_full(url), &['?', '#']),
        "pathFull" => path_full,
        "queryString" => |url| url.split_once('?').map_or("", |(_, query)| until(query, &['#'])),
        "fragment" => |url| url.split_once('#').map_or("", |(_, fragment)| fragment),
        "cutQueryStringAndFragment" => {
            |url| if url.contains('?') { until(url, &['?']) } else { until(url, &['#']) }
        }
        "cutQueryString" => {
            return Ok(Some(call(move |args| {
                let urls = args.strings(0);
                args.map_strings(span, |row, out| cut_query(urls.at(row), out))
            })));
        }
        "extractURLParameter" => {
            return Ok(Some(call(move |args| {
                let (urls, names) = (args.strings(0), args.strings(1));
                args.map_strings(span, |row, out| {
                    out.push_str(parameter(urls.at(row), names.at(row)));
                })
            })));
        }
        "decodeURLComponent" => {
            return Ok(Some(call(move |args| {
                let strings = args.strings(0);
                args.map_strings(span, |row, out| decode(strings.at(row), out))
            })));
        }
        "encodeURLComponent" => {
            return Ok(Some(call(move |args| {
                let strings = args.strings(0);
                args.map_strings(span, |row, out| encode(strings.at(row), out))
            })));
        }
        _ => return Ok(None),
    };
    Ok(Some(call(move |args| {
        let urls = args.strings(0);
        args.map_strings(span, |row, out| out.push_str(part(urls.at(row))))
    })))
}

fn until<'t>(text: &'t str, ends: &[char]) -> &'t str {
    &text[..text.find(ends).unwrap_or(text.len())]
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn protocol(url: &str) -> &str {
    match url.split_once("://") {
        Some((scheme, _)) if is_scheme(scheme) => scheme,
        _ => "",
    }
}

/// The part after the scheme, and whether it must contain a host.
fn after_scheme(url: &str) -> &str {
    if let Some(rest) = url.strip_prefix("//") {
        return rest;
    }
    match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        _ => url,
    }
}

/// The host, empty without a dot. The first colon ends the authority, whether a port or a password
/// follows it.
fn domain(url: &str) -> &str {
    let rest = after_scheme(url);
    let authority = until(rest, &[':', '/', '?', '#']);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let odd = |c: char| c.is_ascii_whitespace() || "<>%{}|\\^~[];=&".contains(c);
    if host.contains(odd) || !host.contains('.') || host.ends_with('.') { "" } else { host }
}

fn top_level_domain(url: &str) -> &str {
    let host = domain(url);
    match host.rsplit_once('.') {
        // An IP address has no top-level domain.
        Some((_, last)) if !last.starts_with(|c: char| c.is_ascii_digit()) => last,
        _ => "",
    }
}

fn path_full(url: &str) -> &str {
    let rest = after_scheme(url);
    rest.find('/').map_or("", |start| &rest[start..])
}

fn cut_query(url: &str, out: &mut String) {
    let (before, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    out.push_str(before);
    out.push_str(query.find('#').map_or("", |start| &query[start..]));
}

/// The value of the first parameter with this name, not decoded.
fn parameter<'t>(url: &'t str, name: &str) -> &'t str {
    let Some(start) = url.find(['?', '#']) else { return "" };
    let pairs = url[start + 1..].split(['&', '#', '?']);
    let mut parameters = pairs.filter_map(|pair| pair.split_once('='));
    parameters.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
}

fn decode(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |no: usize| bytes.get(at + no).and_then(|byte| (*byte as char).to_digit(16));
        match (bytes[at], digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    out.push_str(&String::from_utf8_lossy(&decoded));
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(byte as char);
        } else {
            push(out, format_args!("%{byte:02X}"));
        }
    }
}
