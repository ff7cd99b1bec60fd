//! The state machine of the dispatcher with very many peers, without sockets and without a store.
//!
//! Shows which cost grows faster than the number of peers, far beyond what the processes of one machine can
//! show. [`peers`](super::peers) measures the connections.

use std::time::{Duration, Instant};

use millstream::control::{
    Action, BootId, Cardinality, ClientId, ClientPush, DatasetFacts, Dispatcher, DispatcherConfig, Event,
    Incoming, JobId, JobParameters, Moment, Policy, Reply, ReplyToken, Request, RequestNumber, SessionId,
    SourcePlan, SplitPace, SplitPlan, TaskId, Whereabouts, WorkerPush, WorkerRegistration,
};
use millstream::link::{Role, TicketKey};

use super::Scale;
use super::table;

/// The numbers of peers. Half of them are workers, and the other half read one job. `--peers=50000` measures
/// 100 000 peers in about ten minutes.
const PEERS: &[usize] = &[2_000, 20_000];
const PEERS_SMALL: &[usize] = &[20, 40];
/// The number of readers whose list of tasks is measured. All lists together would not fit in memory.
const ATTACHED: usize = 10;
/// The number of measured requests for splits, and the pace that they state: 3 splits per second.
const LEASES: usize = 10_000;
const SPLITS_PER_1000_S: u64 = 3_000;

/// Measures each number of peers with a new state machine.
pub(crate) fn run(scale: Scale) -> Result<(), String> {
    let interval_s = DispatcherConfig::default().heartbeat_interval.as_secs_f64();
    table::say(&format!(
        "crowd: the state machine alone; one job in order, half of the peers are workers. Cores: the heartbeats of all peers \
         every {interval_s} s, and the searches for silent ones. Lease: a request for splits"
    ))?;
    table::header(&[
        "peers",
        "join µs",
        "cores",
        "list ms",
        "list tasks",
        "lease µs",
        "new worker ms",
        "bytes each",
    ])?;
    let all = scale.pick(PEERS, PEERS_SMALL).to_vec();
    for peers in scale.peers.map_or(all, |peers| vec![2 * peers]) {
        measure(peers / 2)?;
    }
    Ok(())
}

fn measure(half: usize) -> Result<(), String> {
    let before = resident_bytes();
    let mut crowd = Crowd::new(half);
    let began = Instant::now();
    for worker in 0..half {
        crowd.register(worker)?;
    }
    let job = crowd.job()?;
    let mut clients = Vec::with_capacity(half);
    for reader in 0..half {
        clients.push(crowd.open(reader, job)?);
    }
    let joining = began.elapsed().as_secs_f64() / (2 * half) as f64;
    let bytes = resident_bytes().saturating_sub(before) / (2 * half) as u64;
    let began = Instant::now();
    for (reader, client) in clients.iter().enumerate().take(ATTACHED) {
        crowd.ask(reading(reader), Role::Read, Request::Attach { client: *client })?;
    }
    let listing = began.elapsed().as_secs_f64() / clients.len().min(ATTACHED) as f64;
    let cores = crowd.heartbeats(&clients);
    let lease = crowd.lease()?;
    let began = Instant::now();
    crowd.register(half)?;
    let joined = began.elapsed().as_secs_f64();
    table::row(&[
        (2 * half).to_string(),
        format!("{:.1}", joining * 1e6),
        format!("{cores:.3}"),
        format!("{:.2}", listing * 1e3),
        crowd.listed.to_string(),
        format!("{:.1}", lease * 1e6),
        format!("{:.2}", joined * 1e3),
        bytes.to_string(),
    ])
}

/// The state machine, without a store.
struct Crowd {
    machine: Dispatcher,
    now: Moment,
    numbers: u64,
    reply: Option<Result<Reply, String>>,
    /// The number of tasks in the latest list that a reader received.
    listed: usize,
    /// The tasks, each with the session of its worker.
    tasks: Vec<(SessionId, TaskId)>,
}

impl Crowd {
    /// Returns a state machine whose limits admit this number of workers and of readers.
    fn new(half: usize) -> Crowd {
        let config = DispatcherConfig {
            workers_max: half + 1,
            clients_max: half,
            sessions_max: 2 * half + 2,
            ..DispatcherConfig::default()
        };
        Crowd {
            machine: Dispatcher::new(config, BootId(1), Moment::ZERO),
            now: Moment::ZERO,
            numbers: 0,
            reply: None,
            listed: 0,
            tasks: Vec::new(),
        }
    }

    fn register(&mut self, worker: usize) -> Result<(), String> {
        let registration = WorkerRegistration {
            address: format!("10.{}.{}.{}:5051", worker >> 16, worker >> 8 & 255, worker & 255),
            tags: Vec::new(),
            ticket_key: TicketKey::from_bytes([1; 32]),
            version: String::new(),
            whereabouts: Whereabouts::default(),
            local_socket: None,
        };
        let request = Request::RegisterWorker(registration);
        self.ask(working(worker), Role::Worker, request).map(drop)
    }

