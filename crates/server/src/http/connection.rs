//! One connection: what its client keeps it waiting for, how fast it reads and writes, and what it
//! may hold.
//!
//! hyper reads into a buffer that it doubles whenever a read fills it, and keeps for as long as the
//! connection lives. A read that never fills the buffer never makes it grow, so bounding a read
//! bounds the buffer: a connection begins with a narrow one and widens it only in room of the
//! budget. Without room it goes on reading in small pieces, which costs time and no memory.

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

/// hyper's first buffer, which every connection may have.
const NARROW_BYTES: usize = 8 << 10;
/// Bodies are read in pieces of at most this.
pub(super) const WIDE_BYTES_MAX: usize = 256 << 10;

/// A client that reads less than this in a second does not read.
const READER_BYTES_PER_SECOND: u64 = 1 << 10;
/// A client that moves this much is not idle; less is a trickle, which must not keep others out.
const PROGRESS_BYTES: u64 = 4 << 10;

/// Where a connection is in the course of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    /// The next head is awaited, or on its way.
    Head,
    /// A request is worked on; its body may still be on the way.
    Request,
    /// Its answer is known as a whole.
    Answered,
    /// Its answer has no end yet.
    Streaming,
}

/// What a client keeps us waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Head = 1,
    Body = 2,
    /// That it reads what it asked for.
    Reader = 3,
}

/// What others see of a connection.
pub(super) struct Connection {
    pub address: IpAddr,
    /// Times are milliseconds after this, which all connections share.
    epoch: Instant,
    stage: AtomicU8,
    requests: AtomicU32,
    /// A [`Waiting`] in the lowest two bits, since when above; zero when we wait for nothing.
    waiting: AtomicU64,
    /// Moved since then.
    bytes: AtomicU64,
    /// When bytes last amounted to progress,
    progress: AtomicU64,
    /// and those that moved since then.
    trickled: AtomicU64,
    /// For how long the body was waited for without progress before the wait that goes on.
    waited: AtomicU64,
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
            progress: AtomicU64::new(0),
            trickled: AtomicU64::new(0),
            waited: AtomicU64::new(0),
        };
        connection.wait_for(Waiting::Head);
        Arc::new(connection)
    }

    /// A head is here.
    pub(super) fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.stage.store(Stage::Request as u8, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
        self.trickled.store(0, Ordering::Relaxed);
    }

    /// The answer is on its way. One of unknown length may pause without the client's fault.
    pub(super) fn answer(&self, is_whole: bool) {
        let stage = if is_whole { Stage::Answered } else { Stage::Streaming };
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// All of an answer without a known end was made.
    fn answered(&self) {
        if self.is_at(Stage::Streaming) {
            self.stage.store(Stage::Answered as u8, Ordering::Relaxed);
        }
    }

    /// For how long its client has done next to nothing that we wait for; none while we work.
    pub(super) fn idle_ms(&self, now: Instant) -> Option<u64> {
        let (_, since) = self.waiting()?;
        Some(self.ms(now).saturating_sub(since.max(self.progress.load(Ordering::Relaxed))))
    }

    /// Whether its client has read next to nothing for `within`. Otherwise the clock starts again.
    pub(super) fn is_unread(&self, now: Instant, within: Duration) -> bool {
        let Some((Waiting::Reader, since)) = self.waiting() else { return false };
        if self.ms(now).saturating_sub(since) < within.as_millis() as u64 {
            return false;
        }
        if self.bytes.load(Ordering::Relaxed) < within.as_secs().max(1) * READER_BYTES_PER_SECOND {
            return true;
        }
        self.wait_for(Waiting::Reader);
        false
    }

    fn ms(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_millis() as u64
    }

    fn waiting(&self) -> Option<(Waiting, u64)> {
        let packed = self.waiting.load(Ordering::Relaxed);
        let what = match packed & 3 {
            0 => return None,
            1 => Waiting::Head,
            2 => Waiting::Body,
            _ => Waiting::Reader,
        };
        Some((what, packed >> 2))
    }

    fn is_waiting_for(&self, what: Waiting) -> bool {
        self.waiting.load(Ordering::Relaxed) & 3 == what as u64
    }

    fn wait_for(&self, what: Waiting) {
        self.bytes.store(0, Ordering::Relaxed);
        let since = self.ms(Instant::now());
        self.waiting.store(since << 2 | what as u64, Ordering::Relaxed);
    }

    fn done_waiting(&self, what: Waiting) {
        if self.is_waiting_for(what) {
            self.waiting.store(0, Ordering::Relaxed);
        }
    }

    /// The wait for a body goes on where it was left: one that comes byte by byte is one wait,
    /// without the time that we took in between.
    fn wait_for_body(&self, now: Instant) {
        if self.is_waiting_for(Waiting::Body) {
            return;
        }
        let since = self.ms(now).saturating_sub(self.waited.load(Ordering::Relaxed));
        self.bytes.store(0, Ordering::Relaxed);
        self.waiting.store(since << 2 | Waiting::Body as u64, Ordering::Relaxed);
    }

    /// A part of it is here, and may have to wait for us.
    fn got_body(&self, now: Instant) {
        if self.is_waiting_for(Waiting::Body) {
            self.waited.store(self.idle_ms(now).unwrap_or(0), Ordering::Relaxed);
            self.waiting.store(0, Ordering::Relaxed);
        }
    }

    fn moved(&self, bytes: usize, now: impl FnOnce() -> Instant) {
        let bytes = bytes as u64;
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if self.trickled.fetch_add(bytes, Ordering::Relaxed) + bytes >= PROGRESS_BYTES {
            self.trickled.store(0, Ordering::Relaxed);
            self.waited.store(0, Ordering::Relaxed);
            self.progress.store(self.ms(now()), Ordering::Relaxed);
        }
    }

    fn is_at(&self, stage: Stage) -> bool {
        self.stage.load(Ordering::Relaxed) == stage as u8
    }
}

