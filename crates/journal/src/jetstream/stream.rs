//! What the streams of a journal must be, and how they are created.

use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{Context, ErrorCode};

use crate::{Error, JournalId, Result};

/// How long a server remembers message ids: longer than a publisher repeats one.
pub(crate) const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
const DESCRIPTION: &str = "hedgerow journal ";
const OWNER_DESCRIPTION: &str = "hedgerow owners of journals";

/// Names of a lane's streams and subjects.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub stream: String,
    pub subject: String,
    pub owner_stream: String,
    pub owner_subject: String,
}

impl Names {
    pub(crate) fn new(name: &str, lane: u16) -> Names {
        let upper = name.to_ascii_uppercase();
        Names {
            stream: format!("{upper}_{lane}"),
            subject: format!("{name}.journal.{lane}"),
            owner_stream: format!("{upper}_OWNER"),
            owner_subject: format!("{name}.owner.{lane}"),
        }
    }
}

/// Gets the lane's stream or creates it, and returns the id of its journal.
pub(crate) async fn open(
    context: &Context,
    names: &Names,
    replicas: usize,
    bytes_max: u64,
) -> Result<(Stream, JournalId)> {
    let mut wanted = Config {
        name: names.stream.clone(),
        subjects: vec![names.subject.clone()],
        description: Some(format!("{DESCRIPTION}{}", JournalId::random())),
        storage: StorageType::File,
        num_replicas: replicas,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        max_bytes: bytes_max.cast_signed(),
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        duplicate_window: DUPLICATE_WINDOW,
        ..Config::default()
    };
    let stream = get_or_create(context, &wanted).await?;
    let found = &stream.cached_info().config;
    let id = found
        .description
        .as_deref()
        .and_then(|description| description.strip_prefix(DESCRIPTION))
        .and_then(|id| id.parse::<JournalId>().ok());
    let Some(id) = id else {
        return Err(Error::Unsuitable(format!(
            "the stream {} is not a journal of Hedgerow; name another journal at the end of \
             journal_url, such as nats://host:4222/name",
            names.stream
        )));
    };
    wanted.description.clone_from(&found.description);
    if found.num_replicas > replicas {
        wanted.num_replicas = found.num_replicas;
    }
    let differs = found.subjects != wanted.subjects
        || found.discard != wanted.discard
        || found.retention != wanted.retention
        || found.num_replicas != wanted.num_replicas
        || found.max_bytes != wanted.max_bytes
        || found.max_messages > 0
        || found.max_messages_per_subject > 0
        || found.max_age != Duration::ZERO
        || found.duplicate_window < DUPLICATE_WINDOW;
    if found.storage != StorageType::File {
        return Err(Error::Unsuitable(format!(
            "the stream {} is in memory, not in files; delete it or name another journal at the end \
             of journal_url",
            names.stream
        )));
    }
    if differs {
        let config = Config {
            subjects: wanted.subjects,
            discard: wanted.discard,
            retention: wanted.retention,
            num_replicas: wanted.num_replicas,
            max_bytes: wanted.max_bytes,
            max_messages: -1,
            max_messages_per_subject: -1,
            max_age: Duration::ZERO,
            duplicate_window: DUPLICATE_WINDOW,
            ..found.clone()
        };
        context
            .update_stream(config)
            .await
            .map_err(|error| refused(&names.stream, replicas, error.kind(), &error))?;
    }
    Ok((stream, id))
}

/// Gets or creates the stream that holds the record of each lane's owner.
pub(crate) async fn open_owners(
    context: &Context,
    names: &Names,
    name: &str,
    replicas: usize,
) -> Result<Stream> {
    let wanted = Config {
        name: names.owner_stream.clone(),
        subjects: vec![format!("{name}.owner.*")],
        description: Some(OWNER_DESCRIPTION.to_owned()),
        storage: StorageType::File,
        num_replicas: replicas,
        max_messages_per_subject: 1,
        max_bytes: -1,
        max_messages: -1,
        max_consumers: -1,
        duplicate_window: DUPLICATE_WINDOW,
        ..Config::default()
    };
    get_or_create(context, &wanted).await
}

async fn get_or_create(context: &Context, wanted: &Config) -> Result<Stream> {
    let name = &wanted.name;
    for attempt in 0.. {
        match context.get_stream(name).await {
            Ok(stream) => return Ok(stream),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(cause)
                    if cause.error_code() == ErrorCode::STREAM_NOT_FOUND => {}
                GetStreamErrorKind::JetStream(cause)
                    if cause.error_code() == ErrorCode::JETSTREAM_NOT_ENABLED
                        || cause.error_code() == ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT =>
                {
                    return Err(Error::Unsuitable(
                        "the NATS servers of journal_url run without JetStream: give them a \
                         `jetstream` block with a `store_dir`"
                            .to_owned(),
                    ));
                }
                _ => return Err(away(&error)),
            },
        }
        match context.create_stream(wanted.clone()).await {
            Ok(stream) => return Ok(stream),
            Err(error) => match error.kind() {
                // Another server was faster.
                CreateStreamErrorKind::JetStream(cause)
                    if attempt == 0 && cause.error_code() == ErrorCode::STREAM_NAME_EXIST => {}
                kind => return Err(refused(name, wanted.num_replicas, kind, &error)),
            },
        }
    }
    unreachable!("the second attempt returns")
}

fn refused(
    stream: &str,
    replicas: usize,
    kind: CreateStreamErrorKind,
    error: &dyn std::fmt::Display,
) -> Error {
    let CreateStreamErrorKind::JetStream(cause) = kind else { return away(error) };
    let code = cause.error_code();
    let remedy = match code {
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::CLUSTER_NO_PEERS => format!(
            "; journal_replicas is {replicas} and needs as many JetStream servers in one cluster. \
             With fewer replicas the loss of one server loses events: set journal_replicas to 1 \
             only if you accept that"
        ),
        ErrorCode::STORAGE_RESOURCES_EXCEEDED => "; journal_disk_bytes_max is reserved on each \
             server: lower it, or raise `max_file_store` of the servers"
            .to_owned(),
        ErrorCode::STREAM_SUBJECT_OVERLAP => {
            "; name another journal at the end of journal_url".to_owned()
        }
        _ => String::new(),
    };
    let why = format!("the stream {stream} cannot be as it must: {cause}{remedy}");
    // A cluster that is starting says these.
    let passes = [
        ErrorCode::CLUSTER_NOT_AVAILABLE,
        ErrorCode::CLUSTER_NOT_LEADER,
        ErrorCode::CLUSTER_NO_PEERS,
        ErrorCode::INSUFFICIENT_RESOURCES,
    ];
    if passes.contains(&code) { away(&why) } else { Error::Unsuitable(why) }
}

/// An error of a request that had no answer, or an odd one.
pub(crate) fn away(why: &dyn std::fmt::Display) -> Error {
    Error::Away { waited: Duration::ZERO, why: why.to_string() }
}

/// Names of the servers that hold replicas; empty for a server without a cluster.
pub(crate) fn peers(info: &Info) -> Vec<String> {
    let Some(cluster) = &info.cluster else { return Vec::new() };
    let replicas = cluster.replicas.iter().map(|peer| peer.name.clone());
    cluster.leader.clone().into_iter().chain(replicas).collect()
}
