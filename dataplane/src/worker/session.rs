//! One link, served: messages in, elements out, until it ends.
//!
//! Joins the pure halves of the link's subscriptions with its transport and its clock. Stepped once a pack, never once an
//! element.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use tokio::time::Sleep;

use super::buffer::Take;
use super::clock;
use super::server::Inner;
use super::task::{Attached, Subscription, Task};
use super::travel::Travel;
use crate::proto::message::{Accepted, Grant, Hello, Refused, Subscribe, TaskId, ToClient, ToWorker};
use crate::proto::send::{Next, Shortage, TaskPack};
use crate::transport::{Downstream, LinkLost, OutPack, WorkerLink};

/// Steps of a session between two reports on its link.
const STEPS_PER_REPORT: u64 = 64;

/// Frames that wait for room on the link before the session stops listening: each thing that a client asks for is
/// answered, and who does not read its answers asks no more.
const OUTBOX_MAX: usize = 256;

/// Rings a session: something of its tasks is ready.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    waker: AtomicWaker,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.waker.wake();
    }
}

/// How a session ended.
#[derive(Debug, Clone)]
pub struct SessionEnd {
    /// Why the link is no more.
    pub lost: LinkLost,
}

struct Session {
    number: u64,
    server: Arc<Inner>,
    link: Box<WorkerLink>,
    is_greeted: bool,
    subscribed: BTreeMap<TaskId, Attached>,
    /// Where the next round begins, so that no task is always served last.
    turn: usize,
    outbox: VecDeque<Downstream<OutPack>>,
    bell: Arc<Bell>,
    travel: Travel,
    /// Of what the link and the pool copied, what was added to the server's count.
    copied_bytes: u64,
    steps: u64,
    timer: Pin<Box<Sleep>>,
}

