//! The worker's end of a QUIC link, which writes messages and packs and reads messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use quinn::{Connection, SendStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::PollSender;

use super::frame;
use super::report::PathReporter;
use super::{close, control};
use crate::proto::message::{ToClient, ToWorker};
use crate::proto::send::TaskPack;
use crate::transport::{Body, Downstream, LinkLost, LinkReport, Transport, WorkerLink};

/// Maximum number of frames that wait to be written. The limit is low: while the network is slow, elements
/// gather at the task and packs grow.
const FRAMES_MAX: usize = 2;

/// Maximum number of a client's messages that wait to be handled. The limit is low, because a message can be
/// long and a session handles messages at once.
const MESSAGES_MAX: usize = 32;

/// Accepts a client's link on an authenticated connection. Waits at most `deadline` for the client's stream
/// of messages, and again at most `deadline` for the first message. A client that misses a deadline loses the
/// link.
pub async fn accept(path: PathReporter, deadline: Duration) -> Result<Box<WorkerLink>, LinkLost> {
    let connection = path.connection().clone();
    let (send, recv) = tokio::time::timeout(deadline, connection.accept_bi())
        .await
        .map_err(|_| {
            LinkLost::Misbehaved(format!(
                "expected a stream of messages within {deadline:?}, found none"
            ))
        })?
        .map_err(|error| close::lost(&error))?;
    let (down, down_queue) = mpsc::channel(FRAMES_MAX);
    let (up_queue, up) = mpsc::channel(MESSAGES_MAX);
    let packs = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let writer = Writer {
        connection,
        messages: send,
        packs: packs.clone(),
    };
    let failures = up_queue.clone();
    tasks.spawn(async move {
        if let Err(lost) = writer.run(down_queue).await {
            // If the receiver is gone already, the failure is of no interest.
            let _ = failures.send(Err(lost)).await;
        }
    });
    tasks.spawn(async move {
        let lost =
            control::read::<ToWorker, _>(recv, &up_queue, std::convert::identity, Some(deadline)).await;
        let _ = up_queue.send(Err(lost)).await;
    });
    Ok(Box::new(QuicWorkerLink {
        path,
        down: PollSender::new(down),
        up,
        packs,
        _tasks: tasks,
    }))
}

struct Writer {
    connection: Connection,
    messages: SendStream,
    packs: Arc<AtomicU64>,
}

impl Writer {
    async fn run(mut self, mut queue: mpsc::Receiver<Downstream>) -> Result<(), LinkLost> {
        while let Some(frame) = queue.recv().await {
            match frame {
                Downstream::Message(message) => self.write_message(&message).await?,
                Downstream::Pack(out) => self.write_pack(out).await?,
            }
        }
        // An error means that the peer is gone already, so there is nobody to inform.
        let _ = self.messages.finish();
        Ok(())
    }

    async fn write_message(&mut self, message: &ToClient) -> Result<(), LinkLost> {
        let mut out = Vec::new();
        control::append(&mut out, message)?;
        let written = self.messages.write_all(&out).await;
        written.map_err(|error| close::unwritten(&error))
    }

    async fn write_pack(&mut self, out: TaskPack<Body>) -> Result<(), LinkLost> {
        let stream = self.connection.open_uni().await;
        let mut stream = stream.map_err(|error| close::lost(&error))?;
        stream
            .write_all_chunks(&mut frame::encode(out))
            .await
            .map_err(|error| close::unwritten(&error))?;
        self.packs.fetch_add(1, Ordering::Relaxed);
        // The writer never waits for `stopped()`, because delayed acknowledgements would cost 25 ms for each
        // pack.
        stream
            .finish()
            .map_err(|error| LinkLost::Broken(error.to_string()))
    }
}

#[derive(Debug)]
struct QuicWorkerLink {
    path: PathReporter,
    down: PollSender<Downstream>,
    up: mpsc::Receiver<Result<ToWorker, LinkLost>>,
    packs: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Transport for QuicWorkerLink {
    type Out = Downstream;
    type In = ToWorker;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.down.poll_reserve(cx).map_err(|_| closed())
    }

    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost> {
        self.down.send_item(frame).map_err(|_| closed())
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>> {
        self.up
            .poll_recv(cx)
            .map(|frame| frame.unwrap_or_else(|| Err(closed())))
    }

    fn close(&mut self, why: &LinkLost) {
        close::close(self.path.connection(), why);
    }

    fn is_network(&self) -> bool {
        true
    }

    fn report(&self) -> LinkReport {
        self.path
            .report(self.packs.load(Ordering::Relaxed), self.bytes_copied())
    }

    /// Returns zero, because this end hands the slots themselves to QUIC without a copy.
    fn bytes_copied(&self) -> u64 {
        0
    }
}

impl Drop for QuicWorkerLink {
    fn drop(&mut self) {
        close::abandon(self.path.connection(), "the worker's end of the link was dropped");
    }
}

fn closed() -> LinkLost {
    LinkLost::Closed("the link was closed".into())
}
