//! A trainer's process: a reader with the real order of elements, its reports, and its lease.
//!
//! Knows its own splits only. The group decides where a trainer begins.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use millstream_control::{
    ClientId, ClientPush, Code, Error, ExactlyOnce, JobId, JobParameters, LeaseRange, Policy, Reply, Request,
    Seen, Snapshot, TaskId, TaskInfo, Whereabouts,
};

use super::center::{client_timeout, dataset_id};
use super::defects::SimDefect;
use super::session::{Purpose, Session};
use super::worker::Message;
use super::world::{Event, Pid, World};
use crate::exactly_once::sequence::{Numbered, Sequence};

/// A trainer's process.
#[derive(Debug)]
pub(super) struct SimTrainer {
    pub(super) session: Session,
    pub(super) generation: u64,
    pub(super) rank: u64,
    pub(super) epoch: u64,
    /// The settings of the trainer's job.
    pub(super) once: ExactlyOnce,
    pub(super) sequence: Sequence<Early>,
    pub(super) client: Option<ClientId>,
    pub(super) tasks: BTreeMap<TaskId, ReadTask>,
    /// The elements that arrived and that the reader has not read, in the order of their arrival.
    ready: VecDeque<(TaskId, u64, Numbered<u64>)>,
    /// The number of elements that wait in the sequence.
    waiting: usize,
    reports: VecDeque<Request>,
    /// Whether the dispatcher has said that the iteration is finished.
    is_finished: bool,
    pub(super) has_ended: bool,
    /// Whether another trainer has taken over. The ledger does not record what this trainer receives.
    pub(super) is_superseded: bool,
    pub(super) stalled_until: Duration,
}

/// An element that waits until it is due.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Early {
    split: u64,
    position: u64,
    value: u64,
    /// The task that counts the element as outstanding.
    kept: Option<TaskId>,
}

/// A task that a trainer reads.
#[derive(Debug)]
pub(super) struct ReadTask {
    address: String,
    /// The number of elements that arrived, and of those that the reader has read.
    delivered: u64,
    used: u64,
    seen: BTreeSet<u64>,
    done: BTreeSet<u64>,
    /// The ended leases that wait until the reader has read this number of elements.
    unconfirmed: VecDeque<(u64, u64)>,
    is_removed: bool,
    has_end: bool,
}

impl SimTrainer {
    pub(super) fn new(
        session: Session,
        (generation, rank, epoch): (u64, u64, u64),
        once: ExactlyOnce,
        sequence: Sequence<Early>,
    ) -> Self {
        SimTrainer {
            stalled_until: session.heard,
            session,
            generation,
            rank,
            epoch,
            sequence,
            once,
            client: None,
            tasks: BTreeMap::new(),
            ready: VecDeque::new(),
            waiting: 0,
            reports: VecDeque::new(),
            is_finished: false,
            has_ended: false,
            is_superseded: false,
        }
    }

    /// Reports leases whose elements the reader has read.
    fn confirm(&mut self, id: TaskId) {
        let Some((task, client)) = self.tasks.get_mut(&id).zip(self.client) else {
            return;
        };
        let due = task.unconfirmed.partition_point(|(upto, _)| *upto <= task.used);
        let leases = LeaseRange::collect(task.unconfirmed.drain(..due).map(|(_, lease)| lease));
        if !leases.is_empty() {
            self.reports.push_back(Request::SplitsDone {
                client,
                task: id,
                leases,
            });
        }
    }

    /// Reports the ended leases whose elements the reader has not read.
    fn report_waiting(&mut self, id: TaskId) {
        let Some((task, client)) = self.tasks.get_mut(&id).zip(self.client) else {
            return;
        };
        let leases = LeaseRange::collect(task.unconfirmed.iter().map(|(_, lease)| *lease));
        if !leases.is_empty() {
            self.reports.push_back(Request::SplitsWaiting(client, id, leases));
        }
    }

