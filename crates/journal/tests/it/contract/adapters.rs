use std::path::PathBuf;

use journal::jetstream::{Address, Durability};
use journal::{Journal, Result, Settings};
use tempfile::TempDir;
use testing::nats::Nats;

use super::Adapter;

pub struct Files {
    dir: PathBuf,
    /// Removed at the end, but not by a process that was only told the name.
    _removed: Option<TempDir>,
}

impl Adapter for Files {
    const MODULE: &str = "contract::files";

    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        Some(Self { dir: dir.path().join("not/there/yet"), _removed: Some(dir) })
    }

    fn from_name(name: &str) -> Self {
        Self { dir: name.into(), _removed: None }
    }

    fn name(&self) -> String {
        self.dir.to_str().unwrap().to_owned()
    }

    async fn open(&self, settings: Settings) -> Result<Journal> {
        Journal::open(&self.dir, settings).await
    }

    async fn open_as_other(&self, settings: Settings) -> Result<Journal> {
        self.open(settings).await
    }

    async fn make_foreign(&self) {
        std::fs::create_dir_all(&self.dir).unwrap();
        std::fs::write(self.dir.join(format!("{:020}.segment", 1)), [9; 8192]).unwrap();
    }
}

pub struct JetStream {
    nats: Nats,
}

impl JetStream {
    fn address(&self, owner: u128) -> Address {
        Address {
            url: self.nats.url.clone(),
            monitor_urls: self.nats.monitor_urls.clone(),
            replicas: 3,
            durability: Durability::Fsync,
            owner,
            ..Address::default()
        }
    }
}

impl Adapter for JetStream {
    const MODULE: &str = "contract::jetstream";

    fn new() -> Option<Self> {
        Some(Self { nats: Nats::new()? })
    }

    fn from_name(name: &str) -> Self {
        let nats = Nats::new().unwrap();
        Self { nats: Nats { url: name.to_owned(), ..nats } }
    }

    fn name(&self) -> String {
        self.nats.url.clone()
    }

    async fn open(&self, settings: Settings) -> Result<Journal> {
        Journal::open(self.address(1), settings).await
    }

    async fn open_as_other(&self, settings: Settings) -> Result<Journal> {
        Journal::open(self.address(2), settings).await
    }

    async fn make_foreign(&self) {
        let (servers, name) = self.nats.url.rsplit_once('/').unwrap();
        let servers: Vec<_> = servers.split(',').collect();
        let client = async_nats::connect(servers).await.unwrap();
        let config = async_nats::jetstream::stream::Config {
            name: format!("{}_0", name.to_uppercase()),
            ..Default::default()
        };
        async_nats::jetstream::new(client).create_stream(config).await.unwrap();
    }
}
