//! Simulated links between trainers and workers that delay, reorder and break. The links implement the same
//! transport trait as QUIC.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::ToWorker;
use millstream_dataplane::transport::{
    Admission, ClientLink, Downstream, LinkLost, LinkReport, Transport, WorkerLink,
};
use millstream_dataplane::worker::Server;
use millstream_testkit::Chance;
use parking_lot::Mutex;

use super::bugs::Bug;
use super::clock::Alarms;
use super::world::Pid;
use crate::connector::{Connecting, Connector, NotConnected};
use crate::place::WorkerPlace;

/// Maximum number of frames in flight in one direction.
const FRAMES_MAX: usize = 16;

type Granted = Arc<Mutex<BTreeMap<Vec<u8>, u64>>>;

/// The network between all trainers and workers.
#[derive(Debug)]
pub(super) struct Roads {
    alarms: Alarms,
    bug: Option<Bug>,
    state: Mutex<RoadsState>,
}

#[derive(Debug)]
struct RoadsState {
    chance: Chance,
    /// The longest delay of a frame, in milliseconds.
    slowest: u64,
    servers: BTreeMap<String, (Pid, Server)>,
    wires: Vec<Arc<Mutex<Wire>>>,
    /// The latest grant of each subscription, by ticket, for the defect that keeps old credits.
    granted: Granted,
    /// The workers' ends of new links that no session serves yet.
    fresh: Vec<(Pid, Server, Box<WorkerLink>)>,
}

#[derive(Debug)]
struct Wire {
    chance: Chance,
    slowest: u64,
    /// The time before which no frame arrives.
    frozen_until: Duration,
    up: Pipe<ToWorker>,
    down: Pipe<Downstream>,
}

/// One direction of a link. Messages keep their order; packs do not.
#[derive(Debug)]
struct Pipe<T> {
    ordered: VecDeque<(Duration, T)>,
    loose: Vec<(Duration, T)>,
    /// The time at which the receiver notices the end of the link, and below, the time at which the sender
    /// does.
    ended: Option<(Duration, LinkLost)>,
    sender_ended: Option<(Duration, LinkLost)>,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

impl<T> Default for Pipe<T> {
    fn default() -> Self {
        Pipe {
            ordered: VecDeque::new(),
            loose: Vec::new(),
            ended: None,
            sender_ended: None,
            receiver: None,
            sender: None,
        }
    }
}

impl<T> Pipe<T> {
    fn send(&mut self, due: Duration, is_ordered: bool, frame: T) {
        if is_ordered {
            let last = self.ordered.back().map_or(Duration::ZERO, |(due, _)| *due);
            self.ordered.push_back((due.max(last), frame));
        } else {
            self.loose.push((due, frame));
        }
        if let Some(receiver) = self.receiver.take() {
            receiver.wake();
        }
    }

    fn poll_recv(&mut self, alarms: &Alarms, cx: &mut Context<'_>) -> Poll<Result<T, LinkLost>> {
        let now = alarms.now();
        let loose = (0..self.loose.len()).min_by_key(|place| self.loose[*place].0);
        let loose = loose.map(|place| (self.loose[place].0, place));
        let ordered = self.ordered.front().map(|(due, _)| *due);
        let earliest = loose.map(|(due, _)| due).into_iter().chain(ordered).min();
        if let Some(due) = earliest
            && due <= now
        {
            if let Some(sender) = self.sender.take() {
                sender.wake();
            }
            if let Some((due_loose, place)) = loose
                && due_loose == due
            {
                return Poll::Ready(Ok(self.loose.swap_remove(place).1));
            }
            if let Some((_, frame)) = self.ordered.pop_front() {
                return Poll::Ready(Ok(frame));
            }
        }
        if let Some((at, lost)) = &self.ended
            && *at <= now
        {
            return Poll::Ready(Err(lost.clone()));
        }
        self.receiver = Some(cx.waker().clone());
        let ended = self.ended.as_ref().map(|(at, _)| *at);
        if let Some(next) = earliest.into_iter().chain(ended).min() {
            alarms.set(next, cx.waker().clone());
        }
        Poll::Pending
    }

    fn poll_ready(&mut self, alarms: &Alarms, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        if let Some((at, lost)) = &self.sender_ended
            && *at <= alarms.now()
        {
            return Poll::Ready(Err(lost.clone()));
        }
        if self.ordered.len() + self.loose.len() < FRAMES_MAX {
            return Poll::Ready(Ok(()));
        }
        self.sender = Some(cx.waker().clone());
        if let Some((at, _)) = &self.sender_ended {
            alarms.set(*at, cx.waker().clone());
        }
        Poll::Pending
    }