    fn job(&mut self) -> Result<JobId, String> {
        let register = Request::RegisterDataset {
            id: None,
            definition: vec![7; 500],
            facts: DatasetFacts {
                spec: vec![1; 40],
                cardinality: Cardinality::Finite(1 << 20),
                splittable: Ok(()),
                aligned: Ok(()),
                not_by_files: None,
                has_shard_hint: false,
                compression: None,
            },
        };
        let Reply::Dataset(dataset) = self.ask(reading(0), Role::Submit, register)? else {
            return Err("expected a dataset".to_owned());
        };
        let parameters = JobParameters {
            in_order: true,
            ..JobParameters::new(dataset, Policy::Dynamic)
        };
        let create = Request::CreateJob {
            name: Some("crowd".to_owned()),
            parameters,
        };
        let Reply::Job(job) = self.ask(reading(0), Role::Submit, create)? else {
            return Err("expected a job".to_owned());
        };
        Ok(job)
    }

    fn open(&mut self, reader: usize, job: JobId) -> Result<ClientId, String> {
        let open = Request::OpenIteration {
            job,
            repetition: 0,
            consumer: None,
            whereabouts: Whereabouts::default(),
        };
        let Reply::Client(client, _) = self.ask(reading(reader), Role::Submit, open)? else {
            return Err("expected a client".to_owned());
        };
        Ok(client)
    }

    /// Handles a heartbeat of every peer, and the searches for silent peers until the next one. Returns the
    /// number of cores that this takes.
    fn heartbeats(&mut self, clients: &[ClientId]) -> f64 {
        let config = DispatcherConfig::default();
        let began = Instant::now();
        for (peer, client) in clients.iter().enumerate() {
            self.event(Event::Heartbeat {
                session: working(peer),
                worker: true,
                clients: Vec::new(),
            });
            self.event(Event::Heartbeat {
                session: reading(peer),
                worker: false,
                clients: vec![*client],
            });
        }
        let mut passed = Duration::ZERO;
        while passed < config.heartbeat_interval {
            passed += config.sweep_interval;
            self.now += config.sweep_interval;
            self.event(Event::Woken);
        }
        began.elapsed().as_secs_f64() / passed.as_secs_f64()
    }

    /// Requests splits for all tasks in turn. Returns the seconds of a request after the first of each task.
    fn lease(&mut self) -> Result<f64, String> {
        let tasks = self.tasks.clone();
        let mut request = |(session, task), unstarted| {
            let pace = SplitPace {
                per_1000_s: SPLITS_PER_1000_S,
                unstarted,
                can_wait: true,
            };
            let request = Request::LeaseSplits {
                task,
                source: 0,
                repetition: 0,
                want: 8,
                pace: Some(pace),
                is_idle: false,
            };
            self.ask(session, Role::Worker, request).map(drop)
        };
        tasks.iter().try_for_each(|task| request(*task, 0))?;
        let began = Instant::now();
        let mut later = tasks.iter().cycle().take(LEASES);
        later.try_for_each(|task| request(*task, 1))?;
        Ok(began.elapsed().as_secs_f64() / LEASES as f64)
    }

    fn ask(&mut self, session: SessionId, role: Role, request: Request) -> Result<Reply, String> {
        self.numbers += 1;
        self.event(Event::Asked(Incoming {
            token: ReplyToken(self.numbers),
            session,
            role,
            number: Some(RequestNumber(self.numbers)),
            settled_below: RequestNumber(self.numbers),
            request,
        }));
        self.reply.take().ok_or("no answer")?
    }

    fn event(&mut self, event: Event) {
        self.machine.handle(event, self.now);
        while self.machine.has_batch() {
            for action in self.machine.take_batch().actions {
                match action {
                    Action::Reply { result, .. } => {
                        self.reply = Some(result.map_err(|error| error.to_string()));
                    }
                    Action::PlanSplits { iteration, .. } => {
                        let sources = vec![SourcePlan::Counted { splits: 1 << 20 }];
                        let result = Ok(SplitPlan { sources, seed: 0 });
                        let planned = Event::SplitsPlanned { iteration, result };
                        self.machine.handle(planned, self.now);
                    }
                    Action::PushClient {
                        push: ClientPush::Snapshot(snapshot),
                        ..
                    } => self.listed = snapshot.tasks.len(),
                    Action::PushWorker {
                        session,
                        push: WorkerPush::Start { task },
                    } => self.tasks.push((session, task)),
                    Action::PushClient { .. }
                    | Action::PushWorker { .. }
                    | Action::ProbeWorker { .. }
                    | Action::Disconnect { .. } => {}
                }
            }
        }
    }
}

/// Returns the session of a worker.
fn working(worker: usize) -> SessionId {
    SessionId(2 * worker as u64 + 1)
}

/// Returns the session of a reader.
fn reading(reader: usize) -> SessionId {
    SessionId(2 * reader as u64 + 2)
}

/// Returns the memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}
