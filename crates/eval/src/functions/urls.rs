//! URL functions. As in ClickHouse, they search for delimiters and do not validate the URL.

use super::{CallSite, CompiledCall, call};
use crate::error::Result;
use crate::limits::meter;
use crate::values::format::push;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    let part: fn(&str) -> &str = match site.name {
        "protocol" => protocol,
        "domain" => domain,
        "domainWithoutWWW" => domain_without_www,
        "topLevelDomain" => top_level_domain,
        "firstSignificantSubdomain" => |url| significant(domain_without_www(url)).0,
        "cutToFirstSignificantSubdomain" => |url| significant(domain_without_www(url)).1,
        "cutToFirstSignificantSubdomainWithWWW" => |url| significant(domain(url)).1,
        "netloc" => netloc,
        "queryStringAndFragment" => |url| {
            let at = url.find(['?', '#']).unwrap_or(url.len());
            url[at..].strip_prefix('?').unwrap_or(&url[at..])
        },
        "cutFragment" => |url| until(url, &['#']),
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
        "decodeURLComponent" | "decodeURLFormComponent" => {
            let form = site.name == "decodeURLFormComponent";
            return Ok(Some(each(site, move |text, out| decode(text, form, out))));
        }
        "encodeURLComponent" | "encodeURLFormComponent" => {
            let form = site.name == "encodeURLFormComponent";
            return Ok(Some(each(site, move |text, out| encode(text, form, out))));
        }
        "cutWWW" => {
            return Ok(Some(each(site, |url, out| {
                let host = url.len() - after_scheme(url).len();
                out.push_str(&url[..host]);
                out.push_str(url[host..].strip_prefix("www.").unwrap_or(&url[host..]));
            })));
        }
        "cutURLParameter" => {
            return Ok(Some(call(move |args| {
                let (urls, names) = (args.strings(0), args.strings(1));
                args.map_strings(span, |row, out| cut_parameter(urls.at(row), names.at(row), out))
            })));
        }
        "port" => {
            return Ok(Some(call(move |args| {
                let urls = args.strings(0);
                let otherwise = (args.columns.len() > 1).then(|| args.ints(1));
                Ok(args.map_ints(|row| {
                    let fallback = otherwise.map_or(0, |otherwise| otherwise.at(row));
                    port(urls.at(row)).map_or(fallback & 0xffff, i64::from)
                }))
            })));
        }
        "extractURLParameters" => return Ok(Some(parts(site, parameters))),
        "extractURLParameterNames" => {
            return Ok(Some(parts(site, |url, out| {
                parameters(url, &mut |pair| out(pair.split_once('=').map_or(pair, |pair| pair.0)))
            })));
        }
        "URLHierarchy" => return Ok(Some(parts(site, |url, out| hierarchy(url, 0, out)))),
        "URLPathHierarchy" => {
            return Ok(Some(parts(site, |url, out| {
                let start = url.len() - path_full(url).len();
                hierarchy(&url[start..], usize::from(start < url.len()), out)
            })));
        }
        _ => return Ok(None),
    };
    Ok(Some(call(move |args| {
        let urls = args.strings(0);
        args.map_strings(span, |row, out| out.push_str(part(urls.at(row))))
    })))
}

fn each(
    site: &CallSite,
    write: impl Fn(&str, &mut String) + Send + Sync + 'static,
) -> CompiledCall {
    let span = site.span;
    call(move |args| {
        let strings = args.strings(0);
        args.map_strings(span, |row, out| write(strings.at(row), out))
    })
}

/// Receives a part of a URL.
type Out<'o> = dyn FnMut(&str) -> Result<()> + 'o;

/// Lists of parts of a URL.
fn parts(
    site: &CallSite,
    split: impl Fn(&str, &mut Out) -> Result<()> + Send + Sync + 'static,
) -> CompiledCall {
    let (element, span) = (site.element(), site.span);
    call(move |args| {
        let urls = args.strings(0);
        args.string_lists(&element, span, |row, out| {
            split(urls.at(row), &mut |part| {
                // The parts of a hierarchy are together longer than the URL.
                meter::work(1 + part.len() / PART_BYTES_A_UNIT)?;
                out.push(part)
            })
        })
    })
}

/// Bytes of a part that count as one unit of work.
const PART_BYTES_A_UNIT: usize = 64;

fn parameters(url: &str, out: &mut Out) -> Result<()> {
    let Some(start) = url.find(['?', '#']) else { return Ok(()) };
    let pairs = url[start + 1..].split(['&', '#', '?']);
    pairs.filter(|pair| pair.contains('=')).try_for_each(out)
}

/// The URL up to each of its delimiters, and all of it. `from` bytes are left out.
fn hierarchy(url: &str, from: usize, out: &mut Out) -> Result<()> {
    let start = if from > 0 { from } else { url.len() - after_scheme(url).len() };
    let mut at = start;
    if url.is_empty() {
        return Ok(());
    }
    while let Some(next) = url[at..].find(['/', '?', '#']) {
        at += next + 1;
        if from == 0 || at > from {
            out(&url[..at])?;
        }
    }
    if at < url.len() { out(url) } else { Ok(()) }
}

fn domain_without_www(url: &str) -> &str {
    let domain = domain(url);
    domain.strip_prefix("www.").unwrap_or(domain)
}

/// Second-level names under which countries register, so that the name before them counts.
const SHARED: &[&str] = &["com", "net", "org", "co", "gov", "edu", "biz"];

/// The first significant subdomain, and the domain from it on.
fn significant(host: &str) -> (&str, &str) {
    let mut dots = host.rmatch_indices('.').map(|(at, _)| at);
    let Some(last) = dots.next() else { return (host, "") };
    let Some(second) = dots.next() else { return (&host[..last], host) };
    if !SHARED.contains(&&host[second + 1..last]) {
        return (&host[second + 1..last], &host[second + 1..]);
    }
    let start = dots.next().map_or(0, |at| at + 1);
    (&host[start..second], &host[start..])
}

fn netloc(url: &str) -> &str {
    until(after_scheme(url), &['/', '?', '#', ' '])
}

fn port(url: &str) -> Option<u16> {
    let (_, port) =
        netloc(url).rsplit_once('@').map_or(netloc(url), |(_, host)| host).rsplit_once(':')?;
    port.parse().ok().filter(|port| *port > 0)
}

fn cut_parameter(url: &str, name: &str, out: &mut String) {
    let mut rest = url;
    let Some(start) = url.find(['?', '#']) else { return out.push_str(url) };
    let is_parameter = |at: usize| {
        at > start
            && url[..at].ends_with(['?', '#', '&'])
            && url[at + name.len()..].starts_with('=')
    };
    let found = url.match_indices(name).map(|(at, _)| at).find(|at| is_parameter(*at));
    if let Some(at) = found.filter(|_| !name.is_empty()) {
        let end = url[at..].find(['&', '#']).map_or(url.len(), |end| at + end);
        // With its delimiter: the one after it, or at the end the one before.
        let (from, to) = match url[end..].chars().next() {
            Some('&') => (at, end + 1),
            _ => (at - 1, end),
        };
        out.push_str(&url[..from]);
        rest = &url[to..];
    }
    out.push_str(rest);
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

fn decode(text: &str, form: bool, out: &mut String) {
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
                decoded.push(if form && byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    out.push_str(&String::from_utf8_lossy(&decoded));
}

fn encode(text: &str, form: bool, out: &mut String) {
    for byte in text.bytes() {
        if form && byte == b' ' {
            out.push('+');
        } else if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(byte as char);
        } else {
            push(out, format_args!("%{byte:02X}"));
        }
    }
}
