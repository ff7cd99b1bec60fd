//! The pushes of a client, also after a gap. A gap arises when the client's inbox was full, or when the
//! dispatcher was unreachable.
//!
//! This file owns the inbox and the pause between two attempts to fill it, and does not look into pushes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::inbox::{self, Inbox};
use crate::dispatcher::ClientPush;
use crate::error::Error;
use crate::id::ClientId;
use crate::rpc::session::Session;

/// Maximum wait for a connection, about a century, because a session's own limit may overflow.
const WAIT_MAX: Duration = Duration::from_secs(3_000_000_000);

/// The first pause between two inboxes if the first inbox ended without a push. The pause doubles each
/// time.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Maximum pause between two inboxes.
const PAUSE_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Pushes {
    inbox: Arc<Inbox>,
    client: ClientId,
    waiting: mpsc::Receiver<ClientPush>,
    /// The pause before the next inbox is opened.
    pause: Duration,
    /// The time at which the next inbox is opened, once it is fixed.
    reopen_at: Option<Instant>,
}

/// A source of snapshots.
pub(super) trait Snapshots {
    /// Waits until a snapshot can be requested.
    async fn connected(&self) -> Result<(), Error>;

    /// Requests a snapshot, which is later put into the client's inbox. On failure the inbox is closed
    /// instead. Does not wait.
    fn ask(&self, inbox: &Arc<Inbox>, client: ClientId);
}

impl Pushes {
    /// Opens the client's first inbox, and requests a snapshot.
    pub(super) fn open(inbox: Arc<Inbox>, client: ClientId, snapshots: &impl Snapshots) -> Self {
        let waiting = inbox.open(client);
        snapshots.ask(&inbox, client);
        Self {
            inbox,
            client,
            waiting,
            pause: Duration::ZERO,
            reopen_at: None,
        }
    }

    /// Returns the next push, which is a snapshot after a gap (C4.2). Cancel-safe: a new inbox is opened
    /// and its snapshot requested without waiting in between.
    ///
    /// # Errors
    /// The session has failed, so that no snapshot can be requested.
    pub(super) async fn next(&mut self, snapshots: &impl Snapshots) -> Result<ClientPush, Error> {
        loop {
            if let Some(push) = self.waiting.recv().await {
                (self.pause, self.reopen_at) = (Duration::ZERO, None);
                return Ok(push);
            }
            // The call fails if the session has failed, which then explains the end of the pushes.
            snapshots.connected().await?;
            let pause = self.pause;
            let reopen_at = *self.reopen_at.get_or_insert_with(|| Instant::now() + pause);
            if !pause.is_zero() {
                tokio::time::sleep_until(reopen_at).await;
            }
            self.reopen_at = None;
            self.pause = (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            self.waiting = self.inbox.open(self.client);
            snapshots.ask(&self.inbox, self.client);
        }
    }
}

impl Drop for Pushes {
    fn drop(&mut self) {
        self.inbox.close(self.client);
    }
}

impl Snapshots for Arc<Session> {
    async fn connected(&self) -> Result<(), Error> {
        // The wait lasts as long as the session looks for the dispatcher, because its final error explains
        // the end of the pushes.
        Session::connected(self, self.config().give_up.min(WAIT_MAX)).await?;
        Ok(())
    }

    fn ask(&self, inbox: &Arc<Inbox>, client: ClientId) {
        tokio::spawn(inbox::attach(Arc::clone(self), Arc::clone(inbox), client));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::dispatcher::Snapshot;
    use crate::id::TaskId;

    const CLIENT: ClientId = ClientId(7);

    #[derive(Default)]
    struct Scripted {
        is_down: Cell<bool>,
        refuses: bool,
        asked: Cell<u64>,
    }

    impl Snapshots for Scripted {
        async fn connected(&self) -> Result<(), Error> {
            if self.is_down.get() {
                std::future::pending::<()>().await;
            }
            Ok(())
        }

        fn ask(&self, inbox: &Arc<Inbox>, client: ClientId) {
            self.asked.set(self.asked.get() + 1);
            if self.refuses {
                inbox.close(client);
            } else {
                inbox.deliver(client, snapshot(self.asked.get()));
            }
        }
    }

    fn snapshot(splits_lost: u64) -> ClientPush {
        ClientPush::Snapshot(Snapshot {
            splits_lost,
            ..Snapshot::default()
        })
    }

    fn push(task: u64) -> ClientPush {
        ClientPush::TaskEnded { task: TaskId(task) }
    }

    /// Polls the next push once.
    fn poll(pushes: &mut Pushes, snapshots: &Scripted) -> Poll<Result<ClientPush, Error>> {
        let next = pin!(pushes.next(snapshots));
        next.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Tests that a full inbox leads to one snapshot (C4.2).
    #[tokio::test]
    async fn a_slow_peer_gets_one_snapshot() {
        let (inbox, snapshots) = (Arc::new(Inbox::default()), Scripted::default());
        let mut pushes = Pushes::open(Arc::clone(&inbox), CLIENT, &snapshots);
        let mut waiting = 0;
        while inbox.deliver(CLIENT, push(1)) {
            waiting += 1;
        }
        snapshots.is_down.set(true);
        assert_eq!(pushes.next(&snapshots).await, Ok(snapshot(1)));
        for _ in 0..waiting {
            assert_eq!(pushes.next(&snapshots).await, Ok(push(1)));
        }
        for _ in 0..3 {
            assert_eq!(poll(&mut pushes, &snapshots), Poll::Pending);
        }
        snapshots.is_down.set(false);
        assert_eq!(pushes.next(&snapshots).await, Ok(snapshot(2)));
        assert_eq!(snapshots.asked.get(), 2);
        assert!(inbox.deliver(CLIENT, push(3)));
        assert_eq!(pushes.next(&snapshots).await, Ok(push(3)));
    }

    #[tokio::test]
    async fn a_peer_without_snapshot_pauses_before_asking() {
        let snapshots = Scripted {
            refuses: true,
            ..Scripted::default()
        };
        let mut pushes = Pushes::open(Arc::default(), CLIENT, &snapshots);
        assert_eq!(poll(&mut pushes, &snapshots), Poll::Pending);
        // The first request is made by `open`, and the second at once; the third is not yet due.
        assert_eq!(snapshots.asked.get(), 2);
    }
}
