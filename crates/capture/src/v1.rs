//! Capture v1 (`/i/v1/analytics/events`): metadata in headers, strict validation, a result per event.

use decode::{
    V1Element, V1Encoding, V1Event, V1OptionsField, decode_v1_text_within, decoded_bytes_hint,
    is_rfc3339, parse_v1,
};
use journal::{Batch, BufferPool};
use model::ProjectId;
use model::event::{AcceptedEvent, EventUuid, SentAt, V1Extras};
use uuid::Uuid;

use crate::accept::{Diagnostics, RecordReservation, RequestContext, properties};
use crate::budget::Busy;
use crate::capture::{Capture, decode_within, held_bytes, run_cpu_heavy};
use crate::counters::DropReason;
use crate::limits::{DISTINCT_ID_CHARS_MAX, NAME_CHARS_MAX, SDK_INFO_BYTES_MAX, event_bytes_max};
use crate::outcome::{V1Accepted, V1Rejection, V1Result};
use crate::request::V1Request;
use crate::tokens::{TokenOwner, normalize_token};

/// RFC 3339 with nanoseconds is far shorter.
const REQUEST_TIMESTAMP_BYTES_MAX: usize = 64;

/// Distinct ids that identify nobody: spellings of "no value", and roles. Compared trimmed and
/// ignoring ASCII case.
const ILLEGAL_DISTINCT_IDS: [&str; 20] = [
    "0",
    "00000000-0000-0000-0000-000000000000",
    "[object object]",
    "anonymous",
    "anonymous-user",
    "backend",
    "distinct_id",
    "distinctid",
    "email",
    "false",
    "guest",
    "id",
    "nan",
    "none",
    "not_authenticated",
    "null",
    "system",
    "true",
    "undefined",
    "user",
];

struct Headers<'a> {
    token: &'a str,
    encoding: V1Encoding,
    lib_name: &'a str,
    lib_version: &'a str,
    request_id: Uuid,
    request_timestamp: &'a str,
}

impl<'a> Headers<'a> {
    fn check(request: &V1Request<'a>) -> Result<Self, V1Rejection> {
        let given = |name, value: Option<&'a str>| match value.map(str::trim) {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(V1Rejection::MissingHeader(name)),
        };
        let authorization = given("Authorization", request.authorization)?;
        let content_type = given("Content-Type", request.content_type)?;
        given("User-Agent", request.user_agent)?;
        let sdk_info = given("PostHog-Sdk-Info", request.sdk_info)?;
        let attempt = given("PostHog-Attempt", request.attempt)?;
        let request_id = given("PostHog-Request-Id", request.request_id)?;
        let request_timestamp = given("PostHog-Request-Timestamp", request.request_timestamp)?;

        let invalid = |name| V1Rejection::InvalidHeader(name);
        let (lib_name, lib_version) = sdk_info
            .split_once('/')
            .filter(|(name, version)| {
                let fits = |part: &str| (1..=SDK_INFO_BYTES_MAX).contains(&part.len());
                fits(name) && fits(version)
            })
            .ok_or(invalid("PostHog-Sdk-Info"))?;
        attempt
            .parse::<u32>()
            .ok()
            .filter(|attempt| *attempt >= 1)
            .ok_or(invalid("PostHog-Attempt"))?;
        let request_id = Uuid::try_parse(request_id).map_err(|_| invalid("PostHog-Request-Id"))?;
        let short = request_timestamp.len() <= REQUEST_TIMESTAMP_BYTES_MAX;
        if !short || !is_rfc3339(request_timestamp) {
            return Err(invalid("PostHog-Request-Timestamp"));
        }
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/json") {
            return Err(V1Rejection::UnsupportedContentType);
        }
        let encoding =
            V1Encoding::of(request.content_encoding).ok_or(V1Rejection::UnsupportedEncoding)?;
        let token = authorization
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"))
            .and_then(|(_, token)| normalize_token(token))
            .ok_or(V1Rejection::InvalidApiToken)?;
        Ok(Self { token, encoding, lib_name, lib_version, request_id, request_timestamp })
    }
}

impl Capture {
    /// Validates the headers and the token, before the body is read.
    pub async fn check_v1_headers(&self, request: &V1Request<'_>) -> Result<(), V1Rejection> {
        self.v1_project(&Headers::check(request)?).await.map(drop)
    }

    async fn v1_project(&self, headers: &Headers<'_>) -> Result<ProjectId, V1Rejection> {
        match self.tokens.project_of(headers.token).await {
            TokenOwner::Known(project) => Ok(project),
            TokenOwner::Unknown => Err(V1Rejection::InvalidApiToken),
            TokenOwner::Unavailable => Err(V1Rejection::Unavailable(None)),
        }
    }

    /// Handles `/i/v1/analytics/events`. Returns when the events are durable.
    pub async fn v1(&self, request: V1Request<'_>) -> Result<V1Accepted, V1Rejection> {
        let headers = Headers::check(&request)?;
        let project = self.v1_project(&headers).await?;
        if request.body.len() > self.limits.v1_body_bytes_max {
            return Err(V1Rejection::TooLarge);
        }
        let text_bytes_max = self.limits.text_bytes_max;
        let parts = decode::Parts {
            content_encoding: request.content_encoding,
            body: request.body,
            ..decode::Parts::default()
        };
        let expected = decoded_bytes_hint(&parts, text_bytes_max);
        let decode = |memory: &mut decode::MemoryTracker<'_>| {
            decode_v1_text_within(request.body, headers.encoding, memory)
        };
        let decoded = decode_within(&self.budget, 2 * expected, text_bytes_max, held_bytes, decode);
        let (mut reservation, text) = decoded.await?;
        reservation.shrink(held_bytes(&text));

