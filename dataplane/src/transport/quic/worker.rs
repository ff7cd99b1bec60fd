//! The worker's end of a QUIC link: writes messages and packs, reads messages.

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
use crate::transport::{Downstream, LinkLost, LinkReport, OutPack, Transport, WorkerLink};

/// Frames that wait to be written. Few: while the network is behind, elements gather at the task and packs
/// grow.
const FRAMES_MAX: usize = 2;

/// Messages of a client that wait to be handled. Few, since one can be long; a session takes them as they
/// come.
const MESSAGES_MAX: usize = 32;

/// Takes a client's link on an authenticated connection. Waits for the client's stream of messages,
/// `deadline` at most; a client whose first message does not follow within `deadline` loses the link.
pub async fn accept(path: PathReporter, deadline: Duration) -> Result<Box<WorkerLink>, LinkLost> {
    let connection = path.connection().clone();
    let (send, recv) = tokio::time::timeout(deadline, connection.accept_bi())
        .await
        .map_err(|_| LinkLost::Misbehaved(format!("no stream of messages within {deadline:?}")))?
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
            // The reader of failures may be gone already; then nobody asks.
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
    async fn run(mut self, mut queue: mpsc::Receiver<Downstream<OutPack>>) -> Result<(), LinkLost> {
        while let Some(frame) = queue.recv().await {
            match frame {
                Downstream::Message(message) => self.write_message(&message).await?,
                Downstream::Pack(out) => self.write_pack(out).await?,
            }
        }
        // The peer may already be gone; there is nobody left to tell.
        let _ = self.messages.finish();
        Ok(())
    }

    async fn write_message(&mut self, message: &ToClient) -> Result<(), LinkLost> {
        let mut out = Vec::new();
        control::append(&mut out, message)?;
        let written = self.messages.write_all(&out).await;
        written.map_err(|error| close::unwritten(&error))
    }

    async fn write_pack(&mut self, out: OutPack) -> Result<(), LinkLost> {
        let stream = self.connection.open_uni().await;
        let mut stream = stream.map_err(|error| close::lost(&error))?;
        stream
            .write_all_chunks(&mut frame::encode(out))
            .await
            .map_err(|error| close::unwritten(&error))?;
        self.packs.fetch_add(1, Ordering::Relaxed);
        // Never waits for `stopped()`: delayed acknowledgements would cost 25 ms a pack.
        stream
            .finish()
            .map_err(|error| LinkLost::Broken(error.to_string()))
    }
}

#[derive(Debug)]
struct QuicWorkerLink {
    path: PathReporter,
    down: PollSender<Downstream<OutPack>>,
    up: mpsc::Receiver<Result<ToWorker, LinkLost>>,
    packs: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Transport for QuicWorkerLink {
    type Out = Downstream<OutPack>;
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

    /// Returns zero: this end copies nothing, because QUIC gets the slots themselves.
    fn bytes_copied(&self) -> u64 {
        0
    }
}

impl Drop for QuicWorkerLink {
    fn drop(&mut self) {
        close::abandon(self.path.connection(), "the worker ends");
    }
}

fn closed() -> LinkLost {
    LinkLost::Closed("the link was closed".into())
}
