//! A dispatcher, tasks whose splits take a fixed time each, and a reader that takes their elements in order.
//!
//! The dispatcher and the books of the tasks are the production code. The world knows nothing about tests.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_link::{Role, TicketKey};

use super::super::books::{FeedBatch, FeedBooks, FeedRun, FeedStep};
use super::super::demand::FeedDemand;
use super::super::requests::{FULL_PAUSE_MAX, HOLD_PAUSE_MAX, HOLD_PAUSE_MIN, Rest};
use crate::dispatcher::{
    Action, Dispatcher, DispatcherConfig, Event, Incoming, Reply, ReplyToken, Request, WorkerPush,
    WorkerRegistration,
};
use crate::id::{BootId, DatasetId, RequestNumber, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::pace::{Measures, Pace};
use crate::planner::{Cardinality, DatasetFacts, SourcePlan, SplitPlan};
use crate::split::WAITS_WITH_MIN;
use crate::whereabouts::Whereabouts;

/// The time between two steps of the world, which is also the time of a request.
pub(super) const STEP: Duration = Duration::from_millis(10);

/// A task whose splits take a fixed time each.
pub(super) struct Reading {
    session: SessionId,
    task: TaskId,
    split_time: Duration,
    books: FeedBooks,
    /// The request in flight, if any.
    asked: Option<FeedDemand>,
    /// The time of the next request; `None` if the task must start a split first.
    asks_at: Option<Duration>,
    /// The pause before the next request that repeats one without splits.
    pause: Duration,
    /// The pauses after the last request, if it got no splits.
    rest: Option<Rest>,
    pub(super) busy_until: Duration,
    /// The index of the current split, and the number of its elements that the task has not made.
    current: (u64, u64),
    /// The number of elements that the reader has not taken.
    buffered: u64,
    pub(super) ends_at: Option<Duration>,
    pub(super) waited: Duration,
    pub(super) read: u64,
    /// The number of requests for splits.
    pub(super) requests: u64,
    /// The leases, as the index of their first split and their number of splits.
    pub(super) leases: Vec<(u64, u64)>,
}

impl Reading {
    fn new(session: SessionId, task: TaskId, split_time: Duration, now: Duration) -> Reading {
        Reading {
            session,
            task,
            split_time,
            books: FeedBooks::default(),
            asked: None,
            asks_at: Some(Duration::ZERO),
            pause: HOLD_PAUSE_MIN,
            rest: None,
            busy_until: now,
            current: (0, 0),
            buffered: 0,
            ends_at: None,
            waited: Duration::ZERO,
            read: 0,
            requests: 0,
            leases: Vec::new(),
        }
    }

    /// Returns the number of splits that the task has not started.
    fn held(&self) -> u64 {
        self.books.held(0)
    }

    /// Repeats a request without splits soon, because the task has started a split.
    fn repeat_soon(&mut self, now: Duration) {
        let Some(rest) = self.rest else {
            return;
        };
        let soon = match self.held() < WAITS_WITH_MIN {
            true => now,
            false => now + rest.after_taken,
        };
        self.asks_at = Some(self.asks_at.map_or(soon, |at| at.min(soon)));
        self.pause = self.pause.min(HOLD_PAUSE_MAX);
    }
}

/// A reader that takes the elements in the order of their splits.
pub(super) struct OrderedReader {
    /// The number of elements of a split.
    pub(super) per_split: u64,
    /// The number of elements that all tasks together buffer.
    pub(super) buffer: u64,
    /// The time from one element to the next, unless the reader waits.
    pub(super) step: Duration,
    pub(super) next_at: Duration,
    /// The index of the split of the next element, and the number of its elements that were taken.
    position: (u64, u64),
    /// The task that makes each split, and the number of elements that it has made.
    made: BTreeMap<u64, (usize, u64)>,
    /// The times at which elements were taken.
    pub(super) taken: Vec<Duration>,
}

impl OrderedReader {
    pub(super) fn new(per_split: u64, buffer: u64, step: Duration) -> OrderedReader {
        OrderedReader {
            per_split,
            buffer,
            step,
            next_at: Duration::ZERO,
            position: (0, 0),
            made: BTreeMap::new(),
            taken: Vec::new(),
        }
    }

    /// Returns the elements per second that were taken in an interval.
    pub(super) fn rate(&self, from_s: u64, until_s: u64) -> f64 {
        let interval = Duration::from_secs(from_s)..Duration::from_secs(until_s);
        let taken = self.taken.iter().filter(|at| interval.contains(*at)).count();
        taken as f64 / (until_s - from_s) as f64
    }

    /// Takes the elements that are due. Returns the tasks that made them.
    fn take(&mut self, now: Duration) -> Vec<usize> {
        let mut owners = Vec::new();
        while self.next_at <= now {
            let (split, taken) = self.position;
            let Some((owner, _)) = self.made.get(&split).filter(|(_, made)| *made > taken) else {
                break;
            };
            owners.push(*owner);
            self.taken.push(now);
            self.next_at = self.next_at.max(now.saturating_sub(STEP)) + self.step;
            self.position.1 += 1;
            if self.position.1 == self.per_split {
                self.made.remove(&split);
                self.position = (split + 1, 0);
            }
        }
        owners
    }
}

pub(super) struct World {
    machine: Dispatcher,
    pub(super) now: Duration,
    number: u64,
    pub(super) readings: Vec<Reading>,
    /// The reader; `None` if readers take every element at once.
    pub(super) reader: Option<OrderedReader>,
    pub(super) is_away: bool,
}

impl World {
    pub(super) fn new(splits: u64, split_times_ms: &[u64]) -> World {
        World::of_job(splits, split_times_ms, false)
    }

    pub(super) fn of_job(splits: u64, split_times_ms: &[u64], in_order: bool) -> World {
        let mut world = World {
            machine: Dispatcher::new(DispatcherConfig::default(), BootId(1), Duration::ZERO),
            now: Duration::ZERO,
            number: 0,
            readings: Vec::new(),
            reader: None,
            is_away: false,
        };
        let trainer = SessionId(1000);
        let register = Request::RegisterDataset {
            id: None,
            definition: vec![],
            facts: facts(splits),
        };
        world.ask(trainer, Role::Submit, register);
        let create = Request::CreateJob {
            name: None,
            parameters: JobParameters {
                in_order,
                ..JobParameters::new(DatasetId::automatic(1000), Policy::Dynamic)
            },
        };
        let (Some(Reply::Job(job)), _) = world.ask(trainer, Role::Submit, create) else {
            panic!("no job")
        };
        for session in 1..=split_times_ms.len() as u64 {
            let request = Request::RegisterWorker(registration(session));
            world.ask(SessionId(session), Role::Worker, request);
        }
        let open = Request::OpenIteration {
            job,
            repetition: 0,
            consumer: None,
            whereabouts: Whereabouts::default(),
        };
        let (_, actions) = world.ask(trainer, Role::Read, open);
        let [Action::PlanSplits { iteration, .. }] = actions.as_slice() else {
            panic!("{actions:?}")
        };
        let result = Ok(SplitPlan {
            seed: 0,
            sources: vec![SourcePlan::Counted { splits }],
        });
        let planned = Event::SplitsPlanned {
            iteration: *iteration,
            result,
        };
        world.machine.handle(planned, Duration::ZERO);
        let actions = world.machine.take_actions();
        world.begin(actions, |session| split_times_ms[session.0 as usize - 1]);
        world
    }

    /// Adds a worker, which joins the job.
    pub(super) fn join(&mut self, split_time_ms: u64) {
        let session = self.readings.len() as u64 + 1;
        let request = Request::RegisterWorker(registration(session));
        let (_, actions) = self.ask(SessionId(session), Role::Worker, request);
        self.begin(actions, |_| split_time_ms);
    }

    /// Starts the tasks that the dispatcher has started.
    fn begin(&mut self, actions: Vec<Action>, split_time_ms: impl Fn(SessionId) -> u64) {
        for action in actions {
            if let Action::PushWorker {
                session,
                push: WorkerPush::Start { task },
            } = action
            {
                let split_time = Duration::from_millis(split_time_ms(session));
                let reading = Reading::new(session, task, split_time, self.now);
                self.readings.push(reading);
            }
        }
    }

    fn ask(&mut self, session: SessionId, role: Role, request: Request) -> (Option<Reply>, Vec<Action>) {
        self.number += 1;
        let incoming = Incoming {
            token: ReplyToken(self.number),
            session,
            role,
            number: Some(RequestNumber(self.number)),
            settled_below: RequestNumber(self.number),
            request,
        };
        self.machine.handle(Event::Asked(incoming), self.now);
        let mut reply = None;
        let mut others = Vec::new();
        for action in self.machine.take_actions() {
            match action {
                Action::Reply { result, .. } => reply = Some(result.expect("it is granted")),
                other @ (Action::PlanSplits { .. }
                | Action::PushClient { .. }
                | Action::PushWorker { .. }
                | Action::ProbeWorker { .. }
                | Action::Disconnect { .. }) => others.push(other),
            }
        }
        (reply, others)
    }

    /// Runs until all splits are read, or until the given time.
    pub(super) fn run(&mut self, until: Duration) {
        while self.now < until && self.readings.iter().any(|reading| reading.ends_at.is_none()) {
            for place in 0..self.readings.len() {
                self.answer(place);
                self.read(place);
            }
            if let Some(reader) = &mut self.reader {
                for owner in reader.take(self.now) {
                    self.readings[owner].buffered -= 1;
                }
            }
            self.now += STEP;
            if self.now.subsec_millis() == 0 {
                self.measure();
            }
        }
    }

    /// Reports the time of an element of each task, as a heartbeat does.
    fn measure(&mut self) {
        let per_split = self.reader.as_ref().map_or(1, |reader| reader.per_split);
        for reading in self.readings.iter().filter(|reading| reading.read > 1) {
            let element_time = reading.split_time / per_split as u32;
            let pace = Pace {
                elements: (reading.read - 1) * per_split,
                element_ns: Some(element_time.as_nanos() as u64),
                ..Pace::default()
            };
            let measures = Measures {
                tasks: vec![(reading.task, pace)],
                ..Measures::default()
            };
            let session = reading.session;
            self.machine
                .handle(Event::Measured { session, measures }, self.now);
        }
    }

    /// Returns the total time for which all tasks waited for splits.
    pub(super) fn waited(&self) -> Duration {
        self.readings.iter().map(|reading| reading.waited).sum()
    }

    fn answer(&mut self, place: usize) {
        let reading = &mut self.readings[place];
        let (session, task) = (reading.session, reading.task);
        if self.is_away || reading.asks_at.is_none_or(|at| self.now < at) {
            return;
        }
        let Some(demand) = reading.asked.take() else {
            return;
        };
        let request = Request::LeaseSplits {
            task,
            source: 0,
            repetition: 0,
            want: demand.want,
            pace: demand.pace,
            is_idle: false,
        };
        let (
            Some(Reply::Splits {
                runs,
                end,
                current,
                more,
                ..
            }),
            _,
        ) = self.ask(session, Role::Worker, request)
        else {
            panic!("no splits")
        };
        let reading = &mut self.readings[place];
        reading.requests += 1;
        if runs.is_empty() && !end {
            let rest = Rest::of(reading.pause, reading.held(), more);
            reading.asks_at = rest.unless_taken.map(|pause| self.now + pause);
            reading.rest = Some(rest);
            reading.pause = (reading.pause * 2).min(FULL_PAUSE_MAX);
            let goal = reading.books.goal(0);
            reading.asked = Some(goal.map_or(demand, |goal| goal.demand(reading.held())));
            return;
        }
        (reading.asks_at, reading.pause, reading.rest) = (Some(Duration::ZERO), HOLD_PAUSE_MIN, None);
        reading
            .leases
            .extend(runs.iter().map(|run| (run.first_index, run.count)));
        let leased: u64 = runs.iter().map(|run| run.count).sum();
        let held = reading.held() + leased;
        let goal = reading
            .books
            .goal(0)
            .filter(|goal| more && !end && goal.wants_more(held));
        reading.asked = goal.map(|goal| goal.demand(held));
        let runs = runs.into_iter().map(FeedRun::without_payloads);
        let batch = FeedBatch {
            runs: runs.collect(),
            end,
            current,
            more,
            follows: reading.asked.is_some(),
        };
        reading.books.answered(0, batch);
    }

    /// Makes the elements of a task that are due, as far as splits and room are available.
    fn read(&mut self, place: usize) {
        let now = self.now;
        let tasks = self.readings.len() as u64;
        let reading = &mut self.readings[place];
        let (per_split, room) = match &self.reader {
            Some(reader) => (reader.per_split, (reader.buffer / tasks).max(1)),
            None => (1, u64::MAX),
        };
        let element_time = reading.split_time / per_split as u32;
        // Several short elements are made in one step.
        let earliest = if element_time < STEP {
            now.saturating_sub(STEP)
        } else {
            now
        };
        while reading.busy_until <= now && reading.ends_at.is_none() {
            if reading.current.1 > 0 {
                if reading.buffered >= room {
                    return;
                }
                reading.current.1 -= 1;
                if let Some(reader) = &mut self.reader {
                    reading.buffered += 1;
                    reader.made.entry(reading.current.0).or_insert((place, 0)).1 += 1;
                }
                if reading.current.1 > 0 {
                    reading.busy_until = reading.busy_until.max(earliest) + element_time;
                    continue;
                }
            }
            let demand = match reading.books.next(0, 0, now) {
                FeedStep::Split { split, ask_ahead } => {
                    reading.read += 1;
                    reading.current = (split.index, per_split);
                    reading.busy_until = reading.busy_until.max(earliest) + element_time;
                    reading.repeat_soon(now);
                    ask_ahead
                }
                FeedStep::End => {
                    reading.ends_at = Some(now);
                    None
                }
                FeedStep::Ask(demand) => Some(demand),
                FeedStep::Wait => {
                    reading.waited += STEP;
                    return;
                }
            };
            if let Some(demand) = demand {
                reading.books.asked(0, 0, demand.want);
                reading.asked = Some(demand);
            }
        }
    }
}

fn facts(splits: u64) -> DatasetFacts {
    DatasetFacts {
        spec: vec![],
        cardinality: Cardinality::Finite(splits),
        splittable: Ok(()),
        aligned: Ok(()),
        not_by_files: None,
        has_shard_hint: false,
        compression: None,
    }
}

fn registration(session: u64) -> WorkerRegistration {
    WorkerRegistration {
        address: format!("worker:{session}"),
        tags: vec![],
        ticket_key: TicketKey::from_bytes([1; 32]),
        version: String::new(),
        whereabouts: Whereabouts::default(),
        local_socket: None,
    }
}
