//! Per-connection state: what the server waits for, transfer progress, and memory of buffers.
//!
//! hyper doubles its read buffer whenever a read fills it, and keeps it for the life of the
//! connection. A read that does not fill the buffer does not grow it, so limiting the read limits
//! the buffer. A connection starts with 8 KiB and grows only with a reservation from the memory
//! budget; without one it reads in small pieces, which costs time but no memory.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use capture::{OwnedReservation, Pool};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};
use tokio::net::TcpStream;

/// hyper's initial read buffer; not charged to the budget.
const BUFFER_BYTES_MIN: usize = 8 << 10;
/// Maximum size of a read.
pub(super) const BUFFER_BYTES_MAX: usize = 256 << 10;

/// A client that reads its response slower than this counts as not reading.
const READER_BYTES_PER_SECOND: u64 = 1 << 10;
/// Bytes that count as progress. A client that trickles less counts as idle and can be evicted.
const PROGRESS_BYTES: u64 = 4 << 10;

/// Stage of a connection in the request cycle.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    /// Waiting for the next request's headers.
    Head,
    /// Processing a request; its body may still be arriving.
    Request,
    /// Sending a response of known length.
    Responding,
    /// Sending a response whose end is not known yet.
    Streaming,
}

/// What the server waits for from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitReason {
    Head = 1,
    Body = 2,
    /// The client must read its response.
    Reader = 3,
}

/// The state that the connection's task shares with the accept loop.
pub(super) struct Connection {
    pub address: IpAddr,
    /// Timestamps are milliseconds since this instant, common to all connections.
    epoch: Instant,
    stage: AtomicU8,
    requests: AtomicU32,
    /// A [`WaitReason`] in the two low bits and the start of the wait above; zero while not waiting.
    waiting: AtomicU64,
    /// Bytes transferred since the wait began.
    bytes: AtomicU64,
    /// When the transferred bytes last reached [`PROGRESS_BYTES`].
    progress_at: AtomicU64,
    bytes_since_progress: AtomicU64,
    /// Idle time of earlier waits for the current body, since its last progress.
    body_idle_ms: AtomicU64,
}

impl Connection {
    pub(super) fn new(address: IpAddr, epoch: Instant) -> Arc<Self> {
        let connection = Self {
            address,
            epoch,
            stage: AtomicU8::new(Stage::Head as u8),
            requests: AtomicU32::new(0),
            waiting: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            progress_at: AtomicU64::new(0),
            bytes_since_progress: AtomicU64::new(0),
            body_idle_ms: AtomicU64::new(0),
        };
        connection.wait_for(WaitReason::Head);
        Arc::new(connection)
    }

    /// The headers of a request have arrived.
    pub(super) fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.stage.store(Stage::Request as u8, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        self.body_idle_ms.store(0, Ordering::Relaxed);
        self.bytes_since_progress.store(0, Ordering::Relaxed);
    }

    /// The response starts. One of unknown length may pause without the client being at fault.
    pub(super) fn respond(&self, length_known: bool) {
        let stage = if length_known { Stage::Responding } else { Stage::Streaming };
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// A streamed response has been produced completely.
    fn response_complete(&self) {
        if self.is_at(Stage::Streaming) {
            self.stage.store(Stage::Responding as u8, Ordering::Relaxed);
        }
    }

    /// How long the client has made no progress; `None` while the server works on a request.
    pub(super) fn idle_ms(&self, now: Instant) -> Option<u64> {
        let (_, since) = self.waiting()?;
        Some(self.ms(now).saturating_sub(since.max(self.progress_at.load(Ordering::Relaxed))))
    }

    /// Whether the client has read less than [`READER_BYTES_PER_SECOND`] for `timeout`. Restarts the
    /// interval otherwise.
    pub(super) fn is_unread(&self, now: Instant, timeout: Duration) -> bool {
        let Some((WaitReason::Reader, since)) = self.waiting() else { return false };
        if self.ms(now).saturating_sub(since) < timeout.as_millis() as u64 {
            return false;
        }
        if self.bytes.load(Ordering::Relaxed) < timeout.as_secs().max(1) * READER_BYTES_PER_SECOND {
            return true;
        }
        self.wait_for(WaitReason::Reader);
        false
    }

    fn ms(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_millis() as u64
    }

    fn waiting(&self) -> Option<(WaitReason, u64)> {
        let packed = self.waiting.load(Ordering::Relaxed);
        let reason = match packed & 3 {
            0 => return None,
            1 => WaitReason::Head,
            2 => WaitReason::Body,
            _ => WaitReason::Reader,
        };
        Some((reason, packed >> 2))
    }

    fn is_waiting_for(&self, reason: WaitReason) -> bool {
        self.waiting.load(Ordering::Relaxed) & 3 == reason as u64
    }

    fn wait_for(&self, reason: WaitReason) {
        self.bytes.store(0, Ordering::Relaxed);
        let since = self.ms(Instant::now());
        self.waiting.store(since << 2 | reason as u64, Ordering::Relaxed);
    }

    fn stop_waiting(&self, reason: WaitReason) {
        if self.is_waiting_for(reason) {
            self.waiting.store(0, Ordering::Relaxed);
        }
    }

    /// Resumes the wait for a body: a body that arrives byte by byte counts as one wait, without the
    /// time the server took in between.
    fn wait_for_body(&self, now: Instant) {
        if self.is_waiting_for(WaitReason::Body) {
            return;
        }
        let since = self.ms(now).saturating_sub(self.body_idle_ms.load(Ordering::Relaxed));
        self.bytes.store(0, Ordering::Relaxed);
        self.waiting.store(since << 2 | WaitReason::Body as u64, Ordering::Relaxed);
    }

    /// A chunk has arrived; the server may take its time with it.
    fn body_received(&self, now: Instant) {
        if self.is_waiting_for(WaitReason::Body) {
            self.body_idle_ms.store(self.idle_ms(now).unwrap_or(0), Ordering::Relaxed);
            self.waiting.store(0, Ordering::Relaxed);
        }
    }

    fn transferred(&self, bytes: usize, now: impl FnOnce() -> Instant) {
        let bytes = bytes as u64;
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if self.bytes_since_progress.fetch_add(bytes, Ordering::Relaxed) + bytes >= PROGRESS_BYTES {
            self.bytes_since_progress.store(0, Ordering::Relaxed);
            self.body_idle_ms.store(0, Ordering::Relaxed);
            self.progress_at.store(self.ms(now()), Ordering::Relaxed);
        }
    }

    fn is_at(&self, stage: Stage) -> bool {
        self.stage.load(Ordering::Relaxed) == stage as u8
    }
}

/// The TCP stream under hyper: limits reads and reports transfers.
pub(super) struct Socket {
    stream: Take<TcpStream>,
    connection: Arc<Connection>,
    pool: Pool,
    /// Reads stay below this, so hyper's buffer does not outgrow it.
    buffer_bytes: usize,
    /// Budget of a buffer beyond [`BUFFER_BYTES_MIN`].
    buffer_reservation: Option<OwnedReservation>,
    /// Number of the request whose headers are being read.
    request: u32,
    head_bytes: usize,
    head_bytes_max: usize,
    /// Budget of headers longer than [`BUFFER_BYTES_MIN`], until the next request.
    head_reservation: Option<OwnedReservation>,
}

impl Socket {
    pub(super) fn new(
        stream: TcpStream,
        connection: Arc<Connection>,
        pool: Pool,
        head_bytes_max: usize,
    ) -> Self {
        Self {
            stream: stream.take(0),
            connection,
            pool,
            buffer_bytes: BUFFER_BYTES_MIN,
            buffer_reservation: None,
            request: 0,
            head_bytes: 0,
            head_bytes_max,
            head_reservation: None,
        }
    }

