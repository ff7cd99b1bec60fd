//! The client's end of a QUIC link, which writes messages and reads messages and packs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn::{Connection, RecvStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::PollSender;

use super::frame::{Assembler, FrameError};
use super::report::PathReporter;
use super::{close, control};
use crate::proto::message::{TaskId, ToClient, ToWorker};
use crate::proto::send::TaskPack;
use crate::transport::{Admission, Body, ClientLink, Downstream, LinkLost, LinkReport, Transport};

/// Maximum number of frames that wait to be handled. The memory of their elements is already accounted for by
/// the grants.
const FRAMES_MAX: usize = 256;

/// Maximum number of packs read at the same time. Further packs wait in their streams.
const PACKS_READ_AT_ONCE: usize = 64;

/// Maximum number of chunks taken from a stream at once.
const CHUNKS_AT_ONCE: usize = 32;

/// Opens a link on an authenticated connection. `admission` decides which packs are received.
pub async fn connect(path: PathReporter, admission: Arc<dyn Admission>) -> Result<Box<ClientLink>, LinkLost> {
    let connection = path.connection().clone();
    let (send, recv) = connection.open_bi().await.map_err(|error| close::lost(&error))?;
    let (up, up_queue) = mpsc::channel(control::MESSAGES_MAX);
    let (down_queue, down) = mpsc::channel(FRAMES_MAX);
    let counters = Arc::new(Counters::default());
    let mut tasks = JoinSet::new();
    let failures = down_queue.clone();
    tasks.spawn(async move {
        if let Err(lost) = control::write(send, up_queue).await {
            // If the receiver is gone already, the failure is of no interest.
            let _ = failures.send(Err(lost)).await;
        }
    });
    let messages = down_queue.clone();
    tasks.spawn(async move {
        let lost = control::read::<ToClient, _>(recv, &messages, Downstream::Message, None).await;
        let _ = messages.send(Err(lost)).await;
    });
    let reader = PackReader {
        connection,
        admission,
        counters: counters.clone(),
    };
    tasks.spawn(async move {
        let lost = reader.run(&down_queue).await;
        let _ = down_queue.send(Err(lost)).await;
    });
    Ok(Box::new(QuicClientLink {
        path,
        up: PollSender::new(up),
        down,
        counters,
        _tasks: tasks,
    }))
}

#[derive(Debug, Default)]
struct Counters {
    packs: AtomicU64,
    bytes_copied: AtomicU64,
}

struct PackReader {
    connection: Connection,
    admission: Arc<dyn Admission>,
    counters: Arc<Counters>,
}

impl PackReader {
    /// Reads each pack in a task of its own, so that an arriving packet wakes only the task of its pack.
    async fn run(self, queue: &mpsc::Sender<Result<Downstream, LinkLost>>) -> LinkLost {
        let reader = Arc::new(self);
        let mut reading = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(outcome) = reading.join_next(), if !reading.is_empty() => match outcome {
                    Ok(Ok(pack)) => if queue.send(Ok(Downstream::Pack(pack))).await.is_err() { return closed() },
                    Ok(Err(lost)) => return lost,
                    Err(panicked) => return LinkLost::Resource(panicked.to_string()),
                },
                stream = reader.connection.accept_uni(), if reading.len() < PACKS_READ_AT_ONCE => match stream {
                    Ok(stream) => {
                        let reader = reader.clone();
                        reading.spawn(async move { reader.read(stream).await });
                    }
                    Err(error) => return close::lost(&error),
                },
            }
        }
    }

    async fn read(&self, mut stream: RecvStream) -> Result<TaskPack<Body>, LinkLost> {
        let mut assembler = Assembler::new(self.admission.clone());
        let mut chunks: [Bytes; CHUNKS_AT_ONCE] = Default::default();
        while let Some(count) = stream
            .read_chunks(&mut chunks)
            .await
            .map_err(|error| close::unread(&error))?
        {
            for chunk in &mut chunks[..count] {
                let pushed = assembler.push(&std::mem::take(chunk));
                pushed.map_err(|error| blame(assembler.task(), &error))?;
            }
        }
        self.counters.packs.fetch_add(1, Ordering::Relaxed);
        self.counters
            .bytes_copied
            .fetch_add(assembler.copied_bytes(), Ordering::Relaxed);
        let task = assembler.task();
        assembler.finish().map_err(|error| blame(task, &error))
    }
}

#[derive(Debug)]
struct QuicClientLink {
    path: PathReporter,
    up: PollSender<ToWorker>,
    down: mpsc::Receiver<Result<Downstream, LinkLost>>,
    counters: Arc<Counters>,
    _tasks: JoinSet<()>,
}

impl Transport for QuicClientLink {
    type Out = ToWorker;
    type In = Downstream;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.up.poll_reserve(cx).map_err(|_| closed())
    }

    fn try_send(&mut self, frame: ToWorker) -> Result<(), LinkLost> {
        self.up.send_item(frame).map_err(|_| closed())
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>> {
        let frame = std::task::ready!(self.down.poll_recv(cx));
        Poll::Ready(frame.unwrap_or_else(|| Err(closed())))
    }

    fn close(&mut self, why: &LinkLost) {
        close::close(self.path.connection(), why);
    }

    fn is_network(&self) -> bool {
        true
    }

    fn report(&self) -> LinkReport {
        let packs = self.counters.packs.load(Ordering::Relaxed);
        self.path.report(packs, self.bytes_copied())
    }

    fn bytes_copied(&self) -> u64 {
        self.counters.bytes_copied.load(Ordering::Relaxed)
    }
}

impl Drop for QuicClientLink {
    fn drop(&mut self) {
        close::abandon(self.path.connection(), "the client no longer needs the link");
    }
}

fn blame(task: Option<TaskId>, error: &FrameError) -> LinkLost {
    let text = match task {
        Some(task) => format!("task {task}: {error}"),
        None => error.to_string(),
    };
    match error {
        FrameError::Alloc(_) => LinkLost::Resource(text),
        FrameError::Header(_) | FrameError::Length { .. } | FrameError::Pack(_) | FrameError::Refused(_) => {
            LinkLost::Misbehaved(text)
        }
    }
}

fn closed() -> LinkLost {
    LinkLost::Closed("the link was closed".into())
}