pub(super) async fn serve(link: Box<WorkerLink>, server: Arc<Inner>, number: u64) -> SessionEnd {
    let bell = Arc::<Bell>::default();
    let travel = Travel::new(server.clone(), bell.clone(), link.is_network());
    let mut session = Session {
        number,
        server,
        link,
        is_greeted: false,
        subscribed: BTreeMap::new(),
        turn: 0,
        outbox: VecDeque::from([Downstream::Message(ToClient::Hello(Hello::current()))]),
        bell,
        travel,
        copied_bytes: 0,
        steps: 0,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    let lost = poll_fn(|cx| session.poll(cx)).await;
    session.link.close(&lost);
    SessionEnd { lost }
}

impl Session {
    /// Does what can be done now; ready only when the link is lost.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LinkLost> {
        // Before anything is looked at, so that a ring in between is not missed.
        self.bell.waker.register(cx.waker());
        if self.steps.is_multiple_of(STEPS_PER_REPORT) {
            let mut report = self.link.report();
            self.travel.note_round_trip(report.round_trip);
            report.bytes_copied += self.travel.compressed_bytes();
            self.server.links.lock().insert(self.number, report);
        }
        self.steps += 1;
        loop {
            let exchanged = self.exchange(cx);
            self.count_copies();
            if let Err(lost) = exchanged {
                return Poll::Ready(lost);
            }
            let Some(due) = self.poll_timeout() else {
                return Poll::Pending;
            };
            self.timer.as_mut().reset(due.into());
            std::task::ready!(self.timer.as_mut().poll(cx));
            self.handle_timeout(clock::now());
        }
    }

    /// Adds what was copied since the last time to the server's count.
    fn count_copies(&mut self) {
        let copied_bytes = self.link.bytes_copied() + self.travel.compressed_bytes();
        let fresh = copied_bytes.saturating_sub(std::mem::replace(&mut self.copied_bytes, copied_bytes));
        if fresh > 0 {
            let count = &self.server.counters.bytes_copied;
            count.fetch_add(fresh, Ordering::Relaxed);
        }
    }

    /// Receives and sends until neither gets further.
    fn exchange(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        loop {
            self.receive(cx)?;
            let was_full = self.is_outbox_full();
            self.send(cx)?;
            // Once there is room again, nobody else looks for what was not received.
            if !was_full || self.is_outbox_full() {
                return Ok(());
            }
        }
    }

    fn is_outbox_full(&self) -> bool {
        self.outbox.len() >= OUTBOX_MAX
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        while !self.is_outbox_full()
            && let Poll::Ready(message) = self.link.poll_recv(cx)
        {
            self.handle(message?, clock::now())?;
        }
        while let Some(out) = self.travel.next_compressed() {
            self.outbox.push_back(Downstream::Pack(out));
        }
        Ok(())
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        while let Poll::Ready(ready) = self.link.poll_ready(cx) {
            ready?;
            if self.outbox.is_empty() && !self.gather()? {
                break;
            }
            if let Some(frame) = self.outbox.pop_front() {
                self.link.try_send(frame)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, message: ToWorker, now: Instant) -> Result<(), LinkLost> {
        if !self.is_greeted && !matches!(message, ToWorker::Hello(_)) {
            return Err(LinkLost::Misbehaved("it spoke before it said hello".into()));
        }
        match message {
            ToWorker::Hello(hello) => {
                hello.check()?;
                self.is_greeted = true;
            }
            ToWorker::Subscribe(subscribe) => self.subscribe(&subscribe, now)?,
            ToWorker::Grant(grant) => self.grant(&grant, now)?,
            ToWorker::Cancel(cancel) => {
                if let Some(subscribed) = self.leave(cancel.task)? {
                    subscribed.task.forget(subscribed.client, self.number);
                }
            }
        }
        Ok(())
    }

    /// Has nothing to do with a task any more.
    fn leave(&mut self, task: TaskId) -> Result<Option<Attached>, LinkLost> {
        let Some(subscribed) = self.subscribed.remove(&task) else {
            return Ok(None);
        };
        subscribed.task.buffer.remove_bell(&self.bell);
        self.travel.forget(task);
        self.link.detach(task)?;
        Ok(Some(subscribed))
    }

    /// Books a grant. It may cross the end of its subscription; on a link that was superseded it counts from a beginning
    /// that is past, and has no effect (D3.4).
    fn grant(&mut self, grant: &Grant, now: Instant) -> Result<(), LinkLost> {
        let Some(subscribed) = self.subscribed.get(&grant.task) else {
            return Ok(());
        };
        let mut state = subscribed.state.lock();
        if state.session != Some(self.number) {
            return Ok(());
        }
        let acknowledged = state.half.acknowledged();
        state
            .half
            .handle_grant(grant)
            .map_err(|error| LinkLost::Misbehaved(error.to_string()))?;
        if grant.received > acknowledged {
            let buffer = &subscribed.task.buffer;
            buffer.acknowledge(subscribed.client, grant.received);
        }
        self.travel.note_grant(grant, &state.half, now);
        Ok(())
    }

    fn subscribe(&mut self, subscribe: &Subscribe, now: Instant) -> Result<(), LinkLost> {
        if self.subscribed.len() >= self.server.config.subscriptions_per_link_max {
            return Err(LinkLost::Misbehaved(
                "it subscribed to more than a link may carry".into(),
            ));
        }
        let reply = match self.server.attach(subscribe, self.number, now) {
            Ok(attached) => {
                let task = &attached.task;
                self.link.attach(task.id, &**task)?;
                if !self.link.is_network() {
                    task.buffer.note_local();
                }
                task.buffer.remove_bell(&self.bell);
                task.buffer.add_bell(self.bell.clone());
                let (spec, element_bytes) = (task.spec.clone(), task.element_bytes);
                self.travel.subscribe(task, now);
                self.subscribed.insert(subscribe.task, attached);
                ToClient::Accepted(Accepted {
                    task: subscribe.task,
                    spec,
                    element_bytes,
                })
            }
            Err(denied) => ToClient::Refused(Refused {
                task: subscribe.task,
                code: denied.code,
                message: denied.message,
            }),
        };
        self.outbox.push_back(Downstream::Message(reply));
        Ok(())
    }

    /// Fills the outbox with one round of what the tasks have. False when they have nothing.
    fn gather(&mut self) -> Result<bool, LinkLost> {
        let count = self.subscribed.len();
        let start = self.turn.checked_rem(count).unwrap_or_default();
        self.turn = self.turn.wrapping_add(1);
        let tasks: smallvec::SmallVec<[TaskId; 8]> = self
            .subscribed
            .keys()
            .skip(start)
            .chain(self.subscribed.keys().take(start))
            .copied()
            .collect();
        for task in tasks {
            if self.travel.has_room() && !self.step(task) {
                self.leave(task)?;
            }
        }
        Ok(!self.outbox.is_empty())
    }

    /// Takes what one task has next. False when its client came back on another link.
    fn step(&mut self, task: TaskId) -> bool {
        let Some(subscribed) = self.subscribed.get(&task) else {
            return true;
        };
        let (task, state, client) = (
            subscribed.task.clone(),
            subscribed.state.clone(),
            subscribed.client,
        );
        let mut state = state.lock();
        if state.session != Some(self.number) {
            return false;
        }
        state.half.handle_released(task.buffer.released());
        self.take_next(&task, client, &mut state);
        true
    }

    fn take_next(&mut self, task: &Arc<Task>, client: u64, state: &mut Subscription) {
        loop {
            match state.half.poll_next() {
                Next::Tell(message) => return self.outbox.push_back(Downstream::Message(message)),
                Next::Resend(pack) => return self.dispatch(pack),
                Next::Nothing => return,
                Next::Fresh {
                    elements,
                    element_bytes,
                } => match self.take(task, client, elements, element_bytes) {
                    Take::Elements(pack) => {
                        let out = state.half.spend(pack);
                        book_marks(task, client, state);
                        return self.dispatch(out);
                    }
                    Take::Ended(ending) => {
                        book_marks(task, client, state);
                        state.half.handle_ending(ending);
                    }
                    shortage @ (Take::Empty | Take::NoCredit { .. }) => {
                        if !book_marks(task, client, state) {
                            let now = clock::now();
                            if elements > 0 && matches!(shortage, Take::Empty) {
                                self.travel.note_starved(task.id, now);
                            }
                            let shortage = match shortage {
                                Take::NoCredit { bytes } => Shortage::NoCredit { bytes },
                                Take::Empty | Take::Elements(_) | Take::Ended(_) => Shortage::Empty,
                            };
                            let told = state.half.starve(shortage, now);
                            return self.outbox.extend(told.map(Downstream::Message));
                        }
                    }
                },
            }
        }
    }

    /// Takes from the buffer; when it is empty, asks to be rung and looks again, so that nothing is missed.
    fn take(&self, task: &Task, client: u64, elements: u64, element_bytes: u64) -> Take {
        let mut taken = task.buffer.take(client, elements, element_bytes);
        if matches!(taken, Take::Empty) {
            task.buffer.ask_to_ring();
            taken = task.buffer.take(client, elements, element_bytes);
        }
        if let Take::Elements(pack) = &taken {
            let counters = &self.server.counters;
            counters.elements.fetch_add(pack.len() as u64, Ordering::Relaxed);
            counters
                .bytes
                .fetch_add(pack.region().len() as u64, Ordering::Relaxed);
            counters.packs.fetch_add(1, Ordering::Relaxed);
            if let Some(on_taken) = &self.server.config.on_taken {
                on_taken(pack.len() as u64);
            }
        }
        taken
    }

    fn dispatch(&mut self, elements: TaskPack) {
        let out = self.travel.dispatch(elements, clock::now());
        self.outbox.extend(out.map(Downstream::Pack));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = self.subscribed.values().map(|subscribed| subscribed.state.lock());
        own.filter(|state| state.session == Some(self.number))
            .filter_map(|state| state.half.poll_timeout())
            .min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        for subscribed in self.subscribed.values() {
            let mut state = subscribed.state.lock();
            if state.session != Some(self.number) {
                continue;
            }
            let told = state.half.handle_timeout(now);
            self.outbox.extend(told.map(Downstream::Message));
        }
    }
}

/// Moves ends of splits that this client is to be told of to its half. False when there are none.
fn book_marks(task: &Task, client: u64, state: &mut Subscription) -> bool {
    let marks = task.buffer.take_marks(client, state.half.split_room());
    for mark in &marks {
        state.half.handle_split_done(mark.lease, mark.attempt);
    }
    !marks.is_empty()
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server.links.lock().remove(&self.number);
        let now = clock::now();
        for subscribed in self.subscribed.values() {
            subscribed.task.buffer.remove_bell(&self.bell);
            subscribed.state.lock().detach(self.number, now);
        }
    }
}
