//! The session of a process with the dispatcher, across connections: a model of the surrounding I/O code,
//! with the production code's request numbers.
//!
//! A live connection loses no messages. Pushes and heartbeats keep their order; requests and answers do not.
//! Messages in flight on a breaking connection may arrive or not. Each end notices the break after its own
//! delay, or because no heartbeats arrive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use millstream_control::rpc::Numbers;
use millstream_control::{
    BootId, ClientId, ClientPush, Error, Reply, Request, RequestNumber, SessionId, TaskId, WorkerPush,
};
use millstream_link::Role;

use super::center::Input;
use super::world::{Event, Pid, World};

/// The time after which an attempt to connect is abandoned.
const ATTEMPT: Duration = Duration::from_secs(1);
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_millis(800);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnId(pub(super) u64);

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Conn {
    session: SessionId,
    pid: Pid,
    role: Role,
    /// The number of the dispatcher's process at the other end.
    epoch: u64,
    is_open_there: bool,
    is_open_here: bool,
    /// The arrival time of the latest ordered message to the dispatcher, and below, to the process.
    up: Duration,
    down: Duration,
    /// Messages that wait while the process is cut off or paused, in order.
    held_up: VecDeque<Up>,
    held_down: VecDeque<Down>,
}

/// A message to the dispatcher.
#[derive(Debug)]
pub(super) enum Up {
    Hello,
    Ask(Envelope),
    Beat(u64, Vec<ClientId>),
}

/// A message to a process.
#[derive(Debug)]
pub(super) enum Down {
    Welcome(BootId),
    Beat(u64),
    Answer(u64, Box<Result<Reply, Error>>),
    Client(ClientId, Box<ClientPush>),
    Worker(WorkerPush),
}

/// A request as sent. Every repetition is identical.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) call: u64,
    pub(super) number: Option<RequestNumber>,
    pub(super) settled_below: RequestNumber,
    pub(super) request: Request,
}

/// The reason why a process sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Register,
    Describe(TaskId),
    Lease {
        task: TaskId,
        source: u32,
        repetition: u64,
    },
    Return(TaskId),
    /// Returns the splits of a stopped task, which may meanwhile start again.
    ReturnStopped,
    Finish {
        task: TaskId,
        delivered: bool,
    },
    FailTask,
    Missed {
        task: TaskId,
        client: u64,
    },
    Shared,
    LeaveWorker,
    Drain,
    Dataset,
    Job,
    Open,
    Attach(ClientId),
    Report,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Down,
    Connecting(ConnId),
    Up(ConnId),
}

/// The session of one process.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    role: Role,
    numbers: Numbers,
    standing: Standing,
    /// The boot number of the dispatcher's state that the session belongs to.
    pub(super) boot: Option<BootId>,
    calls: BTreeMap<u64, (Envelope, Purpose)>,
    next_call: u64,
    /// The time at which the last message arrived.
    spoken_at: Duration,
    /// The time at which the latest answered heartbeat was sent.
    pub(super) heard: Option<Duration>,
    beats: BTreeMap<u64, Duration>,
    sequence: u64,
    backoff: Duration,
    pub(super) clients: BTreeSet<ClientId>,
}

impl Session {
    fn new(id: SessionId, role: Role) -> Session {
        Session {
            id,
            role,
            numbers: Numbers::default(),
            standing: Standing::Down,
            boot: None,
            calls: BTreeMap::new(),
            next_call: 0,
            spoken_at: Duration::ZERO,
            heard: None,
            beats: BTreeMap::new(),
            sequence: 0,
            backoff: BACKOFF_MIN,
            clients: BTreeSet::new(),
        }
    }
}

impl World {
    /// Opens a session with a random number, which then connects by itself.
    pub(super) fn open_session(&mut self, pid: Pid, role: Role) -> Session {
        let session = Session::new(SessionId(self.chance.draw()), role);
        self.at(self.now, Event::Connect(pid, session.id));
        session
    }

