//! Tests of the books of tasks against the dispatcher that leases the splits, under virtual time. The tests
//! check the splits that each task holds, and the time at which all splits are read.

use std::time::Duration;

use millstream_link::{Role, TicketKey};

use super::books::{FeedBatch, FeedBooks, FeedRun, FeedStep};
use super::demand::FeedDemand;
use crate::dispatcher::{
    Action, Dispatcher, DispatcherConfig, Event, Incoming, Reply, ReplyToken, Request, WorkerPush,
    WorkerRegistration,
};
use crate::id::{BootId, DatasetId, RequestNumber, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::{Cardinality, DatasetFacts, SourcePlan, SplitPlan};
use crate::whereabouts::Whereabouts;

const STEP: Duration = Duration::from_millis(10);

/// A task whose splits take a fixed time each.
struct Reading {
    session: SessionId,
    task: TaskId,
    split_time: Duration,
    books: FeedBooks,
    /// The request in flight, if any.
    asked: Option<FeedDemand>,
    busy_until: Duration,
    ends_at: Option<Duration>,
    waited: Duration,
    read: u64,
    /// The number of requests for splits.
    requests: u64,
    /// The leases, as the index of their first split and their number of splits.
    leases: Vec<(u64, u64)>,
}

impl Reading {
    fn new(session: SessionId, task: TaskId, split_time: Duration) -> Reading {
        Reading {
            session,
            task,
            split_time,
            books: FeedBooks::default(),
            asked: None,
            busy_until: Duration::ZERO,
            ends_at: None,
            waited: Duration::ZERO,
            read: 0,
            requests: 0,
            leases: Vec::new(),
        }
    }
}

struct World {
    machine: Dispatcher,
    now: Duration,
    number: u64,
    readings: Vec<Reading>,
    is_away: bool,
}

impl World {
    fn new(splits: u64, split_times_ms: &[u64]) -> World {
        World::of_job(splits, split_times_ms, false)
    }

    fn of_job(splits: u64, split_times_ms: &[u64], in_order: bool) -> World {
        let mut world = World {
            machine: Dispatcher::new(DispatcherConfig::default(), BootId(1), Duration::ZERO),
            now: Duration::ZERO,
            number: 0,
            readings: Vec::new(),
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
        for action in world.machine.take_actions() {
            if let Action::PushWorker {
                session,
                push: WorkerPush::Start { task },
            } = action
            {
                let split_time = Duration::from_millis(split_times_ms[session.0 as usize - 1]);
                world.readings.push(Reading::new(session, task, split_time));
            }
        }
        world
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
    fn run(&mut self, until: Duration) {
        while self.now < until && self.readings.iter().any(|reading| reading.ends_at.is_none()) {
            for place in 0..self.readings.len() {
                self.answer(place);
                self.read(place);
            }
            self.now += STEP;
        }
    }

    /// Returns the total time for which all tasks waited for splits.
    fn waited(&self) -> Duration {
        self.readings.iter().map(|reading| reading.waited).sum()
    }

    fn answer(&mut self, place: usize) {
        let reading = &mut self.readings[place];
        let (session, task) = (reading.session, reading.task);
        if self.is_away {
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
        reading
            .leases
            .extend(runs.iter().map(|run| (run.first_index, run.count)));
        let runs = runs.into_iter().map(FeedRun::without_payloads);
        let batch = FeedBatch {
            runs: runs.collect(),
            end,
            current,
            more,
        };
        self.readings[place].books.answered(0, batch);
    }

    fn read(&mut self, place: usize) {
        let now = self.now;
        let reading = &mut self.readings[place];
        while reading.busy_until <= now && reading.ends_at.is_none() {
            let demand = match reading.books.next(0, 0, now) {
                FeedStep::Split { ask_ahead, .. } => {
                    reading.read += 1;
                    reading.busy_until = now + reading.split_time;
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

/// Tests that tasks of different speeds end together (C5.1).
#[test]
fn tasks_of_different_speeds_end_together() {
    for split_times in [&[100, 100][..], &[50, 200], &[20, 20, 20, 400], &[1000, 3000]] {
        let seconds = 60.0;
        let speed: f64 = split_times.iter().map(|millis| 1000.0 / *millis as f64).sum();
        let splits = (seconds * speed) as u64;
        let mut world = World::new(splits, split_times);
        world.run(Duration::from_secs(600));
        let ends: Vec<f64> = world
            .readings
            .iter()
            .map(|reading| reading.ends_at.expect("it ends").as_secs_f64())
            .collect();
        let slowest = *split_times.iter().max().unwrap() as f64 / 1000.0;
        let last = ends.iter().copied().fold(0.0, f64::max);
        assert!(last < seconds * 1.05 + 3.0 * slowest, "{split_times:?}: {ends:?}");
        let read: u64 = world.readings.iter().map(|reading| reading.read).sum();
        assert_eq!(read, splits);
    }
}

/// Tests that a dispatcher that is away for 10 s delays no task. The absence falls at several times of an
/// epoch of two minutes (C5.1).
#[test]
fn an_absent_dispatcher_delays_no_task() {
    for away_at_s in [3, 5, 10, 30, 60, 90] {
        for split_times in [&[20, 20][..], &[100, 300], &[700, 700, 700]] {
            let speed: f64 = split_times.iter().map(|millis| 1000.0 / *millis as f64).sum();
            let mut world = World::new((120.0 * speed) as u64, split_times);
            let away_at = Duration::from_secs(away_at_s);
            world.run(away_at);
            let before = world.waited();
            world.is_away = true;
            world.run(away_at + Duration::from_secs(10));
            world.is_away = false;
            let waited = world.waited().saturating_sub(before);
            assert!(
                waited <= Duration::from_millis(100),
                "{split_times:?} at {away_at_s} s: {waited:?}"
            );
            world.run(Duration::from_secs(600));
            assert!(world.readings.iter().all(|reading| reading.ends_at.is_some()));
        }
    }
}

/// Tests that several leases last for the target time of a task a few seconds after its start, and that no
/// lease is long (C5.9).
#[test]
fn an_absent_dispatcher_delays_no_ordered_reader() {
    let cases = [
        (&[30, 30][..], 4),
        (&[30, 60], 7),
        (&[30, 30], 60),
        (&[100, 300], 10),
        (&[700, 700, 700], 10),
        (&[700, 700, 700], 60),
    ];
    for (split_times, away_at_s) in cases {
        let speed: f64 = split_times.iter().map(|millis| 1000.0 / *millis as f64).sum();
        let splits = (120.0 * speed) as u64;
        let mut world = World::of_job(splits, split_times, true);
        let away_at = Duration::from_secs(away_at_s);
        world.run(away_at);
        let before = world.waited();
        world.is_away = true;
        world.run(away_at + Duration::from_secs(10));
        world.is_away = false;
        assert_eq!(world.waited(), before, "{split_times:?} at {away_at_s} s");
        world.run(Duration::from_secs(600));
        let leases = world.readings.iter().flat_map(|reading| &reading.leases);
        assert!(leases.clone().all(|(_, count)| *count <= 8));
        assert_eq!(leases.map(|(_, count)| count).sum::<u64>(), splits);
    }
}

/// Tests that the leases of an ordered job take turns. If a reader in order waited for one worker for long,
/// the other workers would be idle (C5.9).
#[test]
fn leases_in_order_take_turns() {
    let mut world = World::of_job(4000, &[30, 30], true);
    world.run(Duration::from_secs(600));
    let owners = world.readings.iter().enumerate();
    let leases = owners.flat_map(|(owner, reading)| reading.leases.iter().map(move |lease| (*lease, owner)));
    let mut leases: Vec<((u64, u64), usize)> = leases.collect();
    leases.sort_unstable();
    let turns = leases.chunk_by(|one, next| one.1 == next.1);
    let longest = turns.map(|turn| turn.iter().map(|((_, count), _)| count).sum::<u64>());
    let longest: Vec<u64> = longest.collect();
    assert!(longest.iter().all(|splits| *splits <= 24), "{longest:?}");
}

/// Tests a task that begins late in an ordered job. The task must not find the next seconds leased to other
/// tasks (C5.9).
#[test]
fn late_tasks_in_order_soon_take_turns() {
    let begins_at = Duration::from_secs(3);
    let mut world = World::of_job(4000, &[30, 30], true);
    world.readings[1].busy_until = begins_at;
    world.run(begins_at);
    let alone = world.readings[0].read;
    world.run(Duration::from_secs(5));
    let first = world.readings[1].leases.first().expect("it has begun").0;
    assert!(first <= alone + 32, "it begins with {first} after {alone}");
}

/// Tests that an epoch causes at most one request for each slow split (C5.1, C5.9).
#[test]
fn requests_in_order_are_few() {
    for split_times in [&[30, 30][..], &[700, 700, 700]] {
        let mut world = World::of_job(2000, split_times, true);
        world.run(Duration::from_secs(3600));
        let requests: u64 = world.readings.iter().map(|reading| reading.requests).sum();
        assert!(requests <= 2000, "{requests}");
    }
}