    /// Drops further elements of a removed task, and acknowledges the removal.
    fn remove(&mut self, id: TaskId, defect: Option<SimDefect>) {
        self.report_waiting(id);
        let Some((task, client)) = self.tasks.get_mut(&id).zip(self.client) else {
            if let Some(client) = self.client {
                self.reports.push_back(Request::Acknowledge {
                    client,
                    task: id,
                    seen: Seen::default(),
                });
            }
            return;
        };
        if task.is_removed {
            return;
        }
        task.is_removed = true;
        let partial: Vec<u64> = task.seen.difference(&task.done).copied().collect();
        let mut seen = Seen {
            partial: LeaseRange::collect(partial),
            ..Seen::default()
        };
        if defect == Some(SimDefect::PartNamedComplete) {
            seen.complete = std::mem::take(&mut seen.partial);
        }
        if defect == Some(SimDefect::ReceivedDropped) {
            self.ready.retain(|(of, ..)| *of != id);
        }
        self.reports.push_back(Request::Acknowledge {
            client,
            task: id,
            seen,
        });
    }

    fn add(&mut self, info: &TaskInfo) {
        self.tasks.entry(info.task).or_insert_with(|| ReadTask {
            address: info.worker_address.clone(),
            delivered: 0,
            used: 0,
            seen: BTreeSet::new(),
            done: BTreeSet::new(),
            unconfirmed: VecDeque::new(),
            is_removed: false,
            has_end: false,
        });
    }
}

impl World {
    pub(super) fn attach_trainer(&mut self, pid: Pid) {
        let is_skipped = self.has(SimDefect::SnapshotSkipped);
        let Some(trainer) = self.trainers.get(&pid) else {
            return;
        };
        match trainer.client {
            Some(client) if !is_skipped => self.call(pid, Purpose::Report, Request::Attach { client }),
            Some(_) => {}
            None if trainer.session.awaits(Purpose::CreateJob)
                || trainer.session.awaits(Purpose::OpenIteration) => {}
            None => {
                let parameters = JobParameters {
                    in_order: true,
                    exactly_once: Some(trainer.once.clone()),
                    ..JobParameters::new(dataset_id(), Policy::Dynamic)
                };
                let name = None;
                self.call(pid, Purpose::CreateJob, Request::CreateJob { name, parameters });
            }
        }
    }

    pub(super) fn take_trainer_answer(&mut self, pid: Pid, purpose: Purpose, result: Result<Reply, Error>) {
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        match (purpose, result) {
            (Purpose::CreateJob, Ok(Reply::Job(job))) => {
                let repetition = trainer.epoch;
                self.open_iteration(pid, job, repetition);
            }
            (Purpose::OpenIteration, Ok(Reply::Client(client, _))) => {
                trainer.client = Some(client);
                self.call(pid, Purpose::Other, Request::Attach { client });
            }
            // The dispatcher has forgotten a process that was cut off for the client timeout (C1.10).
            (
                Purpose::OpenIteration,
                Err(Error {
                    code: Code::FailedPrecondition | Code::NotFound,
                    ..
                }),
            ) => {
                self.lapse(pid);
            }
            (Purpose::CreateJob | Purpose::OpenIteration, result) => {
                panic!("a trainer cannot open its job: {result:?}")
            }
            (Purpose::Report, Ok(_)) => {}
            // The client is released, and the push that says so is lost.
            (Purpose::Report, Err(_)) => self.lapse(pid),
            _ => {}
        }
        self.report(pid);
    }

    fn open_iteration(&mut self, pid: Pid, job: JobId, repetition: u64) {
        let request = Request::OpenIteration {
            job,
            repetition,
            consumer: None,
            whereabouts: Whereabouts::default(),
        };
        self.call(pid, Purpose::OpenIteration, request);
    }

    /// Sends the next report. A report waits for the answer to the one before.
    fn report(&mut self, pid: Pid) {
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        if !trainer.session.awaits(Purpose::Report)
            && let Some(request) = trainer.reports.pop_front()
        {
            self.call(pid, Purpose::Report, request);
        }
    }

    pub(super) fn tick_trainer(&mut self, pid: Pid) {
        self.subscribe_all(pid);
        self.report(pid);
    }

