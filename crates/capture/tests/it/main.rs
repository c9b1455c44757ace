#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod events;
mod limits;
mod recordings;
mod rejections;
mod v1;

use std::net::IpAddr;
use std::sync::Arc;

use capture::{
    Accepted, Capture, Endpoint, KeyOwner, Limits, LookupFuture, Rejection, Request, TokenLookup,
    TokenOwner,
};
use journal::{Journal, Position, Settings};
use model::event::AcceptedEvent;
use model::{ProjectId, Timestamp, Warning};
use tempfile::TempDir;
use tokio::sync::mpsc::{Receiver, channel};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// `T` and `phc_demo` belong to project 1, `U` to project 2, `phx_good` sees project 1.
struct Owners;

impl TokenLookup for Owners {
    fn project_of<'a>(&'a self, token: &'a str) -> LookupFuture<'a, TokenOwner> {
        Box::pin(async move {
            match token {
                "T" | "phc_demo" => TokenOwner::Known(ProjectId(1)),
                "U" => TokenOwner::Known(ProjectId(2)),
                "away" => TokenOwner::Unavailable,
                _ => TokenOwner::Unknown,
            }
        })
    }

    fn project_of_personal_key<'a>(
        &'a self,
        key: &'a str,
        project: Option<ProjectId>,
    ) -> LookupFuture<'a, KeyOwner> {
        Box::pin(async move {
            match (key, project) {
                ("phx_good", Some(ProjectId(1))) => KeyOwner::Known(ProjectId(1)),
                ("phx_good", _) => KeyOwner::UnknownProject,
                _ => KeyOwner::UnknownKey,
            }
        })
    }
}

struct Harness {
    capture: Arc<Capture>,
    journal: Journal,
    warnings: Receiver<Warning>,
    _folder: TempDir,
}

impl Harness {
    async fn open() -> Self {
        Self::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Self {
        let folder = TempDir::new().unwrap();
        let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
        let journal = Journal::open(folder.path(), settings).await.unwrap();
        let (sender, warnings) = channel(100);
        let capture = Capture::new(journal.clone(), Arc::new(Owners), sender, limits);
        Self { capture: Arc::new(capture), journal, warnings, _folder: folder }
    }

    async fn post(&self, body: &str) -> Result<Accepted, Rejection> {
        self.capture.events(request(body.as_bytes())).await
    }

    /// The records in the journal.
    async fn records(&self) -> Vec<Vec<u8>> {
        let next = self.journal.stats().next;
        let mut reader = self.journal.reader(Position::START).unwrap();
        let mut records = Vec::new();
        while reader.position() < next {
            let batch = reader.next_batch(1_000, 1 << 20).await.unwrap();
            records.extend(batch.iter().map(|record| record.bytes.to_vec()));
        }
        records
    }

    /// Project, name and distinct id of every event in the journal.
    async fn stored(&self) -> Vec<(i64, String, String)> {
        let summary = |record: &Vec<u8>| {
            let event = AcceptedEvent::decode(record).unwrap();
            (event.project.0, event.name.to_owned(), event.distinct_id.to_owned())
        };
        self.records().await.iter().map(summary).collect()
    }

    fn warned(&mut self) -> Vec<&'static str> {
        std::iter::from_fn(|| self.warnings.try_recv().ok()).map(|it| it.kind.as_str()).collect()
    }
}

fn request(body: &[u8]) -> Request<'_> {
    Request {
        endpoint: Endpoint::Events,
        query: "",
        content_type: Some("application/json"),
        content_encoding: None,
        body,
        client_ip: Some(IpAddr::from([203, 0, 113, 9])),
        received_at: NOW,
    }
}

fn code(outcome: &Result<Accepted, Rejection>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(refused) => refused.code(),
    }
}
