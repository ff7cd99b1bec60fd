//! The session of a process with the dispatcher. Requests are lost, delayed, repeated and reordered; pushes
//! arrive in order until the connection breaks.
//!
//! Knows neither the meaning of requests, nor the process that sends them.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_control::{
    ClientId, ClientPush, Error, Moment, Reply, Request, RequestNumber, SessionId, TaskId, WorkerPush,
};
use millstream_link::Role;

use super::world::{Event, Pid, World};

/// The time after which a process repeats a request without an answer.
const REPEATS_AFTER: Duration = Duration::from_millis(1200);
/// The interval of heartbeats.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(500);

/// The session of a process, which outlives its connections.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) role: Role,
    /// The number of the present connection.
    pub(super) connection: u64,
    pub(super) is_up: bool,
    /// The time until which no connection can be opened.
    pub(super) cut_until: Moment,
    /// The time at which the latest answered heartbeat was sent.
    pub(super) heard: Moment,
    calls: BTreeMap<u64, Call>,
    next_number: u64,
    pushes_at: Moment,
}

/// A request without an answer.
#[derive(Debug, Clone)]
struct Call {
    request: Request,
    purpose: Purpose,
    sent_at: Moment,
}

/// The reason for a request, by which the process finds what its answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Register,
    Describe(TaskId),
    Lease(TaskId),
    Return(TaskId),
    /// The end of a task. The flag says that every element is known to have arrived.
    Finish(TaskId, bool),
    Drain,
    Leave,
    CreateJob,
    OpenIteration,
    Report,
    /// A request whose answer changes nothing.
    Other,
}

/// A message of the dispatcher without a request.
#[derive(Debug)]
pub(super) enum Push {
    Client(ClientId, ClientPush),
    Worker(WorkerPush),
    /// The answer to a heartbeat that was sent at this time.
    Heartbeat(Moment),
    /// The dispatcher closes the connection, because it gave the worker up.
    Disconnect,
}

impl Session {
    pub(super) fn new(id: u64, role: Role, now: Moment) -> Session {
        Session {
            id: SessionId(id),
            role,
            connection: 0,
            is_up: false,
            cut_until: now,
            heard: now,
            calls: BTreeMap::new(),
            next_number: 1,
            pushes_at: now,
        }
    }

    /// Returns whether a request with this purpose waits for its answer.
    pub(super) fn awaits(&self, purpose: Purpose) -> bool {
        self.calls.values().any(|call| call.purpose == purpose)
    }

    /// Breaks the connection.
    pub(super) fn disconnect(&mut self) {
        self.is_up = false;
    }

    /// Returns the number below which the process has every answer.
    fn settled_below(&self) -> RequestNumber {
        RequestNumber(self.calls.keys().next().copied().unwrap_or(self.next_number))
    }
}

impl World {
    pub(super) fn open_session(&mut self, pid: Pid, role: Role) -> Session {
        let session = Session::new(100 + self.chance.draw() % (1 << 40), role, self.now);
        self.sessions.insert(session.id, pid);
        session
    }

    /// Sends a request, and repeats it until it is answered.
    pub(super) fn call(&mut self, pid: Pid, purpose: Purpose, request: Request) {
        let now = self.now;
        let Some(session) = self.session(pid) else {
            return;
        };
        let number = session.next_number;
        session.next_number += 1;
        let call = Call {
            request,
            purpose,
            sent_at: now,
        };
        session.calls.insert(number, call);
        self.transmit(pid, number);
    }

    fn transmit(&mut self, pid: Pid, number: u64) {
        let now = self.now;
        let Some(session) = self.session(pid).filter(|session| session.is_up) else {
            return;
        };
        let (asker, connection) = ((session.id, session.role), session.connection);
        let settled_below = session.settled_below();
        let Some(call) = session.calls.get_mut(&number) else {
            return;
        };
        call.sent_at = now;
        let request = Box::new(call.request.clone());
        let copies = match (
            self.chance.percent(self.settings.lost),
            self.chance.percent(self.settings.twice),
        ) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        for _ in 0..copies {
            let delay = self.delay();
            let event = Event::Asked {
                from: pid,
                asker,
                connection,
                number,
                settled_below,
                request: request.clone(),
            };
            self.later(delay, event);
        }
    }

