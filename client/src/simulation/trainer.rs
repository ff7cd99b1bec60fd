//! A trainer's process: the production reader, and a model of the I/O code that delivers pushes to the reader
//! and sends its reports.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use millstream_control::rpc::{Attachment, Told};
use millstream_control::{
    Cardinality, ClientId, ClientPush, Code, DatasetFacts, DatasetId, Error, JobId, JobParameters, Reply,
    Request, Seen, Whereabouts,
};
use millstream_dataplane::TaskId;
use millstream_element::{Element, HeapAlloc};
use millstream_link::Role;
use millstream_trace::Tracer;

use super::bugs::Bug;
use super::flow::Item;
use super::session::{Purpose, Session};
use super::world::{Event, Pid, World};
use crate::cursor::Cursor;
use crate::discovery::{LAST_REPORTS_MAX, control_id, is_final, lease_ranges, translate};
use crate::driver::drive;
use crate::error::ReadError;
use crate::event::TaskEvent;
use crate::intake::Intake;
use crate::notice::Notices;
use crate::reader_core::credit::{Bounds, MaxOutstanding};
use crate::reader_core::{Obeyed, ReaderCore, Reading as CoreReading};
use crate::report::{Report, SeenSplits};
use crate::waiter::Waiter;

/// A time limit that is longer than any run. The simulation does not test the time limit for reaching a
/// worker.
const GIVE_UP: Duration = Duration::from_secs(3600);

/// The state of a trainer's process.
pub(super) struct Trainer {
    pub(super) job: usize,
    repetition: u64,
    pub(super) session: Option<Session>,
    job_id: Option<JobId>,
    pub(super) client: Option<ClientId>,
    reading: Option<Reading>,
    pub(super) stage: Stage,
    /// The number of elements after which the trainer leaves; `None` if it reads to the end.
    pub(super) leaves_after: Option<u64>,
}

/// The phase of a trainer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The trainer requests its dataset, job and iteration.
    Opening,
    Reading,
    /// The trainer sends its last report.
    Leaving(Duration),
    Releasing,
    Done,
}

impl Trainer {
    /// Returns the boot number of the dispatcher's state in which the trainer reads.
    fn boot(&self) -> u64 {
        let boot = self.session.as_ref().and_then(|session| session.boot);
        boot.map_or(0, |boot| boot.0)
    }
}

struct Reading {
    attachment: Attachment,
    told: Told,
    intake: Arc<Intake>,
    waiter: Arc<Waiter>,
    cursor: Cursor,
    max_outstanding: u64,
    handed: u64,
    /// The report that awaits its answer.
    report: Option<Report>,
    /// The number of splits lost when the iteration ended, as the dispatcher reported.
    lost_at_end: u64,
}

impl Reading {
    fn new(max_outstanding: u64) -> Reading {
        let bounds = Bounds {
            max_outstanding: MaxOutstanding::Elements(max_outstanding),
            auto_bytes: 0,
            shared: None,
            max_outstanding_bytes: 1 << 30,
        };
        let reading = CoreReading {
            bounds,
            is_coordinated: false,
            trainer_id: None,
            whole_splits: false,
            is_exactly_once: false,
        };
        let intake = Arc::new(Intake::new(reading, Arc::new(HeapAlloc), Notices::default()));
        let waiter = Arc::new(Waiter::new(intake.clone()));
        Reading {
            attachment: Attachment::default(),
            told: Told::default(),
            cursor: Cursor::new(waiter.clone(), None, Tracer::default()),
            waiter,
            intake,
            max_outstanding,
            handed: 0,
            report: None,
            lost_at_end: 0,
        }
    }

    /// Checks D4.2.
    fn check_credits(&self) {
        let standings = self.intake.look(ReaderCore::standings);
        let outstanding: u64 = standings.iter().map(|task| task.outstanding + task.waiting).sum();
        let bound = self.max_outstanding;
        assert!(
            outstanding <= bound,
            "{outstanding} elements are outstanding, more than {bound}"
        );
    }
}

impl World {
    pub(super) fn start_trainer(&mut self, job: usize) -> Pid {
        let pid = self.fresh_pid();
        self.note(format_args!("trainer {pid} begins with job {job}"));
        let session = self.open_session(pid, Role::Submit);
        let leaves = self.plan.trainers_leave && !self.is_healed && self.chance.percent(30);
        let trainer = Trainer {
            job,
            repetition: 0,
            session: Some(session),
            job_id: None,
            client: None,
            reading: None,
            stage: Stage::Opening,
            leaves_after: leaves.then(|| self.chance.within(0..20)),
        };
        self.trainers.insert(pid, trainer);
        self.at(self.now, Event::Tick(pid));
        self.register_dataset(pid, job);
        pid
    }

