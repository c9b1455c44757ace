//! ClickHouse's HTTP interface: statements with parameters, Arrow streams in and out.
//!
//! Blocks: callers run it on threads that may wait. Nothing is repeated here, since only the caller
//! knows whether a repetition is safe.

mod answer;
mod statement;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use ureq::http::{HeaderValue, Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};
use uuid::Uuid;

use crate::error::{Error, Result, exception_in, of_exception};
use crate::settings::{Compression, Settings};

pub use answer::Batches;
pub use statement::{Parameter, Parameters, Statement};

/// ClickHouse's own bound is 1 MiB (`http_max_uri_size`).
const URL_BYTES_MAX: usize = 1_000_000;
/// Of the message of an exception.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// Connections that wait for the next request.
const IDLE_CONNECTIONS_MAX: usize = 16;
/// How long a kill may wait.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);
const EXCEPTION_CODE: &str = "x-clickhouse-exception-code";

/// Cheap to clone; all clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    settings: Arc<Settings>,
    /// While it is true, statements fail.
    locked: Option<Arc<AtomicBool>>,
}

/// Rows for a table, encoded once: a repetition sends the same bytes.
#[derive(Clone)]
pub struct EncodedRows {
    columns: String,
    body: Vec<u8>,
    pub rows: usize,
}

/// Whether a block that ClickHouse has seen before is dropped.
#[derive(Clone, Copy, Debug)]
pub enum Deduplication<'t> {
    /// Tables whose rows replace each other.
    None,
    /// A second block with this token is dropped, whatever it holds.
    Token(&'t str),
}

impl Client {
    pub fn new(settings: Settings) -> Result<Self> {
        let agent = agent(&settings)?;
        Ok(Self { agent, settings: Arc::new(settings), locked: None })
    }

    /// A client whose statements fail as if ClickHouse was away, until [`Client::unlock`]: nobody has
    /// checked its tables yet.
    pub(crate) fn locked(self) -> Self {
        Self { locked: Some(Arc::new(AtomicBool::new(true))), ..self }
    }

    pub(crate) fn without_lock(&self) -> Self {
        Self { locked: None, ..self.clone() }
    }