    /// Sends an answer on the connection on which its request arrived.
    pub(super) fn answer(&mut self, to: Pid, connection: u64, number: u64, result: Result<Reply, Error>) {
        if self.chance.percent(self.settings.lost) {
            return;
        }
        let delay = self.delay();
        let result = Box::new(result);
        self.later(
            delay,
            Event::Answered {
                to,
                connection,
                number,
                result,
            },
        );
    }

    /// Sends a push after all earlier ones. Drops the push if the process is not connected.
    pub(super) fn push(&mut self, session: SessionId, push: Push) {
        let Some(pid) = self.sessions.get(&session).copied() else {
            return;
        };
        let delay = self.delay();
        let now = self.now;
        let Some(session) = self.session(pid).filter(|own| own.is_up && own.id == session) else {
            return;
        };
        session.pushes_at = session.pushes_at.max(now + delay);
        let (at, connection) = (session.pushes_at, session.connection);
        self.at(at, Event::Pushed(pid, connection, Box::new(push)));
    }

    pub(super) fn receive_answer(
        &mut self,
        to: Pid,
        connection: u64,
        number: u64,
        result: Result<Reply, Error>,
    ) {
        let Some(session) = self.session(to) else {
            return;
        };
        if !session.is_up || session.connection != connection {
            return;
        }
        let Some(call) = session.calls.remove(&number) else {
            return;
        };
        if self.workers.contains_key(&to) {
            self.take_worker_answer(to, call.purpose, result);
        } else {
            self.take_trainer_answer(to, call.purpose, result);
        }
    }

    pub(super) fn receive_push(&mut self, to: Pid, connection: u64, push: Push) {
        let Some(session) = self.session(to) else {
            return;
        };
        if !session.is_up || session.connection != connection {
            return;
        }
        match push {
            Push::Heartbeat(sent_at) => session.heard = session.heard.max(sent_at),
            Push::Client(client, push) => self.take_client_push(to, client, push),
            Push::Worker(push) => self.take_worker_push(to, push),
            Push::Disconnect => self.give_up_session(to),
        }
    }

    /// Lets a process send its heartbeat, repeat requests, and reconnect.
    pub(super) fn tick(&mut self, pid: Pid) {
        let (now, is_center_up) = (self.now, self.center.is_up);
        if let Some(until) = self.stalled_until(pid).filter(|until| *until > now) {
            return self.at(until, Event::Ticked(pid));
        }
        // No two connections of a world have the same number, so that no process hears an earlier session.
        let fresh = self.fresh_pid();
        let Some(session) = self.session(pid) else {
            return;
        };
        let is_new = !session.is_up && now >= session.cut_until && is_center_up;
        if is_new {
            session.connection = fresh;
            session.is_up = true;
            session.pushes_at = now;
        }
        let (is_up, connection) = (session.is_up, session.connection);
        let due = session.calls.iter();
        let due = due.filter(|(_, call)| is_new || call.sent_at + REPEATS_AFTER <= now);
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        if is_new {
            self.greet(pid);
        }
        for number in due {
            self.transmit(pid, number);
        }
        if is_up && !self.chance.percent(self.settings.lost) {
            let delay = self.delay();
            self.later(delay, Event::Heard(pid, connection, now));
        }
        self.tick_process(pid);
        self.later(HEARTBEAT, Event::Ticked(pid));
    }

    /// Lets a process do its first requests on a new connection.
    fn greet(&mut self, pid: Pid) {
        if self.workers.contains_key(&pid) {
            self.register_worker(pid);
        } else {
            self.attach_trainer(pid);
        }
    }

    fn tick_process(&mut self, pid: Pid) {
        if self.workers.contains_key(&pid) {
            self.tick_worker(pid);
        } else {
            self.tick_trainer(pid);
        }
    }
}