    /// Kills the trainer's process without any goodbye.
    pub(super) fn kill_trainer(&mut self, pid: Pid) {
        self.note(format_args!("trainer {pid} dies"));
        self.executor.kill(pid);
        self.forget_conns(pid);
        if let Some(trainer) = self.trainers.remove(&pid)
            && trainer.stage != Stage::Done
        {
            self.trainer_gave_up(&trainer);
        }
    }

    /// Notes, in the oracle, that elements in flight to this reader reach no user.
    fn trainer_gave_up(&mut self, trainer: &Trainer) {
        let boot = trainer.boot();
        let most = trainer
            .reading
            .as_ref()
            .map_or(0, |reading| reading.max_outstanding);
        self.oracle
            .reader_gone(boot, trainer.job, trainer.repetition, most);
    }

    fn register_dataset(&mut self, pid: Pid, job: usize) {
        let facts = DatasetFacts {
            spec: Vec::new(),
            cardinality: Cardinality::Unknown,
            splittable: Ok(()),
            aligned: Ok(()),
            not_by_files: None,
            has_shard_hint: false,
            compression: None,
        };
        let request = Request::RegisterDataset {
            id: Some(DatasetId::new(&format!("dataset-{job}")).expect("a name")),
            definition: vec![job as u8],
            facts,
        };
        self.call(pid, Purpose::Dataset, request);
    }

    pub(super) fn trainer_is_up(&mut self, pid: Pid) {
        let trainer = self.trainers.get_mut(&pid);
        if let Some(reading) = trainer.and_then(|trainer| trainer.reading.as_mut()) {
            reading.attachment.note_gap();
        }
        if self.bug != Some(Bug::SnapshotSkipped) {
            self.attach(pid);
        }
    }

    fn attach(&mut self, pid: Pid) {
        if let Some(client) = self.trainers.get(&pid).and_then(|trainer| trainer.client) {
            self.call(pid, Purpose::Attach(client), Request::Attach { client });
        }
    }

    /// Restarts a trainer as another process, because the dispatcher does not know it.
    pub(super) fn fail_trainer(&mut self, pid: Pid, why: &str) {
        self.note(format_args!("trainer {pid} fails: {why}"));
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        let job = trainer.job;
        self.kill_trainer(pid);
        let soon = self.now + self.chance.millis(10..500);
        self.at(soon, Event::StartTrainer(job));
    }

    pub(super) fn trainer_answered(&mut self, pid: Pid, purpose: Purpose, result: Result<Reply, Error>) {
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        match (purpose, result) {
            (Purpose::Dataset, Ok(Reply::Dataset(id))) => {
                let job = trainer.job;
                let parameters = JobParameters::new(id, self.jobs[job].policy);
                let name = Some(format!("job-{job}"));
                self.call(pid, Purpose::Job, Request::CreateJob { name, parameters });
            }
            (Purpose::Job, Ok(Reply::Job(id))) => {
                trainer.job_id = Some(id);
                self.open_iteration(pid);
            }
            (Purpose::Open, Ok(Reply::Client(id, _))) => self.opened(pid, id),
            (Purpose::Attach(client), Err(error)) if error.code == Code::NotFound => {
                self.pushed(pid, client, ClientPush::Lapsed);
            }
            (Purpose::Attach(_), _) => {}
            (Purpose::Report, result) => {
                if result.is_ok() || result.is_err_and(|error| is_final(error.code)) {
                    if let Some(reading) = &mut trainer.reading {
                        reading.report = None;
                    }
                } else {
                    self.send_report(pid);
                }
            }
            (Purpose::Release, _) => self.released(pid),
            (purpose, result) => panic!("trainer {pid} was answered {result:?} to {purpose:?}"),
        }
    }

    fn open_iteration(&mut self, pid: Pid) {
        let trainer = self.trainers.get(&pid);
        if let Some((Some(job), repetition)) = trainer.map(|trainer| (trainer.job_id, trainer.repetition)) {
            self.call(
                pid,
                Purpose::Open,
                Request::OpenIteration {
                    job,
                    repetition,
                    consumer: None,
                    whereabouts: Whereabouts::default(),
                },
            );
        }
    }

    fn opened(&mut self, pid: Pid, client: ClientId) {
        let most = self.chance.within(1..self.plan.max_outstanding + 1);
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        trainer.client = Some(client);
        trainer.reading = Some(Reading::new(most));
        trainer.stage = Stage::Reading;
        if let Some(session) = &mut trainer.session {
            session.clients.insert(client);
        }
        self.note(format_args!("trainer {pid} is client {client}, at most {most}"));
        self.attach(pid);
    }

