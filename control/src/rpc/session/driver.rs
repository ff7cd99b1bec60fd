//! The driver of a session: connects, sends heartbeats, receives pushes, and reconnects.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use quinn::{Connection, RecvStream, SendStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::attempt::{Ended, Found, attempt, note_close, shut_down};
use super::search::Search;
use super::state::{LinkState, SessionEvent, SessionShared};
use crate::error::Error;
use crate::id::{BootId, ClientId};
use crate::rpc::frame::{self, FrameError, PUSH_BYTES_MAX};
use crate::rpc::wire::{Beat, CLOSE_GOODBYE, Welcome, WirePush};

/// Maximum number of clients that one heartbeat names. At 9 bytes each they leave space for other data in
/// its 64 KiB.
pub(super) const BEAT_CLIENTS_MAX: usize = 4096;

/// The number of liveness limits after which a connection with a silent dispatcher counts as lost.
const SILENCES: u32 = 3;

/// The silence after which a process looks for another leader: this time, and the number of heartbeats.
const SILENCE_OF_LEADER: Duration = Duration::from_secs(2);
const BEATS_MISSED: u32 = 4;

/// Maximum number of heartbeats without an answer. An overloaded dispatcher is not sent more heartbeats
/// than it answers.
const UNANSWERED_MAX: usize = 2;

/// Keeps the session connected until the session fails for good or is dropped.
pub(super) async fn drive(shared: Arc<SessionShared>, events: mpsc::Sender<SessionEvent>) {
    let mut pause = shared.config.backoff_min;
    let mut noticed: Option<Instant> = None;
    let mut lost: Option<Instant> = None;
    let mut known: Option<BootId> = None;
    let mut finder = Finder::new(&shared);
    loop {
        shared.tries.lock().begin(Instant::now());
        let ended = match finder.next(&shared).await {
            Ok((connection, welcome, streams)) => {
                finder.finish().await;
                if known
                    .replace(welcome.boot)
                    .is_some_and(|known| known != welcome.boot)
                {
                    return fail_restarted(&shared, &events, &connection).await;
                }
                pause = shared.config.backoff_min;
                (noticed, lost) = (None, None);
                shared.tries.lock().succeed();
                note_welcome(&shared, &welcome);
                shared
                    .state
                    .send_modify(|state| up(state, &connection, welcome.boot));
                if events.send(SessionEvent::Up).await.is_err() {
                    return;
                }
                let reason = stay(&shared, &events, &connection, &welcome, streams).await;
                if events.send(SessionEvent::Down(reason.clone())).await.is_err() {
                    return;
                }
                match shut_down(&shared) {
                    Some(error) => Err(error),
                    None => Ok(reason),
                }
            }
            Err(Ended::Retry(reason)) => {
                // Only failed attempts are reported: a lost connection needs no message if the next attempt
                // succeeds.
                notice(&shared, &mut noticed, &reason);
                let lost = *lost.get_or_insert_with(Instant::now);
                if lost.elapsed() < shared.config.give_up {
                    Ok(reason)
                } else {
                    Err(given_up(&shared, &reason))
                }
            }
            Err(Ended::GiveUp(error)) => Err(error),
        };
        match ended {
            Ok(reason) => {
                if !wait_again(&shared, reason) {
                    return;
                }
            }
            Err(error) => {
                shared.state.send_replace(LinkState::Failed(error));
                return;
            }
        }
        tokio::time::sleep(pause).await;
        if !shared.address.are_several() {
            pause = (pause * 2).min(shared.config.backoff_max);
        }
    }
}

/// Notes the reason for which the session has no connection. Returns false if the session has failed.
fn wait_again(shared: &SessionShared, reason: String) -> bool {
    shared.state.send_if_modified(|state| match state {
        LinkState::Failed(_) => false,
        LinkState::Up(..) | LinkState::Waiting(_) => {
            *state = LinkState::Waiting(Some(reason));
            true
        }
    })
}

/// The attempts to find the dispatcher.
enum Finder {
    /// One address is tried again and again.
    One(JoinSet<Result<Connection, Ended>>),
    /// One of several addresses leads. `None` while no search runs.
    Several(Option<Search>),
}

