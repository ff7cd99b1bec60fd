//! A client's pushes, also behind a gap: when it did not take them, or the dispatcher could not be asked.
//!
//! Owns the box that they wait in and the pause between two attempts to fill it. Refuses to know what they
//! say.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::inbox::{self, Inbox};
use crate::dispatcher::ClientPush;
use crate::error::Error;
use crate::id::ClientId;
use crate::rpc::session::Session;

/// The longest wait for a connection, which a session's patience may be beyond: about a century.
const WAIT_MAX: Duration = Duration::from_secs(3_000_000_000);

/// First pause between two boxes if nothing came through the first one; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Longest pause between two boxes.
const PAUSE_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Pushes {
    inbox: Arc<Inbox>,
    client: ClientId,
    waiting: mpsc::Receiver<ClientPush>,
    /// The time until the next inbox is opened.
    pause: Duration,
    /// When it is, if that is known.
    reopen_at: Option<Instant>,
}

/// A source of snapshots.
pub(super) trait Snapshots {
    /// Waits until somebody can be asked.
    async fn connected(&self) -> Result<(), Error>;

    /// Has a snapshot put into the client's box, or the box closed. Waits for neither.
    fn ask(&self, inbox: &Arc<Inbox>, client: ClientId);
}

impl Pushes {
    /// Opens the client's first box.
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

    /// The next push. Behind a gap that is a snapshot (C4.2). Cancel-safe: a new box is opened, and a
    /// snapshot asked for, in one go.
    ///
    /// # Errors
    /// Nobody can be asked any more.
    pub(super) async fn next(&mut self, snapshots: &impl Snapshots) -> Result<ClientPush, Error> {
        loop {
            if let Some(push) = self.waiting.recv().await {
                (self.pause, self.reopen_at) = (Duration::ZERO, None);
                return Ok(push);
            }
            // Fails if the session has, which is then what ended the pushes.
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
        // As long as the session looks for the dispatcher: what it says in the end is why the pushes ended.
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
                inbox.deliver(client, push(self.asked.get()));
            }
        }
    }

    fn push(task: u64) -> ClientPush {
        ClientPush::TaskEnded { task: TaskId(task) }
    }

    /// Polls once.
    fn poll(pushes: &mut Pushes, snapshots: &Scripted) -> Poll<Result<ClientPush, Error>> {
        let next = pin!(pushes.next(snapshots));
        next.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// C4.2
    #[tokio::test]
    async fn a_slow_peer_gets_one_snapshot() {
        let (inbox, snapshots) = (Arc::new(Inbox::default()), Scripted::default());
        let mut pushes = Pushes::open(Arc::clone(&inbox), CLIENT, &snapshots);
        let mut waiting = 1;
        while inbox.deliver(CLIENT, push(1)) {
            waiting += 1;
        }
        snapshots.is_down.set(true);
        for _ in 0..waiting {
            assert_eq!(pushes.next(&snapshots).await, Ok(push(1)));
        }
        for _ in 0..3 {
            assert_eq!(poll(&mut pushes, &snapshots), Poll::Pending);
        }
        snapshots.is_down.set(false);
        assert_eq!(pushes.next(&snapshots).await, Ok(push(2)));
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
        // Once to begin with, and once at once; the third time is not yet due.
        assert_eq!(snapshots.asked.get(), 2);
    }
}