    pub(super) fn pushed(&mut self, pid: Pid, client: ClientId, push: ClientPush) {
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        if trainer.client != Some(client) {
            return;
        }
        let Some(reading) = &mut trainer.reading else {
            return;
        };
        if !reading.attachment.admits(&push) {
            return;
        }
        let news = reading.told.news(push);
        for push in &news {
            if let ClientPush::IterationFinished { splits_lost } = push {
                reading.lost_at_end = reading.lost_at_end.max(*splits_lost);
            }
        }
        for push in news {
            self.note(format_args!("trainer {pid} hears {push:?}"));
            if let Some(event) = translate(push) {
                self.follow(pid, event);
            }
        }
    }

    fn follow(&mut self, pid: Pid, event: TaskEvent) {
        let reading = self
            .trainers
            .get(&pid)
            .and_then(|trainer| trainer.reading.as_ref());
        let Some((intake, waiter)) = reading.map(|reading| (reading.intake.clone(), reading.waiter.clone()))
        else {
            return;
        };
        if matches!(event, TaskEvent::SplitsLost { .. }) && self.bug == Some(Bug::LossNotTold) {
            return;
        }
        if let TaskEvent::Removed { task, .. } = &event
            && self.bug == Some(Bug::RemovedTaskRead)
        {
            return intake.act(|core| core.note_removed(*task, SeenSplits::default()));
        }
        match intake.obey(event) {
            Obeyed::Done => {}
            Obeyed::Drive(worker) => {
                let drive = drive(waiter, self.roads.clone(), worker, GIVE_UP);
                self.executor.spawn(pid, drive);
            }
            Obeyed::LookThrough(task, remains) => {
                let mut seen = remains.look_through(&HeapAlloc);
                if self.bug == Some(Bug::SeenNotTold) {
                    seen = SeenSplits::default();
                }
                let soon = self.now + self.chance.millis(0..10);
                self.at(soon, Event::LookedThrough(pid, task, seen));
            }
        }
    }

    pub(super) fn looked_through(&mut self, pid: Pid, task: TaskId, seen: SeenSplits) {
        if let Some(reading) = self
            .trainers
            .get(&pid)
            .and_then(|trainer| trainer.reading.as_ref())
        {
            reading.intake.act(|core| core.note_removed(task, seen));
        }
        self.report(pid);
    }

    /// Sends the next report, once the previous report was answered.
    fn report(&mut self, pid: Pid) {
        let trainer = self.trainers.get_mut(&pid);
        let Some(reading) = trainer.and_then(|trainer| trainer.reading.as_mut()) else {
            return;
        };
        if reading.report.is_some() {
            return;
        }
        reading.report = reading.intake.act(ReaderCore::next_report);
        self.send_report(pid);
    }

    fn send_report(&mut self, pid: Pid) {
        let Some(trainer) = self.trainers.get(&pid) else {
            return;
        };
        let report = trainer
            .reading
            .as_ref()
            .and_then(|reading| reading.report.as_ref());
        let (Some(report), Some(client)) = (report, trainer.client) else {
            return;
        };
        let request = match report {
            Report::Done { task, leases } => Request::SplitsDone {
                client,
                task: control_id(*task),
                leases: lease_ranges(leases),
            },
            Report::Waiting { task, leases } => {
                Request::SplitsWaiting(client, control_id(*task), lease_ranges(leases))
            }
            Report::Drained { task } => Request::TaskDrained {
                client,
                task: control_id(*task),
            },
            Report::Suspect { worker } => Request::SuspectWorker {
                client,
                address: worker.clone(),
            },
            Report::Ready { .. } => panic!("the simulation has no coordinated reads"),
            Report::Removed { task, seen } => Request::Acknowledge {
                client,
                task: control_id(*task),
                seen: Seen {
                    complete: Vec::new(),
                    partial: lease_ranges(&seen.partial),
                    ..Seen::default()
                },
            },
        };
        self.note(format_args!("trainer {pid} reports {request:?}"));
        self.call(pid, Purpose::Report, request);
    }

    /// Performs a trainer's periodic work.
    pub(super) fn trainer_tick(&mut self, pid: Pid) {
        let appetite = if self.is_healed {
            8
        } else {
            self.chance.within(0..3)
        };
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        let stage = trainer.stage;
        if let Some(reading) = &trainer.reading {
            reading.intake.tick();
            reading.intake.ask_again(GIVE_UP);
            reading.check_credits();
        }
        self.report(pid);
        match stage {
            Stage::Reading => self.read(pid, appetite),
            Stage::Leaving(since) => self.leave(pid, since),
            Stage::Opening | Stage::Releasing | Stage::Done => {}
        }
    }