    /// Called before reading headers. Long ones need a reservation; without it the connection ends.
    fn prepare_head_read(&mut self) -> io::Result<()> {
        let request = self.connection.requests.load(Ordering::Relaxed);
        if self.request != request {
            (self.request, self.head_bytes, self.head_reservation) = (request, 0, None);
        }
        if self.head_bytes >= BUFFER_BYTES_MIN && self.head_reservation.is_none() {
            let reserved = self.pool.try_reserve(self.head_bytes_max);
            let exhausted = |_| io::Error::other("no memory budget for long headers");
            self.head_reservation = Some(reserved.map_err(exhausted)?);
        }
        Ok(())
    }

    fn grow_buffer(&mut self) {
        if self.buffer_bytes >= BUFFER_BYTES_MAX {
            return;
        }
        let Ok(more) = self.pool.try_reserve(self.buffer_bytes) else { return };
        self.buffer_bytes *= 2;
        match &mut self.buffer_reservation {
            Some(buffer_reservation) => buffer_reservation.merge(more),
            none => *none = Some(more),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let between = this.connection.is_at(Stage::Responding);
        let in_head = between || this.connection.is_at(Stage::Head);
        if in_head {
            this.prepare_head_read()?;
        }
        let (before, limit) = (buffer.filled().len(), this.buffer_bytes - 1);
        this.stream.set_limit(limit as u64);
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_pending() {
            // hyper reads the next request's headers while it sends a response.
            if between && !this.connection.is_waiting_for(WaitReason::Reader) {
                this.connection.stage.store(Stage::Head as u8, Ordering::Relaxed);
                this.connection.wait_for(WaitReason::Head);
            }
            return read;
        }
        let bytes = buffer.filled().len() - before;
        this.connection.transferred(bytes, Instant::now);
        if in_head {
            this.head_bytes += bytes;
        }
        if bytes == limit {
            this.grow_buffer();
        }
        read
    }
}

impl Socket {
    fn track_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending if !self.connection.is_waiting_for(WaitReason::Reader) => {
                self.connection.wait_for(WaitReason::Reader);
            }
            Poll::Ready(Ok(bytes)) => self.connection.transferred(*bytes, Instant::now),
            _ => {}
        }
        written
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(this.stream.get_mut()).poll_write(context, bytes);
        this.track_write(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(this.stream.get_mut()).poll_write_vectored(context, bytes);
        this.track_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    /// hyper flushes when it has written the whole response.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.connection.stop_waiting(WaitReason::Reader);
        Pin::new(this.stream.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().stream.get_mut()).poll_shutdown(context)
    }
}

/// A request body that records when the server waits for it.
pub(super) struct RequestBody {
    body: Incoming,
    connection: Arc<Connection>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        match frame.is_pending() {
            true => this.connection.wait_for_body(Instant::now()),
            false => this.connection.body_received(Instant::now()),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.connection.stop_waiting(WaitReason::Body);
    }
}

/// A response body that records its end.
pub(super) struct ResponseBody<B> {
    body: B,
    connection: Arc<Connection>,
}

impl<B> ResponseBody<B> {
    pub(super) fn new(body: B, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// hyper drops a body after its last frame.
impl<B> Drop for ResponseBody<B> {
    fn drop(&mut self) {
        self.connection.response_complete();
    }
}