    /// Connects a trainer with the workers of its tasks. Reports workers that are out of reach.
    fn subscribe_all(&mut self, pid: Pid) {
        let Some(trainer) = self.trainers.get(&pid) else {
            return;
        };
        let Some(client) = trainer.client else {
            return;
        };
        let wanted = trainer
            .tasks
            .iter()
            .filter(|(_, task)| !task.is_removed && !task.has_end);
        let wanted: Vec<(TaskId, String)> = wanted.map(|(id, task)| (*id, task.address.clone())).collect();
        for (task, address) in wanted {
            if !self.subscribe(pid, client, task, &address) && self.chance.percent(20) {
                self.call(pid, Purpose::Other, Request::SuspectWorker { client, address });
            }
        }
    }

    pub(super) fn take_client_push(&mut self, pid: Pid, client: ClientId, push: ClientPush) {
        let defect = self.defect;
        let Some(trainer) = self
            .trainers
            .get_mut(&pid)
            .filter(|trainer| trainer.client == Some(client))
        else {
            return;
        };
        match push {
            ClientPush::Snapshot(snapshot) => self.take_snapshot(pid, &snapshot),
            ClientPush::TaskAdded(task) => trainer.add(&task),
            ClientPush::TaskRemoved(removed) => {
                self.tally.removals += 1;
                trainer.remove(removed.task, defect);
            }
            ClientPush::IterationFinished { splits_lost } => {
                assert_eq!(splits_lost, 0, "the dispatcher reports lost splits");
                trainer.is_finished = true;
            }
            ClientPush::Lapsed => self.lapse(pid),
            ClientPush::TaskEnded { task } => {
                if let Some(task) = trainer.tasks.get_mut(&task) {
                    task.has_end = true;
                }
            }
            ClientPush::TaskFailed { message, .. } => panic!("a task failed: {message}"),
            ClientPush::SplitsLost { splits, .. } => panic!("splits are lost: {splits:?}"),
            ClientPush::TaskScheduled { .. }
            | ClientPush::TaskConcluded(_)
            | ClientPush::ConsumersLost { .. }
            | ClientPush::WorkersLost { .. }
            | ClientPush::ShutDown { .. } => {}
        }
        self.subscribe_all(pid);
        self.report(pid);
    }

    fn take_snapshot(&mut self, pid: Pid, snapshot: &Snapshot) {
        let defect = self.defect;
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        assert_eq!(snapshot.splits_lost, 0, "the snapshot reports lost splits");
        trainer.is_finished |= snapshot.finished;
        snapshot.tasks.iter().for_each(|task| trainer.add(task));
        let is_known = |id: &TaskId| snapshot.tasks.iter().any(|task| task.task == *id);
        for (id, task) in &mut trainer.tasks {
            let is_removed = snapshot.removed.iter().any(|removed| removed.task == *id);
            task.has_end |= !is_known(id) && !is_removed;
        }
        for removed in &snapshot.removed {
            trainer.remove(removed.task, defect);
        }
    }

    /// Takes a message of a task.
    pub(super) fn receive(&mut self, pid: Pid, id: TaskId, message: Message) {
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        let Some(task) = trainer
            .tasks
            .get_mut(&id)
            .filter(|task| !task.is_removed && !task.has_end)
        else {
            return;
        };
        match message {
            Message::Element(lease, numbered) => {
                task.delivered += 1;
                task.seen.insert(lease);
                trainer.ready.push_back((id, lease, numbered));
            }
            Message::SplitDone(lease) => {
                task.done.insert(lease);
                task.unconfirmed.push_back((task.delivered, lease));
                trainer.confirm(id);
            }
            Message::End => {
                task.has_end = true;
                trainer.report_waiting(id);
                let client = trainer.client.expect("a reader has a client");
                trainer
                    .reports
                    .push_back(Request::TaskDrained { client, task: id });
            }
        }
        self.report(pid);
    }