        let context = self.context(&request, project);
        let owned = text.owned_bytes();
        let validated = run_cpu_heavy(text.as_str().len(), || {
            let reserve =
                |records: usize| self.budget.grow_or_switch_lane(&mut reservation, owned + records);
            let records_bytes_max = self.limits.records_bytes_max;
            let buffers = self.buffers();
            ValidatedBatch::read(text, &headers, context, records_bytes_max, buffers, reserve)
        })?;
        self.budget.grow_or_switch_lane(&mut reservation, validated.batch.bytes())?;
        reservation.shrink(validated.batch.bytes());
        self.append(validated.batch, validated.diagnostics, context).await?;
        Ok(V1Accepted { request_id: headers.request_id, results: validated.results })
    }

    fn context(&self, request: &V1Request<'_>, project: ProjectId) -> RequestContext {
        RequestContext { project, received_at: request.received_at, client_ip: request.client_ip }
    }
}

struct ValidatedBatch {
    batch: Batch,
    diagnostics: Diagnostics,
    results: Vec<(Uuid, V1Result)>,
}

impl ValidatedBatch {
    fn read(
        text: decode::JsonText<'_>,
        headers: &Headers<'_>,
        context: RequestContext,
        records_bytes_max: usize,
        buffers: &BufferPool,
        reserve: impl FnMut(usize) -> Result<(), Busy>,
    ) -> Result<Self, V1Rejection> {
        let mut reservation = RecordReservation::new(text.as_str().len(), reserve);
        let list = parse_v1(&text)?;
        if list.created_at.is_none() {
            return Err(V1Rejection::InvalidBatch);
        }
        let mut validated = Self {
            batch: Batch::with_capacity(buffers, 1, text.as_str().len().min(records_bytes_max)),
            diagnostics: Diagnostics::default(),
            results: Vec::new(),
        };
        for element in list.events() {
            let event = match element? {
                V1Element::Event(event) => event,
                V1Element::MissingUuid => return Err(V1Rejection::MissingEventUuid),
                V1Element::InvalidUuid => return Err(V1Rejection::InvalidEventUuid),
                V1Element::DuplicateUuid => return Err(V1Rejection::DuplicateEventUuid),
            };
            let result = match check(&event, headers, context, list.historical_migration) {
                Ok(accepted) => {
                    reservation.grow_for(&validated.batch, event.raw.bytes)?;
                    validated.batch.push_with(|out| accepted.encode(out));
                    match accepted.v1 {
                        Some(V1Extras { person_processing_disabled: true, .. }) => {
                            V1Result::PersonProcessingDisabled
                        }
                        _ => V1Result::Ok,
                    }
                }
                Err(reason) => {
                    validated.diagnostics.drop(reason, Some(&event.raw));
                    V1Result::Dropped(reason)
                }
            };
            validated.results.push((event.uuid, result));
            if validated.batch.bytes() > records_bytes_max {
                return Err(V1Rejection::TooLarge);
            }
        }
        Ok(validated)
    }
}

fn check<'e>(
    event: &'e V1Event<'_>,
    headers: &'e Headers<'_>,
    context: RequestContext,
    historical_migration: bool,
) -> Result<AcceptedEvent<'e>, DropReason> {
    let raw = &event.raw;
    let name = raw.name.as_deref().unwrap_or_default();
    let distinct_id = raw.distinct_id.as_deref().unwrap_or_default().trim();
    if let Some(reason) = drop_reason(event, name, distinct_id) {
        return Err(reason);
    }
    let V1OptionsField::Valid(options) = event.options else {
        return Err(DropReason::InvalidOptions);
    };
    let illegal = ILLEGAL_DISTINCT_IDS.iter().any(|id| id.eq_ignore_ascii_case(distinct_id));
    Ok(AcceptedEvent {
        project: context.project,
        received_at: context.received_at,
        client_ip: context.client_ip,
        sent_at: Some(SentAt::Text(headers.request_timestamp.into())),
        historical_migration,
        uuid: EventUuid::Given(event.uuid),
        name,
        distinct_id,
        timestamp: raw.timestamp.clone(),
        offset_ms: None,
        properties: properties(raw)?,
        set: raw.set,
        set_once: raw.set_once,
        unset: raw.unset,
        v1: Some(V1Extras {
            lib_name: headers.lib_name,
            lib_version: headers.lib_version,
            session_id: event.session_id.as_deref(),
            window_id: event.window_id.as_deref(),
            options,
            person_processing_disabled: illegal,
        }),
    })
}

fn drop_reason(event: &V1Event<'_>, name: &str, distinct_id: &str) -> Option<DropReason> {
    let rules = [
        (name.is_empty(), DropReason::MissingName),
        (name.len() > NAME_CHARS_MAX, DropReason::NameTooLong),
        (name == "$performance_event", DropReason::PerformanceEvent),
        (distinct_id.is_empty(), DropReason::MissingDistinctId),
        (distinct_id.len() > DISTINCT_ID_CHARS_MAX, DropReason::DistinctIdTooLong),
        (!event.has_strict_timestamp(), DropReason::InvalidTimestamp),
        (event.raw.bytes > event_bytes_max(name), DropReason::TooLarge),
    ];
    rules.into_iter().find_map(|(violated, reason)| violated.then_some(reason))
}
