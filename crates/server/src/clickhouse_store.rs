//! ClickHouse as the warehouse of a server: connects to it when it can be reached, checks that it
//! belongs to the other stores, keeps what was appended visible, and knows whether it is away.
//!
//! While ClickHouse is away, capture goes on and the journal grows; ingestion waits and repeats.

mod feed;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::Outage;
use catalog::Catalog;
use clickhouse::{
    Client, Compression, ReadLimits, Reader, Schema, Topology, Writer, WriterSettings,
};
use journal::Journal;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use warehouse::StoredPosition;

use crate::data_dir::DataDir;
use crate::settings::Settings;
use crate::stores;
use crate::values::{ClickHouseUrl, Credential, WarehouseCompression, WarehouseTopology};
use feed::Feed;

/// The lane of a server's only journal.
pub(crate) const LANE: u16 = 0;
/// How often it is checked whether rows have waited for long enough.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// How often ClickHouse is asked whether it answers while nothing is written.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// After this time without an answer to anything ClickHouse counts as away, though an insert may
/// still succeed.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Cheap to clone; all clones are one store.
#[derive(Clone)]
pub(crate) struct ClickHouseStore {
    schema: Schema,
    writer: Writer,
    reader: Reader,
    feed: Feed,
    outage: Arc<Mutex<Option<Outage>>>,
}

/// Why ClickHouse does not answer.
fn outage_of(error: &anyhow::Error) -> Outage {
    let of_clickhouse = error.downcast_ref::<clickhouse::Error>();
    let shown = of_clickhouse.and_then(query::Error::remedy).unwrap_or(
        "ClickHouse, which stores the events, cannot be used as it is. The server's log says why.",
    );
    Outage { detail: format!("{error:#}"), shown }
}

/// What the settings say about ClickHouse; none for the embedded warehouse.
pub(crate) fn settings_of(settings: &Settings) -> Result<Option<clickhouse::Settings>> {
    let Some(ClickHouseUrl(url)) = &settings.warehouse_url else { return Ok(None) };
    if settings.events_disk_bytes_max.is_some() {
        bail!(
            "events_disk_bytes_max bounds the files in the data directory, but warehouse_url names \
             ClickHouse; bound events by events_days_max instead"
        );
    }
    let mut found = url.clone();
    if let Some(Credential(password)) = &settings.warehouse_password {
        found = found.with_password(password.reveal().to_owned());
    }
    let cluster = settings.warehouse_cluster.as_ref().map(|cluster| cluster.0.clone());
    let topology = match (settings.warehouse_topology, cluster) {
        (WarehouseTopology::Single, None) => Topology::Single,
        (WarehouseTopology::Single, Some(_)) => {
            bail!("warehouse_cluster is set, but warehouse_topology is single")
        }
        (_, None) => bail!("warehouse_topology needs the name of a cluster in warehouse_cluster"),
        (WarehouseTopology::Replicated, Some(cluster)) => Topology::Replicated { cluster },
        (WarehouseTopology::Sharded, Some(cluster)) => Topology::Sharded { cluster },
    };
    let compression = match settings.warehouse_compression {
        WarehouseCompression::None => Compression::None,
        WarehouseCompression::Lz4 => Compression::Lz4,
        WarehouseCompression::Zstd => Compression::Zstd,
    };
    let connect = Duration::from_secs(settings.warehouse_connect_seconds_max.0);
    found = found.with_topology(topology)?;
    Ok(Some(clickhouse::Settings {
        compression,
        connect_timeout: connect,
        grace: connect,
        query_timeout: Duration::from_secs(settings.query_seconds_max.0.max(60)),
        write_timeout: Duration::from_secs(settings.warehouse_write_seconds_max.0),
        ..found
    }))
}