    fn read(&mut self, pid: Pid, appetite: u64) {
        for _ in 0..appetite {
            let Some(trainer) = self.trainers.get_mut(&pid) else {
                return;
            };
            let Some(reading) = &mut trainer.reading else {
                return;
            };
            if trainer.leaves_after.is_some_and(|most| reading.handed >= most) {
                reading.intake.cancel();
                return self.stop_reading(pid);
            }
            let mut cx = Context::from_waker(Waker::noop());
            match reading.cursor.poll_next(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(Some(element))) => {
                    reading.handed += 1;
                    self.handed_over(&element);
                }
                Poll::Ready(Ok(None)) => {
                    self.note(format_args!("trainer {pid} has everything"));
                    return self.stop_reading(pid);
                }
                Poll::Ready(Err(error)) => return self.read_failed(pid, &error),
            }
        }
    }

    fn handed_over(&mut self, element: &Element) {
        let view = element.component(0).expect("one component");
        let words = view.as_slice::<u64>().expect("numbers");
        let items = words[4..].chunks(4).take(words[3] as usize).map(|item| Item {
            source: item[0],
            pass: item[1],
            index: item[2],
            number: item[3],
        });
        for item in items {
            self.oracle.delivered(words[0], words[1], words[2], item);
            self.note(format_args!("{} of task {}", item.index, words[2]));
        }
    }

    /// Accepts a failed read only if the run contains its cause.
    fn read_failed(&mut self, pid: Pid, error: &ReadError) {
        let Some(trainer) = self.trainers.get(&pid) else {
            return;
        };
        let job = trainer.job;
        let dataset_fails = self.jobs[job].dataset.fails.is_some();
        if matches!(error, ReadError::Task { .. }) && dataset_fails {
            self.trainers
                .get_mut(&pid)
                .expect("the trainer exists")
                .leaves_after = Some(0);
            self.stop_reading(pid);
        } else if is_lapse(error) && self.plan.may_lapse {
            // The reader was silent for longer than its lease.
            self.fail_trainer(pid, &error.to_string());
        } else {
            panic!("trainer {pid} fails: {error}");
        }
    }

    fn stop_reading(&mut self, pid: Pid) {
        let now = self.now;
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        let left_early = trainer.leaves_after.is_some_and(|most| {
            let reading = trainer.reading.as_ref();
            reading.is_some_and(|reading| reading.handed >= most)
        });
        trainer.stage = Stage::Leaving(now);
        if left_early {
            let trainer = self.trainers.remove(&pid).expect("the trainer exists");
            self.trainer_gave_up(&trainer);
            self.trainers.insert(pid, trainer);
            return;
        }
        if let Some(reading) = &trainer.reading {
            // After the end of the iteration no credit may be outstanding.
            let standings = reading.intake.look(ReaderCore::standings);
            let owing = standings.iter().find(|task| task.outstanding + task.waiting > 0);
            assert!(owing.is_none(), "credits do not return to zero: {owing:?}");
            let lost = reading.intake.look(ReaderCore::lost_splits);
            let at_end = reading.lost_at_end;
            let of = (trainer.boot(), trainer.job, trainer.repetition);
            self.oracle.reader_done(of, &lost, at_end);
        }
    }

    /// Waits until the last reports are sent, then releases the client.
    fn leave(&mut self, pid: Pid, since: Duration) {
        let late = self.now > since + LAST_REPORTS_MAX;
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        let Some(reading) = &trainer.reading else {
            return;
        };
        if self.now < since + Duration::from_millis(100) || (reading.report.is_some() && !late) {
            return;
        }
        trainer.stage = Stage::Releasing;
        let client = trainer.client.expect("a reader is a client");
        if let Some(session) = &mut trainer.session {
            session.clients.remove(&client);
        }
        self.executor.kill(pid);
        self.call(pid, Purpose::Release, Request::Release { client });
    }

    fn released(&mut self, pid: Pid) {
        let Some(trainer) = self.trainers.get_mut(&pid) else {
            return;
        };
        (trainer.client, trainer.reading) = (None, None);
        trainer.repetition += 1;
        let more = trainer.repetition < self.jobs[trainer.job].repetitions && trainer.leaves_after.is_none();
        trainer.stage = if more { Stage::Opening } else { Stage::Done };
        if more {
            self.open_iteration(pid);
        } else {
            self.note(format_args!("trainer {pid} is done"));
        }
    }
}

/// Returns whether the error means that the dispatcher has ended this reader.
fn is_lapse(error: &ReadError) -> bool {
    let is_released =
        matches!(error, ReadError::Refused { reason, .. } if reason.contains("has ended this reader"));
    is_released || matches!(error, ReadError::Lapsed | ReadError::Dispatcher(_))
}
