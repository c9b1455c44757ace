//! The channel type of a session, as `facts::channel_type` tells it.

use facts::channel_type::{DISPLAY_MEDIUMS, MEDIUMS, ORIGINS, PAID_MEDIUMS};

/// `of` gives the first value of a property in a session; null if there is none.
pub(super) fn channel_type(mut of: impl FnMut(&str) -> String) -> String {
    let mut lower = |name: &str| format!("lowerUTF8(ifNull({}, ''))", of(name));
    let (source, medium) = (lower("utm_source"), lower("utm_medium"));
    let (campaign, referrer) = (lower("utm_campaign"), lower("$referring_domain"));
    let clicked = format!("(isNotNull({}) OR isNotNull({}))", of("gclid"), of("gad_source"));
    let paid = format!("({medium} IN {} OR startsWith({medium}, 'paid'))", list(&PAID_MEDIUMS));
    let kind = |name: &str| {
        let each = ORIGINS.iter().map(|(origin, names)| {
            let names = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
            format!("hasAny(splitByChar('.', {name}), [{names}]), '{origin:?}'")
        });
        format!("multiIf({}, '')", each.collect::<Vec<_>>().join(", "))
    };
    let (by_source, by_referrer) = (kind(&source), kind(&referrer));
    let origin = format!("if({by_source} != '', {by_source}, {by_referrer})");
    let by_medium =
        MEDIUMS.iter().map(|(name, channel)| format!("{medium} = '{name}', '{channel}'"));
    let by_medium = by_medium.collect::<Vec<_>>().join(", ");
    let direct = "('', '$direct')";
    format!(
        "multiIf({campaign} = 'cross-network', 'Cross Network', \
         ({clicked} OR {paid}) AND {origin} != '', concat('Paid ', {origin}), \
         {clicked}, 'Paid Search', {paid} AND {medium} IN {}, 'Display', {paid}, 'Paid Unknown', \
         {by_medium}, {origin} != '', concat('Organic ', {origin}), \
         {source} != '' OR {medium} != '' OR {campaign} != '', \
         if({referrer} IN {direct}, 'Unknown', 'Referral'), \
         if({referrer} IN {direct}, 'Direct', 'Referral'))",
        list(&DISPLAY_MEDIUMS)
    )
}

fn list(names: &[&str]) -> String {
    let names = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>();
    format!("({})", names.join(", "))
}
