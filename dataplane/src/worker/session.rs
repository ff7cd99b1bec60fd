//! A session serves one link: it receives messages and sends elements until the link ends.
//!
//! The session joins the pure halves of the link's subscriptions with the link's transport and the clock. The
//! session takes a step for each pack, never for each element.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::Sleep;

use super::bell::{Back, Bell, Seat};
use super::buffer::Take;
use super::clock;
use super::groups::ending_for;
use super::server_state::ServerState;
use super::task::{Attached, Subscription, Task};
use super::travel::Travel;
use crate::proto::message::{Accepted, Grant, Hello, Refused, Subscribe, TaskId, ToClient, ToWorker};
use crate::proto::send::{Next, Shortage, TaskPack};
use crate::transport::{Downstream, LinkLost, WorkerLink};

/// The number of steps of a session between two reports about its link.
const STEPS_PER_REPORT: u64 = 64;

/// Maximum number of frames that wait for room on the link before the session stops receiving. Each request
/// is answered, so a client that does not read answers cannot make further requests.
const OUTBOX_MAX: usize = 256;

/// The longest time for which a client's message waits while producers step the session. Each step of the
/// session receives the client's messages.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The result of a session that ended.
#[derive(Debug, Clone)]
pub struct SessionEnd {
    /// The reason for the end of the link.
    pub lost: LinkLost,
}

struct Session {
    number: u64,
    server: Arc<ServerState>,
    link: Box<WorkerLink>,
    /// The first message of the client.
    greeting: Option<Hello>,
    subscribed: BTreeMap<TaskId, Attached>,
    /// The index of the subscription that is served first in the next round, so that no task is always served
    /// last.
    turn: usize,
    outbox: VecDeque<Downstream>,
    bell: Arc<Bell>,
    travel: Travel,
    /// The number of copied bytes that the server's counter already includes.
    copied_bytes: u64,
    steps: u64,
    timer: Pin<Box<Sleep>>,
    /// The time for which the timer is set.
    alarm: Option<Instant>,
    /// The waker of the task that serves the link.
    waker: Option<Waker>,
    /// The reason for the end of the link, if another thread than the session's own found it.
    lost: Option<LinkLost>,
    /// True if the last step found that each task lacks elements but not credits, so that the next event of
    /// interest is an element.
    is_hungry: bool,
    /// True if a producer stepped the session without registering for the client's next message.
    is_stepped: bool,
    /// The timer of the next check for messages. While producers step the session, its own task checks at
    /// intervals.
    look_again: Pin<Box<Sleep>>,
    is_watched: bool,
    /// True if the producer that stepped the session last may take long until its next step.
    is_producer_away: bool,
    /// The time at which the session asks again for elements that are another client's turn.
    turn_due: Option<Instant>,
}

/// The state of a served session, which its own thread and the threads of producers step.
#[derive(Default)]
struct Chair {
    session: Mutex<Option<Session>>,
}

impl Seat for Chair {
    fn step_here(&self, back: Back) -> bool {
        let Some(mut session) = self.session.try_lock() else {
            return false;
        };
        session.as_mut().is_some_and(|session| session.step_here(back))
    }
}

/// Drops the session on its own thread, by taking it from its chair.
struct Serving(Arc<Chair>);

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.0.session.lock().take());
    }
}

pub(super) async fn serve(link: Box<WorkerLink>, server: Arc<ServerState>, number: u64) -> SessionEnd {
    let bell = Arc::new(Bell::new(clock::now()));
    let travel = Travel::new(server.clone(), bell.clone(), link.is_network());
    let serving = Serving(Arc::default());
    if !link.is_network() {
        let chair: Arc<dyn Seat> = serving.0.clone();
        bell.seat(Arc::downgrade(&chair));
    }
    *serving.0.session.lock() = Some(Session {
        number,
        server,
        link,
        greeting: None,
        subscribed: BTreeMap::new(),
        turn: 0,
        outbox: VecDeque::from([Downstream::Message(ToClient::Hello(Hello::current()))]),
        bell,
        travel,
        copied_bytes: 0,
        steps: 0,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        alarm: None,
        waker: None,
        lost: None,
        is_hungry: false,
        is_stepped: false,
        look_again: Box::pin(tokio::time::sleep(Duration::ZERO)),
        is_watched: false,
        is_producer_away: false,
        turn_due: None,
    });
    let gone = || LinkLost::Closed("the worker no longer serves the link".into());
    let lost = poll_fn(|cx| match serving.0.session.lock().as_mut() {
        Some(session) => session.poll(cx),
        None => Poll::Ready(gone()),
    });
    let lost = lost.await;
    if let Some(session) = serving.0.session.lock().as_mut() {
        session.link.close(&lost);
    }
    SessionEnd { lost }
}