    pub(crate) fn unlock(&self) {
        self.locked.iter().for_each(|locked| locked.store(false, Ordering::Release));
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.locked.as_ref().is_some_and(|locked| locked.load(Ordering::Acquire))
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Runs a statement that changes something and returns no rows.
    pub fn execute(&self, statement: &Statement) -> Result<()> {
        self.execute_within(statement, self.settings.write_timeout)
    }

    fn execute_within(&self, statement: &Statement, timeout: Duration) -> Result<()> {
        let url = self.url(statement, &[("wait_end_of_query", "1".to_owned())], timeout)?;
        let response = self.post(&url, statement.text.as_bytes(), timeout)?;
        drain(response, &self.settings.server)
    }

    /// As [`Client::execute`], before the database exists.
    pub(crate) fn execute_without_database(&self, statement: &Statement) -> Result<()> {
        let mut settings = Settings::clone(&self.settings);
        settings.database = "default".to_owned();
        let client = Self { agent: self.agent.clone(), settings: Arc::new(settings), locked: None };
        client.execute(statement)
    }

    /// Runs a query. ClickHouse ends it when the result is dropped, or after its timeout.
    pub fn select(&self, statement: &Statement) -> Result<Batches> {
        let timeout = statement.timeout.unwrap_or(self.settings.query_timeout);
        let compression = match self.settings.compression {
            Compression::None => "none",
            Compression::Lz4 => "lz4_frame",
            Compression::Zstd => "zstd",
        };
        let settings = [
            ("default_format", "ArrowStream".to_owned()),
            ("output_format_arrow_compression_method", compression.to_owned()),
            // Whoever the user is, this statement only reads.
            ("readonly", "2".to_owned()),
            ("cancel_http_readonly_queries_on_client_close", "1".to_owned()),
        ];
        let url = self.url(statement, &settings, timeout)?;
        let response = self.post(&url, statement.text.as_bytes(), timeout)?;
        Batches::read(response, &self.settings)
    }

    /// Inserts rows as one block. `table` and the names of the columns come from the schema.
    pub fn insert(
        &self,
        table: &str,
        rows: &EncodedRows,
        deduplication: Deduplication<'_>,
    ) -> Result<()> {
        let mut settings = vec![
            // On by default since 26.3: the insert would be acknowledged with others, in their block.
            ("async_insert", "0".to_owned()),
            ("max_insert_threads", "1".to_owned()),
            ("distributed_foreground_insert", "1".to_owned()),
            ("wait_end_of_query", "1".to_owned()),
            // Imports bring rows of more months than the 100 that ClickHouse accepts by default.
            ("max_partitions_per_insert_block", "0".to_owned()),
        ];
        match deduplication {
            Deduplication::None => settings.push(("insert_deduplicate", "0".to_owned())),
            Deduplication::Token(token) => {
                settings.push(("insert_deduplicate", "1".to_owned()));
                settings.push(("insert_deduplication_token", token.to_owned()));
            }
        }
        if self.settings.topology.cluster().is_some() {
            settings.push(("insert_quorum", "auto".to_owned()));
        }
        let text = format!("INSERT INTO {table} ({}) FORMAT ArrowStream", rows.columns);
        settings.push(("query", text));
        let timeout = self.settings.write_timeout;
        let url = self.url(&Statement::default(), &settings, timeout)?;
        let response = self.post(&url, &rows.body, timeout)?;
        drain(response, &self.settings.server)
    }

    /// Encodes rows for [`Client::insert`].
    pub fn encode(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        let schema = batch.schema();
        let names: Vec<String> =
            schema.fields().iter().map(|field| format!("`{}`", field.name())).collect();
        let compression = match self.settings.compression {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
        };
        let encoded = || {
            let options = IpcWriteOptions::default().try_with_compression(compression)?;
            let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options)?;
            writer.write(batch)?;
            writer.into_inner()
        };
        let body = encoded().map_err(|why| self.protocol(format!("rows cannot be sent: {why}")))?;
        Ok(EncodedRows { columns: names.join(", "), body, rows: batch.num_rows() })
    }

    /// Ends the queries whose ids begin like this. One that has ended already is no error.
    pub fn kill(&self, query_id: &str) -> Result<()> {
        let mut parameters = Parameters::default();
        let id = parameters.add(Parameter::String(query_id));
        let on_cluster = self.on_cluster();
        let text = format!("KILL QUERY{on_cluster} WHERE startsWith(query_id, {id}) ASYNC");
        self.execute_within(&Statement::new(text, parameters), KILL_TIMEOUT)
    }

    /// Whether ClickHouse answers.
    pub fn ping(&self) -> Result<()> {
        self.select(&Statement::from("SELECT 1"))?.try_for_each(|batch| batch.map(drop))
    }

    pub(crate) fn on_cluster(&self) -> String {
        let cluster = self.settings.topology.cluster();
        cluster.map_or(String::new(), |cluster| format!(" ON CLUSTER `{cluster}`"))
    }

    pub(crate) fn not_connected(&self) -> Error {
        let why = "it has not been reached since the start".to_owned();
        Error::Away { server: self.settings.server.clone(), why }
    }

    fn protocol(&self, why: String) -> Error {
        Error::Protocol { server: self.settings.server.clone(), why }
    }