    /// Returns the session of a process, if its number is `id`.
    pub(super) fn session(&mut self, pid: Pid, id: SessionId) -> Option<&mut Session> {
        let of_worker = self
            .workers
            .get_mut(&pid)
            .and_then(|worker| worker.session.as_mut());
        let of_trainer = self
            .trainers
            .get_mut(&pid)
            .and_then(|trainer| trainer.session.as_mut());
        of_worker.or(of_trainer).filter(|session| session.id == id)
    }

    fn own(&mut self, pid: Pid) -> Option<&mut Session> {
        let of_worker = self
            .workers
            .get_mut(&pid)
            .and_then(|worker| worker.session.as_mut());
        of_worker.or_else(|| {
            let trainer = self.trainers.get_mut(&pid)?;
            trainer.session.as_mut()
        })
    }

    /// Sends a request, and repeats it until an answer arrives (C1.5).
    pub(super) fn call(&mut self, pid: Pid, purpose: Purpose, request: Request) {
        let Some(session) = self.own(pid) else {
            return;
        };
        let number = request
            .is_numbered()
            .then(|| session.numbers.open_next().expect("few requests are open"));
        let envelope = Envelope {
            call: session.next_call,
            number,
            settled_below: session.numbers.settled_below(),
            request,
        };
        session.next_call += 1;
        session.calls.insert(envelope.call, (envelope.clone(), purpose));
        if let Standing::Up(conn) = session.standing {
            self.send_up(conn, Up::Ask(envelope));
        }
    }

    pub(super) fn connect(&mut self, pid: Pid, id: SessionId) {
        let is_up = self.center.machine.is_some();
        let (conn, epoch, now) = (ConnId(self.next_conn), self.center.epoch, self.now);
        let Some(session) = self.session(pid, id) else {
            return;
        };
        if session.standing != Standing::Down {
            return;
        }
        if !is_up {
            return self.reconnect_later(pid, id);
        }
        session.standing = Standing::Connecting(conn);
        let role = session.role;
        self.next_conn += 1;
        let conn_row = Conn {
            session: id,
            pid,
            role,
            epoch,
            is_open_there: true,
            is_open_here: true,
            up: now,
            down: now,
            held_up: VecDeque::new(),
            held_down: VecDeque::new(),
        };
        self.conns.insert(conn, conn_row);
        self.send_up(conn, Up::Hello);
        self.at(now + ATTEMPT, Event::Overdue(conn));
    }

    fn reconnect_later(&mut self, pid: Pid, id: SessionId) {
        let now = self.now;
        if let Some(session) = self.session(pid, id) {
            session.standing = Standing::Down;
            let at = now + session.backoff;
            session.backoff = (session.backoff * 2).min(BACKOFF_MAX);
            self.at(at, Event::Connect(pid, id));
        }
    }

    /// Abandons an attempt to connect that has taken too long.
    pub(super) fn overdue(&mut self, conn: ConnId) {
        let Some(row) = self.conns.get(&conn) else {
            return;
        };
        let (pid, id) = (row.pid, row.session);
        if self
            .session(pid, id)
            .is_some_and(|session| session.standing == Standing::Connecting(conn))
        {
            self.lose_conn(conn);
        }
    }

    /// Handles a process' discovery that its connection is gone.
    pub(super) fn lose_conn(&mut self, conn: ConnId) {
        let Some(row) = self.conns.get_mut(&conn).filter(|row| row.is_open_here) else {
            return;
        };
        row.is_open_here = false;
        let (pid, id) = (row.pid, row.session);
        // The dispatcher notices later, and may still receive messages in flight until then.
        let later = self.now + self.chance.millis(1..1500);
        self.at(later, Event::LostThere(conn));
        if let Some(session) = self.session(pid, id)
            && [Standing::Up(conn), Standing::Connecting(conn)].contains(&session.standing)
        {
            self.reconnect_later(pid, id);
        }
    }

    /// Handles the dispatcher's discovery that a connection is gone.
    pub(super) fn lost_there(&mut self, conn: ConnId) {
        let epoch = self.center.epoch;
        if let Some(row) = self.conns.get_mut(&conn)
            && std::mem::replace(&mut row.is_open_there, false)
            && row.epoch == epoch
            && self.center.machine.is_some()
        {
            let session = row.session;
            self.input(Input::Disconnected { conn, session });
        }
    }