    fn end(&mut self, receiver_at: Duration, sender_at: Duration, heard: &LinkLost) {
        self.ended.get_or_insert((receiver_at, heard.clone()));
        self.sender_ended.get_or_insert((sender_at, heard.clone()));
        for waker in [self.receiver.take(), self.sender.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn postpone(&mut self, until: Duration) {
        let ordered = self.ordered.iter_mut().map(|(due, _)| due);
        for due in ordered.chain(self.loose.iter_mut().map(|(due, _)| due)) {
            *due = (*due).max(until);
        }
    }
}

impl Wire {
    fn due(&mut self, now: Duration) -> Duration {
        let slowest = self.slowest;
        let delay = if self.chance.percent(90) {
            1..6
        } else {
            1..slowest.max(2)
        };
        (now + self.chance.millis(delay)).max(self.frozen_until)
    }

    /// Cuts the link. Each end notices the cut after its own delay.
    fn cut(&mut self, now: Duration, lost: &LinkLost) {
        let at_worker = now + self.chance.millis(0..400);
        let at_client = now + self.chance.millis(0..400);
        self.up.end(at_worker, at_client, lost);
        self.down.end(at_client, at_worker, lost);
    }
}

impl Roads {
    pub(super) fn new(alarms: Alarms, chance: Chance, slowest: u64, bug: Option<Bug>) -> Roads {
        Roads {
            alarms,
            bug,
            state: Mutex::new(RoadsState {
                chance,
                slowest,
                servers: BTreeMap::new(),
                wires: Vec::new(),
                granted: Granted::default(),
                fresh: Vec::new(),
            }),
        }
    }

    /// Registers the server at an address.
    pub(super) fn open(&self, address: &str, pid: Pid, server: Server) {
        self.state
            .lock()
            .servers
            .insert(address.to_owned(), (pid, server));
    }

    /// Removes the server of a worker's process. A later process may already serve at the same address.
    pub(super) fn close(&self, pid: Pid) {
        self.state.lock().servers.retain(|_, (of, _)| *of != pid);
    }

    /// Returns the workers' ends of new links, which the caller must serve.
    pub(super) fn take_fresh(&self) -> Vec<(Pid, Server, Box<WorkerLink>)> {
        std::mem::take(&mut self.state.lock().fresh)
    }

    /// Breaks a random link, or freezes the link for a while.
    pub(super) fn disturb(&self) {
        let now = self.alarms.now();
        let mut state = self.state.lock();
        state.wires.retain(|wire| wire.lock().up.ended.is_none());
        let count = state.wires.len();
        if count == 0 {
            return;
        }
        let place = state.chance.index(count);
        let cuts = state.chance.percent(60);
        let pause = state.chance.millis(50..3000);
        let mut wire = state.wires[place].lock();
        if cuts {
            wire.cut(now, &LinkLost::Broken("the network failed".to_owned()));
        } else {
            let until = now + pause;
            wire.frozen_until = until;
            wire.up.postpone(until);
            wire.down.postpone(until);
        }
    }

    fn link(&self, address: &str, admission: Arc<dyn Admission>) -> Result<Box<ClientLink>, String> {
        let mut state = self.state.lock();
        let Some((pid, server)) = state.servers.get(address).cloned() else {
            return Err("no worker serves at this address".to_owned());
        };
        let wire = Wire {
            chance: state.chance.fork(),
            slowest: state.slowest,
            frozen_until: Duration::ZERO,
            up: Pipe::default(),
            down: Pipe::default(),
        };
        let wire = Arc::new(Mutex::new(wire));
        let alarms = self.alarms.clone();
        state.wires.push(wire.clone());
        let worker_end = WorkerEnd {
            wire: wire.clone(),
            alarms: alarms.clone(),
        };
        let bug = self.bug;
        let granted = state.granted.clone();
        state.fresh.push((pid, server, Box::new(worker_end)));
        Ok(Box::new(ClientEnd {
            wire,
            alarms,
            admission,
            bug,
            granted,
            kept: BTreeMap::new(),
        }))
    }
}

impl Connector for Roads {
    fn connect<'a>(&'a self, worker: &'a WorkerPlace, admission: Arc<dyn Admission>) -> Connecting<'a> {
        let delay = self.state.lock().chance.millis(1..30);
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            let link = self.link(&worker.address, admission);
            link.map(Into::into).map_err(NotConnected::from)
        })
    }
}

#[derive(Debug)]
struct WorkerEnd {
    wire: Arc<Mutex<Wire>>,
    alarms: Alarms,
}

#[derive(Debug)]
struct ClientEnd {
    wire: Arc<Mutex<Wire>>,
    alarms: Alarms,
    admission: Arc<dyn Admission>,
    bug: Option<Bug>,
    granted: Granted,
    /// The ticket of each task, and the unspent credits of its earlier links.
    kept: BTreeMap<TaskId, (Vec<u8>, u64)>,
}

impl ClientEnd {
    /// Adds credits of earlier links to each grant. Used only by the defect that keeps credits after the
    /// reader has written them off (D6.3).
    fn keep_credits(&mut self, frame: &mut ToWorker) {
        match frame {
            ToWorker::Subscribe(subscribe) => {
                let limit = self.granted.lock().get(&subscribe.ticket).copied();
                let unspent = limit.unwrap_or(0).saturating_sub(subscribe.resume_from);
                self.kept
                    .insert(subscribe.task, (subscribe.ticket.clone(), unspent));
            }
            ToWorker::Grant(grant) => {
                if let Some((ticket, unspent)) = self.kept.get(&grant.task) {
                    self.granted.lock().insert(ticket.clone(), grant.limit);
                    grant.limit += unspent;
                }
            }
            ToWorker::Hello(_) | ToWorker::Cancel(_) => {}
        }
    }
}

/// Returns the error that the other end sees when one end closes.
fn heard(why: &LinkLost) -> LinkLost {
    match why {
        LinkLost::Misbehaved(reason) => LinkLost::Blamed(reason.clone()),
        LinkLost::Closed(_)
        | LinkLost::Broken(_)
        | LinkLost::Full(_)
        | LinkLost::Blamed(_)
        | LinkLost::Resource(_) => LinkLost::Closed("the other end closed the link".to_owned()),
    }
}

impl Transport for WorkerEnd {
    type Out = Downstream;
    type In = ToWorker;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.wire.lock().down.poll_ready(&self.alarms, cx)
    }