/// The tables as queries read them: by a user of their own, if one is set.
pub(crate) fn reader(
    schema: &Schema,
    of: &clickhouse::Settings,
    settings: &Settings,
) -> Result<Reader> {
    let Some(user) = &settings.warehouse_query_user else {
        return Ok(Reader::new(schema.clone()));
    };
    let password = settings.warehouse_query_password.as_ref();
    let password = password.map_or(String::new(), |password| password.0.reveal().to_owned());
    let of = of.clone().with_user(user.0.clone()).with_password(password);
    Ok(Reader::new(schema.as_user(Client::new(of)?)))
}

/// How far the events reach that ClickHouse has; none without ClickHouse or before the first start.
/// Blocks, and changes nothing.
pub(crate) fn stored_position(settings: &Settings) -> Result<Option<StoredPosition>> {
    let Some(of) = settings_of(settings)? else { return Ok(None) };
    let schema = Schema::join(Client::new(of)?).context("cannot read ClickHouse")?;
    Ok(schema.map(|schema| Writer::stored_position(&schema, LANE)).transpose()?.flatten())
}

impl ClickHouseStore {
    /// Connects to nothing.
    pub(crate) fn new(
        of: clickhouse::Settings,
        settings: &Settings,
        catalog: &Catalog,
        journal: &Journal,
    ) -> Result<Self> {
        let schema = Schema::unprepared(Client::new(of.clone())?);
        let limits = ReadLimits {
            time: Duration::from_secs(settings.query_seconds_max.0),
            memory_bytes: settings.query_memory_bytes_max.0 as usize,
        };
        let reader = reader(&schema, &of, settings)?.with_limits(limits).locked();
        let writer_settings = WriterSettings {
            events_age_max: settings.events_days_max.map(|days| crate::ingest::days(days.0)),
            ..WriterSettings::default()
        };
        let (journal, clock) = (journal.id().as_u128(), catalog.clock().clone());
        let writer = Writer::unconnected(schema.clone(), LANE, journal, writer_settings, clock);
        // From now on the catalog records what ClickHouse has to know.
        catalog.feed().enable();
        let feed = Feed::new(catalog.clone(), writer.clone());
        feed.bring_before_inserts();
        let outage = Outage {
            detail: "ClickHouse has not been reached since the start".to_owned(),
            shown: "ClickHouse has not been reached since the start",
        };
        Ok(Self { schema, writer, reader, feed, outage: Arc::new(Mutex::new(Some(outage))) })
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Why queries cannot be answered.
    pub(crate) fn outage(&self) -> Option<Outage> {
        self.lock_outage().clone()
    }

    fn lock_outage(&self) -> std::sync::MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether ClickHouse answered, and logs when that changes.
    fn note(&self, outage: Option<Outage>) {
        let before = std::mem::replace(&mut *self.lock_outage(), outage.clone());
        match (before, outage) {
            (None, Some(Outage { detail, .. })) => {
                tracing::error!(detail, "events wait in the journal until ClickHouse takes them");
            }
            (Some(_), None) => tracing::info!("ClickHouse answers"),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Notes how an attempt to begin ended. Once it succeeded, queries read ClickHouse.
    pub(crate) fn note_begun(&self, begun: Result<(), &anyhow::Error>) {
        match begun {
            Ok(()) => {
                self.reader.unlock();
                self.note(None);
            }
            Err(error) => self.note(Some(outage_of(error))),
        }
    }

    /// Creates or updates the tables, checks that they belong to the other stores, and opens the lane
    /// of the journal. Repeated until it succeeds.
    pub(crate) async fn connect(
        &self,
        data_dir: &DataDir,
        catalog: &Catalog,
        journal: &Journal,
    ) -> Result<()> {
        let schema = self.schema.clone();
        let stored = blocking(move || {
            schema.prepare()?;
            Writer::stored_position(&schema, LANE)
        });
        let stored = stored.await.context("cannot open the tables of ClickHouse")?;
        stores::check_clickhouse(data_dir, catalog, journal, stored).await?;
        let writer = self.writer.clone();
        blocking(move || writer.connect()).await.context("cannot open the lane of ClickHouse")?;
        self.feed.begin(journal.id().as_u128()).await.context("cannot feed ClickHouse")
    }

    /// Inserts what has waited, brings changes of persons, groups and cohorts, and asks whether
    /// ClickHouse answers.
    pub(crate) async fn keep_visible(self, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(FLUSH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut answered = Instant::now();
        loop {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                _ = ticks.tick() => {}
            }
            // Whoever begins notes why it is not done.
            if self.reader.is_locked() {
                continue;
            }
            let position = self.writer.durable_position();
            let mut work = std::pin::pin!(self.work(answered.elapsed() >= PING_INTERVAL));
            let outcome = loop {
                if let Ok(outcome) = timeout(SILENCE_MAX, work.as_mut()).await {
                    break outcome;
                }
                // A large insert takes its time.
                if !matches!(timeout(SILENCE_MAX, self.ping()).await, Ok(Ok(()))) {
                    let seconds = SILENCE_MAX.as_secs();
                    self.note(Some(Outage {
                        detail: format!("ClickHouse has not answered for {seconds} seconds"),
                        shown: "ClickHouse is away: it does not answer",
                    }));
                }
                if *stopped.borrow() {
                    return;
                }
            };
            match outcome {
                Ok(asked) if asked || self.writer.durable_position() > position => {
                    answered = Instant::now();
                    self.note(None);
                }
                Ok(_) => {}
                Err(error) => self.note(Some(outage_of(&error))),
            }
        }
    }

    /// Returns whether ClickHouse was surely asked something.
    async fn work(&self, ping: bool) -> Result<bool> {
        let was_away = self.outage().is_some();
        let brought = self.feed.bring_recorded(was_away).await?;
        let writer = self.writer.clone();
        blocking(move || writer.flush_due()).await?;
        if ping || was_away {
            self.ping().await?;
            return Ok(true);
        }
        Ok(brought)
    }

    async fn ping(&self) -> Result<()> {
        let schema = self.schema.clone();
        blocking(move || schema.client().ping()).await
    }
}

impl fmt::Debug for ClickHouseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClickHouseStore")
    }
}

impl Collector for ClickHouseStore {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut show = |name: &str, help: &str, value: u64| {
            let name = format!("hedgerow_clickhouse_{name}");
            let value = ConstGauge::new(value);
            value.encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)
        };
        show("up", "Whether ClickHouse answers", self.outage().is_none().into())?;
        let behind = self.writer.appended_position().saturating_sub(self.writer.durable_position());
        show("waiting_records", "Records whose rows are not in ClickHouse yet", behind)?;
        let promoted = self.schema.promoted().len() as u64;
        show("property_columns", "Properties with a column of their own", promoted)?;
        let help =
            "Queries whose events were read into memory, since ClickHouse cannot compute them";
        let pulls = ConstCounter::new(self.reader.pulls());
        let name = "hedgerow_clickhouse_pulls";
        pulls.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
    }
}

/// Whether the same may succeed later, without anybody's doing.
pub(crate) fn is_transient(error: &anyhow::Error) -> bool {
    let is_away = |error: &(dyn std::error::Error + 'static)| {
        error.downcast_ref::<clickhouse::Error>().is_some_and(clickhouse::Error::is_transient)
            || matches!(error.downcast_ref(), Some(warehouse::Error::Away(_)))
            || matches!(error.downcast_ref(), Some(catalog::Error::Unavailable(_)))
    };
    error.chain().any(is_away)
}

/// Whether ClickHouse is away, or refuses what it may take later.
pub(crate) fn is_outage(error: &warehouse::Error) -> bool {
    matches!(error, warehouse::Error::Away(_))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> clickhouse::Result<T> + Send + 'static,
) -> Result<T> {
    Ok(tokio::task::spawn_blocking(work).await??)
}
