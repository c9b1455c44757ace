//! Errors of ClickHouse, by what the caller or the operator can do.

use std::fmt;
use std::path::PathBuf;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Bytes of ClickHouse's message that an error keeps.
const MESSAGE_BYTES_MAX: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A retry may succeed. What was written may have arrived: a repetition uses the same token.
    #[error("ClickHouse at {server} is away: {why}; check that it runs and can be reached")]
    Away { server: String, why: String },
    #[error(
        "ClickHouse runs as many queries as it may ({message}); retry, or raise \
         max_concurrent_queries"
    )]
    Busy { message: String },
    #[error(
        "ClickHouse's memory does not suffice ({message}); narrow the query, or raise \
         max_memory_usage or max_server_memory_usage"
    )]
    TooMuchMemory { message: String },
    #[error(
        "ClickHouse took too long ({message}); narrow the query, or raise the time that queries get"
    )]
    TooSlow { message: String },
    #[error("the query reads or returns more than ClickHouse permits ({message}); narrow it")]
    TooManyRows { message: String },
    /// Wait and repeat: merges reduce them.
    #[error(
        "ClickHouse's merges are behind its inserts ({message}); events wait in the journal: give \
         it more disk throughput or threads for merges (background_pool_size)"
    )]
    TooManyParts { message: String },
    #[error("ClickHouse's disk is full ({message}); free space on it, or shorten retention")]
    Full { message: String },
    /// A replica that lost Keeper.
    #[error(
        "this replica of ClickHouse is read-only ({message}); check its connection to Keeper \
         (system.replicas), then SYSTEM RESTORE REPLICA"
    )]
    ReadOnlyReplica { message: String },
    #[error(
        "the user of ClickHouse may only read ({message}); the user of warehouse_url must be \
         permitted to write"
    )]
    ReadOnlyUser { message: String },
    #[error("ClickHouse refuses the user or the password ({message}); check them in warehouse_url")]
    Unauthenticated { message: String },
    #[error("the user of ClickHouse lacks a privilege ({message}); GRANT it")]
    Denied { message: String },
    #[error("the query was cancelled")]
    Cancelled,
    /// A bug, or a schema that was changed by hand.
    #[error("ClickHouse refuses the statement: {message} (code {code})")]
    Refused { code: u32, message: String },
    /// Not ClickHouse, or something between that changes what it sends.
    #[error("{server} does not answer as ClickHouse: {why}")]
    Protocol { server: String, why: String },
    #[error("the answer of ClickHouse is larger than {bytes_max} bytes; narrow the query")]
    TooLarge { bytes_max: u64 },
    #[error(
        "the values of the statement are too large for ClickHouse: {bytes} bytes, at most {bytes_max}"
    )]
    ParametersTooLarge { bytes: usize, bytes_max: usize },
    #[error("cannot verify the certificate of ClickHouse at {server}: {why}")]
    Untrusted { server: String, why: String },
    #[error("warehouse_url {why}")]
    Url { why: &'static str },
    #[error("cannot read the password of ClickHouse from {}: {why}", file.display())]
    PasswordFile { file: PathBuf, why: String },
    #[error(
        "ClickHouse's tables have schema version {found}, this version knows versions up to \
         {known}; a newer version created them"
    )]
    SchemaVersion { found: u32, known: u32 },
    #[error(
        "ClickHouse was filled from journal {stored:032x}, but the journal here is {given:032x}; \
         their positions do not belong together"
    )]
    Journal { stored: u128, given: u128 },
    /// The block of rows that need it waits.
    #[error("what queries join to events cannot be brought to ClickHouse: {why}")]
    Feed { why: String },
    /// The row can never be stored.
    #[error("the row at position {position} is refused: {why}")]
    Invalid { position: u64, why: &'static str },
    /// Only a pull of the rows could answer it.
    #[error("{what} cannot be computed by ClickHouse")]
    Unsupported { what: String },
}

/// What happened, from the code and the message of an exception.
pub(crate) fn of_exception(server: &str, code: u32, text: &str) -> Error {
    let message = shortened(text);
    match code {
        // CANNOT_ALLOCATE_MEMORY, MEMORY_LIMIT_EXCEEDED
        173 | 241 => Error::TooMuchMemory { message },
        // TIMEOUT_EXCEEDED, TOO_SLOW
        159 | 160 => Error::TooSlow { message },
        // TOO_MANY_ROWS, TOO_MANY_BYTES, TOO_MANY_ROWS_OR_BYTES
        158 | 307 | 396 => Error::TooManyRows { message },
        202 => Error::Busy { message },
        252 => Error::TooManyParts { message },
        243 => Error::Full { message },
        242 => Error::ReadOnlyReplica { message },
        164 => Error::ReadOnlyUser { message },
        // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, AUTHENTICATION_FAILED
        192 | 193 | 194 | 516 => Error::Unauthenticated { message },
        497 => Error::Denied { message },
        394 => Error::Cancelled,
        // SOCKET_TIMEOUT, NETWORK_ERROR, ABORTED, NO_ZOOKEEPER, ALL_CONNECTION_TRIES_FAILED,
        // TOO_FEW_LIVE_REPLICAS, UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE, UNKNOWN_STATUS_OF_INSERT,
        // ALL_REPLICAS_ARE_STALE, ALL_REPLICAS_LOST, KEEPER_EXCEPTION
        209 | 210 | 225 | 236 | 279 | 285 | 286 | 319 | 369 | 415 | 999 => {
            Error::Away { server: server.to_owned(), why: message }
        }
        code => Error::Refused { code, message },
    }
}

/// The code of the last exception in a text: one that comes in the middle of a result stands after it.
pub(crate) fn exception_in(text: &str) -> Option<(u32, &str)> {
    let at = text.find("Code: ")?;
    let rest = &text[at + "Code: ".len()..];
    let end = rest.find(|one: char| !one.is_ascii_digit())?;
    let is_exception = rest[end..].starts_with(". DB::");
    Some((rest[..end].parse().ok()?, &text[at..])).filter(|_| is_exception)
}

impl Error {
    /// Whether the same request may succeed later, without anybody's doing.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Away { .. }
                | Self::Busy { .. }
                | Self::TooMuchMemory { .. }
                | Self::TooSlow { .. }
                | Self::TooManyParts { .. }
                | Self::ReadOnlyReplica { .. }
                | Self::Full { .. }
                | Self::Feed { .. }
        )
    }
}

/// The first line of a message, without the part that only says where it came from.
fn shortened(text: &str) -> String {
    let text = text.trim();
    let text = text.split_once("DB::Exception: ").map_or(text, |(_, text)| text);
    let text = text.lines().next().unwrap_or_default();
    let mut end = text.len().min(MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].chars().filter(|one| !one.is_control()).collect()
}

/// A secret: never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(pub(crate) String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}
