//! The inboxes of a process's clients, and the handling of a client that does not empty its inbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::attachment::Attachment;
use crate::dispatcher::ClientPush;
use crate::error::Code;
use crate::id::ClientId;
use crate::rpc::session::{Session, SessionEvent};
use crate::rpc::wire::{WirePush, WireReply, WireRequest};

/// Maximum number of pushes that wait for one client. A client with a full inbox loses its pushes and
/// receives a snapshot instead.
const WAITING_MAX: usize = 1024;

/// The inboxes of the clients of one process, by id.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    boxes: Mutex<BTreeMap<ClientId, Slot>>,
}

#[derive(Debug)]
struct Slot {
    sender: mpsc::Sender<ClientPush>,
    attachment: Attachment,
}

impl Inbox {
    /// Opens an inbox for a client's pushes from now on. An earlier inbox of the client ends.
    pub(super) fn open(&self, client: ClientId) -> mpsc::Receiver<ClientPush> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let attachment = Attachment::default();
        self.boxes.lock().insert(client, Slot { sender, attachment });
        receiver
    }

    pub(super) fn close(&self, client: ClientId) {
        self.boxes.lock().remove(&client);
    }

    /// Delivers a push to a client's inbox. Drops pushes that the next snapshot replaces. Returns false if
    /// the client has no inbox, or if its inbox was full and is now closed.
    pub(super) fn deliver(&self, client: ClientId, push: ClientPush) -> bool {
        let mut boxes = self.boxes.lock();
        let Some(slot) = boxes.get_mut(&client) else {
            return false;
        };
        if !slot.attachment.admits(&push) {
            return true;
        }
        let is_delivered = slot.sender.try_send(push).is_ok();
        if !is_delivered {
            // The end of the inbox makes the client ask for a snapshot.
            boxes.remove(&client);
        }
        is_delivered
    }

    /// Notes that pushes may have been lost. Returns the clients, which all need a snapshot.
    fn note_gap(&self) -> Vec<ClientId> {
        let mut boxes = self.boxes.lock();
        boxes.values_mut().for_each(|slot| slot.attachment.note_gap());
        boxes.keys().copied().collect()
    }

    fn clear(&self) {
        self.boxes.lock().clear();
    }
}

/// Delivers the events of a session to the inboxes, until the session ends.
pub(super) async fn sort(
    session: Weak<Session>,
    inbox: Arc<Inbox>,
    mut events: mpsc::Receiver<SessionEvent>,
) {
    while let Some(event) = events.recv().await {
        match event {
            SessionEvent::Restarted => break,
            SessionEvent::Up => {
                let clients = inbox.note_gap();
                let Some(session) = session.upgrade() else { break };
                for client in clients {
                    tokio::spawn(attach(Arc::clone(&session), Arc::clone(&inbox), client));
                }
            }
            SessionEvent::Push(WirePush::Client(client, push)) => {
                inbox.deliver(client, push.into());
            }
            SessionEvent::Push(WirePush::Beat(_) | WirePush::Worker(_)) => {}
            SessionEvent::Down(reason) => tracing::debug!(reason, "the dispatcher's connection was lost"),
        }
    }
    inbox.clear();
}

/// Asks the dispatcher for a client's snapshot (C4.1).
pub(super) async fn attach(session: Arc<Session>, inbox: Arc<Inbox>, client: ClientId) {
    let deadline = session.config().request_deadline;
    match session.call(WireRequest::Attach { client }, deadline).await {
        Ok(WireReply::Done) => {}
        Ok(_) => tracing::error!(%client, "received an unexpected answer to a request for a snapshot"),
        Err(error) if error.code == Code::NotFound => {
            inbox.deliver(client, ClientPush::Lapsed);
        }
        // The client receives the same error from its own next request.
        Err(_) => inbox.close(client),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::Snapshot;
    use crate::id::TaskId;

    /// Tests the order of pushes after a reconnection (C4.1).
    #[test]
    fn a_gap_ends_with_a_snapshot() {
        let (client, inbox) = (ClientId(7), Inbox::default());
        let mut pushes = inbox.open(client);
        let snapshot = ClientPush::Snapshot(Snapshot::default());
        let ended = ClientPush::TaskEnded { task: TaskId(3) };
        for _ in 0..2 {
            for push in [&ended, &snapshot, &ended] {
                assert!(inbox.deliver(client, push.clone()));
            }
            assert_eq!(pushes.try_recv(), Ok(snapshot.clone()));
            assert_eq!(pushes.try_recv(), Ok(ended.clone()));
            assert!(pushes.try_recv().is_err());
            assert_eq!(inbox.note_gap(), [client]);
        }
    }
}
