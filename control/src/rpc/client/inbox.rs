//! The inboxes of a process' clients, and the fate of a client that does not empty its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::dispatcher::ClientPush;
use crate::error::Code;
use crate::id::ClientId;
use crate::rpc::session::{Session, SessionEvent};
use crate::rpc::wire::{WirePush, WireReply, WireRequest};

/// Pushes that wait for one client. A client that falls behind loses them and is shown a snapshot instead.
const WAITING_MAX: usize = 1024;

/// The clients of one process, by id.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    boxes: Mutex<BTreeMap<ClientId, mpsc::Sender<ClientPush>>>,
}

impl Inbox {
    /// A client's pushes from now on. Those of before, if any, end.
    pub(super) fn open(&self, client: ClientId) -> mpsc::Receiver<ClientPush> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        self.boxes.lock().insert(client, sender);
        receiver
    }

    pub(super) fn close(&self, client: ClientId) {
        self.boxes.lock().remove(&client);
    }

    /// False if there is no box for it, or no longer.
    pub(super) fn deliver(&self, client: ClientId, push: ClientPush) -> bool {
        let mut boxes = self.boxes.lock();
        let Some(sender) = boxes.get(&client) else {
            return false;
        };
        let is_delivered = sender.try_send(push).is_ok();
        if !is_delivered {
            // Its end tells the client to ask for a snapshot.
            boxes.remove(&client);
        }
        is_delivered
    }

    fn clients(&self) -> Vec<ClientId> {
        self.boxes.lock().keys().copied().collect()
    }

    fn clear(&self) {
        self.boxes.lock().clear();
    }
}

/// Sorts what a session hears, until the session ends.
pub(super) async fn sort(
    session: Weak<Session>,
    inbox: Arc<Inbox>,
    mut events: mpsc::Receiver<SessionEvent>,
) {
    while let Some(event) = events.recv().await {
        match event {
            SessionEvent::Restarted => break,
            SessionEvent::Up => {
                let Some(session) = session.upgrade() else { break };
                for client in inbox.clients() {
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

/// Asks for a client's snapshot (C4.1).
pub(super) async fn attach(session: Arc<Session>, inbox: Arc<Inbox>, client: ClientId) {
    let deadline = session.config().request_deadline;
    match session.call(WireRequest::Attach { client }, deadline).await {
        Ok(WireReply::Done) => {}
        Ok(_) => tracing::error!(%client, "an unexpected answer to a request for a snapshot"),
        Err(error) if error.code == Code::NotFound => {
            inbox.deliver(client, ClientPush::Lapsed);
        }
        // The client meets the same error when it asks itself.
        Err(_) => inbox.close(client),
    }
}