    fn url(
        &self,
        statement: &Statement,
        settings: &[(&'static str, String)],
        timeout: Duration,
    ) -> Result<String> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let id = || Uuid::new_v4().to_string();
        query.append_pair("database", &self.settings.database);
        query.append_pair("query_id", &statement.query_id.clone().unwrap_or_else(id));
        let seconds = timeout.as_secs().max(1).to_string();
        query.append_pair("max_execution_time", &seconds);
        for (name, value) in settings.iter().chain(&statement.settings) {
            query.append_pair(name, value);
        }
        for (no, value) in statement.parameters.values().iter().enumerate() {
            query.append_pair(&format!("param_v{no}"), value);
        }
        let url = format!("{}/?{}", self.settings.server, query.finish());
        if url.len() > URL_BYTES_MAX {
            return Err(Error::ParametersTooLarge { bytes: url.len(), bytes_max: URL_BYTES_MAX });
        }
        Ok(url)
    }

    fn post(&self, url: &str, body: &[u8], timeout: Duration) -> Result<Response<Body>> {
        if self.is_locked() {
            return Err(self.not_connected());
        }
        let secret = |text: &str| {
            let mut value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| Error::Url {
                why: "has a user or password with a control character",
            })?;
            value.set_sensitive(true);
            Ok(value)
        };
        let request = Request::post(url)
            .header("x-clickhouse-user", secret(&self.settings.user)?)
            .header("x-clickhouse-key", secret(&self.settings.password.0)?)
            .header("content-type", "application/octet-stream")
            .body(body)
            .map_err(|why| self.protocol(why.to_string()))?;
        let timeout = timeout.saturating_add(self.settings.grace);
        let request = self.agent.configure_request(request).timeout_global(Some(timeout)).build();
        let sent = self.agent.run(request);
        let response = sent.map_err(|why| of_transport(&self.settings.server, why))?;
        let code = response.headers().get(EXCEPTION_CODE);
        let code = code.and_then(|code| code.to_str().ok()?.parse().ok());
        if response.status().is_success() && code.is_none() {
            return Ok(response);
        }
        Err(refused(response, code, &self.settings.server))
    }
}

/// What a response says that has no result.
fn refused(response: Response<Body>, code: Option<u32>, server: &str) -> Error {
    let status = response.status().as_u16();
    let (_, body) = response.into_parts();
    let body = body.into_with_config().limit(ERROR_BYTES_MAX).lossy_utf8(true).read_to_string();
    // Only the end of a long message is lost.
    let text = body.unwrap_or_default();
    if let Some(code) = code.or_else(|| Some(exception_in(&text)?.0)) {
        return of_exception(server, code, &text);
    }
    let why = format!("status {status}");
    match status {
        // A proxy before ClickHouse.
        502..=504 => Error::Away { server: server.to_owned(), why },
        429 => Error::Busy { message: why },
        401 | 403 => Error::Unauthenticated { message: why },
        _ => Error::Protocol { server: server.to_owned(), why },
    }
}

/// Reads the answer of a statement without rows.
fn drain(response: Response<Body>, server: &str) -> Result<()> {
    let (_, body) = response.into_parts();
    let body = body.into_with_config().limit(ERROR_BYTES_MAX).lossy_utf8(true).read_to_string();
    let text = body.map_err(|why| of_transport(server, why))?;
    match exception_in(&text) {
        Some((code, text)) => Err(of_exception(server, code, text)),
        None => Ok(()),
    }
}

fn of_transport(server: &str, why: ureq::Error) -> Error {
    let server = server.to_owned();
    match why {
        ureq::Error::Tls(why) => Error::Untrusted { server, why: why.to_owned() },
        ureq::Error::Rustls(why) => Error::Untrusted { server, why: why.to_string() },
        ureq::Error::Io(why) if why.get_ref().is_some_and(|why| why.is::<rustls::Error>()) => {
            Error::Untrusted { server, why: why.to_string() }
        }
        ureq::Error::BodyExceedsLimit(bytes_max) => Error::TooLarge { bytes_max },
        ureq::Error::Protocol(why) => Error::Protocol { server, why: why.to_string() },
        why => Error::Away { server, why: why.to_string() },
    }
}

fn agent(settings: &Settings) -> Result<Agent> {
    let mut tls = TlsConfig::builder();
    if settings.server.starts_with("https://") {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            let why = "this machine has no certificates of authorities".to_owned();
            return Err(Error::Untrusted { server: settings.server.clone(), why });
        }
        let certificates = found.certs.iter().map(|one| Certificate::from_der(one).to_owned());
        tls = tls
            .root_certs(RootCerts::Specific(Arc::new(certificates.collect())))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    }
    let config = Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        // A redirect could take the password elsewhere.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(IDLE_CONNECTIONS_MAX)
        .max_idle_connections_per_host(IDLE_CONNECTIONS_MAX)
        .user_agent(concat!("hedgerow/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(settings.connect_timeout));
    Ok(config.build().new_agent())
}