    fn try_send(&mut self, frame: Self::Out) -> Result<(), LinkLost> {
        let mut wire = self.wire.lock();
        let due = wire.due(self.alarms.now());
        let is_ordered = matches!(frame, Downstream::Message(_));
        wire.down.send(due, is_ordered, frame);
        Ok(())
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<ToWorker, LinkLost>> {
        self.wire.lock().up.poll_recv(&self.alarms, cx)
    }

    fn close(&mut self, why: &LinkLost) {
        let mut wire = self.wire.lock();
        wire.cut(self.alarms.now(), &heard(why));
    }

    fn is_network(&self) -> bool {
        true
    }

    fn report(&self) -> LinkReport {
        LinkReport::default()
    }

    fn bytes_copied(&self) -> u64 {
        0
    }
}

impl Transport for ClientEnd {
    type Out = ToWorker;
    type In = Downstream;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkLost>> {
        self.wire.lock().up.poll_ready(&self.alarms, cx)
    }

    fn try_send(&mut self, mut frame: ToWorker) -> Result<(), LinkLost> {
        if let ToWorker::Subscribe(subscribe) = &mut frame
            && self.bug == Some(Bug::ResumeForgotten)
        {
            subscribe.resume_from = 0;
        }
        if self.bug == Some(Bug::CreditsKept) {
            self.keep_credits(&mut frame);
        }
        let mut wire = self.wire.lock();
        let due = wire.due(self.alarms.now());
        wire.up.send(due, true, frame);
        Ok(())
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::In, LinkLost>> {
        let frame = std::task::ready!(self.wire.lock().down.poll_recv(&self.alarms, cx))?;
        Poll::Ready(match frame {
            Downstream::Message(message) => Ok(Downstream::Message(message)),
            Downstream::Pack(pack) => {
                let (count, bytes) = (pack.pack.len() as u64, pack.pack.region_bytes());
                self.admission.admit(pack.task, pack.first, count, bytes)?;
                Ok(Downstream::Pack(pack))
            }
        })
    }

    fn close(&mut self, why: &LinkLost) {
        let mut wire = self.wire.lock();
        wire.cut(self.alarms.now(), &heard(why));
    }

    fn is_network(&self) -> bool {
        true
    }

    fn report(&self) -> LinkReport {
        LinkReport::default()
    }

    fn bytes_copied(&self) -> u64 {
        0
    }
}

/// A dying process does not close its links, so that the other end notices the end only after a while.
impl Drop for WorkerEnd {
    fn drop(&mut self) {
        let silent = LinkLost::Broken("the worker is silent".to_owned());
        self.wire.lock().cut(self.alarms.now(), &silent);
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        let silent = LinkLost::Broken("the reader is silent".to_owned());
        self.wire.lock().cut(self.alarms.now(), &silent);
    }
}