impl Finder {
    fn new(shared: &SessionShared) -> Finder {
        if shared.address.are_several() {
            Finder::Several(None)
        } else {
            Finder::One(JoinSet::new())
        }
    }

    async fn next(&mut self, shared: &Arc<SessionShared>) -> Result<Found, Ended> {
        match self {
            Finder::One(attempts) => attempt(shared, attempts).await,
            Finder::Several(search) => {
                let search = search.get_or_insert_with(|| Search::start(shared));
                search.next(shared).await
            }
        }
    }

    /// Ends the attempts that are still in progress.
    async fn finish(&mut self) {
        match self {
            Finder::One(attempts) => attempts.shutdown().await,
            Finder::Several(search) => *search = None,
        }
    }
}

/// Notes the settings in the dispatcher's welcome, and the time of the welcome.
fn note_welcome(shared: &SessionShared, welcome: &Welcome) {
    *shared.heard.lock() = Some(Instant::now());
    shared.confirmed.lock().get_or_insert_with(Instant::now);
    *shared.client_timeout.lock() = welcome.client_timeout_ms.map(Duration::from_millis);
    *shared.liveness.lock() = liveness(welcome);
    *shared.deployment_mode.lock() = welcome.deployment_mode;
}

/// Fails the session because the dispatcher's state has started another life (C1.8). The connection is used
/// for no request: waiting requests contain ids of the earlier life.
async fn fail_restarted(
    shared: &SessionShared,
    events: &mpsc::Sender<SessionEvent>,
    connection: &Connection,
) {
    connection.close(0_u32.into(), b"another dispatcher is known here");
    let error = Error::aborted(
        "the dispatcher restarted without its memory: the jobs and iterations of this process are gone, so \
         start them again (a dispatcher with a work directory, --work-dir, keeps its memory)",
    );
    shared.state.send_replace(LinkState::Failed(error));
    // The send fails when the session's owner is gone.
    events.send(SessionEvent::Restarted).await.ok();
}

fn given_up(shared: &SessionShared, reason: &str) -> Error {
    let (address, seconds) = (&shared.address, shared.config.give_up.as_secs_f64());
    Error::unavailable(format!(
        "the dispatcher at {address} has been out of reach for {seconds} s, and this process stops looking \
        for it: {reason}"
    ))
}

fn up(state: &mut LinkState, connection: &Connection, boot: BootId) {
    match state {
        LinkState::Failed(_) => connection.close(CLOSE_GOODBYE.into(), b"the process has given up"),
        LinkState::Up(..) | LinkState::Waiting(_) => *state = LinkState::Up(connection.clone(), boot),
    }
}

fn notice(shared: &SessionShared, noticed: &mut Option<Instant>, reason: &str) {
    if noticed.is_some_and(|noticed| noticed.elapsed() < shared.config.notice_interval) {
        return;
    }
    let now = Instant::now();
    let address = shared.address.to_string();
    let Some(text) = shared.tries.lock().waiting(now, &address, reason) else {
        return;
    };
    *noticed = Some(now);
    match &shared.config.on_waiting {
        Some(on_waiting) => on_waiting(&text),
        None => tracing::warn!("{text}"),
    }
}

fn liveness(welcome: &Welcome) -> Duration {
    Duration::from_millis(welcome.liveness_ms.max(1))
}

/// Serves one connection until the connection is lost, and returns the reason.
async fn stay(
    shared: &SessionShared,
    events: &mpsc::Sender<SessionEvent>,
    connection: &Connection,
    welcome: &Welcome,
    (send, recv): (SendStream, RecvStream),
) -> String {
    let patience = patience(shared, welcome);
    let sent = parking_lot::Mutex::new(VecDeque::new());
    let ended = tokio::select! {
        ended = speak(shared, send, welcome, &sent) => ended,
        ended = listen(shared, recv, events, patience, &sent) => ended,
    };
    note_close(shared, connection);
    let reason = match (ended, connection.close_reason()) {
        (_, Some(reason)) => reason.to_string(),
        (Err(error), None) => error.to_string(),
        (Ok(()), None) => "the owner of the session is gone".to_owned(),
    };
    connection.close(0_u32.into(), b"reconnecting");
    reason
}