    /// Closes a connection at the dispatcher's end.
    pub(super) fn close_conn(&mut self, conn: ConnId) {
        if let Some(row) = self.conns.get_mut(&conn) {
            row.is_open_there = false;
            let at = self.now + self.chance.millis(1..100);
            self.at(at, Event::LostHere(conn));
        }
    }

    /// Breaks all connections after the dispatcher died. Some processes notice soon, the remaining ones by
    /// the silence.
    pub(super) fn lose_all_conns(&mut self) {
        let open: Vec<ConnId> = self.conns.keys().copied().collect();
        for conn in open {
            if let Some(row) = self.conns.get_mut(&conn) {
                row.is_open_there = false;
            }
            if self.chance.percent(70) {
                let at = self.now + self.chance.millis(1..400);
                self.at(at, Event::LostHere(conn));
            }
        }
    }

    /// Breaks a random connection.
    pub(super) fn break_conn(&mut self) {
        let open = self.conns.iter().filter(|(_, row)| row.is_open_here);
        let open: Vec<ConnId> = open.map(|(conn, _)| *conn).collect();
        if let Some(conn) = self.chance.pick(&open) {
            self.note(format_args!("connection {} breaks", conn.0));
            self.lose_conn(conn);
        }
    }

    /// Loses all connections of a process that has ended.
    pub(super) fn forget_conns(&mut self, pid: Pid) {
        let of_process = self.conns.iter().filter(|(_, row)| row.pid == pid);
        for conn in of_process.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.lose_conn(conn);
        }
    }

    fn send_up(&mut self, conn: ConnId, message: Up) {
        let delay = self.delay();
        let Some(row) = self.conns.get_mut(&conn) else {
            return;
        };
        let mut due = self.now + delay;
        if !matches!(message, Up::Ask(_)) {
            due = due.max(row.up);
            row.up = due;
        }
        self.at(due, Event::Arrive(conn, message));
    }

    pub(super) fn send_down(&mut self, conn: ConnId, message: Down) {
        let delay = self.delay();
        let Some(row) = self.conns.get_mut(&conn).filter(|row| row.is_open_there) else {
            return;
        };
        let mut due = self.now + delay;
        if !matches!(message, Down::Answer(..)) {
            due = due.max(row.down);
            row.down = due;
        }
        self.at(due, Event::Hear(conn, message));
    }

    /// Queues a message that has crossed the network after the messages that already wait.
    pub(super) fn cross_up(&mut self, conn: ConnId, message: Up) {
        if let Some(row) = self.conns.get_mut(&conn) {
            row.held_up.push_back(message);
            self.release(conn);
        }
    }

    pub(super) fn cross_down(&mut self, conn: ConnId, message: Down) {
        if let Some(row) = self.conns.get_mut(&conn) {
            row.held_down.push_back(message);
            self.release(conn);
        }
    }

    /// Delivers the waiting messages if the process is neither cut off nor paused.
    pub(super) fn release(&mut self, conn: ConnId) {
        let Some(pid) = self.conns.get(&conn).map(|row| row.pid) else {
            return;
        };
        if let Some(until) = self.cut_until(pid) {
            return self.at(until, Event::Release(conn));
        }
        while let Some(message) = self.conns.get_mut(&conn).and_then(|row| row.held_up.pop_front()) {
            self.arrive(conn, message);
        }
        if let Some(until) = self.asleep_until(pid) {
            return self.at(until, Event::Release(conn));
        }
        while let Some(message) = self
            .conns
            .get_mut(&conn)
            .and_then(|row| row.held_down.pop_front())
        {
            self.hear(conn, message);
        }
    }

    /// Handles a message that arrives at the dispatcher.
    fn arrive(&mut self, conn: ConnId, message: Up) {
        let (epoch, is_up) = (self.center.epoch, self.center.machine.is_some());
        let Some(row) = self.conns.get_mut(&conn) else {
            return;
        };
        if !row.is_open_there || row.epoch != epoch || !is_up {
            return;
        }
        let (session, role) = (row.session, row.role);
        self.input(match message {
            Up::Hello => Input::Connected { conn, session },
            Up::Ask(envelope) => Input::Asked {
                conn,
                session,
                role,
                envelope,
            },
            Up::Beat(sequence, clients) => Input::Beat {
                conn,
                session,
                worker: role == Role::Worker,
                clients,
                sequence,
            },
        });
    }

    /// Handles a message that arrives at a process.
    fn hear(&mut self, conn: ConnId, message: Down) {
        let Some(row) = self.conns.get(&conn) else {
            return;
        };
        let (pid, id) = (row.pid, row.session);
        if !row.is_open_here {
            return;
        }
        let now = self.now;
        let Some(session) = self.session(pid, id) else {
            return;
        };
        session.spoken_at = now;
        match message {
            Down::Welcome(boot) => self.welcomed(pid, id, conn, boot),
            Down::Beat(sequence) => {
                if let Some(sent) = session.beats.remove(&sequence) {
                    session.heard = session.heard.max(Some(sent));
                }
                session.beats = session.beats.split_off(&sequence);
            }
            Down::Answer(call, result) => {
                let Some((envelope, purpose)) = session.calls.remove(&call) else {
                    return;
                };
                if let Some(number) = envelope.number {
                    session.numbers.settle(number);
                }
                self.answered(pid, purpose, *result);
            }
            Down::Client(client, push) => self.pushed(pid, client, *push),
            Down::Worker(push) => self.obey(pid, push),
        }
    }

    fn answered(&mut self, pid: Pid, purpose: Purpose, result: Result<Reply, Error>) {
        if self.workers.contains_key(&pid) {
            self.worker_answered(pid, purpose, result);
        } else {
            self.trainer_answered(pid, purpose, result);
        }
    }

    fn welcomed(&mut self, pid: Pid, id: SessionId, conn: ConnId, boot: BootId) {
        let now = self.now;
        let every = self.center.config.heartbeat_interval;
        let Some(session) = self.session(pid, id) else {
            return;
        };
        if session.standing != Standing::Connecting(conn) {
            return;
        }
        if session.boot.is_some_and(|known| known != boot) {
            // C1.8: requests that wait must not be sent to a dispatcher with another boot number.
            return self.forgotten(pid);
        }
        session.boot = Some(boot);
        session.standing = Standing::Up(conn);
        session.heard = Some(now);
        session.backoff = BACKOFF_MIN;
        session.beats.clear();
        let open: Vec<Envelope> = session.calls.values().map(|(call, _)| call.clone()).collect();
        for envelope in open {
            self.send_up(conn, Up::Ask(envelope));
        }
        self.at(now + every, Event::Beat(conn));
        if self.workers.contains_key(&pid) {
            self.worker_is_up(pid);
        } else {
            self.trainer_is_up(pid);
        }
    }

    fn forgotten(&mut self, pid: Pid) {
        let why = "the dispatcher has forgotten everything";
        if self.workers.contains_key(&pid) {
            self.end_incarnation(pid, why);
        } else {
            self.fail_trainer(pid, why);
        }
    }

    /// Sends a heartbeat, unless the connection is gone or has fallen silent.
    pub(super) fn beat(&mut self, conn: ConnId) {
        let Some(row) = self.conns.get(&conn).filter(|row| row.is_open_here) else {
            return;
        };
        let (pid, id, now) = (row.pid, row.session, self.now);
        if let Some(until) = self.asleep_until(pid) {
            return self.at(until, Event::Beat(conn));
        }
        let (every, liveness) = (self.center.config.heartbeat_interval, self.center.config.liveness);
        let Some(session) = self.session(pid, id) else {
            return;
        };
        if session.standing != Standing::Up(conn) {
            return;
        }
        if now - session.spoken_at > liveness {
            return self.lose_conn(conn);
        }
        session.sequence += 1;
        let sequence = session.sequence;
        session.beats.insert(sequence, now);
        let clients = session.clients.iter().copied().collect();
        self.send_up(conn, Up::Beat(sequence, clients));
        self.at(now + every, Event::Beat(conn));
    }
}
