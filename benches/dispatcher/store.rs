//! The work directory: its size after many jobs were created and deleted, and the start time of a dispatcher
//! with many records.
//!
//! The benchmark runs the dispatcher's state machine and store, without sockets.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use millstream::control::{
    Action, BootId, Cardinality, Change, ClientId, DatasetFacts, DiskStore, Dispatcher, DispatcherConfig,
    Event, Incoming, JobParameters, Key, Moment, Policy, Reply, ReplyToken, Request, RequestNumber,
    SessionId, SourcePlan, SplitPlan, Store, WorkerRegistration,
};
use millstream::link::{Role, TicketKey};

use super::Scale;
use super::processes::own_cpu_seconds;
use super::table;

/// The number of jobs that are created and deleted.
const JOBS: usize = 10_000;
const JOBS_SMALL: usize = 10;
/// The minimum number of records that are loaded.
const RECORDS: usize = 100_000;
const RECORDS_SMALL: usize = 100;
/// The number of jobs in one commit, as if they were requested at the same time.
const GROUP: usize = 100;
/// The time after which all leases, timeouts and grace periods of a silent process have passed.
const SILENCE: Duration = Duration::from_secs(120);
/// The size of a dataset's definition in bytes.
const DEFINITION_BYTES: usize = 500;

/// Measures the size of the work directory and the start time.
pub(crate) fn run(scale: Scale) -> Result<(), String> {
    collected(scale.pick(JOBS, JOBS_SMALL))?;
    loaded(scale.pick(RECORDS, RECORDS_SMALL))
}

/// Checks the size of the file after a restart: at most 16 MiB, or twice the maximum of the stored bytes.
fn collected(jobs: usize) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut deployment = Deployment::start(folder.path())?;
    let mut clients = Vec::new();
    for _ in 0..jobs {
        clients.push(deployment.start_job()?);
        if clients.len() % GROUP == 0 {
            deployment.commit()?;
        }
    }
    deployment.commit()?;
    let (records, peak_bytes) = (deployment.stored.len(), deployment.stored_bytes());
    for client in clients {
        deployment.ask(Role::Submit, Request::Release { client })?;
    }
    // Every process stays silent for longer than all its leases. The steps are short, so that the dispatcher
    // itself never counts as stopped.
    let end = deployment.now + SILENCE;
    while deployment.now < end {
        deployment.now += config().sweep_interval;
        deployment.event(Event::Woken);
        deployment.commit()?;
    }
    let left = deployment.stored.len();
    if left > 1 {
        return Err(format!(
            "expected no records after all processes have gone, found {left}"
        ));
    }
    let before = file_bytes(folder.path())?;
    drop(deployment);
    let began = Instant::now();
    drop(DiskStore::open(folder.path()).map_err(|error| error.to_string())?);
    let seconds = began.elapsed().as_secs_f64();
    let after = file_bytes(folder.path())?;
    let limit = (16 << 20).max(2 * peak_bytes);
    table::say(&format!(
        "store: {jobs} jobs came and went, {records} records of {} at most; {left} are left. The file has {}, after a restart \
         of {seconds:.3} s {} (asked for: at most {})",
        mib(peak_bytes),
        mib(before),
        mib(after),
        mib(limit)
    ))?;
    if after > limit {
        return Err(format!(
            "expected a store file of at most {} after a restart, found {}",
            mib(limit),
            mib(after)
        ));
    }
    Ok(())
}

fn loaded(records: usize) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut deployment = Deployment::start(folder.path())?;
    while deployment.stored.len() < records {
        for _ in 0..GROUP {
            deployment.start_job()?;
        }
        deployment.commit()?;
    }
    let (records, bytes) = (deployment.stored.len(), deployment.stored_bytes());
    drop(deployment);
    let (began, cpu) = (Instant::now(), own_cpu_seconds());
    let mut store = DiskStore::open(folder.path()).map_err(|error| error.to_string())?;
    let opened = began.elapsed().as_secs_f64();
    let loaded = store.load().map_err(|error| error.to_string())?;
    let read = began.elapsed().as_secs_f64();
    if loaded.len() != records {
        return Err(format!(
            "expected {records} records in the store, found {}",
            loaded.len()
        ));
    }
    let machine = Dispatcher::load(config(), loaded, BootId(2), Moment::ZERO);
    let all = began.elapsed().as_secs_f64();
    let cpu = own_cpu_seconds() - cpu;
    table::say(&format!(
        "store: a dispatcher with {records} records of {} starts in {all:.3} s: {opened:.3} s to open and verify the file, {:.3} s \
         to read, {:.3} s to load {} jobs; {cpu:.2} s of processor time (asked for: 1 s)",
        mib(bytes),
        read - opened,
        all - read,
        machine.status().counts.jobs
    ))
}