/// The socket under hyper.
pub(super) struct Socket {
    stream: Take<TcpStream>,
    connection: Arc<Connection>,
    pool: Pool,
    /// No read fills a buffer of this size.
    width: usize,
    /// What a wider buffer than the first takes.
    wide: Option<OwnedReservation>,
    /// The request whose head is read.
    request: u32,
    head_bytes: usize,
    head_bytes_max: usize,
    /// What a longer head than the first buffer takes, until its request is answered.
    head: Option<OwnedReservation>,
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
            width: NARROW_BYTES,
            wide: None,
            request: 0,
            head_bytes: 0,
            head_bytes_max,
            head: None,
        }
    }

    /// Before a head is read on. It may be longer than the first buffer if there is room for it.
    fn read_head(&mut self) -> io::Result<()> {
        let request = self.connection.requests.load(Ordering::Relaxed);
        if self.request != request {
            (self.request, self.head_bytes, self.head) = (request, 0, None);
        }
        if self.head_bytes >= NARROW_BYTES && self.head.is_none() {
            let room = self.pool.try_reserve(self.head_bytes_max);
            self.head = Some(room.map_err(|_| io::Error::other("no room for a long head"))?);
        }
        Ok(())
    }

    fn widen(&mut self) {
        if self.width >= WIDE_BYTES_MAX {
            return;
        }
        let Ok(more) = self.pool.try_reserve(self.width) else { return };
        self.width *= 2;
        match &mut self.wide {
            Some(wide) => wide.merge(more),
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
        let between = this.connection.is_at(Stage::Answered);
        let in_head = between || this.connection.is_at(Stage::Head);
        if in_head {
            this.read_head()?;
        }
        let (before, most) = (buffer.filled().len(), this.width - 1);
        this.stream.set_limit(most as u64);
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_pending() {
            // What hyper reads while an answer is on its way is the next head.
            if between && !this.connection.is_waiting_for(Waiting::Reader) {
                this.connection.stage.store(Stage::Head as u8, Ordering::Relaxed);
                this.connection.wait_for(Waiting::Head);
            }
            return read;
        }
        let bytes = buffer.filled().len() - before;
        this.connection.moved(bytes, Instant::now);
        if in_head {
            this.head_bytes += bytes;
        }
        if bytes == most {
            this.widen();
        }
        read
    }
}

impl Socket {
    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending if !self.connection.is_waiting_for(Waiting::Reader) => {
                self.connection.wait_for(Waiting::Reader);
            }
            Poll::Ready(Ok(bytes)) => self.connection.moved(*bytes, Instant::now),
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
        this.wrote(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(this.stream.get_mut()).poll_write_vectored(context, bytes);
        this.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    /// hyper flushes when it has written everything.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.connection.done_waiting(Waiting::Reader);
        Pin::new(this.stream.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().stream.get_mut()).poll_shutdown(context)
    }
}

/// A body whose sender may keep us waiting.
pub(super) struct Watched {
    body: Incoming,
    connection: Arc<Connection>,
}

impl Watched {
    pub(super) fn new(body: Incoming, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl Body for Watched {
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
            false => this.connection.got_body(Instant::now()),
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

impl Drop for Watched {
    fn drop(&mut self) {
        self.connection.done_waiting(Waiting::Body);
    }
}

/// The body of an answer, whose end is not known before it is there.
pub(super) struct Answer<B> {
    body: B,
    connection: Arc<Connection>,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl<B: Body + Unpin> Body for Answer<B> {
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

/// hyper drops a body when it has all of it.
impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.connection.answered();
    }
}