/// Returns the silence after which a connection counts as lost. The limit is generous, because new
/// handshakes with all processes would overload a slow dispatcher for even longer. With several
/// dispatchers, a silent one may have been replaced.
fn patience(shared: &SessionShared, welcome: &Welcome) -> Duration {
    let patience = liveness(welcome) * SILENCES;
    if !shared.address.are_several() {
        return patience;
    }
    let beats = Duration::from_millis(welcome.heartbeat_ms) * BEATS_MISSED;
    patience.min(beats.max(SILENCE_OF_LEADER))
}

type Sent = parking_lot::Mutex<VecDeque<(u64, Instant)>>;

async fn speak(
    shared: &SessionShared,
    mut send: SendStream,
    welcome: &Welcome,
    sent: &Sent,
) -> Result<(), FrameError> {
    let every = Duration::from_millis(welcome.heartbeat_ms.max(1));
    // The hello was the first heartbeat.
    let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    for sequence in 0.. {
        loop {
            ticks.tick().await;
            if sent.lock().len() < UNANSWERED_MAX {
                break;
            }
        }
        let clients = next_clients(&shared.clients.lock(), last);
        last = clients.last().copied();
        sent.lock().push_back((sequence, Instant::now()));
        let measures = shared.paces.lock().take();
        let beat = Beat::new(sequence, clients, measures);
        frame::write(&mut send, &beat).await?;
    }
    Ok(())
}

/// Returns the clients that the next heartbeat names. If one heartbeat cannot name all clients, they take
/// turns.
fn next_clients(clients: &BTreeSet<ClientId>, last: Option<ClientId>) -> Vec<ClientId> {
    let after = last.map_or(Bound::Unbounded, Bound::Excluded);
    let rest = clients.range((after, Bound::Unbounded));
    let again = last.into_iter().flat_map(|last| clients.range(..=last));
    rest.chain(again).take(BEAT_CLIENTS_MAX).copied().collect()
}

async fn listen(
    shared: &SessionShared,
    mut recv: RecvStream,
    events: &mpsc::Sender<SessionEvent>,
    patience: Duration,
    sent: &Sent,
) -> Result<(), FrameError> {
    loop {
        // The dispatcher answers heartbeats, so silence means that the dispatcher or its network is gone.
        let read = tokio::time::timeout(patience, frame::read(&mut recv, PUSH_BYTES_MAX)).await;
        let silent = || {
            FrameError::Lost(format!(
                "the dispatcher was silent for {} ms",
                patience.as_millis()
            ))
        };
        match read.map_err(|_| silent())?? {
            WirePush::Beat(sequence) => {
                let mut sent = sent.lock();
                while let Some((oldest, at)) = sent.front().copied()
                    && oldest <= sequence
                {
                    sent.pop_front();
                    if oldest == sequence {
                        *shared.heard.lock() = Some(at);
                        *shared.confirmed.lock() = Some(at);
                    }
                }
            }
            push @ (WirePush::Client(..) | WirePush::Worker(_)) => {
                if let Some(by) = push.shut_down_by() {
                    shared.shut_down_by.lock().get_or_insert_with(|| by.to_owned());
                }
                if events.send(SessionEvent::Push(push)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that heartbeats name every client (C4.3).
    #[test]
    fn heartbeats_mention_every_client_in_turn() {
        let most = BEAT_CLIENTS_MAX as u64;
        for count in [0, 1, most, most + 1, 2 * most + 7] {
            let clients: BTreeSet<ClientId> = (0..count).map(ClientId).collect();
            let mut mentioned = BTreeSet::new();
            let mut last = None;
            for _ in 0..3 {
                let next = next_clients(&clients, last);
                assert!(next.len() <= BEAT_CLIENTS_MAX);
                last = next.last().copied();
                mentioned.extend(next);
            }
            assert_eq!(mentioned, clients);
        }
    }
}