impl Session {
    /// Does all work that is possible now. Becomes ready only when the link is lost.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LinkLost> {
        if let Some(lost) = self.lost.take() {
            return Poll::Ready(lost);
        }
        self.bell.register(cx.waker());
        if !self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            self.waker = Some(cx.waker().clone());
        }
        if self.steps.is_multiple_of(STEPS_PER_REPORT) {
            let mut report = self.link.report();
            self.travel.note_round_trip(report.round_trip);
            report.bytes_copied += self.travel.compressed_bytes();
            self.server.links.lock().insert(self.number, report);
        }
        self.steps += 1;
        self.watch(cx);
        loop {
            if let Err(lost) = self.exchange(cx) {
                return Poll::Ready(lost);
            }
            self.alarm = self.poll_timeout();
            let Some(due) = self.alarm else {
                return Poll::Pending;
            };
            self.timer.as_mut().reset(due.into());
            std::task::ready!(self.timer.as_mut().poll(cx));
            self.alarm = None;
            self.handle_timeout(clock::now());
        }
    }

    /// Schedules a check for messages, as long as producers step the session. The present step checks in any
    /// case.
    fn watch(&mut self, cx: &mut Context<'_>) {
        if self.is_watched && self.look_again.as_mut().poll(cx).is_ready() {
            self.is_watched = false;
        }
        if !self.is_watched && std::mem::take(&mut self.is_stepped) {
            self.look_again.as_mut().reset((clock::now() + LOOK_AGAIN).into());
            self.is_watched = self.look_again.as_mut().poll(cx).is_pending();
        }
    }

    /// Does all work that is possible now on a producer's thread, which saves waking the session's own thread
    /// for each element. Wakes the session's own thread if the link is lost, or if a timer must be set.
    fn step_here(&mut self, back: Back) -> bool {
        let Some(waker) = self.waker.clone() else {
            return false;
        };
        if self.lost.is_some() {
            return true;
        }
        match self.exchange_here(&mut Context::from_waker(&waker), back) {
            Err(lost) => {
                self.lost = Some(lost);
                waker.wake();
            }
            Ok(()) => {
                let due = self.poll_timeout();
                if due.is_some_and(|due| self.alarm.is_none_or(|alarm| due < alarm)) {
                    waker.wake();
                }
            }
        }
        true
    }

    /// Adds the bytes copied since the last call to the server's counter.
    fn count_copies(&mut self) {
        let copied_bytes = self.link.bytes_copied() + self.travel.compressed_bytes();
        let fresh = copied_bytes.saturating_sub(std::mem::replace(&mut self.copied_bytes, copied_bytes));
        if fresh > 0 {
            let count = &self.server.counters.bytes_copied;
            count.fetch_add(fresh, Ordering::Relaxed);
        }
    }

    /// Receives and sends until neither can continue, and counts the copied bytes.
    fn exchange(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        let exchanged = if self.is_watched && !self.is_producer_away {
            // The producers' steps receive the client's messages. A wake-up for a message would make this
            // thread compete for a core with the producer or the client.
            self.receive_and_send(cx, |session, _| session.receive_what_came())
        } else {
            self.receive_and_send(cx, Self::receive)
        };
        self.note_step();
        exchanged
    }

    /// Exchanges messages on a producer's thread. The client's next message wakes the session's own thread,
    /// unless the producer steps again soon enough.
    fn exchange_here(&mut self, cx: &mut Context<'_>, back: Back) -> Result<(), LinkLost> {
        let mut exchanged = self.receive_and_send(cx, |session, _| session.receive_what_came());
        let is_back_in_time = back == Back::Soon || self.is_hungry;
        self.is_producer_away = !is_back_in_time;
        if exchanged.is_ok() && !is_back_in_time {
            exchanged = self.receive_and_send(cx, Self::receive);
        } else if !std::mem::replace(&mut self.is_stepped, true) && !self.is_watched {
            cx.waker().wake_by_ref();
        }
        self.note_step();
        exchanged
    }

    fn note_step(&mut self) {
        self.count_copies();
        self.bell.note_step(clock::now());
    }

    fn receive_and_send(
        &mut self,
        cx: &mut Context<'_>,
        receive: impl Fn(&mut Self, &mut Context<'_>) -> Result<(), LinkLost>,
    ) -> Result<(), LinkLost> {
        loop {
            receive(self, cx)?;
            let was_full = self.is_outbox_full();
            self.send(cx)?;
            // After the outbox has room again, nothing else would receive the messages that were left.
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

    fn receive_what_came(&mut self) -> Result<(), LinkLost> {
        while !self.is_outbox_full()
            && let Some(message) = self.link.try_recv()?
        {
            self.handle(message, clock::now())?;
        }
        Ok(())
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), LinkLost> {
        self.is_hungry = false;
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
        if self.greeting.is_none() && !matches!(message, ToWorker::Hello(_)) {
            return Err(LinkLost::Misbehaved(
                "expected a hello as the first message, found another message".into(),
            ));
        }
        match message {
            ToWorker::Hello(hello) => {
                hello.check()?;
                self.greeting = Some(hello);
            }
            ToWorker::Subscribe(subscribe) => self.subscribe(&subscribe, now)?,
            ToWorker::Grant(grant) => self.grant(&grant, now)?,
            ToWorker::Cancel(cancel) => {
                if let Some(subscribed) = self.leave(cancel.task)? {
                    let (task, client) = (&subscribed.task, subscribed.client);
                    if task.forget(client, self.number, cancel.has_all) {
                        self.server.missed.notify_one();
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the session's part in a task. Returns the subscription, if the session had one.
    fn leave(&mut self, task: TaskId) -> Result<Option<Attached>, LinkLost> {
        let Some(subscribed) = self.subscribed.remove(&task) else {
            return Ok(None);
        };
        subscribed.task.buffer.remove_bell(&self.bell);
        self.travel.forget(task);
        self.link.detach(task)?;
        Ok(Some(subscribed))
    }

    /// Records a grant. A grant that arrives after the end of its subscription has no effect. A grant on a
    /// superseded link has no effect either, because its counts refer to an earlier beginning (D3.4).
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
        let handed = grant.handed.unwrap_or(grant.received).min(grant.received);
        subscribed.task.buffer.hand_over(subscribed.client, handed);
        self.travel.note_grant(grant, &state.half, now);
        Ok(())
    }

    fn subscribe(&mut self, subscribe: &Subscribe, now: Instant) -> Result<(), LinkLost> {
        if self.subscribed.len() >= self.server.config.subscriptions_per_link_max {
            return Err(LinkLost::Misbehaved(
                "expected at most the configured number of subscriptions on a link, found more".into(),
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
                task.buffer.add_bell(attached.client, self.bell.clone());
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

    /// Fills the outbox with one round over all subscribed tasks. Returns false if no task had anything to
    /// send.
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
        self.is_hungry = !tasks.is_empty();
        for task in tasks {
            if self.travel.has_room() && !self.step(task) {
                self.leave(task)?;
            }
        }
        Ok(!self.outbox.is_empty())
    }

    /// Queues the next frame of one task. Returns false if the task's client has moved to another link.
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
        self.is_hungry &= self.take_next(&task, client, &mut state);
        true
    }

    /// Queues the next frame of one task. Returns true if the task has no element although its client has
    /// credits.
    fn take_next(&mut self, task: &Arc<Task>, client: u64, state: &mut Subscription) -> bool {
        loop {
            match state.half.poll_next() {
                Next::Tell(message) => {
                    self.outbox.push_back(Downstream::Message(message));
                    return false;
                }
                Next::Resend(pack) => {
                    self.dispatch(pack);
                    return false;
                }
                Next::Nothing => return false,
                Next::Fresh {
                    elements,
                    element_bytes,
                } => match self.take(task, client, elements, element_bytes) {
                    Take::Elements(pack) => {
                        let out = state.half.spend(pack);
                        self.book_marks(task, client, state);
                        self.dispatch(out);
                        return false;
                    }
                    Take::Ended(ending) => {
                        self.book_marks(task, client, state);
                        let accepts_end = self.greeting.as_ref().is_some_and(Hello::accepts_coordinated_end);
                        let ending = ending_for(task.buffer.mode(), ending, accepts_end);
                        state.half.handle_ending(ending, task.buffer.released());
                    }
                    shortage @ (Take::Empty | Take::NotYet(_) | Take::NoCredit { .. }) => {
                        if !self.book_marks(task, client, state) {
                            return self.starve(task, client, state, elements, &shortage);
                        }
                    }
                },
            }
        }
    }

    /// Moves the ends of splits that this client may be told to the client's half. Returns false if no end is
    /// due.
    fn book_marks(&self, task: &Task, client: u64, state: &mut Subscription) -> bool {
        let marks = task.buffer.take_marks(client, state.half.split_room());
        for mark in &marks {
            state.half.handle_split_done(mark.lease, mark.attempt);
        }
        if task.buffer.is_to_share() {
            self.server.missed.notify_one();
        }
        !marks.is_empty()
    }

    /// Records that the task has no element for a client with `elements` credits. Returns true if elements
    /// are lacking, not credits.
    fn starve(
        &mut self,
        task: &Task,
        client: u64,
        state: &mut Subscription,
        elements: u64,
        shortage: &Take,
    ) -> bool {
        let now = clock::now();
        let is_hungry = elements > 0 && matches!(shortage, Take::Empty | Take::NotYet(_));
        if is_hungry {
            self.travel.note_starved(task.id, now);
        }
        if let Take::NotYet(until) = shortage {
            self.turn_due = Some(self.turn_due.map_or(*until, |due| due.min(*until)));
        }
        let shortage = match shortage {
            Take::NoCredit { bytes } => Shortage::NoCredit { bytes: *bytes },
            Take::Empty | Take::NotYet(_) | Take::Elements(_) | Take::Ended(_) => Shortage::Empty,
        };
        if let Some(told) = state.half.starve(shortage, now) {
            task.buffer.await_credits(client);
            self.outbox.push_back(Downstream::Message(told));
        }
        is_hungry
    }

    /// Takes elements from the buffer. If none is ready, asks for a ring and tries again, so that no element
    /// is missed.
    fn take(&self, task: &Task, client: u64, elements: u64, element_bytes: u64) -> Take {
        let mut taken = task.buffer.take(client, elements, element_bytes);
        if matches!(taken, Take::Empty | Take::NotYet(_)) {
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
            .chain(self.turn_due)
            .min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.turn_due = self.turn_due.filter(|due| now < *due);
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