fn config() -> DispatcherConfig {
    let soon = Duration::from_secs(1);
    DispatcherConfig {
        job_gc_check_interval: Duration::ZERO,
        job_gc_timeout: Some(soon),
        gc_dynamic_sharding_jobs: true,
        dataset_gc_timeout: Some(soon),
        client_timeout: soon,
        worker_timeout: soon,
        datasets_max: RECORDS,
        ..DispatcherConfig::default()
    }
}

/// The dispatcher's state machine with its store.
struct Deployment {
    machine: Dispatcher,
    store: DiskStore,
    now: Moment,
    numbers: u64,
    /// The size in bytes of each stored record.
    stored: BTreeMap<Key, usize>,
    replies: Vec<Result<Reply, millstream::control::Error>>,
    /// The decided changes that wait for the commit.
    changes: Vec<Change>,
}

impl Deployment {
    /// Starts a deployment with one worker.
    fn start(folder: &Path) -> Result<Deployment, String> {
        let store = DiskStore::open(folder).map_err(|error| error.to_string())?;
        let mut deployment = Deployment {
            machine: Dispatcher::new(config(), BootId(1), Moment::ZERO),
            store,
            now: Moment::ZERO,
            numbers: 0,
            stored: BTreeMap::new(),
            replies: Vec::new(),
            changes: Vec::new(),
        };
        let registration = WorkerRegistration {
            address: "worker:1".to_owned(),
            tags: Vec::new(),
            ticket_key: TicketKey::from_bytes([1; 32]),
            version: String::new(),
            whereabouts: millstream::control::Whereabouts::default(),
            local_socket: None,
        };
        deployment.ask(Role::Worker, Request::RegisterWorker(registration))?;
        Ok(deployment)
    }

    /// Creates a dataset, its job under DYNAMIC, and a reader.
    fn start_job(&mut self) -> Result<ClientId, String> {
        let register = Request::RegisterDataset {
            id: None,
            definition: vec![7; DEFINITION_BYTES],
            facts: facts(),
        };
        let Reply::Dataset(dataset) = self.ask(Role::Submit, register)? else {
            return Err("no dataset".to_owned());
        };
        let create = Request::CreateJob {
            name: None,
            parameters: JobParameters::new(dataset, Policy::Dynamic),
        };
        let Reply::Job(job) = self.ask(Role::Submit, create)? else {
            return Err("no job".to_owned());
        };
        let open = Request::OpenIteration {
            job,
            repetition: 0,
            consumer: None,
            whereabouts: millstream::control::Whereabouts::default(),
        };
        let Reply::Client(client, _) = self.ask(Role::Submit, open)? else {
            return Err("no client".to_owned());
        };
        Ok(client)
    }

    fn ask(&mut self, role: Role, request: Request) -> Result<Reply, String> {
        self.numbers += 1;
        let incoming = Incoming {
            token: ReplyToken(self.numbers),
            session: SessionId(role as u64),
            role,
            number: Some(RequestNumber(self.numbers)),
            settled_below: RequestNumber(self.numbers),
            request,
        };
        self.event(Event::Asked(incoming));
        let reply = self.replies.pop().ok_or("no answer")?;
        reply.map_err(|error| error.to_string())
    }

    /// Handles an event, and commits the resulting changes.
    fn event(&mut self, event: Event) {
        self.machine.handle(event, self.now);
        while self.machine.has_batch() {
            let batch = self.machine.take_batch();
            self.changes.extend(batch.changes);
            for action in batch.actions {
                match action {
                    Action::Reply { result, .. } => self.replies.push(result),
                    Action::PlanSplits { iteration, .. } => {
                        let sources = vec![SourcePlan::Counted { splits: 1000 }];
                        let result = Ok(SplitPlan { sources, seed: 0 });
                        self.machine
                            .handle(Event::SplitsPlanned { iteration, result }, self.now);
                    }
                    Action::PushClient { .. }
                    | Action::PushWorker { .. }
                    | Action::ProbeWorker { .. }
                    | Action::Disconnect { .. } => {}
                }
            }
        }
    }

    fn commit(&mut self) -> Result<(), String> {
        let changes = std::mem::take(&mut self.changes);
        for change in &changes {
            match change {
                Change::Put(record) => {
                    let (key, bytes) = (record.key(), record.to_bytes().len());
                    let bytes = key.to_bytes().len() + bytes;
                    self.stored.insert(key, bytes);
                }
                Change::Delete(key) => {
                    self.stored.remove(key);
                }
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.store.commit(&changes).map_err(|error| error.to_string())
    }

    fn stored_bytes(&self) -> u64 {
        self.stored.values().sum::<usize>() as u64
    }
}

fn facts() -> DatasetFacts {
    DatasetFacts {
        spec: vec![1; 40],
        cardinality: Cardinality::Finite(1000),
        splittable: Ok(()),
        aligned: Ok(()),
        not_by_files: None,
        has_shard_hint: false,
        compression: None,
    }
}

fn file_bytes(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let metadata = entry.and_then(|entry| entry.metadata());
        bytes += metadata.map_err(|error| error.to_string())?.len();
    }
    Ok(bytes)
}

fn mib(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}
