//! Signatures of functions on URLs, IP addresses and user agents.

use super::{Arg, Fixed, Function, Nulls, Returns, function};

use Arg::{Any, Array, Condition, ConstInt, ConstString, Int, String};

const STRING: Returns = Returns::Kind(Fixed::String);
const STRINGS: Returns = Returns::Kind(Fixed::Strings);
const UINT8: Returns = Returns::Kind(Fixed::UInt8);

const fn part(name: &'static str) -> Function {
    function(name, &[String], STRING)
}

pub(super) const URLS: &[Function] = &[
    part("protocol"),
    part("domain").also(&["domainRFC"]),
    part("domainWithoutWWW").also(&["domainWithoutWWWRFC"]),
    part("topLevelDomain").also(&["topLevelDomainRFC"]),
    part("firstSignificantSubdomain"),
    part("cutToFirstSignificantSubdomain"),
    part("cutToFirstSignificantSubdomainWithWWW"),
    part("netloc"),
    function("port", &[String, Int], Returns::Kind(Fixed::UInt16)).optional(1),
    part("path"),
    part("pathFull"),
    part("queryString"),
    part("fragment"),
    part("queryStringAndFragment"),
    function("extractURLParameter", &[String, String], STRING),
    function("extractURLParameters", &[String], STRINGS),
    function("extractURLParameterNames", &[String], STRINGS),
    function("URLHierarchy", &[String], STRINGS),
    function("URLPathHierarchy", &[String], STRINGS),
    part("cutWWW"),
    part("cutQueryString"),
    part("cutFragment"),
    part("cutQueryStringAndFragment"),
    function("cutURLParameter", &[String, String], STRING),
    part("decodeURLComponent"),
    part("encodeURLComponent"),
    part("decodeURLFormComponent"),
    part("encodeURLFormComponent"),
];

pub(super) const ADDRESSES: &[Function] = &[
    function("isIPv4String", &[String], UINT8),
    function("isIPv6String", &[String], UINT8),
    function("isIPAddressInRange", &[String, String], UINT8).nulls(Nulls::Custom),
    function("IPv4StringToNum", &[String], Returns::Kind(Fixed::UInt32))
        .nulls(Nulls::OrNull)
        .also(&["IPv4StringToNumOrNull"]),
    function("IPv4StringToNumOrDefault", &[String], Returns::Kind(Fixed::UInt32)),
    function("IPv4NumToString", &[Int], STRING).also(&["INET_NTOA"]),
    function("extractIPv4Substrings", &[String], STRINGS),
];

/// Bots and other automation by their user agent. A missing one counts as automation, as in
/// PostHog. The second argument, an IP address, has no effect: we keep no list of bots' networks.
pub(super) const TRAFFIC: &[Function] = &[
    function("isLikelyBot", &[String, String], Returns::Kind(Fixed::Bool))
        .optional(1)
        .nulls(Nulls::Custom)
        .also(&["__preview_isBot"]),
    traffic("getTrafficType").also(&["__preview_getTrafficType"]),
    traffic("getTrafficCategory").also(&["__preview_getTrafficCategory"]),
    traffic("getBotType").also(&["__preview_getBotType"]),
    traffic("getBotName").also(&["__preview_getBotName"]),
    traffic("getBotOperator").also(&["__preview_getBotOperator"]),
];

/// PostHog's own. `matchesElements(elements_chain, '{…}')` tells whether autocaptured elements fulfil
/// the conditions of a step of an action.
pub(super) const POSTHOG: &[Function] = &[
    function("matchesAction", &[Any], Returns::Kind(Fixed::Bool)).nulls(Nulls::Custom),
    function("matchesElements", &[String, ConstString], Returns::Kind(Fixed::Bool))
        .nulls(Nulls::Custom),
    function("languageCodeToName", &[String], STRING),
    function("sparkline", &[Array], Returns::Arg(0))
        .nulls(Nulls::Custom)
        .means(&["tuple('__hx_tag', 'Sparkline', 'data', _1)"]),
    function("recordingButton", &[String, String], Returns::Arg(0)).nulls(Nulls::Custom).optional(1).means(&[
        "tuple('__hx_tag', 'RecordingButton', 'sessionId', _1)",
        "tuple('__hx_tag', 'RecordingButton', 'sessionId', _1, 'recordingStatus', _2)",
    ]),
    // The response to a question by its number, or also by its id; with a third argument the choices.
    function("getSurveyResponse", &[ConstInt, ConstString, Condition], STRING)
        .nulls(Nulls::Custom)
        .optional(2)
        .means(&[
            "coalesce(nullIf(JSONExtractString(properties, concat('$survey_response_', JSONExtractString(arrayElement(JSONExtractArrayRaw(properties, '$survey_questions'), _1 + 1), 'id'))), ''), nullIf(JSONExtractString(properties, if(_1 = 0, '$survey_response', concat('$survey_response_', toString(_1)))), ''))",
            "coalesce(nullIf(JSONExtractString(properties, concat('$survey_response_', _2)), ''), nullIf(JSONExtractString(properties, if(_1 = 0, '$survey_response', concat('$survey_response_', toString(_1)))), ''))",
            "if(JSONLength(properties, concat('$survey_response_', _2)) > 0 and _3, JSONExtractArrayRaw(properties, concat('$survey_response_', _2)), JSONExtractArrayRaw(properties, if(_1 = 0, '$survey_response', concat('$survey_response_', toString(_1)))))",
        ]),
    // The last event of each submission of a survey, in a range of time.
    function("uniqueSurveySubmissionsFilter", &[ConstString, ConstString, ConstString], Returns::Kind(Fixed::Bool))
        .nulls(Nulls::Custom)
        .optional(2)
        .means(&[
            "uuid in (select argMax(uuid, timestamp) from events where event = 'survey sent' and properties.$survey_id = _1 group by if(coalesce(properties.$survey_submission_id, '') = '', toString(uuid), properties.$survey_submission_id))",
            "uuid in (select argMax(uuid, timestamp) from events where event = 'survey sent' and properties.$survey_id = _1 and timestamp >= toDateTime(_2) group by if(coalesce(properties.$survey_submission_id, '') = '', toString(uuid), properties.$survey_submission_id))",
            "uuid in (select argMax(uuid, timestamp) from events where event = 'survey sent' and properties.$survey_id = _1 and timestamp >= toDateTime(_2) and timestamp <= toDateTime(_3) group by if(coalesce(properties.$survey_submission_id, '') = '', toString(uuid), properties.$survey_submission_id))",
        ]),
];

const fn traffic(name: &'static str) -> Function {
    function(name, &[String, String], STRING).optional(1).nulls(Nulls::Custom)
}
