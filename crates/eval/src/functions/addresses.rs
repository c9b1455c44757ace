//! IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{CallSite, CompiledCall, call, predicate};
use crate::error::{Error, Result};
use crate::values::format::push;

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    Ok(Some(match site.name {
        "isIPv4String" => of_text(|text| text.parse::<Ipv4Addr>().is_ok()),
        "isIPv6String" => of_text(|text| text.parse::<Ipv6Addr>().is_ok()),
        "isIPAddressInRange" => {
            site.cast_all(&hogql::types::Kind::String)?;
            predicate(move |args| {
                let (addresses, ranges) = (args.strings(0), args.strings(1));
                args.try_bools(|row| {
                    if args.is_null(0, row) || args.is_null(1, row) {
                        return Ok(false);
                    }
                    let Some(range) = range(ranges.at(row)) else {
                        let message = "isIPAddressInRange takes a range such as '10.0.0.0/8'";
                        return Err(Error::invalid(message, span));
                    };
                    // What is no address is in no range, as in PostHog.
                    Ok(addresses.at(row).parse().is_ok_and(|address| is_within(address, range)))
                })
            })
            .fallible()
        }
        "IPv4StringToNum" | "IPv4StringToNumOrDefault" => {
            let or_null = site.name == "IPv4StringToNum";
            call(move |args| {
                let strings = args.strings(0);
                args.try_ints(|row| {
                    let number = strings.at(row).parse::<Ipv4Addr>().ok();
                    let number = number.map(|address| i64::from(u32::from(address)));
                    Ok(if or_null { number } else { Some(number.unwrap_or(0)) })
                })
            })
        }
        "IPv4NumToString" => call(move |args| {
            let numbers = args.ints(0);
            args.map_strings(span, |row, out| {
                push(out, format_args!("{}", Ipv4Addr::from(numbers.at(row) as u32)));
            })
        }),
        "extractIPv4Substrings" => {
            let element = site.element();
            call(move |args| {
                let strings = args.strings(0);
                args.string_lists(&element, span, |row, out| {
                    let parts =
                        strings.at(row).split(|one: char| !one.is_ascii_digit() && one != '.');
                    let addresses = parts.filter(|part| part.parse::<Ipv4Addr>().is_ok());
                    addresses.into_iter().try_for_each(|part| out.push(part))
                })
            })
        }
        _ => return Ok(None),
    }))
}

fn of_text(holds: fn(&str) -> bool) -> CompiledCall {
    predicate(move |args| {
        let strings = args.strings(0);
        Ok(args.map_bools(|row| holds(strings.at(row))))
    })
}

/// An address and the number of leading bits that count.
fn range(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u32 = bits.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

fn is_within(address: IpAddr, (network, bits): (IpAddr, u32)) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let shift = 32 - bits;
            u32::from(a).checked_shr(shift) == u32::from(b).checked_shr(shift)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let shift = 128 - bits;
            u128::from(a).checked_shr(shift) == u128::from(b).checked_shr(shift)
        }
        _ => false,
    }
}