    /// Lets a trainer take the element that is due, or read what arrived.
    pub(super) fn step_trainer(&mut self, pid: Pid) {
        let now = self.now;
        let is_fence_kept = !self.has(SimDefect::FenceIgnored);
        let Some(trainer) = self.trainers.get_mut(&pid).filter(|trainer| !trainer.has_ended) else {
            return;
        };
        if trainer.stalled_until > now {
            let until = trainer.stalled_until;
            return self.at(until, Event::Stepped(pid));
        }
        let is_confirmed = now <= trainer.session.heard + client_timeout() * 19 / 20;
        if trainer.client.is_some() && (is_confirmed || !is_fence_kept) {
            self.read_until_due(pid);
            self.hand_out(pid);
            self.end_trainer(pid);
        }
        self.report(pid);
        let delay = self.chance.millis(1..self.settings.step_ms + 2);
        self.later(delay, Event::Stepped(pid));
    }

    /// Reads elements that arrived, until one of them is due.
    fn read_until_due(&mut self, pid: Pid) {
        let (defect, window) = (self.defect, self.settings.window);
        while let Some(trainer) = self.trainers.get_mut(&pid) {
            if trainer.sequence.has_next() {
                return;
            }
            let Some((id, _, numbered)) = trainer.ready.pop_front() else {
                return;
            };
            let is_due = trainer.sequence.is_due(numbered.split);
            let kept = (!is_due && trainer.waiting >= window).then_some(id);
            let early = Early {
                split: numbered.split,
                position: numbered.position,
                value: numbered.element,
                kept,
            };
            let before = trainer.sequence.repeated();
            let accepted = trainer.sequence.accept(Numbered {
                split: numbered.split,
                position: numbered.position,
                part: numbered.part,
                element: early.clone(),
            });
            let is_new = accepted.unwrap_or_else(|error| panic!("the reader meets an error: {error}"));
            let is_repeated = trainer.sequence.repeated() > before;
            trainer.waiting += usize::from(is_new);
            if let Some(task) = trainer.tasks.get_mut(&id) {
                task.used += 1;
            }
            trainer.confirm(id);
            self.tally.repeated += u64::from(is_repeated);
            if kept.is_none() || !is_new {
                self.release_credit(id);
            }
            if (is_repeated && defect == Some(SimDefect::RepeatedHandedOut))
                || (is_new && defect == Some(SimDefect::HandedOutOnArrival))
            {
                return self.deliver(pid, &early);
            }
        }
    }

    fn hand_out(&mut self, pid: Pid) {
        let is_kept = self.has(SimDefect::CreditsKept);
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        if !trainer.is_superseded && !self.group.may_step(trainer.rank, &self.ledger) {
            return;
        }
        let Some(early) = trainer.sequence.next() else {
            return;
        };
        trainer.waiting -= 1;
        if let Some(task) = early.kept.filter(|_| !is_kept) {
            self.release_credit(task);
        }
        self.deliver(pid, &early);
    }

    /// Gives an element to the trainer's user, and records it.
    fn deliver(&mut self, pid: Pid, early: &Early) {
        let Some(trainer) = self.trainers.get(&pid) else {
            return;
        };
        if trainer.is_superseded {
            return;
        }
        let is_known = trainer.client.is_some_and(|client| self.center.knows(client));
        assert!(
            is_known,
            "an element was delivered after the trainer's fence: the dispatcher has released its client"
        );
        let rank = trainer.rank;
        self.note(format_args!(
            "trainer {rank} gets element {} of split {}",
            early.position, early.split
        ));
        self.ledger
            .deliver(rank, (early.split, early.position, early.value));
    }

    /// Ends a trainer that has everything.
    fn end_trainer(&mut self, pid: Pid) {
        let is_hasty = self.has(SimDefect::EndBeforeReceived);
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        let is_read = trainer.ready.is_empty() && !trainer.sequence.has_next();
        if !trainer.is_finished || !(is_read || is_hasty) {
            return;
        }
        if !is_hasty && let Err(error) = trainer.sequence.end() {
            panic!("the reader meets an error: {error}");
        }
        trainer.has_ended = true;
        if !trainer.is_superseded {
            self.end_member(pid);
        }
    }

    /// Lets a trainer fail whose client the dispatcher has released.
    fn lapse(&mut self, pid: Pid) {
        let Some(trainer) = self.trainers.get(&pid).filter(|trainer| !trainer.has_ended) else {
            return;
        };
        self.tally.fenced += 1;
        if trainer.is_superseded {
            self.kill_trainer(pid);
        } else {
            self.restart_trainer(pid);
        }
    }
}
